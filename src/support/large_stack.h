// large_stack.h: run something that recurses deeply
#pragma once

#include <cstddef>
#include <functional>

namespace qd::support {

/// Runs `work(0)` to `work(count - 1)` side by side, each on a thread with a stack of 512 MiB (address space; memory is used as it is
/// touched), and waits for all. What gets no such thread runs on this one. An exception of `work` arrives here, the first one of several.
void runOnLargeStacks(size_t count, const std::function<void(size_t)> &work);

/// Runs `work` on a thread with such a stack. Meanwhile calls `keepWaiting` every 50 ms; once that says no, returns false and leaves the
/// thread to end by itself: `work` owns all that it touches, and throws nothing.
bool runLeakingOnCancel(std::function<void()> work, const std::function<bool()> &keepWaiting);

} // namespace qd::support
