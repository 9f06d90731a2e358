// watchdog.cpp: the thread that requests a check for signals from a long launch
//
// In:   the address of `failed` of the launch on the main thread.
// Out:  QD_LOOK in it when the launch takes long.
// Here: most launches are short, so the work is on this thread's side: it orders the accesses of both with membarrier.
#include "launch/watchdog.h"

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <linux/membarrier.h>
#include <mutex>
#include <new>
#include <pthread.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

namespace qd::launch {

static constexpr auto kInterval = std::chrono::milliseconds(50);

constinit std::atomic<uintptr_t> Watchdog::current{0};
constinit std::atomic<Watchdog::ThreadState> Watchdog::thread{ThreadState::Asleep};
constinit std::atomic<bool> Watchdog::isAsking{false};
void *Watchdog::mainThread = isMainThread() ? __builtin_thread_pointer() : nullptr; // another thread may import the package

bool Watchdog::isMainThread() {
  bool isMain = gettid() == getpid();
  if (isMain) mainThread = __builtin_thread_pointer();
  return isMain;
}

/// Orders the memory accesses of all threads of the process; false when the system does not support it.
static bool orderThreads(int command) { return syscall(SYS_membarrier, command, 0, 0) == 0; }
static void orderThreads() { orderThreads(MEMBARRIER_CMD_PRIVATE_EXPEDITED); }

struct Watchdog::Thread {
  std::mutex mutex;
  std::condition_variable woken;
  bool isWoken = true;

  static std::atomic<Thread *> started;

  void run() {
    // Takes 10 ms and more in a process of several threads, so the first launch does not wait for it.
    if (!orderThreads(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)) return; // it stays absent, and no launch wakes it
    thread.store(ThreadState::Awake, std::memory_order_relaxed);
    for (int idle = 0;;) {
      std::this_thread::sleep_for(kInterval);
      uintptr_t seen = current.load(std::memory_order_relaxed);
      if (!seen) {
        if (++idle == 2) sleep();
        idle %= 2;
        continue;
      }
      idle = 0;
      // The end of the launch removes the mark: it stores the enclosing launch or none, and the next launch its own address.
      if (!(seen & kSeen))
        current.compare_exchange_strong(seen, seen | kSeen);
      else
        ask(seen);
    }
  }

private:
  void sleep() {
    std::unique_lock lock(mutex);
    isWoken = false;
    thread.store(ThreadState::Asleep, std::memory_order_relaxed);
    orderThreads();
    // A launch that has not seen the change of the state has stored its address before.
    if (!current.load(std::memory_order_relaxed)) woken.wait(lock, [&] { return isWoken; });
    thread.store(ThreadState::Awake, std::memory_order_relaxed);
  }

  static void ask(uintptr_t seen) {
    isAsking.store(true, std::memory_order_relaxed);
    orderThreads();
    // From here on, a launch that ends waits for this thread.
    if (current.load(std::memory_order_acquire) == seen) {
      int32_t nothing = 0;
      auto *failed = reinterpret_cast<volatile int32_t *>(seen & ~kSeen);
      __atomic_compare_exchange_n(failed, &nothing, int32_t(QD_LOOK), false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    }
    isAsking.store(false, std::memory_order_release);
  }
};

constinit std::atomic<Watchdog::Thread *> Watchdog::Thread::started{nullptr};

void Watchdog::wake() noexcept {
  if (Thread *known = Thread::started) {
    std::lock_guard lock(known->mutex);
    known->isWoken = true;
    known->woken.notify_one();
    return;
  }
  thread = ThreadState::Absent; // tried once: without the thread, signals wait until the launch is over
  // A forked child has one thread, which is its main thread.
  static const int registered = pthread_atfork(nullptr, nullptr, [] {
    Thread::started = nullptr;
    thread = ThreadState::Asleep;
    isAsking = false;
    current = 0;
    mainThread = __builtin_thread_pointer();
  });
  auto *made = registered == 0 ? new (std::nothrow) Thread : nullptr;
  if (!made) return;
  // The new thread blocks all signals, so that other threads receive them.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread([made] { made->run(); }).detach();
    Thread::started = made;
  } catch (const std::exception &) { delete made; }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

} // namespace qd::launch
