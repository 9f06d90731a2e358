// threads.cpp: exchanges of values of any type between threads of a grid, grid barriers, shared memory
//
// The target (target.h) exchanges words of 32 bits; barriers of the whole grid are code, the same for all targets.
#include "codegen/llvm/grid/threads.h"
#include "runtime/kernel_abi.h"

#include <cstddef>

namespace qd::codegen {

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
  return exchange(value, [&](llvm::Value *word) { return target.shuffleDown(builder, word, distance); });
}

llvm::Value *GridThreads::shuffle(llvm::Value *value, llvm::Value *lane, llvm::Value *threads) {
  llvm::Value *mask = toMask(threads);
  return exchange(value, [&](llvm::Value *word) { return target.shuffle(builder, word, lane, mask); });
}

/// A bit for each thread of the subgroup, in the type that the target expects; null: the mask has all.
llvm::Value *GridThreads::toMask(llvm::Value *threads) {
  if (!threads) return nullptr;
  llvm::Value *mask = builder.CreateZExtOrTrunc(threads, builder.getIntNTy(in.module.traits.subgroupSize > 32 ? 64 : 32));
  auto *known = llvm::dyn_cast<llvm::ConstantInt>(mask);
  return known && known->getValue().countr_one() >= in.module.traits.subgroupSize ? nullptr : mask;
}

void GridThreads::synchronizeSome(llvm::Value *threads) {
  llvm::Value *mask = toMask(threads);
  return mask ? target.synchronizeSome(builder, mask) : synchronize(ThreadScope::Subgroup);
}

llvm::Value *GridThreads::ballot(llvm::Value *vote, llvm::Value *threads) {
  llvm::Value *mask = toMask(threads), *votes = builder.CreateZExt(target.ballot(builder, vote, mask), builder.getInt64Ty());
  return mask ? builder.CreateAnd(votes, builder.CreateZExt(mask, builder.getInt64Ty())) : votes;
}

static std::optional<llvm::AtomicRMWInst::BinOp> findWordOperation(ir::AtomicKind kind, bool isSigned) {
  using llvm::AtomicRMWInst;
  switch (kind) {
  case ir::AtomicKind::add: return AtomicRMWInst::Add;
  case ir::AtomicKind::min: return isSigned ? AtomicRMWInst::Min : AtomicRMWInst::UMin;
  case ir::AtomicKind::max: return isSigned ? AtomicRMWInst::Max : AtomicRMWInst::UMax;
  case ir::AtomicKind::bit_and: return AtomicRMWInst::And;
  case ir::AtomicKind::bit_or: return AtomicRMWInst::Or;
  case ir::AtomicKind::bit_xor: return AtomicRMWInst::Xor;
  default: return {};
  }
}

llvm::Value *GridThreads::combine(ir::AtomicKind kind, mlir::Type type, llvm::Value *value) {
  unsigned bits = value->getType()->isIntegerTy() ? value->getType()->getIntegerBitWidth() : 0;
  std::optional<llvm::AtomicRMWInst::BinOp> operation = findWordOperation(kind, type.isSignedInteger());
  if (!operation || bits < 8 || bits > 32) return nullptr;
  llvm::Type *word = builder.getInt32Ty();
  llvm::Value *given = type.isSignedInteger() ? builder.CreateSExt(value, word) : builder.CreateZExt(value, word);
  llvm::Value *all = target.combine(builder, *operation, given);
  return all ? builder.CreateTrunc(all, value->getType()) : nullptr;
}

/// `void qd_grid_barrier(arrivals, failed, blocks)`. The first block adds 2^31 - (blocks - 1) and each other block adds 1, so that the sum
/// of all arrivals flips the highest bit of the word. All blocks wait for that change, and no counter needs a reset. The wait also ends
/// after a failed check, because blocks may then be missing.
llvm::Function *GridThreads::getGridBarrier() {
  constexpr char kName[] = "qd_grid_barrier";
  if (llvm::Function *known = module.module->getFunction(kName)) return known;
  llvm::Type *pointer = module.getParameterType(module.spaces.global), *i32 = builder.getInt32Ty();
  llvm::Function *function = module.makeFunction(builder.getVoidTy(), {pointer, pointer, i32}, kName);
  function->addFnAttr(llvm::Attribute::NoInline);
  function->addFnAttr(llvm::Attribute::Convergent);
  llvm::IRBuilder<>::InsertPointGuard guard(builder);
  auto makeBlock = [&](const char *name) { return llvm::BasicBlock::Create(module.ctx, name, function); };
  llvm::BasicBlock *start = makeBlock("start"), *first = makeBlock("first"), *wait = makeBlock("wait"), *end = makeBlock("end");
  builder.SetInsertPoint(start);
  builder.SetCurrentDebugLocation({});
  synchronize();
  builder.CreateCondBr(builder.CreateIsNull(getThread()), first, end);

  builder.SetInsertPoint(first);
  fence(ThreadScope::Device);
  llvm::Value *others = builder.CreateSub(function->getArg(2), builder.getInt32(1));
  llvm::Value *step =
      builder.CreateSelect(builder.CreateIsNull(getBlock()), builder.CreateSub(builder.getInt32(1u << 31), others), builder.getInt32(1));
  llvm::Value *before = builder.CreateAtomicRMW(llvm::AtomicRMWInst::Add, function->getArg(0), step, llvm::Align(4),
                                                llvm::AtomicOrdering::Monotonic, module.getAtomicScope());
  builder.CreateBr(wait);

  builder.SetInsertPoint(wait);
  auto look = [&](unsigned argument) {
    return builder.CreateAlignedLoad(i32, function->getArg(argument), llvm::Align(4), /*isVolatile=*/true);
  };
  llvm::Value *isThere = builder.CreateICmpSLT(builder.CreateXor(before, look(0)), builder.getInt32(0));
  llvm::Value *hasFailed = builder.CreateIsNotNull(look(1));
  builder.CreateCondBr(builder.CreateOr(isThere, hasFailed), end, wait);

  builder.SetInsertPoint(end);
  fence(ThreadScope::Device);
  synchronize();
  builder.CreateRetVoid();
  return function;
}

void GridThreads::synchronizeGrid(uint32_t branch) {
  llvm::Value *state = launch.loadAddress(in.offsetBy(launch.context, offsetof(QdGpuLaunch, state)));
  llvm::Value *arrivals = in.offsetBy(state, int64_t(offsetof(QdGpuState, barriers) + sizeof(uint32_t) * branch));
  builder.CreateCall(getGridBarrier(), {arrivals, in.offsetBy(state, offsetof(QdGpuState, failed)), getBlockCount()});
}

llvm::Value *GridThreads::pin(llvm::Value *value) {
  llvm::Type *type = value->getType();
  unsigned bits = std::max(32u, unsigned(type->getPrimitiveSizeInBits()));
  llvm::Type *word = builder.getIntNTy(bits), *own = builder.getIntNTy(unsigned(type->getPrimitiveSizeInBits()));
  llvm::Value *pinned = target.pin(builder, builder.CreateZExt(builder.CreateBitCast(value, own), word));
  return builder.CreateBitCast(builder.CreateTrunc(pinned, own), type);
}

static llvm::Value *declareShared(LaneBuilder &in, llvm::Type *type, llvm::StringRef name, llvm::Constant *initializer) {
  auto *variable = new llvm::GlobalVariable(*in.module.module, type, /*isConstant=*/false,
                                            initializer ? llvm::GlobalValue::InternalLinkage : llvm::GlobalValue::ExternalLinkage,
                                            initializer, name, nullptr, llvm::GlobalValue::NotThreadLocal, in.module.spaces.shared);
  variable->setAlignment(llvm::Align(16));
  return in.toGeneric(variable);
}

llvm::Value *GridThreads::makeShared(llvm::Type *type, llvm::StringRef name) {
  return declareShared(in, type, name, llvm::PoisonValue::get(type));
}

llvm::Value *GridThreads::getDynamicShared() {
  constexpr char kName[] = "qd_dynamic_shared";
  if (llvm::GlobalVariable *known = module.module->getNamedGlobal(kName)) return in.toGeneric(known);
  return declareShared(in, llvm::ArrayType::get(builder.getInt8Ty(), 0), kName, nullptr);
}

} // namespace qd::codegen
