// state.cpp: switches between programs, and ends them
//
// In:   qd.init, qd.reset and the entering and leaving of a qd.Program.
// Out:  the current State; after a reset, containers without memory and kernels without code.
#include "launch/state.h"

#include "launch/containers/tensor_object.h"
#include "launch/containers/transfer.h"
#include "launch/kernel.h"
#include "runtime/block_threads.h"
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
  if (next.isActive) {
    runtime::setThreadCount(int(next.options.getInt(support::Option::cpu_max_num_threads)));
    runtime::setSubgroupSize(int(next.options.getInt(support::Option::cpu_subgroup_size)));
  }
  return before;
}

void requireActive() {
  if (!getState().isActive)
    throw support::Error(support::ErrorKind::Runtime, "there is no runtime. Maybe you forgot to call `qd.init()` first?");
}

void resetState() {
  State &state = getState();
  try {
    // Ctrl-C ends the wait for a grid that never ends; the runtime then stays unchanged.
    if (state.device) synchronize();
  } catch (const support::Error &) {
    // A kernel has faulted: the runtime ends nevertheless, and the next one starts anew.
  }
  // Destroying these objects may run any Python code, and collecting them may allocate memory. Allocation comes before the state changes,
  // and destruction comes after the state is consistent again.
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
