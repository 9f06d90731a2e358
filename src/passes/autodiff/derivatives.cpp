// derivatives.cpp: partial derivatives of the operations of builtins.def
//
// In:   an element-wise operation and its values.
// Out:  code for its partial derivatives.
// Here: both modes of differentiation use this table. The switches name every operation, so that a new one does not compile without an
//       entry here.
#include "passes/autodiff/derivatives.h"

#include "ir/code.h"

#include <cmath>
#include <numbers>

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

namespace {

/// Writes formulas on values of one type.
class Formula : public Code {
public:
  Formula(OpBuilder &builder, Location loc, Type result) : Code(builder, loc), result(result) {}

  Value constant(double value) { return makeFloat(builder, loc, result, value); }
  Value mul(Value x, Value y) { return binary(BinaryKind::mul, x, y); }
  Value div(Value x, Value y) { return binary(BinaryKind::div, x, y); }
  Value neg(Value x) { return unary(UnaryKind::neg, x); }
  Value oneMinusSquare(Value x) { return sub(constant(1), mul(x, x)); }
  Value onePlusSquare(Value x) { return add(constant(1), mul(x, x)); }
  Value reciprocal(Value x) { return div(constant(1), x); }
  Value isZero(Value x) { return binary(BinaryKind::eq, x, constant(0)); }

private:
  Type result;
};

Partial bounded(Value value) { return {Partial::Kind::Factor, value, false}; }
/// For a formula with a pole: a change of zero stays zero there.
Partial unbounded(Value value) { return {Partial::Kind::Factor, value, true}; }
Partial when(Value condition) { return {Partial::Kind::When, condition, false}; }

/// dy/dx of y = op(x).
Partial deriveUnary(UnaryKind kind, Formula f, Value x, Value y) {
  switch (kind) {
  case UnaryKind::neg: return {Partial::Kind::MinusOne, {}, false};
  case UnaryKind::abs: {
    Value zero = f.constant(0);
    Value side = f.select(f.binary(BinaryKind::gt, x, zero), f.constant(1), f.constant(-1));
    return bounded(f.select(f.isZero(x), zero, side));
  }
  case UnaryKind::sqrt: return unbounded(f.div(f.constant(0.5), y));
  case UnaryKind::rsqrt: return unbounded(f.div(f.mul(f.constant(-0.5), y), x));
  case UnaryKind::sin: return bounded(f.unary(UnaryKind::cos, x));
  case UnaryKind::cos: return bounded(f.neg(f.unary(UnaryKind::sin, x)));
  case UnaryKind::tan: return unbounded(f.onePlusSquare(y));
  case UnaryKind::asin: return unbounded(f.unary(UnaryKind::rsqrt, f.oneMinusSquare(x)));
  case UnaryKind::acos: return unbounded(f.neg(f.unary(UnaryKind::rsqrt, f.oneMinusSquare(x))));
  case UnaryKind::atan: return bounded(f.reciprocal(f.onePlusSquare(x)));
  case UnaryKind::sinh: return unbounded(f.unary(UnaryKind::cosh, x));
  case UnaryKind::cosh: return unbounded(f.unary(UnaryKind::sinh, x));
  case UnaryKind::tanh: return bounded(f.oneMinusSquare(y));
  case UnaryKind::exp: return unbounded(y);
  case UnaryKind::exp2: return unbounded(f.mul(y, f.constant(std::numbers::ln2)));
  case UnaryKind::log: return unbounded(f.reciprocal(x));
  case UnaryKind::log2: return unbounded(f.div(f.constant(std::numbers::log2e), x));
  case UnaryKind::log10: return unbounded(f.div(f.constant(std::numbers::log10e), x));
  case UnaryKind::log1p: return unbounded(f.reciprocal(f.binary(BinaryKind::add, x, f.constant(1))));
  case UnaryKind::expm1: return unbounded(f.binary(BinaryKind::add, y, f.constant(1)));
  case UnaryKind::asinh: return bounded(f.unary(UnaryKind::rsqrt, f.onePlusSquare(x)));
  case UnaryKind::acosh: return unbounded(f.unary(UnaryKind::rsqrt, f.neg(f.oneMinusSquare(x))));
  case UnaryKind::atanh: return unbounded(f.reciprocal(f.oneMinusSquare(x)));
  case UnaryKind::cbrt: return unbounded(f.reciprocal(f.mul(f.constant(3), f.mul(y, y))));
  case UnaryKind::erf:
  case UnaryKind::erfc: {
    double slope = kind == UnaryKind::erf ? 2 * std::numbers::inv_sqrtpi : -2 * std::numbers::inv_sqrtpi;
    return bounded(f.mul(f.constant(slope), f.unary(UnaryKind::exp, f.neg(f.mul(x, x)))));
  }
  case UnaryKind::mantissa: {
    // x = mantissa * 2^exponent
    Value scaled = f.div(y, x);
    return bounded(f.select(f.isZero(x), f.constant(1), scaled));
  }
  // Piecewise constant.
  case UnaryKind::floor:
  case UnaryKind::ceil:
  case UnaryKind::round:
  case UnaryKind::trunc:
  // Integers or truth values.
  case UnaryKind::bit_not:
  case UnaryKind::logical_not:
  case UnaryKind::isnan:
  case UnaryKind::isinf:
  case UnaryKind::popcnt:
  case UnaryKind::clz:
  case UnaryKind::ffs:
  case UnaryKind::exponent: return {};
  }
  return {};
}

/// The partials of z = x ** y. An integer exponent has none.
SmallVector<Partial, 2> derivePower(OpBuilder &builder, Location loc, Formula f, Value x, Value y, Value z) {
  bool isReal = isFloatScalar(getScalar(y.getType()));
  Value exponent = isReal ? y : Value(CastOp::create(builder, loc, x.getType(), y));
  Value one = isReal ? f.constant(1) : makeInteger(builder, loc, y.getType(), 1);
  Value below = f.binary(BinaryKind::pow, x, f.binary(BinaryKind::sub, y, one));
  SmallVector<Partial, 2> partials{unbounded(f.select(f.isZero(exponent), f.constant(0), f.mul(exponent, below))), {}};
  // 0 ** y is constant for positive y, although log(0) is not finite.
  if (isReal) partials[1] = unbounded(f.select(f.isZero(z), f.constant(0), f.mul(z, f.unary(UnaryKind::log, x))));
  return partials;
}

/// dz/dx and dz/dy of z = op(x, y).
SmallVector<Partial, 2> deriveBinary(OpBuilder &builder, BinaryOp op, Formula f, Value x, Value y, Value z) {
  Partial one{Partial::Kind::One, {}, false}, minusOne{Partial::Kind::MinusOne, {}, false};
  switch (op.getBinaryKind()) {
  case BinaryKind::add: return {one, one};
  case BinaryKind::sub: return {one, minusOne};
  case BinaryKind::mul: return {bounded(y), bounded(x)};
  case BinaryKind::div:
  case BinaryKind::raw_div: {
    Value inverse = f.reciprocal(y);
    return {unbounded(inverse), unbounded(f.neg(f.mul(z, inverse)))};
  }
  case BinaryKind::mod: return {one, bounded(f.neg(f.unary(UnaryKind::floor, f.div(x, y))))};
  case BinaryKind::raw_mod: return {one, bounded(f.neg(f.unary(UnaryKind::trunc, f.div(x, y))))};
  case BinaryKind::ldexp: return {unbounded(f.binary(BinaryKind::ldexp, f.constant(1), y)), {}};
  case BinaryKind::pow: return derivePower(builder, op.getLoc(), f, x, y, z);
  case BinaryKind::atan2: {
    Value square = f.add(f.mul(x, x), f.mul(y, y));
    return {unbounded(f.div(y, square)), unbounded(f.neg(f.div(x, square)))};
  }
  case BinaryKind::hypot: return {unbounded(f.div(x, z)), unbounded(f.div(y, z))};
  case BinaryKind::copysign: {
    Value sides = f.mul(f.binary(BinaryKind::copysign, f.constant(1), x), f.binary(BinaryKind::copysign, f.constant(1), y));
    return {bounded(f.select(f.isZero(x), f.constant(0), sides)), {}};
  }
  case BinaryKind::min:
  case BinaryKind::max: {
    // A NaN is ignored: the other operand is the result.
    auto compare = op.getBinaryKind() == BinaryKind::min ? BinaryKind::le : BinaryKind::ge;
    Value isLeft = f.binary(BinaryKind::bit_or, f.binary(compare, x, y), f.unary(UnaryKind::isnan, y));
    return {when(isLeft), when(f.unary(UnaryKind::logical_not, isLeft))};
  }
  // Piecewise constant.
  case BinaryKind::floor_div:
  // Integers or truth values.
  case BinaryKind::bit_and:
  case BinaryKind::bit_or:
  case BinaryKind::bit_xor:
  case BinaryKind::shl:
  case BinaryKind::shr:
  case BinaryKind::bit_shr:
  case BinaryKind::lt:
  case BinaryKind::le:
  case BinaryKind::gt:
  case BinaryKind::ge:
  case BinaryKind::eq:
  case BinaryKind::ne: return {{}, {}};
  }
  return {{}, {}};
}

} // namespace

bool isDifferentiable(Operation *op) {
  if (op->getNumResults() != 1 || !isValue(op->getResult(0).getType()) || !isFloatScalar(getScalar(op->getResult(0).getType())))
    return false;
  if (auto unary = dyn_cast<UnaryOp>(op))
    return !llvm::is_contained({UnaryKind::floor, UnaryKind::ceil, UnaryKind::round, UnaryKind::trunc}, unary.getUnaryKind());
  if (auto binary = dyn_cast<BinaryOp>(op)) return binary.getBinaryKind() != BinaryKind::floor_div;
  return isa<CastOp, FmaOp, SelectOp, VectorOp, BroadcastOp, ExtractOp, ExtractAtOp, ReduceOp, MatmulOp, TransposeOp>(op);
}

SmallVector<Partial, 2> computePartials(OpBuilder &builder, Operation *op, ValueRange operands, Value result) {
  Formula formula(builder, op->getLoc(), result.getType());
  if (auto unary = dyn_cast<UnaryOp>(op)) return {deriveUnary(unary.getUnaryKind(), formula, operands[0], result)};
  if (auto binary = dyn_cast<BinaryOp>(op)) return deriveBinary(builder, binary, formula, operands[0], operands[1], result);
  if (isa<FmaOp>(op)) return {bounded(operands[1]), bounded(operands[0]), {Partial::Kind::One, {}, false}};
  return {{Partial::Kind::One, {}, false}};
}

Value scale(OpBuilder &builder, Location loc, const Partial &partial, Value change) {
  Formula f(builder, loc, change.getType());
  switch (partial.kind) {
  case Partial::Kind::Zero: return {};
  case Partial::Kind::One: return change;
  case Partial::Kind::MinusOne: return f.neg(change);
  case Partial::Kind::When: return f.select(partial.value, change, makeZero(builder, loc, change.getType()));
  case Partial::Kind::Factor: break;
  }
  Value product = f.mul(partial.value, change);
  return partial.mayBeInfinite ? f.select(f.isZero(change), makeZero(builder, loc, change.getType()), product) : product;
}

} // namespace qd::passes
