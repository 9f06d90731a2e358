// assumptions.h: what compiled code takes for granted of the containers of a launch
#pragma once

#include "artifact/artifact.h"

#include "mlir/IR/BuiltinOps.h"

namespace qd::passes {

/// Fills in `isUnaliased`, `manyAxes` and `fewAxes` of the inputs from what a kernel that went through all passes says.
void collectAssumptions(mlir::ModuleOp module, artifact::Artifact &artifact);

} // namespace qd::passes
