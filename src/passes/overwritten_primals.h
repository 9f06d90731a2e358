// overwritten_primals.h: what the gradient kernel of a kernel cannot read again
#pragma once

#include "passes/activity.h"

namespace qd::passes {

/// Attribute of a load of what the same iteration may overwrite afterwards, depending on indices.
inline constexpr llvm::StringLiteral kMayBeOverwritten = "qd.may_be_overwritten";

/// Marks loads of elements that the kernel overwrites afterwards (kOverwritten): derived kernels run when it is over.
void markOverwrittenLoads(ir::KernelOp kernel, const Activity &activity);

/// Fails, with an error, where an iteration of a parallel loop reads what another one writes, told by indices: o[i] = o[i - 1].
mlir::LogicalResult refuseRaces(ir::KernelOp kernel, const Activity &activity);

/// What is said of such a load.
std::string describeOverwritten(llvm::StringRef container);
/// Marks one that is known to be one of them (kOverwritten), unless it is checked when it runs.
void markOverwritten(mlir::Operation *access, llvm::StringRef container);

/// Before it is derived, of a kernel that replays a call of a tape: products and loads become what is known before the call or computed by
/// it, where they can.
void prepareReplay(mlir::ModuleOp module, ir::KernelOp kernel);
/// Of a derived kernel: where values are overwritten that containers held before the call, these containers are read as they were then
/// (kReadsEntryValues), if nothing is needed that they held later.
void useEntryValues(mlir::ModuleOp module);

/// Tells of each marked operation that is still there. Fails when there is one.
mlir::LogicalResult refuseOverwrittenPrimals(mlir::ModuleOp module);

} // namespace qd::passes
