// single_launcher.h: whether launches come from one thread of the program
//
// As long as they do, a loop that runs on one thread needs no atomic instructions, which take some 20 cycles each. Once a second thread
// launches a kernel, nobody is alone any more for the rest of the process.
#pragma once

#include <atomic>

namespace qd::launch {

/// Lives as long as a launch, and is made and ended with the GIL held.
class SingleLauncher {
public:
  SingleLauncher();
  ~SingleLauncher();
  SingleLauncher(const SingleLauncher &) = delete;
  SingleLauncher &operator=(const SingleLauncher &) = delete;

  /// Whether others come first: the first launch of a second thread waits for those that run, and one that a handler of signals makes waits
  /// for the one that its thread watches.
  bool mustWait() const { return waits; }
  /// Waits for them without the GIL: other Python code runs meanwhile. Throws PythonError when a signal ends the wait.
  void wait();

  /// No launch that runs at the same time comes from another thread.
  bool isSingle() const { return single; }

private:
  static bool enter();
  bool single, waits;
};

/// While it lives, this thread watches a launch that runs on a thread of its own, and that is over once `isDone` is true.
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
