// sole_launch.h: whether launches come from one thread of the program
//
// As long as they do, a loop that runs on one thread needs no atomic instructions, which take some 20 cycles each. Once a second thread
// launches a kernel, nobody is alone any more for the rest of the process.
#pragma once

namespace qd::launch {

/// Lives as long as a launch, and is made and ended with the GIL held. The first launch of a second thread waits here for those that run.
class SoleLaunch {
public:
  SoleLaunch();
  ~SoleLaunch();
  SoleLaunch(const SoleLaunch &) = delete;
  SoleLaunch &operator=(const SoleLaunch &) = delete;

  /// No launch that runs at the same time comes from another thread.
  bool isSole() const { return sole; }

private:
  bool sole = false;
};

} // namespace qd::launch
