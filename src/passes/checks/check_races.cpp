// check_races.cpp: detect elements and outer variables that two iterations of a parallel loop write
//
// In:   tasks.
// Out:  a qd.claim before each plain store to an element, to a component of one, or to a variable from outside of the parallel loop. If the
//       loop has plain stores to a container or variable, also before its atomic updates. An exchange that stores a part of a word claims
//       the part.
// Here: after tasks are known, before atomics become plain stores. Stores in functions that are not inlined are not checked.
#include "ir/memory.h"
#include "passes/accesses.h"
#include "passes/checks/assert_text.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

#define GEN_PASS_DEF_CHECKRACES
#include "passes/passes.h.inc"

namespace {

/// The places of all scalars of a place.
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
      SmallVector<MemoryAccessOpInterface> stores, updates;
      DenseSet<Root> stored;
      loop.walk([&](MemoryAccessOpInterface access) {
        if (!access.writes() || !isOfMany(access.getRef(), loop)) return;
        (isStore(access) ? stores : updates).push_back(access);
        if (isStore(access)) stored.insert(findRoot(access.getRef()));
      });
      llvm::erase_if(updates, [&](MemoryAccessOpInterface access) { return !stored.contains(findRoot(access.getRef())); });
      for (MemoryAccessOpInterface access : llvm::concat<MemoryAccessOpInterface>(stores, updates)) claim(access, loop, number);
      ++number;
    });
  }

  static bool isStore(MemoryAccessOpInterface access) {
    auto exchange = dyn_cast<CompareExchangeOp>(access.getOperation());
    return !access.isAtomic() || (exchange && exchange.getStores());
  }

  /// Whether other iterations can access the place, too.
  static bool isOfMany(Value place, ForOp loop) {
    // Accesses to block memory are not checked: the threads synchronize between them.
    if (ElementOp element = findElement(place)) return !element.getTensor().getDefiningOp<SharedOp>();
    Root root = findRoot(place);
    return root.kind == Root::Kind::Scratch ||
           (root.kind == Root::Kind::Local && !loop->isAncestor(reinterpret_cast<Operation *>(uintptr_t(root.id))));
  }

  static void claim(MemoryAccessOpInterface access, ForOp loop, unsigned number) {
    OpBuilder builder(access);
    const bool stores = isStore(access);
    auto exchange = dyn_cast<CompareExchangeOp>(access.getOperation());
    Value part = exchange ? exchange.getPart() : Value();
    ElementOp element = findElement(access.getRef());
    AssertText text(builder.getContext());
    if (element) {
      TensorArgumentOp argument = findContainer(element);
      StringRef name = argument ? argument.getName() : StringRef("an array");
      if (part) text << "Data race: the element at bit " << part << " of a word, " + name;
      if (!part) text << "Data race: " + name;
      text.list(element.getIndices(), "[", "]");
    } else {
      text << "Data race: a variable from outside of the loop";
    }
    text.list(loop.getBody().getArguments(), stores ? " is written by iteration (" : " is updated by iteration (",
              stores ? ") of the parallel loop, and by another one" : ") of the parallel loop, and written by another one");
    Location loc = element ? element.getLoc() : access.getLoc();
    for (Value place : listComponents(builder, loc, access.getRef()))
      ClaimOp::create(builder, loc, place, loop.getBody().getArguments(), stores ? number : ~number, builder.getArrayAttr(text.fragments),
                      text.values, part);
  }
};

} // namespace

} // namespace qd::passes
