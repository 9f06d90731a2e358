// independent_iterations.cpp: find axes of a serial loop along which its iterations are independent
//
// In:   a loop, and the functions that it calls.
// Out:  the axes whose index has the same position in all accesses to each container that the loop writes, in callees as well; the offsets
//       of these containers. The caller checks that they are unaliased.
// Here: widen_serial_loops.cpp runs such loops on several lanes.
#include "passes/independent_iterations.h"

#include "ir/attributes.h"
#include "ir/memory.h"
#include "passes/accesses.h"

#include <map>
#include <set>

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

namespace {

/// For each index of the loop, its positions among the indices of an element. Bit n is position n.
using Positions = SmallVector<uint32_t, 4>;

/// The arguments of a call: for each parameter the number of the loop's index that it is, or -1, and the memory that it is a place of.
struct CallArguments {
  Block *body = nullptr; ///< body of the function; null: of the loop itself
  std::vector<int> indices;
  std::vector<std::pair<uint32_t, uint64_t>> roots;
  unsigned depth = 0; ///< loops around the call

  auto getKey() const { return std::tuple(body, indices, roots); }
};

/// Scans one loop and the functions that it calls.
class LoopScan {
public:
  LoopScan(ForOp loop, const CallGraph &calls, const IndependentIterations::Shared &shared) : loop(loop), calls(calls), shared(shared) {}

  IndependentIterations::Axes run(DenseSet<uint64_t> &writtenTensors) {
    IndependentIterations::Axes axes;
    if (!scan(loop.getBody(), {})) return axes;
    for (auto [root, update] : updated) {
      writtenTensors.insert(root.id);
      if (!update.isAlone || accessed.contains(root)) written[root] += update.weight;
    }
    for (unsigned axis = 0; axis < loop.getRank(); ++axis) {
      if (!countsUp(axis)) continue;
      bool isIndependent = true;
      uint64_t near = 0, far = 0;
      for (auto [root, weight] : written) {
        auto found = positions.find(root);
        uint32_t places = found == positions.end() ? 0 : found->second[axis];
        isIndependent &= places != 0;
        (places >> lastPositions.lookup(root) & 1 ? near : far) += weight;
      }
      if (isIndependent) axes.independent |= 1u << axis;
      if (isIndependent && far <= near) axes.neighbors |= 1u << axis;
    }
    for (auto [root, weight] : written) writtenTensors.insert(root.id);
    return axes;
  }

  Value findPivot(DenseSet<uint64_t> &writtenTensors) {
    takesPivots = true;
    if (!(run(writtenTensors).neighbors & 1)) return {};
    Value pivot;
    for (auto [root, element] : fixed) {
      if (!written.contains(root)) continue;
      Value index = element.getIndices()[llvm::countr_zero(positions.find(root)->second[0])];
      auto isLoad = [](Operation *user) { return isa<LoadOp>(user); };
      if (loop.getBody().isAncestor(index.getParentRegion()) || (pivot && pivot != index) || !llvm::all_of(element->getUsers(), isLoad))
        return {};
      pivot = index;
    }
    return pivot;
  }

private:
  /// Whether the axis counts up from a non-negative constant, so that different loop indices select different elements.
  bool countsUp(unsigned axis) {
    std::optional<int64_t> lower = findInteger(loop.getLower()[axis]);
    return loop.getStep().empty() && lower && *lower >= 0;
  }

  bool scan(Region &region, const CallArguments &given) {
    return !region.walk([&](Operation *op) { return visit(op, given) ? WalkResult::advance() : WalkResult::interrupt(); }).wasInterrupted();
  }

  bool visit(Operation *op, const CallArguments &given) {
    if (op->hasAttr(kVolatile)) return false;
    if (auto element = dyn_cast<ElementOp>(op)) return record(element, given);
    if (auto access = dyn_cast<MemoryAccessOpInterface>(op)) {
      Root root = findMemory(access.getRef(), given);
      auto atomic = dyn_cast<AtomicOp>(op);
      if (atomic && shared.updates && atomic.use_empty() && access.combines() && root.kind == Root::Kind::Tensor)
        return update(root, atomic, given);
      accessed.insert(root);
      if (!access.writes()) return isKnown(root);
      return !access.isExchange() && write(access.getRef(), op, given);
    }
    if (auto call = dyn_cast<CallOp>(op)) return visitCall(call, given);
    if (isa<BreakOp>(op)) return findLoopAround(op) != loop;
    if (isa<ReturnOp>(op)) return given.body != nullptr;
    // Assertions do not matter: they are stripped outside debug mode, and in debug mode this analysis is not used.
    return isa<LocalOp, IfOp, ForOp, WhileOp, YieldOp, ContinueOp, ConditionOp, AssertOp>(op) || isPure(op);
  }

  static Operation *findLoopAround(Operation *op) {
    do op = op->getParentOp();
    while (!isa<ForOp, WhileOp>(op));
    return op;
  }

  /// The memory of a place; parameters of a callee are resolved to the memory of the loop's operands.
  static Root findMemory(Value place, const CallArguments &given) {
    auto parameter = dyn_cast<BlockArgument>(findBase(place));
    if (!parameter) return findRoot(place);
    if (!given.body || parameter.getOwner() != given.body) return {};
    auto [kind, id] = given.roots[parameter.getArgNumber()];
    return {Root::Kind(kind), id};
  }

  static bool isKnown(Root root) { return root.kind == Root::Kind::Local || root.kind == Root::Kind::Tensor; }

  /// The number of the loop's index that a value is, or -1.
  int findOwnIndex(Value value, const CallArguments &given) {
    while (value) {
      value = skipWidening(value);
      if (auto argument = dyn_cast<BlockArgument>(value)) {
        if (argument.getOwner() != (given.body ? given.body : &loop.getBody().front())) return -1;
        return given.body ? given.indices[argument.getArgNumber()] : int(argument.getArgNumber());
      }
      auto load = value.getDefiningOp<LoadOp>();
      value = load ? findOnlyValue(load.getRef().getDefiningOp<LocalOp>()) : Value();
    }
    return -1;
  }

  /// The value of a variable that has exactly one store and otherwise only loads; else null.
  static Value findOnlyValue(LocalOp local) {
    Value only;
    if (!local) return only;
    for (Operation *user : local->getUsers()) {
      if (isa<LoadOp>(user)) continue;
      auto store = dyn_cast<StoreOp>(user);
      if (!store || only) return Value();
      only = store.getValue();
    }
    return only;
  }

  bool record(ElementOp element, const CallArguments &given) {
    Root root = findMemory(element.getTensor(), given);
    if (!isKnown(root)) return false;
    lastPositions[root] = unsigned(std::clamp<size_t>(element.getIndices().size(), 1, 32)) - 1;
    Positions here(loop.getRank(), 0);
    for (auto [position, index] : llvm::enumerate(element.getIndices()))
      if (int own = findOwnIndex(index, given); own >= 0 && position < 32) here[size_t(own)] |= 1u << position;
    if (takesPivots && here[0] == 0) {
      fixed.emplace_back(root, element);
      return true;
    }
    auto [known, isNew] = positions.try_emplace(root, here);
    if (!isNew)
      for (auto [all, one] : llvm::zip(known->second, here)) all &= one;
    return true;
  }

  /// Number of loops around an operation, up to the scanned loop or the function.
  unsigned countLoops(Operation *op) {
    unsigned count = 0;
    for (op = op->getParentOp(); op != loop && !isa<FuncOp>(op); op = op->getParentOp()) count += isa<ForOp, WhileOp>(op);
    return count;
  }

  bool update(Root root, AtomicOp atomic, const CallArguments &given) {
    if (root.id == kOverlappingFields) return false;
    const AtomicKind kind = getCombination(atomic.getAtomicKind());
    Update &known = updated.try_emplace(root, Update{kind}).first->second;
    known.isAlone &= known.kind == kind;
    known.weight += getWeight(atomic, given);
    return true;
  }

  /// Estimated number of times that an operation runs in an iteration: times eight for each loop around.
  uint64_t getWeight(Operation *op, const CallArguments &given) { return uint64_t(1) << 3 * std::min(countLoops(op) + given.depth, 15u); }

  bool write(Value place, Operation *at, const CallArguments &given) {
    Root root = findMemory(place, given);
    if (root.kind == Root::Kind::Local) {
      auto *local = reinterpret_cast<Operation *>(uintptr_t(root.id));
      return local->getParentOfType<FuncOp>() != loop->getParentOfType<FuncOp>() || loop->isProperAncestor(local) ||
             shared.variables.contains(local->getResult(0));
    }
    if (root.kind != Root::Kind::Tensor || root.id == kOverlappingFields) return false;
    written[root] += getWeight(at, given);
    return true;
  }

  bool visitCall(CallOp call, const CallArguments &given) {
    FuncOp function = calls.lookup(call);
    if (!function) return false;
    CallArguments inner{&function.getBody().front(), {}, {}, countLoops(call) + given.depth};
    for (Value operand : call.getArguments()) {
      bool isPlace = isa<RefType, ir::TensorType>(operand.getType());
      inner.indices.push_back(isPlace ? -1 : findOwnIndex(operand, given));
      Root root = isPlace ? findMemory(operand, given) : Root();
      inner.roots.emplace_back(uint32_t(root.kind), root.id);
    }
    return !visited.insert(inner.getKey()).second || scan(function.getBody(), inner);
  }

  ForOp loop;
  const CallGraph &calls;
  const IndependentIterations::Shared &shared;
  bool takesPivots = false;
  SmallVector<std::pair<Root, ElementOp>, 2> fixed; ///< elements without an index of the loop, which pivots may select
  DenseMap<Root, Positions> positions;
  DenseMap<Root, unsigned> lastPositions;
  DenseMap<Root, uint64_t> written; ///< → weight: estimated number of writes
  struct Update {
    AtomicKind kind;
    uint64_t weight = 0;
    bool isAlone = true; ///< there are updates of this kind only
  };
  DenseMap<Root, Update> updated; ///< updates whose order matters to nothing in the loop
  DenseSet<Root> accessed;        ///< in another way
  std::set<std::tuple<Block *, std::vector<int>, std::vector<std::pair<uint32_t, uint64_t>>>> visited;
};

} // namespace

IndependentIterations::Axes IndependentIterations::findAxes(ForOp loop, DenseSet<uint64_t> &written, const Shared &shared) const {
  return LoopScan(loop, calls, shared).run(written);
}

Value IndependentIterations::findPivot(ForOp loop, DenseSet<uint64_t> &written, const Shared &shared) const {
  return loop.getRank() == 1 ? LoopScan(loop, calls, shared).findPivot(written) : Value();
}

} // namespace qd::passes
