// unused_values.cpp: erases unused operations while the frontend is still building the module
//
// In:   values that have lost a use.
// Out:  the module without them and without the computations that only they used, variables included.
// Here: assertions that are not checked, and reads that became atomic updates, leave such computations behind.
#include "frontend/unused_values.h"

#include "frontend/session.h"
#include "ir/attributes.h"

using namespace mlir;

namespace qd::frontend {

void UnusedEraser::add(mlir::Value value) {
  Operation *definition = value.getDefiningOp();
  if (definition && around->isProperAncestor(definition)) pending.insert(definition);
}

void UnusedEraser::run() {
  while (!pending.empty()) {
    Operation *op = pending.pop_back_val();
    if (op->use_empty() && isRemovable(op)) erase(op);
  }
}

bool UnusedEraser::isRemovable(Operation *op) {
  // The whole function shares inputs.
  if (isa<ir::ArgumentOp, ir::TensorArgumentOp, ir::SharedOp>(op)) return false;
  auto walked = op->walk([](Operation *inner) {
    bool canErase =
        isPure(inner) || isa<ir::LocalOp, ir::IfOp, ir::YieldOp>(inner) || (isa<ir::LoadOp>(inner) && !inner->hasAttr(ir::kVolatile));
    return canErase ? WalkResult::advance() : WalkResult::interrupt();
  });
  return !walked.wasInterrupted();
}

void UnusedEraser::erase(Operation *op) {
  op->walk([&](Operation *inner) {
    for (mlir::Value operand : inner->getOperands()) add(operand);
  });
  op->walk([&](Operation *inner) { pending.remove(inner); });
  mlir::Value place = isa<ir::LoadOp>(op) ? op->getOperand(0) : mlir::Value();
  op->erase();
  if (place) dropStores(place);
}

/// The result of a branch is a variable. If no operation reads it, its stores are erased too.
void UnusedEraser::dropStores(mlir::Value place) {
  auto local = place.getDefiningOp<ir::LocalOp>();
  if (!local || !around->isProperAncestor(local) || !llvm::all_of(local->getUsers(), llvm::IsaPred<ir::StoreOp>)) return;
  for (Operation *store : llvm::make_early_inc_range(local->getUsers())) {
    add(store->getOperand(0));
    if (isa<ir::IfOp>(store->getParentOp())) pending.insert(store->getParentOp());
    store->erase();
  }
  pending.insert(local);
}

void Session::dropUnchecked(Operation *inside) {
  UnusedEraser eraser(inside);
  llvm::erase_if(unchecked, [&](ir::AssertOp assertion) {
    if (!inside->isProperAncestor(assertion)) return false;
    eraser.add(assertion.getCondition());
    assertion.erase();
    return true;
  });
  eraser.run();
}

} // namespace qd::frontend
