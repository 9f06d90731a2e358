// assume_unaliased.cpp: arrays that a kernel writes share no memory with others
//
// In:   a kernel; array arguments that share memory at the launch that it is compiled for have the attribute kShares.
// Out:  the kernel lists the written arrays that it assumes to be unaliased (kUnaliased). Launches check that; a launch whose arrays share
//       memory gets another version.
// Here: code generation gives these arrays alias scopes of their own. Loads of other arrays then need not be repeated after each store, and
//       those of arrays that no task writes use the read-only cache.
#include "ir/attributes.h"
#include "ir/memory.h"

#include "mlir/IR/Builders.h"
#include "mlir/Pass/Pass.h"

#include <set>

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

#define GEN_PASS_DEF_ASSUMEUNALIASED
#include "passes/passes.h.inc"

namespace {

/// Whether a launch can check by the bounds of its memory that the array is unaliased: an array with strides may have holes.
bool isCheckable(TensorArgumentOp argument) {
  auto type = cast<ir::TensorType>(argument.getType());
  return !argument.getField() && type.isPacked() && !argument->hasAttr(kShares) && !argument->hasAttr(kOverlaps);
}

struct AssumeUnaliasedPass : impl::AssumeUnaliasedBase<AssumeUnaliasedPass> {
  void runOnOperation() override {
    std::set<uint32_t> arrays;
    std::set<int32_t> unaliased;
    getOperation().walk([&](Operation *op) {
      if (auto argument = dyn_cast<TensorArgumentOp>(op); argument && !argument.getField()) arrays.insert(argument.getOffset());
      for (TensorArgumentOp argument : listWrittenContainers(op))
        if (isCheckable(argument)) unaliased.insert(int32_t(argument.getOffset()));
    });
    if (arrays.size() < 2) return;
    Builder builder(&getContext());
    for (KernelOp kernel : getOperation().getOps<KernelOp>()) {
      if (auto known = kernel->getAttrOfType<DenseI32ArrayAttr>(kUnaliased))
        unaliased.insert(known.asArrayRef().begin(), known.asArrayRef().end());
      if (!unaliased.empty() && !kernel->hasAttr(kDerivative))
        kernel->setAttr(kUnaliased, builder.getDenseI32ArrayAttr(llvm::to_vector(unaliased)));
    }
  }
};

} // namespace

} // namespace qd::passes
