// derivatives.h: partial derivatives of the operations of builtins.def
#pragma once

#include "ir/dialect.h"

#include "mlir/IR/Builders.h"

namespace qd::passes {

/// Whether the operation has a derivative: its operands and its result are floats, and it is not piecewise constant.
bool isDifferentiable(mlir::Operation *op);

/// Partial derivative of the result with respect to an operand, component by component.
struct Partial {
  enum class Kind : uint8_t { Zero, One, MinusOne, Factor, When };
  Kind kind = Kind::Zero;
  mlir::Value value;          ///< Factor: has the operand's type; When: a condition; the partial is 1 where it holds and 0 elsewhere
  bool mayBeInfinite = false; ///< Factor: a change of 0 gives 0 even where the factor is infinite
};

/// Partials of an element-wise operation (unary, binary, fma or cast) with respect to each operand. `operands` and `result` are its values.
/// At kinks: the partial of abs at 0 is 0; min and max of equal operands follow the left one; x % y has the partial -floor(x / y) for y.
llvm::SmallVector<Partial, 2> computePartials(mlir::OpBuilder &builder, mlir::Operation *op, mlir::ValueRange operands, mlir::Value result);

/// `partial * change`; null if the partial is zero.
mlir::Value scale(mlir::OpBuilder &builder, mlir::Location loc, const Partial &partial, mlir::Value change);

} // namespace qd::passes
