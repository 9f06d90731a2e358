// saved_memory.cpp: increases the version counters of saved torch tensors when launches write to their memory
//
// In:   tensors that torch saves for a gradient, and the arrays that a launch writes.
// Out:  a higher counter for each saved tensor whose memory was written; torch then refuses its gradient instead of computing a wrong one.
#include "launch/tape/saved_memory.h"

#include "launch/containers/tensor_object.h"

#include <algorithm>
#include <map>

namespace qd::launch {

namespace {
struct Saved {
  MemoryRange range;
  Ref weak;
};
} // namespace

static std::map<PyObject *, Saved> &getSaved() {
  static auto *saved = new std::map<PyObject *, Saved>; // never destroyed: it outlives the interpreter
  return *saved;
}

/// Empty when the tensor no longer exists.
static Ref getTensor(const Saved &saved) {
  Ref found = Ref::adopt(PyObject_CallNoArgs(saved.weak.get()));
  return found.get() == Py_None ? Ref() : found;
}

void noteSaved(PyObject *tensor) {
  std::map<PyObject *, Saved> &saved = getSaved();
  std::erase_if(saved, [](const auto &entry) { return !getTensor(entry.second); });
  saved[tensor] = {getMemoryRange(tensor), Ref::adopt(PyWeakref_NewRef(tensor, nullptr))};
  hasSavedMemory = true;
}

static void noteWrites(const std::vector<MemoryRange> &written) {
  std::map<PyObject *, Saved> &saved = getSaved();
  std::vector<Ref> changed;
  for (auto entry = saved.begin(); entry != saved.end();) {
    Ref tensor = getTensor(entry->second);
    if (!tensor) {
      entry = saved.erase(entry);
      continue;
    }
    auto [begin, end] = entry->second.range;
    ++entry;
    bool isWritten =
        std::any_of(written.begin(), written.end(), [&](const MemoryRange &range) { return range.first < end && begin < range.second; });
    if (isWritten) changed.push_back(std::move(tensor));
  }
  hasSavedMemory = !saved.empty();
  for (const Ref &tensor : changed) call("quadrants._containers.foreign", "raise_version", "O", tensor.get());
}

void noteSavedWrites(const std::vector<LaunchGuards::Access> &accesses) {
  std::vector<MemoryRange> written;
  for (const LaunchGuards::Access &access : accesses)
    if (access.input->isWritten) written.push_back(getMemoryRange(access.object));
  noteWrites(written);
}

void noteSavedWrite(PyObject *object) { noteWrites({getMemoryRange(object)}); }

} // namespace qd::launch
