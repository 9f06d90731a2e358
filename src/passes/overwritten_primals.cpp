// overwritten_primals.cpp: find loads of elements that the same kernel overwrites later
//
// In:   a kernel to be differentiated, and which of its values are active.
// Out:  attributes of its loads: kOverwritten (the element is surely overwritten), kMayBeOverwritten (it depends on indices), and
//       kIsEntryValue in the mode `replay` (no write comes before the load).
// Here: before the derivative is taken: the gradient kernel runs after the kernel and cannot load overwritten primals.
//
// A load is surely overwritten if indices show a later write to the same element in the same iteration, or, in a serial loop, any write to
// the element if no index depends on the loop. Between two loops of a kernel any write to the container counts, unless constant distances
// between the indices show that it is to another element. Otherwise iterations are not compared: a kernel whose parallel iterations access
// each other's elements in an order that matters is the user's responsibility.
//
// A tape saves what a call overwrites. So the gradient may read the entry values of a container, but only of a whole container. A load
// reads an entry value if no write of the kernel comes before it; a write whose order is unknown counts as coming before.
#include "passes/overwritten_primals.h"

#include "ir/attributes.h"
#include "passes/accesses.h"
#include "passes/same_elements.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

namespace {

/// A call on the path from the kernel to an access.
struct Call {
  CallOp op;
  FuncOp callee;
  const Call *outer;
  unsigned instance;
};

/// An index in terms of the kernel's values: parameters of functions are replaced by the arguments of the calls, as far as possible.
Index resolve(Value value, const Call *call) {
  Index index = splitIndex(value);
  while (call) {
    auto parameter = dyn_cast_or_null<BlockArgument>(index.base);
    if (!parameter || parameter.getOwner()->getParentOp() != call->callee) break;
    CallOp op = call->op;
    Index given = splitIndex(op.getArguments()[parameter.getArgNumber()]);
    index = {given.base, index.distance + given.distance};
    call = call->outer;
  }
  index.instance = call ? call->instance : 0;
  return index;
}

/// An operation around an access, and the number of its region that contains the access.
using Ancestor = std::pair<Operation *, unsigned>;

/// An access to a container. `step` is the number of the kernel's statement that contains it; `order` counts the operations of the kernel.
struct Access {
  Indices indices;
  SmallVector<Ancestor, 4> ancestors; ///< from the kernel's statement inwards, through calls
  size_t step, order;
  Operation *op;
};

/// Whether each iteration of a serial loop surely has another element with these indices.
bool variesWith(ArrayRef<Index> indices, Operation *loop) {
  auto counted = dyn_cast<ForOp>(loop);
  return counted && llvm::all_of(counted.getBody().getArguments(), [&](Value argument) {
           return llvm::any_of(indices, [&](const Index &index) { return index.base == argument; });
         });
}

/// Values that may differ in each iteration of a serial loop, because they depend on one of its indices.
class DependentValues {
public:
  explicit DependentValues(const Activity &activity) : activity(activity) {}

  /// Whether each iteration may have another element: each index of the loop influences an index of the element.
  bool mayVaryWith(ArrayRef<Index> indices, Operation *loop) {
    auto counted = dyn_cast<ForOp>(loop);
    if (!counted) return llvm::any_of(indices, [&](const Index &index) { return index.base && find(loop, {}).contains(index.base); });
    return llvm::all_of(counted.getBody().getArguments(), [&](Value argument) {
      return llvm::any_of(indices, [&](const Index &index) { return index.base && find(loop, argument).contains(index.base); });
    });
  }

private:
  using Values = DenseSet<Value>;

  /// The values that depend on an index of a counted loop, or on the variables that a `while` assigns.
  const Values &find(Operation *loop, Value argument) {
    auto [entry, isNew] = known.try_emplace({loop, argument});
    if (!isNew) return entry->second;
    Values found;
    if (argument)
      found.insert(argument);
    else
      loop->walk([&](StoreOp store) { found.insert(findVariable(store.getRef())); });
    for (size_t before = 0; before != found.size();) {
      before = found.size();
      DenseSet<Operation *> seen;
      spread(loop, found, seen);
    }
    return known[{loop, argument}] = std::move(found);
  }

  void spread(Operation *top, Values &found, DenseSet<Operation *> &seen) {
    top->walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (op == top || llvm::none_of(op->getOperands(), [&](Value operand) { return found.contains(operand); })) return;
      found.insert(op->result_begin(), op->result_end());
      if (auto store = dyn_cast<StoreOp>(op)) found.insert(findVariable(store.getRef()));
      if (auto loop = dyn_cast<ForOp>(op)) found.insert(loop.getBody().args_begin(), loop.getBody().args_end());
      auto call = dyn_cast<CallOp>(op);
      FuncOp callee = call ? activity.lookup(call) : FuncOp();
      if (!callee) return;
      for (auto [given, parameter] : llvm::zip(call.getArguments(), callee.getBody().getArguments()))
        if (found.contains(given)) found.insert(parameter);
      if (seen.insert(callee).second) spread(callee, found, seen);
    });
  }

  static Value findVariable(Value place) {
    while (auto component = place.getDefiningOp<ComponentOp>()) place = component.getRef();
    return place;
  }

  const Activity &activity;
  DenseMap<std::pair<Operation *, Value>, Values> known;
};

/// The relation of two accesses in one statement of the kernel.
struct Relation {
  Relation(const Access &one, const Access &other, const SameElements &elements) {
    for (auto [a, b] : llvm::zip(one.ancestors, other.ancestors)) {
      if (a != b) {
        isExclusive = a.first == b.first && isa<IfOp>(a.first);
        break;
      }
      auto counted = dyn_cast<ForOp>(a.first);
      if (isa<WhileOp>(a.first) || (counted && !counted.getParallel())) loops.push_back(a.first);
    }
    isSame = elements.isSameElement(one.indices, other.indices);
    isAnother = elements.isAnotherElement(one.indices, other.indices);
    isLoopCarried = !loops.empty() && !llvm::all_of(loops, [&](Operation *loop) { return isSame && variesWith(one.indices, loop); });
  }
  SmallVector<Operation *, 2> loops; ///< serial ones around both
  bool isExclusive = false;          ///< at most one of them runs in an iteration
  bool isSame, isAnother;            ///< surely the same element within an iteration; surely another one
  bool isLoopCarried;                ///< an iteration of a serial loop may access the element of another iteration
};

/// Whether a write may come before a load, so that the load may not read the entry value.
bool mayComeBefore(const Access &load, const Access &write, const SameElements &elements) {
  if (write.step > load.step) return false;
  Relation relation(load, write, elements);
  if (write.step < load.step) return !relation.isAnother;
  if (relation.isLoopCarried) return true;
  return write.order < load.order && !relation.isAnother && !relation.isExclusive;
}

class Finder {
public:
  Finder(ModuleOp module, const Activity &activity) : activity(activity), dependents(activity), elements(module) {}

  void run(KernelOp kernel) {
    for (Operation &op : kernel.getBody().front()) {
      collect(&op, nullptr);
      ++step;
    }
    auto mode = kernel->getAttrOfType<StringAttr>(kDerivative);
    bool isReplay = mode && mode.getValue() == "replay";
    for (auto &[container, loads] : reads)
      for (const Access &load : loads) {
        bool isKnownBefore = isReplay && isa<LoadOp>(load.op) &&
                             llvm::none_of(writes[container], [&](const Access &write) { return mayComeBefore(load, write, elements); });
        if (isKnownBefore) load.op->setAttr(kIsEntryValue, UnitAttr::get(kernel.getContext()));
        for (const Access &write : writes[container])
          if (isOverwritten(load, write)) markOverwritten(load.op, names[container]);
        if (!load.op->hasAttr(kGuarded) && mayBeOverwritten(load, writes[container]))
          load.op->setAttr(kMayBeOverwritten, UnitAttr::get(kernel.getContext()));
      }
  }

  /// A load of an element that another iteration of the parallel loop writes; null for none.
  Operation *findRace(KernelOp kernel) {
    for (Operation &op : kernel.getBody().front()) {
      collect(&op, nullptr);
      ++step;
    }
    for (auto &[container, loads] : reads)
      for (const Access &load : loads)
        if (isa<LoadOp>(load.op) && activity.isActive(load.op->getResult(0)) &&
            llvm::any_of(writes[container], [&](const Access &write) { return isRace(load, write); }))
          return load.op;
    return nullptr;
  }

private:
  /// Whether both always run, and their indices are those of the same loop at a constant distance other than zero.
  bool isRace(const Access &load, const Access &write) {
    auto isConditional = [](const Ancestor &ancestor) { return isa<IfOp, WhileOp>(ancestor.first); };
    if (load.step != write.step || llvm::any_of(load.ancestors, isConditional) || llvm::any_of(write.ancestors, isConditional))
      return false;
    auto loop = load.ancestors.empty() ? ForOp() : dyn_cast<ForOp>(load.ancestors.front().first);
    if (!loop || !loop.getParallel() || !loop.getStep().empty()) return false;
    bool isApart = false;
    for (auto [one, other] : llvm::zip(load.indices, write.indices)) {
      if (!elements.haveSameBase(one, other)) return false;
      auto argument = dyn_cast_or_null<BlockArgument>(one.base);
      bool isOfLoop = argument && argument.getOwner() == &loop.getBody().front();
      int64_t distance = one.distance - other.distance;
      if (distance != 0 && !isOfLoop) return false;
      isApart |= distance != 0;
      if (!isOfLoop) continue;
      std::optional<int64_t> lower = findInteger(loop.getLower()[argument.getArgNumber()]);
      std::optional<int64_t> upper = findInteger(loop.getUpper()[argument.getArgNumber()]);
      if (lower && upper && std::abs(distance) >= *upper - *lower) return false;
    }
    return isApart;
  }

  void collect(Operation *top, const Call *call) {
    top->walk<WalkOrder::PreOrder>([&](Operation *op) {
      ++order;
      if (auto load = dyn_cast<LoadOp>(op)) record(reads, load.getRef(), call, op);
      if (auto store = dyn_cast<StoreOp>(op)) record(writes, store.getRef(), call, op);
      // The adjoint compares the result with the values: the extremum is read afterwards.
      auto atomic = dyn_cast<AtomicOp>(op);
      if (atomic && (atomic.getAtomicKind() == AtomicKind::min || atomic.getAtomicKind() == AtomicKind::max))
        record(reads, atomic.getRef(), call, op);
      if (isa<AtomicOp, CompareExchangeOp>(op)) record(writes, op->getOperand(0), call, op);
      auto inner = dyn_cast<CallOp>(op);
      FuncOp callee = inner ? activity.lookup(inner) : FuncOp();
      if (!callee || !visiting.insert(callee).second) return;
      Call next{inner, callee, call, ++instances};
      collect(callee, &next);
      visiting.erase(callee);
    });
  }

  static void listAncestors(Operation *op, const Call *call, SmallVectorImpl<Ancestor> &ancestors) {
    for (Operation *inner = op; Operation *outer = inner->getParentOp(); inner = outer) {
      if (isa<KernelOp, FuncOp>(outer)) break;
      ancestors.push_back({outer, inner->getParentRegion()->getRegionNumber()});
    }
    if (!call) return;
    ancestors.push_back({call->op, 0});
    listAncestors(call->op, call->outer, ancestors);
  }

  void record(DenseMap<uint32_t, SmallVector<Access>> &list, Value place, const Call *call, Operation *op) {
    TensorArgumentOp container = findContainer(place);
    if (!container) return;
    ElementOp element = findElementOf(place);
    names[container.getOffset()] = container.getName().str();
    Access access{llvm::map_to_vector<3>(element.getIndices(), [&](Value index) { return resolve(index, call); }), {}, step, order, op};
    listAncestors(op, call, access.ancestors);
    std::reverse(access.ancestors.begin(), access.ancestors.end());
    list[container.getOffset()].push_back(std::move(access));
  }

  bool isOverwritten(const Access &load, const Access &write) {
    if (write.step < load.step) return false;
    Relation relation(load, write, elements);
    if (write.step > load.step) return !relation.isAnother;
    if (!relation.isSame) return write.order > load.order && !relation.isExclusive && haveSameRanges(load, write);
    if (load.op == write.op) return false;
    auto mayRepeat = [&](Operation *loop) { return !dependents.mayVaryWith(load.indices, loop); };
    return (write.order > load.order && !relation.isExclusive) || llvm::any_of(relation.loops, mayRepeat);
  }

  /// Whether `later` may run after `earlier` has, on the same element, in one statement of the kernel.
  bool mayFollow(const Access &earlier, const Access &later) {
    if (earlier.step != later.step || earlier.op == later.op) return false;
    Relation relation(earlier, later, elements);
    for (Operation *loop : relation.loops) {
      std::optional<int64_t> distance = findDistance(earlier, later, loop);
      if (!distance || *distance > 0) return true;
      if (*distance < 0) return false;
    }
    return earlier.order < later.order && !relation.isAnother && !relation.isExclusive;
  }

  /// The dependence distance: after how many iterations `later` accesses the element of `earlier`; nothing if unknown.
  std::optional<int64_t> findDistance(const Access &earlier, const Access &later, Operation *op) {
    auto loop = dyn_cast<ForOp>(op);
    if (!loop || loop.getRank() != 1) return std::nullopt;
    std::optional<int64_t> step = loop.getStep().empty() ? 1 : findInteger(loop.getStep()[0]);
    for (auto [one, other] : llvm::zip(earlier.indices, later.indices))
      if (step && one.base == loop.getBody().getArgument(0) && other.base == one.base && one.instance == other.instance)
        return *step > 0 ? one.distance - other.distance : other.distance - one.distance;
    return std::nullopt;
  }

  /// Whether an iteration may overwrite the loaded element: one that it has stored before, or, outside of serial loops, any.
  bool mayBeOverwritten(const Access &load, ArrayRef<Access> stores) {
    if (!isa<LoadOp>(load.op)) return false;
    bool isStored = llvm::any_of(stores, [&](const Access &store) { return mayFollow(store, load); });
    return llvm::any_of(
        stores, [&](const Access &store) { return mayFollow(load, store) && (isStored || Relation(load, store, elements).loops.empty()); });
  }

  /// Whether a load and a later write, in different loops, surely access the same elements: each index is equal or has the same range.
  bool haveSameRanges(const Access &load, const Access &write) {
    return llvm::all_of(llvm::zip(load.indices, write.indices), [&](auto pair) {
      auto [one, other] = pair;
      if (elements.haveSameBase(one, other)) return one.distance == other.distance;
      std::optional<LoopRange> first = findLoopRange(one), second = findLoopRange(other);
      return first && second && one.instance == other.instance && one.distance == other.distance &&
             elements.isSame(first->lower, second->lower) && elements.isSame(first->upper, second->upper);
    });
  }

  struct LoopRange {
    Value lower, upper;
  };
  static std::optional<LoopRange> findLoopRange(const Index &index) {
    auto argument = dyn_cast_or_null<BlockArgument>(index.base);
    auto loop = argument ? dyn_cast<ForOp>(argument.getOwner()->getParentOp()) : ForOp();
    if (!loop || loop.getParallel() || !loop.getStep().empty()) return std::nullopt;
    return LoopRange{loop.getLower()[argument.getArgNumber()], loop.getUpper()[argument.getArgNumber()]};
  }

  const Activity &activity;
  DependentValues dependents;
  SameElements elements;
  DenseMap<uint32_t, SmallVector<Access>> reads, writes;
  DenseMap<uint32_t, std::string> names;
  DenseSet<Operation *> visiting;
  size_t step = 0, order = 0;
  unsigned instances = 0;
};

} // namespace

LogicalResult refuseRaces(KernelOp kernel, const Activity &activity) {
  Operation *load = Finder(kernel->getParentOfType<ModuleOp>(), activity).findRace(kernel);
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

void markOverwrittenLoads(KernelOp kernel, const Activity &activity) { Finder(kernel->getParentOfType<ModuleOp>(), activity).run(kernel); }

namespace {

/// Replaces loads of an element that was stored before by the stored value (store-to-load forwarding).
class Forwarder {
public:
  explicit Forwarder(ModuleOp module) : elements(module) {
    module.walk([&](TensorArgumentOp argument) { hasShadow[argument.getOffset()] |= argument->hasAttr(kShadow); });
  }

  void run(Block &block) {
    SmallVector<std::pair<ElementOp, Value>> known;
    for (Operation &op : llvm::make_early_inc_range(block)) {
      for (Region &region : op.getRegions())
        if (!region.empty()) run(region.front());
      if (auto load = dyn_cast<LoadOp>(op)) {
        if (Value stored = find(known, load)) {
          load.replaceAllUsesWith(stored);
          load.erase();
        }
        continue;
      }
      if (op.getNumRegions() > 0 || isa<CallOp, AtomicOp, CompareExchangeOp>(op)) known.clear();
      auto store = dyn_cast<StoreOp>(op);
      ElementOp element = store ? findElementOf(store.getRef()) : ElementOp();
      if (!element) continue;
      // A container with another name may alias this one.
      llvm::erase_if(known, [&](auto &entry) {
        return entry.first.getTensor() != element.getTensor() ||
               !elements.isAnotherElement(splitIndices(entry.first), splitIndices(element));
      });
      if (element.getResult() == store.getRef() && mayForward(element, store.getValue())) known.push_back({element, store.getValue()});
    }
  }

private:
  Value find(ArrayRef<std::pair<ElementOp, Value>> known, LoadOp load) const {
    auto element = load.getRef().getDefiningOp<ElementOp>();
    for (auto [stored, value] : known)
      if (element && stored.getTensor() == element.getTensor() && elements.isSameElement(splitIndices(stored), splitIndices(element)))
        return value;
    return {};
  }

  /// Whether the value may be forwarded: loads of floats from a container without a gradient are constants and must stay loads.
  bool mayForward(ElementOp element, Value value) {
    auto container = element.getTensor().getDefiningOp<TensorArgumentOp>();
    return container && (hasShadow.lookup(container.getOffset()) || !isFloatScalar(getScalar(value.getType())));
  }

  SameElements elements;
  DenseMap<uint32_t, bool> hasShadow;
};

} // namespace

void prepareReplay(ModuleOp module, KernelOp kernel) {
  demoteOwnUpdates(module);
  Forwarder(module).run(kernel.getBody().front());
}

void useEntryValues(ModuleOp module) {
  for (KernelOp kernel : module.getOps<KernelOp>()) {
    auto mode = dyn_cast_or_null<StringAttr>(kernel->removeAttr(kDerivative));
    if (!mode || mode.getValue() != "replay") continue;
    llvm::MapVector<uint32_t, SmallVector<Operation *>> loads;
    DenseSet<uint32_t> wanted, impossible;
    module.walk([&](LoadOp load) {
      TensorArgumentOp container = findContainer(load.getRef());
      if (!container) return;
      uint32_t offset = container.getOffset();
      loads[offset].push_back(load);
      if (!load->hasAttr(kIsEntryValue)) impossible.insert(offset);
      if ((load->hasAttr(kOverwritten) || load->hasAttr(kMayBeOverwritten)) && load->hasAttr(kIsEntryValue)) wanted.insert(offset);
    });
    SmallVector<int32_t> chosen;
    for (auto &[offset, ops] : loads) {
      if (!wanted.contains(offset) || impossible.contains(offset)) continue;
      chosen.push_back(int32_t(offset));
      for (Operation *load : ops)
        for (StringRef mark : {kOverwritten, kMayBeOverwritten}) load->removeAttr(mark);
    }
    if (!chosen.empty()) kernel->setAttr(kReadsEntryValues, DenseI32ArrayAttr::get(kernel.getContext(), chosen));
  }
}

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
