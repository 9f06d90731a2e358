// fused_gradient.h: a kernel fused with its gradient, for kernels whose only effect is to add to one number, whose adjoint is 1
#pragma once

#include "ir/dialect.h"

#include "mlir/IR/BuiltinOps.h"

namespace qd::passes {

/// Fails, with an error, unless the kernel's only effects are additions to one scalar that it does not read, each at most once in an
/// iteration of a parallel loop.
mlir::LogicalResult requireSum(mlir::ModuleOp module, ir::KernelOp kernel);

/// For the derived kernel: a gradient need not be zero before the kernel if each of its elements belongs to exactly one iteration. The
/// first addition to it becomes a store, and its offset is listed in kReplaces. `primals`: offset of a gradient → offset of its primal.
void replaceFirstAdditions(ir::KernelOp kernel, const llvm::DenseMap<uint32_t, uint32_t> &primals);

} // namespace qd::passes
