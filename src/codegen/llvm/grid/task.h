// task.h: tasks as grids of threads
//
// An entry is one function that every thread of the grid runs: each thread computes what precedes the loop, then takes iterations in
// strides of the grid. Begin reading at emitGridTask (task.cpp). reductions.cpp: work that threads do together; threads.h: thread numbers,
// barriers and shuffles; target.h: what devices do differently; launch_exprs.cpp: sizes that the host computes.
#pragma once

#include "codegen/llvm/grid/shape.h"
#include "codegen/llvm/grid/threads.h"

namespace qd::codegen {

/// Number of steps of a loop over its threads; each thread takes a group of iterations at a time.
artifact::LaunchExpr countIterations(ir::ForOp loop, const GridShape &shape);
/// Number of iterations along one axis, if it is a constant.
std::optional<int64_t> findRounds(ir::ForOp loop, unsigned axis);
/// Lower bound of an axis, if it is a constant.
std::optional<int64_t> findLower(ir::ForOp loop, unsigned axis);
/// Bytes of the elements of all these containers, packed one after the other.
artifact::LaunchExpr countBytes(llvm::ArrayRef<mlir::Value> tensors, ModuleEmitter &module);

/// Emits one task.
class GridTask {
public:
  GridTask(ModuleEmitter &module, ir::TaskOp task, int index) : module(module), task(task), index(index) {}
  void emit(bool isLast);

private:
  // task.cpp
  void emitSerial(bool isLast);
  void emitParallel();
  void chooseRounds();
  llvm::Function *makeEntry();
  unsigned countUsefulThreads();
  bool waitsAtBarriers();
  void beginEntry(const BodyFacts &facts);
  llvm::Value *hasStopped();
  void alignRows();
  llvm::Value *countSteps();
  llvm::Value *getGroups(unsigned axis);
  llvm::Value *getTiles(unsigned axis);
  llvm::Value *findAlignedElements();
  void emitVersions(bool sharedCopies);
  void emitLoop(bool sharedCopies);
  void emitIteration(llvm::Value *flat);
  void emitRows(llvm::Value *flat);
  void emitBody();
  llvm::Value *getLast(llvm::Value *flat);
  llvm::SmallVector<llvm::Value *, 4> getDigits(llvm::Value *numbers);
  llvm::SmallVector<llvm::Value *, 4> getDigitsInTiles(llvm::Value *flat);
  void setIndices(llvm::Value *flat);
  void setIndex(unsigned axis, llvm::Value *counter, LaneKind kind);

  // columns.cpp
  void findAlignedRows(llvm::Value *&misaligned);
  void emitColumns(llvm::Value *group, llvm::Value *allRows, llvm::function_ref<void()> emitSomeRows);
  std::vector<AliasScopes::IterationScopes> makeIterationScopes();
  void setColumn(llvm::Value *group, llvm::Value *column);

  // reductions.cpp
  void collectReductions();
  void beginSums();
  void endSums();
  llvm::Value *isWorthCopying(llvm::Value *total);
  void beginCopies(bool isShared);
  void endCopies();
  Components combineBlock(const Reduction &reduction, Components values);
  llvm::Value *combineSubgroup(ir::AtomicKind kind, mlir::Type type, llvm::Value *value);

  ModuleEmitter &module;
  ir::TaskOp task;
  int index;
  ir::ForOp loop;
  GridShape shape;
  uint64_t idleColumns = 0; ///< at the beginning of each row
  std::unique_ptr<BodyEmitter> body;
  std::optional<GridThreads> threads;
  llvm::SmallVector<Axis, 4> axes;
  llvm::Value *total = nullptr; ///< number of iterations, of the type of flattened indices
  bool drawsRandom = false;
  std::vector<Reduction> reductions;
  llvm::MapVector<mlir::Value, Tensor> alignedTensors; ///< containers with accesses to whole elements or several, if aligned
  llvm::Value *isAligned = nullptr;                    ///< whether all of `alignedTensors` are aligned; null: there are none
  bool hasAligned = false;                             ///< emitting the version for aligned containers
  artifact::DeviceTask deviceTask;
};

} // namespace qd::codegen
