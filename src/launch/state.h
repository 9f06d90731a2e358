// state.h: programs, each a runtime from qd.init to qd.reset. Containers and launches belong to the program that is current when they are
// made.
#pragma once

#include "artifact/disk_cache.h"
#include "launch/python.h"
#include "runtime/device.h"
#include "support/options.h"

#include <cstdint>
#include <memory>

namespace qd::launch {

struct State {
  bool isActive = false;
  uint64_t epoch = 0; ///< increased by each reset and unique among programs: code that was specialized in another epoch is gone
  uint64_t launches = 0;
  uint64_t draws = 0; ///< launches of kernels that draw random numbers, since the seed was set
  support::Options options;
  std::shared_ptr<runtime::Device> device;
  std::shared_ptr<runtime::DeviceMemory> memory; ///< memory of the containers; null: memory of the processor
  std::shared_ptr<artifact::DiskCache> cache;    ///< null with offline_cache=False; users hold a reference, as another thread may reset
  void *externalStream = nullptr;                ///< for launches that name no stream; null: the driver's default one
  PyObject *interpreter = nullptr;               ///< called instead of compiled code on arch=python; owned
  uint64_t compiled = 0, loaded = 0;             ///< kernels compiled and kernels taken from disk since init
};

/// States are never destroyed: threads may still use them when the process ends or after their program was given back.
extern State *currentState;
inline State &getState() { return *currentState; }
/// A state that no program uses; `giveBackState` ends what runs in it.
State &takeState();
void giveBackState(State &state);
/// Makes another program the current one for all threads; returns the previous one.
State &switchState(State &next);
/// The stream that this thread has chosen for its launches; null: none.
inline thread_local void *currentStream = nullptr;
/// The stream for launches of this thread; null: the driver's default one.
inline void *getStream() { return currentStream ? currentStream : getState().externalStream; }
/// Throws Error (Runtime) 'Maybe you forgot to call `qd.init()` first?'.
void requireActive();
/// Ends the runtime: containers lose their memory, kernels their code. Throws PythonError when Ctrl-C ends the wait for running launches.
void resetState();

} // namespace qd::launch
