// privatize_reductions.cpp: privatize the places that all iterations of a loop update
//
// In:   tasks; the atomics left in parallel loops are updates that several iterations may do on one place.
// Out:  combine(place, value) => combine(accumulator of place, value), for a place that is invariant in the loop;
//       combine(container[i], value) => combine(private copy of container [i], value).
//       Only if the loop accesses that memory in no other way and the old values are not used.
// Here: last: it does not change what the loop computes, only where it stores it.
#include "ir/attributes.h"
#include "ir/memory.h"
#include "passes/accesses.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Pass/Pass.h"

#include <map>

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

#define GEN_PASS_DEF_PRIVATIZEREDUCTIONS
#include "passes/passes.h.inc"

namespace {

/// Deeper index computations do not count as invariant.
constexpr unsigned kDeepestIndex = 16;

class Privatizer {
public:
  Privatizer(ForOp loop, FunctionAccesses &functions) : loop(loop), accesses(loop, functions), builder(loop) {}

  void run() {
    for (auto &[root, atomics] : accesses.atomics) {
      bool isKnown = root.kind == Root::Kind::Scratch || root.kind == Root::Kind::Tensor;
      if (!isKnown || accesses.touched.contains(root) || accesses.exchanged.contains(root) || !canCombine(atomics)) continue;
      // Containers that may overlap have one root. Equal indices in two of them, or in two layouts of one, select different places.
      llvm::MapVector<std::pair<uint64_t, Type>, SmallVector<AtomicOp, 2>> containers;
      for (AtomicOp atomic : atomics) {
        auto container = findBase(atomic.getRef()).getDefiningOp<TensorArgumentOp>();
        containers[{container ? container.getOffset() : 0, findBase(atomic.getRef()).getType()}].push_back(atomic);
      }
      for (auto &[container, updates] : containers)
        if (llvm::all_of(updates, [&](AtomicOp atomic) { return isInvariant(atomic.getRef(), 0); }))
          useAccumulators(updates);
        else if (root.kind == Root::Kind::Tensor && !loop->hasAttr(kAddsParts))
          usePrivateCopy(updates);
    }
  }

private:
  static bool canCombine(ArrayRef<AtomicOp> atomics) {
    AtomicOp first = atomics.front();
    return llvm::all_of(atomics, [&](AtomicOp atomic) {
      return atomic.use_empty() && getCombination(atomic.getAtomicKind()) == getCombination(first.getAtomicKind()) &&
             atomic.getAtomicKind() != AtomicKind::exchange && !getScalar(atomic.getType()).isInteger(1);
    });
  }

  /// Whether the value is invariant and can be hoisted out of the loop.
  bool isInvariant(Value value, unsigned depth) {
    if (value.getParentRegion()->isProperAncestor(&loop.getBody())) return true;
    Operation *definition = value.getDefiningOp();
    return definition && depth < kDeepestIndex && isPure(definition) && definition->getNumRegions() == 0 &&
           llvm::all_of(definition->getOperands(), [&](Value operand) { return isInvariant(operand, depth + 1); });
  }

  Value hoist(Value value) {
    Operation *definition = value.getDefiningOp();
    if (value.getParentRegion()->isProperAncestor(&loop.getBody())) return value;
    if (Value known = hoisted.lookup(value)) return known;
    IRMapping mapping;
    for (Value operand : definition->getOperands()) mapping.map(operand, hoist(operand));
    builder.setInsertionPoint(loop);
    Value result = builder.clone(*definition, mapping)->getResult(cast<OpResult>(value).getResultNumber());
    hoisted[value] = result;
    return result;
  }

  /// A key that distinguishes invariant places of one container: the indices; constants by their value.
  static SmallVector<const void *, 8> getPlaceKey(Value place) {
    SmallVector<const void *, 8> key;
    for (auto part = place.getDefiningOp<PlaceOpInterface>(); part; part = part.getBase().getDefiningOp<PlaceOpInterface>()) {
      for (Value index : part.getIndices()) {
        auto constant = index.getDefiningOp<ConstantOp>();
        key.push_back(constant ? Attribute(constant.getValue()).getAsOpaquePointer() : index.getAsOpaquePointer());
      }
      key.push_back(nullptr);
    }
    return key;
  }

  void useAccumulators(ArrayRef<AtomicOp> atomics) {
    std::map<SmallVector<const void *, 8>, Value> accumulators;
    for (AtomicOp atomic : atomics) {
      Value &accumulator = accumulators[getPlaceKey(atomic.getRef())];
      if (!accumulator) {
        Value target = hoist(atomic.getRef());
        builder.setInsertionPoint(loop);
        accumulator = AccumulatorOp::create(builder, atomic.getLoc(), target.getType(), getCombination(atomic.getAtomicKind()), target);
      }
      replace(atomic, accumulator);
    }
  }

  void usePrivateCopy(ArrayRef<AtomicOp> atomics) {
    Value copy;
    for (AtomicOp atomic : atomics) {
      ElementOp element = findElement(atomic.getRef());
      if (!copy) {
        Value target = hoist(element.getTensor());
        builder.setInsertionPoint(loop);
        copy = PrivateCopyOp::create(builder, atomic.getLoc(), target.getType(), getCombination(atomic.getAtomicKind()), target);
      }
      // Nothing else uses the element: the loop accesses this memory by these atomics only.
      element.getTensorMutable().assign(copy);
      replace(atomic, atomic.getRef());
    }
  }

  void replace(AtomicOp atomic, Value place) {
    builder.setInsertionPoint(atomic);
    Value value = atomic.getValue();
    if (atomic.getAtomicKind() == AtomicKind::sub) value = UnaryOp::create(builder, atomic.getLoc(), UnaryKind::neg, value);
    AtomicOp::create(builder, atomic.getLoc(), getCombination(atomic.getAtomicKind()), place, value);
    atomic.erase();
  }

  ForOp loop;
  LoopAccesses accesses;
  OpBuilder builder;
  DenseMap<Value, Value> hoisted;
};

struct PrivatizeReductionsPass : impl::PrivatizeReductionsBase<PrivatizeReductionsPass> {
  void runOnOperation() override {
    FunctionAccesses functions(getOperation());
    forEachParallelLoop(getOperation(), [&](ForOp loop) {
      // Loops with block operations do their own reductions.
      if (!functions.calls.contains(loop.getBody(), isOfBlock)) Privatizer(loop, functions).run();
    });
  }
};

} // namespace

} // namespace qd::passes
