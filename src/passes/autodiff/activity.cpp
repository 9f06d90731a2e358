// activity.cpp: find the active values of a module (activity analysis)
//
// In:   a module whose containers name their gradients or tangents (kShadow).
// Out:  the set of values, places and containers that may depend on a container with a shadow.
// Here: both modes of differentiation emit derivatives of active values only.
#include "passes/autodiff/activity.h"

#include "ir/attributes.h"
#include "ir/memory.h"
#include "passes/autodiff/derivatives.h"

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

static bool isFloat(Type type) {
  if (auto ref = dyn_cast<RefType>(type)) type = ref.getPointee();
  return isValue(type) && isFloatScalar(getScalar(type));
}

Activity::Activity(ModuleOp module) : calls(module) {
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
  if (auto part = dyn_cast<PlaceOpInterface>(op)) return isKnown(findBase(part.getBase())) && mark(part->getResult(0));
  if (auto access = dyn_cast<MemoryAccessOpInterface>(op)) {
    Value base = findBase(access.getRef());
    bool changed = access.writes() && isKnown(access.getStored()) && !isOfContainer(base) && mark(base);
    return (access.reads() && isKnown(base) && mark(access->getResult(0))) || changed;
  }
  if (isDifferentiable(op) && llvm::any_of(op->getOperands(), isKnown)) return mark(op->getResult(0));
  return false;
}

bool Activity::visitCall(CallOp call) {
  FuncOp function = calls.lookup(call);
  if (!function) return false;
  bool changed = false;
  for (auto [operand, parameter] : llvm::zip(call.getArguments(), function.getBody().getArguments())) {
    bool isPlace = isa<RefType>(operand.getType());
    Value base = isPlace ? findBase(operand) : operand;
    if (active.contains(base)) changed |= mark(parameter);
    if (isPlace && active.contains(parameter) && !isOfContainer(base)) changed |= mark(base);
  }
  function.walk([&](ReturnOp op) {
    for (auto [value, output] : llvm::zip(op.getValues(), call.getOutputs()))
      if (active.contains(value)) changed |= mark(output);
  });
  return changed;
}

} // namespace qd::passes
