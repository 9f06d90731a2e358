// random_numbers.cpp: draws random numbers by the device library
//
// A counter on the stack numbers the calls of an iteration, so that each draws another number.
#include "codegen/llvm/random_numbers.h"

using namespace mlir;

namespace qd::codegen {

void RandomNumbers::makeCounter() { calls = in.makeSlot(in.widen(in.builder.getInt32Ty()), "random.calls"); }

void RandomNumbers::reset() { in.builder.CreateStore(llvm::Constant::getNullValue(calls->getAllocatedType()), calls); }

Component RandomNumbers::draw(Type type) {
  llvm::IRBuilder<> &builder = in.builder;
  ModuleEmitter &module = in.module;
  Type drawn = type;
  MLIRContext *ctx = type.getContext();
  support::ScalarType scalar = ir::getScalarType(type);
  if (scalar == support::ScalarType::F16)
    drawn = Float32Type::get(ctx);
  else if (support::isInteger(scalar))
    drawn = IntegerType::get(ctx, support::getByteSize(scalar) == 8 ? 64 : 32, IntegerType::Unsigned);
  if (!calls) {
    module.reportError(UnknownLoc::get(ctx)) << "recursive functions cannot draw random numbers";
    return in.makeVarying(llvm::PoisonValue::get(in.widen(module.getType(type))));
  }
  llvm::Value *call = builder.CreateLoad(in.widen(builder.getInt32Ty()), calls);
  llvm::Value *step = in.splat(builder.getInt32(1));
  if (in.mask) step = builder.CreateZExt(in.mask, step->getType());
  builder.CreateStore(builder.CreateAdd(call, step), calls);

  llvm::Value *index = iteration.value ? in.toVector(iteration) : in.splat(builder.getInt64(0));
  llvm::SmallVector<llvm::Value *, 5> operands = {index, call, launch.getField(kRandomSeed), launch.getField(kLaunchIndex),
                                                  builder.getInt32(uint32_t(task))};
  llvm::SmallVector<llvm::Type *, 5> types;
  for (llvm::Value *operand : operands) types.push_back(operand->getType());
  llvm::Function *routine = module.getDevlib("random", drawn, in.lanes, in.widen(module.getType(drawn)), types);
  llvm::Value *number = builder.CreateCall(routine, operands);
  if (type.isInteger(1))
    number = builder.CreateTrunc(number, in.widen(builder.getInt1Ty()));
  else
    number = operators.emitCast(drawn, type, number);
  // Rounding to half precision may give 1.
  if (type.isF16())
    number = builder.CreateBinaryIntrinsic(llvm::Intrinsic::minnum, number, llvm::ConstantFP::get(number->getType(), 0x1.ffcp-1));
  return in.makeVarying(number);
}

} // namespace qd::codegen
