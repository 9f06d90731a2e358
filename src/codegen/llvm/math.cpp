// math.cpp: mathematical functions: LLVM intrinsics where a target has instructions, the device library for the rest
#include "codegen/llvm/body.h"

#include "llvm/IR/Intrinsics.h"

using namespace mlir;

namespace qd::codegen {

llvm::Value *BodyEmitter::callDevlib(llvm::StringRef name, Type type, ArrayRef<llvm::Value *> operands) {
  // The library computes in f32 and f64; f16 is converted to f32.
  if (type.isF16()) {
    Type single = Float32Type::get(type.getContext());
    llvm::SmallVector<llvm::Value *, 2> widened;
    for (llvm::Value *operand : operands)
      widened.push_back(operand->getType()->isFPOrFPVectorTy() ? emitCast(type, single, operand) : operand);
    return emitCast(single, type, callDevlib(name, single, widened));
  }
  llvm::Type *result = operands[0]->getType();
  auto vector = dyn_cast<llvm::FixedVectorType>(result);
  llvm::SmallVector<llvm::Type *, 2> types;
  for (llvm::Value *operand : operands) types.push_back(operand->getType());
  return builder.CreateCall(module.getDevlib(name, type, vector ? vector->getNumElements() : 1, result, types), operands);
}

llvm::Value *BodyEmitter::emitFma(Type type, llvm::Value *x, llvm::Value *y, llvm::Value *z) {
  if (type.isF16()) {
    // The product of two halves is exact in f64, and no supported processor has the instruction for halves.
    Type wide = Float64Type::get(type.getContext());
    llvm::Value *product = builder.CreateFMul(emitCast(type, wide, x), emitCast(type, wide, y));
    return emitCast(wide, type, builder.CreateFAdd(product, emitCast(type, wide, z)));
  }
  return builder.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, y, z});
}

llvm::Value *BodyEmitter::emitMath(ir::UnaryKind kind, Type type, llvm::Value *value) {
  auto intrinsic = [&](llvm::Intrinsic::ID id) { return builder.CreateUnaryIntrinsic(id, value); };
  bool fast = module.options.fastMath;
  switch (kind) {
  case ir::UnaryKind::sqrt: return intrinsic(llvm::Intrinsic::sqrt);
  case ir::UnaryKind::rsqrt:
    // Under fast_math LLVM computes this from an estimate and a Newton step. For a scalar the estimate is too coarse on x64 (3.6 ulp).
    if (fast && (value->getType()->isVectorTy() || module.traits.hasGrids))
      return builder.CreateFDiv(llvm::ConstantFP::get(value->getType(), 1.0), intrinsic(llvm::Intrinsic::sqrt));
    return callDevlib("rsqrt", type, value);
  case ir::UnaryKind::floor: return intrinsic(llvm::Intrinsic::floor);
  case ir::UnaryKind::ceil: return intrinsic(llvm::Intrinsic::ceil);
  case ir::UnaryKind::trunc: return intrinsic(llvm::Intrinsic::trunc);
  case ir::UnaryKind::isnan: return builder.createIsFPClass(value, llvm::fcNan);
  case ir::UnaryKind::isinf: return builder.createIsFPClass(value, llvm::fcInf);
  case ir::UnaryKind::sin: return callDevlib(fast ? "fast_sin" : "sin", type, value);
  case ir::UnaryKind::cos: return callDevlib(fast ? "fast_cos" : "cos", type, value);
  case ir::UnaryKind::exponent: {
    Type result = IntegerType::get(type.getContext(), 32, IntegerType::Signed);
    return emitCast(type, result, callDevlib("exponent", type, value));
  }
  default:
    // All other kinds are routines of the device library with the same names.
    return callDevlib(llvm::StringRef(ir::getOpInfo(kind).name), type, value);
  }
}

/// Philox numbers: the key is seed and launch, the counter is iteration, call and task. They do not depend on lanes or threads.
Component BodyEmitter::emitRandom(Type type) {
  Type drawn = type;
  MLIRContext *ctx = type.getContext();
  support::ScalarType scalar = ir::getScalarType(type);
  if (scalar == support::ScalarType::F16)
    drawn = Float32Type::get(ctx);
  else if (support::isInteger(scalar))
    drawn = IntegerType::get(ctx, support::getByteSize(scalar) == 8 ? 64 : 32, IntegerType::Unsigned);
  if (!randomCalls) {
    module.reportError(UnknownLoc::get(ctx)) << "recursive functions cannot draw random numbers";
    return makeVarying(llvm::PoisonValue::get(widen(module.getType(type))));
  }
  llvm::Value *calls = builder.CreateLoad(widen(builder.getInt32Ty()), randomCalls);
  llvm::Value *step = splat(builder.getInt32(1));
  if (mask) step = builder.CreateZExt(mask, step->getType());
  builder.CreateStore(builder.CreateAdd(calls, step), randomCalls);

  llvm::Value *index = iteration.value ? toVector(iteration) : splat(builder.getInt64(0));
  llvm::SmallVector<llvm::Value *, 5> operands = {index, calls, getContextField(kRandomSeed), getContextField(kLaunchIndex),
                                                  builder.getInt32(uint32_t(task))};
  llvm::SmallVector<llvm::Type *, 5> types;
  for (llvm::Value *operand : operands) types.push_back(operand->getType());
  llvm::Function *routine = module.getDevlib("random", drawn, lanes, widen(module.getType(drawn)), types);
  llvm::Value *number = builder.CreateCall(routine, operands);
  if (type.isInteger(1))
    number = builder.CreateTrunc(number, widen(builder.getInt1Ty()));
  else
    number = emitCast(drawn, type, number);
  // Rounding to half precision may give 1.
  if (type.isF16())
    number = builder.CreateBinaryIntrinsic(llvm::Intrinsic::minnum, number, llvm::ConstantFP::get(number->getType(), 0x1.ffcp-1));
  return makeVarying(number);
}

} // namespace qd::codegen
