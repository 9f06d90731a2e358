// entry_values.h: what the gradient of a replayed call reads from before the call
#pragma once

#include "ir/dialect.h"

#include "mlir/IR/BuiltinOps.h"

namespace qd::passes {

/// Prepares a kernel whose gradient replays a call of a tape, before the derivative is taken: demotes sums and products that one iteration
/// owns, and replaces loads by the values stored before, so that more loads read entry values.
void prepareReplay(mlir::ModuleOp module, ir::KernelOp kernel);
/// For a derived kernel: selects the containers whose entry values it reads (kReadsEntryValues), because the kernel overwrites values that
/// it needs. A container of which it also needs later values is not selected.
void useEntryValues(mlir::ModuleOp module);

} // namespace qd::passes
