// legalize_atomics.cpp: atomic operations that the device lacks → loops of compare-exchange on whole words
//
// In:   scalar LLVM IR.
// Out:  atomic operations on words of 32 and 64 bits; on floats additions of f32, where the device has them.
#include "backends/vulkan/grid_target.h"
#include "backends/vulkan/steps.h"

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/LowerAtomic.h"

namespace qd::backends::vulkan {

using Builder = llvm::IRBuilder<>;

namespace {

/// The word of 32 bits that contains an element of 8 or 16 bits.
struct Word {
  llvm::Value *pointer, *shift;
  llvm::Type *type; ///< of the element, as an integer

  Word(Builder &at, llvm::Value *element, llvm::Type *elementType) : type(at.getIntNTy(elementType->getScalarSizeInBits())) {
    unsigned bits = element->getType()->getPointerAddressSpace() ? 32 : 64;
    llvm::Type *address = at.getIntNTy(bits);
    llvm::Value *low = at.CreateAnd(at.CreatePtrToInt(element, address), llvm::ConstantInt::get(address, 3));
    // Keeps the array to which the pointer belongs visible.
    pointer = at.CreateGEP(at.getInt8Ty(), element, at.CreateNeg(low));
    shift = at.CreateShl(at.CreateZExtOrTrunc(low, at.getInt32Ty()), 3);
  }
  llvm::Value *extract(Builder &at, llvm::Value *word) const { return at.CreateTrunc(at.CreateLShr(word, shift), type); }
  llvm::Value *insert(Builder &at, llvm::Value *word, llvm::Value *part) const {
    llvm::Value *mask = at.CreateShl(at.getInt32((1u << type->getIntegerBitWidth()) - 1), shift);
    return at.CreateOr(at.CreateAnd(word, at.CreateNot(mask)), at.CreateShl(at.CreateZExt(part, at.getInt32Ty()), shift));
  }
};

/// Replaces `instruction` by a loop: `compute` gets the word that memory held and returns the next one, or null to give up.
/// The result is the word that was replaced.
llvm::Value *emitLoop(llvm::Instruction &instruction, llvm::Value *pointer, llvm::Type *word, llvm::SyncScope::ID scope,
                      llvm::function_ref<llvm::Value *(Builder &, llvm::Value *seen, llvm::Value *&isWanted)> compute) {
  llvm::BasicBlock *before = instruction.getParent();
  llvm::BasicBlock *after = before->splitBasicBlock(instruction.getIterator());
  llvm::BasicBlock *loop = llvm::BasicBlock::Create(instruction.getContext(), "again", before->getParent(), after);
  llvm::Align align(word->getIntegerBitWidth() / 8);
  before->getTerminator()->eraseFromParent();
  Builder at(before);
  // Another thread may change the word at any time.
  auto *first = at.CreateAlignedLoad(word, pointer, align);
  first->setAtomic(llvm::AtomicOrdering::Monotonic, scope);
  at.CreateBr(loop);
  at.SetInsertPoint(loop);
  llvm::PHINode *seen = at.CreatePHI(word, 2);
  seen->addIncoming(first, before);
  llvm::Value *isWanted = nullptr, *next = compute(at, seen, isWanted);
  llvm::Value *pair =
      at.CreateAtomicCmpXchg(pointer, seen, next, align, llvm::AtomicOrdering::Monotonic, llvm::AtomicOrdering::Monotonic, scope);
  llvm::Value *isDone = at.CreateExtractValue(pair, 1);
  if (isWanted) isDone = at.CreateOr(isDone, at.CreateNot(isWanted));
  seen->addIncoming(at.CreateExtractValue(pair, 0), loop);
  at.CreateCondBr(isDone, after, loop);
  return seen;
}

bool hasInstruction(const llvm::AtomicRMWInst &update, const Features &features) {
  using Op = llvm::AtomicRMWInst;
  unsigned space = update.getPointerAddressSpace();
  switch (update.getOperation()) {
  case Op::Xchg:
  case Op::Add:
  case Op::Sub:
  case Op::And:
  case Op::Or:
  case Op::Xor:
  case Op::Max:
  case Op::Min:
  case Op::UMax:
  case Op::UMin: return update.getType()->getScalarSizeInBits() >= 32;
  case Op::FAdd: return update.getType()->isFloatTy() && (space == kShared ? features.hasSharedF32Add : features.hasF32Add);
  default: return false;
  }
}

/// The result of an operation, without LLVM's intrinsics, which the writer lacks.
llvm::Value *compute(Builder &at, const llvm::AtomicRMWInst &update, llvm::Value *old, llvm::Value *value) {
  using Op = llvm::AtomicRMWInst;
  switch (update.getOperation()) {
  case Op::FMin: return at.CreateSelect(at.CreateOr(at.CreateFCmpOLT(old, value), at.CreateFCmpUNO(value, value)), old, value);
  case Op::FMax: return at.CreateSelect(at.CreateOr(at.CreateFCmpOGT(old, value), at.CreateFCmpUNO(value, value)), old, value);
  default: return llvm::buildAtomicRMWValue(update.getOperation(), at, old, value);
  }
}

void expandUpdate(llvm::AtomicRMWInst &update, const Features &features) {
  llvm::Type *type = update.getType();
  unsigned bits = type->getScalarSizeInBits();
  llvm::SyncScope::ID scope = update.getSyncScopeID();
  Builder at(&update);
  llvm::Value *value = update.getValOperand(), *result;
  if (update.getOperation() == llvm::AtomicRMWInst::FSub && type->isFloatTy() && features.hasF32Add) {
    auto *added = at.CreateAtomicRMW(llvm::AtomicRMWInst::FAdd, update.getPointerOperand(), at.CreateFNeg(value), update.getAlign(),
                                     update.getOrdering(), scope);
    update.replaceAllUsesWith(added);
    update.eraseFromParent();
    if (!hasInstruction(*added, features)) expandUpdate(*added, features);
    return;
  }
  if (bits < 32) {
    Word word(at, update.getPointerOperand(), type);
    result = emitLoop(update, word.pointer, at.getInt32Ty(), scope, [&](Builder &in, llvm::Value *seen, llvm::Value *&) {
      llvm::Value *old = in.CreateBitCast(word.extract(in, seen), type);
      return word.insert(in, seen, in.CreateBitCast(compute(in, update, old, value), word.type));
    });
    at.SetInsertPoint(&update);
    result = at.CreateBitCast(word.extract(at, result), type);
  } else {
    llvm::Type *whole = at.getIntNTy(bits);
    result = emitLoop(update, update.getPointerOperand(), whole, scope, [&](Builder &in, llvm::Value *seen, llvm::Value *&) {
      return in.CreateBitCast(compute(in, update, in.CreateBitCast(seen, type), value), whole);
    });
    at.SetInsertPoint(&update);
    result = at.CreateBitCast(result, type);
  }
  update.replaceAllUsesWith(result);
  update.eraseFromParent();
}

/// A compare-exchange of an element of 8 or 16 bits.
void expandExchange(llvm::AtomicCmpXchgInst &exchange) {
  llvm::Value *expected = exchange.getCompareOperand(), *next = exchange.getNewValOperand();
  Builder at(&exchange);
  Word word(at, exchange.getPointerOperand(), expected->getType());
  llvm::Value *seen = emitLoop(exchange, word.pointer, at.getInt32Ty(), exchange.getSyncScopeID(),
                               [&](Builder &in, llvm::Value *whole, llvm::Value *&isWanted) {
                                 isWanted = in.CreateICmpEQ(word.extract(in, whole), expected);
                                 return in.CreateSelect(isWanted, word.insert(in, whole, next), whole);
                               });
  at.SetInsertPoint(&exchange);
  llvm::Value *old = word.extract(at, seen), *isSame = at.CreateICmpEQ(old, expected);
  for (llvm::User *user : llvm::make_early_inc_range(exchange.users())) {
    auto *part = llvm::cast<llvm::ExtractValueInst>(user);
    part->replaceAllUsesWith(part->getIndices()[0] ? isSame : old);
    part->eraseFromParent();
  }
  exchange.eraseFromParent();
}

/// An exchange of floats is one of their bits.
void exchangeBits(llvm::AtomicRMWInst &update) {
  Builder at(&update);
  llvm::Type *bits = at.getIntNTy(update.getType()->getScalarSizeInBits());
  llvm::Value *old =
      at.CreateAtomicRMW(llvm::AtomicRMWInst::Xchg, update.getPointerOperand(), at.CreateBitCast(update.getValOperand(), bits),
                         update.getAlign(), update.getOrdering(), update.getSyncScopeID());
  update.replaceAllUsesWith(at.CreateBitCast(old, update.getType()));
  update.eraseFromParent();
}

} // namespace

void legalizeAtomics(llvm::Module &module, const Features &features) {
  llvm::SmallVector<llvm::AtomicRMWInst *> updates;
  llvm::SmallVector<llvm::AtomicCmpXchgInst *> exchanges;
  auto collect = [&] {
    updates.clear();
    for (llvm::Function &function : module)
      for (llvm::Instruction &instruction : llvm::instructions(function))
        if (auto *update = llvm::dyn_cast<llvm::AtomicRMWInst>(&instruction)) updates.push_back(update);
  };
  collect();
  for (llvm::AtomicRMWInst *update : updates)
    if (update->getOperation() == llvm::AtomicRMWInst::Xchg && update->getType()->isFloatingPointTy()) exchangeBits(*update);
  for (llvm::Function &function : module)
    for (llvm::Instruction &instruction : llvm::instructions(function))
      if (auto *exchange = llvm::dyn_cast<llvm::AtomicCmpXchgInst>(&instruction);
          exchange && exchange->getCompareOperand()->getType()->getIntegerBitWidth() < 32)
        exchanges.push_back(exchange);
  for (llvm::AtomicCmpXchgInst *exchange : exchanges) expandExchange(*exchange);
  collect();
  for (llvm::AtomicRMWInst *update : updates)
    if (!hasInstruction(*update, features)) expandUpdate(*update, features);
}

} // namespace qd::backends::vulkan
