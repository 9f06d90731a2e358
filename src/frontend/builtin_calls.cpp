// builtin_calls.cpp: the functions of quadrants._builtins and Python's own
#include "frontend/builder.h"

using namespace mlir;

namespace qd::frontend {

using Kind = Value::Kind;
using ir::BinaryKind;
using ir::UnaryKind;

static const Value *findNamed(const Arguments &arguments, llvm::StringRef name) {
  for (const auto &[key, value] : arguments.named)
    if (key == name) return &value;
  return nullptr;
}

Value FunctionBuilder::callStatic(Arguments &arguments) {
  if (arguments.positional.empty() || !arguments.named.empty()) fail(error::kSyntax, "qd.static takes compile-time values");
  auto check = [&](const Value &value) {
    bool isVector = value.isTyped() && value.is(Kind::Computed);
    if (isVector || value.is(Kind::Place) || value.is(Kind::Components) || value.is(Kind::Argument)) {
      std::string what = value.is(Kind::Argument)
                             ? "<class 'Expr'>: it is a runtime kernel argument and cannot be used inside qd.static()"
                             : "<class 'Expr'> ('" + ir::describe(value.type) + "'); assign it with qd.static if it is constant";
      fail(error::kCompilation, "Input to qd.static must be compile-time constants or global pointers, instead of " + what);
    }
    if (value.is(Kind::Range) && value.aggregate->items.size() != 1)
      fail(error::kType, "TypeError when calling `range`: a run-time value cannot be interpreted as an integer inside qd.static.");
  };
  for (const Value &value : arguments.positional) check(value);
  Value result = arguments.positional.size() == 1 ? arguments.positional[0] : makeAggregate(Kind::Sequence, arguments.positional);
  result.isStatic = true;
  return result;
}

Value FunctionBuilder::callMinMax(BinaryKind kind, Arguments &arguments, llvm::StringRef name) {
  std::vector<Value> operands = arguments.positional;
  if (operands.size() == 1) operands = listItems(operands[0], "compare the items of");
  if (operands.empty()) fail(error::kType, name + "() needs at least one value");
  if (llvm::all_of(operands, [&](const Value &value) { return isConstant(value) && value.isObject(); })) {
    nb::list list;
    for (const Value &value : operands) list.append(value.object);
    nb::object function = nb::borrow(PyDict_GetItemString(session.python.builtins.ptr(), kind == BinaryKind::min ? "min" : "max"));
    return makeObject(function(list));
  }
  mlir::Value result = emit(operands[0], operands.size() > 1 ? findType(operands[1]) : Type());
  for (size_t index = 1; index < operands.size(); ++index)
    result = binaryTyped(kind, result, emit(operands[index], result.getType()), name);
  return makeComputed(result);
}

Value FunctionBuilder::callCast(const Value &value, Type scalar) {
  if (value.isObject() && session.python.isNumber(value.object)) return makeComputed(convert(value, scalar));
  return makeComputed(cast(emit(value), scalar));
}

Value FunctionBuilder::callAtomic(llvm::StringRef name, Arguments &arguments) {
  llvm::StringRef row = name.drop_front(7);
  const Value &place = arguments.positional[0];
  bool isLvalue = (place.is(Kind::Place) || place.is(Kind::Components)) && !place.isReadOnly;
  if (!isLvalue)
    fail(error::kSyntax,
         "cannot use a non-writable target as the first operand of '" + name + "': an lvalue (a variable or an element) is needed");
  if (row == "cas") {
    if (!place.is(Kind::Place) || isa<VectorType>(place.type) || arguments.positional.size() != 3)
      fail(error::kType, "qd.atomic_cas takes a scalar lvalue, the expected value and the new value");
    return makeComputed(create<ir::CompareExchangeOp>(place.type, place.ir, convert(arguments.positional[1], place.type),
                                                      convert(arguments.positional[2], place.type)));
  }
  std::string full = row == "and" || row == "or" || row == "xor" ? "bit_" + row.str() : row.str();
  std::optional<ir::AtomicKind> kind = ir::findAtomic(full);
  if (!kind || arguments.positional.size() != 2) fail(error::kType, "qd." + name + " takes an lvalue and a value");
  Type scalar = ir::getScalar(place.type);
  mlir::Value operand = emit(arguments.positional[1], place.type);
  if (ir::getRow(*kind).operand == ir::OperandClass::Integer &&
      (ir::isFloatScalar(scalar) || ir::isFloatScalar(ir::getScalar(operand.getType()))))
    fail(error::kType,
         "'" + name + "' requires integer operands, got '" + ir::describe(place.type) + "' and '" + ir::describe(operand.getType()) + "'");
  operand = convert(operand, place.type);
  if (place.is(Kind::Place)) return makeComputed(create<ir::AtomicOp>(*kind, place.ir, operand));
  SmallVector<mlir::Value> old;
  for (size_t position = 0; position < place.aggregate->components.size(); ++position)
    old.push_back(create<ir::AtomicOp>(*kind, componentPlace(place, position).ir, extract(operand, int64_t(position))));
  return makeComputed(makeVector(old, place.type));
}

Value FunctionBuilder::callBuiltin(llvm::StringRef name, const Value &callee, Arguments &arguments, nb::handle) {
  std::vector<Value> &given = arguments.positional;
  auto expect = [&](size_t low, size_t high) {
    if (given.size() < low || given.size() > high)
      fail(error::kType, "qd." + name + "() takes " + std::to_string(low) + (low == high ? "" : " to " + std::to_string(high)) +
                             " arguments, got " + std::to_string(given.size()));
  };
  auto dtypeAt = [&](size_t index, llvm::StringRef keyword) -> Type {
    const Value *value = given.size() > index ? &given[index] : findNamed(arguments, keyword);
    if (!value || value->isNone()) return {};
    Type type = value->isObject() ? session.findScalarType(value->object) : Type();
    if (!type) fail(error::kType, "Invalid data type " + describe(*value) + " given to qd." + name);
    return type;
  };
  if (name == "static") return callStatic(arguments);
  if (name == "static_assert") {
    nb::object condition = given.empty() ? nb::object() : toPython(given[0]);
    if (!condition) fail(error::kType, "Static assert with non-static condition");
    const Value *message = given.size() > 1 ? &given[1] : findNamed(arguments, "msg");
    if (PyObject_IsTrue(condition.ptr()) != 1)
      fail(error::kCompilation, "AssertionError: " + (message ? toText(nb::str(known(*message))) : "static assertion failed"));
    return makeObject(nb::none());
  }
  if (name == "static_print") {
    nb::list texts;
    for (const Value &value : given) {
      nb::object object = toPython(value);
      texts.append(object ? object : nb::object(nb::str(describe(value).c_str())));
    }
    nb::dict named;
    for (const auto &[key, value] : arguments.named) named[key.c_str()] = known(value);
    nb::object print = nb::borrow(PyDict_GetItemString(session.python.builtins.ptr(), "print"));
    if (PyObject *result = PyObject_Call(print.ptr(), nb::tuple(texts).ptr(), named.ptr()))
      Py_DECREF(result);
    else
      throw nb::python_error();
    return makeObject(nb::none());
  }
  if (name == "ndrange") return makeNdrange(arguments);
  if (name == "grouped") {
    expect(1, 1);
    const Value &operand = given[0];
    if (operand.isStatic) fail(error::kSyntax, "'qd.static' is not allowed inside 'qd.grouped'");
    if (isTensor(operand) || (operand.isObject() && session.python.isInstance(operand.object, session.python.structField)))
      return makeAggregate(Kind::Range, {operand});
    Value range = operand.isObject() ? toRange(operand) : operand;
    if (!range.is(Kind::Range) || !range.aggregate->isNdrange)
      fail(error::kSyntax, range.is(Kind::Range) && range.aggregate->items.size() == 1 ? "'qd.grouped' cannot be nested"
                                                                                       : "qd.grouped needs a container or qd.ndrange");
    if (range.aggregate->isGrouped) fail(error::kSyntax, "'qd.grouped' cannot be nested");
    if (operand.isObject()) return makeObject(operand.object.attr("grouped")());
    Value grouped = range;
    grouped.aggregate = std::make_shared<Aggregate>(*range.aggregate);
    grouped.aggregate->isGrouped = true;
    return grouped;
  }
  if (name == "loop_config") {
    configureLoop(arguments);
    return makeObject(nb::none());
  }
  if (name == "Vector" || name == "Matrix") return makeMatrix(arguments, name == "Vector");
  if (name == "Struct") return makeAnonymousStruct(arguments);
  if (name.starts_with("atomic_")) {
    expect(2, 3);
    return callAtomic(name, arguments);
  }
  if (name == "cast") {
    if (const Value *dtype = findNamed(arguments, "dtype"); dtype && given.size() == 1) given.push_back(*dtype);
    expect(2, 2);
    Type type = dtypeAt(1, "dtype");
    if (!type) fail(error::kType, "qd.cast needs a data type");
    return callCast(given[0], type);
  }
  if (name == "bit_cast") {
    expect(2, 2);
    Type type = dtypeAt(1, "dtype");
    mlir::Value value = emit(given[0], type);
    auto size = [](Type scalar) { return support::getByteSize(ir::getScalarType(scalar)); };
    if (!type || size(ir::getScalar(value.getType())) != size(type))
      fail(error::kType, "bit_cast needs types of equal size, got '" + ir::describe(value.getType()) + "' and '" +
                             (type ? ir::describe(type) : "none") + "'");
    return makeComputed(create<ir::BitCastOp>(ir::withScalar(value.getType(), type), value));
  }
  if (name == "select") {
    expect(3, 3);
    return select(given[0], given[1], given[2]);
  }
  if (name == "random") {
    expect(0, 1);
    Type type = dtypeAt(0, "dtype");
    return makeComputed(create<ir::RandomOp>(type ? type : session.types.defaultFloat));
  }
  if (name == "zero" || name == "one") {
    expect(1, 1);
    mlir::Value value = emit(given[0]);
    return makeComputed(convert(constant(name == "one", session.types.i32), value.getType()));
  }
  if (name == "frexp") {
    expect(1, 1);
    Value operand = makeComputed(emit(given[0]));
    return makeTuple({unary(UnaryKind::mantissa, operand, name), unary(UnaryKind::exponent, operand, name)});
  }
  if (name == "assume_in_range" || name == "loop_unique" || name == "volatile_load") {
    expect(1, 4);
    return load(given[0]);
  }
  if (name == "block_local" || name == "cache_read_only" || name == "no_activate") return makeObject(nb::none());
  bool areKnown = llvm::all_of(given, [&](const Value &value) { return value.isObject() && isConstant(value); });
  if (name == "max" || name == "min") {
    if (given.size() < 2) fail(error::kType, "qd." + name + "() takes two or more values");
    return callMinMax(name == "max" ? BinaryKind::max : BinaryKind::min, arguments, name);
  }
  if (name == "floor" || name == "ceil" || name == "round" || name == "trunc") {
    expect(1, 2);
    Type type = dtypeAt(1, "dtype");
    Value result = unary(*ir::findUnary(name), given[0], name);
    return type ? callCast(result, type) : result;
  }
  if (auto kind = ir::findUnary(name)) {
    expect(1, 1);
    if (given[0].is(Kind::Struct)) fail(error::kType, "qd." + name + "() does not take structs");
    return unary(*kind, given[0], name);
  }
  if (auto kind = ir::findBinary(name)) {
    expect(2, 2);
    if (areKnown && *kind != BinaryKind::pow) return makeComputed(binaryTyped(*kind, emit(given[0]), emit(given[1]), name));
    return binary(*kind, load(given[0]), given[1], name);
  }
  fail(error::kSyntax, "'qd." + name + "' is not supported in kernels; " + describe(callee));
}

Value FunctionBuilder::callReduction(llvm::StringRef name, Arguments &arguments) {
  const Value &operand = arguments.positional[0];
  if (operand.isTyped() && isa<VectorType>(operand.type)) {
    Arguments none;
    return callMatrixMethod(operand, name, none);
  }
  std::vector<Value> items = listItems(operand, "reduce");
  if (name == "sum") {
    Value total = arguments.positional.size() > 1 ? arguments.positional[1] : makeObject(nb::int_(0));
    bool isFirst = arguments.positional.size() < 2;
    for (const Value &item : items) {
      total = isFirst ? item : binary(BinaryKind::add, total, item, "+");
      isFirst = false;
    }
    return total;
  }
  mlir::Value result = constant(name == "all", session.types.u1);
  for (const Value &item : items)
    result = create<ir::BinaryOp>(name == "all" ? BinaryKind::bit_and : BinaryKind::bit_or, result, truth(item, name));
  return makeComputed(result);
}

Value FunctionBuilder::callPythonBuiltin(llvm::StringRef name, const Value &callee, Arguments &arguments) {
  std::vector<Value> &given = arguments.positional;
  if (name == "range") return makeRange(arguments);
  bool isKnown = llvm::all_of(given, [&](const Value &value) { return bool(toPython(value)) && !value.is(Kind::Tensor); }) &&
                 llvm::all_of(arguments.named, [&](const auto &named) { return bool(toPython(named.second)); });
  bool hasMatrix = llvm::any_of(
      given, [&](const Value &value) { return value.isObject() && session.python.isInstance(value.object, session.python.matrix); });
  if ((name == "tuple" || name == "list" || name == "reversed" || name == "enumerate" || name == "zip") && !given.empty() &&
      arguments.named.empty() && !(isKnown && given[0].isObject() && !given[0].path && !hasMatrix)) {
    std::vector<std::vector<Value>> columns;
    for (const Value &value : given) columns.push_back(listItems(value, "iterate over"));
    if (name == "tuple" || name == "list") {
      Value result = makeAggregate(Kind::Sequence, std::move(columns[0]));
      result.aggregate->isTuple = name == "tuple";
      return result;
    }
    if (name == "reversed") {
      std::reverse(columns[0].begin(), columns[0].end());
      return makeTuple(std::move(columns[0]));
    }
    size_t count = columns[0].size();
    for (const std::vector<Value> &column : columns) count = std::min(count, column.size());
    std::vector<Value> rows;
    for (size_t row = 0; row < columns[0].size() && (name == "enumerate" || row < count); ++row) {
      std::vector<Value> items;
      if (name == "enumerate")
        items = {makeObject(nb::int_(row)), columns[0][row]};
      else
        for (const std::vector<Value> &column : columns) items.push_back(column[row]);
      rows.push_back(makeTuple(std::move(items)));
    }
    return makeTuple(std::move(rows));
  }
  if (name == "len" && given.size() == 1) {
    const Value &operand = given[0];
    if (operand.is(Kind::Sequence) || operand.is(Kind::Dictionary)) return makeObject(nb::int_(operand.aggregate->items.size()));
    if (operand.isTyped())
      if (auto type = dyn_cast<VectorType>(operand.type)) return makeObject(nb::int_(type.getDimSize(0)));
    if (isTensor(operand)) return subscriptSequence(tensorShape(toTensor(operand)), makeObject(nb::int_(0)));
  }
  if (name == "isinstance" && given.size() == 2 && given[0].isTyped()) return makeObject(nb::bool_(false));
  if (name == "isinstance" && given.size() == 2 && given[0].is(Kind::Sequence)) {
    // A list whose items are known at run time only is a list all the same.
    nb::object empty = given[0].aggregate->isTuple ? nb::object(nb::make_tuple()) : nb::object(nb::list());
    int result = PyObject_IsInstance(empty.ptr(), known(given[1]).ptr());
    if (result < 0) throw nb::python_error();
    return makeObject(nb::bool_(result == 1));
  }
  if ((name == "hasattr" || name == "getattr") && given.size() >= 2 && given[0].isObject() && given[1].isObject()) {
    nb::object found = findAttribute(given[0].object, given[1].object);
    if (!found) {
      session.reader.depend(session.reader.getStep(given[0].path, artifact::PathStep::Kind::Attribute, toText(given[1].object)),
                            artifact::Dependency::Kind::Absent);
      if (name == "hasattr") return makeObject(nb::bool_(false));
      if (given.size() == 3) return given[2];
    }
    nb::object interned = given[1].object;
    Value member = getAttributeOf(given[0], interned);
    return name == "hasattr" ? makeObject(nb::bool_(true)) : member;
  }
  if ((name == "max" || name == "min") && arguments.named.empty() && !given.empty())
    return callMinMax(name == "max" ? BinaryKind::max : BinaryKind::min, arguments, name);
  if (isKnown && !hasMatrix) {
    if (name == "eval" || name == "exec" || name == "open" || name == "input")
      fail(error::kSyntax, "'" + name + "' cannot be called in kernels");
    return callPython(callee, arguments);
  }
  if (name == "abs" && given.size() == 1) return unary(UnaryKind::abs, given[0], name);
  if (name == "pow" && given.size() == 2) return binary(BinaryKind::pow, load(given[0]), given[1], "**");
  if (name == "round" && given.size() == 1) return callCast(unary(UnaryKind::round, given[0], name), session.types.defaultInteger);
  if (name == "divmod" && given.size() == 2) {
    Value first = load(given[0]), second = load(given[1]);
    return makeTuple({binary(BinaryKind::floor_div, first, second, "//"), binary(BinaryKind::mod, first, second, "%")});
  }
  if ((name == "sum" && (given.size() == 1 || given.size() == 2)) || ((name == "any" || name == "all") && given.size() == 1))
    return callReduction(name, arguments);
  return callPython(callee, arguments);
}

} // namespace qd::frontend
