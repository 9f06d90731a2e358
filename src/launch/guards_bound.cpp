// guards_bound.cpp: guards for a launch on the binding of a recorded call
//
// Two kernels of one function reach the same objects by the same paths. The objects that the recorded call found therefore replace a new
// look-up, whatever the names are bound to now. Objects that the recorded call did not read (`.grad`) are fetched starting from these.
#include "launch/guards_parts.h"

#include <cstring>
#include <map>

namespace qd::launch {

std::vector<Ref> LaunchGuards::listObjects(const GuardFrame &frame) const {
  std::vector<Ref> objects;
  objects.reserve(slotCount);
  for (size_t slot = 0; slot < slotCount; ++slot)
    objects.push_back(Ref::borrow(origins[slot].isCaptured ? captured[slot] : frame.slots[slot]));
  return objects;
}

std::unique_ptr<LaunchGuards::Link> LaunchGuards::link(const LaunchGuards &other) const {
  constexpr int32_t kNone = -1;
  std::map<std::pair<int32_t, std::string_view>, int32_t> known;
  for (size_t slot = 0; slot < other.slotCount; ++slot) known[{other.origins[slot].parent, other.origins[slot].step}] = int32_t(slot);
  auto made = std::make_unique<Link>();
  std::vector<int32_t> slots; // by own slot: the slot of the other guards, or kNone
  for (const Origin &origin : origins) {
    int32_t parent = origin.parent < 0 ? kNone : slots[size_t(origin.parent)];
    auto found = origin.parent >= 0 && parent == kNone ? known.end() : known.find({parent, origin.step});
    if (found != known.end()) made->slots.push_back({uint16_t(slots.size()), uint16_t(found->second)});
    slots.push_back(found == known.end() ? kNone : found->second);
  }
  std::multimap<std::pair<StepKind, int32_t>, size_t> otherSteps; // guards and values of the other guards, by slot
  for (const std::vector<Step> *list : {&other.captureSteps, &other.steps})
    for (const Step &step : *list) otherSteps.insert({{step.kind, step.slot}, size_t(step.index)});

  // Constants in the code that ran have their values of that time, even if the object has changed since.
  auto isSameConstant = [&](const Guard &guard, int32_t slot) {
    auto [first, last] = otherSteps.equal_range({StepKind::Guard, slot});
    for (auto found = first; found != last; ++found) {
      const Guard &same = other.guards[found->second];
      if (guard.kind != same.kind || !guard.hasDigest || !same.hasDigest) continue;
      made->fits &= guard.digest == same.digest;
      return true;
    }
    return false;
  };
  auto isCopied = [&](const ValueInput &value, int32_t slot) {
    const layout::ValueType &type = value.input->type;
    auto [first, last] = otherSteps.equal_range({StepKind::Value, slot});
    for (auto found = first; found != last; ++found) {
      const ValueInput &same = other.values[found->second];
      if (type != same.input->type) continue;
      made->copies.push_back({value.offset, same.offset, uint32_t(size_t(type.componentCount()) * getByteSize(type.scalar))});
      return true;
    }
    return false;
  };
  for (const std::vector<Step> *list : {&captureSteps, &steps})
    for (const Step &step : *list) {
      int32_t slot = slots[step.slot];
      bool isDone = false;
      switch (step.kind) {
      case StepKind::Captured: isDone = true; break;
      case StepKind::Argument:
        made->fits &= slot != kNone;
        isDone = true;
        break;
      case StepKind::Guard: isDone = slot != kNone && isSameConstant(guards[size_t(step.index)], slot); break;
      case StepKind::Value: isDone = slot != kNone && isCopied(values[size_t(step.index)], slot); break;
      case StepKind::Tensor: break;
      default:
        isDone = slot != kNone;
        if (isDone && !step.mayBeMissing) made->required.push_back(&step);
      }
      if (!isDone) made->rest.push_back(step);
    }
  return made;
}

GuardResult LaunchGuards::readBound(Link &link, const std::vector<Ref> &objects, const unsigned char *block, GuardFrame &frame) {
  refusal.reset();
  guardFailure = {"something that the compiled code depends on", nullptr};
  if (!link.fits) return GuardResult::Failed;
  memset(frame.slots, 0, slotCount * sizeof(PyObject *));
  memset(frame.dicts, 0, slotCount * sizeof(PyObject *));
  for (auto [own, other] : link.slots) frame.slots[own] = objects[other].get();
  for (const Step *step : link.required)
    if (!frame.slots[step->slot]) {
      guardFailure = {step->path->name, nullptr};
      return GuardResult::Failed;
    }
  for (const Link::Copy &copy : link.copies) memcpy(frame.block + copy.to, block + copy.from, copy.bytes);
  if (GuardResult fit = walk(link.rest, nullptr, frame); fit != GuardResult::Passed) return fit;
  if (hasMoved && hasExclusive && findOverlap(frame.slots)) return GuardResult::Failed;
  hasMoved = false;
  return GuardResult::Passed;
}

} // namespace qd::launch
