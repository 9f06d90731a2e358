// bound_guards.cpp: guards for a launch on the binding of a recorded call
//
// Two kernels of one function reach the same objects by the same paths. The objects that the recorded call found therefore replace a new
// look-up, whatever the names are bound to now. Objects that the recorded call did not read (`.grad`) are fetched starting from these.
#include "launch/guards/launch_guards.h"

#include <cstring>
#include <map>

namespace qd::launch {

std::unique_ptr<LaunchGuards::Link> LaunchGuards::link(const LaunchGuards &other) const {
  constexpr int32_t kNone = -1;
  std::map<std::pair<int32_t, std::string_view>, int32_t> known;
  using Kind = GuardStep::Kind;
  const GuardProgram &others = other.program;
  for (size_t slot = 0; slot < others.slotCount; ++slot) known[{others.origins[slot].parent, others.origins[slot].step}] = int32_t(slot);
  auto made = std::make_unique<Link>();
  std::vector<int32_t> slots; // by own slot: the slot of the other guards, or kNone
  for (const GuardProgram::Origin &origin : program.origins) {
    int32_t parent = origin.parent < 0 ? kNone : slots[size_t(origin.parent)];
    auto found = origin.parent >= 0 && parent == kNone ? known.end() : known.find({parent, origin.step});
    if (found != known.end()) made->slots.push_back({uint16_t(slots.size()), uint16_t(found->second)});
    slots.push_back(found == known.end() ? kNone : found->second);
  }
  std::multimap<std::pair<Kind, int32_t>, size_t> otherSteps; // guards and values of the other guards, by slot
  for (const GuardProgram::Steps *list : {&others.captureSteps, &others.steps})
    for (const GuardStep &step : *list) otherSteps.insert({{step.kind, step.slot}, size_t(step.index)});

  // Constants in the code that ran have their values of that time, even if the object has changed since.
  auto isSameConstant = [&](const Guard &guard, int32_t slot) {
    auto [first, last] = otherSteps.equal_range({Kind::Guard, slot});
    for (auto found = first; found != last; ++found) {
      const Guard &same = others.guards[found->second];
      if (guard.kind != same.kind || !guard.hasDigest || !same.hasDigest) continue;
      made->fits &= guard.digestOfText == same.digestOfText;
      return true;
    }
    return false;
  };
  auto isCopied = [&](const ValueInput &value, int32_t slot) {
    const layout::ValueType &type = value.input->type;
    auto [first, last] = otherSteps.equal_range({Kind::Value, slot});
    for (auto found = first; found != last; ++found) {
      const ValueInput &same = other.writer.values[found->second];
      if (type != same.input->type) continue;
      made->copies.push_back({value.offset, same.offset, uint32_t(size_t(type.componentCount()) * getByteSize(type.scalar))});
      return true;
    }
    return false;
  };
  for (const GuardProgram::Steps *list : {&program.captureSteps, &program.steps})
    for (const GuardStep &step : *list) {
      int32_t slot = slots[step.slot];
      bool isDone = false;
      switch (step.kind) {
      case Kind::Captured: isDone = true; break;
      case Kind::Argument:
        made->fits &= slot != kNone;
        isDone = true;
        break;
      case Kind::Guard: isDone = slot != kNone && isSameConstant(program.guards[size_t(step.index)], slot); break;
      case Kind::Value: isDone = slot != kNone && isCopied(writer.values[size_t(step.index)], slot); break;
      case Kind::Tensor: break;
      default:
        isDone = slot != kNone;
        if (isDone && !step.mayBeMissing) made->required.push_back(&step);
      }
      if (!isDone) made->rest.push_back(step);
    }
  return made;
}

GuardResult LaunchGuards::readBound(Link &link, const std::vector<Ref> &objects, const unsigned char *block, GuardFrame &frame) {
  writer.refusal.reset();
  program.fail("something that the compiled code depends on");
  if (!link.fits) return GuardResult::Failed;
  memset(frame.slots, 0, getSlotCount() * sizeof(PyObject *));
  program.beginTime(frame);
  for (auto [own, other] : link.slots) frame.slots[own] = objects[other].get();
  for (const GuardStep *step : link.required)
    if (!frame.slots[step->slot]) {
      program.fail(step->path->name);
      return GuardResult::Failed;
    }
  for (const Link::Copy &copy : link.copies) memcpy(frame.block + copy.to, block + copy.from, copy.bytes);
  if (GuardResult fit = program.walk(link.rest, nullptr, frame); fit != GuardResult::Passed) return fit;
  return checkAliases(frame);
}

} // namespace qd::launch
