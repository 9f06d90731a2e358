// row_loops.h: loops inside a parallel loop that run along the rows of containers, and the variables that they reduce to
#pragma once

#include "passes/independent_iterations.h"

namespace qd::passes {

/// A variable from around a loop that its iterations only add to, multiply, or combine in another way whose order does not matter.
struct LaneReduction {
  mlir::Value local;
  ir::AtomicKind kind;
};

/// The variables that the iterations of a loop combine into; those of floats only if sums may be `reassociated`.
llvm::SmallVector<LaneReduction, 2> findLaneReductions(ir::ForOp loop, bool reassociated);

struct RowOptions {
  bool reassociated = true; ///< sums of floats may be taken in another order
  bool onGrid = false;      ///< the lanes are threads of a subgroup, which also run what stands between the rows
};

/// Marks the loops inside a parallel loop (kRows), and the parallel loop itself, if most of its work is in loops along rows: their
/// iterations are independent but for reductions, and lanes along them reach neighbors, where lanes of the parallel loop would gather from
/// different rows. Their ends move before the parallel loop. The offsets of the containers that they write are added to `written`, unless
/// one of them is in `aliased`.
void markRows(ir::ForOp loop, const IndependentIterations &iterations, const RowOptions &options, const llvm::DenseSet<uint64_t> &aliased,
              llvm::DenseSet<uint64_t> &written);

/// Iterations from which on a loop along a row is faster in lanes of its own.
inline constexpr int64_t kLongRow = 16;
/// Shorter rows run in such vectors if their length is a multiple of it.
inline constexpr int64_t kShortestVector = 4;

} // namespace qd::passes
