// grid.h: tasks as grids of threads
//
// An entry is one function for every thread of the grid: what stands before the loop is computed by each thread, then it takes iterations
// in strides of the grid. Begin reading at emitGridTask (grid_task.cpp); grid_reductions.cpp is what threads do together, grid_threads.cpp
// how they ask and talk, launch_exprs.cpp what the host is told about the sizes.
#pragma once

#include "codegen/llvm/task.h"

namespace qd::codegen {

/// What a thread of a grid knows of itself, and how it talks to its neighbors. NVPTX.
class GridThreads {
public:
  explicit GridThreads(BodyEmitter &in) : in(in), builder(in.builder) {}

  /// The thread in its block, the threads of a block, the block in the grid, the blocks of the grid; i32.
  llvm::Value *getThread();
  llvm::Value *getBlockSize();
  llvm::Value *getBlock();
  llvm::Value *getBlockCount();
  /// Waits for all threads of the block, and sees what they have written.
  void synchronize();
  /// The value that the thread `distance` further on in the warp has. All threads of the warp take part.
  llvm::Value *shuffleDown(llvm::Value *value, unsigned distance);
  /// The value that thread `lane` of the warp has. All threads of the warp take part.
  llvm::Value *shuffle(llvm::Value *value, llvm::Value *lane);
  /// Waits for the threads of the warp.
  void synchronizeWarp();
  /// Waits for the threads of all blocks, which run at the same time; `branch` is that of the task.
  void synchronizeGrid(uint32_t branch);
  llvm::Value *pin(llvm::Value *value); ///< computed here, not where it is used
  /// A bit for each thread of the warp; i32.
  llvm::Value *ballot(llvm::Value *vote);
  void fence(bool ofBlock);
  /// Shared memory of one value, as a generic address.
  llvm::Value *makeShared(llvm::Type *type, llvm::StringRef name);
  /// The shared memory whose size the host chooses, as a generic address.
  llvm::Value *getDynamicShared();
  static constexpr unsigned kWarp = 32;

private:
  llvm::Value *readRegister(unsigned intrinsic, uint64_t limit);
  llvm::Function *getGridBarrier();
  llvm::Value *exchange(llvm::Value *value, llvm::function_ref<llvm::Value *(llvm::Value *word)> exchangeWord);

  BodyEmitter &in;
  llvm::IRBuilder<> &builder;
};

/// The iterations of a loop, of which a thread takes those of `rows` neighbors along `rowAxis` and `columns` along the last axis at a
/// time.
artifact::LaunchExpr countIterations(ir::ForOp loop, std::optional<unsigned> rowAxis, unsigned rows, unsigned columns);
/// The iterations along one axis, where they are a constant.
std::optional<int64_t> findRounds(ir::ForOp loop, unsigned axis);
/// Where an axis begins, where that is a constant.
std::optional<int64_t> findLower(ir::ForOp loop, unsigned axis);
/// Bytes of the elements of containers, packed, one after the other.
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
  std::optional<unsigned> rowAxis; ///< the axis along which lanes are neighbors; none: each is a block's width after the last
  unsigned columns = 1;            ///< that a thread takes of the last axis, with `rowAxis` only
  uint64_t idleColumns = 0;        ///< at the beginning of each row
  unsigned blockSize = 1;
  std::unique_ptr<BodyEmitter> body;
  std::optional<GridThreads> threads;
  llvm::SmallVector<Axis, 4> axes;
  llvm::Value *total = nullptr; ///< iterations, of the type that numbers them
  bool drawsRandom = false;
  std::vector<Reduction> reductions;
  llvm::MapVector<mlir::Value, Tensor>
      alignedTensors;               ///< containers of which one access takes an element or several, when they are aligned
  llvm::Value *isAligned = nullptr; ///< whether all of them are; null: there are none
  bool hasAligned = false;          ///< the version for aligned containers is being emitted
  artifact::DeviceTask deviceTask;
};

} // namespace qd::codegen
