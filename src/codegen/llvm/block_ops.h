// block_ops.h: shared memory, barriers, shuffles and votes of the threads of a block
#pragma once

#include "codegen/llvm/launch_access.h"
#include "codegen/llvm/value_map.h"

namespace qd::codegen {

class BlockOps : EmitterPart {
public:
  BlockOps(LaneBuilder &in, LaunchAccess &launch, ValueMap &values) : EmitterPart(in), launch(launch), values(values) {}

  void emitBlockOp(mlir::Operation *op);
  void emitShared(ir::SharedOp op);
  llvm::Value *emitThreadIndex();

  bool isInBlock = false;                                                         ///< the function runs one thread of a block
  bool isAlone = false;                                                           ///< it is a serial task, whose thread waits for no others
  uint32_t branch = 0;                                                            ///< number of the grid's task: see artifact::DeviceTask
  llvm::Value *thread = nullptr;                                                  ///< QdThread, in blocks that the processor runs
  llvm::Value *blockSize = nullptr, *blockIndex = nullptr, *blockCount = nullptr; ///< i32; on the processor

private:
  Components emitThreadOp(mlir::Operation *op);
  llvm::Value *emitShuffle(llvm::Value *value, llvm::Value *lane, bool again);

  LaunchAccess &launch;
  ValueMap &values;
};

} // namespace qd::codegen
