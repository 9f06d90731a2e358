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

/// `loop index + constant`, possibly widened in between.
struct ShiftedIndex {
  mlir::BlockArgument index;
  int64_t shift = 0;
};
/// The index of a loop with this body that a value is, shifted by a constant; nothing for other values.
std::optional<ShiftedIndex> findShiftedIndex(mlir::Value value, mlir::Block *body);

/// For each index of a loop, the axis of an element that it selects, and the constant that is added to it.
using IndexPattern = std::vector<std::pair<unsigned, int64_t>>;

/// Elements with equal patterns are equal in one iteration of the loop only. Empty if an index of the loop is missing.
IndexPattern findPattern(ir::ElementOp element, mlir::Block *body);

} // namespace qd::passes
