// tasks.h: what tasks on the processor and on grids have in common: the axes of a parallel loop, returns, and the places of its reductions
#pragma once

#include "codegen/llvm/body.h"

namespace qd::codegen {

/// Lets a task end the kernel: stores the values of a qd.return, then calls `leave`.
void setUpReturns(BodyEmitter &body, std::function<void()> leave);
/// Sets up the counter of random numbers if the region draws any. Returns whether it does.
bool setUpRandom(BodyEmitter &body, mlir::Region &region);

//--- Iterations ---

/// Unsigned minimum and maximum, folded to constants if both operands are constants (the builder does not fold the intrinsics).
inline llvm::Value *getUnsignedMin(llvm::IRBuilder<> &at, llvm::Value *a, llvm::Value *b) {
  return at.CreateSelect(at.CreateICmpULT(a, b), a, b);
}
inline llvm::Value *getUnsignedMax(llvm::IRBuilder<> &at, llvm::Value *a, llvm::Value *b) {
  return at.CreateSelect(at.CreateICmpUGT(a, b), a, b);
}

/// One axis of a parallel loop.
struct Axis {
  Component lower, step;
  llvm::Value *extent = nullptr; ///< number of iterations, i64
  mlir::Type type;
};
llvm::SmallVector<Axis, 4> getAxes(BodyEmitter &in, ir::ForOp loop);
/// Whether a loop could have more than 2^63 - 1 iterations, as far as its bounds are constants.
bool mayHaveTooManyIterations(ir::ForOp loop);
/// Whether a loop has more than 2^63 - 1 iterations, as an i1; null if that is impossible.
llvm::Value *hasTooManyIterations(BodyEmitter &in, ir::ForOp loop, llvm::ArrayRef<Axis> axes);
/// The step of an axis, if it is a constant.
std::optional<int64_t> findStep(ir::ForOp loop, unsigned axis);

/// Number of lanes that fill a vector register with the widest scalar that a body computes with.
unsigned chooseLanes(ModuleEmitter &module, mlir::Region &body);

/// The loop of a parallel task; null after an error.
ir::ForOp findLoop(ModuleEmitter &module, ir::TaskOp task);

/// Splits a flattened index into the indices of each axis; the last axis varies fastest.
llvm::SmallVector<llvm::Value *, 4> unflatten(llvm::IRBuilder<> &at, llvm::Value *flat, llvm::ArrayRef<llvm::Value *> extents);

//--- Reductions ---

/// A substitute for a target of the whole loop (qd.accumulator, qd.private_copy) and its memory.
struct Reduction {
  mlir::Operation *op = nullptr;
  ir::AtomicKind kind = ir::AtomicKind::add;
  mlir::Type element;
  llvm::SmallVector<LocalPlace, 4> sums; ///< accumulator: its registers in the function of the loop
  uint32_t slot = 0;                     ///< scratch slot of the pointer to the partial results
  bool isCopy() const { return llvm::isa<ir::PrivateCopyOp>(op); }
  mlir::Value getTarget() const { return op->getOperand(0); }
};

llvm::Value *getElementCount(BodyEmitter &in, const Tensor &target);
/// A container with the extents of `target` whose elements are packed at `data`.
Tensor makePacked(BodyEmitter &in, const Tensor &target, llvm::Value *data);
/// Element number `element` of a container in row-major order.
MemoryPlace getElementAt(BodyEmitter &in, const Tensor &tensor, const Component &element);
/// A new local that accumulates a reduction; every component starts with `value`.
LocalPlace makeSum(BodyEmitter &in, mlir::Type type, LaneKind kind, llvm::Value *value);
/// The type in which elements of a type are accumulated: sums and products of 16-bit floats are rounded once, at the end.
mlir::Type getSumType(ir::AtomicKind kind, mlir::Type element);
/// place = place combined with `more`, which belong to a value of this type.
void combineInto(BodyEmitter &in, ir::AtomicKind kind, const Place &place, mlir::Type type, Components more);

} // namespace qd::codegen
