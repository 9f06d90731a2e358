// fused_gradient.h: a kernel and its gradient in one pass, for kernels that do nothing but add to one number, of which the adjoint is
// known: 1
#pragma once

#include "ir/dialect.h"

#include "mlir/IR/BuiltinOps.h"

namespace qd::passes {

/// Fails, with an error, unless the kernel's only effects are additions to one scalar that it does not read, each at most once in an
/// iteration of a parallel loop.
mlir::LogicalResult requireSum(mlir::ModuleOp module, ir::KernelOp kernel);

/// Of the derived kernel: gradients whose every element one iteration adds to, and no other, need not be zero before. Their first
/// additions become stores, and their offsets stand in kReplaces. `primals`: gradient → what it is the gradient of.
void replaceFirstAdditions(ir::KernelOp kernel, const llvm::DenseMap<uint32_t, uint32_t> &primals);

} // namespace qd::passes
