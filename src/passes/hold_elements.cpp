// hold_elements.cpp: elements that an iteration stores and reads again become variables of it
//
// In:   tasks for processors. Each iteration of a parallel loop has elements of its own: all elements of the container that the loop
//       accesses have its indices, and in other places the same values or constants.
// Out:  x[i] = …; … x[i] …  =>  v = x[i]; v = …; … v …; x[i] = v.
// Here: after atomics on own elements are plain loads and stores. Lanes store components with gaps between them under masks, and a load
//       of such memory waits until the store is done; vectors and structs of which every component is stored have no gaps.
#include "ir/attributes.h"
#include "ir/code.h"
#include "ir/memory.h"
#include "passes/accesses.h"
#include "passes/unaliased_arrays.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/Pass/Pass.h"

#include <deque>
#include <map>
#include <set>

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

#define GEN_PASS_DEF_HOLDELEMENTS
#include "passes/passes.h.inc"

namespace {

/// Larger elements would not fit the registers.
constexpr int64_t kMostComponents = 9;

/// One element of an iteration, with all its places.
struct Held {
  SmallVector<ElementOp, 4> places;
  std::set<SmallVector<int64_t, 2>> stored; ///< components; an empty list is the whole element
  int64_t stores = 0;
  Operation *last = nullptr; ///< operation of the loop's body with the last access
  bool isAlwaysStored = false;
  bool isReloaded = false; ///< read after a store
};

class ElementHolder {
public:
  ElementHolder(ForOp loop, const UnaliasedArrays &unaliased) : loop(loop), unaliased(unaliased) {}

  void run(llvm::DenseSet<uint64_t> &written) {
    if (mayEndEarly()) return;
    llvm::MapVector<Root, SmallVector<ElementOp, 4>> containers;
    loop.getBody().walk([&](ElementOp element) {
      if (Root root = findRoot(element); root.kind == Root::Kind::Tensor && root.id != kOverlappingFields)
        containers[root].push_back(element);
    });
    std::deque<Held> all;
    for (auto &[root, elements] : containers) {
      if (!llvm::all_of(elements, [&, first = elements.front()](ElementOp element) { return isOwn(element, first); })) continue;
      std::map<SmallVector<int64_t, 2>, Held *> byConstants;
      for (ElementOp element : elements) {
        SmallVector<int64_t, 2> constants;
        for (Value index : element.getIndices()) constants.push_back(findInteger(index).value_or(0));
        Held *&held = byConstants[constants];
        if (!held) held = &all.emplace_back();
        held->places.push_back(element);
        heldBy[element] = held;
      }
    }
    findAccesses();
    for (Held &held : all) {
      if (!held.isAlwaysStored || (!held.isReloaded && held.stores < 2)) continue;
      written.insert(findRoot(held.places.front()).id);
      hold(held);
    }
  }

private:
  /// Whether an iteration may end before its last operation, or access memory in functions.
  bool mayEndEarly() {
    return containsOp(loop, [&](Operation *op) {
      if (!isa<ContinueOp, BreakOp>(op)) return isa<CallOp, ReturnOp, AssertOp>(op);
      while (!isa<ForOp, WhileOp>(op)) op = op->getParentOp();
      return op == loop;
    });
  }

  /// Whether two elements of a container differ in constants only.
  static bool areAlike(ElementOp a, ElementOp b) {
    return llvm::all_of(llvm::zip(a.getIndices(), b.getIndices()), [](auto pair) {
      auto [x, y] = pair;
      return x == y || (findInteger(x) && findInteger(y));
    });
  }

  static bool isPlain(Operation *place) {
    return llvm::all_of(place->getUsers(), [](Operation *user) {
      if (auto component = dyn_cast<ComponentOp>(user))
        return llvm::all_of(component.getIndices(), [](Value index) { return findInteger(index).has_value(); }) && isPlain(user);
      return isa<LoadOp, StoreOp>(user) && !user->hasAttr(kVolatile);
    });
  }

  /// Whether no other iteration accesses the element, and this one only loads and stores it, outside of loops in lanes.
  bool isOwn(ElementOp element, ElementOp first) {
    auto container = element.getTensor().getDefiningOp<TensorArgumentOp>();
    auto type = cast<ir::TensorType>(element.getTensor().getType());
    if (!container || unaliased.getAliased().contains(container.getOffset()) || !(container.getField() || type.isPacked())) return false;
    if (!getTilings(type).empty() || getComponentCount(type.getElement()) > kMostComponents || element->hasAttr(kChecked)) return false;
    for (auto around = element->getParentOfType<ForOp>(); around != loop; around = around->getParentOfType<ForOp>())
      if (around->hasAttr(kRows) || around->hasAttr(kLanes)) return false;
    OperandRange indices = element.getIndices();
    auto isFixed = [&](Value index) {
      const bool isOfLoop = isa<BlockArgument>(index) && index.getParentBlock() == &loop.getBody().front();
      return isOfLoop || findInteger(index) || !loop.getBody().isAncestor(index.getParentRegion());
    };
    return isPlain(element) && areAlike(element, first) && llvm::all_of(indices, isFixed) &&
           llvm::all_of(loop.getBody().getArguments(), [&](Value index) { return llvm::is_contained(indices, index); });
  }

  void findAccesses() {
    loop.getBody().walk([&](Operation *op) {
      auto access = dyn_cast<MemoryAccessOpInterface>(op);
      Held *found = access ? heldBy.lookup(findElement(access.getRef())) : nullptr;
      if (!found) return;
      Held &held = *found;
      held.last = loop.getBody().front().findAncestorOpInBlock(*op);
      if (!access.writes()) {
        held.isReloaded |= held.stores > 0;
        return;
      }
      ++held.stores;
      held.isAlwaysStored |= op == held.last;
      SmallVector<int64_t, 2> component;
      if (auto part = access.getRef().getDefiningOp<ComponentOp>())
        for (Value index : part.getIndices()) component.push_back(*findInteger(index));
      held.stored.insert(component);
    });
  }

  void hold(Held &held) {
    ElementOp first = held.places.front();
    OpBuilder builder(loop.getBody().front().findAncestorOpInBlock(*first));
    Code code(builder, first.getLoc());
    auto find = [&]() -> Value {
      IRMapping constants;
      for (Value index : first.getIndices())
        if (findInteger(index)) constants.map(index, builder.clone(*index.getDefiningOp())->getResult(0));
      return builder.clone(*first, constants)->getResult(0);
    };
    Type type = cast<RefType>(first.getType()).getPointee();
    Value local = code.local(type);
    code.store(code.load(find()), local);
    builder.setInsertionPointAfter(held.last);
    const bool isWhole = held.stored.contains({}) || int64_t(held.stored.size()) == getComponentCount(type);
    if (isWhole) held.stored = {{}};
    Value place = find();
    // Other components are left as they are: other threads of the program may change them.
    for (const SmallVector<int64_t, 2> &component : held.stored) {
      SmallVector<Value, 2> indices;
      for (int64_t index : component) indices.push_back(code.integer(index));
      Value from = indices.empty() ? local : code.component(local, indices), to = indices.empty() ? place : code.component(place, indices);
      code.store(code.load(from), to);
    }
    for (ElementOp each : held.places) {
      each.replaceAllUsesWith(local);
      each.erase();
    }
  }

  ForOp loop;
  const UnaliasedArrays &unaliased;
  llvm::DenseMap<Operation *, Held *> heldBy;
};

struct HoldElementsPass : impl::HoldElementsBase<HoldElementsPass> {
  void runOnOperation() override {
    UnaliasedArrays unaliased(getOperation());
    llvm::DenseSet<uint64_t> written;
    forEachParallelLoop(getOperation(), [&](ForOp loop) {
      // Sections that run at the same time may store different components.
      const bool isAlone = !loop->getParentOp()->hasAttr(kStreamBlock);
      if (isAlone && !loop->getParentOfType<KernelOp>()->hasAttr(kDerivative)) ElementHolder(loop, unaliased).run(written);
    });
    unaliased.require(written);
    for (KernelOp kernel : getOperation().getOps<KernelOp>()) unaliased.addTo(kernel);
  }
};

} // namespace

} // namespace qd::passes
