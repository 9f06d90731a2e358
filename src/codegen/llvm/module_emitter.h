// module_emitter.h: state that the emitters of all functions of a kernel share
#pragma once

#include "codegen/llvm/abi_members.h"
#include "codegen/llvm/alias_scopes.h"
#include "codegen/llvm/cpu/outlined_regions.h"
#include "codegen/llvm/emit.h"
#include "codegen/llvm/functions.h"
#include "codegen/llvm/grid/target.h"
#include "codegen/llvm/source_lines.h"
#include "codegen/llvm/uniformity.h"
#include "ir/attributes.h"
#include "ir/call_graph.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/IR/DerivedTypes.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"

#include <map>

namespace qd::codegen {

class ModuleEmitter {
public:
  ModuleEmitter(mlir::ModuleOp source, llvm::LLVMContext &ctx, const passes::TargetTraits &traits, const GridTarget *grid,
                const EmitOptions &options, artifact::Artifact &artifact);

  /// Emits the kernel; sets `hasFailed` after an error.
  void emit();
  /// Reports an error of the user or, if the text states it, of the compiler. Emission goes on, and its result is dropped.
  mlir::InFlightDiagnostic reportError(mlir::Location loc);

  llvm::Type *getType(mlir::Type scalar) const;
  /// The type in memory: u1 takes a byte; bf16 takes two bytes, the upper half of the f32 that represents it in registers.
  llvm::Type *getMemoryType(mlir::Type scalar) const;
  int64_t getByteSize(mlir::Type scalar) const { return int64_t(support::getByteSize(ir::getScalarType(scalar))); }

  /// Grids: whether the argument block follows the QdGpuLaunch of an entry.
  bool hasInlineArguments() const { return sizeof(QdGpuLaunch) + argumentBytes <= traits.maxParameterBytes; }
  /// Adds a slot to the scratch block, for values that cross functions.
  uint32_t addScratch(uint32_t bytes);
  /// Number of the site of a print or an assertion in inlined functions; `calls` are the inlined calls, outermost first.
  int getSite(mlir::Operation *op, llvm::ArrayRef<mlir::Operation *> calls);
  llvm::Function *getDevlib(llvm::StringRef name, mlir::Type type, unsigned lanes, llvm::Type *result,
                            llvm::ArrayRef<llvm::Type *> operands);
  /// Type of parameters that point to memory of an address space.
  llvm::Type *getParameterType(unsigned space) const { return llvm::PointerType::get(ctx, spaces.hasGeneric ? 0 : space); }
  llvm::Function *makeFunction(llvm::Type *result, llvm::ArrayRef<llvm::Type *> parameters, const llvm::Twine &name);
  /// An outlined instance of a function.
  llvm::Function *getInstance(ir::FuncOp function, llvm::ArrayRef<LaneKind> kinds, unsigned lanes);
  /// Whether instances of the function get the limit of the stack as a parameter.
  bool needsStackLimit(ir::FuncOp function) { return (!traits.hasGrids || options.stackBytes > 0) && functions.isRecursive(function); }
  /// Whether the iterations of a loop cooperate in blocks.
  bool isOfBlock(ir::ForOp loop) { return calls.contains(loop.getBody(), ir::isOfBlock); }
  /// Offset of a shared array in the shared memory of a block.
  uint32_t getSharedOffset(ir::SharedOp op);
  /// Threads that see atomic operations in one order: all of the system, or those of the device.
  llvm::SyncScope::ID getAtomicScope() const {
    return grid ? ctx.getOrInsertSyncScopeID(grid->getDeviceScope()) : llvm::SyncScope::ID(llvm::SyncScope::System);
  }

  /// Whether strides of array arguments may need more than 32 bits. Processors multiply 64 bits as fast as 32.
  bool hasWideStrides() const { return !grid || source->hasAttr(ir::kWideStrides); }

  mlir::ModuleOp source;
  const ir::CallGraph calls;
  llvm::LLVMContext &ctx;
  const passes::TargetTraits &traits;
  const GridTarget *grid; ///< null on targets without grids
  const AddressSpaces spaces;
  const EmitOptions &options;
  std::unique_ptr<llvm::Module> module;
  Uniformity uniformity;
  FunctionFacts functions;
  AliasScopes aliases;
  artifact::Artifact &artifact;
  bool hasFailed = false;
  uint32_t argumentBytes = 0;
  std::optional<SourceLines> lines; ///< set if line tables are wanted
  /// Regions to outline after everything is emitted.
  llvm::MapVector<llvm::Function *, std::vector<OutlinedRegion>> outlinedRegions;
  /// What the blocks of the tasks that are emitted so far have in common, above all shared arrays.
  struct SharedArrays {
    uint32_t bytes = 0;                   ///< of all arrays
    bool isDynamic = false;               ///< launches ask for the memory: a block has more than its static memory
    std::map<uint32_t, uint32_t> offsets; ///< key: number of the array
    int activePlaces = 0;                 ///< places of the code where threads ask which of them are there
  } shared;
  /// What the entries of grids that are emitted so far have in common.
  struct Grids {
    bool needsManyRegisters = false; ///< the task that is being emitted waits for many loads at a time
    bool isLongTask = false;         ///< the task that is being emitted has many operations, with those of the functions that it calls
    bool mayHaveFailed = false;      ///< a check of an emitted task may have failed
    std::optional<uint32_t> endSlot; ///< scratch slot of the flag that a task ended the kernel
    int entryCount = 0;              ///< number of entries emitted
  } grids;

private:
  void emitTaskFunctions(ir::KernelOp kernel);
  void emitGrids(mlir::Block &block, bool isRepeated);

  std::map<std::string, llvm::Function *> instances;
  std::map<std::vector<mlir::Operation *>, int> sites;
};

/// Emits a task (cpu/task.cpp) as `i1 task(context)`, which returns true if the kernel ends with it.
llvm::Function *emitTask(ModuleEmitter &module, ir::TaskOp task, int index);
/// Bytes of all elements of a container, packed.
int64_t getPackedBytes(ModuleEmitter &module, ir::TensorType type);
/// Emits a task as a grid (grid/task.cpp): an entry, and its record in the artifact.
void emitGridTask(ModuleEmitter &module, ir::TaskOp task, int index, bool isLast);
/// The branch of a task or a repeat.
artifact::Branch findBranch(mlir::Operation *op);
/// Reports operations that the target does not support (grid/features.cpp).
void refuseMissingFeatures(ModuleEmitter &module);
/// The task and those directly after it that a single block of threads can run with it (grid/merged_tasks.cpp).
llvm::SmallVector<ir::TaskOp> findSmallTasks(ModuleEmitter &module, ir::TaskOp first);
/// Merges the entries from number `first` on, which one block runs one after the other, into one entry.
void mergeTasks(ModuleEmitter &module, size_t first);

} // namespace qd::codegen
