// compile_process.h: what a compilation changes in its process: fatal errors of LLVM, and forks
#pragma once

namespace qd {

/// Makes LLVM's fatal errors exceptions: no input may end the process.
void throwFatalErrors();

/// A running compile. Compiles fill tables of LLVM and MLIR that the process shares. A child forked meanwhile would have a half-written
/// table, or a lock that no thread releases, so a fork waits for the compiles, up to 5 s.
class RunningCompile {
public:
  RunningCompile();
  ~RunningCompile();
  RunningCompile(const RunningCompile &) = delete;
  RunningCompile &operator=(const RunningCompile &) = delete;
};

} // namespace qd
