// same_elements.h: whether two places of a container are the same element, told by their indices
#pragma once

#include "ir/dialect.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace qd::passes {

/// A base, null for none, and a constant distance from it.
struct Index {
  mlir::Value base;
  int64_t distance = 0;
  unsigned instance = 0; ///< number of the call that the base is a value of; 0: of the kernel
};
using Indices = llvm::SmallVector<Index, 3>;

Index splitIndex(mlir::Value value);
Indices splitIndices(ir::ElementOp element);

/// The element that a place is, or is a component of; null for other places.
ir::ElementOp findElementOf(mlir::Value place);
/// The container of an element, when it is an argument of the kernel.
ir::TensorArgumentOp findContainer(mlir::Value place);

/// Whether `one` runs before `other` wherever both run, in one pass through what both stand in.
bool comesBefore(mlir::Operation *one, mlir::Operation *other);

/// Compares values of one kernel or function.
class SameElements {
public:
  explicit SameElements(mlir::ModuleOp module);

  /// Whether two values are the same wherever both are known: the same operations on the same values.
  bool isSame(mlir::Value one, mlir::Value other) const;
  bool haveSameBase(const Index &one, const Index &other) const;
  bool isSameElement(llvm::ArrayRef<Index> one, llvm::ArrayRef<Index> other) const;
  /// Told for sure; neither this nor `isSameElement`: it depends on values.
  bool isAnotherElement(llvm::ArrayRef<Index> one, llvm::ArrayRef<Index> other) const;
  /// Whether what is loaded stays in its place: in a container that the module never writes, in a variable that is not assigned any more.
  bool isSameConstant(ir::LoadOp load) const;

private:
  llvm::DenseSet<uint32_t> written; ///< offsets of containers
};

} // namespace qd::passes
