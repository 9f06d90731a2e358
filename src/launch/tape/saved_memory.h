// saved_memory.h: memory of tensors that torch saves for a gradient. Torch refuses the gradient when such a tensor was changed in place,
// which it detects by a version counter in the tensor; launches that write to the memory increase the counter.
#pragma once

#include "launch/guards/launch_guards.h"

namespace qd::launch {

/// Registers a saved tensor, for as long as it lives.
void noteSaved(PyObject *tensor);
/// Whether any saved tensor is registered.
inline bool hasSavedMemory = false;
/// Called before a launch.
void noteSavedWrites(const std::vector<LaunchGuards::Access> &accesses);
/// Called after a write to this container or array.
void noteSavedWrite(PyObject *object);

} // namespace qd::launch
