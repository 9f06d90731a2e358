// module_emitter.h: state that the emitters of all functions of a kernel share
#pragma once

#include "codegen/llvm/abi_members.h"
#include "codegen/llvm/emit.h"
#include "codegen/llvm/outlined_regions.h"
#include "codegen/llvm/source_lines.h"
#include "codegen/llvm/uniformity.h"
#include "codegen/llvm/work.h"
#include "ir/dialect.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/IR/DerivedTypes.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"

#include <map>
#include <set>

namespace qd::codegen {

class ModuleEmitter {
public:
  ModuleEmitter(mlir::ModuleOp source, llvm::LLVMContext &ctx, const passes::TargetTraits &traits, const EmitOptions &options,
                artifact::Artifact &artifact);

  /// Emits the kernel; sets `hasFailed` after an error.
  void emit();
  /// Reports an error of the user or, if the text states it, of the compiler. Emission goes on, and its result is dropped.
  mlir::InFlightDiagnostic reportError(mlir::Location loc);

  llvm::Type *getType(mlir::Type scalar) const;
  /// The type in memory: u1 takes a byte; bf16 takes two bytes, the upper half of the f32 that represents it in registers.
  llvm::Type *getMemoryType(mlir::Type scalar) const;
  int64_t getByteSize(mlir::Type scalar) const { return int64_t(support::getByteSize(ir::getScalarType(scalar))); }

  /// Adds a slot to the scratch block, for values that cross functions.
  uint32_t addScratch(uint32_t bytes);
  /// Number of the site of a print or an assertion in inlined functions; `calls` are the inlined calls, outermost first.
  int getSite(mlir::Operation *op, llvm::ArrayRef<mlir::Operation *> calls);
  llvm::Function *getDevlib(llvm::StringRef name, mlir::Type type, unsigned lanes, llvm::Type *result,
                            llvm::ArrayRef<llvm::Type *> operands);
  llvm::Function *makeFunction(llvm::Type *result, llvm::ArrayRef<llvm::Type *> parameters, const llvm::Twine &name);
  /// An outlined instance of a function.
  llvm::Function *getInstance(ir::FuncOp function, llvm::ArrayRef<LaneKind> kinds, unsigned lanes);
  /// The function that a qd.call calls; null for other operations.
  ir::FuncOp lookup(mlir::Operation *op) const;
  bool isRecursive(ir::FuncOp function);
  /// Whether instances of the function get the limit of the stack as a parameter.
  bool needsStackLimit(ir::FuncOp function) { return !traits.hasGrids && isRecursive(function); }
  /// Whether calls of the function become calls in LLVM IR (otherwise they are inlined).
  bool isOutlined(ir::FuncOp function);
  /// Number of operations of a region, counted by components, including those of called functions.
  int64_t getSize(mlir::Region &region);
  /// The same for one operation without its regions.
  int64_t getSize(mlir::Operation *op);
  /// Approximate number of operations that one run of a region executes before it first polls for cancellation, or in total (work.h).
  double getWork(mlir::Region &region);
  Polling getPolling(ir::ForOp loop, unsigned axis);
  /// Whether the region or a function called from it contains an operation that `matches`.
  bool containsDeep(mlir::Region &region, llvm::function_ref<bool(mlir::Operation *)> matches);

  /// The alias scope of a container argument: one per field, one for all arrays together. -1: none.
  int getAliasScope(ir::TensorArgumentOp argument);
  int getScratchScope() const { return scratchScope; }
  /// Whether the iterations of a loop cooperate in blocks.
  bool isOfBlock(ir::ForOp loop) { return containsDeep(loop.getBody(), ir::isOfBlock); }
  /// Offset of a shared array in the shared memory of a block.
  uint32_t getSharedOffset(ir::SharedOp op);
  uint32_t sharedBytes = 0; ///< bytes of the shared arrays of all tasks so far
  /// Adds alias metadata to an access to a container; `lane`: the only lane that makes the access.
  void setAlias(llvm::Instruction *instruction, int scope, std::optional<unsigned> lane = std::nullopt);
  /// Marks a load as invariant if no thread of the grid writes the memory that it reads.
  void setReadOnly(llvm::Instruction *load, int scope);

  mlir::ModuleOp source;
  llvm::LLVMContext &ctx;
  const passes::TargetTraits &traits;
  const EmitOptions &options;
  std::unique_ptr<llvm::Module> module;
  Uniformity uniformity;
  artifact::Artifact &artifact;
  bool hasFailed = false;
  uint32_t argumentBytes = 0;
  std::optional<SourceLines> lines; ///< set if line tables are wanted
  /// Regions to outline after everything is emitted.
  llvm::MapVector<llvm::Function *, std::vector<OutlinedRegion>> outlinedRegions;
  /// Threads that see atomic operations in one order: all of the system, or those of the device.
  llvm::SyncScope::ID atomicScope = llvm::SyncScope::System;

  //--- Targets with grids ---
  bool hasReadOnlyLoads = false; ///< loads of memory that the task does not write may use the read-only cache
  /// Alias scopes of one iteration of a parallel loop and of its neighbors: no order exists between iterations.
  struct IterationScopes {
    llvm::MDNode *own, *others;
  };
  std::vector<IterationScopes> iterations; ///< one per lane, if iterations are distinguished
  bool needsManyRegisters = false;         ///< the task that is being emitted waits for many loads at a time
  bool mayHaveFailed = false;              ///< a check of an emitted task may have failed
  std::optional<uint32_t> endSlot;         ///< scratch slot of the flag that a task ended the kernel

private:
  void collectAliasScopes();
  void collectWrittenScopes(ir::TaskOp task); ///< adds to those already collected
  void emitTaskFunctions(ir::KernelOp kernel);
  void emitGrids(mlir::Block &block, bool isRepeated);
  void countCalls();

  std::map<std::string, llvm::Function *> instances;
  std::map<uint32_t, uint32_t> sharedOffsets; ///< key: number of the array
  std::map<std::vector<mlir::Operation *>, int> sites;
  llvm::DenseMap<mlir::Operation *, unsigned> callCounts;
  llvm::DenseMap<mlir::Region *, int64_t> sizes;
  llvm::DenseMap<mlir::Region *, double> works;
  llvm::DenseMap<mlir::Operation *, bool> outlined, recursive;
  std::map<uint32_t, int> fieldScopes; ///< key: offset in the argument block
  int arrayScope = -1, scratchScope = -1;
  std::vector<llvm::MDNode *> scopeLists, otherLists;
  std::set<int> writtenScopes; ///< scopes that the current task, and tasks merged with it, write
  int entryCount = 0;          ///< number of entries emitted for grids
};

/// Emits a task (task.cpp) as `i1 task(context)`, which returns true if the kernel ends with it.
llvm::Function *emitTask(ModuleEmitter &module, ir::TaskOp task, int index);
/// Bytes of all elements of a container, packed.
int64_t getPackedBytes(ModuleEmitter &module, ir::TensorType type);
/// Emits a task as a grid (grid_task.cpp): an entry, and its record in the artifact.
void emitGridTask(ModuleEmitter &module, ir::TaskOp task, int index, bool isLast);
/// The task and those directly after it that a single block of threads can run with it (merged_tasks.cpp).
llvm::SmallVector<ir::TaskOp> findSmallTasks(ModuleEmitter &module, ir::TaskOp first);
/// Merges the entries from number `first` on, which one block runs one after the other, into one entry.
void mergeTasks(ModuleEmitter &module, size_t first);

} // namespace qd::codegen
