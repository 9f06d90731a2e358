// launch_guards.cpp: checks the guards of one launch and fills its argument block
//
// In:   the arguments of a call.
// Out:  a frame from which the kernel can run, or the first guard that failed.
// Here: puts the steps, the writer and the alias check in order, and repeats what user code may have made invalid.
#include "launch/guards/launch_guards.h"

#include "launch/state.h"

namespace qd::launch {

int LaunchGuards::traverse(visitproc visit, void *arg) const {
  int stop = writer.traverse(visit, arg);
  return stop ? stop : program.traverse(visit, arg);
}

GuardResult LaunchGuards::read(PyObject *const *arguments, GuardFrame &frame) {
  if (GuardResult fit = program.run(arguments, frame); fit != GuardResult::Passed) return fit;
  if (frame.ranPython) [[unlikely]] {
    const State &state = getState();
    if (&state != frame.state || state.epoch != frame.epoch) return GuardResult::Failed;
    if (GuardResult fit = writer.rewriteTensors(frame); fit != GuardResult::Passed) return fit;
    writer.hasMoved |= state.launches != frame.launches; // it may have launched this kernel
  }
  return checkAliases(frame);
}

GuardResult LaunchGuards::checkAliases(const GuardFrame &frame) {
  if (writer.hasMoved && aliases.isNeeded())
    if (const artifact::Input *shared = aliases.findOverlap(frame.slots)) {
      program.fail(shared->name);
      return GuardResult::Failed;
    }
  writer.hasMoved = false;
  return GuardResult::Passed;
}

std::vector<std::pair<const artifact::Input *, size_t>> LaunchGuards::listTensors() const {
  std::vector<std::pair<const artifact::Input *, size_t>> tensors;
  for (size_t i = 0; i < writer.tensors.size(); ++i) tensors.emplace_back(writer.tensors[i].input, writer.tensorSlots[i]);
  return tensors;
}

std::vector<LaunchGuards::Access> LaunchGuards::listAccesses(const GuardFrame &frame) const {
  std::vector<Access> accesses;
  for (size_t i = 0; i < writer.tensors.size(); ++i) accesses.push_back({frame.slots[writer.tensorSlots[i]], writer.tensors[i].input});
  return accesses;
}

bool LaunchGuards::fits(PyObject *const *arguments, size_t argumentBytes) {
  std::vector<unsigned char> block(argumentBytes + 1);
  std::vector<PyObject *> memory(2 * getSlotCount() + 1);
  GuardFrame frame;
  frame.block = block.data();
  frame.place(memory.data(), getSlotCount());
  return read(arguments, frame) != GuardResult::Failed;
}

} // namespace qd::launch
