// operators.cpp: operators and conversions, element by element
//
// Integers wrap; shift counts are taken modulo the width; divisions never trap. A conversion of a float out of range gives an arbitrary
// value, but never poison (freeze), because poison makes all dependent behavior undefined.
#include "codegen/llvm/body.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/PatternMatch.h"

using namespace mlir;

namespace qd::codegen {

static llvm::Constant *makeFloat(llvm::Type *type, APFloat number) {
  bool isInexact = false;
  number.convert(type->getFltSemantics(), APFloat::rmNearestTiesToEven, &isInexact); // a bf16 is an f32 in registers
  return llvm::ConstantFP::get(type, number);
}

Components BodyEmitter::emitConstant(TypedAttr value) {
  llvm::Type *type = module.getType(ir::getScalar(value.getType()));
  if (auto number = dyn_cast<FloatAttr>(value)) return {{makeFloat(type, number.getValue())}};
  if (auto number = dyn_cast<IntegerAttr>(value)) return {{llvm::ConstantInt::get(type, number.getValue())}};
  auto dense = cast<DenseElementsAttr>(value);
  Components components;
  if (isa<FloatType>(dense.getElementType()))
    for (const APFloat &number : dense.getValues<APFloat>()) components.push_back({makeFloat(type, number)});
  else
    for (const APInt &number : dense.getValues<APInt>()) components.push_back({llvm::ConstantInt::get(type, number)});
  return components;
}

static std::optional<int64_t> getConstant(const Component &component) {
  auto constant = dyn_cast<llvm::ConstantInt>(component.value);
  if (!constant || component.kind.isVarying() || constant->getBitWidth() > 64) return std::nullopt;
  return constant->getSExtValue();
}

Component BodyEmitter::combine(ir::BinaryKind kind, Type type, const Component &lhs, const Component &rhs) {
  if (lanes == 1) return {emitBinary(kind, type, type, lhs.value, rhs.value)};
  LaneKind lanesOf = isa<IntegerType>(type) && !type.isInteger(1)
                         ? getIntegerKind(kind, {lhs.kind, getConstant(lhs)}, {rhs.kind, getConstant(rhs)})
                         : getPlainKind(lhs.kind, rhs.kind);
  if (lanesOf.isScalar()) return {emitBinary(kind, type, type, lhs.value, rhs.value), lanesOf};
  return {emitBinary(kind, type, type, toVector(lhs), toVector(rhs)), lanesOf};
}

Component BodyEmitter::select(const Component &condition, const Component &a, const Component &b) {
  if (condition.kind.isUniform() && a.kind == b.kind) return {builder.CreateSelect(condition.value, a.value, b.value), a.kind};
  llvm::Value *chooser = condition.kind.isUniform() ? condition.value : toVector(condition);
  return makeVarying(builder.CreateSelect(chooser, toVector(a), toVector(b)));
}

/// Applies an elementwise computation; once if the operand is uniform.
Component BodyEmitter::apply(const Component &operand, llvm::function_ref<llvm::Value *(llvm::Value *)> compute) {
  return operand.kind.isUniform() ? Component{compute(operand.value)} : makeVarying(compute(toVector(operand)));
}

Components BodyEmitter::emitElementwise(Operation *op) {
  size_t count = size_t(ir::getComponentCount(op->getResult(0).getType()));
  llvm::SmallVector<Components, 3> operands;
  llvm::SmallVector<Type, 3> types;
  for (Value operand : op->getOperands()) {
    operands.push_back(getValue(operand));
    types.push_back(ir::getScalar(operand.getType()));
  }
  Type resultType = ir::getScalar(op->getResult(0).getType());
  Components result;
  for (size_t i = 0; i < count; ++i) {
    auto at = [&](size_t operand) { return operands[operand][operands[operand].size() == count ? i : 0]; };
    Component first = at(0);
    if (isa<ir::SelectOp>(op)) {
      Type truth = IntegerType::get(op->getContext(), 1);
      if (!types[0].isInteger(1)) first = apply(first, [&](llvm::Value *value) { return emitCast(types[0], truth, value); });
      result.push_back(select(first, at(1), at(2)));
    } else if (auto binary = dyn_cast<ir::BinaryOp>(op)) {
      Component second = at(1);
      if (types[0] == types[1])
        result.push_back(combine(binary.getBinaryKind(), types[0], first, second));
      else if (first.kind.isUniform() && second.kind.isUniform())
        result.push_back({emitBinary(binary.getBinaryKind(), types[0], types[1], first.value, second.value)});
      else
        result.push_back(makeVarying(emitBinary(binary.getBinaryKind(), types[0], types[1], toVector(first), toVector(second))));
    } else if (auto unary = dyn_cast<ir::UnaryOp>(op)) {
      result.push_back(apply(first, [&](llvm::Value *value) { return emitUnary(unary.getUnaryKind(), types[0], value); }));
    } else if (isa<ir::FmaOp>(op)) {
      Component second = at(1), third = at(2);
      bool isUniform = first.kind.isUniform() && second.kind.isUniform() && third.kind.isUniform();
      auto get = [&](const Component &component) { return isUniform ? component.value : toVector(component); };
      llvm::Value *value = emitFma(resultType, get(first), get(second), get(third));
      result.push_back(isUniform ? Component{value} : makeVarying(value));
    } else if (auto overflows = dyn_cast<ir::OverflowsOp>(op)) {
      Component second = at(1);
      bool isUniform = first.kind.isUniform() && second.kind.isUniform();
      llvm::Value *lhs = isUniform ? first.value : toVector(first), *rhs = isUniform ? second.value : toVector(second);
      llvm::Value *value = emitOverflows(overflows.getBinaryKind(), types[0], lhs, rhs);
      result.push_back(isUniform ? Component{value} : makeVarying(value));
    } else if (isa<ir::BitCastOp>(op)) {
      auto reinterpret = [&](llvm::Value *value) {
        return builder.CreateBitCast(value, value->getType()->getWithNewType(module.getType(resultType)));
      };
      result.push_back(apply(first, reinterpret));
    } else {
      LaneKind kind = getCastKind(first.kind, isa<IntegerType>(types[0]) && isa<IntegerType>(resultType), types[0].getIntOrFloatBitWidth(),
                                  resultType.getIntOrFloatBitWidth());
      result.push_back({emitCast(types[0], resultType, kind.isScalar() ? first.value : toVector(first)), kind});
    }
  }
  return result;
}

//--- Operators ---

static llvm::CmpInst::Predicate getPredicate(ir::BinaryKind kind, Type type) {
  using P = llvm::CmpInst;
  // Floats, signed integers, unsigned integers; in the order of builtins.def.
  static constexpr P::Predicate kPredicates[][3] = {{P::FCMP_OLT, P::ICMP_SLT, P::ICMP_ULT}, {P::FCMP_OLE, P::ICMP_SLE, P::ICMP_ULE},
                                                    {P::FCMP_OGT, P::ICMP_SGT, P::ICMP_UGT}, {P::FCMP_OGE, P::ICMP_SGE, P::ICMP_UGE},
                                                    {P::FCMP_OEQ, P::ICMP_EQ, P::ICMP_EQ},   {P::FCMP_UNE, P::ICMP_NE, P::ICMP_NE}};
  return kPredicates[size_t(kind) - size_t(ir::BinaryKind::lt)][isa<FloatType>(type) ? 0 : type.isSignedInteger() ? 1 : 2];
}

/// Integer division. Division by a constant other than 0 and -1, which may trap, is LLVM's own: LLVM turns it into a multiplication.
llvm::Value *BodyEmitter::emitDivision(ir::BinaryKind kind, Type type, llvm::Value *lhs, llvm::Value *rhs) {
  using B = ir::BinaryKind;
  bool isSigned = type.isSignedInteger(), wantsQuotient = kind == B::floor_div || kind == B::raw_div;
  const llvm::APInt *divisor;
  if (!llvm::PatternMatch::match(rhs, llvm::PatternMatch::m_APInt(divisor)) || divisor->isZero() || (isSigned && divisor->isAllOnes()))
    return callDevlib(llvm::StringRef(ir::getOpInfo(kind).name), type, {lhs, rhs});
  if (!isSigned) return wantsQuotient ? builder.CreateUDiv(lhs, rhs) : builder.CreateURem(lhs, rhs);
  if (kind == B::raw_div || kind == B::raw_mod) return wantsQuotient ? builder.CreateSDiv(lhs, rhs) : builder.CreateSRem(lhs, rhs);
  if (divisor->isPowerOf2() && !divisor->isSignMask()) {
    if (wantsQuotient) return builder.CreateAShr(lhs, uint64_t(divisor->exactLogBase2()));
    return builder.CreateAnd(lhs, llvm::ConstantInt::get(lhs->getType(), *divisor - 1));
  }
  // Round down instead of toward zero: correct the quotient if there is a remainder of the other sign.
  llvm::Value *zero = llvm::Constant::getNullValue(lhs->getType());
  llvm::Value *quotient = builder.CreateSDiv(lhs, rhs);
  llvm::Value *remainder = builder.CreateSub(lhs, builder.CreateMul(quotient, rhs));
  llvm::Value *isOff = divisor->isNegative() ? builder.CreateICmpSGT(remainder, zero) : builder.CreateICmpSLT(remainder, zero);
  if (wantsQuotient) return builder.CreateAdd(quotient, builder.CreateSExt(isOff, lhs->getType()));
  return builder.CreateAdd(remainder, builder.CreateSelect(isOff, rhs, zero));
}

llvm::Value *BodyEmitter::emitPower(Type type, Type rhsType, llvm::Value *lhs, llvm::Value *rhs) {
  if (type == rhsType) return callDevlib("pow", type, {lhs, rhs});
  MLIRContext *ctx = type.getContext();
  Type wide = IntegerType::get(ctx, 64, IntegerType::Signed);
  if (isa<FloatType>(type) && isa<IntegerType>(rhsType) && rhsType.getIntOrFloatBitWidth() <= 32)
    return callDevlib("powi", type, {lhs, emitCast(rhsType, IntegerType::get(ctx, 32, IntegerType::Signed), rhs)});
  if (isa<FloatType>(type)) return callDevlib("pow", type, {lhs, emitCast(rhsType, type, rhs)});
  llvm::Value *exponent = emitCast(rhsType, wide, rhs);
  // An exponent of 2^63 or more would count as negative: replace it by another exponent with the same power.
  if (rhsType.isUnsignedInteger(64)) {
    llvm::Value *top = builder.CreateShl(builder.CreateLShr(exponent, 63), 62);
    exponent = builder.CreateOr(builder.CreateAnd(exponent, uint64_t(INT64_MAX)), top);
  }
  llvm::Value *power = callDevlib("pow", wide, {emitCast(type, wide, lhs), exponent});
  // The largest unsigned base would count as -1, whose reciprocal is not 0.
  if (type.isUnsignedInteger(64) && rhsType.isSignedInteger()) {
    llvm::Value *isNegative = builder.CreateICmpSLT(exponent, llvm::Constant::getNullValue(exponent->getType()));
    llvm::Value *isMany = builder.CreateICmpUGT(lhs, llvm::ConstantInt::get(lhs->getType(), 1));
    power = builder.CreateSelect(builder.CreateAnd(isNegative, isMany), llvm::Constant::getNullValue(power->getType()), power);
  }
  return emitCast(wide, type, power);
}

/// -0.0 must order below 0.0, which takes two more instructions; fast_math omits them.
static llvm::Value *emitExtremum(llvm::IRBuilderBase &builder, llvm::Intrinsic::ID intrinsic, llvm::Value *lhs, llvm::Value *rhs,
                                 bool isGrid) {
  // LLVM 22 lowers the scalar form for AVX-512 to a NaN if it knows that one operand is a NaN and the other is not. A fence hides that.
  bool isScalar = lhs->getType()->isFloatingPointTy() && !isGrid && !llvm::isa<llvm::Constant>(lhs) && !llvm::isa<llvm::Constant>(rhs);
  if (isScalar && !builder.getFastMathFlags().approxFunc()) {
    lhs = builder.CreateArithmeticFence(lhs, lhs->getType());
    rhs = builder.CreateArithmeticFence(rhs, rhs->getType());
  }
  llvm::Value *value = builder.CreateBinaryIntrinsic(intrinsic, lhs, rhs);
  auto *call = llvm::dyn_cast<llvm::CallInst>(value);
  if (call && llvm::isa<llvm::FPMathOperator>(call) && call->hasApproxFunc()) call->setHasNoSignedZeros(true);
  return value;
}

llvm::Value *BodyEmitter::emitBinary(ir::BinaryKind kind, Type type, Type rhsType, llvm::Value *lhs, llvm::Value *rhs) {
  bool isFloat = isa<FloatType>(type), isSigned = type.isSignedInteger();
  llvm::Type *llvmType = lhs->getType();
  namespace I = llvm::Intrinsic;
  switch (kind) {
  case ir::BinaryKind::add: return isFloat ? builder.CreateFAdd(lhs, rhs) : builder.CreateAdd(lhs, rhs);
  case ir::BinaryKind::sub: return isFloat ? builder.CreateFSub(lhs, rhs) : builder.CreateSub(lhs, rhs);
  case ir::BinaryKind::mul: return isFloat ? builder.CreateFMul(lhs, rhs) : builder.CreateMul(lhs, rhs);
  case ir::BinaryKind::div:
  case ir::BinaryKind::raw_div: return isFloat ? builder.CreateFDiv(lhs, rhs) : emitDivision(kind, type, lhs, rhs);
  case ir::BinaryKind::floor_div:
  case ir::BinaryKind::mod:
  case ir::BinaryKind::raw_mod:
    return isFloat ? callDevlib(llvm::StringRef(ir::getOpInfo(kind).name), type, {lhs, rhs}) : emitDivision(kind, type, lhs, rhs);
  case ir::BinaryKind::pow: return emitPower(type, rhsType, lhs, rhs);
  case ir::BinaryKind::atan2:
  case ir::BinaryKind::ldexp: return callDevlib(llvm::StringRef(ir::getOpInfo(kind).name), type, {lhs, rhs});
  case ir::BinaryKind::min:
    return emitExtremum(builder, isFloat ? I::minimumnum : isSigned ? I::smin : I::umin, lhs, rhs, module.traits.hasGrids);
  case ir::BinaryKind::max:
    return emitExtremum(builder, isFloat ? I::maximumnum : isSigned ? I::smax : I::umax, lhs, rhs, module.traits.hasGrids);
  case ir::BinaryKind::bit_and: return builder.CreateAnd(lhs, rhs);
  case ir::BinaryKind::bit_or: return builder.CreateOr(lhs, rhs);
  case ir::BinaryKind::bit_xor: return builder.CreateXor(lhs, rhs);
  case ir::BinaryKind::shl:
  case ir::BinaryKind::shr:
  case ir::BinaryKind::bit_shr: {
    llvm::Value *count = builder.CreateIntCast(rhs, llvmType, /*isSigned=*/false);
    count = builder.CreateAnd(count, llvm::ConstantInt::get(llvmType, llvmType->getScalarSizeInBits() - 1));
    if (kind == ir::BinaryKind::shl) return builder.CreateShl(lhs, count);
    return kind == ir::BinaryKind::shr && isSigned ? builder.CreateAShr(lhs, count) : builder.CreateLShr(lhs, count);
  }
  case ir::BinaryKind::lt:
  case ir::BinaryKind::le:
  case ir::BinaryKind::gt:
  case ir::BinaryKind::ge:
  case ir::BinaryKind::eq:
  case ir::BinaryKind::ne: return builder.CreateCmp(getPredicate(kind, type), lhs, rhs);
  }
  llvm_unreachable("all rows of builtins.def are listed");
}

llvm::Value *BodyEmitter::emitOverflows(ir::BinaryKind kind, Type type, llvm::Value *lhs, llvm::Value *rhs) {
  namespace I = llvm::Intrinsic;
  bool isSigned = type.isSignedInteger();
  if (kind == ir::BinaryKind::shl) {
    llvm::Value *shifted = emitBinary(kind, type, type, lhs, rhs);
    return builder.CreateICmpNE(emitBinary(ir::BinaryKind::shr, type, type, shifted, rhs), lhs);
  }
  llvm::Intrinsic::ID check = kind == ir::BinaryKind::add   ? isSigned ? I::sadd_with_overflow : I::uadd_with_overflow
                              : kind == ir::BinaryKind::sub ? isSigned ? I::ssub_with_overflow : I::usub_with_overflow
                              : isSigned                    ? I::smul_with_overflow
                                                            : I::umul_with_overflow;
  return builder.CreateExtractValue(builder.CreateBinaryIntrinsic(check, lhs, rhs), 1);
}

llvm::Value *BodyEmitter::emitUnary(ir::UnaryKind kind, Type type, llvm::Value *value) {
  bool isFloat = isa<FloatType>(type);
  llvm::Type *llvmType = value->getType();
  auto narrow = [&](llvm::Value *count) { return builder.CreateIntCast(count, count->getType()->getWithNewBitWidth(32), false); };
  switch (kind) {
  case ir::UnaryKind::neg: return isFloat ? builder.CreateFNeg(value) : builder.CreateNeg(value);
  case ir::UnaryKind::abs:
    if (isFloat) return builder.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, value);
    return type.isSignedInteger() ? builder.CreateBinaryIntrinsic(llvm::Intrinsic::abs, value, builder.getFalse()) : value;
  case ir::UnaryKind::bit_not: return builder.CreateNot(value);
  case ir::UnaryKind::logical_not:
    return isFloat ? builder.CreateFCmpOEQ(value, llvm::ConstantFP::getZero(llvmType)) : builder.CreateIsNull(value);
  case ir::UnaryKind::popcnt: return narrow(builder.CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, value));
  case ir::UnaryKind::clz: return narrow(builder.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, value, builder.getFalse()));
  case ir::UnaryKind::ffs: {
    llvm::Value *zeros = narrow(builder.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, value, builder.getFalse()));
    llvm::Type *count = zeros->getType();
    return builder.CreateSelect(builder.CreateIsNull(value), llvm::Constant::getNullValue(count),
                                builder.CreateAdd(zeros, llvm::ConstantInt::get(count, 1)));
  }
  default: return emitMath(kind, type, value);
  }
}

/// Converts through a float that is rounded to odd, so that only the last step rounds. The plain instruction would call a library.
llvm::Value *BodyEmitter::emitDoubleToHalf(llvm::Value *value, llvm::Type *target) {
  llvm::Value *single = builder.CreateFPTrunc(value, value->getType()->getWithNewType(builder.getFloatTy()));
  llvm::Value *back = builder.CreateFPExt(single, value->getType());
  llvm::Type *word = single->getType()->getWithNewType(builder.getInt32Ty());
  auto magnitude = [&](llvm::Value *number) { return builder.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, number); };
  llvm::Value *bits = builder.CreateBitCast(single, word);
  bits = builder.CreateSub(bits, builder.CreateZExt(builder.CreateFCmpOGT(magnitude(back), magnitude(value)), word));
  bits = builder.CreateOr(bits, builder.CreateZExt(builder.CreateFCmpONE(back, value), word));
  return builder.CreateFPTrunc(builder.CreateBitCast(bits, single->getType()), target);
}

llvm::Value *BodyEmitter::emitCast(Type from, Type to, llvm::Value *value) {
  if (from == to) return value;
  llvm::Type *target = value->getType()->getWithNewType(module.getType(to));
  if (isa<FloatType>(from)) {
    if (isa<FloatType>(to)) return from.isF64() && to.isF16() ? emitDoubleToHalf(value, target) : builder.CreateFPCast(value, target);
    if (to.isInteger(1)) return builder.CreateFCmpUNE(value, llvm::ConstantFP::getZero(value->getType()));
    unsigned bits = to.getIntOrFloatBitWidth();
    // Out of range: saturates, and gives 0 for a NaN; under fast_math the result is the instruction's.
    auto toInteger = [&](llvm::Value *number, llvm::Type *type) -> llvm::Value * {
      if (module.options.fastMath) return builder.CreateFreeze(builder.CreateFPToSI(number, type));
      return builder.CreateIntrinsic(llvm::Intrinsic::fptosi_sat, {type, number->getType()}, {number});
    };
    if (bits == 64 && to.isUnsignedInteger()) {
      // Above 2^63 the signed conversion gets the value minus 2^63; negative values wrap.
      if (from.isF16()) value = builder.CreateFPExt(value, value->getType()->getWithNewType(builder.getFloatTy()));
      llvm::Value *border = llvm::ConstantFP::get(value->getType(), 9223372036854775808.0);
      llvm::Value *high = toInteger(builder.CreateFSub(value, border), target);
      high = builder.CreateXor(high, llvm::ConstantInt::get(target, uint64_t(1) << 63));
      return builder.CreateSelect(builder.CreateFCmpOGE(value, border), high, toInteger(value, target));
    }
    // Narrow integers wrap, so convert to a wider integer first.
    unsigned wideBits = bits == 32 && to.isUnsignedInteger() ? 64 : std::max(bits, 32u);
    return builder.CreateTrunc(toInteger(value, target->getWithNewBitWidth(wideBits)), target);
  }
  bool isSigned = from.isSignedInteger();
  if (isa<FloatType>(to)) return isSigned ? builder.CreateSIToFP(value, target) : builder.CreateUIToFP(value, target);
  if (to.isInteger(1)) return builder.CreateIsNotNull(value);
  return builder.CreateIntCast(value, target, isSigned);
}

} // namespace qd::codegen
