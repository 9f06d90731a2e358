// merge_nested_loops.h: a parallel loop and the serial loop inside it become one parallel loop
#pragma once

#include "ir/dialect.h"

namespace qd::passes {

/// The only loop in the body of `around`, which is `outermost` or inside it, if the rest of the body may run once more for each of its
/// iterations and its bounds may be computed before `outermost`; null otherwise.
ir::ForOp findMergeableLoop(ir::ForOp around, ir::ForOp outermost);

/// Whether a value inside the loop can be computed before it; if so, `hoist` moves it there.
bool isHoistable(mlir::Value value, ir::ForOp outer);
void hoist(mlir::Value value, ir::ForOp outer);

/// Whether an element has the index of `inner` before, and that of `outer` as its last one. Lanes along `outer` reach neighbors in it and
/// then fill whole lines of the caches row by row; lanes along `inner` would use one element of each line.
bool hasTransposedAccess(ir::ForOp inner, ir::ForOp outer);

/// Whether a loop updates elements at places that the index of `outer` selects: iterations of `outer` own these, so lanes along it need no
/// atomic operations.
bool updatesOwnElements(ir::ForOp inner, ir::ForOp outer);

/// Replaces `outer` by a loop over the axes of both loops.
ir::ForOp mergeLoops(ir::ForOp outer, ir::ForOp inner);

/// Whether a binary operation may fail for some operands, so that it must not run where the program does not run it.
bool mayFail(mlir::Operation *op);

} // namespace qd::passes
