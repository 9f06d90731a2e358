// lost_values.h: what the gradient kernel of a kernel cannot read again
#pragma once

#include "passes/activity.h"

namespace qd::passes {

/// Marks loads of elements that the kernel overwrites afterwards (kLost): derived kernels run when it is over.
void markOverwrittenLoads(ir::KernelOp kernel, const Activity &activity);

/// Tells of each marked operation that is still there. Fails when there is one.
mlir::LogicalResult refuseLostValues(mlir::ModuleOp module);

} // namespace qd::passes
