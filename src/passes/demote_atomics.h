// demote_atomics.h: atomics without concurrent accesses, for passes that need plain loads and stores earlier than the pass
#pragma once

#include "ir/dialect.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseSet.h"

namespace qd::passes {

/// Demotes all atomics on locals of one iteration, which no other iteration updates.
void demoteOwnAtomics(mlir::ModuleOp module);

/// Demotes sums and products on elements that only one iteration of a parallel loop updates, and those in serial code.
/// `containers`: offsets of the containers to which this is restricted; null: all containers.
void demoteOwnUpdates(mlir::ModuleOp module, const llvm::DenseSet<uint32_t> *containers = nullptr);

} // namespace qd::passes
