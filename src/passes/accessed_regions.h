// accessed_regions.h: which elements of its containers a kernel reads and writes, as far as the host can compute it before a launch
#pragma once

#include "artifact/artifact.h"

#include "mlir/IR/BuiltinOps.h"

namespace qd::passes {

/// Fills in `read` and `written` of the inputs.
void findAccessedRegions(mlir::ModuleOp module, artifact::Artifact &artifact);

/// For a derived kernel: fills in `isLoaded`, and `assumptions`, and marks as read the inputs whose entry values it reads
/// (kReadsEntryValues). For a fused kernel: marks as written the gradients that it overwrites (kReplaces).
void findReplacedRegions(mlir::ModuleOp module, artifact::Artifact &artifact);

} // namespace qd::passes
