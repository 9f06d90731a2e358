// threads.h: numbers of a thread of a grid, and its communication with other threads, for values of any type
#pragma once

#include "codegen/llvm/grid/target.h"
#include "codegen/llvm/launch_access.h"

namespace qd::codegen {

class GridThreads : EmitterPart {
public:
  GridThreads(LaneBuilder &in, LaunchAccess &launch) : EmitterPart(in), launch(launch), target(*module.grid) {}

  /// Number of the thread in its block, threads per block, number of the block in the grid, blocks per grid; i32.
  llvm::Value *getThread() { return target.getNumber(builder, ThreadNumber::Thread); }
  llvm::Value *getBlockSize() { return target.getNumber(builder, ThreadNumber::BlockSize); }
  llvm::Value *getBlock() { return target.getNumber(builder, ThreadNumber::Block); }
  llvm::Value *getBlockCount() { return target.getNumber(builder, ThreadNumber::BlockCount); }
  /// Number of the thread in the grid, i32.
  llvm::Value *getGlobalThread() { return builder.CreateAdd(builder.CreateMul(getBlock(), getBlockSize()), getThread()); }

  void synchronize(ThreadScope scope = ThreadScope::Block) { target.synchronize(builder, scope); }
  /// Barrier of the grid, whose blocks all run at the same time; `branch` is that of the task.
  void synchronizeGrid(uint32_t branch);
  /// Of the threads of a mask of i64, as in `shuffle` and `ballot`; null: all of the subgroup.
  void synchronizeSome(llvm::Value *threads);
  void fence(ThreadScope scope) { target.fence(builder, scope); }
  /// See GridTarget::shuffleDown and GridTarget::shuffle.
  llvm::Value *shuffleDown(llvm::Value *value, unsigned distance);
  llvm::Value *shuffle(llvm::Value *value, llvm::Value *lane, llvm::Value *threads = nullptr);
  llvm::Value *pin(llvm::Value *value); ///< keeps LLVM from moving the computation to its uses
  /// The values of the subgroup combined, on all threads; null: no instruction of the target does that.
  llvm::Value *combine(ir::AtomicKind kind, mlir::Type type, llvm::Value *value);
  /// One bit per thread of the subgroup, i64.
  llvm::Value *ballot(llvm::Value *vote, llvm::Value *threads = nullptr);
  llvm::Value *getActiveThreads() { return builder.CreateZExt(target.getActiveThreads(builder), builder.getInt64Ty()); }
  /// Shared memory of one value.
  llvm::Value *makeShared(llvm::Type *type, llvm::StringRef name);
  /// The shared memory whose size the host chooses at launch.
  llvm::Value *getDynamicShared();

private:
  llvm::Function *getGridBarrier();
  llvm::Value *toMask(llvm::Value *threads);
  llvm::Value *exchange(llvm::Value *value, llvm::function_ref<llvm::Value *(llvm::Value *word)> exchangeWord);

  LaunchAccess &launch;
  const GridTarget &target;
};

} // namespace qd::codegen
