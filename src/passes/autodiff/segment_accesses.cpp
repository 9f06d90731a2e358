// segment_accesses.cpp: list the accesses of a segment to one container, and decide what its loads read
//
// In:   consecutive statements that one thread runs, and a container.
// Out:  the accesses in program order, with flags for each load: written before, overwritten afterwards.
// Here: promote_elements.cpp decides by these flags which elements become variables.
#include "passes/autodiff/segment_accesses.h"

#include "ir/attributes.h"
#include "ir/memory.h"

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

ValueRange Access::getComponent() const {
  auto component = op.getRef().getDefiningOp<ComponentOp>();
  return component ? ValueRange(component.getIndices()) : ValueRange();
}

//--- Accesses ---

SegmentAccesses::SegmentAccesses(const Segment &segment, uint32_t container, const SameElements &elements, FunctionAccesses &functions)
    : segment(segment), block(segment.front()->getBlock()), elements(elements) {
  for (Operation *op : segment)
    op->walk<WalkOrder::PreOrder>([&](Operation *inner) {
      auto isOf = [&](Value place) {
        TensorArgumentOp found = findContainer(place);
        return found && found.getOffset() == container;
      };
      auto access = dyn_cast<MemoryAccessOpInterface>(inner);
      if (access && !access.isAtomic() && isOf(access.getRef())) return record(access);
      if (auto call = dyn_cast<CallOp>(inner)) hasOtherAccesses |= functions.get(call).touched.contains(container);
      hasOtherAccesses |= llvm::any_of(listReadPlaces(inner), isOf);
    });
}

void SegmentAccesses::record(MemoryAccessOpInterface op) {
  ElementOp element = findElement(op.getRef());
  Indices indices = splitIndices(element);
  auto *found = llvm::find_if(addresses, [&](const Indices &other) { return elements.isSameElement(indices, other); });
  all.push_back({op, element, unsigned(found - addresses.begin())});
  if (found == addresses.end()) addresses.push_back(indices);
}

bool SegmentAccesses::isInvariant(Value index) const {
  if (!index || isOutside(index)) return true;
  Operation *definition = index.getDefiningOp();
  if (!definition) return false;
  if (listLoops(definition).empty()) return true;
  auto load = dyn_cast<LoadOp>(definition);
  if (load ? !elements.isSameConstant(load) : isa<LocalOp>(definition) || !isPure(definition)) return false;
  return llvm::all_of(definition->getOperands(), [&](Value operand) { return isInvariant(operand); });
}

bool SegmentAccesses::isInvariant(ArrayRef<Index> indices) const {
  return llvm::all_of(indices, [&](const Index &index) { return isInvariant(index.base); });
}

SmallVector<Operation *, 2> SegmentAccesses::listLoops(Operation *op) const {
  SmallVector<Operation *, 2> loops;
  while (op->getBlock() != block) {
    op = op->getParentOp();
    if (isa<ForOp, WhileOp>(op)) loops.push_back(op);
  }
  return loops;
}

bool SegmentAccesses::isOutside(Value value) const {
  Block *definingBlock = value.getParentBlock();
  if (Operation *definition = value.getDefiningOp(); definition && definingBlock == block) return !llvm::is_contained(segment, definition);
  return llvm::none_of(segment, [&](Operation *op) {
    return llvm::any_of(op->getRegions(), [&](Region &region) { return region.isAncestor(definingBlock->getParent()); });
  });
}

//--- Coverage ---

static Type getElementType(const Access &access) { return cast<RefType>(access.element.getType()).getPointee(); }

Coverage::Coverage(SegmentAccesses &accesses, ArrayRef<unsigned> rowAxes)
    : accesses(accesses), rowAxes(rowAxes), componentCount(getComponentCount(getElementType(accesses.all.front()))) {
  for (Access &access : accesses.all) byOp[access.op] = &access;
  for (Operation *op : accesses.segment) visit(op, written);
  for (Access &access : accesses.all)
    if (!access.isStore()) classify(access);
}

void Coverage::visit(Operation *op, Written &known) {
  if (Access *access = byOp.lookup(op)) return access->isStore() ? write(*access, known) : read(*access, known);
  if (auto branch = dyn_cast<IfOp>(op)) return visitIf(branch, known);
  if (auto loop = dyn_cast<WhileOp>(op)) visit(loop.getConditionRegion().front(), known);
  if (!isa<ForOp, WhileOp>(op)) return;
  Written inside = known;
  visit(op->getRegions().back().front(), inside);
  auto loop = dyn_cast<ForOp>(op);
  auto isExit = [](Operation &inner) { return inner.hasAttr(kLoopExit); };
  if (!loop || llvm::any_of(loop.getBody().front(), isExit)) return;
  for (unsigned address = 0; address < accesses.addresses.size(); ++address)
    if (isWritten(address, inside) && coversIndices(loop, address)) known.loopWrites.push_back({address, loop});
}

void Coverage::visit(Block &block, Written &known) {
  for (Operation &op : block) visit(&op, known);
}

void Coverage::visitIf(IfOp branch, Written &known) {
  Written then = known, otherwise = known;
  visit(branch.getThenRegion().front(), then);
  if (!branch.getElseRegion().empty()) visit(branch.getElseRegion().front(), otherwise);
  for (auto component : then.components)
    if (otherwise.components.contains(component)) known.components.insert(component);
}

/// The number of the accessed component; nothing if the access is to all components, or if the component is chosen at run time.
static std::optional<int64_t> findComponent(const Access &access) {
  if (access.getComponent().empty()) return std::nullopt;
  int64_t number = 0;
  for (auto [axis, index] : llvm::enumerate(access.getComponent())) {
    std::optional<int64_t> known = findInteger(index);
    if (!known) return std::nullopt;
    number = number * cast<VectorType>(getElementType(access)).getDimSize(unsigned(axis)) + *known;
  }
  return number;
}

void Coverage::write(const Access &access, Written &known) {
  if (std::optional<int64_t> component = findComponent(access)) known.components.insert({access.address, *component});
  if (!access.getComponent().empty()) return;
  for (int64_t i = 0; i < componentCount; ++i) known.components.insert({access.address, i});
}

void Coverage::read(Access &access, const Written &known) {
  std::optional<int64_t> component = findComponent(access);
  access.isKnown = isWritten(access.address, known) || (component && known.components.contains({access.address, *component})) ||
                   isWrittenByLoop(accesses.addresses[access.address], known) || (!rowAxes.empty() && isRowWritten(known));
}

bool Coverage::isWritten(unsigned address, const Written &known) const {
  for (int64_t i = 0; i < componentCount; ++i)
    if (!known.components.contains({address, i})) return false;
  return true;
}

bool Coverage::isRowWritten(const Written &known) const {
  auto type = cast<ir::TensorType>(accesses.all.front().element.getTensor().getType());
  Indices indices = accesses.addresses.front();
  for (unsigned axis : rowAxes) indices[axis] = {Value(), type.getFirst(axis)};
  for (;;) {
    const Indices *found =
        llvm::find_if(accesses.addresses, [&](const Indices &other) { return accesses.elements.isSameElement(indices, other); });
    bool isOne = found != accesses.addresses.end() && isWritten(unsigned(found - accesses.addresses.begin()), known);
    if (!isOne && !isWrittenByLoop(indices, known)) return false;
    // The next element of the row.
    size_t number = 0;
    for (; number < rowAxes.size(); ++number) {
      int64_t &index = indices[rowAxes[number]].distance, first = type.getFirst(rowAxes[number]);
      if (++index < first + type.getExtents()[rowAxes[number]]) break;
      index = first;
    }
    if (number == rowAxes.size()) return true;
  }
}

/// Whether each index of the loop is exactly one index of the address.
bool Coverage::coversIndices(ForOp loop, unsigned address) const {
  return loop.getStep().empty() && llvm::all_of(loop.getBody().getArguments(), [&](Value argument) {
           return llvm::count_if(accesses.addresses[address],
                                 [&](const Index &index) { return index.base == argument && index.distance == 0; }) == 1;
         });
}

bool Coverage::isWrittenByLoop(ArrayRef<Index> indices, const Written &known) const {
  return llvm::any_of(known.loopWrites, [&](const LoopWrites &loopWrites) { return isWrittenByLoop(indices, loopWrites); });
}

/// Whether the loop has written the element: each index equals that of the loop's address, or is within the loop's bounds.
bool Coverage::isWrittenByLoop(ArrayRef<Index> indices, const LoopWrites &loopWrites) const {
  ForOp loop = loopWrites.loop;
  return llvm::all_of(llvm::zip(indices, accesses.addresses[loopWrites.address]), [&](auto pair) {
    auto [own, other] = pair;
    auto argument = dyn_cast_or_null<BlockArgument>(other.base);
    if (!argument || argument.getOwner() != &loop.getBody().front())
      return accesses.elements.haveSameBase(own, other) && own.distance == other.distance;
    Value lower = loop.getLower()[argument.getArgNumber()], upper = loop.getUpper()[argument.getArgNumber()];
    std::optional<int64_t> first = findInteger(lower), end = findInteger(upper);
    if (!own.base) return first && end && *first <= own.distance && own.distance < *end;
    auto ofLoop = dyn_cast<BlockArgument>(own.base);
    auto around = ofLoop ? dyn_cast<ForOp>(ofLoop.getOwner()->getParentOp()) : ForOp();
    if (!around || own.distance != 0) return false;
    unsigned axis = ofLoop.getArgNumber();
    bool goesUp = around.getStep().empty() || findInteger(around.getStep()[axis]).value_or(0) > 0;
    return goesUp && accesses.elements.isSame(around.getLower()[axis], lower) && accesses.elements.isSame(around.getUpper()[axis], upper);
  });
}

static bool areExclusive(Operation *one, Operation *other) {
  Operation *around = one->getParentOp();
  while (around && !around->isAncestor(other)) around = around->getParentOp();
  auto branch = dyn_cast_or_null<IfOp>(around);
  return branch && around != other &&
         branch.getThenRegion().isAncestor(one->getParentRegion()) != branch.getThenRegion().isAncestor(other->getParentRegion());
}

void Coverage::classify(Access &load) {
  load.isBefore = true;
  SmallVector<Operation *, 2> loops = accesses.listLoops(load.op);
  const Indices &one = accesses.addresses[load.address];
  for (const Access &store : accesses.all) {
    if (!store.isStore()) continue;
    const Indices &other = accesses.addresses[store.address];
    bool isAgain = llvm::any_of(loops, [&](Operation *loop) { return loop->isAncestor(store.op); });
    bool isFixed = !isAgain || (accesses.isInvariant(one) && accesses.isInvariant(other));
    if ((isFixed && accesses.elements.isAnotherElement(one, other)) || (!isAgain && areExclusive(load.op, store.op))) continue;
    bool comesFirst = comesBefore(store.op, load.op);
    load.isBefore &= !isAgain && !comesFirst;
    load.isAfter |= comesFirst;
    load.isOverwritten |= isAgain || !comesFirst;
    load.isSurelyOverwritten |= (isAgain || !comesFirst) && load.address == store.address;
  }
}

} // namespace qd::passes
