#include "launch/state.h"

#include "launch/kernel.h"
#include "launch/tensor_object.h"
#include "launch/transfer.h"
#include "runtime/thread_pool.h"
#include "support/error.h"

#include <memory>
#include <utility>
#include <vector>

namespace qd::launch {

static uint64_t lastEpoch;
static std::vector<State *> freeStates;
State *currentState = new State;

State &takeState() {
  State *state = freeStates.empty() ? new State : freeStates.back();
  if (!freeStates.empty()) freeStates.pop_back();
  state->epoch = ++lastEpoch;
  return *state;
}

void giveBackState(State &state) {
  struct Visit {
    State &before;
    ~Visit() { switchState(before); }
  } visit{switchState(state)};
  resetState();
  state.device = nullptr;
  freeStates.push_back(&state);
}

State &switchState(State &next) {
  State &before = *std::exchange(currentState, &next);
  if (next.isActive) runtime::setThreadCount(int(next.options.getInt(support::Option::cpu_max_num_threads)));
  return before;
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
  // What goes may run anything when it goes, and may need memory to be collected: both before and after that all is of one piece.
  std::vector<runtime::BufferRef> buffers;
  std::vector<Specializations> code;
  std::shared_ptr<artifact::DiskCache> cache;
  std::shared_ptr<runtime::DeviceMemory> memory;
  Ref interpreter;
  code = releaseAllKernels();
  buffers = releaseAllTensors();
  state.isActive = false;
  state.epoch = ++lastEpoch;
  cache.swap(state.cache);
  memory.swap(state.memory);
  if (PyObject *object = std::exchange(state.interpreter, nullptr)) interpreter = Ref::adopt(object);
}

} // namespace qd::launch
