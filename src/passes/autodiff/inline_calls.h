// inline_calls.h: inline functions that access given containers
#pragma once

#include "ir/dialect.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseSet.h"

namespace qd::passes {

/// Inlines the calls of functions that access one of the containers (offsets), or that take an element of one as an argument. Recursive
/// calls stay.
void inlineCalls(mlir::ModuleOp module, ir::KernelOp kernel, const llvm::DenseSet<uint32_t> &containers);

} // namespace qd::passes
