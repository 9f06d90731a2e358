// widen_serial_loops.h: what kernels with widened loops assume about the containers of a launch
#pragma once

#include "artifact/artifact.h"

#include "mlir/IR/BuiltinOps.h"

namespace qd::passes {

/// Fills in `isUnaliased`, `manyAxes` and `fewAxes` of the inputs from the attributes that the passes set on the kernel.
void collectAssumptions(mlir::ModuleOp module, artifact::Artifact &artifact);

} // namespace qd::passes
