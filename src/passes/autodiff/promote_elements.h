// promote_elements.h: elements that an iteration overwrites become variables of the iteration
#pragma once

#include "ir/dialect.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseSet.h"

namespace qd::passes {

/// What may replace the elements that one iteration accesses several times.
enum class Promotion {
  Variables, ///< a variable for each element whose address does not change within an iteration
  Rows,      ///< also an array for all elements that the iteration can reach, if their number is known
  Checked    ///< the same; loads of older values that may be overwritten are checked at run time
};

/// Rewrites a kernel that will be differentiated: elements of these containers (offsets) that it overwrites become variables, which the
/// reverse mode restores. A load without an earlier store stays a load; it is marked kOverwritten if a store may follow.
void promoteElements(mlir::ModuleOp module, ir::KernelOp kernel, const llvm::DenseSet<uint32_t> &containers, Promotion promotion);

} // namespace qd::passes
