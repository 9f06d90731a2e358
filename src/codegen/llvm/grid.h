// grid.h: tasks as grids of threads
//
// An entry is one function that every thread of the grid runs: each thread computes what precedes the loop, then takes iterations in
// strides of the grid. Begin reading at emitGridTask (grid_task.cpp). grid_reductions.cpp: work that threads do together; grid_threads.cpp:
// thread numbers, barriers and shuffles; launch_exprs.cpp: sizes that the host computes.
#pragma once

#include "codegen/llvm/task.h"

namespace qd::codegen {

/// Numbers of a thread and of its block, and communication with the other threads. NVPTX.
class GridThreads {
public:
  explicit GridThreads(BodyEmitter &in) : in(in), builder(in.builder) {}

  /// Number of the thread in its block, threads per block, number of the block in the grid, blocks per grid; i32.
  llvm::Value *getThread();
  llvm::Value *getBlockSize();
  llvm::Value *getBlock();
  llvm::Value *getBlockCount();
  /// Barrier of the block: afterwards, writes of all its threads are visible.
  void synchronize();
  /// The value of the thread `distance` lanes after this one in the warp. All threads of the warp take part.
  llvm::Value *shuffleDown(llvm::Value *value, unsigned distance);
  /// The value of lane `lane` of the warp. All threads of the warp take part.
  llvm::Value *shuffle(llvm::Value *value, llvm::Value *lane);
  /// Barrier of the warp.
  void synchronizeWarp();
  /// Barrier of the grid, whose blocks all run at the same time; `branch` is that of the task.
  void synchronizeGrid(uint32_t branch);
  llvm::Value *pin(llvm::Value *value); ///< keeps LLVM from moving the computation to its uses
  /// One bit per thread of the warp; i32.
  llvm::Value *ballot(llvm::Value *vote);
  void fence(bool ofBlock);
  /// Shared memory of one value, as a generic address.
  llvm::Value *makeShared(llvm::Type *type, llvm::StringRef name);
  /// The shared memory whose size the host chooses at launch, as a generic address.
  llvm::Value *getDynamicShared();
  static constexpr unsigned kWarp = 32;

private:
  llvm::Value *readRegister(unsigned intrinsic, uint64_t limit);
  llvm::Function *getGridBarrier();
  llvm::Value *exchange(llvm::Value *value, llvm::function_ref<llvm::Value *(llvm::Value *word)> exchangeWord);

  BodyEmitter &in;
  llvm::IRBuilder<> &builder;
};

/// Number of steps of a loop over its threads; each thread takes `rows` neighbors along `rowAxis` and `columns` neighbors along the last
/// axis at a time.
artifact::LaunchExpr countIterations(ir::ForOp loop, std::optional<unsigned> rowAxis, unsigned rows, unsigned columns);
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
  // grid_task.cpp
  void emitSerial(bool isLast);
  void emitParallel();
  llvm::Function *makeEntry();
  double countKnownIterations();
  void beginEntry(const BodyFacts &facts);
  llvm::Value *hasStopped();
  void chooseLanes();
  LaneKinds getIndexKinds();
  void alignRows();
  llvm::Value *countSteps();
  llvm::Value *getGroups(unsigned axis);
  llvm::Value *findAlignedElements();
  void emitVersions(bool sharedCopies);
  void emitLoop(bool sharedCopies);
  void emitIteration(llvm::Value *flat);
  void emitRows(llvm::Value *flat);
  void emitBody();
  llvm::Value *getLast(llvm::Value *flat);
  llvm::SmallVector<llvm::Value *, 4> getDigits(llvm::Value *numbers);
  void setIndices(llvm::Value *flat);
  void setIndex(unsigned axis, llvm::Value *counter, LaneKind kind);

  // grid_columns.cpp
  unsigned countColumns();
  void findAlignedRows(llvm::Value *&misaligned);
  void emitColumns(llvm::Value *group, llvm::Value *allRows, llvm::function_ref<void()> emitSomeRows);
  std::vector<ModuleEmitter::IterationScopes> makeIterationScopes();
  void setColumn(llvm::Value *group, llvm::Value *column);

  // grid_reductions.cpp
  void collectReductions();
  void beginSums();
  void endSums();
  llvm::Value *isWorthCopying(llvm::Value *total);
  void beginCopies(bool isShared);
  void endCopies();
  Components combineBlock(const Reduction &reduction, Components values);
  llvm::Value *combineWarp(ir::AtomicKind kind, mlir::Type type, llvm::Value *value);

  ModuleEmitter &module;
  ir::TaskOp task;
  int index;
  ir::ForOp loop;
  unsigned lanes = 1;
  std::optional<unsigned> rowAxis; ///< axis along which lanes are neighbors; none: each lane is one block's width after the previous one
  unsigned columns = 1;            ///< of the last axis per thread; more than 1 only with `rowAxis`
  uint64_t idleColumns = 0;        ///< at the beginning of each row
  unsigned blockSize = 1;
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
