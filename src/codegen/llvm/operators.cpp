// operators.cpp: operators and conversions, element by element
//
// Integers wrap; shift counts are taken modulo the width; divisions never trap; conversions of floats out of range give some value, never
// poison (freeze), because what follows from poison is anything at all.
#include "codegen/llvm/body.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/Intrinsics.h"

using namespace mlir;

namespace qd::codegen {

static bool isSignedType(Type type) { return type.isSignedInteger(); }

static Component makeConstant(llvm::Type *type, Attribute value) {
  if (auto number = dyn_cast<FloatAttr>(value)) return {llvm::ConstantFP::get(type, number.getValue())};
  return {llvm::ConstantInt::get(type, cast<IntegerAttr>(value).getValue())};
}

Components BodyEmitter::emitConstant(TypedAttr value) {
  llvm::Type *type = module.getType(ir::getScalar(value.getType()));
  auto dense = dyn_cast<DenseElementsAttr>(value);
  if (!dense) return {makeConstant(type, value)};
  Components components;
  if (isa<FloatType>(dense.getElementType()))
    for (const APFloat &number : dense.getValues<APFloat>()) components.push_back({llvm::ConstantFP::get(type, number)});
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

Components BodyEmitter::emitElementwise(Operation *op) {
  size_t count = size_t(ir::getComponentCount(op->getResult(0).getType()));
  auto at = [count](const Components &components, size_t i) -> const Component & { return components[components.size() == count ? i : 0]; };
  Components result;
  if (auto choice = dyn_cast<ir::SelectOp>(op)) {
    const Components condition = getValue(choice.getCondition()), a = getValue(choice.getTrueValue()), b = getValue(choice.getFalseValue());
    Type type = ir::getScalar(choice.getCondition().getType());
    Type truth = IntegerType::get(op->getContext(), 1);
    for (size_t i = 0; i < count; ++i) {
      Component chooser = at(condition, i);
      if (!type.isInteger(1))
        chooser = chooser.kind.isUniform() ? Component{emitCast(type, truth, chooser.value)}
                                           : makeVarying(emitCast(type, truth, toVector(chooser)));
      result.push_back(select(chooser, a[i], b[i]));
    }
    return result;
  }
  Type scalar = ir::getScalar(op->getOperand(0).getType()), resultScalar = ir::getScalar(op->getResult(0).getType());
  if (auto binary = dyn_cast<ir::BinaryOp>(op)) {
    const Components lhs = getValue(binary.getLhs()), rhs = getValue(binary.getRhs());
    Type rhsScalar = ir::getScalar(binary.getRhs().getType());
    for (size_t i = 0; i < count; ++i) {
      const Component &a = at(lhs, i), &b = at(rhs, i);
      if (scalar == rhsScalar)
        result.push_back(combine(binary.getBinaryKind(), scalar, a, b));
      else if (a.kind.isUniform() && b.kind.isUniform())
        result.push_back({emitBinary(binary.getBinaryKind(), scalar, rhsScalar, a.value, b.value)});
      else
        result.push_back(makeVarying(emitBinary(binary.getBinaryKind(), scalar, rhsScalar, toVector(a), toVector(b))));
    }
    return result;
  }
  const Components operand = getValue(op->getOperand(0));
  for (const Component &component : operand) {
    LaneKind kind = component.kind.isUniform() ? LaneKind::uniform() : LaneKind::varying();
    if (isa<ir::CastOp>(op))
      kind = getCastKind(component.kind, isa<IntegerType>(scalar) && isa<IntegerType>(resultScalar), scalar.getIntOrFloatBitWidth(),
                         resultScalar.getIntOrFloatBitWidth());
    llvm::Value *value = kind.isScalar() ? component.value : toVector(component);
    if (auto unary = dyn_cast<ir::UnaryOp>(op))
      value = emitUnary(unary.getUnaryKind(), scalar, value);
    else if (isa<ir::CastOp>(op))
      value = emitCast(scalar, resultScalar, value);
    else
      value = builder.CreateBitCast(value, value->getType()->getWithNewType(module.getType(resultScalar)));
    result.push_back({value, kind});
  }
  return result;
}

//--- Operators ---

static llvm::CmpInst::Predicate getPredicate(ir::BinaryKind kind, Type type) {
  using P = llvm::CmpInst;
  bool isFloat = isa<FloatType>(type), isSigned = isSignedType(type);
  auto pick = [&](P::Predicate onFloat, P::Predicate onSigned, P::Predicate onUnsigned) {
    return isFloat ? onFloat : isSigned ? onSigned : onUnsigned;
  };
  switch (kind) {
  case ir::BinaryKind::lt: return pick(P::FCMP_OLT, P::ICMP_SLT, P::ICMP_ULT);
  case ir::BinaryKind::le: return pick(P::FCMP_OLE, P::ICMP_SLE, P::ICMP_ULE);
  case ir::BinaryKind::gt: return pick(P::FCMP_OGT, P::ICMP_SGT, P::ICMP_UGT);
  case ir::BinaryKind::ge: return pick(P::FCMP_OGE, P::ICMP_SGE, P::ICMP_UGE);
  case ir::BinaryKind::eq: return pick(P::FCMP_OEQ, P::ICMP_EQ, P::ICMP_EQ);
  default: return pick(P::FCMP_UNE, P::ICMP_NE, P::ICMP_NE);
  }
}

/// The constant that an operand is in all lanes, or null.
static const llvm::APInt *getIntegerConstant(llvm::Value *value) {
  auto constant = dyn_cast<llvm::Constant>(value);
  if (constant && constant->getType()->isVectorTy()) constant = constant->getSplatValue();
  auto integer = dyn_cast_or_null<llvm::ConstantInt>(constant);
  return integer ? &integer->getValue() : nullptr;
}

/// Integer division. By a constant (but 0 and -1, which may trap) it is LLVM's own, which makes a product of it.
llvm::Value *BodyEmitter::emitDivision(ir::BinaryKind kind, Type type, llvm::Value *lhs, llvm::Value *rhs) {
  using B = ir::BinaryKind;
  bool isSigned = isSignedType(type), wantsQuotient = kind == B::floor_div || kind == B::raw_div;
  const llvm::APInt *divisor = getIntegerConstant(rhs);
  if (!divisor || divisor->isZero() || (isSigned && divisor->isAllOnes()))
    return callDevlib(llvm::StringRef(ir::getRow(kind).name), type, {lhs, rhs});
  if (!isSigned) return wantsQuotient ? builder.CreateUDiv(lhs, rhs) : builder.CreateURem(lhs, rhs);
  if (kind == B::raw_div || kind == B::raw_mod) return wantsQuotient ? builder.CreateSDiv(lhs, rhs) : builder.CreateSRem(lhs, rhs);
  if (divisor->isPowerOf2() && !divisor->isSignMask()) {
    if (wantsQuotient) return builder.CreateAShr(lhs, uint64_t(divisor->exactLogBase2()));
    return builder.CreateAnd(lhs, llvm::ConstantInt::get(lhs->getType(), *divisor - 1));
  }
  // Down instead of toward zero, where there is a remainder of the other sign.
  llvm::Value *zero = llvm::Constant::getNullValue(lhs->getType());
  llvm::Value *quotient = builder.CreateSDiv(lhs, rhs);
  llvm::Value *remainder = builder.CreateSub(lhs, builder.CreateMul(quotient, rhs));
  llvm::Value *isOff = divisor->isNegative() ? builder.CreateICmpSGT(remainder, zero) : builder.CreateICmpSLT(remainder, zero);
  if (wantsQuotient) return builder.CreateAdd(quotient, builder.CreateSExt(isOff, lhs->getType()));
  return builder.CreateAdd(remainder, builder.CreateSelect(isOff, rhs, zero));
}

llvm::Value *BodyEmitter::emitBinary(ir::BinaryKind kind, Type type, Type rhsType, llvm::Value *lhs, llvm::Value *rhs) {
  bool isFloat = isa<FloatType>(type), isSigned = isSignedType(type);
  llvm::Type *llvmType = lhs->getType();
  switch (kind) {
  case ir::BinaryKind::add: return isFloat ? builder.CreateFAdd(lhs, rhs) : builder.CreateAdd(lhs, rhs);
  case ir::BinaryKind::sub: return isFloat ? builder.CreateFSub(lhs, rhs) : builder.CreateSub(lhs, rhs);
  case ir::BinaryKind::mul: return isFloat ? builder.CreateFMul(lhs, rhs) : builder.CreateMul(lhs, rhs);
  case ir::BinaryKind::div: return builder.CreateFDiv(lhs, rhs);
  case ir::BinaryKind::raw_div: return isFloat ? builder.CreateFDiv(lhs, rhs) : emitDivision(kind, type, lhs, rhs);
  case ir::BinaryKind::floor_div:
  case ir::BinaryKind::mod:
  case ir::BinaryKind::raw_mod:
    return isFloat ? callDevlib(llvm::StringRef(ir::getRow(kind).name), type, {lhs, rhs}) : emitDivision(kind, type, lhs, rhs);
  case ir::BinaryKind::pow: {
    if (type == rhsType) return callDevlib("pow", type, {lhs, rhs});
    MLIRContext *ctx = type.getContext();
    Type wide = IntegerType::get(ctx, 64, IntegerType::Signed);
    if (isFloat && isa<IntegerType>(rhsType) && rhsType.getIntOrFloatBitWidth() <= 32)
      return callDevlib("powi", type, {lhs, emitCast(rhsType, IntegerType::get(ctx, 32, IntegerType::Signed), rhs)});
    if (isFloat) return callDevlib("pow", type, {lhs, emitCast(rhsType, type, rhs)});
    llvm::Value *exponent = emitCast(rhsType, wide, rhs);
    // From 2^63 on an exponent would pass for a negative one: another one that gives the same power stands in for it.
    if (rhsType.isUnsignedInteger(64)) {
      llvm::Value *top = builder.CreateShl(builder.CreateLShr(exponent, 63), 62);
      exponent = builder.CreateOr(builder.CreateAnd(exponent, uint64_t(INT64_MAX)), top);
    }
    llvm::Value *power = callDevlib("pow", wide, {emitCast(type, wide, lhs), exponent});
    // The largest unsigned base would pass for -1, whose reciprocal is not 0.
    if (type.isUnsignedInteger(64) && rhsType.isSignedInteger()) {
      llvm::Value *isNegative = builder.CreateICmpSLT(exponent, llvm::Constant::getNullValue(exponent->getType()));
      llvm::Value *isMany = builder.CreateICmpUGT(lhs, llvm::ConstantInt::get(lhs->getType(), 1));
      power = builder.CreateSelect(builder.CreateAnd(isNegative, isMany), llvm::Constant::getNullValue(power->getType()), power);
    }
    return emitCast(wide, type, power);
  }
  case ir::BinaryKind::atan2: return callDevlib("atan2", type, {lhs, rhs});
  case ir::BinaryKind::min:
    if (isFloat) return builder.CreateBinaryIntrinsic(llvm::Intrinsic::minnum, lhs, rhs);
    return builder.CreateBinaryIntrinsic(isSigned ? llvm::Intrinsic::smin : llvm::Intrinsic::umin, lhs, rhs);
  case ir::BinaryKind::max:
    if (isFloat) return builder.CreateBinaryIntrinsic(llvm::Intrinsic::maxnum, lhs, rhs);
    return builder.CreateBinaryIntrinsic(isSigned ? llvm::Intrinsic::smax : llvm::Intrinsic::umax, lhs, rhs);
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

llvm::Value *BodyEmitter::emitUnary(ir::UnaryKind kind, Type type, llvm::Value *value) {
  bool isFloat = isa<FloatType>(type);
  llvm::Type *llvmType = value->getType();
  switch (kind) {
  case ir::UnaryKind::neg: return isFloat ? builder.CreateFNeg(value) : builder.CreateNeg(value);
  case ir::UnaryKind::abs:
    if (isFloat) return builder.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, value);
    return isSignedType(type) ? builder.CreateBinaryIntrinsic(llvm::Intrinsic::abs, value, builder.getFalse()) : value;
  case ir::UnaryKind::bit_not: return builder.CreateNot(value);
  case ir::UnaryKind::logical_not:
    return isFloat ? builder.CreateFCmpOEQ(value, llvm::ConstantFP::getZero(llvmType))
                   : builder.CreateICmpEQ(value, llvm::ConstantInt::get(llvmType, 0));
  case ir::UnaryKind::popcnt:
    return builder.CreateIntCast(builder.CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, value), llvmType->getWithNewBitWidth(32), false);
  case ir::UnaryKind::clz:
    return builder.CreateIntCast(builder.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, value, builder.getFalse()),
                                 llvmType->getWithNewBitWidth(32), false);
  case ir::UnaryKind::ffs: {
    llvm::Type *result = llvmType->getWithNewBitWidth(32);
    llvm::Value *zeros =
        builder.CreateIntCast(builder.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, value, builder.getFalse()), result, false);
    return builder.CreateSelect(builder.CreateIsNull(value), llvm::ConstantInt::get(result, 0),
                                builder.CreateAdd(zeros, llvm::ConstantInt::get(result, 1)));
  }
  default: return emitMath(kind, type, value);
  }
}

/// Through a single that is rounded to odd, so that only the last step rounds. The plain instruction would call a library.
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
    if (bits == 64 && to.isUnsignedInteger()) {
      // Above 2^63 the signed conversion sees the value less 2^63; below zero it wraps.
      llvm::Value *border = llvm::ConstantFP::get(value->getType(), from.isF16() ? 65504.0 : 9223372036854775808.0);
      llvm::Value *low = builder.CreateFreeze(builder.CreateFPToSI(value, target));
      if (from.isF16()) return low;
      llvm::Value *high = builder.CreateFreeze(builder.CreateFPToSI(builder.CreateFSub(value, border), target));
      high = builder.CreateXor(high, llvm::ConstantInt::get(target, uint64_t(1) << 63));
      return builder.CreateSelect(builder.CreateFCmpOGE(value, border), high, low);
    }
    // Narrow integers wrap, so the conversion goes through a wider one.
    unsigned wideBits = bits == 32 && to.isUnsignedInteger() ? 64 : std::max(bits, 32u);
    llvm::Value *wide = builder.CreateFreeze(builder.CreateFPToSI(value, target->getWithNewBitWidth(wideBits)));
    return builder.CreateTrunc(wide, target);
  }
  bool isSigned = isSignedType(from);
  if (isa<FloatType>(to)) return isSigned ? builder.CreateSIToFP(value, target) : builder.CreateUIToFP(value, target);
  if (to.isInteger(1)) return builder.CreateIsNotNull(value);
  return builder.CreateIntCast(value, target, isSigned);
}

} // namespace qd::codegen
