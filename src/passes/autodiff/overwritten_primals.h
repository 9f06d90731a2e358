// overwritten_primals.h: primal values that a kernel overwrites, so that its gradient cannot load them
#pragma once

#include "passes/autodiff/activity.h"

namespace qd::passes {

/// Attribute of a load whose element the same iteration may overwrite afterwards, depending on indices.
inline constexpr llvm::StringLiteral kMayBeOverwritten = "qd.may_be_overwritten";

/// Marks loads of elements that the kernel overwrites afterwards (kOverwritten): a derived kernel runs after the kernel.
/// Rewrites `a[i] = a[j]` to `if i != j: a[i] = a[j]`: a store of an element onto itself would look as if it overwrote what the load found.
void skipCopiesToSelf(mlir::ModuleOp module);
void markOverwrittenLoads(ir::KernelOp kernel, const Activity &activity);

/// Fails, with an error, if indices show that an iteration of a parallel loop reads what another one writes, as in o[i] = o[i - 1].
mlir::LogicalResult refuseRaces(ir::KernelOp kernel, const Activity &activity);

/// The error message for a load of an element of `container` that is overwritten.
std::string describeOverwritten(llvm::StringRef container);
/// Marks an access to an element that is overwritten (kOverwritten), unless the access is checked at run time.
void markOverwritten(mlir::Operation *access, llvm::StringRef container);

/// Fails, with an error, if an operation that is marked kOverwritten is left.
mlir::LogicalResult refuseOverwrittenPrimals(mlir::ModuleOp module);

} // namespace qd::passes
