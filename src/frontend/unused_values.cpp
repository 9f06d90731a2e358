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
    if (op->use_empty() && isHarmless(op)) erase(op);
  }
}

bool UnusedEraser::isHarmless(Operation *op) {
  // Inputs are shared by the whole function.
  if (isa<ir::ArgumentOp, ir::TensorArgumentOp, ir::SharedOp>(op)) return false;
  auto walked = op->walk([](Operation *inner) {
    bool isOne =
        isPure(inner) || isa<ir::LocalOp, ir::IfOp, ir::YieldOp>(inner) || (isa<ir::LoadOp>(inner) && !inner->hasAttr(ir::kVolatile));
    return isOne ? WalkResult::advance() : WalkResult::interrupt();
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

/// The result of a branch is a variable; when nobody reads it, the branch need not store it.
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
