// ascending_loops.cpp: loops of derived kernels count up again where that shows nowhere
//
// In:   derived kernels, whose serial loops run from the last iteration to the first: their bodies use `last - index`.
// Out:  `index` instead, in loops whose iterations are independent.
// Here: the passes on loops and lanes know elements by the loop's index, and lanes load rows in the order of memory.
#include "passes/autodiff/ascending_loops.h"

#include "passes/independent_iterations.h"
#include "passes/row_loops.h"
#include "passes/unaliased_arrays.h"

#include "llvm/ADT/SetOperations.h"

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

/// Whether a value is the last index of a loop that ends at `upper`.
static bool isLastIndex(Value value, Value upper) {
  auto difference = value.getDefiningOp<BinaryOp>();
  std::optional<int64_t> known = findInteger(value), end = findInteger(upper);
  if (known && end) return *known == *end - 1;
  return difference && difference.getBinaryKind() == BinaryKind::sub && findInteger(difference.getRhs()) == 1 &&
         (difference.getLhs() == upper || (end && findInteger(difference.getLhs()) == end));
}

/// The only use of a loop's index, if that is `last - index`; null otherwise.
static BinaryOp findReversedIndex(ForOp loop) {
  if (loop.getParallel() || loop.getRank() != 1 || !loop.getStep().empty() || findInteger(loop.getLower()[0]) != 0) return {};
  Value index = loop.getBody().getArgument(0);
  auto reversed = index.hasOneUse() ? dyn_cast<BinaryOp>(*index.user_begin()) : BinaryOp();
  bool isDifference = reversed && reversed.getBinaryKind() == BinaryKind::sub && reversed.getRhs() == index;
  return isDifference && isLastIndex(reversed.getLhs(), loop.getUpper()[0]) ? reversed : BinaryOp();
}

void makeLoopsAscend(ModuleOp module) {
  IndependentIterations iterations(module);
  UnaliasedArrays unaliased(module);
  module.walk([&](ForOp loop) {
    BinaryOp reversed = findReversedIndex(loop);
    if (!reversed) return;
    Value index = loop.getBody().getArgument(0);
    reversed.replaceAllUsesWith(index);
    IndependentIterations::Shared shared{{}, /*updates=*/true};
    for (const LaneReduction &reduction : findLaneReductions(loop, /*reassociated=*/true)) shared.variables.insert(reduction.local);
    llvm::DenseSet<uint64_t> written;
    if (!iterations.findAxes(loop, written, shared).independent || llvm::set_intersects(written, unaliased.getAliased()))
      return index.replaceAllUsesExcept(reversed.getResult(), reversed);
    reversed.erase();
    unaliased.require(written);
  });
  for (KernelOp kernel : module.getOps<KernelOp>()) unaliased.addTo(kernel);
}

} // namespace qd::passes
