// row_loops.cpp: marks loops along rows
//
// In:   a parallel loop that could not be merged with the loops inside it: there are several, or something stands after them.
// Out:  kRows on the parallel loop and on the loops inside it whose iterations are to run in lanes, if these do most of the work.
// Here: widen_serial_loops.cpp calls it for processors, where the emitter of tasks (codegen/llvm/cpu) makes a version of the parallel loop
//       for long rows, and merge_nested_loops.cpp for grids, where distribute_rows.cpp does.
#include "passes/row_loops.h"

#include "ir/attributes.h"
#include "ir/code.h"
#include "ir/memory.h"
#include "passes/merge_nested_loops.h"

#include "llvm/ADT/SetOperations.h"

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

/// Larger bodies would take longer to compile twice than they save.
constexpr int64_t kMaxRowSize = 300;
/// Loops with at most this many iterations count as that many copies of their bodies.
constexpr int64_t kShortLoop = 16;
/// Operations outside of rows, which run one by one, for each access along a row.
constexpr double kWorthwhile = 8;
/// Arithmetic for each access along a row of a few elements.
constexpr double kWorthRow = 4;

/// More iterations than this fill a device by themselves: what their rows add to shared elements goes to private copies.
constexpr double kFewIterations = 1 << 14;

static std::optional<AtomicKind> getReductionKind(BinaryKind kind) {
  if (kind == BinaryKind::sub) return AtomicKind::add;
  auto atomic = findKind<AtomicKind>(getOpInfo(kind).name);
  return atomic && *atomic != AtomicKind::exchange ? atomic : std::nullopt;
}

/// The kind of the update that a load of a variable is part of: it is combined with a value and stored again, with nothing between that
/// could see or change the variable.
static std::optional<AtomicKind> findUpdate(LoadOp load, LocalOp local) {
  auto update = load->hasOneUse() ? dyn_cast<BinaryOp>(*load->user_begin()) : BinaryOp();
  auto store = update && update->hasOneUse() ? dyn_cast<StoreOp>(*update->user_begin()) : StoreOp();
  if (!store || store.getRef() != local.getResult() || store->getBlock() != load->getBlock()) return std::nullopt;
  if (update.getBinaryKind() == BinaryKind::sub && update.getLhs() != load.getResult()) return std::nullopt;
  for (Operation *op = load->getNextNode(); op != store; op = op->getNextNode())
    if (!op || op->getNumRegions() > 0 || llvm::is_contained(op->getOperands(), local.getResult())) return std::nullopt;
  return getReductionKind(update.getBinaryKind());
}

llvm::SmallVector<LaneReduction, 2> findLaneReductions(ForOp loop, bool reassociated) {
  llvm::SmallVector<LaneReduction, 2> found;
  llvm::DenseSet<Value> seen;
  loop.getBody().walk([&](StoreOp store) {
    auto local = store.getRef().getDefiningOp<LocalOp>();
    if (!local || loop->isProperAncestor(local) || !seen.insert(local).second) return;
    Type type = cast<RefType>(local.getType()).getPointee(), scalar = getScalar(type);
    bool isExact = isa<IntegerType>(scalar);
    if (!isScalar(type) || (!isExact && (!reassociated || scalar.getIntOrFloatBitWidth() < 32))) return;
    std::optional<AtomicKind> kind;
    int64_t loads = 0, stores = 0;
    for (Operation *user : local->getUsers()) {
      if (!loop->isProperAncestor(user)) continue;
      if (isa<StoreOp>(user)) {
        ++stores;
        continue;
      }
      auto load = dyn_cast<LoadOp>(user);
      std::optional<AtomicKind> own = load ? findUpdate(load, local) : std::nullopt;
      if (!own || (kind && kind != own)) return;
      kind = own;
      ++loads;
    }
    if (kind && loads == stores) found.push_back({local.getResult(), *kind});
  });
  return found;
}

namespace {

class RowSearch {
public:
  RowSearch(ForOp outer, const IndependentIterations &iterations, const RowOptions &options, const llvm::DenseSet<uint64_t> &aliased)
      : outer(outer), iterations(iterations), options(options), aliased(aliased) {}

  bool run() {
    if (options.onGrid && !llvm::all_of(outer.getBody().front(), [&](Operation &op) { return isOfAnyThread(&op); })) return false;
    if (!visit(outer.getBody(), 1) || rows.empty() || others > kWorthwhile * near) return false;
    if (!sharedUpdates.empty() && findIterations(outer).value_or(kFewIterations + 1) > kFewIterations) return false;
    auto isInRow = [&](AtomicOp update) { return llvm::any_of(rows, [&](Row &row) { return row.loop->isAncestor(update); }); };
    return llvm::all_of(sharedUpdates, isInRow);
  }

  struct Row {
    ForOp loop;
    Value pivot; ///< index of an iteration that stands apart; null: there is none
  };
  llvm::SmallVector<Row, 4> rows;
  llvm::DenseSet<uint64_t> written;

private:
  /// Whether a value may differ between iterations of a loop's last axis.
  bool dependsOn(Value value, ForOp loop) {
    auto varies = [&](LocalOp local) { return loop != outer || loop->isAncestor(local); };
    return ir::dependsOn(value, loop.getBody().getArguments().back(), varies);
  }

  /// Whether neighboring iterations of a loop have neighboring values of an index.
  bool isAlong(Value index, ForOp loop) {
    Value own = loop.getBody().getArgument(0);
    return isShifted(index, [&](Value part) { return part == own; }, [&](Value part) { return !dependsOn(part, loop); });
  }

  /// Whether an operation, with those inside it, means the same if all threads of a subgroup run it and one of them writes. Updates of
  /// elements that the iterations share must be in rows, each of whose iterations has one thread.
  bool isOfAnyThread(Operation *op) {
    return !containsOp(op, [&](Operation *part) {
      if (auto atomic = dyn_cast<AtomicOp>(part)) {
        if (updatesElementOf(outer, atomic)) return !atomic.use_empty() && !isScalar(atomic.getType());
        sharedUpdates.push_back(atomic);
        return !atomic.use_empty();
      }
      bool isKnown = isa<LocalOp, LoadOp, StoreOp, ForOp, IfOp, WhileOp, YieldOp, ConditionOp, ContinueOp, BreakOp>(part) ||
                     (isPure(part) && part->getNumRegions() == 0 && !isOfBlock(part));
      return !isKnown || part->hasAttr(kVolatile) || part->hasAttr(kChecked);
    });
  }

  /// Number of accesses along rows that lanes of the parallel loop would gather.
  int64_t countNeighbors(ForOp loop) {
    int64_t count = 0;
    loop.getBody().walk([&](ElementOp element) {
      OperandRange indices = element.getIndices();
      if (indices.empty() || !isAlong(indices.back(), loop)) return;
      // Threads read what their neighbors read, if both are at one place of a row.
      if (options.onGrid && dependsOn(indices.back(), outer)) return;
      count += llvm::any_of(indices, [&](Value index) { return dependsOn(index, outer); });
    });
    return count;
  }

  /// Whether a short row is worth lanes of its own: it fills vectors without a mask, its lanes are not combined, and it does not compute so
  /// much that the longer vectors along the parallel loop would gain more. Those reach neighboring rows that are as short as structs, too.
  bool isOfWholeVectors(ForOp loop, int64_t length, int64_t neighbors) {
    constexpr int64_t kLongestStruct = 8;
    if (options.onGrid || length <= 0 || length % kShortestVector != 0 || !findLaneReductions(loop, options.reassociated).empty())
      return false;
    double cost = 0;
    return !containsOp(loop, [&](Operation *op) {
      cost += getOperatorCost(op);
      auto element = dyn_cast<ElementOp>(op);
      const bool isInStruct = element && element.getIndices().size() > 1 && length <= kLongestStruct &&
                              isAlong(element.getIndices().back(), loop) && dependsOn(element.getIndices().drop_back().back(), outer);
      return isInStruct || cost > kWorthRow * double(neighbors);
    });
  }

  bool isRow(ForOp loop, double weight) {
    if (loop.getRank() != 1 || !loop.getStep().empty() || !isHoistable(loop.getUpper()[0], outer)) return false;
    int64_t size = 0;
    loop.getBody().walk([&](Operation *) { ++size; });
    int64_t neighbors = countNeighbors(loop);
    const std::optional<int64_t> length = findLength(loop, 0);
    if (length && *length < kLongRow && !isOfWholeVectors(loop, *length, neighbors)) return false;
    if (neighbors == 0 || hasTransposedAccess(loop, outer) || size > kMaxRowSize || containsOp(loop, llvm::IsaPred<CallOp, AssertOp>))
      return false;
    IndependentIterations::Shared shared;
    for (const LaneReduction &reduction : findLaneReductions(loop, options.reassociated)) shared.variables.insert(reduction.local);
    llvm::DenseSet<uint64_t> own;
    IndependentIterations::Axes axes = iterations.findAxes(loop, own, shared);
    Value pivot;
    if (!(axes.neighbors & 1)) {
      pivot = iterations.findPivot(loop, own, shared);
      if (!pivot || pivot.getType() != loop.getBody().getArgument(0).getType() || !isHoistable(pivot, outer)) return false;
    }
    if (llvm::set_intersects(own, aliased)) return false;
    rows.push_back({loop, pivot});
    written.insert(own.begin(), own.end());
    near += weight * double(neighbors);
    return true;
  }

  /// Finds rows and weighs what stands between them; false if that is too much.
  bool visit(Region &region, double weight) {
    if (region.empty()) return true;
    for (Operation &op : region.front()) {
      if (auto loop = dyn_cast<ForOp>(op)) {
        if (isRow(loop, weight)) continue;
        size_t before = rows.size();
        std::optional<double> rounds = findIterations(loop);
        if (!visit(loop.getBody(), weight * rounds.value_or(kShortLoop))) return false;
        if (rows.size() == before && rounds.value_or(kShortLoop + 1) > kShortLoop) return false;
      } else if (auto branches = dyn_cast<IfOp>(op)) {
        if (!visit(branches.getThenRegion(), weight) || !visit(branches.getElseRegion(), weight)) return false;
      } else if (isa<WhileOp, CallOp>(op)) {
        return false;
      } else if (!isa<ConstantOp, ElementOp, LocalOp, YieldOp>(op)) {
        others += weight;
      }
    }
    return true;
  }

  ForOp outer;
  const IndependentIterations &iterations;
  RowOptions options;
  const llvm::DenseSet<uint64_t> &aliased;
  llvm::SmallVector<AtomicOp> sharedUpdates;
  double near = 0, others = 0; ///< accesses along rows, and operations outside of them, by the loops around them
};

} // namespace

/// Splits a loop along a row: the iterations before the pivot, that of the pivot, and those behind it.
static void splitAtPivot(ForOp row, Value pivot, ForOp outer) {
  OpBuilder before(outer), at(row);
  Code code(before, row.getLoc());
  Value lower = row.getLower()[0], upper = row.getUpper()[0], behind = code.add(pivot, code.integer(pivot.getType(), 1));
  Value first = code.binary(BinaryKind::min, upper, code.binary(BinaryKind::max, lower, pivot));
  Value next = code.binary(BinaryKind::max, first, code.binary(BinaryKind::min, upper, behind));
  auto addPart = [&](Value end) {
    auto part = cast<ForOp>(at.clone(*row));
    part.getUpperMutable()[0].set(end);
    return part;
  };
  auto mark = UnitAttr::get(row.getContext());
  addPart(first)->setAttr(kPartOfRow, mark);
  ForOp own = addPart(next);
  own.getLowerMutable()[0].set(first);
  own->removeAttr(kRows);
  row.getLowerMutable()[0].set(next);
  row->setAttr(kPartOfRow, mark);
}

void markRows(ForOp loop, const IndependentIterations &iterations, const RowOptions &options, const llvm::DenseSet<uint64_t> &aliased,
              llvm::DenseSet<uint64_t> &written) {
  RowSearch search(loop, iterations, options, aliased);
  if (!search.run()) return;
  auto mark = UnitAttr::get(loop.getContext());
  for (auto [row, pivot] : search.rows) {
    hoist(row.getLower()[0], loop);
    hoist(row.getUpper()[0], loop);
    row->setAttr(kRows, mark);
    if (!pivot) continue;
    hoist(pivot, loop);
    splitAtPivot(row, pivot, loop);
  }
  loop->setAttr(kRows, mark);
  written.insert(search.written.begin(), search.written.end());
}

} // namespace qd::passes
