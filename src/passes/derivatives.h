// derivatives.h: partial derivatives of the rows of builtins.def
#pragma once

#include "ir/dialect.h"

#include "mlir/IR/Builders.h"

namespace qd::passes {

/// Whether the result changes smoothly with the operands: floats in, a float out, and not constant between jumps.
bool isDifferentiable(mlir::Operation *op);

/// What multiplies a change of an operand to give the change of the result, component by component.
struct Partial {
  enum class Kind : uint8_t { Zero, One, MinusOne, Factor, When };
  Kind kind = Kind::Zero;
  mlir::Value value;          ///< Factor: of the operand's type; When: a condition, the partial is 1 where it holds and 0 elsewhere
  bool mayBeInfinite = false; ///< Factor: a change of 0 stays 0
};

/// Partials of an element-wise operation (unary, binary or cast) by each of its operands. `operands` and `result` give its values.
/// At kinks: abs has 0 at 0; min and max of equal operands follow the left one; x % y has -floor(x / y) by y.
llvm::SmallVector<Partial, 2> computePartials(mlir::OpBuilder &builder, mlir::Operation *op, mlir::ValueRange operands, mlir::Value result);

/// `partial * change`; null for a partial of zero.
mlir::Value scale(mlir::OpBuilder &builder, mlir::Location loc, const Partial &partial, mlir::Value change);

/// A float constant, in every component. The zero is negative: adding it changes nothing at all.
mlir::Value makeFloat(mlir::OpBuilder &builder, mlir::Location loc, mlir::Type type, double value);
inline mlir::Value makeZero(mlir::OpBuilder &builder, mlir::Location loc, mlir::Type type) { return makeFloat(builder, loc, type, -0.0); }
/// An integer or u1 constant.
mlir::Value makeInteger(mlir::OpBuilder &builder, mlir::Location loc, mlir::Type type, int64_t value);

} // namespace qd::passes
