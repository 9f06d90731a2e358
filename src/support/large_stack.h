// large_stack.h: runs deeply recursive work
#pragma once

#include <cstddef>
#include <functional>

namespace qd::support {

/// Runs `work(0)` to `work(count - 1)` concurrently, each on a thread with a stack of 512 MiB (address space; memory is used as it is
/// touched), and waits for all. Work for which no such thread can be started runs on the calling thread. Rethrows the first exception of
/// `work`.
void runOnLargeStacks(size_t count, const std::function<void(size_t)> &work);

/// Runs `work` on a thread with such a stack. Meanwhile calls `keepWaiting` every 50 ms; when that returns false, returns false and
/// abandons the thread, which ends by itself. `work` must own everything that it uses, and must not throw. What only it owns is destroyed
/// on that thread, while the caller goes on.
bool runLeakingOnCancel(std::function<void()> work, const std::function<bool()> &keepWaiting);

} // namespace qd::support
