// lane_rules.h: how operations propagate lane kinds: the transfer functions of the divergence analysis
//
// The analysis (uniformity.h) and the emitter both use them, so a component in the emitter may be more regular than the analysis found (it
// folds more constants), but never less.
#pragma once

#include "codegen/llvm/lane_kind.h"
#include "ir/dialect.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace qd::codegen {

/// One component of an operand.
struct OperandKind {
  LaneKind kind;
  std::optional<int64_t> constant;
};

/// Whether each component of the result is computed from one component of each operand.
bool isElementwise(mlir::Operation *op);
/// The kind of one component of the result of an elementwise operation.
LaneKind getElementwiseKind(mlir::Operation *op, llvm::ArrayRef<OperandKind> operands);
/// The kind of a result that is computed per lane.
LaneKind getPlainKind(llvm::ArrayRef<OperandKind> operands);
/// The kind of `lhs op rhs`; `type` is that of the operands or of the result.
LaneKind getBinaryKind(ir::BinaryKind op, mlir::Type type, const OperandKind &lhs, const OperandKind &rhs);
LaneKind getSelectKind(LaneKind condition, LaneKind a, LaneKind b);
/// The kind of a component whose index is known at run time.
LaneKind getChosenKind(bool isIndexUniform, llvm::ArrayRef<LaneKind> components);
/// The kind of the index of a loop that begins at `lower`.
LaneKind getIndexKind(LaneKind lower, LaneKind step, std::optional<int64_t> constantStep);

/// Reorders data of a matrix's components into the order of its transpose.
template <typename List> List getTransposed(const List &from, mlir::VectorType type) {
  List result;
  int64_t rows = type.getDimSize(0), columns = type.getRank() == 2 ? type.getDimSize(1) : 1;
  for (int64_t column = 0; column < columns; ++column)
    for (int64_t row = 0; row < rows; ++row) result.push_back(from[size_t(row * columns + column)]);
  return result;
}

/// The result of an operation that only moves components, from data of its operands' components; nothing for other operations.
template <typename List> std::optional<List> moveComponents(mlir::Operation *op, llvm::function_ref<const List &(mlir::Value)> get) {
  if (auto vector = llvm::dyn_cast<ir::VectorOp>(op)) {
    List result;
    for (mlir::Value component : vector.getComponents()) result.push_back(get(component)[0]);
    return result;
  }
  if (auto broadcast = llvm::dyn_cast<ir::BroadcastOp>(op))
    return List(size_t(ir::getComponentCount(broadcast.getType())), List(get(broadcast.getOperand()))[0]);
  if (auto extract = llvm::dyn_cast<ir::ExtractOp>(op)) return List{List(get(extract.getOperand()))[extract.getComponent()]};
  if (auto transpose = llvm::dyn_cast<ir::TransposeOp>(op))
    return getTransposed<List>(get(transpose.getOperand()), llvm::cast<mlir::VectorType>(transpose.getOperand().getType()));
  return std::nullopt;
}

} // namespace qd::codegen
