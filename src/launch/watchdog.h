// watchdog.h: makes a launch that takes unexpectedly long handle signals
//
// Python handles signals only on the main thread. A launch whose previous run was short runs there and checks for signals between chunks.
// When it turns out to be one long chunk, the watchdog thread requests a check (QD_LOOK), first 100 ms after the start of the launch and
// then every 50 ms. The watchdog thread sleeps while nothing is launched.
#pragma once

#include "runtime/kernel_run.h"

#include <atomic>

namespace qd::launch {

/// Lives as long as a launch that runs on the thread that made it. Costs a nanosecond: two stores and two loads, which the watchdog thread
/// orders for both sides (membarrier).
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

  /// Whether the caller is the main thread of the process.
  static bool isMainThread();

private:
  struct Thread;
  static void wake() noexcept;

  uintptr_t before = 0; ///< the enclosing launch: signal handlers may launch kernels
  bool isOnMain = false;

  static void *mainThread;
  static std::atomic<uintptr_t>
      current; ///< address of `failed` of the launch on the main thread, 0 for none; odd once the watchdog thread has seen it
  static std::atomic<bool> isAwake, isAsking;
};

} // namespace qd::launch
