// operators.cpp: operators and conversions, element by element
//
// Integers wrap; shift counts are taken modulo the width; divisions never trap. A conversion of a float out of range gives an arbitrary
// value, but never poison (freeze), because poison makes all dependent behavior undefined.
#include "codegen/llvm/operators.h"
#include "codegen/llvm/lane_rules.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Analysis/VectorUtils.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/PatternMatch.h"

using namespace mlir;

namespace qd::codegen {

static llvm::Constant *makeFloat(llvm::Type *type, APFloat number) {
  bool isInexact = false;
  number.convert(type->getFltSemantics(), APFloat::rmNearestTiesToEven, &isInexact); // a bf16 is an f32 in registers
  return llvm::ConstantFP::get(type, number);
}

Components Operators::emitConstant(TypedAttr value) {
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

/// Of a linear component, a constant is the value of lane 0 only.
static std::optional<int64_t> getConstant(const Component &component) {
  auto constant = dyn_cast<llvm::ConstantInt>(component.value);
  if (!constant || !component.kind.isUniform() || constant->getBitWidth() > 64) return std::nullopt;
  return constant->getSExtValue();
}

Component Operators::combine(ir::BinaryKind kind, Type type, const Component &lhs, const Component &rhs) {
  LaneKind lanesOf = getBinaryKind(kind, type, {lhs.kind, getConstant(lhs)}, {rhs.kind, getConstant(rhs)});
  if (lanesOf.isScalar()) return {emitBinary(kind, type, type, lhs.value, rhs.value), lanesOf};
  return {emitBinary(kind, type, type, in.toVector(lhs), in.toVector(rhs)), lanesOf};
}

Component Operators::select(const Component &condition, const Component &a, const Component &b) {
  LaneKind kind = getSelectKind(condition.kind, a.kind, b.kind);
  if (kind.isScalar()) return {builder.CreateSelect(condition.value, a.value, b.value), kind};
  llvm::Value *chooser = condition.kind.isUniform() ? condition.value : in.toVector(condition);
  return {builder.CreateSelect(chooser, in.toVector(a), in.toVector(b)), kind};
}

Components Operators::emitElementwise(Operation *op) {
  size_t count = size_t(ir::getComponentCount(op->getResult(0).getType()));
  llvm::SmallVector<Components, 3> operands;
  for (Value operand : op->getOperands()) operands.push_back(values.getValue(operand));
  Components result;
  for (size_t i = 0; i < count; ++i) {
    Components own;
    for (const Components &operand : operands) own.push_back(operand[operand.size() == count ? i : 0]);
    result.push_back(emitElement(op, own));
  }
  return result;
}

/// One component of an elementwise operation: computed once for all lanes if the result is uniform or linear.
Component Operators::emitElement(Operation *op, ArrayRef<Component> operands) {
  Type from = ir::getScalar(op->getOperand(0).getType()), to = ir::getScalar(op->getResult(0).getType());
  llvm::SmallVector<OperandKind, 3> kinds;
  for (const Component &operand : operands) kinds.push_back({operand.kind, getConstant(operand)});
  LaneKind kind = getElementwiseKind(op, kinds);
  auto at = [&](size_t operand) { return kind.isScalar() ? operands[operand].value : in.toVector(operands[operand]); };
  auto give = [&](llvm::Value *value) -> Component { return {value, kind}; };
  return llvm::TypeSwitch<Operation *, Component>(op)
      .Case([&](ir::UnaryOp unary) { return give(emitUnary(unary.getUnaryKind(), from, at(0))); })
      .Case([&](ir::BinaryOp binary) {
        llvm::Value *lhs = at(0), *rhs = at(1);
        return give(emitBinary(binary.getBinaryKind(), from, ir::getScalar(binary.getRhs().getType()), lhs, rhs));
      })
      .Case([&](ir::FmaOp) {
        llvm::Value *x = at(0), *y = at(1), *z = at(2);
        return give(emitFma(to, x, y, z));
      })
      .Case([&](ir::CastOp) { return give(emitCast(from, to, at(0))); })
      .Case([&](ir::BitCastOp) {
        llvm::Value *value = at(0);
        return give(builder.CreateBitCast(value, value->getType()->getWithNewType(module.getType(to))));
      })
      .Case([&](ir::OverflowsOp overflows) {
        llvm::Value *lhs = at(0), *rhs = at(1);
        return give(emitOverflows(overflows.getBinaryKind(), from, lhs, rhs));
      })
      .Case([&](ir::SelectOp) {
        Component condition = operands[0];
        if (!from.isInteger(1)) {
          bool isUniform = condition.kind.isUniform();
          llvm::Value *value = emitCast(from, IntegerType::get(op->getContext(), 1), isUniform ? condition.value : in.toVector(condition));
          condition = isUniform ? Component{value} : in.makeVarying(value);
        }
        return select(condition, operands[1], operands[2]);
      });
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
llvm::Value *Operators::emitDivision(ir::BinaryKind kind, Type type, llvm::Value *lhs, llvm::Value *rhs) {
  using B = ir::BinaryKind;
  bool isSigned = type.isSignedInteger(), wantsQuotient = kind == B::floor_div || kind == B::raw_div;
  const llvm::APInt *divisor;
  if (!llvm::PatternMatch::match(rhs, llvm::PatternMatch::m_APInt(divisor)) || divisor->isZero() || (isSigned && divisor->isAllOnes())) {
    llvm::StringRef name = ir::getOpInfo(kind).name;
    auto vector = dyn_cast<llvm::FixedVectorType>(lhs->getType());
    llvm::Value *shared = vector && !module.traits.hasGrids ? llvm::getSplatValue(rhs) : nullptr;
    if (unsigned bits = type.getIntOrFloatBitWidth(); shared && bits < 64) {
      llvm::Type *wider = bits == 32 ? builder.getDoubleTy() : builder.getFloatTy();
      llvm::Value *divided = isSigned ? builder.CreateSIToFP(shared, wider) : builder.CreateUIToFP(shared, wider);
      llvm::IRBuilderBase::FastMathFlagGuard exact(builder);
      builder.clearFastMathFlags();
      llvm::Value *reciprocal = builder.CreateFDiv(llvm::ConstantFP::get(wider, 1), divided);
      return callDevlib((name + "_by").str(), type, {lhs, shared, reciprocal});
    }
    if (!vector || !module.traits.hasGrids) return callDevlib(name, type, {lhs, rhs});
    // Vector units divide integers as floats; GPUs have short sequences for integers, and not all of them divide floats exactly.
    llvm::Value *quotients = llvm::PoisonValue::get(vector);
    for (unsigned lane = 0; lane < vector->getNumElements(); ++lane) {
      llvm::Value *quotient = callDevlib(name, type, {builder.CreateExtractElement(lhs, lane), builder.CreateExtractElement(rhs, lane)});
      quotients = builder.CreateInsertElement(quotients, quotient, lane);
    }
    return quotients;
  }
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

llvm::Value *Operators::emitPower(Type type, Type rhsType, llvm::Value *lhs, llvm::Value *rhs) {
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
  // The builder folds no intrinsics; constant indices are reached by wide accesses.
  if (lhs->getType()->isIntOrIntVectorTy() && llvm::isa<llvm::Constant>(lhs) && llvm::isa<llvm::Constant>(rhs))
    return builder.CreateSelect(builder.CreateICmp(llvm::MinMaxIntrinsic::getPredicate(intrinsic), lhs, rhs), lhs, rhs);
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

llvm::Value *Operators::emitBinary(ir::BinaryKind kind, Type type, Type rhsType, llvm::Value *lhs, llvm::Value *rhs) {
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
  case ir::BinaryKind::hypot:
  case ir::BinaryKind::copysign:
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

llvm::Value *Operators::emitOverflows(ir::BinaryKind kind, Type type, llvm::Value *lhs, llvm::Value *rhs) {
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

llvm::Value *Operators::emitUnary(ir::UnaryKind kind, Type type, llvm::Value *value) {
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
llvm::Value *Operators::emitDoubleToHalf(llvm::Value *value, llvm::Type *target) {
  llvm::Value *single = builder.CreateFPTrunc(value, value->getType()->getWithNewType(builder.getFloatTy()));
  llvm::Value *back = builder.CreateFPExt(single, value->getType());
  llvm::Type *word = single->getType()->getWithNewType(builder.getInt32Ty());
  auto magnitude = [&](llvm::Value *number) { return builder.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, number); };
  llvm::Value *bits = builder.CreateBitCast(single, word);
  bits = builder.CreateSub(bits, builder.CreateZExt(builder.CreateFCmpOGT(magnitude(back), magnitude(value)), word));
  bits = builder.CreateOr(bits, builder.CreateZExt(builder.CreateFCmpONE(back, value), word));
  return builder.CreateFPTrunc(builder.CreateBitCast(bits, single->getType()), target);
}

Components Operators::castAll(Type from, Type to, Components values) {
  for (Component &component : values) component.value = emitCast(from, to, component.value);
  return values;
}

llvm::Value *Operators::emitCast(Type from, Type to, llvm::Value *value) {
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
  if (to.isF16() && from.getIntOrFloatBitWidth() > 16) {
    // LLVM takes integers with few bits between their first and last 1 for exact, also those beyond the range. 65535 becomes infinity, too.
    llvm::Value *most = llvm::ConstantInt::get(value->getType(), 65535);
    value = builder.CreateBinaryIntrinsic(isSigned ? llvm::Intrinsic::smin : llvm::Intrinsic::umin, value, most);
    if (isSigned) value = builder.CreateBinaryIntrinsic(llvm::Intrinsic::smax, value, builder.CreateNeg(most));
  }
  if (isa<FloatType>(to)) return isSigned ? builder.CreateSIToFP(value, target) : builder.CreateUIToFP(value, target);
  if (to.isInteger(1)) return builder.CreateIsNotNull(value);
  return builder.CreateIntCast(value, target, isSigned);
}

} // namespace qd::codegen
