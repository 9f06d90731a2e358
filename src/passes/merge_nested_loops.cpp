// merge_nested_loops.cpp: `for i: for j: body` becomes `for i, j: body`
//
// In:   a parallel loop, and the serial loop in its body, whose iterations the caller has found to be independent.
// Out:  one parallel loop. Its innermost axis is that of the serial loop: lanes along it reach neighboring elements of a row, where lanes
//       along the outer axis would reach elements of different rows.
// Here: widen_serial_loops.cpp calls it for processors, where LLVM hoists again what stands before the inner loop. On grids each thread
//       repeats that, so it has to be short; the pass for them is at the end of this file.
#include "passes/merge_nested_loops.h"

#include "ir/attributes.h"
#include "ir/memory.h"
#include "passes/row_loops.h"
#include "passes/unaliased_arrays.h"

#include "mlir/IR/Builders.h"
#include "mlir/Pass/Pass.h"
#include "llvm/ADT/SetOperations.h"

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

bool mayFail(Operation *op) {
  auto binary = dyn_cast<BinaryOp>(op);
  return binary &&
         llvm::is_contained({BinaryKind::floor_div, BinaryKind::mod, BinaryKind::raw_div, BinaryKind::raw_mod}, binary.getBinaryKind());
}

bool isHoistable(Value value, ForOp outer) {
  if (!outer.getBody().isAncestor(value.getParentRegion())) return true;
  Operation *op = value.getDefiningOp();
  return op && isPure(op) && op->getNumRegions() == 0 && !mayFail(op) &&
         llvm::all_of(op->getOperands(), [&](Value operand) { return isHoistable(operand, outer); });
}

void hoist(Value value, ForOp outer) {
  if (!outer.getBody().isAncestor(value.getParentRegion())) return;
  for (Value operand : value.getDefiningOp()->getOperands()) hoist(operand, outer);
  value.getDefiningOp()->moveBefore(outer);
}

/// Whether an operation before the inner loop gives the same in each iteration of that loop: it changes nothing but variables of the body.
static bool isRepeatable(Operation *op, ForOp outer) {
  if (isa<LocalOp>(op)) return true;
  if (auto store = dyn_cast<StoreOp>(op)) {
    auto local = findBase(store.getRef()).getDefiningOp<LocalOp>();
    return local && outer->isProperAncestor(local);
  }
  auto load = dyn_cast<LoadOp>(op);
  if (!load) return isPure(op) && op->getNumRegions() == 0;
  if (op->hasAttr(kVolatile)) return false;
  if (TensorArgumentOp container = findContainer(load.getRef()))
    return !containsOp(outer, [&](Operation *other) { return llvm::is_contained(listWrittenContainers(other), container); });
  return findBase(load.getRef()).getDefiningOp<LocalOp>() != nullptr;
}

ForOp findMergeableLoop(ForOp around, ForOp outermost) {
  ForOp inner;
  for (Operation &op : around.getBody().front().without_terminator()) {
    if (auto loop = dyn_cast<ForOp>(op); loop && !inner)
      inner = loop;
    else if (inner ? !isPure(&op) || op.getNumRegions() > 0 : !isRepeatable(&op, outermost))
      return {};
  }
  if (!inner || inner.getParallel() || !around.getStep().empty() || !inner.getStep().empty()) return {};
  auto areHoistable = [&](OperandRange bounds) { return llvm::all_of(bounds, [&](Value bound) { return isHoistable(bound, outermost); }); };
  return areHoistable(inner.getLower()) && areHoistable(inner.getUpper()) ? inner : ForOp();
}

/// Whether an index is that of a loop's last axis plus a constant.
static bool isIndexOf(ForOp loop, Value value) { return isShifted(value, loop.getBody().getArguments().back()); }

bool hasTransposedAccess(ForOp inner, ForOp outer) {
  return containsOp(inner, [&](Operation *op) {
    auto element = dyn_cast<ElementOp>(op);
    return element && element.getIndices().size() > 1 && isIndexOf(outer, element.getIndices().back()) &&
           llvm::any_of(element.getIndices().drop_back(), [&](Value index) { return isIndexOf(inner, index); });
  });
}

/// Whether most elements with the indices of two loops have that of the inner one first, so that threads along the outer loop are nearer to
/// each other. If there are some of both kinds, tiles serve both.
static bool isTransposed(ForOp inner, ForOp outer) {
  int64_t balance = 0;
  inner.getBody().walk([&](ElementOp element) {
    OperandRange indices = element.getIndices();
    auto own = llvm::find_if(indices, [&](Value index) { return isIndexOf(inner, index); });
    auto others = llvm::find_if(indices, [&](Value index) { return isIndexOf(outer, index); });
    if (own != indices.end() && others != indices.end()) balance += own < others ? 1 : -1;
  });
  return balance > 0;
}

/// Whether a value is computed from an index of the loop and nothing that is read.
static bool isOfIndices(Value value, ForOp loop) {
  if (auto argument = dyn_cast<BlockArgument>(value)) return argument.getOwner() == &loop.getBody().front();
  Operation *op = value.getDefiningOp();
  return loop->isAncestor(op) && isPure(op) && llvm::any_of(op->getOperands(), [&](Value operand) { return isOfIndices(operand, loop); });
}

bool updatesElementOf(ForOp loop, AtomicOp atomic) {
  ElementOp element = findElement(atomic.getRef());
  return element && llvm::any_of(element.getIndices(), [&](Value index) { return isOfIndices(index, loop); });
}

static bool updatesOwnElements(ForOp inner, ForOp outer) {
  return containsOp(inner, [&](Operation *op) {
    auto atomic = dyn_cast<AtomicOp>(op);
    return atomic && updatesElementOf(outer, atomic);
  });
}

ForOp mergeLoops(ForOp outer, ForOp inner) {
  for (OperandRange bounds : {inner.getLower(), inner.getUpper()})
    for (Value bound : bounds) hoist(bound, outer);
  auto join = [](OperandRange first, OperandRange second) {
    SmallVector<Value> all(first);
    all.append(second.begin(), second.end());
    return all;
  };
  OpBuilder builder(outer);
  auto merged = ForOp::create(builder, outer.getLoc(), join(outer.getLower(), inner.getLower()), join(outer.getUpper(), inner.getUpper()),
                              ValueRange(), /*parallel=*/true, outer.getBlockDimAttr(), outer.getMaxThreadsAttr(), outer.getNameAttr());
  merged->setDiscardableAttrs(outer->getDiscardableAttrDictionary());
  merged->removeAttr(kMostIterations);
  merged.getBody().takeBody(outer.getBody());
  Block &body = merged.getBody().front(), &innerBody = inner.getBody().front();
  for (BlockArgument index : innerBody.getArguments()) index.replaceAllUsesWith(body.addArgument(index.getType(), index.getLoc()));
  // The last operation of the inner body takes the place of the outer one's.
  body.getTerminator()->erase();
  body.getOperations().splice(body.end(), innerBody.getOperations());
  inner.erase();
  outer.erase();
  return merged;
}

/// Whether a loop up to this end is short, as one over the components of a vector: it is unrolled.
static bool isUnrolled(Value end) {
  constexpr int64_t kMostUnrolled = 4;
  return findInteger(end).value_or(kMostUnrolled + 1) <= kMostUnrolled;
}

ForOp mergeNest(ForOp loop, const IndependentIterations &iterations, const llvm::DenseSet<uint64_t> &aliased,
                llvm::DenseSet<uint64_t> &written, llvm::function_ref<bool(ForOp, bool)> isWorthwhile) {
  SmallVector<ForOp> nest;
  size_t merged = 0;
  llvm::DenseSet<uint64_t> writtenByAll;
  for (ForOp around = loop; ForOp inner = findMergeableLoop(around, loop); around = inner) {
    IndependentIterations::Axes axes = iterations.findAxes(inner, writtenByAll, {{}, /*updates=*/!updatesOwnElements(inner, loop)});
    bool isAliased = llvm::set_intersects(writtenByAll, aliased);
    if (isAliased || axes.independent != (1u << inner.getRank()) - 1) break;
    nest.push_back(inner);
    unsigned last = inner.getRank() - 1;
    if (isUnrolled(inner.getUpper()[last]) || !isWorthwhile(inner, axes.neighbors >> last & 1)) continue;
    merged = nest.size();
    written = writtenByAll;
  }
  for (ForOp inner : ArrayRef(nest).take_front(merged)) loop = mergeLoops(loop, inner);
  return loop;
}

#define GEN_PASS_DECL_MERGENESTEDLOOPS
#define GEN_PASS_DEF_MERGENESTEDLOOPS
#include "passes/passes.h.inc"

namespace {

/// Merges the nests of a kernel. On grids: a thread for each iteration of the inner loop, where one for each of the outer loop could not
/// fill the device and would reach rows far from those of its neighbors. Before a kernel is differentiated: the derivative has no loop then
/// whose values it would have to keep.
class NestMerger {
public:
  NestMerger(ModuleOp module, const MergeNestedLoopsOptions &options) : iterations(module), options(options), unaliased(module) {}

  void run(KernelOp kernel) {
    visitBlock(kernel.getBody().front());
    unaliased.addTo(kernel);
  }

private:
  void visitBlock(Block &block) {
    for (RepeatOp repeat : block.getOps<RepeatOp>()) visitBlock(repeat.getBody().front());
    for (ForOp loop : llvm::to_vector(block.getOps<ForOp>())) {
      if (!loop.getParallel() || loop.getMaxThreadsAttr() || loop.getBlockDimAttr()) continue;
      llvm::DenseSet<uint64_t> written;
      auto isWorthwhile = [&](ForOp inner, bool) {
        return !isTransposed(inner, loop) && isCheap(inner, loop) && (!options.ofOwnElements || readsOwnElements(inner, loop));
      };
      ForOp merged = mergeNest(loop, iterations, unaliased.getAliased(), written, isWorthwhile);
      if (!options.beforeDerivatives)
        markRows(merged, iterations, {options.reassociated, /*onGrid=*/true}, unaliased.getAliased(), written);
      unaliased.require(written);
    }
  }

  /// Whether the operations of `outer` around the inner loop, which each of its iterations would repeat, are no more than its own.
  static bool isCheap(ForOp inner, ForOp outer) {
    auto count = [](ForOp loop) {
      int64_t operations = 0;
      loop.getBody().walk([&](Operation *op) { operations += !isa<ConstantOp, LocalOp, ElementOp, YieldOp>(op); });
      return operations;
    };
    return count(outer) <= 2 * count(inner);
  }

  /// Whether each place where the loops read a float reads another one in each iteration: then no two iterations add to the same gradient
  /// at once (split_updates.cpp).
  static bool readsOwnElements(ForOp inner, ForOp outer) {
    return !containsOp(outer, [&](Operation *op) {
      auto load = dyn_cast<LoadOp>(op);
      if (!load || !isa<FloatType>(getScalar(load.getType())) || findBase(load.getRef()).getDefiningOp<LocalOp>()) return false;
      ElementOp element = findElement(load.getRef());
      auto selects = [&](ForOp loop) { return llvm::any_of(element.getIndices(), [&](Value index) { return isIndexOf(loop, index); }); };
      return !element || !selects(inner) || !selects(outer);
    });
  }

  IndependentIterations iterations;
  MergeNestedLoopsOptions options;
  UnaliasedArrays unaliased;
};

struct MergeNestedLoopsPass : impl::MergeNestedLoopsBase<MergeNestedLoopsPass> {
  using MergeNestedLoopsBase::MergeNestedLoopsBase;

  void runOnOperation() override {
    for (KernelOp kernel : getOperation().getOps<KernelOp>())
      if (kernel->hasAttr(kDerivative) == beforeDerivatives)
        NestMerger(getOperation(), {reassociated, beforeDerivatives, ofOwnElements}).run(kernel);
  }
};

} // namespace

} // namespace qd::passes
