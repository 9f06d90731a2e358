// accessed_regions.h: which elements of its containers a kernel reads and writes, in so far as the host can know it before a launch
#pragma once

#include "artifact/artifact.h"

#include "mlir/IR/BuiltinOps.h"

namespace qd::passes {

/// Fills in `read` and `written` of the inputs.
void findAccessedRegions(mlir::ModuleOp module, artifact::Artifact &artifact);

/// Of a derived kernel: marks as read the inputs that it reads as they were before the kernel that it is derived from; of one that runs
/// together with its kernel, as written the gradients that it overwrites.
void findReplacedRegions(mlir::ModuleOp module, artifact::Artifact &artifact);

} // namespace qd::passes
