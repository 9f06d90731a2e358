// single_launcher.h: whether all launches of the program come from one thread
//
// As long as they do, a loop that runs on one thread needs no atomic instructions, which take about 20 cycles each. Once a second thread
// launches a kernel, launches count as concurrent for the rest of the process.
#pragma once

#include <atomic>

namespace qd::launch {

/// Lives as long as a launch. Created and destroyed with the GIL held.
class SingleLauncher {
public:
  SingleLauncher();
  ~SingleLauncher();
  SingleLauncher(const SingleLauncher &) = delete;
  SingleLauncher &operator=(const SingleLauncher &) = delete;

  /// Whether this launch must wait: as the first launch of a second thread, for all launches in progress; in a signal handler, for the
  /// launch that its thread watches.
  bool mustWait() const { return waits; }
  /// Waits for them with the GIL released, so that other Python code can run. Throws PythonError when a signal ends the wait.
  void wait();

  /// Whether no concurrent launch comes from another thread.
  bool isSingle() const { return single; }

private:
  static bool enter();
  bool single, waits;
};

/// While it lives, this thread watches a launch that runs on a separate thread and is over once `isDone` is true.
class WatchedLaunch {
public:
  explicit WatchedLaunch(const std::atomic<bool> &isDone);
  ~WatchedLaunch();
  WatchedLaunch(const WatchedLaunch &) = delete;
  WatchedLaunch &operator=(const WatchedLaunch &) = delete;

private:
  const std::atomic<bool> *before;
};

} // namespace qd::launch
