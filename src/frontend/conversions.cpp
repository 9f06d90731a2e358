// conversions.cpp: conversions of operands
//
// In:   an operand of any kind.
// Out:  its value as an mlir::Value (`emit`), as a Python object (`toPython`), or as a container (`toTensor`).
// Here: the only file that visits every kind.
#include "frontend/builder.h"

using namespace mlir;

namespace qd::frontend {

bool Conversions::isConstant(const Operand &value) {
  if (value.isObject()) return !session.python.isTensor(value.getObject());
  if (!value.is<Sequence>() && !value.is<Dictionary>() && !value.is<DictView>()) return false;
  return llvm::all_of(value.findBase<Aggregate>()->items, [&](const Operand &item) { return isConstant(item); });
}

nb::object Conversions::toPython(const Operand &value) {
  return value.visit(
      [&](const PythonObject &known) {
        // Code that uses the container as an object depends on its class.
        if (session.python.isTensor(known.object)) session.tracker.depend(known.path, artifact::Dependency::Kind::Type);
        return known.object;
      },
      [&](const Tensor &tensor) { return tensor.object; },
      [&](const Sequence &sequence) -> nb::object {
        nb::list list;
        for (const Operand &item : sequence.items) {
          nb::object object = toPython(item);
          if (!object) return {};
          list.append(object);
        }
        if (sequence.type) return sequence.type.attr("_make")(list);
        return sequence.isTuple ? nb::object(nb::tuple(list)) : nb::object(list);
      },
      [&](const Dictionary &dictionary) -> nb::object {
        if (dictionary.hasRuntimeKeys) return {};
        nb::dict dict;
        for (auto [name, item] : llvm::zip(dictionary.names, dictionary.items)) {
          nb::object object = toPython(item);
          if (!object) return {};
          dict[name] = object;
        }
        return dict;
      },
      [&](const DictView &view) {
        return isConstant(view.items[0]) ? toPython(makeTuple(collections().listItems(value, "read"))) : nb::object();
      },
      [&](const Method &method) -> nb::object {
        // A func with captured variables, or a partial of it, is no Python object.
        nb::object receiver = method.items.empty() ? nb::object() : method.items[0].getObject();
        if (!receiver) return {};
        if (session.python.isInstance(method.callee, session.python.host.function))
          return session.python.host.method(method.callee, receiver);
        return PyUnicode_Check(method.callee.ptr()) ? findAttribute(receiver, method.callee) : nb::object();
      },
      [](const auto &) { return nb::object(); });
}

nb::object Conversions::known(const Operand &value) {
  nb::object object = toPython(value);
  if (!object) fail(error::kType, "a value known while compiling is expected, got " + describe(value));
  return object;
}

bool Conversions::isTrue(const Operand &value) {
  auto *object = value.find<PythonObject>();
  if (!value.isStatic && (isTensor(value) || (object && object->hasRuntimeMembers)))
    fail(error::kType, "conditions must be an integer; found " + describe(value));
  int result = PyObject_IsTrue(known(value).ptr());
  if (result < 0) throw nb::python_error();
  if (object) collections().dependOnLength(*object, /*isTruth=*/true);
  return result == 1;
}

Operand Conversions::fromPython(nb::handle object, const PathNode *path) {
  bool isTuple = PyTuple_CheckExact(object.ptr());
  if (!path && (isTuple || PyList_CheckExact(object.ptr()))) {
    std::vector<Operand> items;
    for (nb::handle item : object) items.push_back(fromPython(item, nullptr));
    return makeSequence(std::move(items), isTuple);
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

mlir::Value Conversions::emitObject(const PythonObject &value, Type anchor) {
  nb::handle object = value.object;
  if (session.python.isNumber(object)) {
    nb::object number = session.python.toPlainNumber(object);
    return emitter.constantNumber(number, emitter.literalType(number, anchor));
  }
  if (session.python.isInstance(object, session.python.values.matrix)) return emitHostMatrix(object);
  if (PyTuple_Check(object.ptr()) || PyList_Check(object.ptr())) {
    std::vector<Operand> items;
    int64_t index = 0;
    for (nb::handle item : object)
      items.push_back(makeObject(item, session.tracker.getStep(value.path, PathStep::Kind::Item, "", index++)));
    return emitSequence(items, anchor);
  }
  if (session.python.isInstance(object, session.python.host.numpyArray))
    fail(error::kType, "Only 0-dimensional numpy array can be used to initialize a scalar expression");
  fail(error::kType, "Invalid constant scalar data type: " + describeType(object));
}

mlir::Value Conversions::emitSequence(const std::vector<Operand> &items, Type anchor) {
  if (items.empty()) fail(error::kType, "an empty list has no type");
  auto typed = llvm::find_if(items, [](const Operand &item) { return item.isTyped(); });
  if (!anchor && typed != items.end()) anchor = typed->getType();
  SmallVector<mlir::Value> rows;
  for (const Operand &item : items) rows.push_back(emit(item, anchor));
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

mlir::Value Conversions::getInput(uint32_t number, Type type) {
  auto found = context.body->inputs.find(number);
  if (found != context.body->inputs.end()) return found->second;
  const artifact::Input &input = session.tracker.getInput(number);
  OpBuilder::InsertionGuard guard(builder);
  if (context.body->lastInput)
    builder.setInsertionPointAfter(context.body->lastInput);
  else
    builder.setInsertionPointToStart(context.body->entry);
  mlir::Value result;
  if (number >= DependencyTracker::kBlockArrays) {
    result = create<ir::SharedOp>(type, number - DependencyTracker::kBlockArrays);
  } else if (!isa<ir::TensorType>(type)) {
    result = create<ir::ArgumentOp>(type, input.offset);
  } else {
    bool isArgument = input.path.root == artifact::Path::Root::Argument;
    auto op = create<ir::TensorArgumentOp>(type, input.offset, input.name, isArgument ? input.path.argument : 0, input.isField);
    session.tensorArguments.emplace_back(op, number);
    result = op;
  }
  context.body->lastInput = result.getDefiningOp();
  return context.body->inputs[number] = result;
}

mlir::Value Conversions::emitComponents(const Components &parts) {
  SmallVector<mlir::Value> components;
  mlir::Value whole = parts.places.empty() ? emit(parts.whole) : mlir::Value();
  for (int32_t number : parts.numbers) components.push_back(emitter.extract(whole, number));
  for (const Operand &place : parts.places) components.push_back(emit(place));
  return emitter.makeVector(components, session.valueType(parts.type));
}

mlir::Value Conversions::emit(const Operand &value, Type anchor) {
  if (anchor) anchor = session.valueType(anchor);
  auto refuse = [&](const llvm::Twine &message) -> mlir::Value { fail(error::kType, message); };
  return value.visit(
      [&](const PythonObject &object) { return emitObject(object, anchor); }, [&](const Computed &computed) { return computed.ir; },
      [&](const Place &place) {
        if (place.packed) return packedElements().load(place);
        mlir::Value loaded = emitter.widened(create<ir::LoadOp>(place.getType(), place.ref));
        return stoppedGradients().isStopped(place.ref) ? stoppedGradients().withoutDerivative(loaded) : loaded;
      },
      [&](const Argument &argument) { return emitter.widened(getInput(argument.input, argument.type)); },
      [&](const Components &components) { return emitComponents(components); },
      [&](const Sequence &sequence) { return emitSequence(sequence.items, anchor); },
      [&](const Tensor &tensor) {
        return refuse("Invalid constant scalar data type: " + describeType(tensor.object) + "; index the container to read an element");
      },
      [&](const Method &method) { return refuse("'" + toText(nb::str(method.callee)) + "' is a method: call it"); },
      [&](const Struct &) { return refuse("a scalar, vector or matrix is expected, got a struct"); },
      [&](const DictView &) { return emitSequence(collections().listItems(value, "compute with"), anchor); },
      [&](const Dictionary &) { return refuse("Invalid constant scalar data type: <class 'dict'>"); },
      [&](const View &) {
        return refuse("a view has no value: read or write its elements by an index; as a whole it is only valid in tile operations");
      },
      [&](const Instance &) { return refuse("a scalar, vector or matrix is expected, got " + describe(value)); },
      [&](const auto &) { return refuse("a range can only be looped over"); });
}

bool Conversions::canEmit(const Operand &value) {
  return value.isTyped() || session.python.isNumber(value.getObject()) ||
         session.python.isInstance(value.getObject(), session.python.values.matrix);
}

Operand Conversions::load(const Operand &value) {
  if (value.is<Place>() || value.is<Components>() || value.is<Argument>()) return makeComputed(emit(value));
  return value;
}

Type Conversions::findType(const Operand &value) {
  if (value.isTyped()) return session.valueType(value.getType());
  if (session.python.isNumber(value.getObject()))
    return emitter.literalType(session.python.toPlainNumber(value.getObject()), session.types.i64);
  return {};
}

std::optional<int64_t> Conversions::findInteger(const Operand &value) {
  PyObject *object = value.getObject().ptr();
  if (!object || PyBool_Check(object) || PyFloat_Check(object) || !PyIndex_Check(object)) return std::nullopt;
  nb::object number = nb::steal(PyNumber_Index(object));
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
  if (Type type = value.isTyped() ? value.getType() : findType(value)) return ir::describe(type);
  return value.visit(
      [](const PythonObject &known) { return describeType(known.object); },
      [](const Tensor &tensor) { return tensor.input >= DependencyTracker::kBlockArrays ? "a shared array" : describeType(tensor.object); },
      [](const Sequence &sequence) {
        std::string listOrTuple = sequence.isTuple ? "<class 'tuple'>" : "<class 'list'>";
        return sequence.type ? toText(nb::repr(sequence.type)).str() : listOrTuple;
      },
      [](const Dictionary &) -> std::string { return "<class 'dict'>"; },
      [](const DictView &view) { return ("<class '" + toText(view.names[0]) + "'>").str(); },
      [](const Struct &) -> std::string { return "struct"; },
      [](const Instance &instance) { return toText(nb::repr(instance.type)).str(); },
      [](const View &) -> std::string { return "BufferView"; },
      [](const Range &) -> std::string { return "a range with bounds known at run time"; },
      [](const auto &) -> std::string { return "method"; });
}

/// The layout of a container; fails for a shadow that was never placed.
static layout::TensorLayout readTensorLayout(Session &session, const PythonObject &value) {
  try {
    return session.readInputLayout(value.object);
  } catch (nb::python_error &) {
    nb::object state = findAttribute(value.object, nb::str("_state"));
    if (!DependencyTracker::isShadow(value.path) || !state || toText(state) != "unplaced") throw;
    session.fail(error::kCompilation, "Gradient " + DependencyTracker::describe(value.path) +
                                          " has not been placed, check whether `needs_" + value.path->step.name + "=True`");
  }
}

Tensor Conversions::toTensor(const Operand &value, nb::handle shape) {
  if (auto *tensor = value.find<Tensor>()) return *tensor;
  const auto &container = value.get<PythonObject>();
  if (!container.path)
    fail(error::kCompilation, "a container without a name is used in kernel scope but not registered as a kernel parameter: write it as a "
                              "name, a member, or an item of a list or of a dict whose keys are texts or integers (d[key], not d.items())");
  layout::TensorLayout layout = readTensorLayout(session, container);
  bool isField = session.python.isInstance(container.object, session.python.containers.field);
  if (!isField) Signature::setKnownExtents(layout, shape);
  return signature().makeTensor(container, std::move(layout), isField);
}

Operand Conversions::copy(const Operand &value) {
  return value.is<Struct>() ? mapItems(value, [&](const Operand &item) { return copy(item); }) : load(value);
}

Operand Conversions::makeInput(const PathNode *path, Type type) { return Argument{session.tracker.addValue(path, type), type, path}; }

Operand Conversions::callCast(const Operand &value, Type scalar) {
  if (session.python.isNumber(value.getObject())) return rounded(makeComputed(convert(value, scalar)));
  return rounded(makeComputed(emitter.cast(emit(value), scalar)));
}

Operand Conversions::rounded(const Operand &value) {
  Type type = value.getType();
  if (!type || ir::getScalar(type) != session.types.bf16) return value;
  mlir::Value memory = create<ir::LocalOp>(ir::RefType::get(type));
  create<ir::StoreOp>(emit(value), memory);
  return load(Place{memory});
}

mlir::Value Conversions::convert(const Operand &value, Type type) {
  if (!isa<VectorType>(type) && session.python.isNumber(value.getObject())) {
    nb::object number = session.python.toPlainNumber(value.getObject());
    Type own = emitter.literalType(number, isa<IntegerType>(type) ? session.types.u64 : session.valueType(type));
    // A float is first rounded to default_fp, even if that is narrower. An integer is converted exactly to its target type.
    if (PyFloat_Check(number.ptr())) return emitter.cast(emitter.constantNumber(number, own), type);
    return isa<IntegerType>(type) || PyBool_Check(number.ptr()) ? emitter.constantNumber(number, type)
                                                                : emitter.cast(emitter.constantNumber(number, own), type);
  }
  return emitter.convert(emit(value, type), type);
}

} // namespace qd::frontend
