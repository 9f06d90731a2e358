// same_elements.cpp: compare the indices of elements
//
// In:   two elements of a container, as indices split into a base and a constant distance.
// Out:  whether they are surely the same, surely different, or neither.
// Here: the dependence test of the gradient passes.
#include "passes/autodiff/same_elements.h"

#include "ir/attributes.h"
#include "ir/memory.h"

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

Index splitIndex(Value value) {
  Index index{value, 0};
  for (;;) {
    if (std::optional<int64_t> constant = findInteger(index.base)) return {Value(), index.distance + *constant};
    std::optional<ConstantSum> sum = splitConstant(index.base);
    if (!sum) return index;
    index = {sum->rest, index.distance + sum->constant};
  }
}

std::optional<IndexRange> findRange(const Index &index) {
  if (!index.base) return IndexRange{index.distance, index.distance};
  auto argument = dyn_cast<BlockArgument>(index.base);
  auto loop = argument ? dyn_cast<ForOp>(argument.getOwner()->getParentOp()) : ForOp();
  if (!loop || !loop.getStep().empty()) return std::nullopt;
  unsigned axis = argument.getArgNumber();
  std::optional<int64_t> lower = findInteger(loop.getLower()[axis]), length = findLength(loop, axis);
  IndexRange range{};
  // One that is empty, or that wraps, tells nothing.
  if (!lower || length.value_or(0) == 0 || llvm::AddOverflow(*lower, index.distance, range.first) ||
      llvm::AddOverflow(range.first, *length - 1, range.last))
    return std::nullopt;
  return range;
}

Indices splitIndices(ElementOp element) { return llvm::map_to_vector<3>(element.getIndices(), splitIndex); }

bool comesBefore(Operation *one, Operation *other) {
  for (Operation *outer = one; outer; outer = outer->getParentOp())
    for (Operation *inner = other; inner; inner = inner->getParentOp()) {
      if (inner == outer && inner != one && inner != other) {
        // Different regions of one operation.
        Region *first = nullptr, *second = nullptr;
        for (Region &region : outer->getRegions()) {
          if (region.isAncestor(one->getParentRegion())) first = &region;
          if (region.isAncestor(other->getParentRegion())) second = &region;
        }
        return first && second && first->getRegionNumber() < second->getRegionNumber();
      }
      if (inner->getBlock() && inner->getBlock() == outer->getBlock()) return inner != outer && outer->isBeforeInBlock(inner);
    }
  return false;
}

SameElements::SameElements(ModuleOp module) {
  module.walk([&](Operation *op) {
    for (Value place : listWrittenPlaces(op))
      if (TensorArgumentOp container = findContainer(place)) written.insert(container.getOffset());
  });
}

bool SameElements::isSameConstant(LoadOp load) const {
  if (load->hasAttr(kVolatile)) return false;
  if (TensorArgumentOp container = findContainer(load.getRef())) return !written.contains(container.getOffset());
  auto local = load.getRef().getDefiningOp<LocalOp>();
  if (!local) return false;
  return llvm::all_of(local->getUsers(), [&](Operation *user) {
    if (isa<LoadOp>(user)) return true;
    auto store = dyn_cast<StoreOp>(user);
    if (!store || !comesBefore(store, load)) return false;
    // If the variable is declared before a loop around both, a later iteration stores to it again.
    for (Operation *around = store->getParentOp(); around && !around->isAncestor(local); around = around->getParentOp())
      if (isa<ForOp, WhileOp>(around) && around->isAncestor(load)) return false;
    return true;
  });
}

bool SameElements::isSame(Value one, Value other) const {
  if (one == other) return true;
  Operation *first = one ? one.getDefiningOp() : nullptr, *second = other ? other.getDefiningOp() : nullptr;
  if (!first || !second || first->getName() != second->getName() || first->getNumOperands() != second->getNumOperands()) return false;
  auto load = dyn_cast<LoadOp>(first);
  bool isKnown = load ? isSameConstant(load) && isSameConstant(cast<LoadOp>(second))
                      : !isa<LocalOp>(first) && isPure(first) && first->getAttrs() == second->getAttrs();
  return isKnown && llvm::all_of(llvm::zip(first->getOperands(), second->getOperands()),
                                 [&](auto pair) { return isSame(std::get<0>(pair), std::get<1>(pair)); });
}

bool SameElements::haveSameBase(const Index &one, const Index &other) const {
  if (!one.base || !other.base) return !one.base && !other.base;
  return one.instance == other.instance && isSame(one.base, other.base);
}

bool SameElements::isSameElement(ArrayRef<Index> one, ArrayRef<Index> other) const {
  return llvm::all_of(llvm::zip(one, other), [&](auto pair) {
    return haveSameBase(std::get<0>(pair), std::get<1>(pair)) && std::get<0>(pair).distance == std::get<1>(pair).distance;
  });
}

bool SameElements::isAnotherElement(ArrayRef<Index> one, ArrayRef<Index> other) const {
  return llvm::any_of(llvm::zip(one, other), [&](auto pair) {
    auto [index, otherIndex] = pair;
    if (haveSameBase(index, otherIndex)) return index.distance != otherIndex.distance;
    std::optional<IndexRange> range = findRange(index), otherRange = findRange(otherIndex);
    return range && otherRange && (range->last < otherRange->first || otherRange->last < range->first);
  });
}

} // namespace qd::passes
