// conversions.cpp: conversions between compile-time values, places and typed IR values
//
// In:   a value of any kind.
// Out:  the same value as an mlir::Value (`emit`), as a Python object (`toPython`), or as a container (`toTensor`).
// Here: the only file that reads a value of every kind.
#include "frontend/builder.h"

using namespace mlir;

namespace qd::frontend {

bool Conversions::isConstant(const Operand &value) {
  switch (value.kind) {
  case Kind::Object: return !session.python.isTensor(value.object);
  case Kind::Sequence:
  case Kind::Dictionary: return llvm::all_of(value.aggregate->items, [&](const Operand &item) { return isConstant(item); });
  default: return false;
  }
}

nb::object Conversions::toPython(const Operand &value) {
  switch (value.kind) {
  case Kind::Object:
    // Code that uses the container as an object depends on its class.
    if (session.python.isTensor(value.object)) session.tracker.depend(value.path, artifact::Dependency::Kind::Type);
    return value.object;
  case Kind::Tensor: return value.object;
  case Kind::Sequence: {
    nb::list list;
    for (const Operand &item : value.aggregate->items) {
      nb::object object = toPython(item);
      if (!object) return {};
      list.append(object);
    }
    if (value.aggregate->structType) return value.aggregate->structType.attr("_make")(list);
    return value.aggregate->isTuple ? nb::object(nb::tuple(list)) : nb::object(list);
  }
  case Kind::Dictionary: {
    nb::dict dict;
    for (auto [name, item] : llvm::zip(value.aggregate->names, value.aggregate->items)) {
      nb::object object = toPython(item);
      if (!object) return {};
      dict[name] = object;
    }
    return dict;
  }
  case Kind::Method:
    // A func with captured variables, or a partial of it, is no Python object.
    if (value.aggregate->items.empty() || !value.aggregate->items[0].isObject()) return {};
    if (session.python.isInstance(value.object, session.python.functionClass))
      return session.python.methodClass(value.object, value.aggregate->items[0].object);
    if (!PyUnicode_Check(value.object.ptr())) return {};
    return findAttribute(value.aggregate->items[0].object, value.object);
  default: return {};
  }
}

nb::object Conversions::known(const Operand &value) {
  nb::object object = toPython(value);
  if (!object) fail(error::kType, "a value known while compiling is expected, got " + describe(value));
  return object;
}

bool Conversions::isTrue(const Operand &value) {
  if (!value.isStatic && (isTensor(value) || value.hasRuntimeMembers))
    fail(error::kType, "conditions must be an integer; found " + describe(value));
  int result = PyObject_IsTrue(known(value).ptr());
  if (result < 0) throw nb::python_error();
  return result == 1;
}

Operand Conversions::fromPython(nb::handle object, const PathNode *path) {
  bool isTuple = PyTuple_CheckExact(object.ptr());
  if (!path && (isTuple || PyList_CheckExact(object.ptr()))) {
    std::vector<Operand> items;
    for (nb::handle item : object) items.push_back(fromPython(item, nullptr));
    Operand value = makeAggregate(Kind::Sequence, std::move(items));
    value.aggregate->isTuple = isTuple;
    return value;
  }
  return makeObject(object, path);
}

mlir::Value Conversions::emitHostMatrix(nb::handle object) {
  nb::object array = getAttribute(object, names()._array), dtype = findAttribute(object, names().dtype);
  nb::list numbers = nb::borrow<nb::list>(array.attr("ravel")().attr("tolist")());
  Type scalar = dtype && !dtype.is_none() ? session.findScalarType(dtype) : Type();
  SmallVector<int64_t> shape;
  for (nb::handle extent : array.attr("shape")) shape.push_back(nb::cast<int64_t>(extent));
  if (nb::len(numbers) == 0 || shape.size() > 2) fail(error::kType, "a vector or matrix has one or two axes and at least one component");
  if (!scalar)
    for (nb::handle number : numbers)
      scalar = emitter.promote(emitter.literalType(number, {}), scalar ? scalar : emitter.literalType(number, {}));
  SmallVector<mlir::Value> components;
  for (nb::handle number : numbers) components.push_back(emitter.constantNumber(number, scalar));
  return emitter.widened(emitter.makeVectorOf(components, shape));
}

mlir::Value Conversions::emitObject(const Operand &value, Type anchor) {
  nb::handle object = value.object;
  if (session.python.isNumber(object)) {
    nb::object number = session.python.toPlainNumber(object);
    return emitter.constantNumber(number, emitter.literalType(number, anchor));
  }
  if (session.python.isInstance(object, session.python.matrix)) return emitHostMatrix(object);
  if (PyTuple_Check(object.ptr()) || PyList_Check(object.ptr())) {
    std::vector<Operand> items;
    int64_t index = 0;
    for (nb::handle item : object)
      items.push_back(makeObject(item, session.tracker.getStep(value.path, PathStep::Kind::Item, "", index++)));
    return emitSequence(makeTuple(std::move(items)));
  }
  if (session.python.isInstance(object, session.python.numpyArray))
    fail(error::kType, "Only 0-dimensional numpy array can be used to initialize a scalar expression");
  fail(error::kType, "Invalid constant scalar data type: " + describeType(object));
}

mlir::Value Conversions::emitSequence(const Operand &value) {
  const std::vector<Operand> &items = value.aggregate->items;
  if (items.empty()) fail(error::kType, "an empty list has no type");
  SmallVector<mlir::Value> rows;
  for (const Operand &item : items) rows.push_back(emit(item));
  Type scalar = ir::getScalar(rows[0].getType());
  for (mlir::Value row : rows) scalar = emitter.promote(scalar, row.getType());
  auto first = dyn_cast<VectorType>(rows[0].getType());
  SmallVector<mlir::Value> components;
  for (mlir::Value row : rows) {
    if (ir::withScalar(row.getType(), scalar) != ir::withScalar(rows[0].getType(), scalar) || (first && first.getRank() != 1))
      fail(error::kType, "the rows of a matrix must have the same length");
    for (int64_t component = 0; component < ir::getComponentCount(row.getType()); ++component)
      components.push_back(emitter.cast(first ? emitter.extract(row, component) : row, scalar));
  }
  SmallVector<int64_t> shape{int64_t(rows.size())};
  if (first) shape.push_back(first.getDimSize(0));
  return emitter.makeVectorOf(components, shape);
}

mlir::Value Conversions::getInput(const Operand &value) {
  auto found = context.body->inputs.find(value.input);
  if (found != context.body->inputs.end()) return found->second;
  const artifact::Input &input = session.tracker.getInput(value.input);
  OpBuilder::InsertionGuard guard(builder);
  if (context.body->lastInput)
    builder.setInsertionPointAfter(context.body->lastInput);
  else
    builder.setInsertionPointToStart(context.body->entry);
  mlir::Value result;
  if (value.input >= DependencyTracker::kBlockArrays) {
    result = create<ir::SharedOp>(value.type, value.input - DependencyTracker::kBlockArrays);
  } else if (value.is(Kind::Argument)) {
    result = create<ir::ArgumentOp>(value.type, input.offset);
  } else {
    bool isArgument = input.path.root == artifact::Path::Root::Argument;
    auto op = create<ir::TensorArgumentOp>(value.type, input.offset, input.name, isArgument ? input.path.argument : 0, input.isField);
    session.tensorArguments.emplace_back(op, value.input);
    result = op;
  }
  context.body->lastInput = result.getDefiningOp();
  return context.body->inputs[value.input] = result;
}

mlir::Value Conversions::emit(const Operand &value, Type anchor) {
  if (anchor) anchor = session.valueType(anchor);
  switch (value.kind) {
  case Kind::Object: return emitObject(value, anchor);
  case Kind::Computed: return value.ir;
  case Kind::Place: {
    mlir::Value loaded = emitter.widened(create<ir::LoadOp>(value.type, value.ir));
    return stoppedGradients().isStopped(value.ir) ? stoppedGradients().withoutDerivative(loaded) : loaded;
  }
  case Kind::Argument: return emitter.widened(getInput(value));
  case Kind::Components: {
    const Aggregate &parts = *value.aggregate;
    SmallVector<mlir::Value> components;
    mlir::Value whole = parts.components.empty() ? mlir::Value() : emit(parts.items[0]);
    for (int32_t component : parts.components) components.push_back(emitter.extract(whole, component));
    if (!whole)
      for (const Operand &place : parts.items) components.push_back(emit(place));
    return emitter.makeVector(components, session.valueType(value.type));
  }
  case Kind::Sequence: return emitSequence(value);
  case Kind::Tensor:
    fail(error::kType, "Invalid constant scalar data type: " + describeType(value.object) + "; index the container to read an element");
  case Kind::Method: fail(error::kType, "'" + toText(nb::str(value.object)) + "' is a method: call it");
  case Kind::Struct: fail(error::kType, "a scalar, vector or matrix is expected, got a struct");
  case Kind::Dictionary: fail(error::kType, "Invalid constant scalar data type: <class 'dict'>");
  case Kind::View: fail(error::kType, "a view has no value: index it to read an element; as a whole it is only valid in tile operations");
  case Kind::Instance: fail(error::kType, "a scalar, vector or matrix is expected, got " + describe(value));
  case Kind::Range: fail(error::kType, "a range can only be looped over");
  }
  llvm_unreachable("all kinds are listed");
}

bool Conversions::canEmit(const Operand &value) {
  if (value.isObject()) return session.python.isNumber(value.object) || session.python.isInstance(value.object, session.python.matrix);
  return value.isTyped();
}

Operand Conversions::load(const Operand &value) {
  if (value.is(Kind::Place) || value.is(Kind::Components) || value.is(Kind::Argument)) return makeComputed(emit(value));
  return value;
}

Type Conversions::findType(const Operand &value) {
  if (value.isTyped()) return session.valueType(value.type);
  if (session.python.isNumber(value.getObject())) return emitter.literalType(session.python.toPlainNumber(value.object), session.types.i64);
  return {};
}

std::optional<int64_t> Conversions::findInteger(const Operand &value) {
  if (!value.isObject() || PyBool_Check(value.object.ptr()) || PyFloat_Check(value.object.ptr()) || !PyIndex_Check(value.object.ptr()))
    return std::nullopt;
  nb::object number = nb::steal(PyNumber_Index(value.object.ptr()));
  if (!number) {
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) throw nb::python_error();
    PyErr_Clear(); // not convertible, such as an array of many elements
    return std::nullopt;
  }
  int overflow = 0;
  long long result = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  return overflow ? std::nullopt : std::optional<int64_t>(result);
}

std::string Conversions::describe(const Operand &value) {
  if (value.isTyped()) return ir::describe(value.type);
  switch (value.kind) {
  case Kind::Tensor:
    if (value.input >= DependencyTracker::kBlockArrays) return "a shared array";
    [[fallthrough]];
  case Kind::Object:
    if (Type type = findType(value)) return ir::describe(type);
    return describeType(value.object);
  case Kind::Sequence:
    if (value.aggregate->structType) return toText(nb::repr(value.aggregate->structType)).str();
    return value.aggregate->isTuple ? "<class 'tuple'>" : "<class 'list'>";
  case Kind::Dictionary: return "<class 'dict'>";
  case Kind::Struct: return "struct";
  case Kind::Instance: return toText(nb::repr(value.object)).str();
  case Kind::View: return "BufferView";
  default: return "method";
  }
}

/// The layout of a container; fails for a shadow that was never placed.
static layout::TensorLayout readTensorLayout(Session &session, const Operand &value) {
  try {
    return session.readInputLayout(value.object);
  } catch (nb::python_error &) {
    nb::object state = findAttribute(value.object, nb::str("_state"));
    if (!DependencyTracker::isShadow(value.path) || !state || toText(state) != "unplaced") throw;
    session.fail(error::kCompilation, "Gradient " + DependencyTracker::describe(value.path) +
                                          " has not been placed, check whether `needs_" + value.path->step.name + "=True`");
  }
}

Operand Conversions::toTensor(const Operand &value, nb::handle shape) {
  if (value.is(Kind::Tensor)) return value;
  if (!value.path)
    fail(error::kCompilation, "a container made while compiling is used in kernel scope but not registered as a kernel parameter");
  layout::TensorLayout layout = readTensorLayout(session, value);
  bool isField = session.python.isInstance(value.object, session.python.fieldBase);
  if (!isField) Signature::setKnownExtents(layout, shape);
  return signature().makeTensor(value, std::move(layout), isField);
}

Operand Conversions::copy(const Operand &value) {
  return value.is(Kind::Struct) ? mapItems(value, [&](const Operand &item) { return copy(item); }) : load(value);
}

Operand Conversions::makeInput(const PathNode *path, Type type) {
  Operand argument;
  argument.kind = Kind::Argument;
  argument.type = type;
  argument.path = path;
  argument.isReadOnly = true;
  argument.input = session.tracker.addValue(path, type);
  return argument;
}

Operand Conversions::callCast(const Operand &value, Type scalar) {
  if (session.python.isNumber(value.getObject())) return rounded(makeComputed(convert(value, scalar)));
  return rounded(makeComputed(emitter.cast(emit(value), scalar)));
}

Operand Conversions::rounded(const Operand &value) {
  if (!value.isTyped() || ir::getScalar(value.type) != session.types.bf16) return value;
  mlir::Value memory = create<ir::LocalOp>(ir::RefType::get(value.type));
  create<ir::StoreOp>(emit(value), memory);
  return load(makePlace(memory));
}

mlir::Value Conversions::convert(const Operand &value, Type type) {
  if (value.isObject() && !isa<VectorType>(type) && session.python.isNumber(value.object)) {
    nb::object number = session.python.toPlainNumber(value.object);
    Type own = emitter.literalType(number, isa<IntegerType>(type) ? session.types.u64 : session.valueType(type));
    // A float is first rounded to default_fp, even if that is narrower. An integer is converted exactly to its target type.
    if (PyFloat_Check(number.ptr())) return emitter.cast(emitter.constantNumber(number, own), type);
    return isa<IntegerType>(type) || PyBool_Check(number.ptr()) ? emitter.constantNumber(number, type)
                                                                : emitter.cast(emitter.constantNumber(number, own), type);
  }
  return emitter.convert(emit(value, type), type);
}

} // namespace qd::frontend
