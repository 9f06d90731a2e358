// stack_limit.h: how much stack recursive functions of kernels may use
#pragma once

#include <cstdint>

namespace qd::runtime {

/// The lowest address that the calling thread's stack, or that of the thread of a block which it runs, may be used down to. Below it is
/// room for what the runtime does on top of the deepest call.
uint64_t getStackLimit();

} // namespace qd::runtime
