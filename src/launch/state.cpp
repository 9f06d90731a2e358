#include "launch/state.h"

#include "launch/kernel.h"
#include "launch/tensor_object.h"
#include "launch/transfer.h"
#include "support/error.h"

namespace qd::launch {

State &getState() {
  static auto *state = new State; // never destroyed: threads may still run when the process ends
  return *state;
}

void requireActive() {
  if (!getState().isActive)
    throw support::Error(support::ErrorKind::Runtime, "there is no runtime. Maybe you forgot to call `qd.init()` first?");
}

void resetState() {
  State &state = getState();
  try {
    // Ctrl-C ends the wait for a grid that never ends, and the runtime stays as it is.
    if (state.device) synchronize();
  } catch (const support::Error &) {
    // A fault of a kernel: the runtime ends all the same, and the next one begins anew.
  }
  releaseAllTensors();
  state.isActive = false;
  ++state.epoch;
  releaseAllKernels();
  state.cache.reset();
  state.memory = nullptr;
  Py_CLEAR(state.interpreter);
}

} // namespace qd::launch
