// legalize_floats.cpp: operations on floats that languages of GPUs lack, or for which they promise less than LLVM
//
// In:   operands of an intrinsic.
// Out:  what LLVM's language reference says of it, also for NaN, infinities and zeros with a sign.
#include "backends/replace_instructions.h"
#include "backends/structured/legalize_parts.h"

#include "llvm/IR/InstIterator.h"
#include "llvm/IR/PatternMatch.h"

namespace qd::backends::structured {

static llvm::Value *toBits(Builder &at, llvm::Value *value) {
  return at.CreateBitCast(value, at.getIntNTy(unsigned(value->getType()->getPrimitiveSizeInBits())));
}

namespace {

/// A sum, and what its rounding has left out (Knuth, *The Art of Computer Programming*, section 4.2.2, theorem B).
struct ExactSum {
  llvm::Value *sum, *error;
};

ExactSum addExactly(Builder &at, llvm::Value *a, llvm::Value *b) {
  llvm::Value *sum = at.CreateFAdd(a, b), *back = at.CreateFSub(sum, a);
  return {sum, at.CreateFAdd(at.CreateFSub(a, at.CreateFSub(sum, back)), at.CreateFSub(b, back))};
}

/// The neighbor of an inexact sum that is odd: rounding it to fewer bits gives what rounding the exact sum gives.
llvm::Value *roundToOdd(Builder &at, ExactSum exact) {
  llvm::Type *type = exact.sum->getType();
  llvm::Value *bits = toBits(at, exact.sum), *one = llvm::ConstantInt::get(bits->getType(), 1);
  llvm::Value *zero = llvm::ConstantInt::get(bits->getType(), 0);
  llvm::Value *isAway = at.CreateICmpSGE(at.CreateXor(bits, toBits(at, exact.error)), zero);
  llvm::Value *moved = at.CreateSelect(isAway, at.CreateAdd(bits, one), at.CreateSub(bits, one));
  llvm::Value *isInexact = at.CreateFCmpONE(exact.error, llvm::ConstantFP::getZero(type));
  llvm::Value *isEven = at.CreateICmpEQ(at.CreateAnd(bits, one), zero);
  return at.CreateBitCast(at.CreateSelect(at.CreateAnd(isInexact, isEven), moved, bits), type);
}

/// Two parts with half of the bits each.
std::pair<llvm::Value *, llvm::Value *> halve(Builder &at, llvm::Value *value) {
  llvm::Value *bits = toBits(at, value);
  unsigned width = bits->getType()->getIntegerBitWidth(), count = width == 32 ? 12 : 27;
  llvm::Value *rounded = at.CreateAdd(bits, llvm::ConstantInt::get(bits->getType(), uint64_t(1) << (count - 1)));
  rounded = at.CreateAnd(rounded, llvm::ConstantInt::get(bits->getType(), llvm::APInt::getHighBitsSet(width, width - count)));
  llvm::Value *high = at.CreateBitCast(rounded, value->getType());
  return {high, at.CreateFSub(value, high)};
}

} // namespace

llvm::Value *multiplyAdd(Builder &at, bool hasF64, llvm::Value *a, llvm::Value *b, llvm::Value *c) {
  llvm::Type *type = a->getType();
  at.clearFastMathFlags();
  if (type->isHalfTy() || (type->isFloatTy() && hasF64)) {
    llvm::Type *wide = type->isHalfTy() ? at.getFloatTy() : at.getDoubleTy(); // holds any product
    llvm::Value *product = at.CreateFMul(at.CreateFPExt(a, wide), at.CreateFPExt(b, wide));
    return at.CreateFPTrunc(roundToOdd(at, addExactly(at, product, at.CreateFPExt(c, wide))), type);
  }
  // Dekker's product; then Boldo and Melquiond, *Emulation of a FMA and correctly rounded sums*, 2008.
  auto [aHigh, aLow] = halve(at, a);
  auto [bHigh, bLow] = halve(at, b);
  llvm::Value *product = at.CreateFMul(a, b), *rest = at.CreateFSub(at.CreateFMul(aHigh, bHigh), product);
  rest = at.CreateFAdd(at.CreateFAdd(rest, at.CreateFMul(aHigh, bLow)), at.CreateFMul(aLow, bHigh));
  rest = at.CreateFAdd(rest, at.CreateFMul(aLow, bLow));
  ExactSum low = addExactly(at, c, rest), high = addExactly(at, product, low.sum);
  llvm::Value *result = at.CreateFAdd(high.sum, roundToOdd(at, addExactly(at, low.error, high.error)));
  // Infinities, NaN and the sign of zero.
  llvm::Value *isNumber = at.CreateFCmpONE(result, llvm::ConstantFP::getZero(type));
  return at.CreateSelect(isNumber, result, at.CreateFAdd(product, c));
}

llvm::Value *copySign(Builder &at, llvm::Value *magnitude, llvm::Value *sign) {
  llvm::Value *left = toBits(at, magnitude), *right = toBits(at, sign);
  unsigned bits = left->getType()->getIntegerBitWidth();
  llvm::Value *mask = llvm::ConstantInt::get(left->getType(), llvm::APInt::getSignMask(bits));
  return at.CreateBitCast(at.CreateOr(at.CreateAnd(left, at.CreateNot(mask)), at.CreateAnd(right, mask)), magnitude->getType());
}

llvm::Value *roundBySums(Builder &at, I::ID kind, llvm::Value *value) {
  llvm::Type *type = value->getType();
  at.clearFastMathFlags();
  // Numbers with this exponent have no fraction.
  llvm::Value *large = llvm::ConstantFP::get(type, std::ldexp(1.0, type->getFPMantissaWidth() - 1));
  llvm::Value *size = at.CreateUnaryIntrinsic(I::fabs, value), *signedLarge = copySign(at, large, value);
  llvm::Value *nearest = at.CreateFSub(at.CreateFAdd(value, signedLarge), signedLarge);
  nearest = at.CreateSelect(at.CreateFCmpOLT(size, large), nearest, value);
  llvm::Value *one = llvm::ConstantFP::get(type, 1.0), *result = nearest;
  if (kind == I::floor) result = at.CreateSelect(at.CreateFCmpOGT(nearest, value), at.CreateFSub(nearest, one), nearest);
  if (kind == I::ceil) result = at.CreateSelect(at.CreateFCmpOLT(nearest, value), at.CreateFAdd(nearest, one), nearest);
  if (kind == I::trunc) {
    nearest = at.CreateUnaryIntrinsic(I::fabs, nearest);
    result = at.CreateSelect(at.CreateFCmpOGT(nearest, size), at.CreateFSub(nearest, one), nearest);
  }
  return copySign(at, result, value);
}

// The functions of SPIR-V and Metal promise less.
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

llvm::Value *roundAway(Builder &at, llvm::Value *value) {
  llvm::Value *whole = roundBySums(at, I::trunc, value);
  llvm::Value *rest = at.CreateUnaryIntrinsic(I::fabs, at.CreateFSub(value, whole));
  llvm::Value *one = copySign(at, llvm::ConstantFP::get(value->getType(), 1.0), value);
  llvm::Value *isFar = at.CreateFCmpOGE(rest, llvm::ConstantFP::get(value->getType(), 0.5));
  return copySign(at, at.CreateSelect(isFar, at.CreateFAdd(whole, one), whole), value);
}

/// A sum, product or quotient of which one operand is a constant zero; null: the device does this one right.
static llvm::Value *chooseResultOfZero(Builder &at, llvm::BinaryOperator &binary) {
  llvm::Value *left = binary.getOperand(0), *right = binary.getOperand(1);
  bool isFirst = llvm::PatternMatch::match(left, llvm::PatternMatch::m_AnyZeroFP());
  llvm::Value *zero = isFirst ? left : right, *other = isFirst ? right : left;
  if (!llvm::PatternMatch::match(zero, llvm::PatternMatch::m_AnyZeroFP())) return nullptr;
  bool isNegative = llvm::cast<llvm::ConstantFP>(zero)->isNegative();
  llvm::Type *type = binary.getType();
  llvm::Value *plusZero = llvm::ConstantFP::getZero(type), *infinity = llvm::ConstantFP::getInfinity(type);
  auto chooseNumber = [&](llvm::Value *isNumber, llvm::Value *magnitude) {
    llvm::Value *number = copySign(at, magnitude, isNegative ? at.CreateFNeg(other) : other);
    return at.CreateSelect(isNumber, number, llvm::ConstantFP::getNaN(type));
  };
  switch (binary.getOpcode()) {
  case llvm::Instruction::FSub:
    if (isFirst) other = at.CreateFNeg(other);
    isNegative ^= !isFirst;
    [[fallthrough]];
  case llvm::Instruction::FAdd: return isNegative ? other : at.CreateSelect(at.CreateFCmpOEQ(other, plusZero), plusZero, other);
  case llvm::Instruction::FMul: return chooseNumber(at.CreateFCmpONE(at.CreateUnaryIntrinsic(I::fabs, other), infinity), plusZero);
  case llvm::Instruction::FDiv: return chooseNumber(at.CreateFCmpONE(other, plusZero), isFirst ? plusZero : infinity);
  default: return nullptr;
  }
}

void chooseResultsOfZeros(llvm::Function &function) {
  replaceInstructions(function, [](llvm::Instruction &instruction) -> llvm::Value * {
    auto *binary = llvm::dyn_cast<llvm::BinaryOperator>(&instruction);
    if (!binary || !binary->getType()->isFloatingPointTy()) return nullptr;
    Builder at(binary);
    return chooseResultOfZero(at, *binary);
  });
}

constexpr llvm::StringLiteral kExactCall = "exact.";

/// Whether it is a quotient or a root that must be rounded right; a division by a power of two always is. LLVM computes those of f64 as f32
/// where only that is used, but not calls.
static bool mustBeExact(const llvm::Instruction &instruction, bool hasF64) {
  if (!instruction.getType()->isFPOrFPVectorTy() || (!hasF64 && instruction.getType()->getScalarType()->isDoubleTy())) return false;
  if (auto *root = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction))
    return hasF64 && root->getIntrinsicID() == I::sqrt && !root->hasApproxFunc();
  if (instruction.getOpcode() != llvm::Instruction::FDiv || instruction.hasAllowReciprocal()) return false;
  const llvm::APFloat *divisor;
  return !llvm::PatternMatch::match(instruction.getOperand(1), llvm::PatternMatch::m_APFloat(divisor)) ||
         !divisor->getExactInverse(nullptr);
}

void keepExactOperations(llvm::Module &module, bool hasF64, llvm::function_ref<bool(const llvm::Function &)> isChosen) {
  auto callInstead = [&](llvm::Instruction &instruction) -> llvm::Value * {
    if (!mustBeExact(instruction, hasF64)) return nullptr;
    llvm::Type *type = instruction.getType();
    bool isRoot = llvm::isa<llvm::IntrinsicInst>(instruction);
    llvm::SmallVector<llvm::Value *> operands(llvm::drop_end(instruction.operand_values(), isRoot));
    std::string name;
    llvm::raw_string_ostream(name) << kExactCall << operands.size() << "." << *type;
    llvm::SmallVector<llvm::Type *> types(operands.size(), type);
    llvm::FunctionCallee callee = module.getOrInsertFunction(name, llvm::FunctionType::get(type, types, false));
    llvm::CallInst *call = Builder(&instruction).CreateCall(callee, operands);
    call->setDoesNotAccessMemory();
    call->setDoesNotThrow();
    call->addFnAttr(llvm::Attribute::WillReturn);
    call->addFnAttr(llvm::Attribute::Speculatable);
    return call;
  };
  for (llvm::Function &function : module)
    if (isChosen(function)) replaceInstructions(function, callInstead);
}

/// The nearest number that f16 has, in the type of `value`; an infinity above those.
static llvm::Value *roundToHalf(Builder &at, llvm::Value *value) {
  llvm::Type *type = value->getType();
  llvm::Value *bits = toBits(at, value);
  llvm::Type *whole = bits->getType();
  unsigned width = whole->getIntegerBitWidth(), dropped = width == 32 ? 13 : 42; // of the fraction
  auto number = [&](double one) { return llvm::ConstantFP::get(type, one); };
  auto mask = llvm::APInt::getLowBitsSet(width, dropped - 1);
  llvm::Value *isOdd = at.CreateAnd(at.CreateLShr(bits, dropped), 1);
  llvm::Value *raised = at.CreateAdd(at.CreateAdd(bits, llvm::ConstantInt::get(whole, mask)), isOdd);
  llvm::Value *kept = at.CreateAnd(raised, llvm::ConstantInt::get(whole, llvm::APInt::getHighBitsSet(width, width - dropped)));
  llvm::Value *rounded = at.CreateUnaryIntrinsic(I::fabs, at.CreateBitCast(kept, type)), *size = at.CreateUnaryIntrinsic(I::fabs, value);
  rounded = at.CreateSelect(at.CreateFCmpOGE(rounded, number(0x1p16)), llvm::ConstantFP::getInfinity(type), rounded);
  // Below, the numbers of f16 are multiples of 2^-24, as those of `value` from `step` on are.
  llvm::Value *step = number(width == 32 ? 0x1p-1 : 0x1p28);
  rounded = at.CreateSelect(at.CreateFCmpOLT(size, number(0x1p-14)), at.CreateFSub(at.CreateFAdd(size, step), step), rounded);
  return at.CreateSelect(at.CreateFCmpUNO(value, value), value, copySign(at, rounded, value));
}

/// Whether a value, perhaps after a choice, is widened.
static bool isWidened(const llvm::Value &value, llvm::SmallPtrSetImpl<const llvm::Value *> &seen) {
  return llvm::any_of(value.users(), [&](const llvm::User *user) {
    if (llvm::isa<llvm::FPExtInst>(user)) return true;
    bool isChoice = llvm::isa<llvm::PHINode, llvm::SelectInst, llvm::FreezeInst>(user);
    return isChoice && seen.insert(user).second && isWidened(*user, seen);
  });
}

void roundHalves(llvm::Function &function) {
  for (llvm::Instruction &instruction : llvm::instructions(function)) {
    llvm::SmallPtrSet<const llvm::Value *, 8> seen;
    if (!llvm::isa<llvm::FPTruncInst>(instruction) || !instruction.getType()->isHalfTy() || !isWidened(instruction, seen)) continue;
    Builder at(&instruction);
    instruction.setOperand(0, roundToHalf(at, instruction.getOperand(0)));
  }
}

void widenExactOperations(llvm::Module &module) {
  for (llvm::Function &function : llvm::make_early_inc_range(module)) {
    if (!function.getName().starts_with(kExactCall)) continue;
    for (llvm::User *user : llvm::make_early_inc_range(function.users())) {
      auto *call = llvm::cast<llvm::CallInst>(user);
      Builder at(call);
      llvm::Type *wide = call->getType()->getWithNewType(at.getDoubleTy());
      auto widen = [&](unsigned i) { return at.CreateFPCast(call->getArgOperand(i), wide); };
      llvm::Value *result = call->arg_size() == 1 ? at.CreateUnaryIntrinsic(I::sqrt, widen(0)) : at.CreateFDiv(widen(0), widen(1));
      call->replaceAllUsesWith(at.CreateFPCast(result, call->getType()));
      call->eraseFromParent();
    }
    function.eraseFromParent();
  }
}

} // namespace qd::backends::structured
