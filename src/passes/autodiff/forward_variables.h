// forward_variables.h: loads of variables in derived kernels become the values stored before
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace qd::passes {

/// Replaces a load of a variable by the value that the block stored before, and erases stores that another one replaces or that store what
/// the variable holds. Variables of which a part is accessed, or whose place a call gets, keep all accesses.
void forwardVariables(mlir::ModuleOp module);

} // namespace qd::passes
