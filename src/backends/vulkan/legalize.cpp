// legalize.cpp: LLVM IR → the part of LLVM IR that the SPIR-V writer has instructions for
//
// In:   optimized IR; all calls are inlined.
// Out:  scalars only; of LLVM's intrinsics those of `isWritten`. Bit counts are of 32 bits, which is all that SPIR-V has.
#include "backends/vulkan/grid_target.h"
#include "backends/vulkan/steps.h"
#include "support/error.h"

#include "llvm/Analysis/AssumptionCache.h"
#include "llvm/Analysis/TargetTransformInfo.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/PassInstrumentation.h"
#include "llvm/Transforms/Scalar/InferAddressSpaces.h"
#include "llvm/Transforms/Scalar/Scalarizer.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/Local.h"

namespace qd::backends::vulkan {

namespace I = llvm::Intrinsic;
using Builder = llvm::IRBuilder<>;

void refuse(const llvm::Twine &what) { throw support::Error(support::ErrorKind::Runtime, "vulkan: " + what.str()); }

void inlineEverything(llvm::Module &module, llvm::ArrayRef<std::string> entries) {
  for (llvm::Function &function : module) {
    function.removeFnAttr("target-cpu");
    function.removeFnAttr("target-features");
    function.removeFnAttr("tune-cpu");
    if (function.isDeclaration() || llvm::is_contained(entries, function.getName())) continue;
    function.setLinkage(llvm::GlobalValue::InternalLinkage);
    for (auto attribute : {llvm::Attribute::NoInline, llvm::Attribute::OptimizeNone, llvm::Attribute::Cold})
      function.removeFnAttr(attribute);
    function.addFnAttr(llvm::Attribute::AlwaysInline);
    for (llvm::User *user : function.users())
      if (auto *call = llvm::dyn_cast<llvm::CallInst>(user)) call->removeFnAttr(llvm::Attribute::NoInline);
  }
}

void inferAddressSpaces(llvm::Module &module) {
  for (llvm::GlobalVariable &table : llvm::make_early_inc_range(module.globals())) {
    if (!table.isConstant() || table.getAddressSpace() != 0 || !table.hasInitializer()) continue;
    auto *moved = new llvm::GlobalVariable(module, table.getValueType(), /*isConstant=*/true, llvm::GlobalValue::InternalLinkage,
                                           table.getInitializer(), "", nullptr, llvm::GlobalValue::NotThreadLocal, kConstant);
    moved->takeName(&table);
    moved->setAlignment(table.getAlign());
    table.replaceAllUsesWith(llvm::ConstantExpr::getAddrSpaceCast(moved, table.getType()));
    table.eraseFromParent();
  }
  llvm::FunctionAnalysisManager analyses;
  analyses.registerPass([] { return llvm::TargetIRAnalysis(); });
  analyses.registerPass([] { return llvm::AssumptionAnalysis(); });
  analyses.registerPass([] { return llvm::DominatorTreeAnalysis(); });
  analyses.registerPass([] { return llvm::PassInstrumentationAnalysis(); });
  for (llvm::Function &function : module)
    if (!function.isDeclaration()) llvm::InferAddressSpacesPass(0).run(function, analyses);
}

namespace {

//--- Integers ---

llvm::Value *countBits(Builder &at, I::ID kind, llvm::Value *value) {
  unsigned bits = value->getType()->getIntegerBitWidth();
  llvm::Type *i32 = at.getInt32Ty();
  auto count = [&](llvm::Value *word) {
    return kind == I::ctpop ? at.CreateUnaryIntrinsic(kind, word) : at.CreateBinaryIntrinsic(kind, word, at.getFalse());
  };
  llvm::Value *result;
  if (bits <= 32) {
    llvm::Value *word = at.CreateZExt(value, i32);
    if (kind == I::cttz && bits < 32) word = at.CreateOr(word, at.getInt32(1u << bits));
    result = count(word);
    if (kind == I::ctlz && bits < 32) result = at.CreateSub(result, at.getInt32(32 - bits));
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

/// Result of an operation, and whether it overflows.
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
  if (bits % 8 != 0) refuse("the reversed bits of an integer with " + llvm::Twine(bits) + " bits");
  for (unsigned step : {1, 2, 4}) {
    // 0x55…, 0x33…, 0x0f…: every other group of `step` bits.
    llvm::Value *groups = llvm::ConstantInt::get(type, llvm::APInt::getSplat(bits, llvm::APInt::getLowBitsSet(2 * step, step)));
    llvm::Value *raised = at.CreateShl(at.CreateAnd(value, groups), step);
    value = at.CreateOr(raised, at.CreateAnd(at.CreateLShr(value, step), groups));
  }
  return swapBytes(at, value);
}

//--- Floats ---

llvm::Value *toBits(Builder &at, llvm::Value *value) {
  return at.CreateBitCast(value, at.getIntNTy(unsigned(value->getType()->getPrimitiveSizeInBits())));
}

llvm::Value *copySign(Builder &at, llvm::Value *magnitude, llvm::Value *sign) {
  llvm::Value *left = toBits(at, magnitude), *right = toBits(at, sign);
  unsigned bits = left->getType()->getIntegerBitWidth();
  llvm::Value *mask = llvm::ConstantInt::get(left->getType(), llvm::APInt::getSignMask(bits));
  return at.CreateBitCast(at.CreateOr(at.CreateAnd(left, at.CreateNot(mask)), at.CreateAnd(right, mask)), magnitude->getType());
}

/// The operand that is no NaN; -0.0 is less than 0.0 unless the flags allow any order. SPIR-V's own functions promise less.
llvm::Value *chooseExtremum(Builder &at, bool isLeast, llvm::FastMathFlags flags, llvm::Value *a, llvm::Value *b) {
  at.clearFastMathFlags();
  llvm::Value *isFirst = isLeast ? at.CreateFCmpOLT(a, b) : at.CreateFCmpOGT(a, b);
  if (!flags.noNaNs()) isFirst = at.CreateOr(isFirst, at.CreateFCmpUNO(b, b));
  llvm::Value *result = at.CreateSelect(isFirst, a, b);
  if (flags.noSignedZeros()) return result;
  llvm::Value *left = toBits(at, a), *right = toBits(at, b);
  llvm::Value *both = at.CreateBitCast(isLeast ? at.CreateOr(left, right) : at.CreateAnd(left, right), a->getType());
  return at.CreateSelect(at.CreateFCmpOEQ(a, b), both, result);
}

llvm::Value *convertSaturating(Builder &at, bool isSigned, llvm::Value *value, llvm::Type *target) {
  if (value->getType()->isHalfTy()) value = at.CreateFPExt(value, at.getFloatTy());
  llvm::Type *type = value->getType();
  unsigned bits = target->getIntegerBitWidth();
  llvm::APInt least = isSigned ? llvm::APInt::getSignedMinValue(bits) : llvm::APInt::getZero(bits);
  llvm::APInt most = isSigned ? llvm::APInt::getSignedMaxValue(bits) : llvm::APInt::getMaxValue(bits);
  auto power = [&](unsigned exponent) { return llvm::ConstantFP::get(type, std::ldexp(1.0, int(exponent))); };
  // The first number above the range is a power of two.
  llvm::Value *isAbove = at.CreateFCmpOGE(value, power(isSigned ? bits - 1 : bits));
  llvm::Value *isBelow = at.CreateFCmpOLT(value, isSigned ? at.CreateFNeg(power(bits - 1)) : llvm::ConstantFP::getZero(type));
  llvm::Value *isNan = at.CreateFCmpUNO(value, value);
  llvm::Value *isOutside = at.CreateOr(isAbove, at.CreateOr(isBelow, isNan));
  llvm::Value *inside = at.CreateSelect(isOutside, llvm::ConstantFP::getZero(type), value);
  llvm::Value *result = isSigned ? at.CreateFPToSI(inside, target) : at.CreateFPToUI(inside, target);
  result = at.CreateSelect(isAbove, llvm::ConstantInt::get(target, most), result);
  return at.CreateSelect(isBelow, llvm::ConstantInt::get(target, least), result);
}

llvm::Value *testClass(Builder &at, llvm::Value *value, unsigned classes) {
  llvm::Value *bits = toBits(at, value);
  llvm::Type *type = bits->getType();
  unsigned width = type->getIntegerBitWidth(), fraction = width == 16 ? 10 : width == 32 ? 23 : 52;
  llvm::APInt infinity = llvm::APInt::getBitsSet(width, fraction, width - 1);
  llvm::Value *magnitude = at.CreateAnd(bits, llvm::ConstantInt::get(type, ~llvm::APInt::getSignMask(width)));
  auto number = [&](const llvm::APInt &value) { return llvm::ConstantInt::get(type, value); };
  llvm::Value *border = number(infinity);
  if (classes == llvm::fcNan) return at.CreateICmpUGT(magnitude, border);
  if (classes == llvm::fcFinite) return at.CreateICmpULT(magnitude, border);
  llvm::APInt normal = llvm::APInt::getOneBitSet(width, fraction), quiet = infinity | llvm::APInt::getOneBitSet(width, fraction - 1);
  // A class is those numbers with one sign whose magnitudes are from one number up to before another.
  struct Range {
    unsigned negative, positive;
    llvm::APInt first, size;
  };
  const Range ranges[] = {
      {llvm::fcNegZero, llvm::fcPosZero, llvm::APInt(width, 0), llvm::APInt(width, 1)},
      {llvm::fcNegSubnormal, llvm::fcPosSubnormal, llvm::APInt(width, 1), normal - 1},
      {llvm::fcNegNormal, llvm::fcPosNormal, normal, infinity - normal},
      {llvm::fcNegInf, llvm::fcPosInf, infinity, llvm::APInt(width, 1)},
      {llvm::fcSNan, llvm::fcSNan, infinity + 1, quiet - infinity - 1},
      {llvm::fcQNan, llvm::fcQNan, quiet, llvm::APInt::getSignMask(width) - quiet},
  };
  llvm::Value *isNegative = at.CreateICmpSLT(bits, llvm::ConstantInt::get(type, 0)), *result = at.getFalse();
  for (const Range &range : ranges) {
    bool hasNegative = classes & range.negative, hasPositive = classes & range.positive;
    if (!hasNegative && !hasPositive) continue;
    llvm::Value *isInside = at.CreateICmpULT(at.CreateSub(magnitude, number(range.first)), number(range.size));
    if (!hasPositive) isInside = at.CreateAnd(isInside, isNegative);
    if (!hasNegative) isInside = at.CreateAnd(isInside, at.CreateNot(isNegative));
    result = at.CreateOr(result, isInside);
  }
  return result;
}

/// Halves are rounded away from zero.
llvm::Value *roundAway(Builder &at, llvm::Value *value) {
  llvm::Value *whole = at.CreateUnaryIntrinsic(I::trunc, value);
  llvm::Value *rest = at.CreateUnaryIntrinsic(I::fabs, at.CreateFSub(value, whole));
  llvm::Value *one = copySign(at, llvm::ConstantFP::get(value->getType(), 1.0), value);
  llvm::Value *isFar = at.CreateFCmpOGE(rest, llvm::ConstantFP::get(value->getType(), 0.5));
  return copySign(at, at.CreateSelect(isFar, at.CreateFAdd(whole, one), whole), value);
}

//--- Memory ---

/// Bytes that the accesses of a copy should have: those of the elements of a local or shared array, if that is known.
uint64_t getUnit(llvm::Value *pointer, llvm::Align align) {
  llvm::Value *root = pointer->stripInBoundsOffsets();
  llvm::Type *type = nullptr;
  if (auto *local = llvm::dyn_cast<llvm::AllocaInst>(root)) type = local->getAllocatedType();
  if (auto *global = llvm::dyn_cast<llvm::GlobalVariable>(root)) type = global->getValueType();
  while (auto *array = llvm::dyn_cast_or_null<llvm::ArrayType>(type)) type = array->getElementType();
  uint64_t bytes = type && type->isSingleValueType() ? type->getPrimitiveSizeInBits().getFixedValue() / 8 : 8;
  return std::min<uint64_t>(align.value(), std::clamp<uint64_t>(bytes, 1, 8));
}

/// A loop over the units of a copy, or of a memset.
void expandMemory(llvm::AnyMemIntrinsic &copy) {
  auto *transfer = llvm::dyn_cast<llvm::AnyMemTransferInst>(&copy);
  auto *length = llvm::dyn_cast<llvm::ConstantInt>(copy.getLength());
  uint64_t unit = getUnit(copy.getDest(), copy.getDestAlign().valueOrOne());
  if (transfer) unit = std::min(unit, getUnit(transfer->getSource(), transfer->getSourceAlign().valueOrOne()));
  while (unit > 1 && (!length || length->getZExtValue() % unit)) unit /= 2;
  if (copy.getIntrinsicID() == I::memmove) refuse("a copy of memory that may overlap");
  Builder at(&copy);
  llvm::Type *word = at.getIntNTy(unsigned(unit * 8));
  llvm::Value *filling = nullptr;
  if (auto *fill = llvm::dyn_cast<llvm::AnyMemSetInst>(&copy)) {
    filling = at.CreateZExt(fill->getValue(), word);
    filling = at.CreateMul(filling, llvm::ConstantInt::get(word, llvm::APInt::getSplat(unsigned(unit * 8), llvm::APInt(8, 1))));
  }
  auto copyUnit = [&](Builder &in, llvm::Value *index) {
    llvm::Value *value = filling;
    if (!value) value = in.CreateAlignedLoad(word, in.CreateGEP(word, transfer->getSource(), index), llvm::Align(unit));
    in.CreateAlignedStore(value, in.CreateGEP(word, copy.getDest(), index), llvm::Align(unit));
  };
  constexpr uint64_t kFew = 8;
  if (length && length->getZExtValue() <= kFew * unit) {
    for (uint64_t i = 0; i < length->getZExtValue() / unit; ++i) copyUnit(at, at.getInt32(unsigned(i)));
  } else {
    llvm::Value *count = at.CreateUDiv(at.CreateZExtOrTrunc(copy.getLength(), at.getInt64Ty()), at.getInt64(unit));
    llvm::Instruction *body = llvm::SplitBlockAndInsertIfThen(at.CreateIsNotNull(count), copy.getIterator(), false);
    auto [place, index] = llvm::SplitBlockAndInsertSimpleForLoop(count, body->getIterator());
    Builder in(place->getParent(), place->getIterator());
    copyUnit(in, index);
  }
  copy.eraseFromParent();
}

//--- The table ---

/// Intrinsics that the writer writes.
bool isWritten(const llvm::IntrinsicInst &call) {
  switch (call.getIntrinsicID()) {
  case I::ctpop:
  case I::ctlz:
  case I::cttz: return call.getType()->isIntegerTy(32);
  case I::fabs:
  case I::sqrt:
  case I::floor:
  case I::ceil:
  case I::trunc:
  case I::rint:
  case I::nearbyint:
  case I::roundeven:
  case I::fma:
  case I::readcyclecounter:
  case I::readsteadycounter: return true;
  default: return false;
  }
}

/// What replaces a call of an intrinsic; null: it has no effect.
llvm::Value *expand(Builder &at, llvm::IntrinsicInst &call) {
  auto get = [&](unsigned i) { return call.getArgOperand(i); };
  I::ID kind = call.getIntrinsicID();
  bool isFloat = llvm::isa<llvm::FPMathOperator>(call);
  llvm::FastMathFlags flags = isFloat ? call.getFastMathFlags() : llvm::FastMathFlags();
  at.setFastMathFlags(flags);
  switch (kind) {
  case I::assume:
  case I::experimental_noalias_scope_decl:
  case I::lifetime_start:
  case I::lifetime_end:
  case I::sideeffect:
  case I::dbg_value:
  case I::dbg_declare: return nullptr;
  case I::expect:
  case I::arithmetic_fence:
  case I::ssa_copy: return get(0);
  case I::ctpop:
  case I::ctlz:
  case I::cttz: return countBits(at, kind, get(0));
  case I::abs: {
    llvm::Value *zero = llvm::ConstantInt::get(call.getType(), 0);
    return at.CreateSelect(at.CreateICmpSLT(get(0), zero), at.CreateSub(zero, get(0)), get(0));
  }
  case I::smin: return at.CreateSelect(at.CreateICmpSLT(get(0), get(1)), get(0), get(1));
  case I::smax: return at.CreateSelect(at.CreateICmpSGT(get(0), get(1)), get(0), get(1));
  case I::umin: return at.CreateSelect(at.CreateICmpULT(get(0), get(1)), get(0), get(1));
  case I::umax: return at.CreateSelect(at.CreateICmpUGT(get(0), get(1)), get(0), get(1));
  case I::ucmp:
  case I::scmp: {
    llvm::Value *isLess = kind == I::scmp ? at.CreateICmpSLT(get(0), get(1)) : at.CreateICmpULT(get(0), get(1));
    llvm::Value *isMore = kind == I::scmp ? at.CreateICmpSGT(get(0), get(1)) : at.CreateICmpUGT(get(0), get(1));
    return at.CreateSub(at.CreateZExt(isMore, call.getType()), at.CreateZExt(isLess, call.getType()));
  }
  case I::uadd_sat:
  case I::usub_sat:
  case I::sadd_sat:
  case I::ssub_sat: return saturate(at, kind, get(0), get(1));
  case I::fshl:
  case I::fshr: return rotate(at, kind == I::fshl, get(0), get(1), get(2));
  case I::bitreverse: return reverseBits(at, get(0));
  case I::bswap: return swapBytes(at, get(0));
  case I::fmuladd: return at.CreateFAdd(at.CreateFMul(get(0), get(1)), get(2));
  case I::copysign: return copySign(at, get(0), get(1));
  case I::minnum:
  case I::minimumnum: return chooseExtremum(at, true, flags, get(0), get(1));
  case I::maxnum:
  case I::maximumnum: return chooseExtremum(at, false, flags, get(0), get(1));
  case I::is_fpclass: return testClass(at, get(0), unsigned(llvm::cast<llvm::ConstantInt>(get(1))->getZExtValue()));
  case I::round: return roundAway(at, get(0));
  case I::canonicalize: return get(0);
  case I::fptosi_sat:
  case I::fptoui_sat: return convertSaturating(at, kind == I::fptosi_sat, get(0), call.getType());
  default: break;
  }
  if (auto *check = llvm::dyn_cast<llvm::WithOverflowInst>(&call)) {
    auto [result, overflows] = checkOverflow(at, kind, check->getLHS(), check->getRHS());
    return at.CreateInsertValue(at.CreateInsertValue(llvm::PoisonValue::get(call.getType()), result, 0), overflows, 1);
  }
  refuse("no instructions exist for " + call.getCalledFunction()->getName());
}

void expandIntrinsics(llvm::Function &function) {
  llvm::SmallVector<llvm::IntrinsicInst *> calls;
  for (llvm::Instruction &instruction : llvm::instructions(function))
    if (auto *call = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction)) calls.push_back(call);
  for (llvm::IntrinsicInst *call : calls) {
    if (auto *copy = llvm::dyn_cast<llvm::AnyMemIntrinsic>(call)) {
      expandMemory(*copy);
      continue;
    }
    if (isWritten(*call)) continue;
    Builder at(call);
    llvm::Value *result = expand(at, *call);
    if (result) {
      // Parts of a pair are read directly.
      for (llvm::User *user : llvm::make_early_inc_range(call->users()))
        if (auto *part = llvm::dyn_cast<llvm::ExtractValueInst>(user); part && llvm::isa<llvm::InsertValueInst>(result)) {
          auto *outer = llvm::cast<llvm::InsertValueInst>(result);
          bool isSecond = part->getIndices()[0] == 1;
          auto *own = isSecond ? outer : llvm::cast<llvm::InsertValueInst>(outer->getAggregateOperand());
          part->replaceAllUsesWith(own->getInsertedValueOperand());
          part->eraseFromParent();
        }
      call->replaceAllUsesWith(result);
    }
    call->eraseFromParent();
  }
  // What keeps LLVM from moving accesses of memory across a clock.
  for (llvm::Instruction &instruction : llvm::make_early_inc_range(llvm::instructions(function)))
    if (auto *call = llvm::dyn_cast<llvm::CallInst>(&instruction); call && call->isInlineAsm()) call->eraseFromParent();
  // Pairs of which only the parts are used.
  for (llvm::Instruction &instruction : llvm::make_early_inc_range(llvm::instructions(function)))
    if (llvm::isa<llvm::InsertValueInst>(instruction)) llvm::RecursivelyDeleteTriviallyDeadInstructions(&instruction);
}

void scalarize(llvm::Function &function) {
  llvm::FunctionAnalysisManager analyses;
  analyses.registerPass([] { return llvm::TargetIRAnalysis(); });
  analyses.registerPass([] { return llvm::DominatorTreeAnalysis(); });
  analyses.registerPass([] { return llvm::PassInstrumentationAnalysis(); });
  llvm::ScalarizerPassOptions options;
  options.ScalarizeLoadStore = true;
  llvm::ScalarizerPass(options).run(function, analyses);
}

} // namespace

void legalize(llvm::Module &module, const Features &features) {
  for (llvm::Function &function : module) {
    if (function.isDeclaration()) continue;
    scalarize(function);
    WideIntegers().expand(function);
    expandIntrinsics(function);
  }
  legalizeAtomics(module, features);
}

} // namespace qd::backends::vulkan
