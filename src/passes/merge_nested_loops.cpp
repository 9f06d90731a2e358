// merge_nested_loops.cpp: `for i: for j: body` becomes `for i, j: body`
//
// In:   a parallel loop, and the serial loop in its body, whose iterations the caller has found to be independent.
// Out:  one parallel loop. Its innermost axis is that of the serial loop: lanes along it reach neighboring elements of a row, where lanes
//       along the outer axis would reach elements of different rows.
// Here: widen_serial_loops.cpp decides for which loops; what stands before the inner loop moves into the body, and LLVM hoists it again.
#include "passes/merge_nested_loops.h"

#include "ir/attributes.h"
#include "ir/call_graph.h"
#include "ir/memory.h"

#include "mlir/IR/Builders.h"

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

bool hasTransposedAccess(ForOp inner, ForOp outer) {
  auto isIndex = [](Value value, ForOp loop) {
    while (std::optional<ConstantSum> sum = splitConstant(value)) value = sum->rest;
    auto argument = dyn_cast<BlockArgument>(value);
    return argument && argument.getOwner() == &loop.getBody().front() && argument.getArgNumber() + 1 == loop.getRank();
  };
  return containsOp(inner, [&](Operation *op) {
    auto element = dyn_cast<ElementOp>(op);
    return element && element.getIndices().size() > 1 && isIndex(element.getIndices().back(), outer) &&
           llvm::any_of(element.getIndices().drop_back(), [&](Value index) { return isIndex(index, inner); });
  });
}

/// Whether a value is computed from an index of the loop and nothing that is read.
static bool isOfIndices(Value value, ForOp loop) {
  if (auto argument = dyn_cast<BlockArgument>(value)) return argument.getOwner() == &loop.getBody().front();
  Operation *op = value.getDefiningOp();
  return loop->isAncestor(op) && isPure(op) && llvm::any_of(op->getOperands(), [&](Value operand) { return isOfIndices(operand, loop); });
}

bool updatesOwnElements(ForOp inner, ForOp outer) {
  return containsOp(inner, [&](Operation *op) {
    auto atomic = dyn_cast<AtomicOp>(op);
    ElementOp element = atomic ? findElement(atomic.getRef()) : ElementOp();
    return element && llvm::any_of(element.getIndices(), [&](Value index) { return isOfIndices(index, outer); });
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

} // namespace qd::passes
