// emitter.cpp: operations on typed IR values: casts, broadcasts, constants and vectors
//
// In:   IR values and types.
// Out:  ops in the current block.
// Here: promotion of scalar types, broadcasting of scalars, and the types of literals: default_ip, default_fp, or the type of the other
//       operand.
#include "frontend/builder.h"

using namespace mlir;

namespace qd::frontend {

using ir::BinaryResult;
using ir::OperandClass;

ir::AtomicKind Emitter::getAtomicKind(ir::AtomicKind kind, Type scalar) {
  if (!scalar.isInteger(1)) return kind;
  switch (kind) {
  case ir::AtomicKind::add: return ir::AtomicKind::bit_or;
  case ir::AtomicKind::sub: return ir::AtomicKind::bit_xor;
  case ir::AtomicKind::mul: return ir::AtomicKind::bit_and;
  default: return kind;
  }
}

bool Emitter::holds(Type type, nb::handle integer) {
  int overflow = 0;
  long long value = PyLong_AsLongLongAndOverflow(integer.ptr(), &overflow);
  unsigned width = type.getIntOrFloatBitWidth();
  if (overflow != 0) return overflow > 0 && type.isUnsignedInteger(64) && _PyLong_NumBits(integer.ptr()) <= 64;
  return type.isSignedInteger() ? llvm::isIntN(width, value) : value >= 0 && llvm::isUIntN(width, uint64_t(value));
}

bool Emitter::isLarge(const Operand &value) {
  const nb::object &object = value.getObject();
  return object && PyLong_CheckExact(object.ptr()) && !holds(session.types.defaultInteger, object);
}

Type Emitter::literalType(nb::handle number, Type anchor) {
  if (PyBool_Check(number.ptr())) return session.types.u1;
  if (PyFloat_Check(number.ptr())) return session.types.defaultFloat;
  if (holds(session.types.defaultInteger, number)) return session.types.defaultInteger;
  // A large literal takes the type of the other operand if that can represent it.
  Type scalar = anchor ? ir::getScalar(anchor) : Type();
  if (scalar && (ir::isFloatScalar(scalar) || holds(scalar, number))) return scalar;
  fail(error::kType, "Integer literal " + toText(nb::str(number)) + " exceeded the range of default_ip: " +
                         ir::describe(session.types.defaultInteger) + "; write qd.i64(...) or another type that holds it");
}

mlir::Value Emitter::constantNumber(nb::handle number, Type type) {
  if (ir::isFloatScalar(type)) {
    double value = PyFloat_AsDouble(number.ptr());
    if (value == -1.0 && PyErr_Occurred()) throw nb::python_error();
    return constantFloat(value, type);
  }
  nb::object integer = nb::borrow(number);
  auto width = cast<IntegerType>(type).getWidth();
  if (width == 1) return constant(PyObject_IsTrue(number.ptr()) == 1, type);
  if (PyFloat_Check(number.ptr())) integer = checked(PyLong_FromDouble(PyFloat_AS_DOUBLE(number.ptr())));
  return constant(int64_t(PyLong_AsUnsignedLongLongMask(integer.ptr())), type);
}

mlir::Value Emitter::constant(int64_t value, Type type) {
  auto integer = cast<IntegerType>(type);
  return create<ir::ConstantOp>(
      TypedAttr(IntegerAttr::get(type, APInt(integer.getWidth(), uint64_t(value), false, /*implicitTrunc=*/true))));
}

mlir::Value Emitter::constantFloat(double value, Type type) { return create<ir::ConstantOp>(TypedAttr(FloatAttr::get(type, value))); }

mlir::Value Emitter::widened(mlir::Value value) { return cast(value, ir::getScalar(session.valueType(value.getType()))); }

Type Emitter::findCommonType(Type first, Type second) {
  auto one = dyn_cast<VectorType>(first), other = dyn_cast<VectorType>(second);
  bool fits = (one != nullptr) == (other != nullptr) && (!one || one.getShape() == other.getShape());
  return fits ? ir::withScalar(first, promote(first, second)) : Type();
}

mlir::Value Emitter::makeVectorOf(ArrayRef<mlir::Value> components, ArrayRef<int64_t> shape) {
  return makeVector(components, VectorType::get(shape, components[0].getType()));
}

mlir::Value Emitter::transpose(mlir::Value matrix) {
  auto type = mlir::cast<VectorType>(matrix.getType());
  if (type.getRank() != 2)
    fail(error::kType,
         "`transpose()` cannot apply to a vector. If you want something like `a @ b.transpose()`, write `a.outer_product(b)` instead.");
  return create<ir::TransposeOp>(VectorType::get({type.getDimSize(1), type.getDimSize(0)}, type.getElementType()), matrix);
}

Type Emitter::promote(Type lhs, Type rhs) const {
  lhs = ir::getScalar(lhs);
  rhs = ir::getScalar(rhs);
  if (lhs == rhs) return lhs;
  bool isLeftFloat = ir::isFloatScalar(lhs), isRightFloat = ir::isFloatScalar(rhs);
  if (isLeftFloat && isRightFloat) return lhs.getIntOrFloatBitWidth() >= rhs.getIntOrFloatBitWidth() ? lhs : rhs;
  if (isLeftFloat || isRightFloat) return isLeftFloat ? lhs : rhs;
  unsigned leftWidth = lhs.getIntOrFloatBitWidth(), rightWidth = rhs.getIntOrFloatBitWidth();
  if (leftWidth != rightWidth) return leftWidth > rightWidth ? lhs : rhs;
  return lhs.isUnsignedInteger() ? lhs : rhs;
}

Type Emitter::promoteArithmetic(Type lhs, Type rhs) const {
  Type promoted = promote(lhs, rhs);
  return promoted.isInteger(1) ? session.types.defaultInteger : promoted;
}

mlir::Value Emitter::cast(mlir::Value value, Type scalar) {
  if (ir::getScalar(value.getType()) == scalar) return value;
  if (scalar == session.types.bf16) { // all casts to bf16 go through f32
    value = cast(value, session.types.f32);
    return create<ir::CastOp>(ir::withScalar(value.getType(), scalar), value);
  }
  // Literals are converted now, with the same two roundings as at run time.
  if (auto op = value.getDefiningOp<ir::ConstantOp>(); op && !isa<VectorType>(value.getType()) && !scalar.isInteger(1)) {
    if (auto integer = dyn_cast<IntegerAttr>(op.getValue())) {
      APInt bits = integer.getValue();
      bool isSigned = integer.getType().isSignedInteger();
      if (isa<IntegerType>(scalar))
        return create<ir::ConstantOp>(TypedAttr(IntegerAttr::get(scalar, isSigned ? bits.sextOrTrunc(scalar.getIntOrFloatBitWidth())
                                                                                  : bits.zextOrTrunc(scalar.getIntOrFloatBitWidth()))));
      APFloat number(cast<FloatType>(scalar).getFloatSemantics());
      number.convertFromAPInt(bits, isSigned, APFloat::rmNearestTiesToEven);
      return create<ir::ConstantOp>(TypedAttr(FloatAttr::get(scalar, number)));
    }
    if (auto number = dyn_cast<FloatAttr>(op.getValue()); number && isa<FloatType>(scalar))
      return constantFloat(number.getValueAsDouble(), scalar);
  }
  return create<ir::CastOp>(ir::withScalar(value.getType(), scalar), value);
}

mlir::Value Emitter::broadcast(mlir::Value scalar, Type shape) {
  return create<ir::BroadcastOp>(ir::withScalar(shape, scalar.getType()), scalar);
}

mlir::Value Emitter::convert(mlir::Value value, Type type) {
  if (value.getType() == type) return value;
  auto wanted = dyn_cast<VectorType>(type), given = dyn_cast<VectorType>(value.getType());
  if (given && (!wanted || given.getShape() != wanted.getShape()))
    fail(error::kType, "cannot assign '" + ir::describe(value.getType()) + "' to '" + ir::describe(type) + "'");
  value = cast(value, ir::getScalar(type));
  return wanted && !given ? broadcast(value, type) : value;
}

void Emitter::failOperands(llvm::StringRef symbol, Type lhs, Type rhs) {
  fail(error::kType, "unsupported operand type(s) for '" + symbol + "': '" + ir::describe(lhs) + "' and '" + ir::describe(rhs) + "'");
}

void Emitter::unifyShapes(mlir::Value &lhs, mlir::Value &rhs, llvm::StringRef symbol) {
  auto left = dyn_cast<VectorType>(lhs.getType()), right = dyn_cast<VectorType>(rhs.getType());
  if (left && right && left.getShape() != right.getShape()) failOperands(symbol, lhs.getType(), rhs.getType());
  if (left && !right) rhs = broadcast(rhs, left);
  if (right && !left) lhs = broadcast(lhs, right);
}

mlir::Value Emitter::binaryTyped(BinaryKind kind, mlir::Value lhs, mlir::Value rhs, llvm::StringRef symbol) {
  const auto &info = ir::getOpInfo(kind);
  Type left = ir::getScalar(lhs.getType()), right = ir::getScalar(rhs.getType()), type;
  if (info.operand == OperandClass::Integer && (isFloat(left) || isFloat(right))) failOperands(symbol, lhs.getType(), rhs.getType());
  if (info.operand == OperandClass::Real) {
    auto toFloat = [&](Type scalar) { return ir::isFloatScalar(scalar) ? scalar : session.types.defaultFloat; };
    type = promote(toFloat(left), toFloat(right));
    if (info.result == BinaryResult::RealPromoted) type = promote(type, session.types.defaultFloat);
  } else if (info.result == BinaryResult::Left) {
    type = left.isInteger(1) ? session.types.defaultInteger : left;
  } else if (info.operand == OperandClass::Numeric) {
    type = promoteArithmetic(left, right);
  } else {
    type = promote(left, right);
  }
  static constexpr BinaryKind kSigned[] = {BinaryKind::floor_div, BinaryKind::mod, BinaryKind::raw_div, BinaryKind::raw_mod,
                                           BinaryKind::lt,        BinaryKind::le,  BinaryKind::gt,      BinaryKind::ge,
                                           BinaryKind::min,       BinaryKind::max};
  bool areMixed = left.isSignedInteger() != right.isSignedInteger() && left.isInteger(right.getIntOrFloatBitWidth());
  // No note for literals, whose sign is visible.
  bool isLiteral = lhs.getDefiningOp<ir::ConstantOp>() || rhs.getDefiningOp<ir::ConstantOp>();
  if (areMixed && !isLiteral && !isFloat(left) && !isFloat(right) && llvm::is_contained(kSigned, kind))
    session.logDebug("'" + symbol + "' of '" + ir::describe(left) + "' and '" + ir::describe(right) +
                     "': both are taken as unsigned, so a negative operand counts as a large one");
  lhs = cast(lhs, type);
  rhs = cast(rhs, type);
  unifyShapes(lhs, rhs, symbol);
  return create<ir::BinaryOp>(kind, lhs, rhs);
}

mlir::Value Emitter::nonZero(mlir::Value value) {
  if (isU1(value.getType())) return value;
  return create<ir::BinaryOp>(BinaryKind::ne, value, convert(constant(0, session.types.i32), value.getType()));
}

mlir::Value Emitter::extract(mlir::Value vector, int64_t component) {
  if (auto op = vector.getDefiningOp<ir::VectorOp>()) return op.getComponents()[component];
  return create<ir::ExtractOp>(ir::getScalar(vector.getType()), vector, uint32_t(component));
}

mlir::Value Emitter::makeVector(ArrayRef<mlir::Value> components, Type type) { return create<ir::VectorOp>(type, components); }

mlir::Value Emitter::reduce(BinaryKind kind, mlir::Value vector) {
  return create<ir::ReduceOp>(ir::getScalar(vector.getType()), kind, vector);
}

} // namespace qd::frontend
