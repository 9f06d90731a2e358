// random_numbers.h: the random numbers of one function
#pragma once

#include "codegen/llvm/launch_access.h"
#include "codegen/llvm/operators.h"

namespace qd::codegen {

class RandomNumbers : EmitterPart {
public:
  RandomNumbers(LaneBuilder &in, LaunchAccess &launch, Operators &operators) : EmitterPart(in), launch(launch), operators(operators) {}

  /// Philox numbers: the key is seed and launch, the counter is iteration, call and task. They do not depend on lanes or threads.
  Component draw(mlir::Type type);
  /// Makes the counter of calls.
  void makeCounter();
  /// Sets the counter of calls to 0, for the next iteration.
  void reset();

  /// Flattened index of the iteration in lane 0; null in serial code and in code without random numbers.
  Component iteration;
  mlir::Operation *task = nullptr; ///< the code belongs to this task

private:
  llvm::Value *getLaunchNumber();

  LaunchAccess &launch;
  Operators &operators;
  llvm::AllocaInst *calls = nullptr;
};

} // namespace qd::codegen
