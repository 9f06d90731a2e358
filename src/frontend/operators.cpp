// operators.cpp: the rows of builtins.def applied to values: promotion, shapes, and what Python computes itself
#include "frontend/builder.h"

using namespace mlir;

namespace qd::frontend {

using Kind = Value::Kind;
using ir::BinaryKind;
using ir::BinaryResult;
using ir::OperandClass;
using ir::UnaryKind;

static bool isFloat(Type type) { return ir::isFloatScalar(ir::getScalar(type)); }
static bool isU1(Type type) { return ir::getScalar(type).isInteger(1); }

Type FunctionBuilder::promote(Type lhs, Type rhs) const {
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

Type FunctionBuilder::promoteArithmetic(Type lhs, Type rhs) const {
  Type promoted = promote(lhs, rhs);
  return promoted.isInteger(1) ? session.types.defaultInteger : promoted;
}

mlir::Value FunctionBuilder::cast(mlir::Value value, Type scalar) {
  if (ir::getScalar(value.getType()) == scalar) return value;
  // Literals are converted here, in two roundings as at run time.
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
    if (auto number = dyn_cast<FloatAttr>(op.getValue()); number && isa<FloatType>(scalar)) {
      APFloat converted = number.getValue();
      bool losesInformation = false;
      converted.convert(mlir::cast<FloatType>(scalar).getFloatSemantics(), APFloat::rmNearestTiesToEven, &losesInformation);
      return create<ir::ConstantOp>(TypedAttr(FloatAttr::get(scalar, converted)));
    }
  }
  return create<ir::CastOp>(ir::withScalar(value.getType(), scalar), value);
}

mlir::Value FunctionBuilder::broadcast(mlir::Value scalar, Type shape) {
  return create<ir::BroadcastOp>(ir::withScalar(shape, scalar.getType()), scalar);
}

mlir::Value FunctionBuilder::convert(mlir::Value value, Type type) {
  if (value.getType() == type) return value;
  auto wanted = dyn_cast<VectorType>(type), given = dyn_cast<VectorType>(value.getType());
  if (given && (!wanted || given.getShape() != wanted.getShape()))
    fail(error::kType, "cannot assign '" + ir::describe(value.getType()) + "' to '" + ir::describe(type) + "'");
  value = cast(value, ir::getScalar(type));
  return wanted && !given ? broadcast(value, type) : value;
}

mlir::Value FunctionBuilder::convert(const Value &value, Type type) {
  if (value.isObject() && !isa<VectorType>(type) && session.python.isNumber(value.object)) {
    nb::object number = session.python.toPlainNumber(value.object);
    Type own = literalType(number, isa<IntegerType>(type) ? session.types.u64 : type);
    // A float in a narrower default type is rounded to that first; an integer keeps all its bits on the way to its place.
    if (PyFloat_Check(number.ptr())) return cast(constantNumber(number, own), type);
    return isa<IntegerType>(type) || PyBool_Check(number.ptr()) ? constantNumber(number, type) : cast(constantNumber(number, own), type);
  }
  return convert(emit(value, type), type);
}

void FunctionBuilder::unifyShapes(mlir::Value &lhs, mlir::Value &rhs, llvm::StringRef symbol) {
  auto left = dyn_cast<VectorType>(lhs.getType()), right = dyn_cast<VectorType>(rhs.getType());
  if (left && right) {
    if (left.getShape() != right.getShape())
      fail(error::kType, "unsupported operand type(s) for '" + symbol + "': '" + ir::describe(lhs.getType()) + "' and '" +
                             ir::describe(rhs.getType()) + "'");
  } else if (left) {
    rhs = broadcast(rhs, left);
  } else if (right) {
    lhs = broadcast(lhs, right);
  }
}

mlir::Value FunctionBuilder::binaryTyped(BinaryKind kind, mlir::Value lhs, mlir::Value rhs, llvm::StringRef symbol) {
  const ir::BinaryRow &row = ir::getRow(kind);
  Type left = ir::getScalar(lhs.getType()), right = ir::getScalar(rhs.getType()), type;
  if (row.operand == OperandClass::Integer && (isFloat(left) || isFloat(right)))
    fail(error::kType, "unsupported operand type(s) for '" + symbol + "': '" + ir::describe(lhs.getType()) + "' and '" +
                           ir::describe(rhs.getType()) + "'");
  if (row.operand == OperandClass::Real) {
    auto toFloat = [&](Type scalar) { return ir::isFloatScalar(scalar) ? scalar : session.types.defaultFloat; };
    type = promote(toFloat(left), toFloat(right));
    if (row.result == BinaryResult::RealPromoted) type = promote(type, session.types.defaultFloat);
  } else if (row.result == BinaryResult::Left) {
    type = left.isInteger(1) ? session.types.defaultInteger : left;
  } else if (row.operand == OperandClass::Numeric) {
    type = promoteArithmetic(left, right);
  } else {
    type = promote(left, right);
  }
  lhs = cast(lhs, type);
  rhs = cast(rhs, type);
  unifyShapes(lhs, rhs, symbol);
  return create<ir::BinaryOp>(kind, lhs, rhs);
}

/// The operator of Python with the meaning of a row; null where Python has none.
static PyObject *computeInPython(BinaryKind kind, PyObject *lhs, PyObject *rhs) {
  switch (kind) {
  case BinaryKind::add: return PyNumber_Add(lhs, rhs);
  case BinaryKind::sub: return PyNumber_Subtract(lhs, rhs);
  case BinaryKind::mul: return PyNumber_Multiply(lhs, rhs);
  case BinaryKind::div: return PyNumber_TrueDivide(lhs, rhs);
  case BinaryKind::floor_div: return PyNumber_FloorDivide(lhs, rhs);
  case BinaryKind::mod: return PyNumber_Remainder(lhs, rhs);
  case BinaryKind::pow: return PyNumber_Power(lhs, rhs, Py_None);
  case BinaryKind::bit_and: return PyNumber_And(lhs, rhs);
  case BinaryKind::bit_or: return PyNumber_Or(lhs, rhs);
  case BinaryKind::bit_xor: return PyNumber_Xor(lhs, rhs);
  case BinaryKind::shl: return PyNumber_Lshift(lhs, rhs);
  case BinaryKind::shr: return PyNumber_Rshift(lhs, rhs);
  case BinaryKind::lt: return PyObject_RichCompare(lhs, rhs, Py_LT);
  case BinaryKind::le: return PyObject_RichCompare(lhs, rhs, Py_LE);
  case BinaryKind::gt: return PyObject_RichCompare(lhs, rhs, Py_GT);
  case BinaryKind::ge: return PyObject_RichCompare(lhs, rhs, Py_GE);
  case BinaryKind::eq: return PyObject_RichCompare(lhs, rhs, Py_EQ);
  case BinaryKind::ne: return PyObject_RichCompare(lhs, rhs, Py_NE);
  default: return nullptr;
  }
}

Value FunctionBuilder::binary(BinaryKind kind, Value lhs, Value rhs, llvm::StringRef symbol) {
  bool areSequences = lhs.is(Kind::Sequence) && rhs.is(Kind::Sequence);
  if (areSequences && kind == BinaryKind::add) {
    Value result = makeAggregate(Kind::Sequence, lhs.aggregate->items);
    llvm::append_range(result.aggregate->items, rhs.aggregate->items);
    result.aggregate->isTuple = lhs.aggregate->isTuple;
    return result;
  }
  if (kind == BinaryKind::mul && lhs.is(Kind::Sequence) && rhs.isObject() && findInteger(rhs)) {
    Value result = makeAggregate(Kind::Sequence, {});
    for (int64_t round = 0; round < *findInteger(rhs); ++round) llvm::append_range(result.aggregate->items, lhs.aggregate->items);
    result.aggregate->isTuple = lhs.aggregate->isTuple;
    return result;
  }
  if (isConstant(lhs) && isConstant(rhs) && (!areSequences || ir::getRow(kind).result == BinaryResult::Compare)) {
    nb::object left = toPython(lhs), right = toPython(rhs);
    PyObject *result = computeInPython(kind, left.ptr(), right.ptr());
    if (result) return fromPython(nb::steal(result), nullptr);
    if (PyErr_Occurred()) throw nb::python_error();
  }
  if (lhs.is(Kind::Struct) || rhs.is(Kind::Struct)) return mapStructs(kind, lhs, rhs, symbol);
  for (const Value *operand : {&lhs, &rhs})
    if (!canEmit(*operand) && !operand->is(Kind::Sequence) &&
        !(operand->isObject() && (PyTuple_Check(operand->object.ptr()) || PyList_Check(operand->object.ptr()))))
      fail(error::kType, "unsupported operand type(s) for '" + symbol + "': '" + describe(lhs) + "' and '" + describe(rhs) + "'");
  // Left to right; a large literal takes the type of the other side.
  mlir::Value left = emit(lhs, rhs.isTyped() ? rhs.type : Type());
  mlir::Value right = emit(rhs, left.getType());
  if (kind == BinaryKind::pow) return power(makeComputed(left), rhs.isObject() ? rhs : makeComputed(right));
  return makeComputed(binaryTyped(kind, left, right, symbol));
}

Value FunctionBuilder::power(const Value &base, const Value &exponent) {
  mlir::Value value = emit(base);
  std::optional<int64_t> known = findInteger(exponent);
  if (isU1(value.getType())) value = cast(value, session.types.defaultInteger);
  bool isInteger = !isFloat(value.getType());
  if (known && isInteger && *known < 0) fail(error::kCompilation, "Negative exponent in pow(int, int) is not allowed.");
  if (known && std::abs(*known) <= 16) {
    // Repeated multiplication: exact for integers, and much cheaper than a call.
    auto count = uint64_t(std::abs(*known));
    auto one = [&]() {
      mlir::Value scalar = isInteger ? constant(1, ir::getScalar(value.getType())) : constantFloat(1, ir::getScalar(value.getType()));
      return isa<VectorType>(value.getType()) ? broadcast(scalar, value.getType()) : scalar;
    };
    mlir::Value result, square = value;
    for (; count != 0; count >>= 1) {
      if (count & 1) result = result ? mlir::Value(create<ir::BinaryOp>(BinaryKind::mul, result, square)) : square;
      if (count > 1) square = create<ir::BinaryOp>(BinaryKind::mul, square, square);
    }
    if (!result) return makeComputed(one());
    return makeComputed(*known < 0 ? mlir::Value(create<ir::BinaryOp>(BinaryKind::div, one(), result)) : result);
  }
  mlir::Value times = emit(exponent, value.getType());
  if (isU1(times.getType())) times = cast(times, session.types.defaultInteger);
  if (!isInteger || isFloat(times.getType())) {
    Type type = promote(value.getType(), times.getType());
    value = cast(value, type);
    times = cast(times, type);
  }
  unifyShapes(value, times, "**");
  return makeComputed(create<ir::BinaryOp>(BinaryKind::pow, value, times));
}

Value FunctionBuilder::unary(UnaryKind kind, const Value &operand, llvm::StringRef name) {
  const ir::UnaryRow &row = ir::getRow(kind);
  mlir::Value value = emit(operand);
  Type scalar = ir::getScalar(value.getType());
  switch (row.operand) {
  case OperandClass::Real:
    if (!ir::isFloatScalar(scalar)) value = cast(value, session.types.defaultFloat);
    break;
  case OperandClass::Integer:
    if (ir::isFloatScalar(scalar))
      fail(error::kType, "'" + name + "' takes integral inputs only, however '" + ir::describe(value.getType()) + "' is provided");
    break;
  case OperandClass::Numeric:
    if (scalar.isInteger(1)) value = cast(value, session.types.defaultInteger);
    break;
  case OperandClass::Any: break;
  }
  return makeComputed(create<ir::UnaryOp>(kind, value));
}

Value FunctionBuilder::negate(const Value &operand) {
  if (operand.is(Kind::Struct)) {
    std::vector<Value> items;
    for (const Value &item : operand.aggregate->items) items.push_back(negate(item));
    Value result = makeAggregate(Kind::Struct, std::move(items));
    result.aggregate->names = operand.aggregate->names;
    result.aggregate->structType = operand.aggregate->structType;
    return result;
  }
  return unary(UnaryKind::neg, operand, "neg");
}

Value FunctionBuilder::logicalNot(const Value &operand) {
  if (isConstant(operand)) {
    int truth = PyObject_Not(toPython(operand).ptr());
    if (truth < 0) throw nb::python_error();
    return makeObject(nb::bool_(truth == 1));
  }
  mlir::Value value = emit(operand);
  if (session.options.strictConditions && isFloat(value.getType()))
    fail(error::kType, "'logic_not' takes integral inputs only, however '" + ir::describe(value.getType()) + "' is provided");
  return makeComputed(create<ir::UnaryOp>(UnaryKind::logical_not, value));
}

Value FunctionBuilder::matmul(const Value &lhs, const Value &rhs) {
  mlir::Value left = emit(lhs), right = emit(rhs);
  if (!isa<VectorType>(left.getType()) || !isa<VectorType>(right.getType()))
    fail(error::kType,
         "unsupported operand type(s) for '@': '" + ir::describe(left.getType()) + "' and '" + ir::describe(right.getType()) + "'");
  return makeComputed(matmulTyped(left, right));
}

mlir::Value FunctionBuilder::matmulTyped(mlir::Value left, mlir::Value right) {
  Type scalar = promoteArithmetic(left.getType(), right.getType());
  left = cast(left, scalar);
  right = cast(right, scalar);
  auto lhs = mlir::cast<VectorType>(left.getType()), rhs = mlir::cast<VectorType>(right.getType());
  auto text = [](VectorType type) {
    std::string shape = "(" + std::to_string(type.getDimSize(0)) + ", ";
    return shape + (type.getRank() == 2 ? std::to_string(type.getDimSize(1)) : "1") + ")";
  };
  if (lhs.getShape().back() != rhs.getShape().front())
    fail(error::kType, "dimension mismatch between " + text(lhs) + " and " + text(rhs) + " for matrix multiplication");
  if (lhs.getRank() == 1 && rhs.getRank() == 1) return reduce(BinaryKind::add, create<ir::BinaryOp>(BinaryKind::mul, left, right));
  SmallVector<int64_t> shape;
  if (lhs.getRank() == 2) shape.push_back(lhs.getDimSize(0));
  if (rhs.getRank() == 2) shape.push_back(rhs.getDimSize(1));
  return create<ir::MatmulOp>(VectorType::get(shape, scalar), left, right);
}

Value FunctionBuilder::select(const Value &condition, const Value &first, const Value &second) {
  if (isConstant(condition)) return isTrue(condition) ? first : second;
  if (first.is(Kind::Struct) && second.is(Kind::Struct)) {
    if (first.aggregate->items.size() != second.aggregate->items.size()) fail(error::kType, "select needs structs of one type");
    std::vector<Value> items;
    for (auto [left, right] : llvm::zip(first.aggregate->items, second.aggregate->items)) items.push_back(select(condition, left, right));
    Value result = makeAggregate(Kind::Struct, std::move(items));
    result.aggregate->names = first.aggregate->names;
    result.aggregate->structType = first.aggregate->structType;
    return result;
  }
  mlir::Value test = emit(condition), left = emit(first), right = emit(second, left.getType());
  if (!isU1(test.getType())) {
    mlir::Value zero = cast(constant(0, session.types.i32), ir::getScalar(test.getType()));
    test = create<ir::BinaryOp>(BinaryKind::ne, test, isa<VectorType>(test.getType()) ? broadcast(zero, test.getType()) : zero);
  }
  Type scalar = promote(left.getType(), right.getType());
  left = cast(left, scalar);
  right = cast(right, scalar);
  unifyShapes(left, right, "select");
  if (auto shape = dyn_cast<VectorType>(test.getType())) {
    if (!isa<VectorType>(left.getType())) {
      left = broadcast(left, shape);
      right = broadcast(right, shape);
    } else if (mlir::cast<VectorType>(left.getType()).getShape() != shape.getShape()) {
      fail(error::kCompilation, "Cannot broadcast tensor to tensor: the condition is '" + ir::describe(shape) + "', the values are '" +
                                    ir::describe(left.getType()) + "'");
    }
  }
  return makeComputed(create<ir::SelectOp>(left.getType(), test, left, right));
}

mlir::Value FunctionBuilder::truth(const Value &value, llvm::StringRef construct) {
  mlir::Value condition = emit(value);
  Type type = condition.getType();
  bool isStrict = session.options.strictConditions && isFloat(type);
  if (isa<VectorType>(type) || isStrict)
    fail(error::kType, "`" + construct + "` conditions must be an integer; found " + ir::describe(type));
  if (type.isInteger(1)) return condition;
  return create<ir::BinaryOp>(BinaryKind::ne, condition, cast(constant(0, session.types.i32), type));
}

mlir::Value FunctionBuilder::extract(mlir::Value vector, int64_t component) {
  if (auto op = vector.getDefiningOp<ir::VectorOp>()) return op.getComponents()[component];
  return create<ir::ExtractOp>(ir::getScalar(vector.getType()), vector, uint32_t(component));
}

mlir::Value FunctionBuilder::makeVector(ArrayRef<mlir::Value> components, Type type) { return create<ir::VectorOp>(type, components); }

mlir::Value FunctionBuilder::reduce(BinaryKind kind, mlir::Value vector) {
  return create<ir::ReduceOp>(ir::getScalar(vector.getType()), uint32_t(kind), vector);
}

Value FunctionBuilder::mapStructs(BinaryKind kind, const Value &lhs, const Value &rhs, llvm::StringRef symbol) {
  bool isComparison = kind == BinaryKind::eq || kind == BinaryKind::ne;
  bool isArithmetic = kind == BinaryKind::add || kind == BinaryKind::sub || kind == BinaryKind::mul || kind == BinaryKind::div;
  const Value &shape = lhs.is(Kind::Struct) ? lhs : rhs;
  bool areBoth = lhs.is(Kind::Struct) && rhs.is(Kind::Struct);
  auto haveSameMembers = [&] {
    return llvm::equal(lhs.aggregate->names, rhs.aggregate->names, [](const nb::object &a, const nb::object &b) { return a.is(b); });
  };
  if ((!isComparison && !isArithmetic) || (areBoth && !haveSameMembers()) || (isComparison && !areBoth))
    fail(error::kType, "unsupported operand type(s) for " + symbol + ": '" + describe(lhs) + "' and '" + describe(rhs) + "'");
  std::vector<Value> items;
  for (size_t member = 0; member < shape.aggregate->items.size(); ++member)
    items.push_back(binary(kind, lhs.is(Kind::Struct) ? lhs.aggregate->items[member] : lhs,
                           rhs.is(Kind::Struct) ? rhs.aggregate->items[member] : rhs, symbol));
  if (!isComparison) {
    Value result = makeAggregate(Kind::Struct, std::move(items));
    result.aggregate->names = shape.aggregate->names;
    result.aggregate->structType = shape.aggregate->structType;
    return result;
  }
  BinaryKind combine = kind == BinaryKind::eq ? BinaryKind::bit_and : BinaryKind::bit_or;
  mlir::Value result;
  for (const Value &item : items) {
    mlir::Value bit = emit(item);
    if (isa<VectorType>(bit.getType())) bit = reduce(combine, bit);
    result = result ? mlir::Value(create<ir::BinaryOp>(combine, result, bit)) : bit;
  }
  return result ? makeComputed(result) : makeObject(nb::bool_(kind == BinaryKind::eq));
}

} // namespace qd::frontend
