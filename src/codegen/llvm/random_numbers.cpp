// random_numbers.cpp: draws random numbers by the device library
//
// A counter on the stack numbers the calls of an iteration, so that each draws another number.
#include "codegen/llvm/random_numbers.h"

#include "ir/attributes.h"
#include "ir/gates.h"

using namespace mlir;

namespace qd::codegen {

namespace {
/// Numbers the tasks of a kernel as the interpreter does: it counts the parallel loops that have ended, and the beginnings and ends of
/// repeats and of blocks that run concurrently. Serial tasks do not count: which of them exist depends on options.
struct TaskCounter {
  Operation *task;
  uint32_t count = 0, block = 0; ///< block: number of the last one that began

  static uint32_t readBlock(Operation &op) {
    auto number = op.getAttrOfType<IntegerAttr>(ir::kStreamBlock);
    return number ? uint32_t(number.getInt()) : 0;
  }

  /// Whether the task was found.
  bool visit(Block &body) {
    for (Operation &op : body) {
      block = std::max(block, readBlock(op));
      if (&op == task) return true;
      if (auto other = dyn_cast<ir::TaskOp>(op)) count += other.getParallel();
      if (auto repeat = dyn_cast<ir::RepeatOp>(op)) {
        ++count;
        if (visit(repeat.getBody().front())) return true;
        ++count;
      }
    }
    return false;
  }
};
} // namespace

/// The number of a task for its random numbers: even for serial tasks, odd for parallel ones. A gate with a parallel loop has tasks for the
/// statements around it, which follow other serial tasks.
static uint32_t findNumber(Operation *task) {
  TaskCounter counter{task};
  counter.visit(task->getParentOfType<ir::KernelOp>().getBody().front());
  bool isInBlock = TaskCounter::readBlock(*task) != 0, isParallel = cast<ir::TaskOp>(task).getParallel();
  uint32_t number = 2 * (counter.count + 2 * counter.block - isInBlock) + isParallel;
  auto gate = task->getAttrOfType<IntegerAttr>(ir::kGate);
  return gate && !isParallel ? number ^ (uint32_t(gate.getInt()) + 1) << 20 : number;
}

void RandomNumbers::makeCounter() { calls = in.makeSlot(in.widen(builder.getInt32Ty()), "random.calls"); }

void RandomNumbers::reset() { builder.CreateStore(llvm::Constant::getNullValue(calls->getAllocatedType()), calls); }

/// The number of the launch; its upper half has the rounds of the innermost do_while before this one.
llvm::Value *RandomNumbers::getLaunchNumber() {
  llvm::Value *number = launch.getField(kLaunchIndex);
  auto repeat = dyn_cast<ir::RepeatOp>(task->getParentOp());
  if (!repeat || !repeat.getRounds()) return number;
  auto slot = repeat.getRounds().getDefiningOp<ir::ScratchOp>();
  llvm::Value *pointer = in.offsetBy(launch.getField(kScratch), slot.getOffset());
  llvm::LoadInst *rounds = builder.CreateAlignedLoad(builder.getInt32Ty(), pointer, llvm::Align(4));
  module.aliases.mark(rounds, module.aliases.getScratchScope());
  return builder.CreateAdd(number, builder.CreateShl(builder.CreateZExt(rounds, builder.getInt64Ty()), 32));
}

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
  llvm::SmallVector<llvm::Value *, 5> operands = {index, call, launch.getField(kRandomSeed), getLaunchNumber(),
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
