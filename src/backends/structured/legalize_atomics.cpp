// legalize_atomics.cpp: atomic operations that the device lacks → loops of compare-exchange on whole words
//
// In:   scalar LLVM IR.
// Out:  atomic operations on words of 32 and 64 bits; on floats additions of f32, where the device has them. A shared array with atomic
//       operations is an array of words of their widest type, because SPIR-V has no others there, and Metal has atomic operations on those
//       only: narrower accesses read and write a part.
#include "backends/structured/arrays.h"
#include "backends/structured/grid_target.h"
#include "backends/structured/steps.h"

#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/LowerAtomic.h"

namespace qd::backends::structured {

using Builder = llvm::IRBuilder<>;

namespace {

/// The word of 32 or 64 bits that contains a narrower element.
struct Word {
  llvm::Value *pointer, *shift;
  llvm::Type *type; ///< of the element, as an integer
  llvm::Type *whole;

  Word(Builder &at, llvm::Value *element, llvm::Type *elementType, unsigned wordBits)
      : type(at.getIntNTy(elementType->getScalarSizeInBits())), whole(at.getIntNTy(wordBits)) {
    unsigned bits = element->getType()->getPointerAddressSpace() ? 32 : 64;
    llvm::Type *address = at.getIntNTy(bits);
    llvm::Value *low = at.CreateAnd(at.CreatePtrToInt(element, address), llvm::ConstantInt::get(address, wordBits / 8 - 1));
    // Keeps the array to which the pointer belongs visible.
    pointer = at.CreateGEP(at.getInt8Ty(), element, at.CreateNeg(low));
    shift = at.CreateShl(at.CreateZExtOrTrunc(low, whole), 3);
  }
  llvm::Value *extract(Builder &at, llvm::Value *word) const { return at.CreateTrunc(at.CreateLShr(word, shift), type); }
  llvm::Value *insert(Builder &at, llvm::Value *word, llvm::Value *part) const {
    return at.CreateOr(at.CreateAnd(word, getOthers(at)), shiftUp(at, part));
  }
  /// Ones outside of the element.
  llvm::Value *getOthers(Builder &at) const {
    auto ones = llvm::APInt::getLowBitsSet(whole->getIntegerBitWidth(), type->getIntegerBitWidth());
    return at.CreateNot(at.CreateShl(llvm::ConstantInt::get(whole, ones), shift));
  }
  llvm::Value *shiftUp(Builder &at, llvm::Value *part) const { return at.CreateShl(at.CreateZExt(part, whole), shift); }
};

/// How wide the words of each shared array with atomic operations are.
class WordSizes {
public:
  explicit WordSizes(llvm::Module &module) {
    for (llvm::Function &function : module)
      for (llvm::Instruction &instruction : llvm::instructions(function)) {
        if (auto *update = llvm::dyn_cast<llvm::AtomicRMWInst>(&instruction)) add(update->getPointerOperand(), update->getType());
        if (auto *exchange = llvm::dyn_cast<llvm::AtomicCmpXchgInst>(&instruction))
          add(exchange->getPointerOperand(), exchange->getCompareOperand()->getType());
      }
  }

  /// The bits of the words behind a pointer; 0: there are no atomic operations.
  unsigned get(const llvm::Value *pointer) const { return isShared(pointer) ? sizes.lookup(llvm::getUnderlyingObject(pointer, 0)) : 0; }
  /// The same of an atomic operation.
  unsigned getAtomic(const llvm::Value *pointer) const { return std::max(32u, get(pointer)); }

private:
  static bool isShared(const llvm::Value *pointer) { return pointer->getType()->getPointerAddressSpace() == kShared; }
  void add(const llvm::Value *pointer, const llvm::Type *type) {
    if (!isShared(pointer)) return;
    unsigned &bits = sizes[llvm::getUnderlyingObject(pointer, 0)];
    bits = std::max({32u, bits, type->getScalarSizeInBits()});
  }

  llvm::DenseMap<const llvm::Value *, unsigned> sizes;
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

bool hasInstruction(const llvm::AtomicRMWInst &update, const Abilities &device) {
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
  case Op::FAdd: return update.getType()->isFloatTy() && (space == kShared ? device.hasSharedF32Add : device.hasF32Add);
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

void expandUpdate(llvm::AtomicRMWInst &update, const Abilities &device, unsigned wordBits) {
  llvm::Type *type = update.getType();
  unsigned bits = type->getScalarSizeInBits();
  llvm::SyncScope::ID scope = update.getSyncScopeID();
  Builder at(&update);
  llvm::Value *value = update.getValOperand(), *result;
  if (update.getOperation() == llvm::AtomicRMWInst::FSub && type->isFloatTy() && device.hasF32Add) {
    auto *added = at.CreateAtomicRMW(llvm::AtomicRMWInst::FAdd, update.getPointerOperand(), at.CreateFNeg(value), update.getAlign(),
                                     update.getOrdering(), scope);
    update.replaceAllUsesWith(added);
    update.eraseFromParent();
    if (!hasInstruction(*added, device) || bits < wordBits) expandUpdate(*added, device, wordBits);
    return;
  }
  if (bits < wordBits) {
    Word word(at, update.getPointerOperand(), type, wordBits);
    result = emitLoop(update, word.pointer, word.whole, scope, [&](Builder &in, llvm::Value *seen, llvm::Value *&) {
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

/// A compare-exchange of an element that is narrower than a word.
void expandExchange(llvm::AtomicCmpXchgInst &exchange, unsigned wordBits) {
  llvm::Value *expected = exchange.getCompareOperand(), *next = exchange.getNewValOperand();
  Builder at(&exchange);
  Word word(at, exchange.getPointerOperand(), expected->getType(), wordBits);
  llvm::Value *seen =
      emitLoop(exchange, word.pointer, word.whole, exchange.getSyncScopeID(), [&](Builder &in, llvm::Value *whole, llvm::Value *&isWanted) {
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

/// A load or store of a part of a word whose other parts other threads may write at the same time.
void expandAccess(llvm::Instruction &access, unsigned wordBits) {
  Builder at(&access);
  auto *store = llvm::dyn_cast<llvm::StoreInst>(&access);
  llvm::Value *pointer = llvm::getLoadStorePointerOperand(&access);
  llvm::Align align(wordBits / 8);
  Word word(at, pointer, llvm::getLoadStoreType(&access), wordBits);
  if (store) {
    using Op = llvm::AtomicRMWInst;
    auto scope = access.getContext().getOrInsertSyncScopeID("device");
    llvm::Value *part = at.CreateBitCast(store->getValueOperand(), word.type);
    at.CreateAtomicRMW(Op::And, word.pointer, word.getOthers(at), align, llvm::AtomicOrdering::Monotonic, scope);
    at.CreateAtomicRMW(Op::Or, word.pointer, word.shiftUp(at, part), align, llvm::AtomicOrdering::Monotonic, scope);
  } else {
    llvm::Value *part = word.extract(at, at.CreateAlignedLoad(word.whole, word.pointer, align));
    access.replaceAllUsesWith(at.CreateBitCast(part, access.getType()));
  }
  access.eraseFromParent();
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

void legalizeAtomics(llvm::Module &module, const Abilities &device) {
  WordSizes sizes(module);
  llvm::SmallVector<llvm::AtomicRMWInst *> updates;
  llvm::SmallVector<llvm::AtomicCmpXchgInst *> exchanges;
  llvm::SmallVector<llvm::Instruction *> accesses;
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
    for (llvm::Instruction &instruction : llvm::instructions(function)) {
      if (auto *exchange = llvm::dyn_cast<llvm::AtomicCmpXchgInst>(&instruction);
          exchange && exchange->getCompareOperand()->getType()->getIntegerBitWidth() < sizes.getAtomic(exchange->getPointerOperand()))
        exchanges.push_back(exchange);
      if (llvm::isa<llvm::LoadInst, llvm::StoreInst>(instruction) &&
          llvm::getLoadStoreType(&instruction)->getScalarSizeInBits() < sizes.get(llvm::getLoadStorePointerOperand(&instruction)))
        accesses.push_back(&instruction);
    }
  for (llvm::AtomicCmpXchgInst *exchange : exchanges) expandExchange(*exchange, sizes.getAtomic(exchange->getPointerOperand()));
  collect();
  for (llvm::AtomicRMWInst *update : updates) {
    unsigned wordBits = sizes.getAtomic(update->getPointerOperand());
    if (!hasInstruction(*update, device) || update->getType()->getScalarSizeInBits() < wordBits) expandUpdate(*update, device, wordBits);
  }
  for (llvm::Instruction *access : accesses) expandAccess(*access, sizes.get(llvm::getLoadStorePointerOperand(access)));
  collect();
  llvm::erase_if(
      updates, [](llvm::AtomicRMWInst *update) { return update->getPointerAddressSpace() != kShared || !update->getType()->isFloatTy(); });
  // Arrays with accesses of several types have integers as elements.
  for (llvm::AtomicRMWInst *update : updates)
    if (ArrayShapes(*update->getFunction(), 0).get(update->getPointerOperand()).element->isIntegerTy()) expandUpdate(*update, device, 32);
}

} // namespace qd::backends::structured
