// merge_nested_loops.h: a parallel loop and the serial loop inside it become one parallel loop
#pragma once

#include "passes/independent_iterations.h"

#include "llvm/ADT/DenseSet.h"

namespace qd::passes {

/// Whether a value inside the loop can be computed before it; if so, `hoist` moves it there.
bool isHoistable(mlir::Value value, ir::ForOp outer);
void hoist(mlir::Value value, ir::ForOp outer);

/// Whether an element has the index of `inner` before, and that of `outer` as its last one. Lanes along `outer` reach neighbors in it and
/// then fill whole lines of the caches row by row; lanes along `inner` would use one element of each line.
bool hasTransposedAccess(ir::ForOp inner, ir::ForOp outer);

/// Whether an operation updates an element at a place that an index of the loop selects: iterations of the loop own these, so lanes along
/// it need no atomic operations.
bool updatesElementOf(ir::ForOp loop, ir::AtomicOp atomic);

/// The only loop in the body of `around`, which is `outermost` or inside it, if the rest of the body may run once more for each of its
/// iterations and its bounds may be computed before `outermost`; null otherwise.
ir::ForOp findMergeableLoop(ir::ForOp around, ir::ForOp outermost);
/// Replaces `outer` by a parallel loop over the axes of both loops, and returns that.
ir::ForOp mergeLoops(ir::ForOp outer, ir::ForOp inner);

/// Merges a parallel loop with the loops inside it whose iterations are independent, up to the innermost one with which that is worthwhile;
/// the function is told whether lanes along that loop reach neighbors. `written` gets the offsets of the containers that must be unaliased,
/// none of which is in `aliased`. Returns the merged loop, or `loop`.
ir::ForOp mergeNest(ir::ForOp loop, const IndependentIterations &iterations, const llvm::DenseSet<uint64_t> &aliased,
                    llvm::DenseSet<uint64_t> &written, llvm::function_ref<bool(ir::ForOp, bool)> isWorthwhile);

/// Whether a binary operation may fail for some operands, so that it must not run where the program does not run it.
bool mayFail(mlir::Operation *op);

} // namespace qd::passes
