// remove_dead.h: remove operations of derived kernels whose results are not used
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace qd::passes {

/// Erases operations of kernels and functions that no effect depends on: stores to locals that are never read, empty loops, calls without
/// effect. Effects are stores to containers and through parameters, prints, assertions and returned values. Loops are assumed to terminate.
void removeDead(mlir::ModuleOp module);

} // namespace qd::passes
