// features.cpp: refuses what the device lacks, at the user's line
//
// In:   lowered IR, and the traits of the target.
// Out:  an error for each operation on f64, or atomic operation on 8 bytes, that the device cannot do. Most devices can do everything.
#include "codegen/llvm/module_emitter.h"
#include "ir/memory.h"
#include "passes/accesses.h"

using namespace mlir;

namespace qd::codegen {

static bool isDouble(Type type) {
  if (auto ref = dyn_cast<ir::RefType>(type)) type = ref.getPointee();
  if (auto tensor = dyn_cast<ir::TensorType>(type)) type = tensor.getElement();
  return ir::isValue(type) && ir::getScalar(type).isF64();
}

/// Whether the host reads floats of this operation, as f64.
static bool reportsFloats(Operation *op) {
  auto isFloat = [](Type type) { return isa<FloatType>(ir::getScalar(type)); };
  return isa<ir::PrintOp, ir::AssertOp>(op) && llvm::any_of(op->getOperandTypes(), isFloat);
}

void refuseMissingFeatures(ModuleEmitter &module) {
  const passes::TargetTraits &traits = module.traits;
  if (traits.hasF64 && traits.has64BitAtomics && traits.hasRecursion && traits.hasGridBarriers) return;
  module.source->walk([&](Operation *op) {
    auto call = dyn_cast<ir::CallOp>(op);
    if (call && !traits.hasRecursion && module.functions.isRecursive(module.calls.lookup(op)))
      module.reportError(op->getLoc()) << "on this device functions cannot call themselves: write a loop with a stack of its own";
    if (!traits.hasGridBarriers && ir::isGridBarrier(op))
      module.reportError(op->getLoc()) << "this device has no barriers of the whole grid: its blocks need not run at the same time";
    bool usesDoubles = llvm::any_of(op->getOperandTypes(), isDouble) || llvm::any_of(op->getResultTypes(), isDouble) ||
                       (!(module.grid && module.grid->widensReports()) && reportsFloats(op));
    if (!module.traits.hasF64 && usesDoubles) module.reportError(op->getLoc()) << "this device has no f64";
    auto access = dyn_cast<ir::MemoryAccessOpInterface>(op);
    if (module.traits.has64BitAtomics || !access || !access.isAtomic()) return;
    Value place = ir::findWhole(access.getRef());
    Type scalar = ir::getScalar(cast<ir::RefType>(place.getType()).getPointee());
    bool isInRegisters = place.getDefiningOp<ir::AccumulatorOp>() || passes::findRoot(place).kind != passes::Root::Kind::Tensor;
    if (module.getByteSize(scalar) == 8 && !isInRegisters)
      module.reportError(op->getLoc()) << "this device has no atomic operations on 64 bits";
  });
}

} // namespace qd::codegen
