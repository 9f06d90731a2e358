// inline_calls.h: functions of a kernel in the place of their calls
#pragma once

#include "ir/dialect.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseSet.h"

namespace qd::passes {

/// Does so with functions that touch one of the containers (offsets), or are handed an element of one. Those that call themselves stay.
void inlineCalls(mlir::ModuleOp module, ir::KernelOp kernel, const llvm::DenseSet<uint32_t> &containers);

} // namespace qd::passes
