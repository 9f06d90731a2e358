// block_ops.h: shared memory, barriers, shuffles and votes of the threads of a block
#pragma once

#include "codegen/llvm/launch_access.h"
#include "codegen/llvm/operators.h"
#include "codegen/llvm/value_map.h"

namespace qd::codegen {

class BlockOps : EmitterPart {
public:
  BlockOps(LaneBuilder &in, LaunchAccess &launch, ValueMap &values, Operators &operators)
      : EmitterPart(in), launch(launch), values(values), operators(operators) {}

  void emitBlockOp(mlir::Operation *op);
  void emitShared(ir::SharedOp op);
  llvm::Value *emitThreadIndex();

  bool isInBlock = false;                                                         ///< the function runs one thread of a block
  bool isAlone = false;                                                           ///< it is a serial task, whose thread waits for no others
  uint32_t branch = 0;                                                            ///< number of the grid's task: see artifact::DeviceTask
  llvm::Value *thread = nullptr;                                                  ///< QdThread, in blocks that the processor runs
  llvm::Value *blockSize = nullptr, *blockIndex = nullptr, *blockCount = nullptr; ///< i32; null: those of the grid

private:
  Components emitThreadOp(mlir::Operation *op);
  llvm::Value *emitShuffle(llvm::Value *value, llvm::Value *lane, llvm::Value *threads, bool again = false);
  llvm::Value *getThreadNumber();
  llvm::Value *emitCombine(ir::CombineOp op);
  /// A mask of threads, i64; null: all of the subgroup.
  llvm::Value *getMask(mlir::Value threads);
  llvm::Value *orAll(llvm::Value *mask);

  LaunchAccess &launch;
  ValueMap &values;
  Operators &operators;
};

} // namespace qd::codegen
