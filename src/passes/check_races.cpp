// check_races.cpp: elements that two iterations of a parallel loop write
//
// In:   tasks.
// Out:  a qd.claim ahead of each plain store to an element, or to a component of one, in a parallel loop.
// Here: after tasks are known, before atomics become plain stores. Stores of real functions are out of sight.
#include "passes/accesses.h"
#include "passes/assert_text.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

#define GEN_PASS_DEF_CHECKRACES
#include "passes/passes.h.inc"

namespace {

/// The places of all scalars that a place consists of.
SmallVector<Value> listComponents(OpBuilder &builder, Location loc, Value place) {
  auto vector = dyn_cast<VectorType>(cast<RefType>(place.getType()).getPointee());
  if (!vector) return {place};
  SmallVector<Value> result;
  Type component = RefType::get(vector.getElementType());
  for (int64_t number = 0; number < vector.getNumElements(); ++number) {
    SmallVector<Value> indices;
    int64_t rest = number;
    for (int64_t extent : llvm::reverse(vector.getShape())) {
      auto type = IntegerType::get(builder.getContext(), 32, IntegerType::Signed);
      indices.insert(indices.begin(), ConstantOp::create(builder, loc, builder.getIntegerAttr(type, rest % extent)));
      rest /= extent;
    }
    result.push_back(ComponentOp::create(builder, loc, component, place, indices));
  }
  return result;
}

struct CheckRacesPass : impl::CheckRacesBase<CheckRacesPass> {
  void runOnOperation() override {
    unsigned number = 0;
    forEachParallelLoop(getOperation(), [&](ForOp loop) {
      SmallVector<StoreOp> stores;
      loop.walk([&](StoreOp store) {
        // Threads that share an array wait for each other between their accesses.
        ElementOp element = findElement(store.getRef());
        if (element && !element.getTensor().getDefiningOp<SharedOp>()) stores.push_back(store);
      });
      for (StoreOp store : stores) claim(store, loop, number);
      ++number;
    });
  }

  static void claim(StoreOp store, ForOp loop, unsigned number) {
    OpBuilder builder(store);
    ElementOp element = findElement(store.getRef());
    auto argument = element.getTensor().getDefiningOp<TensorArgumentOp>();
    AssertText text(builder.getContext());
    text << "Data race: " + (argument ? argument.getName() : StringRef("an array"));
    text.list(element.getIndices(), "[", "]");
    text.list(loop.getBody().getArguments(), " is written by iteration (", ") of the parallel loop, and by another one");
    Location loc = element.getLoc();
    for (Value place : listComponents(builder, loc, store.getRef()))
      ClaimOp::create(builder, loc, place, loop.getBody().getArguments(), number, builder.getArrayAttr(text.pieces), text.values);
  }
};

} // namespace

} // namespace qd::passes
