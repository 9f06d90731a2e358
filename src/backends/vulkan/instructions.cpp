// instructions.cpp: operations on values, calls, branches
//
// In:   an instruction of legalized LLVM IR, whose operands have been written.
// Out:  instructions of SPIR-V. Operations that read a sign get operands whose sign is extended; results keep zeros above their own bits.
#include "backends/structured/grid_target.h"
#include "backends/vulkan/function_writer.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/PatternMatch.h"

namespace qd::backends::vulkan {

void FunctionWriter::writeInstruction(const llvm::Instruction &instruction) {
  auto get = [&](unsigned i) { return getOperand(instruction.getOperand(i)); };
  if (auto *phi = llvm::dyn_cast<llvm::PHINode>(&instruction)) {
    std::vector<uint32_t> operands;
    for (unsigned i = 0; i < phi->getNumIncomingValues(); ++i) {
      operands.push_back(getOperand(phi->getIncomingValue(i)));
      operands.push_back(getOperand(phi->getIncomingBlock(i)));
    }
    return define(*phi, Opcode::OpPhi, operands);
  }
  if (auto *binary = llvm::dyn_cast<llvm::BinaryOperator>(&instruction)) return writeBinary(*binary);
  if (auto *comparison = llvm::dyn_cast<llvm::CmpInst>(&instruction)) return writeComparison(*comparison);
  if (auto *cast = llvm::dyn_cast<llvm::CastInst>(&instruction)) return writeCast(*cast);
  if (auto *gep = llvm::dyn_cast<llvm::GetElementPtrInst>(&instruction)) return writeOffset(*gep);
  if (auto *load = llvm::dyn_cast<llvm::LoadInst>(&instruction)) return writeLoad(*load);
  if (auto *store = llvm::dyn_cast<llvm::StoreInst>(&instruction)) return writeStore(*store);
  if (auto *update = llvm::dyn_cast<llvm::AtomicRMWInst>(&instruction)) return writeUpdate(*update);
  if (auto *exchange = llvm::dyn_cast<llvm::AtomicCmpXchgInst>(&instruction)) return writeExchange(*exchange);
  if (auto *call = llvm::dyn_cast<llvm::CallInst>(&instruction)) return writeCall(*call);
  if (auto *branch = llvm::dyn_cast<llvm::BranchInst>(&instruction)) return writeBranch(*branch);
  if (auto *part = llvm::dyn_cast<llvm::ExtractValueInst>(&instruction)) {
    if (llvm::isa<llvm::AtomicCmpXchgInst>(part->getAggregateOperand()))
      return define(*part, part->getIndices()[0] ? successes.at(part->getAggregateOperand()) : ids.at(part->getAggregateOperand()));
    std::vector<uint32_t> operands{get(0)};
    operands.insert(operands.end(), part->idx_begin(), part->idx_end());
    return define(*part, Opcode::OpCompositeExtract, operands);
  }
  if (auto *whole = llvm::dyn_cast<llvm::InsertValueInst>(&instruction)) {
    std::vector<uint32_t> operands{get(1), get(0)};
    operands.insert(operands.end(), whole->idx_begin(), whole->idx_end());
    return define(*whole, Opcode::OpCompositeInsert, operands);
  }
  if (llvm::isa<llvm::FenceInst>(instruction)) return writeFence();
  switch (instruction.getOpcode()) {
  case llvm::Instruction::Select: return writeSelect(llvm::cast<llvm::SelectInst>(instruction));
  case llvm::Instruction::Freeze: return define(instruction, get(0));
  case llvm::Instruction::FNeg: return define(instruction, Opcode::OpFNegate, {get(0)});
  case llvm::Instruction::Ret:
    return instruction.getNumOperands() ? module.write(Opcode::OpReturnValue, {get(0)}) : module.write(Opcode::OpReturn, {});
  case llvm::Instruction::Alloca: return;
  default: refuse(llvm::Twine("no instructions exist for LLVM's ") + instruction.getOpcodeName());
  }
}

//--- Arithmetic ---

void FunctionWriter::writeFloatBinary(const llvm::BinaryOperator &binary) {
  Opcode op;
  switch (binary.getOpcode()) {
  case llvm::Instruction::FAdd: op = Opcode::OpFAdd; break;
  case llvm::Instruction::FSub: op = Opcode::OpFSub; break;
  case llvm::Instruction::FMul: op = Opcode::OpFMul; break;
  case llvm::Instruction::FDiv: op = Opcode::OpFDiv; break;
  default: op = Opcode::OpFRem; break;
  }
  define(binary, op, {getOperand(binary.getOperand(0)), getOperand(binary.getOperand(1))});
  if (!binary.hasAllowContract()) module.decorate(getOperand(&binary), spirv::Decoration::NoContraction);
}

static bool isSigned(const llvm::BinaryOperator &quotient) {
  return quotient.getOpcode() == llvm::Instruction::SDiv || quotient.getOpcode() == llvm::Instruction::SRem;
}

/// Whether the operands of a quotient have at most 16 bits and a sign, as far as LLVM knows.
bool FunctionWriter::isShortQuotient(const llvm::BinaryOperator &quotient) const {
  return llvm::all_of(quotient.operands(), [&](const llvm::Value *operand) {
    return isSigned(quotient) ? llvm::ComputeMaxSignificantBits(operand, layout) <= 17
                              : llvm::computeKnownBits(operand, layout).countMaxActiveBits() <= 16;
  });
}

/// Quotients and remainders of numbers that are known to be short: NVIDIA's driver computes 255 / 255 as 0 and 65535 / 255 as 256 where it
/// knows the ranges. The quotient of f32 may be off by 2.5 units, so that its whole part is at most one off. The remainder tells.
void FunctionWriter::writeShortQuotient(const llvm::BinaryOperator &binary) {
  llvm::Type *type = binary.getType();
  unsigned bits = getWordBits(type->getIntegerBitWidth());
  auto kind = binary.getOpcode();
  bool isSigned = vulkan::isSigned(binary);
  bool isQuotient = kind == llvm::Instruction::SDiv || kind == llvm::Instruction::UDiv;
  Id i32 = module.getInt(32), f32 = module.getFloat(32), boolean = module.getBool(), zero = module.getNumber(0);
  auto get = [&](const llvm::Value *operand) {
    return convertInteger(isSigned ? getSigned(operand) : getOperand(operand), bits, 32, isSigned);
  };
  auto negate = [&](Id isNegative, Id value) {
    return emit(Opcode::OpSelect, i32, {isNegative, emit(Opcode::OpISub, i32, {zero, value}), value});
  };
  auto getMagnitude = [&](Id value) { return isSigned ? negate(emit(Opcode::OpSLessThan, boolean, {value, zero}), value) : value; };
  auto toFloat = [&](Id value) { return emit(Opcode::OpConvertUToF, f32, {value}); };
  Id a = get(binary.getOperand(0)), b = get(binary.getOperand(1)), dividend = getMagnitude(a), divisor = getMagnitude(b);
  auto add = [&](Id condition, uint32_t number, Id value) {
    return emit(Opcode::OpSelect, i32, {condition, emit(Opcode::OpIAdd, i32, {value, module.getNumber(number)}), value});
  };
  Id guess = emit(Opcode::OpConvertFToU, i32, {emit(Opcode::OpFDiv, f32, {toFloat(dividend), toFloat(divisor)})});
  Id rest = emit(Opcode::OpISub, i32, {dividend, emit(Opcode::OpIMul, i32, {guess, divisor})});
  Id result = add(emit(Opcode::OpSLessThan, boolean, {rest, zero}), -1u, guess);
  result = add(emit(Opcode::OpSGreaterThanEqual, boolean, {rest, divisor}), 1, result);
  if (isSigned) result = negate(emit(Opcode::OpSLessThan, boolean, {emit(Opcode::OpBitwiseXor, i32, {a, b}), zero}), result);
  if (!isQuotient && bits <= 32) result = emit(Opcode::OpISub, i32, {a, emit(Opcode::OpIMul, i32, {result, b})});
  Id whole = convertInteger(result, 32, bits, isSigned && bits > 32);
  if (isQuotient || bits <= 32) return define(binary, mask(type, whole));
  // Not widened again: lavapipe takes the widened remainder of a negative number for a positive one.
  writeRemainder(binary, whole);
}

/// The dividend less the quotient times the divisor.
void FunctionWriter::writeRemainder(const llvm::BinaryOperator &binary, Id quotient) {
  llvm::Type *type = binary.getType();
  auto get = [&](unsigned i) { return isSigned(binary) ? getSigned(binary.getOperand(i)) : getOperand(binary.getOperand(i)); };
  Id product = emit(Opcode::OpIMul, getType(type), {quotient, get(1)});
  define(binary, mask(type, emit(Opcode::OpISub, getType(type), {get(0), product})));
}

/// Whether NVIDIA's driver uses the result of this operator as if no bit had been lost: a widened `-x` of the least i8 is 128; of 64-bit
/// integers it takes `x << 1 <= -8` for `x <= -4`, and adds a remainder to an address with wrong upper bits.
static bool needsHiding(const llvm::BinaryOperator &binary) {
  using I = llvm::Instruction;
  if (binary.getOpcode() == I::Sub && !binary.getType()->isIntegerTy(1) &&
      llvm::PatternMatch::match(binary.getOperand(0), llvm::PatternMatch::m_Zero()))
    return llvm::any_of(binary.users(), llvm::IsaPred<llvm::SExtInst>);
  auto *right = llvm::dyn_cast<llvm::ConstantInt>(binary.getOperand(1));
  if (!binary.getType()->isIntegerTy(64)) return false;
  if (binary.getOpcode() == I::URem) return right;
  if (binary.getOpcode() != I::Shl) return false;
  return !binary.hasNoSignedWrap() && llvm::any_of(binary.users(), [](const llvm::User *user) {
    if (llvm::isa<llvm::StoreInst, llvm::GetElementPtrInst, llvm::TruncInst, llvm::IntToPtrInst>(user)) return false;
    static constexpr unsigned kWrapping[] = {I::Add, I::Mul, I::Shl, I::LShr, I::And, I::Or, I::Xor};
    return !llvm::isa<I>(user) || !llvm::is_contained(kWrapping, llvm::cast<I>(user)->getOpcode());
  });
}

/// The integer in a form that the driver cannot analyze: it does not know that grids have one block in y.
Id FunctionWriter::hide(Id value, llvm::Type *type) {
  Id zero = emit(Opcode::OpISub, module.getInt(32), {readNumber(spirv::BuiltIn::NumWorkgroups, 1), module.getNumber(1)});
  if (getWordBits(type->getIntegerBitWidth()) == 64) zero = emit(Opcode::OpUConvert, getType(type), {zero});
  return emit(Opcode::OpBitwiseXor, getType(type), {value, zero});
}

void FunctionWriter::writeBinary(const llvm::BinaryOperator &binary) {
  llvm::Type *type = binary.getType();
  if (type->isFloatingPointTy()) return writeFloatBinary(binary);
  const llvm::Value *left = binary.getOperand(0), *right = binary.getOperand(1);
  auto give = [&](Id result) { define(binary, needsHiding(binary) ? hide(result, type) : result); };
  auto write = [&](Opcode op) { give(emit(op, getType(type), {getOperand(left), getOperand(right)})); };
  using B = llvm::Instruction;
  if (type->isIntegerTy(1)) {
    switch (binary.getOpcode()) {
    case B::And:
    case B::Mul: return write(Opcode::OpLogicalAnd);
    case B::Or: return write(Opcode::OpLogicalOr);
    case B::Xor:
    case B::Add:
    case B::Sub: return write(Opcode::OpLogicalNotEqual);
    default: return define(binary, getOperand(left)); // shifts by 0, quotients by 1: all else is undefined
    }
  }
  if (binary.isIntDivRem() && isShortQuotient(binary)) return writeShortQuotient(binary);
  // Results that may have bits above their width.
  auto writeMasked = [&](Opcode op, Id a, Id b) { give(mask(type, emit(op, getType(type), {a, b}))); };
  switch (binary.getOpcode()) {
  case B::Add: return writeMasked(Opcode::OpIAdd, getOperand(left), getOperand(right));
  case B::Sub: return writeMasked(Opcode::OpISub, getOperand(left), getOperand(right));
  case B::Mul: return writeMasked(Opcode::OpIMul, getOperand(left), getOperand(right));
  case B::Shl: {
    // NVIDIA's driver multiplies a widened integer by -2^31 instead of shifting it by 31.
    auto *count = llvm::dyn_cast<llvm::ConstantInt>(right);
    bool isNegated = type->isIntegerTy(64) && count && count->equalsInt(31);
    return writeMasked(Opcode::OpShiftLeftLogical, isNegated ? hide(getOperand(left), type) : getOperand(left), getOperand(right));
  }
  case B::AShr: return writeMasked(Opcode::OpShiftRightArithmetic, getSigned(left), getOperand(right));
  case B::SDiv: return writeMasked(Opcode::OpSDiv, getSigned(left), getSigned(right));
  case B::SRem: // Vulkan leaves OpSRem of negative numbers undefined
    return writeRemainder(binary, emit(Opcode::OpSDiv, getType(type), {getSigned(left), getSigned(right)}));
  case B::LShr: return write(Opcode::OpShiftRightLogical);
  case B::UDiv: return write(Opcode::OpUDiv);
  case B::URem: return write(Opcode::OpUMod);
  case B::And: return write(Opcode::OpBitwiseAnd);
  case B::Or: return write(Opcode::OpBitwiseOr);
  case B::Xor: return write(Opcode::OpBitwiseXor);
  default: llvm_unreachable("an operator of floats");
  }
}

void FunctionWriter::writeComparison(const llvm::CmpInst &comparison) {
  using P = llvm::CmpInst;
  static const std::map<P::Predicate, Opcode> kOpcodes = {
      {P::ICMP_EQ, Opcode::OpIEqual},
      {P::ICMP_NE, Opcode::OpINotEqual},
      {P::ICMP_ULT, Opcode::OpULessThan},
      {P::ICMP_UGT, Opcode::OpUGreaterThan},
      {P::ICMP_ULE, Opcode::OpULessThanEqual},
      {P::ICMP_UGE, Opcode::OpUGreaterThanEqual},
      {P::ICMP_SLT, Opcode::OpSLessThan},
      {P::ICMP_SGT, Opcode::OpSGreaterThan},
      {P::ICMP_SLE, Opcode::OpSLessThanEqual},
      {P::ICMP_SGE, Opcode::OpSGreaterThanEqual},
      {P::FCMP_OEQ, Opcode::OpFOrdEqual},
      {P::FCMP_ONE, Opcode::OpFOrdNotEqual},
      {P::FCMP_OLT, Opcode::OpFOrdLessThan},
      {P::FCMP_OGT, Opcode::OpFOrdGreaterThan},
      {P::FCMP_OLE, Opcode::OpFOrdLessThanEqual},
      {P::FCMP_OGE, Opcode::OpFOrdGreaterThanEqual},
      {P::FCMP_UEQ, Opcode::OpFUnordEqual},
      {P::FCMP_UNE, Opcode::OpFUnordNotEqual},
      {P::FCMP_ULT, Opcode::OpFUnordLessThan},
      {P::FCMP_UGT, Opcode::OpFUnordGreaterThan},
      {P::FCMP_ULE, Opcode::OpFUnordLessThanEqual},
      {P::FCMP_UGE, Opcode::OpFUnordGreaterThanEqual},
  };
  const llvm::Value *left = comparison.getOperand(0), *right = comparison.getOperand(1);
  P::Predicate predicate = comparison.getPredicate();
  Id boolean = module.getBool();
  if (predicate == P::FCMP_UNO || predicate == P::FCMP_ORD) {
    Id either = emit(Opcode::OpIsNan, boolean, {getOperand(left)});
    if (left != right) either = emit(Opcode::OpLogicalOr, boolean, {either, emit(Opcode::OpIsNan, boolean, {getOperand(right)})});
    return predicate == P::FCMP_UNO ? define(comparison, either) : define(comparison, Opcode::OpLogicalNot, {either});
  }
  if (predicate == P::FCMP_TRUE || predicate == P::FCMP_FALSE) return define(comparison, module.getTruth(predicate == P::FCMP_TRUE));
  Id a = comparison.isSigned() ? getSigned(left) : getOperand(left), b = comparison.isSigned() ? getSigned(right) : getOperand(right);
  if (!left->getType()->isIntegerTy(1)) return define(comparison, kOpcodes.at(predicate), {a, b});
  // Truth values: as signed numbers, true is -1.
  auto negate = [&](Id value) { return emit(Opcode::OpLogicalNot, boolean, {value}); };
  switch (predicate) {
  case P::ICMP_EQ: return define(comparison, Opcode::OpLogicalEqual, {a, b});
  case P::ICMP_NE: return define(comparison, Opcode::OpLogicalNotEqual, {a, b});
  case P::ICMP_ULT:
  case P::ICMP_SGT: return define(comparison, Opcode::OpLogicalAnd, {negate(a), b});
  case P::ICMP_UGT:
  case P::ICMP_SLT: return define(comparison, Opcode::OpLogicalAnd, {a, negate(b)});
  case P::ICMP_ULE:
  case P::ICMP_SGE: return define(comparison, Opcode::OpLogicalOr, {negate(a), b});
  default: return define(comparison, Opcode::OpLogicalOr, {a, negate(b)});
  }
}

//--- Choices and conversions ---

/// -1 where the condition is `isMinusOne`, and 0 elsewhere. Mesa's drivers take a choice of these floats for the negative of 1 or 0, which
/// is -0 there.
Id FunctionWriter::chooseMinusOne(llvm::Type *type, Id condition, bool isMinusOne) {
  Id minusOne = module.getNumber(~0u), zero = module.getNumber(0);
  Id number = emit(Opcode::OpSelect, module.getInt(32), {condition, isMinusOne ? minusOne : zero, isMinusOne ? zero : minusOne});
  return emit(Opcode::OpConvertSToF, getType(type), {number});
}

void FunctionWriter::writeSelect(const llvm::SelectInst &select) {
  auto *first = llvm::dyn_cast<llvm::ConstantFP>(select.getTrueValue()), *second = llvm::dyn_cast<llvm::ConstantFP>(select.getFalseValue());
  Id condition = getOperand(select.getCondition());
  if (first && second && first->isZero() != second->isZero() && first->isNegative() != second->isNegative()) {
    const llvm::ConstantFP &other = first->isZero() ? *second : *first;
    if (other.isExactlyValue(other.isNegative() ? -1 : 1)) {
      Id number = chooseMinusOne(select.getType(), condition, !first->isZero());
      return other.isNegative() ? define(select, number) : define(select, Opcode::OpFNegate, {number});
    }
  }
  define(select, Opcode::OpSelect, {condition, getOperand(select.getTrueValue()), getOperand(select.getFalseValue())});
}

void FunctionWriter::writeCast(const llvm::CastInst &cast) {
  using C = llvm::Instruction;
  const llvm::Value *source = cast.getOperand(0);
  llvm::Type *from = source->getType(), *to = cast.getType();
  auto getBits = [](llvm::Type *type) {
    return type->isPointerTy() ? (type->getPointerAddressSpace() ? 32u : 64u) : getWordBits(type->getScalarSizeInBits());
  };
  bool fromTruth = from->isIntegerTy(1), toTruth = to->isIntegerTy(1);
  switch (cast.getOpcode()) {
  case C::Trunc:
    if (toTruth) {
      Id low = emit(Opcode::OpBitwiseAnd, getType(from), {getOperand(source), getNumber(from, 1)});
      return define(cast, Opcode::OpINotEqual, {low, getNumber(from, 0)});
    }
    return define(cast, mask(to, convertInteger(getOperand(source), getBits(from), getBits(to))));
  case C::ZExt:
    if (fromTruth) return define(cast, Opcode::OpSelect, {getOperand(source), getNumber(to, 1), getNumber(to, 0)});
    return define(cast, convertInteger(getOperand(source), getBits(from), getBits(to)));
  case C::SExt:
    if (fromTruth)
      return define(cast, Opcode::OpSelect,
                    {getOperand(source), getNumber(to, llvm::maskTrailingOnes<uint64_t>(to->getIntegerBitWidth())), getNumber(to, 0)});
    return define(cast, mask(to, convertInteger(getSigned(source), getBits(from), getBits(to), true)));
  case C::FPExt:
  case C::FPTrunc: return define(cast, Opcode::OpFConvert, {getOperand(source)});
  case C::SIToFP:
  case C::UIToFP:
    if (fromTruth && cast.getOpcode() == C::SIToFP) return define(cast, chooseMinusOne(to, getOperand(source), true));
    if (fromTruth)
      return define(cast, Opcode::OpSelect,
                    {getOperand(source), getConstant(*llvm::ConstantFP::get(to, 1)), getConstant(*llvm::ConstantFP::getZero(to))});
    if (cast.getOpcode() == C::SIToFP) return define(cast, Opcode::OpConvertSToF, {getSigned(source)});
    return define(cast, Opcode::OpConvertUToF, {getOperand(source)});
  case C::FPToSI:
  case C::FPToUI: {
    Opcode op = cast.getOpcode() == C::FPToSI ? Opcode::OpConvertFToS : Opcode::OpConvertFToU;
    if (!toTruth) return define(cast, mask(to, emit(op, getType(to), {getOperand(source)})));
    Id number = emit(op, module.getInt(32), {getOperand(source)});
    return define(cast, Opcode::OpINotEqual, {number, module.getNumber(0)});
  }
  case C::PtrToInt:
  case C::PtrToAddr:
  case C::IntToPtr: return define(cast, convertInteger(getOperand(source), getBits(from), getBits(to)));
  case C::BitCast: return define(cast, bitcast(getOperand(source), from, to));
  default: refuse(llvm::Twine("no instructions exist for LLVM's ") + cast.getOpcodeName());
  }
}

//--- Calls ---

Id FunctionWriter::readNumber(spirv::BuiltIn builtin, std::optional<unsigned> axis) {
  Id u32 = module.getInt(32), type = axis ? module.getVector(u32, 3) : u32;
  Id value = emit(Opcode::OpLoad, type, {module.getBuiltin(builtin, type)});
  return axis ? emit(Opcode::OpCompositeExtract, u32, {value, *axis}) : value;
}

void FunctionWriter::writeClock(const llvm::CallInst &call) {
  if (!features.hasDeviceClock && !features.hasSubgroupClock) return define(call, module.getNull(getType(call.getType())));
  module.require(Capability(5055), "SPV_KHR_shader_clock");
  spirv::Scope scope = features.hasDeviceClock ? spirv::Scope::Device : spirv::Scope::Subgroup;
  define(call, more::ReadClock, {module.getNumber(uint32_t(scope))});
}

void FunctionWriter::writeIntrinsic(const llvm::IntrinsicInst &call) {
  namespace I = llvm::Intrinsic;
  auto get = [&](unsigned i) { return getOperand(call.getArgOperand(i)); };
  Id type = getType(call.getType());
  auto write = [&](Glsl number, llvm::ArrayRef<uint32_t> operands) { define(call, emitGlsl(number, type, operands)); };
  switch (call.getIntrinsicID()) {
  case I::ctpop: return define(call, Opcode::OpBitCount, {get(0)});
  // Both give -1 for 0.
  case I::ctlz: return define(call, Opcode::OpISub, {module.getNumber(31), emitGlsl(Glsl::FindUMsb, type, {get(0)})});
  case I::cttz: {
    Id isZero = emit(Opcode::OpIEqual, module.getBool(), {get(0), module.getNumber(0)});
    return define(call, Opcode::OpSelect, {isZero, module.getNumber(32), emitGlsl(Glsl::FindILsb, type, {get(0)})});
  }
  case I::fabs: return write(Glsl::FAbs, {get(0)});
  case I::sqrt: return write(Glsl::Sqrt, {get(0)});
  case I::floor: return write(Glsl::Floor, {get(0)});
  case I::ceil: return write(Glsl::Ceil, {get(0)});
  case I::trunc: return write(Glsl::Trunc, {get(0)});
  case I::rint:
  case I::nearbyint:
  case I::roundeven: return write(Glsl::RoundEven, {get(0)});
  case I::fma: write(Glsl::Fma, {get(0), get(1), get(2)}); return;
  case I::readcyclecounter:
  case I::readsteadycounter: return writeClock(call);
  default: refuse("no instructions exist for " + call.getCalledFunction()->getName());
  }
}

void FunctionWriter::writeCall(const llvm::CallInst &call) {
  if (auto *intrinsic = llvm::dyn_cast<llvm::IntrinsicInst>(&call)) return writeIntrinsic(*intrinsic);
  const llvm::Function *callee = call.getCalledFunction();
  if (!callee) refuse("a call through a pointer");
  llvm::StringRef name = callee->getName();
  auto get = [&](unsigned i) { return getOperand(call.getArgOperand(i)); };
  Id subgroup = module.getNumber(uint32_t(spirv::Scope::Subgroup)), u32 = module.getInt(32);
  if (!callee->isDeclaration()) {
    llvm::SmallVector<uint32_t, 4> operands{routines.at(callee)};
    for (const llvm::Use &argument : call.args()) operands.push_back(getOperand(argument));
    return define(call, Opcode::OpFunctionCall, operands);
  }
  if (name == kThreadCall) return define(call, readNumber(spirv::BuiltIn::LocalInvocationId, 0));
  if (name == kBlockCall) return define(call, readNumber(spirv::BuiltIn::WorkgroupId, 0));
  if (name == kBlockCountCall) return define(call, readNumber(spirv::BuiltIn::NumWorkgroups, 0));
  if (name == kBlockSizeCall) return define(call, module.getNumber(describeEntry(function).blockSize));
  if (name == kBarrierCall) return writeBarrier(spirv::Scope::Workgroup);
  if (name == kSubgroupBarrierCall) return writeBarrier(spirv::Scope::Subgroup);
  module.require(Capability::GroupNonUniform);
  if (name == kLaneCall) return define(call, readNumber(spirv::BuiltIn::SubgroupLocalInvocationId));
  if (name == kShuffleCall) {
    module.require(Capability::GroupNonUniformShuffle);
    return define(call, Opcode::OpGroupNonUniformShuffle, {subgroup, get(0), get(1)});
  }
  if (name.consume_front(kCombineCall)) {
    module.require(Capability::GroupNonUniformArithmetic);
    Opcode opcode = llvm::StringSwitch<Opcode>(name)
                        .Case("add", Opcode::OpGroupNonUniformIAdd)
                        .Case("min", Opcode::OpGroupNonUniformSMin)
                        .Case("umin", Opcode::OpGroupNonUniformUMin)
                        .Case("max", Opcode::OpGroupNonUniformSMax)
                        .Case("umax", Opcode::OpGroupNonUniformUMax)
                        .Case("and", Opcode::OpGroupNonUniformBitwiseAnd)
                        .Case("or", Opcode::OpGroupNonUniformBitwiseOr)
                        .Case("xor", Opcode::OpGroupNonUniformBitwiseXor);
    return define(call, opcode, {subgroup, uint32_t(spirv::GroupOperation::Reduce), get(0)});
  }
  if (name == kBallotCall) {
    module.require(Capability::GroupNonUniformBallot);
    Id votes = emit(Opcode::OpGroupNonUniformBallot, module.getVector(u32, 4), {subgroup, get(0)}), u64 = module.getInt(64);
    auto getWord = [&](unsigned i) { return emit(Opcode::OpUConvert, u64, {emit(Opcode::OpCompositeExtract, u32, {votes, i})}); };
    Id low = getWord(0), high = emit(Opcode::OpShiftLeftLogical, u64, {getWord(1), module.getNumber(32)});
    return define(call, Opcode::OpBitwiseOr, {low, high});
  }
  refuse("a call of " + name);
}

//--- Control flow ---

void FunctionWriter::writeBranch(const llvm::BranchInst &branch) {
  const llvm::BasicBlock *block = branch.getParent();
  auto get = [&](llvm::BasicBlock *target) { return getOperand(target); };
  auto merge = constructs.merges.find(block);
  if (auto next = constructs.continues.find(block); next != constructs.continues.end())
    module.write(Opcode::OpLoopMerge, {get(merge->second), get(next->second), 0});
  else if (branch.isConditional() && merge != constructs.merges.end())
    module.write(Opcode::OpSelectionMerge, {get(merge->second), 0});
  if (!branch.isConditional()) return module.write(Opcode::OpBranch, {get(branch.getSuccessor(0))});
  module.write(Opcode::OpBranchConditional, {getOperand(branch.getCondition()), get(branch.getSuccessor(0)), get(branch.getSuccessor(1))});
}

} // namespace qd::backends::vulkan
