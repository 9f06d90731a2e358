// calls.cpp: calls: dispatch by the kind of the callee, and evaluation of arguments
//
// In:   the syntax node of a call.
// Out:  the value of the call.
// Here: each kind of callee has its own file (functions, builtin_calls, python_calls, instances, structs, matrix_methods).
#include "frontend/builder.h"

using namespace mlir;

namespace qd::frontend {

/// The number of arguments before the last one that may change variables; 0 if a starred argument makes positions unknown.
static size_t countBeforeChanges(nb::handle positional, nb::handle keywords, const PythonObjects &python) {
  std::vector<nb::object> nodes;
  for (nb::handle argument : positional) {
    if (python.kindOf(argument) == NodeKind::Starred) return 0;
    nodes.push_back(nb::borrow(argument));
  }
  for (nb::handle keyword : keywords) nodes.push_back(getAttribute(keyword, python.names.value));
  nb::object walk = nb::module_::import_("ast").attr("walk");
  for (size_t last = nodes.size(); last-- > 1;) {
    if (python.kindOf(nodes[last]) == NodeKind::Name || python.kindOf(nodes[last]) == NodeKind::Constant) continue;
    for (nb::handle part : walk(nodes[last]))
      if (python.kindOf(part) == NodeKind::Call || python.kindOf(part) == NodeKind::NamedExpr) return last;
  }
  return 0;
}

Arguments Calls::visitArguments(nb::handle at, const Operand *callee) {
  Arguments arguments;
  nb::object positional = getAttribute(at, names().args), keywords = getAttribute(at, names().keywords);
  size_t position = 0;
  std::optional<size_t> beforeChanges;
  // An argument by value is loaded before later arguments may change it.
  auto pass = [&](Operand value, nb::handle name) {
    size_t index = position++;
    if (!callee || !(value.is<Place>() || value.is<Components>() || value.is<Struct>())) return value;
    if (!beforeChanges) beforeChanges = countBeforeChanges(positional, keywords, session.python);
    return index < *beforeChanges && !syntax().mayTakeReference(*callee, index, name) ? conversions.copy(value) : value;
  };
  arguments.positional =
      collections().visitAll(positional, [&](nb::handle argument) { return pass(expressions().visit(argument), nb::none()); });
  for (nb::handle keyword : keywords) {
    nb::object name = getAttribute(keyword, names().arg);
    Operand value = pass(expressions().visit(getAttribute(keyword, names().value)), name);
    if (!name.is_none()) {
      arguments.named.emplace_back(toText(name).str(), std::move(value));
      continue;
    }
    for (auto &[key, item] : collections().listPairs(value)) arguments.named.emplace_back(toText(key).str(), item);
  }
  return arguments;
}

Operand Calls::visitCall(nb::handle at) {
  nb::object calleeNode = getAttribute(at, names().func);
  if (std::optional<Operand> result = sparseCells().visitMethod(at)) return *result;
  Operand callee = expressions().visit(calleeNode);
  if (callee.isObject() && PyDict_GetItem(session.python.host.builtins.ptr(), nb::str("print").ptr()) == callee.getObject().ptr()) {
    printing().print(at);
    return makeObject(nb::none());
  }
  bool isStatic = syntax().builtinName(callee.getObject()) == "static";
  Enter inside(context);
  nesting.staticDepth += isStatic;
  Arguments arguments = visitArguments(at, &callee);
  return call(callee, arguments, at);
}

Operand Calls::call(const Operand &operand, Arguments &arguments, nb::handle at) {
  const PythonObjects &python = session.python;
  if (operand.is<Method>()) return callMethod(operand, arguments, at);
  if (operand.is<Instance>()) return call(instances().instanceAttribute(operand, names().__call__), arguments, at);
  if (instances().hasSpecial(operand, "__call__") && operand.is<Struct>())
    return call(attributes().structAttribute(operand, names().__call__), arguments, at);
  if (!operand.isObject()) fail(error::kType, "'" + conversions.describe(operand) + "' cannot be called");
  const auto &callee = operand.get<PythonObject>();
  nb::handle object = callee.object;
  if (python.isInstance(object, python.functions.func)) return functions().callFunc(callee, nullptr, arguments);
  if (python.isInstance(object, python.functions.boundFunc)) {
    Operand self =
        makeObject(getAttribute(object, names().instance), session.tracker.getStep(callee.path, PathStep::Kind::Attribute, "instance"));
    PythonObject func{getAttribute(object, names().func), session.tracker.getStep(callee.path, PathStep::Kind::Attribute, "func")};
    return functions().callFunc(func, &self, arguments);
  }
  if (python.isInstance(object, python.functions.kernel))
    fail(error::kSyntax, "Kernels cannot call other kernels. I.e., nested kernels are not allowed.");
  bool isPythonType =
      object.is(python.host.builtins["int"]) || object.is(python.host.builtins["float"]) || object.is(python.host.builtins["bool"]);
  if (object.is(python.host.builtins["bool"]) && arguments.positional.size() == 1 && conversions.isConstant(arguments.positional[0]) &&
      arguments.positional[0].isObject())
    collections().dependOnLength(arguments.positional[0].get<PythonObject>(), /*isTruth=*/true);
  if (isPythonType && arguments.positional.size() <= 1)
    return llvm::all_of(arguments.positional, [&](const Operand &value) { return conversions.isConstant(value); })
               ? pythonCalls().callPython(callee, arguments)
               : conversions.callCast(arguments.positional[0], session.findScalarType(object));
  if (Type type = session.findScalarType(object)) return conversions.rounded(castLiteral(type, arguments));
  if (python.containers.bufferView && object.is(python.containers.bufferView)) return views().makeView(arguments);
  if (python.isInstance(object, python.values.matrixType)) return conversions.rounded(matrixMethods().makeMatrixOfType(object, arguments));
  if (python.isInstance(object, python.values.structType)) return structs().makeStruct(object, arguments);
  if (std::string builtin = syntax().builtinName(object); !builtin.empty()) return builtinCalls().callBuiltin(builtin, callee, arguments);
  if (PyType_Check(object.ptr()))
    if (std::optional<Operand> made = callClass(callee, arguments)) return *made;
  for (auto [name, value] : session.python.host.builtins)
    if (value.is(object)) return builtinCalls().callPythonBuiltin(toText(name), callee, arguments);
  if (!PyType_Check(object.ptr()) && !python.isInstance(object, python.host.function) && !PyCFunction_Check(object.ptr())) {
    nb::object method = findAttribute(object, names().__call__);
    if (method && python.isInstance(method, python.functions.boundFunc)) {
      PythonObject func{getAttribute(method, names().func), session.tracker.getStep(callee.path, PathStep::Kind::Attribute, "__call__")};
      return functions().callFunc(func, &operand, arguments);
    }
  }
  if (std::optional<Operand> result = pythonCalls().callWrapped(callee, arguments, at)) return *result;
  return pythonCalls().callPython(callee, arguments);
}

/// Constructs a value of a class in compiled code; none for a class that Python calls.
std::optional<Operand> Calls::callClass(const PythonObject &callee, Arguments &arguments) {
  nb::handle object = callee.object;
  bool isKnown = pythonCalls().isKnownCall(arguments);
  // Containers and objects are not plain data: launches reach them by their paths.
  auto isPlain = [&](const Operand &value) {
    nb::object known = conversions.toPython(value);
    return known && session.python.isPlainData(known);
  };
  bool isPlainCall = llvm::all_of(arguments.positional, isPlain) &&
                     llvm::all_of(arguments.named, [&](const auto &named) { return isPlain(named.second); });
  if (findAttribute(object, names().__dataclass_fields__)) {
    nb::object valueType = nb::module_::import_("quadrants._values.struct").attr("value_type_of")(object);
    if (!valueType.is_none()) {
      session.tracker.recordType(valueType, callee.path, /*isClass=*/true);
      return structs().makeDataclass(object, valueType, arguments);
    }
    bool isObject = findAttribute(object, names()._data_oriented) || findAttribute(object, nb::str("__post_init__"));
    if (isObject && !isPlainCall && instances().isUserClass(object)) return instances().makeInstance(callee, arguments);
    if (!isKnown) return structs().makeDataclass(object, valueType, arguments);
  }
  if (nb::object structType = findAttribute(object, names()._qd_struct_type)) return structs().makeStruct(structType, arguments);
  if (object.is(session.python.host.partial) && !isKnown && !arguments.positional.empty())
    return pythonCalls().makePartial(callee, arguments);
  if (isPlainCall) return std::nullopt;
  bool isTuple = PyType_IsSubtype(reinterpret_cast<PyTypeObject *>(object.ptr()), &PyTuple_Type);
  if (isTuple && findAttribute(object, names()._fields)) return instances().makeNamedTuple(callee, arguments);
  if (instances().isUserClass(object)) return instances().makeInstance(callee, arguments);
  return std::nullopt;
}

Operand Calls::castLiteral(Type type, Arguments &arguments) {
  if (arguments.positional.size() != 1 || !arguments.named.empty())
    fail(error::kSyntax, "A primitive type can only decorate a single expression.");
  const Operand &value = arguments.positional[0];
  if (value.is<Struct>() || value.is<Sequence>() || isa_and_nonnull<VectorType>(value.getType()) ||
      session.python.isInstance(value.getObject(), session.python.values.matrix))
    fail(error::kSyntax, "A primitive type cannot decorate an expression with a compound type.");
  if (!value.isObject()) return makeComputed(emitter.cast(conversions.emit(value), type));
  if (!session.python.isNumber(value.getObject()))
    fail(error::kType, "Invalid constant scalar data type: " + describeType(value.getObject()));
  nb::object number = session.python.toPlainNumber(value.getObject());
  if (PyFloat_Check(number.ptr())) {
    if (!ir::isFloatScalar(type))
      fail(error::kType, "Floating-point literals must be annotated with a floating-point type. For type casting, use `qd.cast`.");
    return makeComputed(emitter.constantNumber(number, type));
  }
  if (ir::isFloatScalar(type)) {
    double real = PyFloat_AsDouble(number.ptr());
    nb::object back = nb::steal(PyLong_FromDouble(real));
    bool isExact = back && back.equal(number);
    if (type == session.types.f32) isExact = isExact && double(float(real)) == real;
    if (!isExact) {
      PyErr_Clear();
      fail(error::kType, "Integer literals must be annotated with a integer type. For type casting, use `qd.cast`. (" +
                             toText(nb::str(number)) + " has no exact value in " + ir::describe(type) + ")");
    }
    return makeComputed(emitter.constantFloat(real, type));
  }
  if (!type.isInteger(1) && !emitter.holds(type, number))
    fail(error::kType, "Integer literal " + toText(nb::str(number)) + " exceeded the range of specified dtype: " + ir::describe(type));
  return makeComputed(emitter.constantNumber(number, type));
}

Operand Calls::callMethod(const Operand &operand, Arguments &arguments, nb::handle at) {
  const auto &method = operand.get<Method>();
  if (session.python.isInstance(method.callee, session.python.functions.localFunc)) {
    size_t position = 0;
    llvm::StringMap<size_t> positions; // of parameters that positional arguments may give
    for (nb::handle parameter : getAttribute(method.callee, names().parameters))
      positions[readText(parameter, names().name)] = nb::cast<bool>(parameter.attr("is_named")) ? SIZE_MAX : position++;
    for (auto [name, item] : llvm::zip(method.names, method.items)) {
      llvm::StringRef parameter = toText(name);
      const bool isDefault = parameter.consume_front("=");
      bool isGiven = isDefault && (positions.lookup(parameter) < arguments.positional.size() ||
                                   llvm::any_of(arguments.named, [&](const auto &named) { return named.first == parameter; }));
      if (!isGiven) arguments.named.emplace_back(parameter.str(), item);
    }
    return functions().callFunc({method.callee, method.path}, nullptr, arguments);
  }
  const Operand &receiver = method.items[0];
  if (method.callee.is(session.python.host.partial)) return pythonCalls().callPartial(method, arguments, at);
  if (session.python.isInstance(method.callee, session.python.functions.func)) {
    if (registerTiles().isRegisterTile(receiver))
      for (Operand &argument : arguments.positional) argument = registerTiles().laneValue(receiver, argument);
    return functions().callFunc({method.callee, method.path}, &receiver, arguments);
  }
  if (session.python.isInstance(method.callee, session.python.host.function)) {
    std::string called = toText(getAttribute(method.callee, names().__name__)).str();
    nb::object bound = receiver.isObject() ? conversions.toPython(operand) : nb::object();
    std::optional<Operand> result = bound ? pythonCalls().tryPython(bound, operand, called, arguments) : std::nullopt;
    if (result) return *result;
    return pythonCalls().callPlain({method.callee, method.path}, &receiver, arguments);
  }
  llvm::StringRef name = toText(method.callee);
  if (name == "get_scalar_field" || name == "get_member_field") return attributes().partOfField(receiver, name, arguments);
  if (receiver.is<View>() || conversions.isTensor(receiver)) {
    std::vector<Operand> given = bind(name, arguments, "offset size");
    return views().subview(views().toView(receiver), conversions.load(given[0]), conversions.load(given[1]));
  }
  if (receiver.isTyped()) return matrixMethods().callMatrixMethod(receiver, name, arguments);
  if (receiver.is<Sequence>() || receiver.is<Dictionary>()) return collections().callSequenceMethod(receiver, name, arguments);
  if (auto *range = receiver.find<Range>()) {
    Range grouped = *range;
    grouped.isGrouped = true;
    return grouped;
  }
  if (const nb::object &object = receiver.getObject()) {
    if (object.is(session.python.values.matrix) || object.is(session.python.values.vector))
      return matrixMethods().callMatrixFactory(name, object, arguments);
    if (name == "format" && PyUnicode_Check(object.ptr()) &&
        !llvm::all_of(arguments.positional, [&](const Operand &value) { return bool(conversions.toPython(value)); }))
      fail(error::kSyntax, "format() with run-time values is supported in print and assert only");
    bool isView = hasDictOrder(object) && arguments.positional.empty() && llvm::is_contained({"items", "keys", "values"}, name);
    if (name == "get" && hasDictOrder(object) && !arguments.positional.empty()) {
      nb::object key = conversions.toPython(arguments.positional[0]);
      if (!key) return runtimeDicts().get(receiver, arguments);
      if (PyDict_Contains(object.ptr(), key.ptr()) == 1) return subscripts().subscriptObject(receiver, makeObject(key));
    }
    // Items that Python can change have paths, so that changes of them are refused.
    auto isAtom = [&](nb::handle item) { return session.python.isNumber(item) || PyUnicode_Check(item.ptr()) || item.is_none(); };
    if (isView && !(session.python.isPlainData(object) && llvm::all_of(nb::list(object.attr("values")()), isAtom)))
      return makeSequence(listOperands(collections().listEntries(receiver.get<PythonObject>()), [&](const auto &entry) {
        return name == "items"  ? makeTuple({makeObject(entry.first), entry.second})
               : name == "keys" ? makeObject(entry.first)
                                : entry.second;
      }));
    nb::object found = findAttribute(object, method.callee);
    if (!found) fail(error::kAttribute, "'" + llvm::Twine(Py_TYPE(object.ptr())->tp_name) + "' object has no attribute '" + name + "'");
    return pythonCalls().callPython({found, receiver.get<PythonObject>().path}, arguments);
  }
  fail(error::kAttribute, "'" + conversions.describe(receiver) + "' has no attribute '" + name + "'");
}

std::string Calls::getParameters(nb::handle builtin) {
  nb::object text = findAttribute(builtin, names().parameters);
  return text && PyUnicode_Check(text.ptr()) ? toText(text).split('*').first.str() : "";
}

std::vector<Operand> Calls::bind(const llvm::Twine &function, const Arguments &arguments, llvm::StringRef parameters) {
  SmallVector<llvm::StringRef> names;
  parameters.split(names, ' ', -1, /*KeepEmpty=*/false);
  size_t required = llvm::count_if(names, [](llvm::StringRef name) { return !name.ends_with("?"); });
  std::vector<Operand> values = arguments.positional;
  auto failCount = [&](size_t count) {
    fail(error::kType, function + "() takes " + std::to_string(required) +
                           (names.size() == required ? "" : " to " + std::to_string(names.size())) + " arguments, got " +
                           std::to_string(count));
  };
  if (values.size() > names.size()) failCount(values.size());
  values.resize(names.size());
  for (const auto &[key, value] : arguments.named) {
    llvm::StringRef wanted = key;
    auto found = llvm::find_if(names, [&](llvm::StringRef name) { return name.rtrim('?') == wanted; });
    if (found == names.end()) fail(error::kType, function + "() got an unexpected keyword argument '" + key + "'");
    Operand &place = values[size_t(found - names.begin())];
    if (place.isGiven()) fail(error::kType, function + "() got multiple values for argument '" + key + "'");
    place = value;
  }
  for (size_t index = 0; index < values.size(); ++index) {
    if (!values[index].isGiven() && index < required) failCount(arguments.positional.size() + arguments.named.size());
    if (!values[index].isGiven()) values[index] = makeObject(nb::none());
  }
  return values;
}

Type Calls::scalarTypeOf(const Operand &value, const llvm::Twine &function) {
  if (value.isNone()) return {};
  Type type = value.isObject() ? session.findScalarType(value.getObject()) : Type();
  if (!type) fail(error::kType, "Invalid data type " + conversions.describe(value) + " given to " + function);
  return type;
}

} // namespace qd::frontend
