// loop_parts.h: a loop that runs once more for some of its updates
#pragma once

#include "ir/dialect.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/DenseSet.h"

namespace qd::passes {

/// Whether a loop may run once more without the writes that it does not need for some of them, and is short enough for that.
bool canRepeat(ir::ForOp loop);

/// Whether an iteration reads from a container that it may have written other than by the `moved` updates, so that a loop without that
/// write would read something else.
bool readsAfterWriting(ir::ForOp loop, const llvm::DenseSet<mlir::Operation *> &moved);

/// Puts a copy of the loop before it which writes to containers by these updates only. The loop keeps them. `map` gets what was copied.
ir::ForOp addPart(ir::ForOp loop, llvm::ArrayRef<mlir::Operation *> updates, mlir::IRMapping &map);

} // namespace qd::passes
