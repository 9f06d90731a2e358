// taped_launch.cpp: launches under a tape
//
// In:   a frame whose guards hold.
// Out:  a launch whose accesses the undo log has recorded (`runRecorded`); a gradient that runs on the overwritten primals (`runReplayed`);
// or a kernel run together with its gradient (`runFused`).
#include "launch/launch_frame.h"
#include "launch/state.h"
#include "launch/tape/binding.h"
#include "launch/tape/fused_launch.h"

namespace qd::launch {

/// Runs a gradient that needs some containers as they were before the call.
GuardResult Specialization::runReplayed(KernelObject &kernel, Frame &frame, PyObject *&result) {
  hold(frame);
  std::vector<PyObject *> objects;
  for (const LaunchGuards::Access &access : guards->listAccesses(frame.guards))
    if (!access.input->read.isEmpty) objects.push_back(access.object);
  if (!objects.empty()) TapeContext::exchange(objects, false);
  runDirectly(kernel, frame, result);
  if (!result || objects.empty()) return GuardResult::Passed;
  Ref returned = Ref::adopt(std::exchange(result, nullptr));
  TapeContext::exchange(objects, true);
  result = returned.release();
  return GuardResult::Passed;
}

std::vector<std::pair<size_t, size_t>> Specialization::listForeignWrites(const Specialization &recorded) const {
  std::vector<std::pair<size_t, size_t>> pairs;
  auto isGradient = [](const artifact::Path &path) {
    return !path.steps.empty() && path.steps.back().kind == artifact::PathStep::Kind::Attribute && path.steps.back().name == "grad";
  };
  // The guards have compared a field that the code assumes to have memory of its own with all other inputs of the launch.
  auto isSeparate = [&](const artifact::Input &input) { return &recorded == this && input.isField && !input.mayAlias; };
  for (auto [read, own] : guards->listTensors())
    for (auto [write, written] : recorded.guards->listTensors())
      if (!isSeparate(*read) && !isSeparate(*write) && read->isLoaded && !write->written.isEmpty && read->path != write->path &&
          !isGradient(read->path))
        pairs.emplace_back(own, written);
  return pairs;
}

/// For a gradient that is called without a tape, with the inputs of the call that it belongs to.
void Specialization::requireOwnReads(const Frame &frame) {
  if (!ownForeignWrites) ownForeignWrites = listForeignWrites(*this);
  for (auto [own, written] : *ownForeignWrites) {
    PyObject *read = frame.guards.slots[own], *write = frame.guards.slots[written];
    if (isTensor(read) && isTensor(write)) [[likely]] { // two separate containers, without a call
      const runtime::Tensor &one = getTensor(read), &other = getTensor(write);
      if (one.data + one.range.end <= other.data + other.range.begin || other.data + other.range.end <= one.data + one.range.begin)
        continue;
    }
    if (mayOverlap(read, write)) [[unlikely]]
      return requireOwnReads(*this, guards->listAccesses(frame.guards), frame.guards.block, frame);
  }
}

/// Throws Error (Runtime) if a gradient reads memory that its call has written through another of its inputs: the derivative was taken as
/// if these were two containers, and nothing says which contents it needs.
void Specialization::requireOwnReads(const Specialization &recorded, const UndoLog::Accesses &accesses, const unsigned char *block,
                                     const Frame &frame) const {
  UndoLog::Accesses reads = guards->listAccesses(frame.guards);
  std::erase_if(reads, [](const LaunchGuards::Access &read) { return !read.input->isLoaded || isShadow(read.object); });
  if (reads.empty()) return;
  for (const LaunchGuards::Access &write : accesses) {
    if (write.input->written.isEmpty || isShadow(write.object)) continue;
    for (const LaunchGuards::Access &read : reads) {
      if (read.input->path == write.input->path || !mayOverlap(read.object, write.object)) continue;
      auto same = [&](const LaunchGuards::Access &access) { return access.input->path == read.input->path; };
      auto before = std::find_if(accesses.begin(), accesses.end(), same);
      if (before != accesses.end() && !UndoLog::meet(*before, write, block)) continue;
      throw support::Error(support::ErrorKind::Runtime,
                           "'" + read.input->name + "' and '" + write.input->name + "' of kernel " + recorded.artifact.kernel +
                               " share memory: the call has overwritten what its gradient needs. Pass a copy, or one "
                               "parameter that the kernel reads and writes");
    }
  }
}

/// Passes the binding of the launch to the tapes.
void Specialization::noteBinding(const Frame &frame) {
  if (!TapeContext::recordsBinding()) return;
  const unsigned char *block = frame.guards.block;
  Binding made{shared_from_this(), getState().epoch, guards->listObjects(frame.guards), {block, block + artifact.argumentBytes}};
  TapeContext::noteBinding(makeBinding(std::move(made)));
}

/// Runs a launch that the undo logs record.
GuardResult Specialization::runRecorded(KernelObject &kernel, Frame &frame, PyObject *&result) {
  hold(frame);
  std::vector<LaunchGuards::Access> accesses = guards->listAccesses(frame.guards);
  noteBinding(frame);
  TapeContext::noteBegin(artifact, accesses, frame.guards.block);
  runDirectly(kernel, frame, result);
  Ref returned = result ? Ref::adopt(std::exchange(result, nullptr)) : Ref();
  if (returned) TapeContext::noteEnd(accesses, frame.guards.block);
  // The duration on a device is not known. It counts as long, because a saved launch is worth more there.
  TapeContext::noteSum(findSum(accesses), getState().memory ? UINT64_MAX : lastMicroseconds);
  result = returned.release();
  return GuardResult::Passed;
}

/// The container that the kernel adds to, if that is its only observable effect; borrowed, else null.
PyObject *Specialization::findSum(const std::vector<LaunchGuards::Access> &accesses) const {
  if (!artifact.sites.empty() || artifact.hasPrint || !artifact.results.empty()) return nullptr;
  PyObject *sum = nullptr;
  for (const LaunchGuards::Access &access : accesses) {
    if (!access.input->isWritten) continue;
    if (sum || !access.input->isUpdated || !access.input->read.isEmpty) return nullptr;
    sum = access.object;
  }
  return sum;
}

/// Runs a kernel together with its gradient under a tape. The result is True, or False when that is not possible.
GuardResult Specialization::runFused(KernelObject &kernel, Frame &frame, PyObject *&result) {
  hold(frame);
  FusedLaunch &fused = *frame.guards.fused;
  std::vector<LaunchGuards::Access> accesses = guards->listAccesses(frame.guards);
  bool isPossible = frame.guards.hostArrays.empty() && !frame.guards.stream && fused.isPossible(accesses);
  result = Py_NewRef(isPossible ? Py_True : Py_False);
  if (!isPossible) return GuardResult::Passed;
  Ref answer = Ref::adopt(std::exchange(result, nullptr));
  fused.prepare();
  noteBinding(frame);
  TapeContext::noteBegin(artifact, accesses, frame.guards.block);
  run(kernel, frame, result);
  if (!result) return GuardResult::Passed;
  Ref::adopt(std::exchange(result, nullptr));
  TapeContext::noteEnd(accesses, frame.guards.block);
  fused.finish();
  result = answer.release();
  return GuardResult::Passed;
}

} // namespace qd::launch
