// random_numbers.cpp: draws random numbers by the device library
//
// A counter on the stack numbers the calls of an iteration, so that each draws another number.
#include "codegen/llvm/random_numbers.h"

#include "ir/attributes.h"
#include "ir/gates.h"

using namespace mlir;

namespace qd::codegen {

/// Counts the parallel tasks and the ends of repeats before a task. Serial tasks do not count: which of them exist depends on options.
static bool countBefore(Block &block, Operation *task, uint32_t &count) {
  for (Operation &op : block) {
    if (&op == task) return true;
    if (auto other = dyn_cast<ir::TaskOp>(op)) count += other.getParallel();
    if (auto repeat = dyn_cast<ir::RepeatOp>(op)) {
      ++count;
      if (countBefore(repeat.getBody().front(), task, count)) return true;
      ++count;
    }
  }
  return false;
}

/// The number of a task for its random numbers: even for serial tasks, odd for parallel ones. Tasks of gates and stream blocks follow each
/// other without parallel tasks between them.
static uint32_t findNumber(Operation *task) {
  uint32_t count = 0;
  countBefore(task->getParentOfType<ir::KernelOp>().getBody().front(), task, count);
  auto read = [&](llvm::StringRef name) { return task->hasAttr(name) ? uint32_t(task->getAttrOfType<IntegerAttr>(name).getInt()) : 0; };
  return (2 * count + cast<ir::TaskOp>(task).getParallel()) ^ read(ir::kGate) << 20 ^ read(ir::kStreamBlock) << 12;
}

void RandomNumbers::makeCounter() { calls = in.makeSlot(in.widen(builder.getInt32Ty()), "random.calls"); }

void RandomNumbers::reset() { builder.CreateStore(llvm::Constant::getNullValue(calls->getAllocatedType()), calls); }

Component RandomNumbers::draw(Type type) {
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
                                                  builder.getInt32(findNumber(task))};
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
