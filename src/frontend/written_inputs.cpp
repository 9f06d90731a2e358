// written_inputs.cpp: which containers a kernel writes, so that launches refuse read-only memory for those and only those, and which it
// updates atomically, so that updates through two arrays on one memory stay atomic
#include "frontend/session.h"
#include "ir/attributes.h"

#include "llvm/ADT/DenseSet.h"

using namespace mlir;

namespace qd::frontend {

/// What a place is a part of: a container's argument, a parameter of a func, or a variable.
static mlir::Value findRoot(mlir::Value ref) {
  while (Operation *op = ref.getDefiningOp()) {
    if (auto component = dyn_cast<ir::ComponentOp>(op))
      ref = component.getRef();
    else if (auto element = dyn_cast<ir::ElementOp>(op))
      ref = element.getTensor();
    else
      break;
  }
  return ref;
}

void Session::markWrittenInputs() {
  llvm::DenseSet<mlir::Value> written, updated;
  std::vector<std::pair<ir::CallOp, ir::FuncOp>> calls;
  llvm::StringMap<ir::FuncOp> funcs;
  for (auto func : module->getOps<ir::FuncOp>()) funcs[func.getSymName()] = func;
  module->walk([&](Operation *op) {
    if (auto store = dyn_cast<ir::StoreOp>(op))
      written.insert(findRoot(store.getRef()));
    else if (isa<ir::AtomicOp, ir::CompareExchangeOp>(op))
      updated.insert(findRoot(op->getOperand(0)));
    else if (auto call = dyn_cast<ir::CallOp>(op); call && llvm::any_of(call.getArguments().getTypes(), llvm::IsaPred<ir::RefType>))
      calls.emplace_back(call, funcs.lookup(call.getCallee()));
  });
  // A func that writes its parameter writes what its callers pass; chains of calls take as many rounds as they are long.
  for (bool changed = true; changed;) {
    changed = false;
    for (auto [call, func] : calls)
      for (auto [operand, parameter] : llvm::zip(call.getArguments(), func.getBody().getArguments()))
        for (llvm::DenseSet<mlir::Value> *found : {&written, &updated})
          if (isa<ir::RefType>(operand.getType()) && found->contains(parameter)) changed |= found->insert(findRoot(operand)).second;
  }
  for (auto [op, input] : tensorArguments) {
    bool isUpdated = updated.contains(op.getResult());
    artifact.inputs[input].isUpdated |= isUpdated;
    artifact.inputs[input].isWritten |= isUpdated || written.contains(op.getResult());
  }
  reader.markOverlaps();
  for (auto [op, input] : tensorArguments)
    if (artifact.inputs[input].mayAlias && !artifact.inputs[input].isField) op->setAttr(ir::kOverlaps, UnitAttr::get(&ctx));
}

} // namespace qd::frontend
