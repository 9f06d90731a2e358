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
    if (thread.load(std::memory_order_relaxed) == ThreadState::Asleep) [[unlikely]]
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

  /// Whether the watchdog thread sees this launch if it takes 100 ms or longer.
  bool isWatching() const { return isOnMain && thread.load(std::memory_order_relaxed) == ThreadState::Awake; }
  /// Whether it has seen it.
  bool hasSeen() const { return current.load(std::memory_order_relaxed) & kSeen; }

  /// Whether the caller is the main thread of the process.
  static bool isMainThread();

private:
  struct Thread;
  enum class ThreadState : uint8_t { Asleep, Awake, Absent }; ///< Absent: not ready yet, or this system has none
  static constexpr uintptr_t kSeen = 1;                       ///< mark in `current`
  static void wake() noexcept;

  uintptr_t before = 0; ///< the enclosing launch: signal handlers may launch kernels
  bool isOnMain = false;

  static void *mainThread;
  static std::atomic<uintptr_t>
      current; ///< address of `failed` of the launch on the main thread, 0 for none; odd once the watchdog thread has seen it
  static std::atomic<ThreadState> thread;
  static std::atomic<bool> isAsking;
};

} // namespace qd::launch
