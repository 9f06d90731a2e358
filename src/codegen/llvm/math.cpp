// math.cpp: mathematical functions: LLVM intrinsics where a target has instructions, the device library for the rest
//
// In:   the kind of a function, and one component of its operands.
// Out:  one component of the result, a scalar or a vector of lanes.
#include "codegen/llvm/operators.h"

#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/Analysis/VectorUtils.h"
#include "llvm/IR/Intrinsics.h"

using namespace mlir;

namespace qd::codegen {

/// Maximum number of lanes of the routines in the device library.
constexpr unsigned kLibraryLanes = 16;

llvm::Value *Operators::callDevlib(llvm::StringRef name, Type type, ArrayRef<llvm::Value *> operands) {
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
  if (vector && vector->getNumElements() > kLibraryLanes) {
    // Two vectors hide each other's latency (loop_schedule.cpp); the library has routines for one.
    llvm::SmallVector<llvm::Value *, 2> halves;
    for (unsigned begin : {0u, vector->getNumElements() / 2}) {
      auto pattern = llvm::createSequentialMask(begin, vector->getNumElements() / 2, 0);
      auto own = llvm::map_to_vector<2>(operands, [&](llvm::Value *operand) {
        return operand->getType()->isVectorTy() ? builder.CreateShuffleVector(operand, pattern) : operand;
      });
      halves.push_back(callDevlib(name, type, own));
    }
    return llvm::concatenateVectors(builder, halves);
  }
  llvm::SmallVector<llvm::Type *, 2> types;
  for (llvm::Value *operand : operands) types.push_back(operand->getType());
  return builder.CreateCall(module.getDevlib(name, type, vector ? vector->getNumElements() : 1, result, types), operands);
}

llvm::Value *Operators::emitFma(Type type, llvm::Value *x, llvm::Value *y, llvm::Value *z) {
  if (type.isF16()) {
    // The product of two halves is exact in f64, and no supported processor has the instruction for halves.
    Type wide = Float64Type::get(type.getContext());
    llvm::Value *product = builder.CreateFMul(emitCast(type, wide, x), emitCast(type, wide, y));
    return emitCast(wide, type, builder.CreateFAdd(product, emitCast(type, wide, z)));
  }
  return builder.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, y, z});
}

llvm::Value *Operators::emitMath(ir::UnaryKind kind, Type type, llvm::Value *value) {
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

} // namespace qd::codegen
