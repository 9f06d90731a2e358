// remove_dead.h: what derived kernels compute in vain
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace qd::passes {

/// Erases operations of kernels and functions that no effect depends on: stores to locals that nobody reads, loops and calls around
/// nothing. Effects are stores to containers and through parameters, prints, assertions and returned values. Loops are taken to end.
void removeDead(mlir::ModuleOp module);

} // namespace qd::passes
