// saved_memory.h: memory of tensors that torch keeps for a gradient. Torch refuses the gradient of what was changed in place since, which
// it tells by a count in the tensor; launches that write to the memory raise the count.
#pragma once

#include "launch/guards.h"

namespace qd::launch {

/// Until it is gone.
void noteSaved(PyObject *tensor);
/// Whether there is any such tensor.
inline bool hasSavedMemory = false;
/// Before a launch.
void noteSavedWrites(const std::vector<LaunchGuards::Access> &accesses);
/// Something has written to this container or array.
void noteSavedWrite(PyObject *object);

} // namespace qd::launch
