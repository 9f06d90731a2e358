// accessed_regions.h: which elements of its containers a kernel reads and writes, in so far as the host can know it before a launch
#pragma once

#include "artifact/artifact.h"

#include "mlir/IR/BuiltinOps.h"

namespace qd::passes {

/// Fills in `read` and `written` of the inputs.
void findAccessedRegions(mlir::ModuleOp module, artifact::Artifact &artifact);

} // namespace qd::passes
