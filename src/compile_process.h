// compile_process.h: what a compilation changes in its process: fatal errors of LLVM, and forks
#pragma once

namespace qd {

/// Makes LLVM's fatal errors exceptions: no input may end the process.
void throwFatalErrors();

/// A running compile. The first compiles of a process fill tables of LLVM and MLIR under locks. A child forked meanwhile could never take
/// these locks, so a fork waits for the compiles, up to 200 ms.
class RunningCompile {
public:
  RunningCompile();
  ~RunningCompile();
  RunningCompile(const RunningCompile &) = delete;
  RunningCompile &operator=(const RunningCompile &) = delete;
};

} // namespace qd
