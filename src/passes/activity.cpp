// activity.cpp: find the active values of a module (activity analysis)
//
// In:   a module whose containers name their gradients or tangents (kShadow).
// Out:  the set of values, places and containers that may depend on a container with a shadow.
// Here: both modes of differentiation emit derivatives of active values only.
#include "passes/activity.h"

#include "ir/attributes.h"
#include "passes/derivatives.h"

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

Value findOrigin(Value place) {
  while (Operation *definition = place.getDefiningOp()) {
    if (!isa<ComponentOp, ElementOp>(definition)) break;
    place = definition->getOperand(0);
  }
  return place;
}

bool isOfContainer(Value place) { return isa<ir::TensorType>(findOrigin(place).getType()); }

static bool isFloat(Type type) {
  if (auto ref = dyn_cast<RefType>(type)) type = ref.getPointee();
  return isValue(type) && isFloatScalar(getScalar(type));
}

Activity::Activity(ModuleOp module) {
  for (FuncOp function : module.getOps<FuncOp>()) functions[function.getSymName()] = function;
  module.walk([&](TensorArgumentOp op) {
    if (op->hasAttr(kShadow)) active.insert(op);
  });
  for (bool changed = true; changed;) {
    changed = false;
    module.walk<WalkOrder::PreOrder>([&](Operation *op) { changed |= visit(op); });
  }
}

bool Activity::mark(Value value) {
  if (Operation *definition = value.getDefiningOp(); definition && definition->hasAttr(kPassive)) return false;
  return (isFloat(value.getType()) || isa<ir::TensorType>(value.getType())) && active.insert(value).second;
}

bool Activity::visit(Operation *op) {
  if (auto call = dyn_cast<CallOp>(op)) return visitCall(call);
  auto isKnown = [&](Value value) { return active.contains(value); };
  if (isa<ComponentOp, ElementOp>(op)) return isKnown(findOrigin(op->getOperand(0))) && mark(op->getResult(0));
  if (auto load = dyn_cast<LoadOp>(op)) return isKnown(findOrigin(load.getRef())) && mark(load);
  if (auto store = dyn_cast<StoreOp>(op))
    return isKnown(store.getValue()) && !isOfContainer(store.getRef()) && mark(findOrigin(store.getRef()));
  if (auto atomic = dyn_cast<AtomicOp>(op)) {
    Value origin = findOrigin(atomic.getRef());
    bool changed = isKnown(atomic.getValue()) && !isOfContainer(origin) && mark(origin);
    return (isKnown(origin) && mark(atomic)) || changed;
  }
  if (isDifferentiable(op) && llvm::any_of(op->getOperands(), isKnown)) return mark(op->getResult(0));
  return false;
}

bool Activity::visitCall(CallOp call) {
  FuncOp function = lookup(call);
  if (!function) return false;
  bool changed = false;
  for (auto [operand, parameter] : llvm::zip(call.getArguments(), function.getBody().getArguments())) {
    bool isPlace = isa<RefType>(operand.getType());
    Value origin = isPlace ? findOrigin(operand) : operand;
    if (active.contains(origin)) changed |= mark(parameter);
    if (isPlace && active.contains(parameter) && !isOfContainer(origin)) changed |= mark(origin);
  }
  function.walk([&](ReturnOp op) {
    for (auto [value, output] : llvm::zip(op.getValues(), call.getOutputs()))
      if (active.contains(value)) changed |= mark(output);
  });
  return changed;
}

} // namespace qd::passes
