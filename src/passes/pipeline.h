// pipeline.h: from the frontend's IR to the form that code generation takes
#pragma once

#include "passes/target_traits.h"

#include "mlir/Support/LLVM.h"

namespace mlir {
class ModuleOp;
}

namespace qd::passes {

struct PipelineOptions {
  bool debug = false;          ///< check the user's assertions, division by zero, shift counts and conversions
  bool checkOverflow = false;  ///< check integer sums, differences, products, shifts left, negations and quotients; needs debug
  bool reportOverflow = false; ///< print an overflow and continue
  bool checkNans = false;      ///< check floating-point operations for new NaNs
  bool checkRaces = false;     ///< check that no two iterations of a parallel loop write one element; not on targets with grids
  bool checkBounds = false;    ///< check indices of containers and matrices
  bool privatize = true;       ///< privatize reductions and small containers in parallel loops
  bool specialize = false;     ///< assume facts about the containers of the launch, which every launch checks
  bool compacts = false;       ///< loops that compact run in lanes, if the target has an instruction for it
  bool reassociate = false;    ///< sums of floats may be taken in another order
  int64_t blockSize = 128;     ///< threads of a block where the loop does not say
  bool verify = false;         ///< run the verifier after each pass
};

/// Runs all passes. Afterwards the kernel is a list of tasks.
mlir::LogicalResult run(mlir::ModuleOp module, const TargetTraits &traits, const PipelineOptions &options);

/// Registers the passes by name, for qd-opt.
void registerPasses();

} // namespace qd::passes
