// grid_threads.cpp: intrinsics of a thread of a grid: its numbers, barriers, shuffles, fences and shared memory (NVPTX)
#include "codegen/llvm/grid.h"
#include "runtime/kernel_abi.h"

#include "llvm/IR/ConstantRange.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/IntrinsicsNVPTX.h"

#include <cstddef>

namespace qd::codegen {

llvm::Value *GridThreads::readRegister(unsigned intrinsic, uint64_t limit) {
  llvm::CallInst *number = builder.CreateIntrinsic(builder.getInt32Ty(), intrinsic, {});
  number->addRangeRetAttr(llvm::ConstantRange(llvm::APInt(32, 0), llvm::APInt(32, limit)));
  return number;
}

llvm::Value *GridThreads::getThread() { return readRegister(llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x, 1024); }
llvm::Value *GridThreads::getBlockSize() { return readRegister(llvm::Intrinsic::nvvm_read_ptx_sreg_ntid_x, 1025); }
llvm::Value *GridThreads::getBlock() { return readRegister(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x, INT32_MAX); }
llvm::Value *GridThreads::getBlockCount() { return readRegister(llvm::Intrinsic::nvvm_read_ptx_sreg_nctaid_x, uint64_t(INT32_MAX) + 1); }

void GridThreads::synchronize() {
  builder.CreateIntrinsic(builder.getVoidTy(), llvm::Intrinsic::nvvm_barrier_cta_sync_aligned_all, {builder.getInt32(0)});
}

/// Applies an exchange of 32-bit words to a value of any size.
llvm::Value *GridThreads::exchange(llvm::Value *value, llvm::function_ref<llvm::Value *(llvm::Value *word)> exchangeWord) {
  llvm::Type *type = value->getType();
  unsigned bits = unsigned(type->getPrimitiveSizeInBits()), words = (bits + 31) / 32;
  llvm::Type *whole = builder.getIntNTy(words * 32);
  llvm::Value *from = builder.CreateZExt(builder.CreateBitCast(value, builder.getIntNTy(bits)), whole),
              *to = builder.getIntN(words * 32, 0);
  for (unsigned word = 0; word < words; ++word) {
    llvm::Value *part = exchangeWord(builder.CreateTrunc(builder.CreateLShr(from, word * 32), builder.getInt32Ty()));
    to = builder.CreateOr(to, builder.CreateShl(builder.CreateZExt(part, whole), word * 32));
  }
  return builder.CreateBitCast(builder.CreateTrunc(to, builder.getIntNTy(bits)), type);
}

llvm::Value *GridThreads::shuffleDown(llvm::Value *value, unsigned distance) {
  return exchange(value, [&](llvm::Value *word) {
    return builder.CreateIntrinsic(builder.getInt32Ty(), llvm::Intrinsic::nvvm_shfl_sync_down_i32,
                                   {builder.getInt32(~0u), word, builder.getInt32(distance), builder.getInt32(kWarp - 1)});
  });
}

llvm::Value *GridThreads::shuffle(llvm::Value *value, llvm::Value *lane) {
  return exchange(value, [&](llvm::Value *word) {
    return builder.CreateIntrinsic(builder.getInt32Ty(), llvm::Intrinsic::nvvm_shfl_sync_idx_i32,
                                   {builder.getInt32(~0u), word, lane, builder.getInt32(kWarp - 1)});
  });
}

/// `void qd_grid_barrier(arrivals, failed, blocks)`. The first block adds 2^31 - (blocks - 1) and each other block adds 1, so that the sum
/// of all arrivals flips the highest bit of the word. All blocks wait for that change, and no counter needs a reset. The wait also ends
/// after a failed check, because blocks may then be missing.
llvm::Function *GridThreads::getGridBarrier() {
  constexpr char kName[] = "qd_grid_barrier";
  if (llvm::Function *known = in.module.module->getFunction(kName)) return known;
  llvm::Type *pointer = builder.getPtrTy(), *i32 = builder.getInt32Ty();
  llvm::Function *function = in.module.makeFunction(builder.getVoidTy(), {pointer, pointer, i32}, kName);
  function->addFnAttr(llvm::Attribute::NoInline);
  function->addFnAttr(llvm::Attribute::Convergent);
  llvm::IRBuilder<>::InsertPointGuard guard(builder);
  auto makeBlock = [&](const char *name) { return llvm::BasicBlock::Create(in.module.ctx, name, function); };
  llvm::BasicBlock *start = makeBlock("start"), *first = makeBlock("first"), *wait = makeBlock("wait"), *end = makeBlock("end");
  builder.SetInsertPoint(start);
  builder.SetCurrentDebugLocation({});
  synchronize();
  builder.CreateCondBr(builder.CreateIsNull(getThread()), first, end);

  builder.SetInsertPoint(first);
  fence(/*ofBlock=*/false);
  llvm::Value *others = builder.CreateSub(function->getArg(2), builder.getInt32(1));
  llvm::Value *step =
      builder.CreateSelect(builder.CreateIsNull(getBlock()), builder.CreateSub(builder.getInt32(1u << 31), others), builder.getInt32(1));
  llvm::Value *before = builder.CreateAtomicRMW(llvm::AtomicRMWInst::Add, function->getArg(0), step, llvm::Align(4),
                                                llvm::AtomicOrdering::Monotonic, in.module.atomicScope);
  builder.CreateBr(wait);

  builder.SetInsertPoint(wait);
  auto look = [&](unsigned argument) {
    return builder.CreateAlignedLoad(i32, function->getArg(argument), llvm::Align(4), /*isVolatile=*/true);
  };
  llvm::Value *isThere = builder.CreateICmpSLT(builder.CreateXor(before, look(0)), builder.getInt32(0));
  llvm::Value *hasFailed = builder.CreateIsNotNull(look(1));
  builder.CreateCondBr(builder.CreateOr(isThere, hasFailed), end, wait);

  builder.SetInsertPoint(end);
  fence(/*ofBlock=*/false);
  synchronize();
  builder.CreateRetVoid();
  return function;
}

void GridThreads::synchronizeGrid(uint32_t branch) {
  llvm::Value *state = in.loadAddress(in.offsetBy(in.context, offsetof(QdGpuLaunch, state)));
  llvm::Value *arrivals = in.offsetBy(state, int64_t(offsetof(QdGpuState, barriers) + sizeof(uint32_t) * branch));
  builder.CreateCall(getGridBarrier(), {arrivals, in.offsetBy(state, offsetof(QdGpuState, failed)), getBlockCount()});
}

llvm::Value *GridThreads::pin(llvm::Value *value) {
  llvm::Type *type = value->getType();
  unsigned bits = std::max(32u, unsigned(type->getPrimitiveSizeInBits()));
  llvm::Type *word = builder.getIntNTy(bits), *own = builder.getIntNTy(unsigned(type->getPrimitiveSizeInBits()));
  auto *code = llvm::InlineAsm::get(llvm::FunctionType::get(word, word, false), "", bits == 32 ? "=r,0" : "=l,0", /*hasSideEffects=*/true);
  llvm::Value *pinned = builder.CreateCall(code, builder.CreateZExt(builder.CreateBitCast(value, own), word));
  return builder.CreateBitCast(builder.CreateTrunc(pinned, own), type);
}

void GridThreads::synchronizeWarp() {
  builder.CreateIntrinsic(builder.getVoidTy(), llvm::Intrinsic::nvvm_bar_warp_sync, {builder.getInt32(~0u)});
}

llvm::Value *GridThreads::ballot(llvm::Value *vote) {
  return builder.CreateIntrinsic(builder.getInt32Ty(), llvm::Intrinsic::nvvm_vote_ballot_sync, {builder.getInt32(~0u), vote});
}

void GridThreads::fence(bool ofBlock) {
  builder.CreateIntrinsic(builder.getVoidTy(), ofBlock ? llvm::Intrinsic::nvvm_membar_cta : llvm::Intrinsic::nvvm_membar_gl, {});
}

static llvm::Value *declareShared(BodyEmitter &in, llvm::Type *type, llvm::StringRef name, bool isDynamic) {
  auto *variable = new llvm::GlobalVariable(
      *in.module.module, type, /*isConstant=*/false, isDynamic ? llvm::GlobalValue::ExternalLinkage : llvm::GlobalValue::InternalLinkage,
      isDynamic ? nullptr : llvm::PoisonValue::get(type), name, nullptr, llvm::GlobalValue::NotThreadLocal, kSharedMemory);
  variable->setAlignment(llvm::Align(16));
  return in.builder.CreateAddrSpaceCast(variable, in.builder.getPtrTy());
}

llvm::Value *GridThreads::makeShared(llvm::Type *type, llvm::StringRef name) { return declareShared(in, type, name, /*isDynamic=*/false); }

llvm::Value *GridThreads::getDynamicShared() {
  constexpr char kName[] = "qd_dynamic_shared";
  if (llvm::GlobalVariable *known = in.module.module->getNamedGlobal(kName)) return builder.CreateAddrSpaceCast(known, builder.getPtrTy());
  return declareShared(in, llvm::ArrayType::get(builder.getInt8Ty(), 0), kName, /*isDynamic=*/true);
}

} // namespace qd::codegen
