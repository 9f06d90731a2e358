// task.h: the emitter of a parallel task, and the helpers that its files share
#pragma once

#include "codegen/llvm/body.h"

#include "llvm/ADT/MapVector.h"

namespace qd::codegen {

/// How a parallel loop is cut into chunks and lanes; chosen before any of it is emitted.
struct LoopSchedule {
  unsigned lanes = 1;
  /// Why there is only one lane; empty otherwise.
  std::string whyScalar;
  /// Minimum number of iterations of a chunk, so that a chunk is worth the cost of scheduling it.
  int64_t grain = 1024;
  /// Emits full vectors without a mask and the remainder under one. False: one masked copy, because the code is large.
  bool separateTail = true;
  /// The innermost axis is shorter than a vector: each lane computes its indices by division.
  bool perLaneIndices = false;
  /// Every run of iterations fills whole vectors: there is no remainder.
  bool isEven = false;
};

LoopSchedule scheduleLoop(ModuleEmitter &module, ir::ForOp loop);

/// Unsigned minimum and maximum, folded to constants if both operands are constants (the builder does not fold the intrinsics).
inline llvm::Value *getUnsignedMin(llvm::IRBuilder<> &at, llvm::Value *a, llvm::Value *b) {
  return at.CreateSelect(at.CreateICmpULT(a, b), a, b);
}
inline llvm::Value *getUnsignedMax(llvm::IRBuilder<> &at, llvm::Value *a, llvm::Value *b) {
  return at.CreateSelect(at.CreateICmpUGT(a, b), a, b);
}

/// Splits a flattened index into the indices of each axis; the last axis varies fastest.
llvm::SmallVector<llvm::Value *, 4> unflatten(llvm::IRBuilder<> &at, llvm::Value *flat, llvm::ArrayRef<llvm::Value *> extents);

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

/// The loop of a parallel task; null after an error.
ir::ForOp findLoop(ModuleEmitter &module, ir::TaskOp task);

/// Lets a task end the kernel: stores the values of a qd.return, then calls `leave`.
void setUpReturns(BodyEmitter &body, std::function<void()> leave);
/// Sets up the counter of random numbers if the region draws any. Returns whether it does.
bool setUpRandom(BodyEmitter &body, mlir::Region &region);

//--- Reductions ---

llvm::Value *getElementCount(BodyEmitter &in, const Tensor &target);
/// The container as one axis, if its elements are stored contiguously.
std::optional<ir::TensorType> getFlatType(ir::TensorType type);
/// A container with the extents of `target` whose elements are packed at `data`.
Tensor makePacked(BodyEmitter &in, const Tensor &target, llvm::Value *data);
/// Element number `element` of a container in row-major order.
MemoryPlace getElementAt(BodyEmitter &in, const Tensor &tensor, const Component &element);
/// A new local that accumulates a reduction; every component starts with `value`.
LocalPlace makeSum(BodyEmitter &in, mlir::Type type, LaneKind kind, llvm::Value *value);
/// place = place combined with `more`.
void combineInto(BodyEmitter &in, ir::AtomicKind kind, const Place &place, const Components &more);
/// Maximum number of scalars of the container that one iteration updates.
uint64_t countUpdates(const Reduction &copy);

/// Emits a parallel task into `body`, the emitter of the task's function.
class ParallelTask {
public:
  ParallelTask(ModuleEmitter &module, BodyEmitter &body, ir::TaskOp task, int index)
      : module(module), body(body), builder(body.builder), task(task), index(index) {}

  void emit();

private:
  // task.cpp
  llvm::Value *getChunkSize(llvm::Value *total);
  llvm::Value *roundChunk(llvm::Value *size);
  void callParallelFor(llvm::Function *function, llvm::Value *total, llvm::Value *chunkSize);
  std::unique_ptr<BodyEmitter> beginFunction(unsigned lanes, const BodyFacts &bodyFacts, const llvm::Twine &suffix);
  llvm::Function *emitLoopFunction(bool privateCopies);
  void emitStrips(BodyEmitter &in, llvm::Value *begin, llvm::Value *end);
  void emitRows(BodyEmitter &in, llvm::Value *begin, llvm::Value *end);
  void emitRow(BodyEmitter &in, llvm::ArrayRef<Axis> axes, llvm::Value *first, llvm::Value *column, llvm::Value *length);
  llvm::Value *countPeeled(BodyEmitter &in, llvm::ArrayRef<Axis> axes, llvm::Value *column, llvm::Value *length);
  void emitIteration(BodyEmitter &in, llvm::ArrayRef<Axis> axes, llvm::Value *flat, llvm::Value *column);
  void setUpResolve(BodyEmitter &in);
  llvm::Value *getSlotPointer(BodyEmitter &in, uint32_t slot);
  void storeCaptures();

  // blocks.cpp
  void emitBlocks(llvm::Value *total);
  llvm::Function *emitThreadFunction();
  uint32_t getBlockSize();

  // reductions.cpp
  void collectReductions();
  void beginChunk(BodyEmitter &in, llvm::Value *chunk, bool privateCopies);
  void useSums(BodyEmitter &in, unsigned number);
  void endChunk(BodyEmitter &in, llvm::Value *chunk);
  int64_t getBytes(mlir::Type type) const { return ir::getComponentCount(type) * module.getByteSize(ir::getScalar(type)); }
  llvm::Value *getCopySlots(llvm::Value *total, llvm::Value *&worthwhile);
  void allocate(uint32_t slot, llvm::Value *bytes);
  llvm::Value *getPartial(BodyEmitter &in, const Reduction &reduction, llvm::Value *chunk);
  void combineAccumulators(llvm::Value *chunks);
  void mergeCopies(llvm::Value *chunks);
  llvm::Function *emitMerge(const Reduction &copy);
  Tensor getCopy(BodyEmitter &in, const Reduction &copy, llvm::Value *number);

  ModuleEmitter &module;
  BodyEmitter &body;
  llvm::IRBuilder<> &builder;
  ir::TaskOp task;
  int index;
  ir::ForOp loop;
  LoopSchedule schedule;
  const BodyFacts *facts = nullptr;
  bool drawsRandom = false;
  std::vector<Reduction> reductions;
  /// Registers per accumulator; neighboring vectors use them in turn, because additions that depend on each other are slow.
  unsigned sumCount = 1;
  uint32_t copiesSlot = 0; ///< scratch slot of the number of private copies
  /// Values that the task computes before its loop → their scratch slots.
  llvm::MapVector<mlir::Value, uint32_t> captures;
};

} // namespace qd::codegen
