#include "codegen/llvm/grid.h"

#include "llvm/IR/ConstantRange.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/IntrinsicsNVPTX.h"

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

/// Takes a value apart into words of 32 bits.
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
