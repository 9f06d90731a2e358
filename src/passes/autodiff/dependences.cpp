// dependences.cpp: tests for dependences by comparing indices
//
// In:   the accesses of a kernel. Their indices are in terms of the kernel's values: parameters of functions are replaced by the arguments
//       of the calls, as far as possible. An index is a base value plus a constant.
// Out:  answers for pairs of accesses. Two indices with the same base that is the index of a loop have a constant distance. Accesses whose
//       distance is unknown count as dependent.
#include "passes/autodiff/dependences.h"

#include "ir/memory.h"

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

//--- Accesses ---

/// A call on the path from the kernel to an access.
struct CallPath {
  CallOp op;
  FuncOp callee;
  const CallPath *outer;
  unsigned instance;
};

/// An index in terms of the kernel's values: parameters of functions are replaced by the arguments of the calls, as far as possible.
static Index resolve(Value value, const CallPath *call) {
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

static void listAncestors(Operation *op, const CallPath *call, SmallVectorImpl<Ancestor> &ancestors) {
  for (Operation *inner = op; Operation *outer = inner->getParentOp(); inner = outer) {
    if (isa<KernelOp, FuncOp>(outer)) break;
    ancestors.push_back({outer, inner->getParentRegion()->getRegionNumber()});
  }
  if (!call) return;
  ancestors.push_back({call->op, 0});
  listAncestors(call->op, call->outer, ancestors);
}

KernelAccesses::KernelAccesses(KernelOp kernel, const CallGraph &calls) : calls(calls) {
  for (Operation &op : kernel.getBody().front()) {
    collect(&op, nullptr);
    ++step;
  }
}

void KernelAccesses::collect(Operation *top, const CallPath *call) {
  top->walk<WalkOrder::PreOrder>([&](Operation *op) {
    ++order;
    auto access = dyn_cast<MemoryAccessOpInterface>(op);
    auto atomic = dyn_cast<AtomicOp>(op);
    bool isExtremum = atomic && (atomic.getAtomicKind() == AtomicKind::min || atomic.getAtomicKind() == AtomicKind::max);
    if (access && (!access.writes() || isExtremum)) record(reads, access.getRef(), call, op);
    if (access && access.writes()) record(writes, access.getRef(), call, op);
    FuncOp callee = calls.lookup(op);
    if (!callee || !visiting.insert(callee).second) return;
    CallPath next{cast<CallOp>(op), callee, call, ++instances};
    collect(callee, &next);
    visiting.erase(callee);
  });
}

void KernelAccesses::record(DenseMap<uint32_t, SmallVector<Access>> &list, Value place, const CallPath *call, Operation *op) {
  TensorArgumentOp container = findContainer(place);
  if (!container) return;
  ElementOp element = findElement(place);
  names[container.getOffset()] = container.getName().str();
  Access access{llvm::map_to_vector<3>(element.getIndices(), [&](Value index) { return resolve(index, call); }), {}, step, order, op};
  listAncestors(op, call, access.ancestors);
  std::reverse(access.ancestors.begin(), access.ancestors.end());
  list[container.getOffset()].push_back(std::move(access));
}

//--- Values that depend on a loop ---

static void insertWritten(Operation *op, DenseSet<Value> &found) {
  if (auto access = dyn_cast<MemoryAccessOpInterface>(op); access && access.writes()) found.insert(findWhole(access.getRef()));
}

const DependenceTest::Values &DependenceTest::findDependent(Operation *loop, Value argument) {
  auto [entry, isNew] = dependent.try_emplace({loop, argument});
  if (!isNew) return entry->second;
  Values found;
  if (argument)
    found.insert(argument);
  else
    loop->walk([&](Operation *op) { insertWritten(op, found); });
  for (size_t before = 0; before != found.size();) {
    before = found.size();
    DenseSet<Operation *> seen;
    spread(loop, found, seen);
  }
  return dependent[{loop, argument}] = std::move(found);
}

void DependenceTest::spread(Operation *top, Values &found, DenseSet<Operation *> &seen) const {
  top->walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (op == top || llvm::none_of(op->getOperands(), [&](Value operand) { return found.contains(operand); })) return;
    found.insert(op->result_begin(), op->result_end());
    insertWritten(op, found);
    if (auto loop = dyn_cast<ForOp>(op)) found.insert(loop.getBody().args_begin(), loop.getBody().args_end());
    FuncOp callee = calls.lookup(op);
    if (!callee) return;
    for (auto [given, parameter] : llvm::zip(op->getOperands(), callee.getBody().getArguments()))
      if (found.contains(given)) found.insert(parameter);
    if (seen.insert(callee).second) spread(callee, found, seen);
  });
}

bool DependenceTest::mayVaryWith(ArrayRef<Index> indices, Operation *loop) {
  auto counted = dyn_cast<ForOp>(loop);
  if (!counted)
    return llvm::any_of(indices, [&](const Index &index) { return index.base && findDependent(loop, {}).contains(index.base); });
  return llvm::all_of(counted.getBody().getArguments(), [&](Value argument) {
    return llvm::any_of(indices, [&](const Index &index) { return index.base && findDependent(loop, argument).contains(index.base); });
  });
}

//--- Pairs of accesses ---

Relation DependenceTest::relate(const Access &one, const Access &other) const {
  Relation relation;
  for (auto [a, b] : llvm::zip(one.ancestors, other.ancestors)) {
    if (a != b) {
      relation.isExclusive = a.first == b.first && isa<IfOp>(a.first);
      break;
    }
    auto counted = dyn_cast<ForOp>(a.first);
    if (isa<WhileOp>(a.first) || (counted && !counted.getParallel())) relation.loops.push_back(a.first);
  }
  relation.isSame = elements.isSameElement(one.indices, other.indices);
  relation.isAnother = elements.isAnotherElement(one.indices, other.indices);
  return relation;
}

/// After how many iterations of a loop `other` is the index that `one` is, up to the sign of the step; nothing if unknown.
static std::optional<int64_t> findDistance(const Index &one, const Index &other, ForOp loop) {
  std::optional<int64_t> step = loop.getStep().empty() ? 1 : findInteger(loop.getStep()[0]);
  if (!step || one.base != loop.getBody().getArgument(0) || other.base != one.base || one.instance != other.instance) return std::nullopt;
  return *step > 0 ? one.distance - other.distance : other.distance - one.distance;
}

/// After how many iterations of a loop `sink` accesses the element of `source`; nothing if unknown.
static std::optional<int64_t> findDistance(const Access &source, const Access &sink, Operation *op) {
  auto loop = dyn_cast<ForOp>(op);
  if (!loop || loop.getRank() != 1) return std::nullopt;
  for (auto [one, other] : llvm::zip(source.indices, sink.indices))
    if (std::optional<int64_t> distance = findDistance(one, other, loop)) return distance;
  return std::nullopt;
}

bool DependenceTest::mayDepend(const Access &source, const Access &sink) const {
  if (source.step != sink.step || source.op == sink.op) return false;
  Relation relation = relate(source, sink);
  // The outermost loop whose direction is not `=` carries the dependence, or shows that there is none.
  for (Operation *loop : relation.loops) {
    std::optional<int64_t> distance = findDistance(source, sink, loop);
    if (!distance || *distance > 0) return true;
    if (*distance < 0) return false;
  }
  return source.order < sink.order && !relation.isAnother && !relation.isExclusive;
}

bool DependenceTest::isOverwrittenLater(const Access &load, const Access &write, ArrayRef<Operation *> loops) const {
  auto isConstant = [&](auto pair) {
    auto [one, other] = pair;
    if (!elements.haveSameBase(one, other)) return false;
    auto argument = dyn_cast_or_null<BlockArgument>(one.base);
    Operation *loop = argument ? argument.getOwner()->getParentOp() : nullptr;
    if (!llvm::is_contained(loops, loop)) return one.distance == other.distance;
    std::optional<int64_t> distance = findDistance(load, write, loop);
    return distance && distance == findDistance(one, other, cast<ForOp>(loop));
  };
  if (!llvm::all_of(llvm::zip(load.indices, write.indices), isConstant)) return false;
  for (Operation *loop : loops)
    if (std::optional<int64_t> distance = findDistance(load, write, loop); distance.value_or(0) != 0)
      return *distance > 0 && *distance < findLength(cast<ForOp>(loop), 0).value_or(INT64_MAX);
  return false;
}

bool DependenceTest::mayComeBefore(const Access &load, const Access &write) const {
  return write.step < load.step ? !relate(load, write).isAnother : mayDepend(write, load);
}

namespace {
struct LoopRange {
  Value lower, upper;
};
} // namespace

static std::optional<LoopRange> findLoopRange(const Index &index) {
  auto argument = dyn_cast_or_null<BlockArgument>(index.base);
  auto loop = argument ? dyn_cast<ForOp>(argument.getOwner()->getParentOp()) : ForOp();
  if (!loop || loop.getParallel() || !loop.getStep().empty()) return std::nullopt;
  return LoopRange{loop.getLower()[argument.getArgNumber()], loop.getUpper()[argument.getArgNumber()]};
}

/// Whether the index is that of a loop around the access.
static bool isAround(const Index &index, const Access &access) {
  auto argument = dyn_cast_or_null<BlockArgument>(index.base);
  return argument && llvm::is_contained(llvm::make_first_range(access.ancestors), argument.getOwner()->getParentOp());
}

bool DependenceTest::haveSameRanges(const Access &one, const Access &other) const {
  return llvm::all_of(llvm::zip(one.indices, other.indices), [&](auto pair) {
    auto [index, otherIndex] = pair;
    if (elements.haveSameBase(index, otherIndex)) return index.distance == otherIndex.distance;
    if (!index.base && !isAround(otherIndex, one)) {
      std::optional<IndexRange> range = findRange(otherIndex);
      return range && range->first <= index.distance && index.distance <= range->last;
    }
    std::optional<LoopRange> first = findLoopRange(index), second = findLoopRange(otherIndex);
    return first && second && index.instance == otherIndex.instance && index.distance == otherIndex.distance &&
           elements.isSame(first->lower, second->lower) && elements.isSame(first->upper, second->upper);
  });
}

bool DependenceTest::isRace(const Access &first, const Access &second) const {
  auto isConditional = [](const Ancestor &ancestor) { return isa<IfOp, WhileOp>(ancestor.first); };
  if (first.step != second.step || llvm::any_of(first.ancestors, isConditional) || llvm::any_of(second.ancestors, isConditional))
    return false;
  auto loop = first.ancestors.empty() ? ForOp() : dyn_cast<ForOp>(first.ancestors.front().first);
  if (!loop || !loop.getParallel() || !loop.getStep().empty()) return false;
  bool isApart = false;
  for (auto [one, other] : llvm::zip(first.indices, second.indices)) {
    if (!elements.haveSameBase(one, other)) return false;
    auto argument = dyn_cast_or_null<BlockArgument>(one.base);
    bool isOfLoop = argument && argument.getOwner() == &loop.getBody().front();
    int64_t distance = one.distance - other.distance;
    if (distance != 0 && !isOfLoop) return false;
    isApart |= distance != 0;
    if (!isOfLoop) continue;
    if (std::abs(distance) >= findLength(loop, argument.getArgNumber()).value_or(INT64_MAX)) return false;
  }
  return isApart;
}

} // namespace qd::passes
