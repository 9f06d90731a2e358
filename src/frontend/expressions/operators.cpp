// operators.cpp: application of the ops of builtins.def to operands
//
// In:   the kind of an op and its operands.
// Out:  a typed value, or a compile-time object that Python has computed.
// Here: what depends on the kinds of the operands: known values, structs, objects of users' classes. Emitter decides on types.
#include "frontend/builder.h"

using namespace mlir;

namespace qd::frontend {

using ir::BinaryResult;
using ir::OperandClass;

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

const Operator *findOperator(BinaryKind kind) {
  const Operator *found = llvm::find_if(kOperators, [&](const Operator &known) { return known.kind == kind; });
  return found == std::end(kOperators) ? nullptr : found;
}

void Operators::failOperands(llvm::StringRef symbol, const Operand &lhs, const Operand &rhs) {
  for (const Operand *side : {&lhs, &rhs})
    if (side->is<View>()) conversions.emit(*side); // reports the mistake of using a view as an element
  // Users' programs match the messages, which quote the operator of numbers but not of structs.
  std::string written = lhs.is<Struct>() || rhs.is<Struct>() ? symbol.str() : ("'" + symbol + "'").str();
  const bool hasNone = lhs.isNone() || rhs.isNone();
  fail(error::kType, "unsupported operand type(s) for " + written + ": '" + conversions.describe(lhs) + "' and '" +
                         conversions.describe(rhs) + "'" +
                         (hasNone ? "; None is compared with `is`, and the result without a return" : ""));
}

Operand Operators::binary(BinaryKind kind, Operand lhs, Operand rhs, llvm::StringRef symbol) {
  auto *list = lhs.find<Sequence>(), *otherList = rhs.find<Sequence>();
  auto isPlain = [&](const Operand &operand) { return operand.isObject() && session.python.isPlainData(operand.getObject()); };
  if (kind == BinaryKind::add && isList(lhs) && isList(rhs) && !(list && otherList) && !(isPlain(lhs) && isPlain(rhs))) {
    auto spell = [&](const Operand &operand) { // so that the items keep their paths
      bool isTuple = operand.isObject() ? PyTuple_Check(operand.getObject().ptr()) : operand.get<Sequence>().isTuple;
      return makeSequence(collections().listItems(operand, "add"), isTuple);
    };
    return binary(kind, spell(lhs), spell(rhs), symbol);
  }
  bool areSequences = list && otherList;
  bool isRepeated = kind == BinaryKind::mul && list && conversions.findInteger(rhs);
  if (isRepeated || (areSequences && kind == BinaryKind::add)) {
    std::vector<Operand> items;
    for (int64_t round = isRepeated ? *conversions.findInteger(rhs) : 1; round > 0; --round) llvm::append_range(items, list->items);
    if (!isRepeated) llvm::append_range(items, otherList->items);
    for (Operand &item : items) item = collections().copyElement(item);
    return makeSequence(std::move(items), list->isTuple);
  }
  const Operator *op = llvm::find_if(kOperators, [&](const Operator &known) { return known.kind == kind; });
  if ((lhs.isNone() || rhs.isNone()) && ir::getOpInfo(kind).result != BinaryResult::Compare) failOperands(symbol, lhs, rhs);
  auto isHostStruct = [&](const Operand &value) { return session.python.isInstance(value.getObject(), session.python.values.structValue); };
  if ((isHostStruct(lhs) || isHostStruct(rhs)) && ir::getOpInfo(kind).result != BinaryResult::Compare)
    return mapStructs(kind, isHostStruct(lhs) ? structs().structOfObject(lhs) : lhs,
                      isHostStruct(rhs) ? structs().structOfObject(rhs) : rhs, symbol);
  if (conversions.isConstant(lhs) && conversions.isConstant(rhs) &&
      (!areSequences || ir::getOpInfo(kind).result == BinaryResult::Compare)) {
    nb::object left = session.python.toPythonScalar(conversions.toPython(lhs)),
               right = session.python.toPythonScalar(conversions.toPython(rhs));
    if (op != std::end(kOperators)) return conversions.fromPython(checked(op->compute(left.ptr(), right.ptr())), nullptr);
  }
  if (op != std::end(kOperators))
    if (std::optional<Operand> result = instances().callOperator(op->node, lhs, rhs)) return *result;
  if (lhs.is<Struct>() || rhs.is<Struct>()) return mapStructs(kind, lhs, rhs, symbol);
  if (isList(lhs) && isList(rhs) && ir::getOpInfo(kind).result == BinaryResult::Compare) return compareLists(kind, lhs, rhs);
  for (const Operand *operand : {&lhs, &rhs})
    if (!conversions.canEmit(*operand) && !isList(*operand)) failOperands(symbol, lhs, rhs);
  // Emits the left operand first; a large literal takes the type of the other operand.
  mlir::Value left = conversions.emit(lhs, rhs.getType());
  mlir::Value right = conversions.emit(rhs, left.getType());
  if (kind == BinaryKind::pow) return power(makeComputed(left), rhs.isObject() ? rhs : makeComputed(right));
  return makeComputed(emitter.binaryTyped(kind, left, right, symbol));
}

Operand Operators::power(const Operand &base, const Operand &exponent) {
  mlir::Value value = conversions.emit(base);
  std::optional<int64_t> known = conversions.findInteger(exponent);
  if (isU1(value.getType()))
    value = emitter.cast(value, exponent.isTyped() ? emitter.promoteArithmetic(value.getType(), session.valueType(exponent.getType()))
                                                   : session.types.defaultInteger);
  bool isInteger = !isFloat(value.getType());
  if (known && isInteger && *known < 0) fail("NegativeExponentError", "Negative exponent in pow(int, int) is not allowed.");
  if (known && std::abs(*known) <= 16 && !(isInteger && session.options.debug)) {
    // Repeated multiplication: exact for integers, and much cheaper than a call. In debug mode an integer power stays one op, for the
    // overflow check.
    auto count = uint64_t(std::abs(*known));
    auto one = [&] { return emitter.convert(emitter.constant(1, session.types.i32), value.getType()); };
    mlir::Value result, square = value;
    for (; count != 0; count >>= 1) {
      if (count & 1) result = result ? mlir::Value(create<ir::BinaryOp>(BinaryKind::mul, result, square)) : square;
      if (count > 1) square = create<ir::BinaryOp>(BinaryKind::mul, square, square);
    }
    if (!result) return makeComputed(one());
    return makeComputed(*known < 0 ? mlir::Value(create<ir::BinaryOp>(BinaryKind::div, one(), result)) : result);
  }
  mlir::Value times = conversions.emit(exponent, value.getType());
  if (isU1(times.getType())) times = emitter.cast(times, session.types.defaultInteger);
  if (!isInteger || isFloat(times.getType())) {
    Type type = emitter.promote(value.getType(), times.getType());
    value = emitter.cast(value, type);
    times = emitter.cast(times, type);
  }
  emitter.unifyShapes(value, times, "**");
  return makeComputed(create<ir::BinaryOp>(BinaryKind::pow, value, times));
}

Operand Operators::unary(UnaryKind kind, const Operand &operand, llvm::StringRef name) {
  static constexpr std::pair<UnaryKind, llvm::StringLiteral> kSpecial[] = {
      {UnaryKind::neg, "__neg__"}, {UnaryKind::bit_not, "__invert__"}, {UnaryKind::abs, "__abs__"}};
  for (auto [known, method] : kSpecial)
    if (known == kind)
      if (std::optional<Operand> result = instances().callSpecial(operand, method.str(), {})) return *result;
  mlir::Value value = conversions.emit(operand);
  Type scalar = ir::getScalar(value.getType());
  switch (ir::getOpInfo(kind).operand) {
  case OperandClass::Real:
    if (ir::isFloatScalar(scalar)) break;
    if (session.options.strictMathTypes && !llvm::is_contained({"exp", "log", "sqrt", "rsqrt"}, name))
      fail(error::kType, "'" + name + "' takes real inputs only, however '" + ir::describe(value.getType()) + "' is provided");
    value = emitter.cast(value, session.types.defaultFloat);
    break;
  case OperandClass::Integer:
    if (ir::isFloatScalar(scalar))
      fail(error::kType, "'" + name + "' takes integral inputs only, however '" + ir::describe(value.getType()) + "' is provided");
    break;
  case OperandClass::Numeric:
    if (scalar.isInteger(1)) value = emitter.cast(value, session.types.defaultInteger);
    break;
  case OperandClass::Any: break;
  }
  return makeComputed(create<ir::UnaryOp>(kind, value));
}

Operand Operators::negate(const Operand &operand) {
  if (std::optional<Operand> result = instances().callSpecial(operand, "__neg__", {})) return *result;
  if (operand.is<Struct>()) return mapItems(operand, [&](const Operand &item) { return negate(item); });
  return unary(UnaryKind::neg, operand, "neg");
}

Operand Operators::logicalNot(const Operand &operand) {
  if (conversions.isConstant(operand)) return makeKnown(!conversions.isTrue(operand));
  if (std::optional<Operand> decisive = instances().truthOfInstance(operand)) return logicalNot(*decisive);
  mlir::Value value = conversions.emit(operand);
  if (session.options.strictConditions && isFloat(value.getType()))
    fail(error::kType, "'logic_not' takes integral inputs only, however '" + ir::describe(value.getType()) + "' is provided");
  return makeComputed(create<ir::UnaryOp>(UnaryKind::logical_not, value));
}

Operand Operators::matmul(const Operand &lhs, const Operand &rhs) {
  if (std::optional<Operand> result = instances().callOperator(NodeKind::MatMult, lhs, rhs)) return *result;
  mlir::Value left = conversions.emit(lhs), right = conversions.emit(rhs);
  if (!isa<VectorType>(left.getType()) || !isa<VectorType>(right.getType())) failOperands("@", makeComputed(left), makeComputed(right));
  Type scalar = emitter.promoteArithmetic(left.getType(), right.getType());
  left = emitter.cast(left, scalar);
  right = emitter.cast(right, scalar);
  auto first = mlir::cast<VectorType>(left.getType()).getShape(), second = mlir::cast<VectorType>(right.getType()).getShape();
  auto text = [](ArrayRef<int64_t> shape) {
    return "(" + std::to_string(shape[0]) + ", " + std::to_string(shape.size() == 2 ? shape[1] : 1) + ")";
  };
  if (first.back() != second.front())
    fail(error::kType, "dimension mismatch between " + text(first) + " and " + text(second) + " for matrix multiplication");
  if (first.size() == 1 && second.size() == 1)
    return makeComputed(emitter.reduce(BinaryKind::add, create<ir::BinaryOp>(BinaryKind::mul, left, right)));
  SmallVector<int64_t> shape(first.drop_back());
  llvm::append_range(shape, second.drop_front());
  return makeComputed(create<ir::MatmulOp>(VectorType::get(shape, scalar), left, right));
}

Operand Operators::select(const Operand &condition, const Operand &first, const Operand &second) {
  bool areNumbers = conversions.canEmit(first) && conversions.canEmit(second);
  if (condition.isObject() && session.python.isNumber(condition.getObject()) && !areNumbers)
    return conversions.isTrue(condition) ? first : second;
  if (first.is<Struct>() && second.is<Struct>()) {
    structs().requireSameMembers(first, second);
    auto other = second.get<Struct>().items.begin();
    return mapItems(first, [&](const Operand &item) { return select(condition, item, *other++); });
  }
  mlir::Value test = emitter.nonZero(conversions.emit(condition)), left = conversions.emit(first, second.getType()),
              right = conversions.emit(second, left.getType());
  Type scalar = emitter.promote(left.getType(), right.getType());
  left = emitter.cast(left, scalar);
  right = emitter.cast(right, scalar);
  emitter.unifyShapes(left, right, "select");
  if (auto shape = dyn_cast<VectorType>(test.getType())) {
    if (!isa<VectorType>(left.getType())) {
      left = emitter.broadcast(left, shape);
      right = emitter.broadcast(right, shape);
    } else if (mlir::cast<VectorType>(left.getType()).getShape() != shape.getShape()) {
      fail(error::kCompilation, "Cannot broadcast tensor to tensor: the condition is '" + ir::describe(shape) + "', the values are '" +
                                    ir::describe(left.getType()) + "'");
    }
  }
  return makeComputed(create<ir::SelectOp>(left.getType(), test, left, right));
}

Operand Operators::fuseMultiplyAdd(const Operand &x, const Operand &y, const Operand &z) {
  mlir::Value operands[3] = {conversions.emit(x), conversions.emit(y), conversions.emit(z)};
  auto toFloat = [&](mlir::Value value) {
    Type scalar = ir::getScalar(value.getType());
    return ir::isFloatScalar(scalar) ? scalar : session.types.defaultFloat;
  };
  Type scalar = emitter.promote(emitter.promote(toFloat(operands[0]), toFloat(operands[1])), toFloat(operands[2]));
  for (mlir::Value &operand : operands) operand = emitter.cast(operand, scalar);
  // Two rounds, because the third operand may give the first one its shape.
  for (int round = 0; round < 2; ++round)
    for (int other : {1, 2}) emitter.unifyShapes(operands[0], operands[other], "fma");
  return makeComputed(create<ir::FmaOp>(operands[0], operands[1], operands[2]));
}

mlir::Value Operators::truth(const Operand &value, llvm::StringRef construct) {
  if (std::optional<Operand> decisive = instances().truthOfInstance(value))
    return conversions.isConstant(*decisive) ? emitter.constant(conversions.isTrue(*decisive), session.types.u1)
                                             : truth(*decisive, construct);
  mlir::Value condition = conversions.emit(value);
  Type type = condition.getType();
  bool isStrict = session.options.strictConditions && isFloat(type);
  if (isa<VectorType>(type) || isStrict)
    fail(error::kType, "`" + construct + "` conditions must be an integer; found " + ir::describe(type));
  return emitter.nonZero(condition);
}

/// Compares as Python does: the first items that differ decide.
Operand Operators::compareLists(BinaryKind kind, const Operand &lhs, const Operand &rhs) {
  const std::vector<Operand> left = collections().listItems(lhs, "compare"), right = collections().listItems(rhs, "compare");
  const bool isEquality = kind == BinaryKind::eq || kind == BinaryKind::ne;
  if (isEquality && left.size() != right.size()) return makeKnown(kind == BinaryKind::ne);
  const bool isLess = kind == BinaryKind::lt || kind == BinaryKind::le;
  auto compareSizes = [&](auto one, auto other) { return kind == BinaryKind::lt || kind == BinaryKind::gt ? one < other : one <= other; };
  auto areSame = [&](const Operand &one, const Operand &other) {
    Operand same = binary(BinaryKind::eq, one, other, "==");
    return isa_and_nonnull<VectorType>(same.getType()) ? makeComputed(emitter.reduce(BinaryKind::bit_and, conversions.emit(same))) : same;
  };
  Operand result = makeKnown(isEquality || (isLess ? compareSizes(left.size(), right.size()) : compareSizes(right.size(), left.size())));
  for (size_t index = std::min(left.size(), right.size()); index-- > 0;) {
    result = binary(BinaryKind::bit_and, areSame(left[index], right[index]), result, "and");
    if (isEquality) continue;
    const Operand differs = binary(isLess ? BinaryKind::lt : BinaryKind::gt, left[index], right[index], isLess ? "<" : ">");
    result = binary(BinaryKind::bit_or, differs, result, "or");
  }
  return kind == BinaryKind::ne ? logicalNot(result) : result;
}

Operand Operators::mapStructs(BinaryKind kind, const Operand &lhs, const Operand &rhs, llvm::StringRef symbol) {
  bool isComparison = kind == BinaryKind::eq || kind == BinaryKind::ne;
  bool isArithmetic = kind == BinaryKind::add || kind == BinaryKind::sub || kind == BinaryKind::mul || kind == BinaryKind::div;
  auto *left = lhs.find<Struct>(), *right = rhs.find<Struct>();
  auto isSame = [](const nb::object &a, const nb::object &b) { return a.is(b); };
  bool haveSameMembers = left && right && llvm::equal(left->names, right->names, isSame);
  if (left && right ? !haveSameMembers || !(isComparison || isArithmetic) : !isArithmetic) failOperands(symbol, lhs, rhs);
  size_t member = 0;
  Operand result = mapItems(left ? lhs : rhs, [&](const Operand &) {
    Operand item = binary(kind, left ? left->items[member] : lhs, right ? right->items[member] : rhs, symbol);
    ++member;
    return item;
  });
  if (!isComparison) return result;
  BinaryKind combine = kind == BinaryKind::eq ? BinaryKind::bit_and : BinaryKind::bit_or;
  mlir::Value all;
  for (const Operand &item : result.get<Struct>().items) {
    mlir::Value bit = conversions.emit(item);
    if (isa<VectorType>(bit.getType())) bit = emitter.reduce(combine, bit);
    all = all ? mlir::Value(create<ir::BinaryOp>(combine, all, bit)) : bit;
  }
  return all ? makeComputed(all) : makeKnown(kind == BinaryKind::eq);
}

} // namespace qd::frontend
