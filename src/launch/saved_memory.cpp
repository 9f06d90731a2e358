#include "launch/saved_memory.h"

#include "launch/tensor_object.h"

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
  static auto *saved = new std::map<PyObject *, Saved>; // outlives the interpreter
  return *saved;
}

/// Empty when it is gone.
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

void noteSavedWrites(const std::vector<Plan::Access> &accesses) {
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
    bool isWritten = std::any_of(accesses.begin(), accesses.end(), [&](const Plan::Access &access) {
      auto [first, last] = access.input->isWritten ? getMemoryRange(access.object) : MemoryRange();
      return first < end && begin < last;
    });
    if (isWritten) changed.push_back(std::move(tensor));
  }
  hasSavedMemory = !saved.empty();
  for (const Ref &tensor : changed) call("quadrants._foreign", "raise_version", "O", tensor.get());
}

} // namespace qd::launch
