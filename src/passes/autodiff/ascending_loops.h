// ascending_loops.h: loops of derived kernels count up again where that shows nowhere
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace qd::passes {

/// Lets the loops of a backward sweep run from the first iteration to the last if their iterations are independent, but for updates of
/// containers and for variables that they reduce to.
void makeLoopsAscend(mlir::ModuleOp module);

} // namespace qd::passes
