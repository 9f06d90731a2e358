// promote_elements.h: elements that an iteration overwrites become variables of the iteration
#pragma once

#include "ir/dialect.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseSet.h"

namespace qd::passes {

/// What may stand for elements that are accessed at many places of one iteration.
enum class Promotion {
  Variables, ///< a variable for each element that has one address in all of an iteration
  Rows,      ///< or an array for all elements that the iteration can reach, where their number is known
  Checked    ///< the same; loads that may find what was there before, and may be overwritten, are checked when they run
};

/// Rewrites a kernel that is to be differentiated so that what it overwrites in these containers (offsets) is kept as variables are kept.
/// Loads that nothing was written before stay loads; they are overwritten (kOverwritten) where something is written afterwards.
void promoteElements(mlir::ModuleOp module, ir::KernelOp kernel, const llvm::DenseSet<uint32_t> &containers, Promotion promotion);

} // namespace qd::passes
