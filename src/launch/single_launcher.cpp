#include "launch/single_launcher.h"

#include "launch/python.h"

#include <chrono>
#include <pthread.h>
#include <thread>
#include <utility>

namespace qd::launch {

// The GIL orders what different threads see; without one the counter and the flag have to.
#ifdef Py_GIL_DISABLED
static constexpr auto kOrder = std::memory_order_seq_cst;
#else
static constexpr auto kOrder = std::memory_order_relaxed;
#endif

static std::atomic<const void *> launcher{nullptr}; ///< the address of `watched` in the thread that all launches came from
static std::atomic<bool> areMany{false};
static std::atomic<int> running{0}; ///< single launches; changed by the launcher only
// In a forked child no other thread goes on.
static const int registered = pthread_atfork(nullptr, nullptr, [] { running.store(0); });

// Every launch asks, and what is allocated late takes a call.
static constinit thread_local const std::atomic<bool> *watched __attribute__((tls_model("initial-exec"))) = nullptr;

static void waitWithoutGil() {
  PyThreadState *thread = PyEval_SaveThread();
  std::this_thread::sleep_for(std::chrono::microseconds(50));
  takeBackGil(thread);
}

static bool isWatching() { return watched && !watched->load(); }

/// Launches of a single launcher of another thread. Those of this one are further up its stack, and end after what it launches now.
static bool isOtherSingle() { return running.load(kOrder) > 0 && launcher.load(kOrder) != &watched; }

bool SingleLauncher::enter() {
  if (areMany.load(kOrder)) return false;
  const void *nobody = nullptr;
  if (launcher.load(kOrder) == &watched || launcher.compare_exchange_strong(nobody, &watched)) {
    running.store(running.load(std::memory_order_relaxed) + 1, kOrder);
    if (!areMany.load(kOrder)) return true;
    running.store(running.load(std::memory_order_relaxed) - 1, kOrder);
    return false;
  }
  (void)registered;
  areMany.store(true, kOrder);
  return false;
}

SingleLauncher::SingleLauncher() : single(enter()), waits(isWatching() || (!single && isOtherSingle())) {}

void SingleLauncher::wait() {
  while (isWatching()) {
    waitWithoutGil();
    if (PyErr_CheckSignals() != 0) throw PythonError{};
  }
  while (!single && isOtherSingle()) waitWithoutGil();
}

SingleLauncher::~SingleLauncher() {
  if (single) running.store(running.load(std::memory_order_relaxed) - 1, kOrder);
}

WatchedLaunch::WatchedLaunch(const std::atomic<bool> &isDone) : before(std::exchange(watched, &isDone)) {}

WatchedLaunch::~WatchedLaunch() { watched = before; }

} // namespace qd::launch
