// memory.h: what memory a place belongs to, and which places an operation accesses
#pragma once

#include "ir/dialect.h"

namespace qd::ir {

/// The place that a component belongs to; any other place itself.
mlir::Value findWhole(mlir::Value place);
/// The base of a place or container: a local, a container, a scratch place, or a parameter of a function.
mlir::Value findBase(mlir::Value place);
/// Whether the memory of the place is that of a container.
inline bool isOfContainer(mlir::Value place) { return llvm::isa<TensorType>(findBase(place).getType()); }
/// The element that a place is, or is a component of; null for other places.
inline ElementOp findElement(mlir::Value place) { return findWhole(place).getDefiningOp<ElementOp>(); }
/// The container argument that a place or container is part of; null for other memory.
inline TensorArgumentOp findContainer(mlir::Value place) { return findBase(place).getDefiningOp<TensorArgumentOp>(); }

/// The places that an operation may read or write: that of an access, or all that a call is given.
llvm::SmallVector<mlir::Value, 1> listReadPlaces(mlir::Operation *op);
llvm::SmallVector<mlir::Value, 1> listWrittenPlaces(mlir::Operation *op);
/// The container arguments that an operation may write: those of the places that it writes, and all that a call is given.
llvm::SmallVector<TensorArgumentOp, 1> listWrittenContainers(mlir::Operation *op);
/// Whether the operation stores to a container or updates one. A call does not, although the called function may.
bool writesContainer(mlir::Operation *op);
/// Whether all uses of a place, or of parts of it, are loads.
bool isOnlyRead(mlir::Value place);

/// The kind by which updates of one place combine: subtraction is addition of the negative.
inline AtomicKind getCombination(AtomicKind kind) { return kind == AtomicKind::sub ? AtomicKind::add : kind; }

/// A value as the sum of another one and a constant.
struct ConstantSum {
  mlir::Value rest;
  int64_t constant;
};
/// Splits the constant off `x + c`, `c + x` or `x - c`; none for other values.
std::optional<ConstantSum> splitConstant(mlir::Value value);
/// Whether a value is one for which `isBase` holds, plus or minus others for which `isFixed` does.
bool isShifted(mlir::Value value, llvm::function_ref<bool(mlir::Value)> isBase, llvm::function_ref<bool(mlir::Value)> isFixed);
/// Whether a value is another one plus or minus constants.
inline bool isShifted(mlir::Value value, mlir::Value base) {
  return isShifted(value, [&](mlir::Value part) { return part == base; }, [](mlir::Value part) { return findInteger(part).has_value(); });
}
/// Whether a value is computed from another one, an index of a loop, or from a variable that `varies`.
bool dependsOn(mlir::Value value, mlir::Value index, llvm::function_ref<bool(LocalOp)> varies = nullptr);

} // namespace qd::ir
