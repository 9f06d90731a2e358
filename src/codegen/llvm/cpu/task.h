// task.h: the emitter of a parallel task on the processor
#pragma once

#include "codegen/llvm/tasks.h"

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
  /// Number of trailing axes that a chunk covers as a whole, as loops with constant ends, and the number of their iterations.
  unsigned wholeAxes = 0;
  int64_t whole = 1;
  /// Number of rows of the innermost axis that one vector takes, if it takes several.
  int64_t rows = 1;
  /// Lanes of the loops inside it that run along rows (kRows); the loop has one lane then. 0: these are loops like others.
  unsigned rowLanes = 0;
  /// Containers whose rows the lanes walk along, and the axes along which they lie apart: one lane takes less time if they are congested.
  llvm::SmallVector<std::pair<mlir::Value, unsigned>, 2> distantRows;
  uint64_t congestion = 0; ///< rows that are a multiple of so many bytes apart are congested
  /// Arrays with short rows (kRowLength) that lanes reach at the distance of one row: wide accesses, if the rows have that length.
  llvm::SmallVector<ir::TensorArgumentOp, 2> shortRows;
  bool takesShortRows = false;      ///< one lane is for loops along rows (kRows) that are short; another version is for long ones
  bool takesRowLengths = false;     ///< this is the version for rows of that length
  llvm::StringRef suffix = "_loop"; ///< of the name of its function
};

/// Maximum size of the rows of a block that are emitted one after the other.
inline constexpr int64_t kMaxUnrolledRows = 4096;

/// Assumed number of iterations of a loop whose bounds are not constants.
inline constexpr double kUnknownRounds = 16;

LoopSchedule scheduleLoop(ModuleEmitter &module, ir::ForOp loop);
/// Cycles of arithmetic with vectors; 0 for other operations.
double getArithmeticCost(mlir::Operation *op);
/// Whether one lane takes less time than several, which would walk along rows that lie apart (whyScalar). Lists the rows if it does when
/// they are congested (distantRows).
bool chooseForDistantRows(ModuleEmitter &module, ir::ForOp loop, LoopSchedule &schedule);
/// Lists the arrays with short rows.
void findShortRows(ir::ForOp loop, LoopSchedule &schedule);
/// Whether these rows have the length that the compiler expects.
llvm::Value *areAsShort(BodyEmitter &body, const LoopSchedule &schedule);
/// Whether the rows of a schedule compete for places of the cache; a constant if that is known.
llvm::Value *areCongested(BodyEmitter &body, const LoopSchedule &schedule);
/// The schedule of the other version of a loop: with one lane, whose inner loops run in lanes if they are marked, or for short rows.
LoopSchedule scheduleRows(ModuleEmitter &module, ir::ForOp loop, const LoopSchedule &schedule);

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
  llvm::Value *isOtherBetter();
  llvm::Value *hasLongRows();
  void emitStrips(BodyEmitter &in, llvm::Value *begin, llvm::Value *end);
  void emitRows(BodyEmitter &in, llvm::Value *begin, llvm::Value *end);
  void emitRow(BodyEmitter &in, llvm::ArrayRef<Axis> axes, llvm::Value *first, llvm::Value *column, llvm::Value *length);
  void emitWhole(BodyEmitter &in, llvm::ArrayRef<Axis> axes, size_t axis, llvm::Value *first);
  void emitRowGroups(BodyEmitter &in, llvm::ArrayRef<Axis> axes, llvm::Value *first);
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
  llvm::Value *countRounds(mlir::Operation *op);
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
  llvm::Value *longestRow = nullptr; ///< number of iterations of the longest loop along a row; null: all are constants
  uint32_t copiesSlot = 0;           ///< scratch slot of the number of private copies
  /// Values that the task computes before its loop → their scratch slots.
  llvm::MapVector<mlir::Value, uint32_t> captures;
};

} // namespace qd::codegen
