// block_ops.cpp: shared memory, barriers, shuffles and votes of the threads of a block
//
// On the processor the runtime runs the threads in turn (runtime/block_threads.h). Emitted code calls it for everything but a thread's
// number.
#include "codegen/llvm/block_ops.h"
#include "codegen/llvm/grid/target.h"
#include "codegen/llvm/grid/threads.h"
#include "ir/attributes.h"
#include "runtime/kernel_abi.h"

#include "llvm/IR/GlobalVariable.h"

#include <cstddef>

using namespace mlir;

namespace qd::codegen {

int64_t getPackedBytes(ModuleEmitter &module, ir::TensorType type) {
  int64_t bytes = ir::getComponentCount(type.getElement()) * module.getByteSize(ir::getScalar(type.getElement()));
  for (int64_t extent : type.getExtents()) bytes *= extent;
  return bytes;
}

uint32_t ModuleEmitter::getSharedOffset(ir::SharedOp op) {
  constexpr uint32_t kAlignment = 16;
  auto [entry, isNew] = shared.offsets.try_emplace(op.getNumber(), shared.bytes);
  if (isNew)
    shared.bytes += (uint32_t(getPackedBytes(*this, cast<ir::TensorType>(op.getType()))) + kAlignment - 1) / kAlignment * kAlignment;
  return entry->second;
}

void BlockOps::emitShared(ir::SharedOp op) {
  auto type = cast<ir::TensorType>(op.getType());
  uint32_t offset = module.getSharedOffset(op);
  llvm::Value *data;
  if (module.shared.isDynamic) {
    data = in.offsetBy(GridThreads(in, launch).getDynamicShared(), offset);
  } else if (module.traits.hasGrids) {
    std::string name = "qd_shared_" + std::to_string(op.getNumber());
    llvm::GlobalVariable *known = module.module->getNamedGlobal(name);
    data =
        known ? in.toGeneric(known)
              : GridThreads(in, launch).makeShared(llvm::ArrayType::get(builder.getInt8Ty(), uint64_t(getPackedBytes(module, type))), name);
  } else if (thread) {
    data = in.offsetBy(in.loadInvariant(builder.getPtrTy(), in.offsetBy(thread, offsetof(QdThread, shared))), offset);
  } else {
    data = llvm::PoisonValue::get(builder.getPtrTy()); // an error rejects the accesses
  }
  values.setTensor(op, {type, nullptr, data});
}

llvm::Value *BlockOps::getMask(mlir::Value threads) { return threads ? values.getUniform(threads) : nullptr; }

/// The mask that functions of the processor take.
llvm::Value *BlockOps::orAll(llvm::Value *mask) { return mask ? mask : builder.getInt64(~uint64_t(0)); }

llvm::Value *BlockOps::emitShuffle(llvm::Value *value, llvm::Value *lane, llvm::Value *threads, bool again) {
  if (module.traits.hasGrids) return GridThreads(in, launch).shuffle(value, lane, threads);
  llvm::Type *type = value->getType(), *bits = builder.getIntNTy(unsigned(type->getPrimitiveSizeInBits()));
  llvm::Value *sent = builder.CreateZExt(builder.CreateBitCast(value, bits), builder.getInt64Ty());
  if (again) lane = builder.CreateAdd(lane, builder.getInt32(QD_SHUFFLE_AGAIN));
  return builder.CreateBitCast(builder.CreateTrunc(launch.callRuntime(kShuffle, {thread, sent, lane, orAll(threads)}), bits), type);
}

/// An instruction of the device, or a tree of shuffles.
llvm::Value *BlockOps::emitCombine(ir::CombineOp op) {
  llvm::Value *value = values.getUniform(op.getValue());
  ir::AtomicKind kind = op.getAtomicKind();
  Type type = op.getValue().getType();
  if (module.traits.hasGrids && op.getLanes() == module.traits.subgroupSize)
    if (llvm::Value *all = GridThreads(in, launch).combine(kind, type, value)) return all;
  llvm::Value *own = builder.CreateAnd(getThreadNumber(), builder.getInt32(op.getLanes() - 1));
  for (unsigned step = 1; step < op.getLanes(); step *= 2) {
    llvm::Value *lane = builder.CreateXor(own, builder.getInt32(step));
    value = operators.emitAtomicCombine(kind, type, value, emitShuffle(value, lane, nullptr));
  }
  return value;
}

llvm::Value *BlockOps::getThreadNumber() {
  if (module.traits.hasGrids) return GridThreads(in, launch).getThread();
  return in.loadInvariant(builder.getInt32Ty(), in.offsetBy(thread, offsetof(QdThread, index)), llvm::Align(4));
}

Components BlockOps::emitThreadOp(Operation *op) {
  llvm::Type *i32 = builder.getInt32Ty();
  if (auto barrier = dyn_cast<ir::BarrierOp>(op)) {
    llvm::Value *some = getMask(barrier.getThreads());
    unsigned scope = barrier.getGrid() ? 2 : barrier.getGroup();
    if (!module.traits.hasGrids)
      launch.callRuntime(kSynchronize, {thread, builder.getInt32(scope), orAll(some)});
    else if (barrier.getGrid())
      GridThreads(in, launch).synchronizeGrid(branch);
    else if (some)
      GridThreads(in, launch).synchronizeSome(some);
    else
      GridThreads(in, launch).synchronize(barrier.getGroup() ? ThreadScope::Subgroup : ThreadScope::Block);
    return {};
  }
  if (auto number = dyn_cast<ir::ThreadOp>(op)) {
    llvm::Type *type = module.getType(number.getType());
    if (!number.getGlobal()) return {{getThreadNumber()}};
    if (module.traits.hasGrids) return {{GridThreads(in, launch).getGlobalThread()}};
    return {{builder.CreateTrunc(in.loadInvariant(builder.getInt64Ty(), in.offsetBy(thread, offsetof(QdThread, iteration))), type)}};
  }
  if (auto block = dyn_cast<ir::BlockOp>(op)) {
    if (llvm::Value *known = block.getSize() ? blockSize : block.getCount() ? blockCount : blockIndex) return {{known}};
    GridThreads threads(in, launch);
    return {{block.getSize() ? threads.getBlockSize() : block.getCount() ? threads.getBlockCount() : threads.getBlock()}};
  }
  if (auto shuffle = dyn_cast<ir::ShuffleOp>(op)) {
    Component value = values.getScalar(shuffle.getValue());
    return {{emitShuffle(value.value, values.getUniform(shuffle.getLane()), getMask(shuffle.getThreads()), shuffle.getAgain())}};
  }
  if (auto pin = dyn_cast<ir::PinOp>(op)) {
    llvm::Value *value = values.getScalar(pin.getValue()).value;
    return {{module.traits.hasGrids ? GridThreads(in, launch).pin(value) : value}};
  }
  if (auto combination = dyn_cast<ir::CombineOp>(op)) return {{emitCombine(combination)}};
  if (isa<ir::ActiveOp>(op)) {
    if (module.traits.hasGrids) return {{GridThreads(in, launch).getActiveThreads()}};
    return {{launch.callRuntime(kActiveThreads, {thread, builder.getInt32(module.shared.activePlaces++)})}};
  }
  auto ballot = cast<ir::BallotOp>(op);
  llvm::Value *vote = values.getUniform(ballot.getVote()), *some = getMask(ballot.getThreads());
  if (module.traits.hasGrids) return {{GridThreads(in, launch).ballot(vote, some)}};
  return {{launch.callRuntime(kBallot, {thread, builder.CreateZExt(vote, i32), orAll(some)})}};
}

void BlockOps::emitBlockOp(Operation *op) {
  if (auto fence = dyn_cast<ir::FenceOp>(op)) {
    if (fence->hasAttr(ir::kAsync)) return module.grid ? module.grid->waitForCopies(builder) : void();
    if (module.traits.hasGrids) return GridThreads(in, launch).fence(fence.getBlock() ? ThreadScope::Block : ThreadScope::Device);
    builder.CreateFence(llvm::AtomicOrdering::SequentiallyConsistent);
    return;
  }
  if (auto barrier = dyn_cast<ir::BarrierOp>(op); isAlone && barrier && barrier.getGroup()) return;
  Components result;
  if (isInBlock) {
    result = emitThreadOp(op);
  } else {
    module.reportError(op->getLoc()) << "threads work together in loops that run in parallel only";
    for (Type type : op->getResultTypes()) result.push_back({llvm::PoisonValue::get(module.getType(type))});
  }
  if (op->getNumResults()) values.setValue(op->getResult(0), std::move(result));
}

llvm::Value *BlockOps::emitThreadIndex() {
  return module.traits.hasGrids ? GridThreads(in, launch).getGlobalThread() : launch.callRuntime(kThreadIndex, {});
}

} // namespace qd::codegen
