// stopped_gradients.cpp: `qd.stop_grad(container)`
//
// In:   calls of qd.stop_grad, and loads in the loops around them.
// Out:  loads whose values derivatives treat as constants.
// Here: the loads are changed when they are emitted, so that the passes need no operation for it.
#include "frontend/builder.h"

namespace qd::frontend {

/// The innermost loop around the statement, or the function itself.
static mlir::Operation *findLoop(mlir::OpBuilder &builder) {
  mlir::Operation *op = builder.getInsertionBlock()->getParentOp();
  while (!mlir::isa<ir::ForOp, ir::WhileOp>(op) && op->getParentOp() && !mlir::isa<mlir::ModuleOp>(op->getParentOp()))
    op = op->getParentOp();
  return op;
}

void FunctionBuilder::stopGradient(const Value &container) {
  if (!isTensor(container)) fail(error::kType, "qd.stop_grad takes a field or an array, got " + describe(container));
  if (session.request.mode != support::AutodiffMode::None) stopped.push_back({findLoop(builder), getInput(toTensor(container))});
}

bool FunctionBuilder::isStopped(mlir::Value place) {
  if (stopped.empty()) return false;
  mlir::Operation *op = place.getDefiningOp();
  while (op && !mlir::isa<ir::ElementOp>(op)) op = op->getNumOperands() ? op->getOperand(0).getDefiningOp() : nullptr;
  if (!op) return false;
  mlir::Operation *around = builder.getInsertionBlock()->getParentOp();
  return llvm::any_of(stopped, [&](const auto &entry) {
    return entry.container == op->getOperand(0) && (entry.loop == around || entry.loop->isProperAncestor(around));
  });
}

/// Casts the value to its bits and back, because bit casts have no derivative.
mlir::Value FunctionBuilder::withoutDerivative(mlir::Value value) {
  mlir::Type scalar = ir::getScalar(value.getType());
  if (!mlir::isa<mlir::FloatType>(scalar)) return value;
  mlir::Type bits = mlir::IntegerType::get(&session.ctx, scalar.getIntOrFloatBitWidth(), mlir::IntegerType::Signed);
  mlir::Value number = create<ir::BitCastOp>(ir::withScalar(value.getType(), bits), value);
  return create<ir::BitCastOp>(value.getType(), number);
}

} // namespace qd::frontend
