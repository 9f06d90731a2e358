// state.h: programs, each a runtime from qd.init to qd.reset. One of them is current: what is made and launched belongs to it.
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
  uint64_t epoch = 0; ///< a new one from each reset on, and no other program's: what was specialized under another number is gone
  uint64_t launches = 0;
  uint64_t seededAt = 0; ///< `launches` when the random numbers began
  support::Options options;
  std::shared_ptr<runtime::Device> device;
  std::shared_ptr<runtime::DeviceMemory> memory; ///< where the containers lie; null: in the processor's
  std::shared_ptr<artifact::DiskCache> cache;    ///< null with offline_cache=False; who uses it holds it, as another thread may reset
  PyObject *interpreter = nullptr;               ///< called in place of compiled code on arch=python; owned
  uint64_t compiled = 0, loaded = 0;             ///< kernels compiled and kernels taken from disk since init
};

/// States are never destroyed: threads may still run when the process ends, or when nobody has a program any more.
extern State *currentState;
inline State &getState() { return *currentState; }
/// A state that nobody has; `giveBackState` ends what runs in it.
State &takeState();
void giveBackState(State &state);
/// Makes another program the current one, for all threads; returns the one before.
State &switchState(State &next);
/// The stream that launches of this thread go to; null: the default one.
inline thread_local void *currentStream = nullptr;
/// Called in place of the kernels that this thread calls, as watcher(kernel, arguments, keywords or None); none while it runs. Owned.
inline thread_local PyObject *watcher = nullptr;
/// Called before Python writes to a container, as writeWatcher(container, index or None); none while it runs. Owned.
inline thread_local PyObject *writeWatcher = nullptr;
/// Throws Error (Runtime) 'Maybe you forgot to call `qd.init()` first?'.
void requireActive();
/// Ends the runtime: containers lose their memory, kernels their code. Throws PythonError where Ctrl-C ends the wait for what runs.
void resetState();

} // namespace qd::launch
