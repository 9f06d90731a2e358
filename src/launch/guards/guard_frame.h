// guard_frame.h: the memory in which one launch checks its guards and reads its arguments
#pragma once

#include "launch/containers/transfer.h"
#include "launch/python.h"

#include <vector>

namespace qd::launch {

class FusedLaunch;
struct State;

enum class GuardResult { Passed, Failed, ReadOnly, Shared };

/// Lies on the caller's stack.
struct GuardFrame {
  unsigned char *block = nullptr; ///< argument block
  PyObject **slots = nullptr;     ///< slotCount: objects that the steps found, borrowed
  PyObject **owned = nullptr;     ///< slotCount: references to release after the launch
  size_t ownedCount = 0;
  uint64_t time = 0;                 ///< of the program; another one there: another launch has run since
  std::vector<HostArray> hostArrays; ///< arrays in memory that the device cannot read
  void *stream = nullptr;            ///< stream in which another library works on its arrays; null: ordered after everything
  FusedLaunch *fused = nullptr;      ///< records the gradients that the launch writes
  bool isTrial = false;              ///< no launch follows: lazily zeroed containers stay as they are
  bool isComplete = true;            ///< all dictionaries that were read for captured names are watched
  bool ranPython = false;            ///< user code may have run during the walk: what was read before it is checked again
  const State *state = nullptr;      ///< the program before user code ran,
  uint64_t epoch = 0, launches = 0;  ///< its epoch and number of launches

  ~GuardFrame() {
    while (ownedCount) Py_DECREF(owned[--ownedCount]);
  }
  /// `memory` has room for two pointers for each slot.
  void place(PyObject **memory, size_t slotCount) {
    slots = memory;
    owned = memory + slotCount;
  }
};

} // namespace qd::launch
