// assume_unaliased.cpp: arrays that a kernel writes share no memory with others
//
// In:   a kernel; array arguments that share memory at the launch that it is compiled for have the attribute kShares.
// Out:  the kernel lists the written arrays that it assumes to be unaliased (kUnaliased). Launches check that; a launch whose arrays share
//       memory gets another version.
// Here: code generation gives these arrays alias scopes of their own. Loads of other arrays then need not be repeated after each store, and
//       those of arrays that no task writes use the read-only cache.
#include "ir/attributes.h"
#include "ir/memory.h"
#include "passes/unaliased_arrays.h"

#include "mlir/Pass/Pass.h"

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
    llvm::DenseSet<uint64_t> written;
    getOperation().walk([&](Operation *op) {
      for (TensorArgumentOp argument : listWrittenContainers(op))
        if (isCheckable(argument)) written.insert(argument.getOffset());
    });
    UnaliasedArrays unaliased(getOperation());
    unaliased.require(written);
    for (KernelOp kernel : getOperation().getOps<KernelOp>())
      if (!kernel->hasAttr(kDerivative)) unaliased.addTo(kernel);
  }
};

} // namespace

} // namespace qd::passes
