// same_elements.h: decide by indices whether two places of a container are the same element
#pragma once

#include "ir/dialect.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace qd::passes {

/// A base value (null for a constant index) plus a constant distance.
struct Index {
  mlir::Value base;
  int64_t distance = 0;
  unsigned instance = 0; ///< number of the call whose callee computes the base; 0: the kernel computes it
};
using Indices = llvm::SmallVector<Index, 3>;

/// The values of an index that is constant, or that counts a loop with constant bounds.
struct IndexRange {
  int64_t first, last;
};
std::optional<IndexRange> findRange(const Index &index);

Index splitIndex(mlir::Value value);
Indices splitIndices(ir::ElementOp element);

/// Whether `one` runs before `other` if both run, in one pass through the innermost block around both.
bool comesBefore(mlir::Operation *one, mlir::Operation *other);

/// Compares values of one kernel or function.
class SameElements {
public:
  explicit SameElements(mlir::ModuleOp module);

  /// Whether two values are equal: they are computed by the same operations from the same values.
  bool isSame(mlir::Value one, mlir::Value other) const;
  bool haveSameBase(const Index &one, const Index &other) const;
  bool isSameElement(llvm::ArrayRef<Index> one, llvm::ArrayRef<Index> other) const;
  /// Whether the elements surely differ. If neither this nor `isSameElement` holds, it depends on run-time values.
  bool isAnotherElement(llvm::ArrayRef<Index> one, llvm::ArrayRef<Index> other) const;
  /// Whether the loaded memory no longer changes: a container that the module never writes, or a variable with no later store.
  bool isSameConstant(ir::LoadOp load) const;

private:
  llvm::DenseSet<uint32_t> written; ///< offsets of containers
};

} // namespace qd::passes
