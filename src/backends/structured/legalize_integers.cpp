// legalize_integers.cpp: operations on integers that languages of GPUs lack, as arithmetic on integers of up to 64 bits
//
// In:   operands of an intrinsic; functions with integers of up to 128 bits.
// Out:  values of the same type. Bits are counted in words of 32 bits, which all of them can; wider integers are two halves.
#include "backends/replace_instructions.h"
#include "backends/structured/legalize_parts.h"

#include "llvm/IR/InstIterator.h"

namespace qd::backends::structured {

llvm::Value *countBits(Builder &at, I::ID kind, llvm::Value *value) {
  unsigned bits = value->getType()->getIntegerBitWidth();
  llvm::Type *i32 = at.getInt32Ty();
  auto count = [&](llvm::Value *word) {
    return kind == I::ctpop ? at.CreateUnaryIntrinsic(kind, word) : at.CreateBinaryIntrinsic(kind, word, at.getFalse());
  };
  llvm::Value *result;
  if (bits < 32) {
    // The others are shifted out: NVIDIA's driver counts signs above bytes that were loaded. The last bit ends the count.
    llvm::Value *word = at.CreateZExt(value, i32);
    if (kind != I::cttz) word = at.CreateShl(word, 32 - bits);
    if (kind != I::ctpop) word = at.CreateOr(word, at.getInt32(1u << (kind == I::cttz ? bits : 31 - bits)));
    result = count(word);
  } else if (bits == 32) {
    result = count(value);
  } else {
    value = at.CreateZExt(value, at.getInt64Ty());
    llvm::Value *low = count(at.CreateTrunc(value, i32)), *high = count(at.CreateTrunc(at.CreateLShr(value, 32), i32));
    llvm::Value *first = kind == I::ctlz ? high : low, *second = kind == I::ctlz ? low : high;
    result = at.CreateAdd(low, high);
    // 32: the first half is zero.
    if (kind != I::ctpop) result = at.CreateSelect(at.CreateICmpEQ(first, at.getInt32(32)), at.CreateAdd(second, at.getInt32(32)), first);
    if (kind == I::ctlz && bits < 64) result = at.CreateSub(result, at.getInt32(64 - bits));
  }
  return at.CreateZExtOrTrunc(result, llvm::IntegerType::get(at.getContext(), bits));
}

namespace {

/// The upper 64 bits of an unsigned product, from halves.
llvm::Value *multiplyHigh(Builder &at, llvm::Value *a, llvm::Value *b) {
  llvm::Value *mask = at.getInt64(0xffffffff);
  auto low = [&](llvm::Value *x) { return at.CreateAnd(x, mask); };
  auto high = [&](llvm::Value *x) { return at.CreateLShr(x, 32); };
  llvm::Value *crossA = at.CreateMul(low(a), high(b)), *crossB = at.CreateMul(high(a), low(b));
  llvm::Value *middle = at.CreateAdd(at.CreateAdd(high(at.CreateMul(low(a), low(b))), low(crossA)), low(crossB));
  return at.CreateAdd(at.CreateAdd(at.CreateMul(high(a), high(b)), high(crossA)), at.CreateAdd(high(crossB), high(middle)));
}

/// Integers of 65 to 128 bits as two halves, with zeros above their own bits: products in the device library, and what LLVM computes for
/// the last value of a loop's sum.
struct Halves {
  llvm::Value *low, *high;
};

bool isWide(llvm::Type *type) { return type->isIntegerTy() && type->getIntegerBitWidth() > 64; }

class WideIntegers {
public:
  void expand(llvm::Function &function) {
    llvm::SmallVector<llvm::Instruction *> wide, results;
    for (llvm::Instruction &instruction : llvm::instructions(function))
      if (isWide(instruction.getType()))
        wide.push_back(&instruction);
      else if (llvm::isa<llvm::TruncInst, llvm::ICmpInst>(instruction) && isWide(instruction.getOperand(0)->getType()))
        results.push_back(&instruction);
    for (llvm::Instruction *result : results) {
      Builder at(result);
      result->replaceAllUsesWith(llvm::isa<llvm::TruncInst>(result)
                                     ? at.CreateZExtOrTrunc(split(result->getOperand(0)).low, result->getType())
                                     : compare(at, *llvm::cast<llvm::ICmpInst>(result)));
    }
    for (llvm::Instruction *result : results) result->eraseFromParent();
    for (llvm::Instruction *instruction : llvm::reverse(wide))
      if (instruction->use_empty()) instruction->eraseFromParent();
  }

private:
  Halves split(llvm::Value *value) {
    llvm::Type *i64 = llvm::Type::getInt64Ty(value->getContext());
    if (auto *constant = llvm::dyn_cast<llvm::ConstantInt>(value)) {
      llvm::APInt bits = constant->getValue().zext(128);
      return {llvm::ConstantInt::get(i64, bits.extractBitsAsZExtValue(64, 0)),
              llvm::ConstantInt::get(i64, bits.extractBitsAsZExtValue(64, 64))};
    }
    if (llvm::isa<llvm::UndefValue>(value)) return {llvm::ConstantInt::get(i64, 0), llvm::ConstantInt::get(i64, 0)};
    if (auto entry = known.find(value); entry != known.end()) return entry->second;
    auto *instruction = llvm::dyn_cast<llvm::Instruction>(value);
    if (!instruction) refuse("integers of more than 64 bits");
    Halves halves = compute(*instruction);
    if (unsigned bits = value->getType()->getIntegerBitWidth(); bits < 128) {
      Builder at(instruction);
      halves.high = at.CreateAnd(halves.high, at.getInt64(llvm::maskTrailingOnes<uint64_t>(bits - 64)));
    }
    return known[value] = halves;
  }

  llvm::Value *compare(Builder &at, llvm::ICmpInst &comparison) {
    Halves a = split(comparison.getOperand(0)), b = split(comparison.getOperand(1));
    if (comparison.isEquality()) {
      llvm::Value *same = at.CreateAnd(at.CreateICmpEQ(a.low, b.low), at.CreateICmpEQ(a.high, b.high));
      return comparison.getPredicate() == llvm::CmpInst::ICMP_EQ ? same : at.CreateNot(same);
    }
    unsigned free = 128 - comparison.getOperand(0)->getType()->getIntegerBitWidth();
    if (comparison.isSigned()) a.high = extend(at, a.high, free), b.high = extend(at, b.high, free);
    llvm::Value *low = at.CreateICmp(comparison.getUnsignedPredicate(), a.low, b.low);
    llvm::Value *high = at.CreateICmp(comparison.getStrictPredicate(), a.high, b.high);
    return at.CreateSelect(at.CreateICmpEQ(a.high, b.high), low, high);
  }

  /// Copies the sign into the bits above.
  static llvm::Value *extend(Builder &at, llvm::Value *high, unsigned free) { return at.CreateAShr(at.CreateShl(high, free), free); }

  static Halves shift(Builder &at, llvm::Instruction::BinaryOps op, Halves value, unsigned count) {
    auto *zero = at.getInt64(0);
    bool isLeft = op == llvm::Instruction::Shl;
    llvm::Value *from = isLeft ? value.low : value.high, *to = isLeft ? value.high : value.low;
    llvm::Value *filler = op == llvm::Instruction::AShr ? at.CreateAShr(value.high, 63) : zero;
    auto back = isLeft ? llvm::Instruction::LShr : llvm::Instruction::Shl,
         forth = isLeft ? llvm::Instruction::Shl : llvm::Instruction::LShr;
    if (count >= 64) {
      to = at.CreateBinOp(op, from, at.getInt64(count - 64));
      from = filler;
    } else if (count) {
      to = at.CreateOr(at.CreateBinOp(forth, to, at.getInt64(count)), at.CreateBinOp(back, from, at.getInt64(64 - count)));
      from = at.CreateBinOp(op, from, at.getInt64(count));
    }
    return isLeft ? Halves{from, to} : Halves{to, from};
  }

  Halves compute(llvm::Instruction &instruction) {
    Builder at(&instruction);
    llvm::Type *i64 = at.getInt64Ty();
    unsigned bits = instruction.getType()->getIntegerBitWidth();
    llvm::Value *first = instruction.getOperand(0);
    switch (instruction.getOpcode()) {
    case llvm::Instruction::ZExt: return isWide(first->getType()) ? split(first) : Halves{at.CreateZExt(first, i64), at.getInt64(0)};
    case llvm::Instruction::SExt: {
      if (isWide(first->getType())) {
        Halves value = split(first);
        return {value.low, extend(at, value.high, 128 - first->getType()->getIntegerBitWidth())};
      }
      llvm::Value *low = at.CreateSExt(first, i64);
      return {low, at.CreateAShr(low, 63)};
    }
    case llvm::Instruction::Trunc: return split(first);
    case llvm::Instruction::Freeze: {
      Halves value = split(first);
      return {at.CreateFreeze(value.low), at.CreateFreeze(value.high)};
    }
    case llvm::Instruction::Select: {
      Halves a = split(instruction.getOperand(1)), b = split(instruction.getOperand(2));
      return {at.CreateSelect(first, a.low, b.low), at.CreateSelect(first, a.high, b.high)};
    }
    default: break;
    }
    auto *binary = llvm::dyn_cast<llvm::BinaryOperator>(&instruction);
    if (!binary) refuse(llvm::Twine("integers of more than 64 bits with LLVM's ") + instruction.getOpcodeName());
    Halves a = split(first), b = split(binary->getOperand(1));
    switch (binary->getOpcode()) {
    case llvm::Instruction::Add: {
      llvm::Value *low = at.CreateAdd(a.low, b.low), *carry = at.CreateZExt(at.CreateICmpULT(low, a.low), i64);
      return {low, at.CreateAdd(at.CreateAdd(a.high, b.high), carry)};
    }
    case llvm::Instruction::Sub: {
      llvm::Value *borrow = at.CreateZExt(at.CreateICmpULT(a.low, b.low), i64);
      return {at.CreateSub(a.low, b.low), at.CreateSub(at.CreateSub(a.high, b.high), borrow)};
    }
    case llvm::Instruction::Mul: {
      llvm::Value *cross = at.CreateAdd(at.CreateMul(a.low, b.high), at.CreateMul(a.high, b.low));
      return {at.CreateMul(a.low, b.low), at.CreateAdd(multiplyHigh(at, a.low, b.low), cross)};
    }
    case llvm::Instruction::Or: return {at.CreateOr(a.low, b.low), at.CreateOr(a.high, b.high)};
    case llvm::Instruction::And: return {at.CreateAnd(a.low, b.low), at.CreateAnd(a.high, b.high)};
    case llvm::Instruction::Xor: return {at.CreateXor(a.low, b.low), at.CreateXor(a.high, b.high)};
    case llvm::Instruction::AShr: a.high = extend(at, a.high, 128 - bits); [[fallthrough]];
    case llvm::Instruction::LShr:
    case llvm::Instruction::Shl:
      if (auto *count = llvm::dyn_cast<llvm::ConstantInt>(binary->getOperand(1)))
        return shift(at, binary->getOpcode(), a, unsigned(count->getZExtValue()));
      break;
    default: break;
    }
    refuse(llvm::Twine("integers of more than 64 bits with LLVM's ") + instruction.getOpcodeName());
  }

  llvm::DenseMap<llvm::Value *, Halves> known;
};

} // namespace

std::pair<llvm::Value *, llvm::Value *> checkOverflow(Builder &at, I::ID kind, llvm::Value *a, llvm::Value *b) {
  llvm::Type *type = a->getType();
  unsigned bits = type->getIntegerBitWidth();
  llvm::Value *zero = llvm::ConstantInt::get(type, 0), *result;
  switch (kind) {
  case I::uadd_with_overflow: return {result = at.CreateAdd(a, b), at.CreateICmpULT(result, a)};
  case I::usub_with_overflow: return {at.CreateSub(a, b), at.CreateICmpULT(a, b)};
  case I::sadd_with_overflow:
    result = at.CreateAdd(a, b);
    return {result, at.CreateICmpSLT(at.CreateAnd(at.CreateXor(a, result), at.CreateXor(b, result)), zero)};
  case I::ssub_with_overflow:
    result = at.CreateSub(a, b);
    return {result, at.CreateICmpSLT(at.CreateAnd(at.CreateXor(a, b), at.CreateXor(a, result)), zero)};
  default: break;
  }
  bool isSigned = kind == I::smul_with_overflow;
  result = at.CreateMul(a, b);
  if (bits <= 32) {
    llvm::Type *wide = at.getIntNTy(bits <= 16 ? 32 : 64);
    llvm::Value *product = at.CreateMul(at.CreateIntCast(a, wide, isSigned), at.CreateIntCast(b, wide, isSigned));
    return {result, at.CreateICmpNE(product, at.CreateIntCast(result, wide, isSigned))};
  }
  if (bits != 64) refuse("an overflow check of integers with " + llvm::Twine(bits) + " bits");
  llvm::Value *high = multiplyHigh(at, a, b);
  if (!isSigned) return {result, at.CreateIsNotNull(high)};
  high = at.CreateSub(high, at.CreateSelect(at.CreateICmpSLT(a, zero), b, zero));
  high = at.CreateSub(high, at.CreateSelect(at.CreateICmpSLT(b, zero), a, zero));
  return {result, at.CreateICmpNE(high, at.CreateAShr(result, 63))};
}

llvm::Value *saturate(Builder &at, I::ID kind, llvm::Value *a, llvm::Value *b) {
  I::ID check = kind == I::uadd_sat   ? I::uadd_with_overflow
                : kind == I::usub_sat ? I::usub_with_overflow
                : kind == I::sadd_sat ? I::sadd_with_overflow
                                      : I::ssub_with_overflow;
  auto [result, overflows] = checkOverflow(at, check, a, b);
  llvm::Type *type = a->getType();
  unsigned bits = type->getIntegerBitWidth();
  llvm::Value *limit;
  if (kind == I::uadd_sat || kind == I::usub_sat) {
    limit = llvm::ConstantInt::get(type, kind == I::uadd_sat ? llvm::APInt::getAllOnes(bits) : llvm::APInt::getZero(bits));
  } else {
    llvm::Value *least = llvm::ConstantInt::get(type, llvm::APInt::getSignedMinValue(bits));
    limit = at.CreateXor(at.CreateAShr(result, bits - 1), least); // the wrapped result has the other sign
  }
  return at.CreateSelect(overflows, limit, result);
}

llvm::Value *rotate(Builder &at, bool isLeft, llvm::Value *high, llvm::Value *low, llvm::Value *count) {
  llvm::Type *type = high->getType();
  unsigned bits = type->getIntegerBitWidth();
  auto number = [&](uint64_t value) { return llvm::ConstantInt::get(type, value); };
  count = llvm::isPowerOf2_32(bits) ? at.CreateAnd(count, number(bits - 1)) : at.CreateURem(count, number(bits));
  llvm::Value *rest = at.CreateSub(number(bits - 1), count);
  // In two steps, because a shift by all bits is undefined.
  if (isLeft) return at.CreateOr(at.CreateShl(high, count), at.CreateLShr(at.CreateLShr(low, number(1)), rest));
  return at.CreateOr(at.CreateShl(at.CreateShl(high, number(1)), rest), at.CreateLShr(low, count));
}

llvm::Value *swapBytes(Builder &at, llvm::Value *value) {
  llvm::Type *type = value->getType();
  unsigned bits = type->getIntegerBitWidth();
  llvm::Value *result = llvm::ConstantInt::get(type, 0);
  for (unsigned shift = 0; shift < bits; shift += 8) {
    llvm::Value *byte = at.CreateAnd(at.CreateLShr(value, shift), llvm::ConstantInt::get(type, 255));
    result = at.CreateOr(result, at.CreateShl(byte, bits - 8 - shift));
  }
  return result;
}

llvm::Value *reverseBits(Builder &at, llvm::Value *value) {
  llvm::Type *type = value->getType();
  unsigned bits = type->getIntegerBitWidth();
  if (bits % 8 != 0) { // LLVM makes these of tests of a few bits
    const unsigned wide = bits < 32 ? 32 : 64;
    llvm::Value *reversed = reverseBits(at, at.CreateZExt(value, at.getIntNTy(wide)));
    return at.CreateTrunc(at.CreateLShr(reversed, wide - bits), type);
  }
  for (unsigned step : {1, 2, 4}) {
    // 0x55…, 0x33…, 0x0f…: every other group of `step` bits.
    llvm::Value *groups = llvm::ConstantInt::get(type, llvm::APInt::getSplat(bits, llvm::APInt::getLowBitsSet(2 * step, step)));
    llvm::Value *raised = at.CreateShl(at.CreateAnd(value, groups), step);
    value = at.CreateOr(raised, at.CreateAnd(at.CreateLShr(value, step), groups));
  }
  return swapBytes(at, value);
}

void splitWideIntegers(llvm::Function &function) { WideIntegers().expand(function); }

void narrowComparisons(llvm::Function &function) {
  replaceInstructions(function, [](llvm::Instruction &instruction) -> llvm::Value * {
    auto *comparison = llvm::dyn_cast<llvm::ICmpInst>(&instruction);
    if (!comparison) return nullptr;
    auto *number = llvm::dyn_cast<llvm::ConstantInt>(comparison->getOperand(1));
    auto *widened = llvm::dyn_cast<llvm::CastInst>(comparison->getOperand(0));
    if (!number || !widened || !llvm::isa<llvm::SExtInst, llvm::ZExtInst>(widened) || widened->getSrcTy()->isIntegerTy(1)) return nullptr;
    bool isSigned = llvm::isa<llvm::SExtInst>(widened);
    const llvm::APInt &value = number->getValue();
    llvm::APInt narrow = value.trunc(widened->getSrcTy()->getIntegerBitWidth());
    if ((isSigned ? narrow.sext(value.getBitWidth()) : narrow.zext(value.getBitWidth())) != value) return nullptr;
    llvm::CmpInst::Predicate predicate = isSigned ? comparison->getPredicate() : comparison->getUnsignedPredicate();
    return Builder(comparison).CreateICmp(predicate, widened->getOperand(0), llvm::ConstantInt::get(widened->getSrcTy(), narrow));
  });
}

} // namespace qd::backends::structured
