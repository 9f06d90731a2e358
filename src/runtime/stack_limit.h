// stack_limit.h: limits the stack of recursive functions in kernels
#pragma once

#include <cstdint>

namespace qd::runtime {

/// The lowest address that compiled code may use in the stack of the calling thread, or of the thread of a block that it is running. The
/// runtime needs the space below it for its own calls from the deepest one.
uint64_t getStackLimit();

} // namespace qd::runtime
