// single_launcher.cpp: decides for each launch whether it is the only one, and makes a second thread's first launch wait
//
// In:   the begin and end of every launch, with the GIL held.
// Out:  whether compiled code may update memory without atomic instructions.
#include "launch/single_launcher.h"

#include "launch/python.h"

#include <chrono>
#include <pthread.h>
#include <thread>
#include <utility>

namespace qd::launch {

// The GIL orders the accesses of different threads. Without a GIL the counter and the flag must order them.
#ifdef Py_GIL_DISABLED
static constexpr auto kOrder = std::memory_order_seq_cst;
#else
static constexpr auto kOrder = std::memory_order_relaxed;
#endif

static std::atomic<const void *> launcher{nullptr}; ///< the single thread of all launches so far: address of its `watched`
static std::atomic<bool> hasSeveralLaunchers{false};
static std::atomic<int> running{0}; ///< launches of the single launcher in progress; changed by its thread only
// A forked child has no other threads, and no launch in progress.
static const int registered = pthread_atfork(nullptr, nullptr, [] { running.store(0); });

// Every launch reads this variable; with lazy allocation each read would be a call.
static constinit thread_local const std::atomic<bool> *watched __attribute__((tls_model("initial-exec"))) = nullptr;

static void waitWithoutGil() {
  PyThreadState *thread = PyEval_SaveThread();
  std::this_thread::sleep_for(std::chrono::microseconds(50));
  takeBackGil(thread);
}

static bool isWatching() { return watched && !watched->load(); }

/// Whether launches of a single launcher of another thread are in progress. Those of this thread are further up its stack, and end after
/// the launch that it starts now.
static bool isOtherSingle() { return running.load(kOrder) > 0 && launcher.load(kOrder) != &watched; }

bool SingleLauncher::enter() {
  if (hasSeveralLaunchers.load(kOrder)) return false;
  const void *none = nullptr;
  if (launcher.load(kOrder) == &watched || launcher.compare_exchange_strong(none, &watched)) {
    running.store(running.load(std::memory_order_relaxed) + 1, kOrder);
    if (!hasSeveralLaunchers.load(kOrder)) return true;
    running.store(running.load(std::memory_order_relaxed) - 1, kOrder);
    return false;
  }
  (void)registered;
  hasSeveralLaunchers.store(true, kOrder);
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
