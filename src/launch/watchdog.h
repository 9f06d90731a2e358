// watchdog.h: has a launch that takes unexpectedly long look for signals
//
// Python handles signals on the main thread only. A launch that was short the last time runs there and looks for them between chunks; where
// it is now one long chunk, a thread of its own asks it to look (QD_LOOK), from 100 ms after its start on, every 50 ms. That thread sleeps
// while nothing is launched.
#pragma once

#include "runtime/kernel_run.h"

#include <atomic>

namespace qd::launch {

/// Lives as long as a launch that runs on the thread that made it. Costs a nanosecond: two stores and two loads, which the other side
/// orders for both (membarrier).
class Watchdog {
public:
  explicit Watchdog(runtime::KernelRun &run) {
    if (__builtin_thread_pointer() != mainThread) return;
    isOnMain = true;
    before = current.load(std::memory_order_relaxed);
    current.store(reinterpret_cast<uintptr_t>(&run.context.failed), std::memory_order_release);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (!isAwake.load(std::memory_order_relaxed)) [[unlikely]]
      wake();
  }
  ~Watchdog() {
    if (!isOnMain) return;
    current.store(before, std::memory_order_release);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    while (isAsking.load(std::memory_order_acquire)) {}
  }
  Watchdog(const Watchdog &) = delete;
  Watchdog &operator=(const Watchdog &) = delete;

  /// Whether the caller is the main thread, as the system says.
  static bool isMainThread();

private:
  struct Thread;
  static void wake() noexcept;

  uintptr_t before = 0; ///< launches of handlers of signals are nested
  bool isOnMain = false;

  static void *mainThread;
  static std::atomic<uintptr_t> current; ///< address of `failed` of the launch on the main thread, 0 for none; odd once it was seen
  static std::atomic<bool> isAwake, isAsking;
};

} // namespace qd::launch
