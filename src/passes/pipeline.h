// pipeline.h: from the frontend's IR to the form that code generation takes
#pragma once

#include "passes/target_traits.h"

#include "mlir/Support/LLVM.h"

namespace mlir {
class ModuleOp;
}

namespace qd::passes {

struct PipelineOptions {
  bool debug = false;          ///< user's assertions, division by zero, shift counts, conversions
  bool checkOverflow = false;  ///< sums, differences, products, shifts left, negations, quotients of integers; needs debug
  bool reportOverflow = false; ///< an overflow is printed, and the kernel goes on
  bool checkNans = false;      ///< floating-point operations that make a NaN
  bool checkRaces = false;     ///< elements that two iterations of a parallel loop write; not where tasks are grids
  bool checkBounds = false;    ///< indices of containers and matrices
  bool privatize = true;       ///< reductions and small containers of a loop get private stand-ins
  bool widen = false;          ///< serial loops with independent iterations run several at once
  bool verify = false;         ///< the verifier after each pass
};

/// Runs all passes. Afterwards the kernel is a list of tasks.
mlir::LogicalResult run(mlir::ModuleOp module, const TargetTraits &traits, const PipelineOptions &options);

/// Makes the passes known by name, for qd-opt.
void registerPasses();

} // namespace qd::passes
