// operators.cpp: application of the ops of builtins.def to values
//
// In:   the kind of an op and its operands as values.
// Out:  a typed value, or a compile-time object that Python has computed.
// Here: promotion of scalar types, broadcasting of scalars, and the rules for literals.
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
    Type own = literalType(number, isa<IntegerType>(type) ? session.types.u64 : session.valueType(type));
    // A float is first rounded to default_fp, even if that is narrower. An integer is converted exactly to its target type.
    if (PyFloat_Check(number.ptr())) return cast(constantNumber(number, own), type);
    return isa<IntegerType>(type) || PyBool_Check(number.ptr()) ? constantNumber(number, type) : cast(constantNumber(number, own), type);
  }
  return convert(emit(value, type), type);
}

void FunctionBuilder::unifyShapes(mlir::Value &lhs, mlir::Value &rhs, llvm::StringRef symbol) {
  auto left = dyn_cast<VectorType>(lhs.getType()), right = dyn_cast<VectorType>(rhs.getType());
  if (left && right && left.getShape() != right.getShape()) failOperands(symbol, makeComputed(lhs), makeComputed(rhs));
  if (left && !right) rhs = broadcast(rhs, left);
  if (right && !left) lhs = broadcast(lhs, right);
}

mlir::Value FunctionBuilder::binaryTyped(BinaryKind kind, mlir::Value lhs, mlir::Value rhs, llvm::StringRef symbol) {
  const auto &info = ir::getOpInfo(kind);
  Type left = ir::getScalar(lhs.getType()), right = ir::getScalar(rhs.getType()), type;
  if (info.operand == OperandClass::Integer && (isFloat(left) || isFloat(right)))
    failOperands(symbol, makeComputed(lhs), makeComputed(rhs));
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

template <int operation> static PyObject *compare(PyObject *lhs, PyObject *rhs) { return PyObject_RichCompare(lhs, rhs, operation); }

static const Operator kOperators[] = {
    {NodeKind::Add, BinaryKind::add, "+", PyNumber_Add},
    {NodeKind::Sub, BinaryKind::sub, "-", PyNumber_Subtract},
    {NodeKind::Mult, BinaryKind::mul, "*", PyNumber_Multiply},
    {NodeKind::Div, BinaryKind::div, "/", PyNumber_TrueDivide},
    {NodeKind::FloorDiv, BinaryKind::floor_div, "//", PyNumber_FloorDivide},
    {NodeKind::Mod, BinaryKind::mod, "%", PyNumber_Remainder},
    {NodeKind::Pow, BinaryKind::pow, "**", [](PyObject *lhs, PyObject *rhs) { return PyNumber_Power(lhs, rhs, Py_None); }},
    {NodeKind::LShift, BinaryKind::shl, "<<", PyNumber_Lshift},
    {NodeKind::RShift, BinaryKind::shr, ">>", PyNumber_Rshift},
    {NodeKind::BitAnd, BinaryKind::bit_and, "&", PyNumber_And},
    {NodeKind::BitOr, BinaryKind::bit_or, "|", PyNumber_Or},
    {NodeKind::BitXor, BinaryKind::bit_xor, "^", PyNumber_Xor},
    {NodeKind::Lt, BinaryKind::lt, "<", compare<Py_LT>},
    {NodeKind::LtE, BinaryKind::le, "<=", compare<Py_LE>},
    {NodeKind::Gt, BinaryKind::gt, ">", compare<Py_GT>},
    {NodeKind::GtE, BinaryKind::ge, ">=", compare<Py_GE>},
    {NodeKind::Eq, BinaryKind::eq, "==", compare<Py_EQ>},
    {NodeKind::NotEq, BinaryKind::ne, "!=", compare<Py_NE>},
};

const Operator *findOperator(NodeKind node) {
  const Operator *found = llvm::find_if(kOperators, [&](const Operator &known) { return known.node == node; });
  return found == std::end(kOperators) ? nullptr : found;
}

void FunctionBuilder::failOperands(llvm::StringRef symbol, const Value &lhs, const Value &rhs) {
  for (const Value *side : {&lhs, &rhs})
    if (side->is(Kind::View)) emit(*side); // reports the mistake of using a view as an element
  // Users' programs match the messages, which quote the operator of numbers but not of structs.
  std::string written = lhs.is(Kind::Struct) || rhs.is(Kind::Struct) ? symbol.str() : ("'" + symbol + "'").str();
  fail(error::kType, "unsupported operand type(s) for " + written + ": '" + describe(lhs) + "' and '" + describe(rhs) + "'");
}

Value FunctionBuilder::binary(BinaryKind kind, Value lhs, Value rhs, llvm::StringRef symbol) {
  bool areSequences = lhs.is(Kind::Sequence) && rhs.is(Kind::Sequence);
  bool isRepeated = kind == BinaryKind::mul && lhs.is(Kind::Sequence) && findInteger(rhs);
  if (isRepeated || (areSequences && kind == BinaryKind::add)) {
    Value result = makeAggregate(Kind::Sequence, {});
    result.aggregate->isTuple = lhs.aggregate->isTuple;
    for (int64_t round = isRepeated ? *findInteger(rhs) : 1; round > 0; --round)
      llvm::append_range(result.aggregate->items, lhs.aggregate->items);
    if (!isRepeated) llvm::append_range(result.aggregate->items, rhs.aggregate->items);
    for (Value &item : result.aggregate->items) item = copyElement(item);
    return result;
  }
  const Operator *op = llvm::find_if(kOperators, [&](const Operator &known) { return known.kind == kind; });
  if (isConstant(lhs) && isConstant(rhs) && (!areSequences || ir::getOpInfo(kind).result == BinaryResult::Compare)) {
    nb::object left = session.python.toPythonScalar(toPython(lhs)), right = session.python.toPythonScalar(toPython(rhs));
    if (op != std::end(kOperators)) return fromPython(checked(op->compute(left.ptr(), right.ptr())), nullptr);
  }
  if (op != std::end(kOperators))
    if (std::optional<Value> result = callOperator(op->node, lhs, rhs)) return *result;
  if (lhs.is(Kind::Struct) || rhs.is(Kind::Struct)) return mapStructs(kind, lhs, rhs, symbol);
  for (const Value *operand : {&lhs, &rhs})
    if (!canEmit(*operand) && !isList(*operand)) failOperands(symbol, lhs, rhs);
  // Emits the left operand first; a large literal takes the type of the other operand.
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
  if (known && isInteger && *known < 0) fail("NegativeExponentError", "Negative exponent in pow(int, int) is not allowed.");
  if (known && std::abs(*known) <= 16 && !(isInteger && session.options.debug)) {
    // Repeated multiplication: exact for integers, and much cheaper than a call. In debug mode an integer power stays one op, for the
    // overflow check.
    auto count = uint64_t(std::abs(*known));
    auto one = [&] { return convert(constant(1, session.types.i32), value.getType()); };
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
  static constexpr std::pair<UnaryKind, llvm::StringLiteral> kSpecial[] = {
      {UnaryKind::neg, "__neg__"}, {UnaryKind::bit_not, "__invert__"}, {UnaryKind::abs, "__abs__"}};
  for (auto [known, method] : kSpecial)
    if (known == kind)
      if (std::optional<Value> result = callSpecial(operand, method.str(), {})) return *result;
  mlir::Value value = emit(operand);
  Type scalar = ir::getScalar(value.getType());
  switch (ir::getOpInfo(kind).operand) {
  case OperandClass::Real:
    if (ir::isFloatScalar(scalar)) break;
    if (session.options.strictMathTypes && !llvm::is_contained({"exp", "log", "sqrt", "rsqrt"}, name))
      fail(error::kType, "'" + name + "' takes real inputs only, however '" + ir::describe(value.getType()) + "' is provided");
    value = cast(value, session.types.defaultFloat);
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
  if (operand.is(Kind::Struct)) return mapItems(operand, [&](const Value &item) { return negate(item); });
  return unary(UnaryKind::neg, operand, "neg");
}

Value FunctionBuilder::logicalNot(const Value &operand) {
  if (isConstant(operand)) return makeObject(nb::bool_(!isTrue(operand)));
  if (std::optional<Value> decisive = truthOfInstance(operand)) return logicalNot(*decisive);
  mlir::Value value = emit(operand);
  if (session.options.strictConditions && isFloat(value.getType()))
    fail(error::kType, "'logic_not' takes integral inputs only, however '" + ir::describe(value.getType()) + "' is provided");
  return makeComputed(create<ir::UnaryOp>(UnaryKind::logical_not, value));
}

Value FunctionBuilder::matmul(const Value &lhs, const Value &rhs) {
  if (std::optional<Value> result = callOperator(NodeKind::MatMult, lhs, rhs)) return *result;
  mlir::Value left = emit(lhs), right = emit(rhs);
  if (!isa<VectorType>(left.getType()) || !isa<VectorType>(right.getType())) failOperands("@", makeComputed(left), makeComputed(right));
  Type scalar = promoteArithmetic(left.getType(), right.getType());
  left = cast(left, scalar);
  right = cast(right, scalar);
  auto first = mlir::cast<VectorType>(left.getType()).getShape(), second = mlir::cast<VectorType>(right.getType()).getShape();
  auto text = [](ArrayRef<int64_t> shape) {
    return "(" + std::to_string(shape[0]) + ", " + std::to_string(shape.size() == 2 ? shape[1] : 1) + ")";
  };
  if (first.back() != second.front())
    fail(error::kType, "dimension mismatch between " + text(first) + " and " + text(second) + " for matrix multiplication");
  if (first.size() == 1 && second.size() == 1)
    return makeComputed(reduce(BinaryKind::add, create<ir::BinaryOp>(BinaryKind::mul, left, right)));
  SmallVector<int64_t> shape(first.drop_back());
  llvm::append_range(shape, second.drop_front());
  return makeComputed(create<ir::MatmulOp>(VectorType::get(shape, scalar), left, right));
}

Value FunctionBuilder::select(const Value &condition, const Value &first, const Value &second) {
  bool areNumbers = canEmit(first) && canEmit(second);
  if (isConstant(condition) && !areNumbers) return isTrue(condition) ? first : second;
  if (first.is(Kind::Struct) && second.is(Kind::Struct)) {
    requireSameMembers(first, second);
    auto other = second.aggregate->items.begin();
    return mapItems(first, [&](const Value &item) { return select(condition, item, *other++); });
  }
  mlir::Value test = nonZero(emit(condition)), left = emit(first), right = emit(second, left.getType());
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

Value FunctionBuilder::fuseMultiplyAdd(const Value &x, const Value &y, const Value &z) {
  mlir::Value operands[3] = {emit(x), emit(y), emit(z)};
  auto toFloat = [&](mlir::Value value) {
    Type scalar = ir::getScalar(value.getType());
    return ir::isFloatScalar(scalar) ? scalar : session.types.defaultFloat;
  };
  Type scalar = promote(promote(toFloat(operands[0]), toFloat(operands[1])), toFloat(operands[2]));
  for (mlir::Value &operand : operands) operand = cast(operand, scalar);
  // Two rounds, because the third operand may give the first one its shape.
  for (int round = 0; round < 2; ++round)
    for (int other : {1, 2}) unifyShapes(operands[0], operands[other], "fma");
  return makeComputed(create<ir::FmaOp>(operands[0], operands[1], operands[2]));
}

mlir::Value FunctionBuilder::truth(const Value &value, llvm::StringRef construct) {
  if (std::optional<Value> decisive = truthOfInstance(value))
    return isConstant(*decisive) ? constant(isTrue(*decisive), session.types.u1) : truth(*decisive, construct);
  mlir::Value condition = emit(value);
  Type type = condition.getType();
  bool isStrict = session.options.strictConditions && isFloat(type);
  if (isa<VectorType>(type) || isStrict)
    fail(error::kType, "`" + construct + "` conditions must be an integer; found " + ir::describe(type));
  return nonZero(condition);
}

mlir::Value FunctionBuilder::nonZero(mlir::Value value) {
  if (isU1(value.getType())) return value;
  return create<ir::BinaryOp>(BinaryKind::ne, value, convert(constant(0, session.types.i32), value.getType()));
}

mlir::Value FunctionBuilder::extract(mlir::Value vector, int64_t component) {
  if (auto op = vector.getDefiningOp<ir::VectorOp>()) return op.getComponents()[component];
  return create<ir::ExtractOp>(ir::getScalar(vector.getType()), vector, uint32_t(component));
}

mlir::Value FunctionBuilder::makeVector(ArrayRef<mlir::Value> components, Type type) { return create<ir::VectorOp>(type, components); }

mlir::Value FunctionBuilder::reduce(BinaryKind kind, mlir::Value vector) {
  return create<ir::ReduceOp>(ir::getScalar(vector.getType()), kind, vector);
}

Value FunctionBuilder::mapStructs(BinaryKind kind, const Value &lhs, const Value &rhs, llvm::StringRef symbol) {
  bool isComparison = kind == BinaryKind::eq || kind == BinaryKind::ne;
  bool isArithmetic = kind == BinaryKind::add || kind == BinaryKind::sub || kind == BinaryKind::mul || kind == BinaryKind::div;
  bool isLeft = lhs.is(Kind::Struct), isRight = rhs.is(Kind::Struct);
  auto isSame = [](const nb::object &a, const nb::object &b) { return a.is(b); };
  bool haveSameMembers = isLeft && isRight && llvm::equal(lhs.aggregate->names, rhs.aggregate->names, isSame);
  if (isLeft && isRight ? !haveSameMembers || !(isComparison || isArithmetic) : !isArithmetic) failOperands(symbol, lhs, rhs);
  size_t member = 0;
  Value result = mapItems(isLeft ? lhs : rhs, [&](const Value &) {
    Value item = binary(kind, isLeft ? lhs.aggregate->items[member] : lhs, isRight ? rhs.aggregate->items[member] : rhs, symbol);
    ++member;
    return item;
  });
  if (!isComparison) return result;
  BinaryKind combine = kind == BinaryKind::eq ? BinaryKind::bit_and : BinaryKind::bit_or;
  mlir::Value all;
  for (const Value &item : result.aggregate->items) {
    mlir::Value bit = emit(item);
    if (isa<VectorType>(bit.getType())) bit = reduce(combine, bit);
    all = all ? mlir::Value(create<ir::BinaryOp>(combine, all, bit)) : bit;
  }
  return all ? makeComputed(all) : makeObject(nb::bool_(kind == BinaryKind::eq));
}

} // namespace qd::frontend
