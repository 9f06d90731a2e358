// stopped_gradients.cpp: `qd.stop_grad(container)`
//
// In:   calls of qd.stop_grad, and loads in the loops around them.
// Out:  loads whose values derivatives treat as constants.
// Here: the loads are changed when they are emitted, so that the passes need no operation for it.
#include "frontend/builder.h"
#include "ir/memory.h"

namespace qd::frontend {

/// The innermost loop around the statement, or the function itself.
static mlir::Operation *findLoop(mlir::OpBuilder &builder) {
  mlir::Operation *op = builder.getInsertionBlock()->getParentOp();
  while (!mlir::isa<ir::ForOp, ir::WhileOp>(op) && op->getParentOp() && !mlir::isa<mlir::ModuleOp>(op->getParentOp()))
    op = op->getParentOp();
  return op;
}

void StoppedGradients::stopGradient(const Operand &container) {
  if (!conversions.isTensor(container))
    fail(error::kType, "qd.stop_grad takes a field or an array, got " + conversions.describe(container));
  if (session.request.mode == support::AutodiffMode::None) return;
  Tensor tensor = conversions.toTensor(container);
  context.stopped.push_back({findLoop(builder), conversions.getInput(tensor.input, tensor.type)});
}

bool StoppedGradients::isStopped(mlir::Value place) {
  if (context.stopped.empty()) return false;
  ir::ElementOp element = ir::findElement(place);
  if (!element) return false;
  mlir::Operation *around = builder.getInsertionBlock()->getParentOp();
  return llvm::any_of(context.stopped, [&](const auto &entry) {
    return entry.container == element.getTensor() && (entry.loop == around || entry.loop->isProperAncestor(around));
  });
}

/// Casts the value to its bits and back, because bit casts have no derivative.
mlir::Value StoppedGradients::withoutDerivative(mlir::Value value) {
  mlir::Type scalar = ir::getScalar(value.getType());
  if (!mlir::isa<mlir::FloatType>(scalar)) return value;
  mlir::Type bits = mlir::IntegerType::get(&session.ctx, scalar.getIntOrFloatBitWidth(), mlir::IntegerType::Signed);
  mlir::Value number = create<ir::BitCastOp>(ir::withScalar(value.getType(), bits), value);
  return create<ir::BitCastOp>(value.getType(), number);
}

} // namespace qd::frontend
