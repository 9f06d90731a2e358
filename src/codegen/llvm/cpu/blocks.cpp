// blocks.cpp: parallel loops on the processor whose iterations cooperate in blocks
//
// The loop becomes a function for one thread of a block. The runtime runs the threads of a block in turn, each on its own stack.
#include "codegen/llvm/cpu/task.h"

using namespace mlir;

namespace qd::codegen {

/// Threads per block if the loop sets no size.
constexpr uint32_t kDefaultBlock = 128;
constexpr uint64_t kMaxChunks = 1024;

uint32_t ParallelTask::getBlockSize() { return uint32_t(loop.getBlockDim().value_or(kDefaultBlock)); }

/// Emits `void thread(context, iteration, thread)`.
llvm::Function *ParallelTask::emitThreadFunction() {
  llvm::Type *pointer = llvm::PointerType::get(module.ctx, 0), *i64 = llvm::Type::getInt64Ty(module.ctx);
  llvm::Function *function =
      module.makeFunction(llvm::Type::getVoidTy(module.ctx), {pointer, i64, pointer}, "qd_task_" + llvm::Twine(index) + "_thread");
  BodyEmitter in(module, function, 1, *facts);
  llvm::IRBuilder<> &at = in.builder;
  in.continueAt(in.makeBlock("start"));
  in.random.task = task;
  in.blocks.thread = function->getArg(2);
  in.blocks.isInBlock = true;
  setUpResolve(in);
  in.launch.leaveFailed = [&] { at.CreateRetVoid(); };
  if (setUpRandom(in, loop.getBody())) in.random.iteration = {function->getArg(1)};
  llvm::SmallVector<Axis, 4> axes = getAxes(in, loop);
  llvm::SmallVector<llvm::Value *, 4> extents;
  for (const Axis &axis : axes) extents.push_back(axis.extent);
  in.blocks.blockSize = at.getInt32(getBlockSize());
  in.blocks.blockIndex = at.CreateTrunc(at.CreateUDiv(function->getArg(1), at.getInt64(getBlockSize())), at.getInt32Ty());
  llvm::Value *total = at.getInt64(1);
  for (llvm::Value *extent : extents) total = at.CreateMul(total, extent);
  llvm::Value *upTo = at.CreateAdd(total, at.getInt64(getBlockSize() - 1));
  in.blocks.blockCount = at.CreateTrunc(at.CreateUDiv(upTo, at.getInt64(getBlockSize())), at.getInt32Ty());
  if (auto most = loop->getAttrOfType<IntegerAttr>(ir::kGridSize)) {
    llvm::Value *size = at.getInt32(unsigned(most.getInt()));
    in.blocks.blockIndex = at.CreateURem(in.blocks.blockIndex, size);
    in.blocks.blockCount = getUnsignedMin(at, in.blocks.blockCount, size);
  }
  for (auto [a, digit] : llvm::enumerate(unflatten(at, function->getArg(1), extents))) {
    llvm::Value *counter = at.CreateTrunc(digit, axes[a].lower.value->getType());
    in.values.setValue(loop.getBody().getArgument(unsigned(a)),
                       {{at.CreateAdd(axes[a].lower.value, at.CreateMul(counter, axes[a].step.value))}});
  }
  llvm::BasicBlock *next = in.makeBlock("iteration.end");
  in.control.emitLoopBody(loop, loop.getBody(), next);
  in.moveTo(next);
  at.CreateRetVoid();
  return function;
}

void ParallelTask::emitBlocks(llvm::Value *total) {
  llvm::Function *thread = emitThreadFunction();
  std::unique_ptr<BodyEmitter> in = beginFunction(1, *facts, "_blocks");
  llvm::Value *blockSize = builder.getInt64(getBlockSize());
  bool isTogether = module.calls.contains(loop.getBody(), ir::isGridBarrier);
  in->launch.callRuntime(kRunBlocks, {thread, in->function->getArg(1), in->function->getArg(2), builder.getInt32(getBlockSize()),
                                      builder.getInt64(module.shared.bytes), builder.getInt32(isTogether)});
  in->builder.CreateRetVoid();
  storeCaptures();
  llvm::Value *blocks =
      builder.CreateAdd(builder.CreateUDiv(total, builder.CreateMul(blockSize, builder.getInt64(kMaxChunks))), builder.getInt64(1));
  llvm::Value *chunk = builder.CreateMul(blocks, blockSize);
  callParallelFor(in->function, total, isTogether ? builder.CreateAdd(total, blockSize) : chunk);
  body.launch.leaveIfStopped();
}

} // namespace qd::codegen
