// overwritten_primals.cpp: find loads of elements that the same kernel overwrites later
//
// In:   a kernel to be differentiated, and which of its values are active.
// Out:  attributes of its loads: kOverwritten (the element is surely overwritten), kMayBeOverwritten (it depends on indices), and
//       kIsEntryValue in the mode `replay` (no write comes before the load).
// Here: before the derivative is taken: the gradient kernel runs after the kernel and cannot load overwritten primals.
//
// A load is surely overwritten if indices show a later write to the same element in the same iteration, or, in a serial loop, a write in a
// later iteration at a constant distance, or any write to the element if no index depends on the loop. Between two loops of a kernel any
// write to the container counts, unless constant distances between the indices show that it is to another element. Otherwise iterations are
// not compared: a kernel whose parallel iterations access each other's elements in an order that matters is the user's responsibility.
//
// A load reads an entry value if no write of the kernel comes before it; a write whose order is unknown counts as coming before.
// entry_values.cpp uses that.
#include "passes/autodiff/overwritten_primals.h"

#include "ir/attributes.h"
#include "ir/code.h"
#include "ir/memory.h"
#include "passes/autodiff/dependences.h"

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

namespace {

class Marker {
public:
  Marker(KernelOp kernel, const Activity &activity)
      : accesses(kernel, activity.calls), test(kernel->getParentOfType<ModuleOp>(), activity.calls) {}

  void run(KernelOp kernel) {
    auto mode = kernel->getAttrOfType<StringAttr>(kDerivative);
    bool isReplay = mode && mode.getValue() == "replay";
    for (auto &[container, loads] : accesses.reads)
      for (const Access &load : loads) {
        ArrayRef<Access> writes = accesses.writes[container];
        // What only prepares loops writes the same each time, so the derived kernel prepares it once more.
        if (!writes.empty() && llvm::all_of(writes, prepares)) continue;
        bool isKnownBefore =
            isReplay && isa<LoadOp>(load.op) && llvm::none_of(writes, [&](const Access &write) { return test.mayComeBefore(load, write); });
        if (isKnownBefore) load.op->setAttr(kIsEntryValue, UnitAttr::get(kernel.getContext()));
        for (const Access &write : writes)
          if (isOverwritten(load, write)) markOverwritten(load.op, accesses.names[container]);
        if (!load.op->hasAttr(kGuarded) && mayBeOverwritten(load, writes))
          load.op->setAttr(kMayBeOverwritten, UnitAttr::get(kernel.getContext()));
      }
  }

private:
  static bool prepares(const Access &access) {
    return (access.ancestors.empty() ? access.op : access.ancestors.front().first)->hasAttr(kPrepares);
  }

  bool isOverwritten(const Access &load, const Access &write) {
    if (write.step < load.step) return false;
    Relation relation = test.relate(load, write);
    if (write.step > load.step) return !relation.isAnother;
    if (test.isOverwrittenLater(load, write, relation.loops)) return true;
    if (!relation.isSame) return write.order > load.order && !relation.isExclusive && test.haveSameRanges(load, write);
    if (load.op == write.op) return false;
    auto mayRepeat = [&](Operation *loop) { return !test.mayVaryWith(load.indices, loop); };
    return (write.order > load.order && !relation.isExclusive) || llvm::any_of(relation.loops, mayRepeat);
  }

  /// Whether an iteration may overwrite the loaded element afterwards.
  bool mayBeOverwritten(const Access &load, ArrayRef<Access> stores) {
    return isa<LoadOp>(load.op) && llvm::any_of(stores, [&](const Access &store) { return test.mayDepend(load, store); });
  }

  KernelAccesses accesses;
  DependenceTest test;
};

/// A load of an element that another iteration of the parallel loop writes; null for none.
Operation *findRace(KernelOp kernel, const Activity &activity) {
  KernelAccesses accesses(kernel, activity.calls);
  DependenceTest test(kernel->getParentOfType<ModuleOp>(), activity.calls);
  for (auto &[container, loads] : accesses.reads)
    for (const Access &load : loads)
      if (isa<LoadOp>(load.op) && activity.isActive(load.op->getResult(0)) &&
          llvm::any_of(accesses.writes[container], [&](const Access &write) { return test.isRace(load, write); }))
        return load.op;
  return nullptr;
}

/// Whether an element is stored that was loaded from the same container, without a write in between.
bool copiesElement(StoreOp store, ElementOp &from, ElementOp &to) {
  auto load = store.getValue().getDefiningOp<LoadOp>();
  if (!load || load->getBlock() != store->getBlock()) return false;
  from = load.getRef().getDefiningOp<ElementOp>();
  to = store.getRef().getDefiningOp<ElementOp>();
  if (!from || !to || from.getTensor() != to.getTensor() || llvm::equal(from.getIndices(), to.getIndices())) return false;
  for (Operation *op = load->getNextNode(); op != store; op = op->getNextNode())
    if (op->getNumRegions() || !listWrittenPlaces(op).empty()) return false;
  return true;
}

} // namespace

void skipCopiesToSelf(ModuleOp module) {
  SmallVector<StoreOp> stores;
  module.walk([&](StoreOp store) { stores.push_back(store); });
  for (StoreOp store : stores) {
    ElementOp from, to;
    if (!copiesElement(store, from, to)) continue;
    OpBuilder builder(store);
    Code code(builder, store.getLoc());
    Value differs;
    for (auto [i, j] : llvm::zip(to.getIndices(), from.getIndices())) {
      if (i == j) continue;
      Value isOther = code.binary(BinaryKind::ne, i, code.cast(j, i.getType()));
      differs = differs ? code.binary(BinaryKind::bit_or, differs, isOther) : isOther;
    }
    code.when(differs, [&] { builder.clone(*store); });
    store.erase();
  }
}

LogicalResult refuseRaces(KernelOp kernel, const Activity &activity) {
  Operation *load = findRace(kernel, activity);
  if (!load) return success();
  return load->emitError()
         << "cross-iteration read-after-write: element of '" << findContainer(cast<LoadOp>(load).getRef()).getName()
         << "' is read here that another iteration of the parallel loop writes, and a result that depends on the order of "
            "iterations cannot be differentiated; make the loop serial with qd.loop_config(serialize=True)";
}

std::string describeOverwritten(StringRef container) {
  return ("element of '" + container + "' is read here and overwritten later in the kernel: its value is not known any more when " +
          "gradients are computed; write to another container, or in another kernel")
      .str();
}

void markOverwritten(Operation *access, StringRef container) {
  if (access->hasAttr(kGuarded)) return;
  access->setAttr(kOverwritten, StringAttr::get(access->getContext(), describeOverwritten(container)));
}

void markOverwrittenLoads(KernelOp kernel, const Activity &activity) { Marker(kernel, activity).run(kernel); }

LogicalResult refuseOverwrittenPrimals(ModuleOp module) {
  bool found = module
                   .walk([](Operation *op) {
                     auto why = op->getAttrOfType<StringAttr>(kOverwritten);
                     if (!why) return WalkResult::advance();
                     op->emitError() << why.getValue();
                     return WalkResult::interrupt();
                   })
                   .wasInterrupted();
  return failure(found);
}

} // namespace qd::passes
