// module_emitter.h: what the emitters of all functions of a kernel share
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
  /// An error in what the user wrote or, where the text says so, in the compiler. The walk goes on, and its outcome is dropped.
  mlir::InFlightDiagnostic reportError(mlir::Location loc);

  llvm::Type *getType(mlir::Type scalar) const;
  /// The type in memory: u1 takes a byte; bf16 takes the upper half of the f32 that it is in registers.
  llvm::Type *getMemoryType(mlir::Type scalar) const;
  int64_t getByteSize(mlir::Type scalar) const { return int64_t(support::getByteSize(ir::getScalarType(scalar))); }

  /// A slot of the scratch block for what the emitter hands from function to function.
  uint32_t addScratch(uint32_t bytes);
  /// The number of the site of a print or an assertion that stands in functions emitted in place: `calls`, outermost first.
  int getSite(mlir::Operation *op, llvm::ArrayRef<mlir::Operation *> calls);
  llvm::Function *getDevlib(llvm::StringRef name, mlir::Type type, unsigned lanes, llvm::Type *result,
                            llvm::ArrayRef<llvm::Type *> operands);
  llvm::Function *makeFunction(llvm::Type *result, llvm::ArrayRef<llvm::Type *> parameters, const llvm::Twine &name);
  /// An outlined instance of a function.
  llvm::Function *getInstance(ir::FuncOp function, llvm::ArrayRef<LaneKind> kinds, unsigned lanes);
  /// What a qd.call calls; null for other operations.
  ir::FuncOp lookup(mlir::Operation *op) const;
  bool isRecursive(ir::FuncOp function);
  /// Whether instances of the function are told how much stack there is.
  bool watchesStack(ir::FuncOp function) { return !traits.hasGrids && isRecursive(function); }
  /// Whether calls of the function are worth a function of their own.
  bool isOutlined(ir::FuncOp function);
  /// Operations of a region, counted by components, with those of the functions that it calls.
  int64_t getSize(mlir::Region &region);
  /// The same for one operation without its regions.
  int64_t getSize(mlir::Operation *op);
  /// Operations that one run of a region takes, roughly, or takes before it first looks whether the launch was given up (work.h).
  double getWork(mlir::Region &region);
  Polling getPolling(ir::ForOp loop, unsigned axis);
  /// Whether the region, or a function called from it, holds an operation that `matches`.
  bool containsDeep(mlir::Region &region, llvm::function_ref<bool(mlir::Operation *)> matches);

  /// The alias scope of a container argument: one for each field, one for all arrays together. -1: none.
  int getAliasScope(ir::TensorArgumentOp argument);
  int getScratchScope() const { return scratchScope; }
  /// Whether the iterations of a loop work together in blocks.
  bool isOfBlock(ir::ForOp loop) { return containsDeep(loop.getBody(), ir::isOfBlock); }
  /// Where a shared array lies in the memory of a block.
  uint32_t getSharedOffset(ir::SharedOp op);
  uint32_t sharedBytes = 0; ///< of the shared arrays of all tasks up to here
  /// Tells what an access to a container, of one lane only where that is given, has nothing to do with.
  void setAlias(llvm::Instruction *instruction, int scope, std::optional<unsigned> lane = std::nullopt);
  /// Tells a load that no thread of the grid writes what it reads, where that is so.
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
  std::optional<SourceLines> lines; ///< where they are wanted
  /// What becomes functions of their own in the end.
  llvm::MapVector<llvm::Function *, std::vector<OutlinedRegion>> outlinedRegions;
  /// Who sees atomic operations in one order: everybody, or the threads of the device.
  llvm::SyncScope::ID atomicScope = llvm::SyncScope::System;

  //--- Targets with grids ---
  bool hasReadOnlyLoads = false; ///< loads of what the task does not write may go through the cache for constants
  /// Alias scopes of an iteration of a parallel loop, and of those beside it: nothing orders them.
  struct IterationScopes {
    llvm::MDNode *own, *others;
  };
  std::vector<IterationScopes> iterations; ///< for each lane, where they are told apart
  bool wantsRegisters = false;             ///< the task that is being emitted waits for many loads at a time
  bool mayHaveFailed = false;              ///< a check of theirs may have failed
  std::optional<uint32_t> endSlot;         ///< scratch slot that says whether one of them ended the kernel

private:
  void collectAliasScopes();
  void collectWrittenScopes(ir::TaskOp task); ///< adds to those that are there
  void emitOwnTasks(ir::KernelOp kernel);
  void emitGrids(mlir::Block &block, bool isRepeated);
  void countCalls();

  std::map<std::string, llvm::Function *> instances;
  std::map<uint32_t, uint32_t> sharedOffsets; ///< by the number of the array
  std::map<std::vector<mlir::Operation *>, int> sites;
  llvm::DenseMap<mlir::Operation *, unsigned> callCounts;
  llvm::DenseMap<mlir::Region *, int64_t> sizes;
  llvm::DenseMap<mlir::Region *, double> works;
  llvm::DenseMap<mlir::Operation *, bool> outlined, recursive;
  std::map<uint32_t, int> fieldScopes; ///< offset in the argument block → scope
  int arrayScope = -1, scratchScope = -1;
  std::vector<llvm::MDNode *> scopeLists, otherLists;
  std::set<int> writtenScopes; ///< of the task that is being emitted, and of those that go into one launch with it
  int entryCount = 0;          ///< tasks with grids that have been emitted
};

/// Tasks (task.cpp): `i1 task(context)`, true when the kernel ends with it.
llvm::Function *emitTask(ModuleEmitter &module, ir::TaskOp task, int index);
/// Tasks as grids (grid_task.cpp): an entry, and its row in the artifact.
/// The bytes that the elements of a container take, packed.
int64_t getPackedBytes(ModuleEmitter &module, ir::TensorType type);
void emitGridTask(ModuleEmitter &module, ir::TaskOp task, int index, bool isLast);
/// The task, and those right after it that one block of threads may do with it (merged_tasks.cpp).
llvm::SmallVector<ir::TaskOp> findSmallTasks(ModuleEmitter &module, ir::TaskOp first);
/// Makes one entry of tasks that follow each other, where one block does all of them: of those with this number and later ones.
void mergeTasks(ModuleEmitter &module, size_t first);

} // namespace qd::codegen
