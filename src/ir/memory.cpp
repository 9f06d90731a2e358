// memory.cpp: queries on places and on the operations that access them
//
// In:   places, which are chains of operations from a base to an element or a component; operations.
// Out:  the base of a place; the places that an operation reads or writes.
// Here: only the interfaces of interfaces.td are asked, so that a new operation on memory needs no change.
#include "ir/memory.h"

using namespace mlir;

namespace qd::ir {

Value findWhole(Value place) {
  while (auto component = place.getDefiningOp<ComponentOp>()) place = component.getRef();
  return place;
}

Value findBase(Value place) {
  while (auto part = place.getDefiningOp<PlaceOpInterface>()) place = part.getBase();
  return place;
}

static SmallVector<Value, 1> listPlaces(Operation *op, bool (MemoryAccessOpInterface::*accesses)()) {
  SmallVector<Value, 1> places;
  if (auto access = dyn_cast<MemoryAccessOpInterface>(op); access && (access.*accesses)()) places.push_back(access.getRef());
  if (isa<CallOp>(op))
    llvm::copy_if(op->getOperands(), std::back_inserter(places), [](Value operand) { return isa<RefType>(operand.getType()); });
  return places;
}

SmallVector<Value, 1> listReadPlaces(Operation *op) { return listPlaces(op, &MemoryAccessOpInterface::reads); }

SmallVector<Value, 1> listWrittenPlaces(Operation *op) { return listPlaces(op, &MemoryAccessOpInterface::writes); }

SmallVector<TensorArgumentOp, 1> listWrittenContainers(Operation *op) {
  SmallVector<Value, 1> places = isa<CallOp>(op) ? SmallVector<Value, 1>(op->getOperands()) : listWrittenPlaces(op);
  SmallVector<TensorArgumentOp, 1> containers;
  for (Value place : places)
    if (TensorArgumentOp argument = findContainer(place)) containers.push_back(argument);
  return containers;
}

bool writesContainer(Operation *op) {
  auto access = dyn_cast<MemoryAccessOpInterface>(op);
  return access && access.writes() && isOfContainer(access.getRef());
}

bool isOnlyRead(Value place) {
  return llvm::all_of(place.getUsers(), [](Operation *user) {
    if (auto part = dyn_cast<PlaceOpInterface>(user)) return isOnlyRead(part->getResult(0));
    auto access = dyn_cast<MemoryAccessOpInterface>(user);
    return access && !access.writes();
  });
}

std::optional<ConstantSum> splitConstant(Value value) {
  auto op = value.getDefiningOp<BinaryOp>();
  bool isDifference = op && op.getBinaryKind() == BinaryKind::sub;
  if (!op || (!isDifference && op.getBinaryKind() != BinaryKind::add)) return std::nullopt;
  if (std::optional<int64_t> amount = findInteger(op.getRhs())) return ConstantSum{op.getLhs(), isDifference ? -*amount : *amount};
  std::optional<int64_t> amount = isDifference ? std::nullopt : findInteger(op.getLhs());
  return amount ? std::optional(ConstantSum{op.getRhs(), *amount}) : std::nullopt;
}

bool isShifted(Value value, llvm::function_ref<bool(Value)> isBase, llvm::function_ref<bool(Value)> isFixed) {
  if (isBase(value)) return true;
  auto op = value.getDefiningOp<BinaryOp>();
  bool isSum = op && op.getBinaryKind() == BinaryKind::add;
  if (!op || (!isSum && op.getBinaryKind() != BinaryKind::sub)) return false;
  if (isShifted(op.getLhs(), isBase, isFixed)) return isFixed(op.getRhs());
  return isSum && isFixed(op.getLhs()) && isShifted(op.getRhs(), isBase, isFixed);
}

bool dependsOn(Value value, Value index, llvm::function_ref<bool(LocalOp)> varies) {
  if (value == index) return true;
  Operation *op = value.getDefiningOp();
  if (auto local = dyn_cast_or_null<LocalOp>(op)) return varies && varies(local);
  return op && index.getParentRegion()->isAncestor(op->getParentRegion()) &&
         llvm::any_of(op->getOperands(), [&](Value operand) { return dependsOn(operand, index, varies); });
}

} // namespace qd::ir
