// compactions.cpp: marks loops that store what some of their iterations choose side by side
//
// In:   `for i in …: if keep: out[n] = x[i]; n += 1`, in a kernel or a function, with any number of counters.
// Out:  kLanes on the loop, kCompacts on the stores at a counter and on those that advance it. The lanes of a vector that store take
//       neighboring places in their order, and advance the counter by their number (Schlegel, Willhalm and Lehner, Fast Sorted-Set
//       Intersection using SIMD Instructions, 2011; Bramas, A Novel Hybrid Quicksort Algorithm Vectorized using AVX-512, 2017).
// Here: after serial loops have become parallel. The emitter tests whether containers overlap (codegen/llvm/lane_loops.cpp).
#include "ir/attributes.h"
#include "ir/call_graph.h"
#include "ir/memory.h"
#include "passes/accesses.h"
#include "passes/row_loops.h"

#include "mlir/Pass/Pass.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

#define GEN_PASS_DECL_MARKCOMPACTIONS
#define GEN_PASS_DEF_MARKCOMPACTIONS
#include "passes/passes.h.inc"

namespace {

/// Fewer iterations than this do not fill a vector.
constexpr int64_t kFewRounds = 8;

/// Finds out whether one loop runs in lanes.
class LaneLoop {
public:
  LaneLoop(ForOp loop, const CallGraph &calls, bool reassociated) : loop(loop), calls(calls), reassociated(reassociated) {}

  bool run() {
    return isPlain() && isLong() && scan() && arePartsKept() && areCounters() && areStoresInOrder() && areReadsKept() &&
           scattered <= neighbors;
  }

  bool compacts() const { return !advances.empty(); }

  void mark() {
    auto unit = UnitAttr::get(loop.getContext());
    loop->setAttr(kLanes, unit);
    for (StoreOp advance : advances) advance->setAttr(kCompacts, unit);
    for (auto [root, store] : stores)
      if (compacted.contains(store)) store->setAttr(kCompacts, unit);
  }

private:
  bool isPlain() { return !loop.getParallel() && loop.getRank() == 1 && loop.getStep().empty(); }

  bool isLong() { return findLength(loop, 0).value_or(kFewRounds) >= kFewRounds; }

  /// Lists the accesses of the loop; false if it does anything that lanes do in another order.
  bool scan() {
    return !containsOp(loop, [&](Operation *op) {
      if (isa<MemoryAccessOpInterface>(op)) return !record(op);
      if (auto inner = dyn_cast<ForOp>(op)) return inner.getParallel();
      return !isa<LocalOp, IfOp, YieldOp>(op) && !computes(op);
    });
  }

  /// Whether an operation only computes values, a call with all that the function does.
  bool computes(Operation *op) {
    if (isPure(op)) return !op->hasAttr(kChecked);
    FuncOp callee = calls.lookup(op);
    return callee && !calls.contains(callee.getBody(), [&](Operation *inner) { return !isOfValues(inner); });
  }

  /// Whether an operation of a function accesses no memory but variables of the function.
  bool isOfValues(Operation *op) {
    if (auto access = dyn_cast<MemoryAccessOpInterface>(op)) return findBase(access.getRef()).getDefiningOp<LocalOp>() != nullptr;
    return isa<LocalOp, IfOp, YieldOp, ReturnOp>(op) || (isPure(op) && !op->hasAttr(kChecked)) || calls.lookup(op);
  }

  bool record(Operation *op) {
    auto load = dyn_cast<LoadOp>(op);
    auto store = dyn_cast<StoreOp>(op);
    if ((!load && !store) || op->hasAttr(kVolatile)) return false;
    Value place = load ? load.getRef() : store.getRef();
    Root root = findRoot(place);
    if (auto local = findBase(place).getDefiningOp<LocalOp>()) {
      if (loop->isProperAncestor(local)) return true;
      if (load) loaded[local].push_back(load);
      if (findWhole(place) != place) return load ? !isOfSlots(local) : recordPart(local, store);
      return load || (store.getRef() == local.getResult() && changed.try_emplace(local, store).second);
    }
    if (root.kind != Root::Kind::Tensor || root.id == kOverlappingFields) return false;
    if (!cast<ir::TensorType>(findBase(place).getType()).getTiles().empty()) return false;
    if (store) return stores.try_emplace(root, store).second;
    reads[root].push_back(load);
    ElementOp element = findElement(place);
    if (element && llvm::any_of(element.getIndices(), [&](Value index) { return !isInvariant(index); }))
      ++(isAlong(element) ? neighbors : scattered);
    return true;
  }

  /// Whether the components of a variable are in no array (codegen/llvm/uniformity.h).
  static bool isOfSlots(LocalOp local) {
    constexpr int64_t kSeparateComponents = 8;
    auto type = dyn_cast<VectorType>(cast<RefType>(local.getType()).getPointee());
    return !type || type.getRank() != 1 || type.getNumElements() <= kSeparateComponents;
  }

  /// Records a store to an array of the code around: iterations store at their index plus constants that are farther apart than they.
  bool recordPart(LocalOp local, StoreOp store) {
    auto part = store.getRef().getDefiningOp<ComponentOp>();
    std::optional<int64_t> length = findLength(loop, 0);
    if (isOfSlots(local) || part.getRef() != local.getResult() || !length) return false;
    Value index = part.getIndices()[0];
    int64_t own = 0;
    for (; auto sum = splitConstant(index); index = sum->rest) own += sum->constant;
    if (index != loop.getBody().getArgument(0)) return false;
    SmallVector<int64_t, 8> &others = parts[local];
    if (llvm::any_of(others, [&](int64_t other) { return std::abs(own - other) < *length; })) return false;
    others.push_back(own);
    return true;
  }

  /// Whether each array of the code around is read or written.
  bool arePartsKept() {
    return llvm::none_of(parts, [&](auto pair) { return loaded.contains(pair.first) || changed.contains(pair.first); });
  }

  /// Whether a value is the same in all iterations.
  bool isInvariant(Value value) {
    if (!loop.getBody().isAncestor(value.getParentRegion())) return true;
    Operation *op = value.getDefiningOp();
    if (auto load = dyn_cast_or_null<LoadOp>(op)) {
      auto local = load.getRef().getDefiningOp<LocalOp>();
      return local && !loop->isProperAncestor(local) && !isChanged(local);
    }
    return op && isPure(op) && llvm::all_of(op->getOperands(), [&](Value operand) { return isInvariant(operand); });
  }

  bool isChanged(LocalOp local) {
    return llvm::any_of(local->getUsers(), [&](Operation *user) { return !isa<LoadOp>(user) && loop->isProperAncestor(user); });
  }

  /// Whether a value is `counted`, or a sum of it and what is the same in all iterations.
  bool counts(Value value, Value counted) {
    return isShifted(value, [&](Value part) { return part == counted; }, [&](Value part) { return isInvariant(part); });
  }

  /// Whether an element is a scalar whose neighbors in memory have the next value of the last index, which counts with `counted`.
  bool isAlong(ElementOp element, Value counted) {
    auto type = cast<ir::TensorType>(element.getTensor().getType());
    OperandRange indices = element.getIndices();
    return !indices.empty() && type.getTiles().empty() && counts(indices.back(), counted) &&
           llvm::all_of(indices.drop_back(), [&](Value index) { return isInvariant(index); });
  }

  bool isAlong(ElementOp element) { return isAlong(element, loop.getBody().getArgument(0)); }

  /// Whether neighbors along the last axis are next to each other in memory.
  static bool isDense(ElementOp element) {
    auto type = cast<ir::TensorType>(element.getTensor().getType());
    return isScalar(type.getElement()) && (type.isPacked() || type.getStrides().back() == type.getComponentStride());
  }

  /// Whether the variables from around the loop that it changes are counters, or combine values in any order.
  bool areCounters() {
    llvm::DenseSet<Value> reduced;
    for (const LaneReduction &reduction : findLaneReductions(loop, reassociated)) reduced.insert(reduction.local);
    return llvm::all_of(changed,
                        [&](auto pair) { return reduced.contains(pair.first->getResult(0)) || isCounter(pair.first, pair.second); });
  }

  bool isCounter(Operation *local, StoreOp advance) {
    if (advance->getParentOfType<ForOp>() != loop) return false;
    auto sum = advance.getValue().getDefiningOp<BinaryOp>();
    auto before = sum ? sum.getLhs().getDefiningOp<LoadOp>() : LoadOp();
    if (!sum || sum.getBinaryKind() != BinaryKind::add || findInteger(sum.getRhs()) != 1 || !before) return false;
    if (before.getRef().getDefiningOp() != local || !before->hasOneUse() || before->getBlock() != advance->getBlock()) return false;
    for (LoadOp load : loaded[local]) {
      if (load == before) continue;
      if (load->getBlock() != advance->getBlock() || !load->isBeforeInBlock(advance)) return false;
      if (!llvm::all_of(listUsers(load), [&](Operation *user) { return isCompaction(user, load, advance); })) return false;
    }
    advances.push_back(advance);
    return true;
  }

  /// The users of a value, and of the sums of it and what is the same in all iterations.
  SmallVector<Operation *> listUsers(Value value) {
    SmallVector<Operation *> users;
    for (Operation *user : value.getUsers()) {
      auto sum = dyn_cast<BinaryOp>(user);
      if (sum && counts(sum.getResult(), value))
        llvm::append_range(users, listUsers(sum.getResult()));
      else
        users.push_back(user);
    }
    return users;
  }

  /// Whether a user of a counter is the place of one store, under the same condition as the counter's change that follows.
  bool isCompaction(Operation *user, LoadOp load, StoreOp advance) {
    auto element = dyn_cast<ElementOp>(user);
    auto store = element && element->hasOneUse() ? dyn_cast<StoreOp>(*element->user_begin()) : StoreOp();
    if (!store || store.getRef() != element.getResult() || store->getBlock() != advance->getBlock()) return false;
    if (!isDense(element) || !isAlong(element, load.getResult())) return false;
    for (Operation *op = store; op != advance; op = op->getNextNode())
      if (!op || op->getNumRegions() > 0) return false;
    compacted.insert(store);
    return true;
  }

  /// Whether each container is written at a counter, or at elements that the iterations have for themselves.
  bool areStoresInOrder() {
    return llvm::all_of(stores, [&](auto pair) {
      ElementOp element = findElement(pair.second.getRef());
      return compacted.contains(pair.second) || (element && element.getResult() == pair.second.getRef() && isAlong(element));
    });
  }

  /// Whether no iteration reads what another one writes. A loop may remove elements in place: then it reads its own element first, and the
  /// counter is not ahead, which is known when the loop begins.
  bool areReadsKept() {
    return llvm::all_of(stores, [&](auto pair) {
      auto found = reads.find(pair.first);
      if (found == reads.end()) return true;
      StoreOp store = pair.second;
      return llvm::all_of(found->second, [&](LoadOp load) {
        ElementOp from = findElement(load.getRef()), to = findElement(store.getRef());
        Operation *around = load->getBlock()->findAncestorOpInBlock(*store);
        return from && around && load->isBeforeInBlock(around) && from.getIndices().size() == 1 && compacted.contains(store) &&
               isOwn(from.getIndices()[0], to.getIndices()[0]);
      });
    });
  }

  /// Whether an index is the loop's where another one is a counter, and otherwise computed like that.
  bool isOwn(Value index, Value counted) {
    auto load = counted.getDefiningOp<LoadOp>();
    if (index == loop.getBody().getArgument(0)) return load && changed.count(load.getRef().getDefiningOp());
    auto sum = index.getDefiningOp<BinaryOp>(), other = counted.getDefiningOp<BinaryOp>();
    if (sum && other && sum.getBinaryKind() == other.getBinaryKind())
      return isOwn(sum.getLhs(), other.getLhs()) && isOwn(sum.getRhs(), other.getRhs());
    std::optional<int64_t> constant = findInteger(index);
    return index == counted || (constant && constant == findInteger(counted));
  }

  ForOp loop;
  const CallGraph &calls;
  bool reassociated;
  llvm::MapVector<Operation *, StoreOp> changed; ///< variables from around the loop
  llvm::DenseMap<Operation *, SmallVector<LoadOp, 2>> loaded;
  llvm::MapVector<Root, StoreOp> stores;
  llvm::DenseMap<Root, SmallVector<LoadOp, 2>> reads;
  llvm::MapVector<Operation *, SmallVector<int64_t, 8>> parts; ///< arrays from around the loop → where it stores to them
  SmallVector<StoreOp, 2> advances;
  llvm::DenseSet<Operation *> compacted; ///< stores at counters
  int64_t neighbors = 0, scattered = 0;  ///< loads
};

struct MarkCompactionsPass : impl::MarkCompactionsBase<MarkCompactionsPass> {
  using MarkCompactionsBase::MarkCompactionsBase;

  void runOnOperation() override {
    CallGraph calls(getOperation());
    std::vector<LaneLoop> others;
    bool isFound = false;
    getOperation().walk([&](ForOp loop) {
      LaneLoop search(loop, calls, reassociated);
      if (!search.run()) return;
      if (!search.compacts()) return others.push_back(std::move(search));
      search.mark();
      isFound = true;
    });
    for (LaneLoop &own : others)
      if (isFound) own.mark();
  }
};

} // namespace

} // namespace qd::passes
