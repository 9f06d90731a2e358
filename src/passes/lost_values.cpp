// lost_values.cpp: reads of elements that are overwritten later in the same kernel
//
// Told for sure, by indices: a write after the read in the same iteration, to the same element. Between two loops of a kernel: any write to
// the container, unless constant distances between the indices say that it is to another element. Iterations of one loop are not compared:
// that they touch each other's elements in an order that matters is the program's own affair (spec 3 S16).
#include "passes/lost_values.h"

#include "ir/attributes.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

namespace {

/// A base, null for none, and a constant distance from it.
struct Index {
  Value base;
  int64_t distance = 0;
};

Index splitIndex(Value value) {
  Index index{value, 0};
  for (;;) {
    if (std::optional<int64_t> constant = findInteger(index.base)) return {Value(), index.distance + *constant};
    auto binary = index.base.getDefiningOp<BinaryOp>();
    bool isShift = binary && (binary.getBinaryKind() == BinaryKind::add || binary.getBinaryKind() == BinaryKind::sub);
    std::optional<int64_t> amount = isShift ? findInteger(binary.getRhs()) : std::nullopt;
    if (!amount) return index;
    index = {binary.getLhs(), index.distance + (binary.getBinaryKind() == BinaryKind::add ? *amount : -*amount)};
  }
}

/// Whether two values are the same wherever both are known: the same operations on the same values.
bool isSame(Value one, Value other) {
  if (one == other) return true;
  Operation *first = one ? one.getDefiningOp() : nullptr, *second = other ? other.getDefiningOp() : nullptr;
  if (!first || !second || first->getName() != second->getName() || first->getAttrs() != second->getAttrs() || !isPure(first) ||
      first->getNumOperands() != second->getNumOperands())
    return false;
  return llvm::all_of(llvm::zip(first->getOperands(), second->getOperands()),
                      [](auto pair) { return isSame(std::get<0>(pair), std::get<1>(pair)); });
}

bool isSameElement(ElementOp one, ElementOp other) {
  return llvm::all_of(llvm::zip(one.getIndices(), other.getIndices()),
                      [](auto pair) { return isSame(std::get<0>(pair), std::get<1>(pair)); });
}

bool isAnotherElement(ElementOp one, ElementOp other) {
  return llvm::any_of(llvm::zip(one.getIndices(), other.getIndices()), [](auto pair) {
    Index first = splitIndex(std::get<0>(pair)), second = splitIndex(std::get<1>(pair));
    return isSame(first.base, second.base) && first.distance != second.distance;
  });
}

ElementOp findElementOf(Value place) {
  while (auto component = place.getDefiningOp<ComponentOp>()) place = component.getRef();
  return place.getDefiningOp<ElementOp>();
}

/// An access to a container: `step` is the statement of the kernel that it is part of, `order` counts operations of the kernel.
struct Access {
  ElementOp element; ///< null in a function that the kernel calls: its indices are not comparable
  size_t step, order;
  Operation *load = nullptr;
};

class Finder {
public:
  explicit Finder(const Activity &activity) : activity(activity) {}

  void run(KernelOp kernel) {
    for (Operation &op : kernel.getBody().front()) {
      collect(&op, false);
      ++step;
    }
    for (auto &[container, loads] : reads)
      for (const Access &load : loads)
        for (const Access &write : writes[container])
          if (isOverwritten(load, write)) {
            std::string text = "element of '" + names[container] + "' is read here and overwritten later in the kernel: its value is " +
                               "not known any more when gradients are computed; write to another container, or in another kernel";
            load.load->setAttr(kLost, StringAttr::get(kernel.getContext(), text));
          }
  }

private:
  void collect(Operation *top, bool isCalled) {
    top->walk([&](Operation *op) {
      ++order;
      if (auto load = dyn_cast<LoadOp>(op)) note(reads, load.getRef(), isCalled, op);
      if (auto store = dyn_cast<StoreOp>(op)) note(writes, store.getRef(), isCalled, op);
      // Whether its value was the one that was kept is seen afterwards.
      auto atomic = dyn_cast<AtomicOp>(op);
      if (atomic && (atomic.getAtomicKind() == AtomicKind::min || atomic.getAtomicKind() == AtomicKind::max))
        note(reads, atomic.getRef(), isCalled, op);
      if (isa<AtomicOp, CompareExchangeOp>(op)) note(writes, op->getOperand(0), isCalled, op);
      auto call = dyn_cast<CallOp>(op);
      FuncOp callee = call ? activity.lookup(call) : FuncOp();
      if (!callee || !visiting.insert(callee).second) return;
      collect(callee, true);
      visiting.erase(callee);
    });
  }

  void note(DenseMap<uint32_t, SmallVector<Access>> &list, Value place, bool isCalled, Operation *op) {
    ElementOp element = findElementOf(place);
    auto container = element ? element.getTensor().getDefiningOp<TensorArgumentOp>() : TensorArgumentOp();
    if (!container) return;
    names[container.getOffset()] = container.getName().str();
    list[container.getOffset()].push_back({isCalled ? ElementOp() : element, step, order, op});
  }

  static bool isOverwritten(const Access &load, const Access &write) {
    bool isKnown = load.element && write.element;
    if (write.step > load.step) return !isKnown || !isAnotherElement(load.element, write.element);
    return write.step == load.step && write.order > load.order && isKnown && isSameElement(load.element, write.element);
  }

  const Activity &activity;
  DenseMap<uint32_t, SmallVector<Access>> reads, writes;
  DenseMap<uint32_t, std::string> names;
  DenseSet<Operation *> visiting;
  size_t step = 0, order = 0;
};

} // namespace

void markOverwrittenLoads(KernelOp kernel, const Activity &activity) { Finder(activity).run(kernel); }

LogicalResult refuseLostValues(ModuleOp module) {
  bool found = module
                   .walk([](Operation *op) {
                     auto why = op->getAttrOfType<StringAttr>(kLost);
                     if (!why) return WalkResult::advance();
                     op->emitError() << why.getValue();
                     return WalkResult::interrupt();
                   })
                   .wasInterrupted();
  return failure(found);
}

} // namespace qd::passes
