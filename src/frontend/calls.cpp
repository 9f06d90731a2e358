// calls.cpp: calls: dispatch by the kind of the callee, and evaluation of arguments
//
// In:   the syntax node of a call.
// Out:  the value of the call.
// Here: each kind of callee has its own file (functions, builtin_calls, callables, instances, structs, matrix_methods).
#include "frontend/builder.h"

#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;

namespace qd::frontend {

using Kind = Value::Kind;
using artifact::PathStep;

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

Arguments FunctionBuilder::visitArguments(nb::handle at, const Value *callee) {
  Arguments arguments;
  nb::object positional = getAttribute(at, names().args), keywords = getAttribute(at, names().keywords);
  size_t position = 0;
  std::optional<size_t> beforeChanges;
  // An argument by value is loaded before later arguments may change it.
  auto pass = [&](Value value, nb::handle name) {
    size_t index = position++;
    if (!callee || !(value.is(Kind::Place) || value.is(Kind::Components) || value.is(Kind::Struct))) return value;
    if (!beforeChanges) beforeChanges = countBeforeChanges(positional, keywords, session.python);
    return index < *beforeChanges && !mayTakeReference(*callee, index, name) ? copy(value) : value;
  };
  arguments.positional = visitAll(positional, [&](nb::handle argument) { return pass(visit(argument), nb::none()); });
  for (nb::handle keyword : keywords) {
    nb::object name = getAttribute(keyword, names().arg);
    Value value = pass(visit(getAttribute(keyword, names().value)), name);
    if (!name.is_none()) {
      arguments.named.emplace_back(toText(name).str(), std::move(value));
      continue;
    }
    for (auto &[key, item] : listPairs(value)) arguments.named.emplace_back(toText(key).str(), item);
  }
  return arguments;
}

Value FunctionBuilder::visitCall(nb::handle at) {
  nb::object calleeNode = getAttribute(at, names().func);
  Value callee = visit(calleeNode);
  if (callee.isObject() && PyDict_GetItem(session.python.builtins.ptr(), nb::str("print").ptr()) == callee.object.ptr()) {
    print(at);
    return makeObject(nb::none());
  }
  bool isStatic = callee.isObject() && builtinName(callee.object) == "static";
  llvm::SaveAndRestore depth(staticDepth, staticDepth + isStatic);
  Arguments arguments = visitArguments(at, &callee);
  return call(callee, arguments, at);
}

Value FunctionBuilder::call(const Value &callee, Arguments &arguments, nb::handle at) {
  const PythonObjects &python = session.python;
  if (callee.is(Kind::Method)) return callMethod(callee, arguments, at);
  if (callee.is(Kind::Instance)) return call(instanceAttribute(callee, names().__call__), arguments, at);
  if (!callee.isObject()) fail(error::kType, "'" + describe(callee) + "' cannot be called");
  nb::handle object = callee.object;
  if (python.isInstance(object, python.func)) return callFunc(callee, nullptr, arguments);
  if (python.isInstance(object, python.boundFunc)) {
    Value self =
        makeObject(getAttribute(object, names().instance), session.tracker.getStep(callee.path, PathStep::Kind::Attribute, "instance"));
    Value func = makeObject(getAttribute(object, names().func), session.tracker.getStep(callee.path, PathStep::Kind::Attribute, "func"));
    return callFunc(func, &self, arguments);
  }
  if (python.isInstance(object, python.kernel))
    fail(error::kSyntax, "Kernels cannot call other kernels. I.e., nested kernels are not allowed.");
  bool isPythonType = object.is(python.builtins["int"]) || object.is(python.builtins["float"]) || object.is(python.builtins["bool"]);
  if (isPythonType && arguments.positional.size() <= 1)
    return llvm::all_of(arguments.positional, [&](const Value &value) { return isConstant(value); })
               ? callPython(callee, arguments)
               : callCast(arguments.positional[0], session.findScalarType(object));
  if (Type type = session.findScalarType(object)) return rounded(castLiteral(type, arguments));
  if (python.bufferView && object.is(python.bufferView)) return makeView(arguments);
  if (python.isInstance(object, python.matrixType)) return rounded(makeMatrixOfType(object, arguments));
  if (python.isInstance(object, python.structType)) return makeStruct(object, arguments);
  if (std::string builtin = builtinName(object); !builtin.empty()) return callBuiltin(builtin, callee, arguments);
  if (PyType_Check(object.ptr()))
    if (std::optional<Value> made = callClass(callee, arguments)) return *made;
  for (auto [name, value] : session.python.builtins)
    if (value.is(object)) return callPythonBuiltin(toText(name), callee, arguments);
  if (!PyType_Check(object.ptr()) && !python.isInstance(object, python.functionClass) && !PyCFunction_Check(object.ptr())) {
    nb::object method = findAttribute(object, names().__call__);
    if (method && python.isInstance(method, python.boundFunc)) {
      Value func =
          makeObject(getAttribute(method, names().func), session.tracker.getStep(callee.path, PathStep::Kind::Attribute, "__call__"));
      return callFunc(func, &callee, arguments);
    }
  }
  if (std::optional<Value> result = callWrapped(callee, arguments, at)) return *result;
  return callPython(callee, arguments);
}

/// Constructs a value of a class in compiled code; none for a class that Python calls.
std::optional<Value> FunctionBuilder::callClass(const Value &callee, Arguments &arguments) {
  nb::handle object = callee.object;
  bool isKnown = isKnownCall(arguments);
  // Containers and objects are not plain data: launches reach them by their paths.
  auto isPlain = [&](const Value &value) {
    nb::object known = toPython(value);
    return known && session.python.isPlainData(known);
  };
  bool isPlainCall = llvm::all_of(arguments.positional, isPlain) &&
                     llvm::all_of(arguments.named, [&](const auto &named) { return isPlain(named.second); });
  if (findAttribute(object, names().__dataclass_fields__)) {
    nb::object valueType = nb::module_::import_("quadrants._values.struct").attr("value_type_of")(object);
    if (!valueType.is_none()) {
      session.tracker.recordType(valueType, callee.path, /*isClass=*/true);
      return makeDataclass(object, valueType, arguments);
    }
    bool isObject = findAttribute(object, names()._data_oriented) || findAttribute(object, nb::str("__post_init__"));
    if (isObject && !isPlainCall && isUserClass(object)) return makeInstance(callee, arguments);
    if (!isKnown) return makeDataclass(object, valueType, arguments);
  }
  if (nb::object structType = findAttribute(object, names()._qd_struct_type)) return makeStruct(structType, arguments);
  if (object.is(session.python.partialClass) && !isKnown && !arguments.positional.empty()) return makePartial(callee, arguments);
  if (isPlainCall) return std::nullopt;
  bool isTuple = PyType_IsSubtype(reinterpret_cast<PyTypeObject *>(object.ptr()), &PyTuple_Type);
  if (isTuple && findAttribute(object, names()._fields)) return makeNamedTuple(callee, arguments);
  if (isUserClass(object)) return makeInstance(callee, arguments);
  return std::nullopt;
}

/// Calls the callable in Python. None if an argument is not known, or if the callable calls a func among its arguments.
std::optional<Value> FunctionBuilder::tryPython(nb::handle callable, const Value &callee, const std::string &name, Arguments &arguments) {
  auto isObject = [&](const Value &value) { return bool(toPython(value)); };
  bool areObjects = llvm::all_of(arguments.positional, isObject) &&
                    llvm::all_of(arguments.named, [&](const auto &named) { return isObject(named.second); });
  if (!areObjects) return std::nullopt;
  try {
    return runPython(callable, callee, name, arguments);
  } catch (CompileError &error) {
    bool callsFunc = llvm::StringRef(error.diagnostic.message).contains("is a qd.func and cannot be called from Python scope");
    if (!callsFunc || isKnownCall(arguments)) throw;
  }
  return std::nullopt;
}

Value FunctionBuilder::castLiteral(Type type, Arguments &arguments) {
  if (arguments.positional.size() != 1 || !arguments.named.empty())
    fail(error::kSyntax, "A primitive type can only decorate a single expression.");
  const Value &value = arguments.positional[0];
  if (value.is(Kind::Struct) || value.is(Kind::Sequence) || (value.isTyped() && isa<VectorType>(value.type)) ||
      (value.isObject() && session.python.isInstance(value.object, session.python.matrix)))
    fail(error::kSyntax, "A primitive type cannot decorate an expression with a compound type.");
  if (!value.isObject()) return makeComputed(cast(emit(value), type));
  if (!session.python.isNumber(value.object)) fail(error::kType, "Invalid constant scalar data type: " + describeType(value.object));
  nb::object number = session.python.toPlainNumber(value.object);
  if (PyFloat_Check(number.ptr())) {
    if (!ir::isFloatScalar(type))
      fail(error::kType, "Floating-point literals must be annotated with a floating-point type. For type casting, use `qd.cast`.");
    return makeComputed(constantNumber(number, type));
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
    return makeComputed(constantFloat(real, type));
  }
  if (!type.isInteger(1) && !holds(type, number))
    fail(error::kType, "Integer literal " + toText(nb::str(number)) + " exceeded the range of specified dtype: " + ir::describe(type));
  return makeComputed(constantNumber(number, type));
}

/// Whether the function stops in its caller's frame, as debuggers and consoles do.
static bool isDebugger(llvm::StringRef name, nb::handle object) {
  nb::object module = findAttribute(object, nb::str("__module__"));
  llvm::StringRef package = module && PyUnicode_Check(module.ptr()) ? toText(module).split('.').first : "";
  return llvm::is_contained({"breakpoint", "breakpointhook", "set_trace"}, name) ||
         llvm::is_contained({"pdb", "bdb", "ipdb", "pudb", "debugpy", "pydevd", "code"}, package);
}

Value FunctionBuilder::callPython(const Value &callee, Arguments &arguments) {
  const PythonObjects &python = session.python;
  nb::handle object = callee.object;
  nb::object qualified = findAttribute(object, names().__name__);
  std::string name = qualified && PyUnicode_Check(qualified.ptr()) ? toText(qualified).str() : toText(nb::repr(object)).str();
  if (!PyCallable_Check(object.ptr())) fail(error::kType, "'" + llvm::Twine(Py_TYPE(object.ptr())->tp_name) + "' object is not callable");
  if (!session.options.isInterpreted && isDebugger(name, object))
    fail(error::kSyntax, "'" + name + "' stops in a frame of Python: a compiled kernel has none");
  bool isFunction = python.isInstance(object, python.functionClass);
  if (python.isOfPackage(object) && (isFunction || PyType_Check(object.ptr())) && !python.isOfPackage(function.object)) {
    // Kernels may call constructors of types and queries of options. Any other function of the package is a builtin or not allowed.
    nb::object owner = findAttribute(object, names().__module__);
    llvm::StringRef module = toText(owner);
    if (module == "quadrants._language.func" && llvm::is_contained({"func", "pyfunc", "real_func"}, name))
      return declareFunc(object, arguments);
    bool isAllowed = isFunction &&
                     (module == "quadrants._values.types" || module == "quadrants._values.struct" || module == "quadrants._values.matrix" ||
                      module.starts_with("quadrants.lang.") || module.starts_with("quadrants.simt."));
    if (!isAllowed) fail(error::kSyntax, "'" + name + "' is host API: it cannot be called in kernels (Quadrants-scope)");
  }
  if (std::optional<Value> result = tryPython(object, callee, name, arguments)) return *result;
  if (isFunction) return callPlain(callee, nullptr, arguments);
  if (PyType_Check(object.ptr())) failRuntimeOperands(object, name);
  return callWithOperands(object, name, nullptr, arguments);
}

Value FunctionBuilder::runPython(nb::handle callable, const Value &callee, const std::string &name, Arguments &arguments) {
  nb::list positional;
  nb::dict named;
  for (const Value &argument : arguments.positional) positional.append(toPython(argument));
  for (const auto &[key, argument] : arguments.named) named[key.c_str()] = toPython(argument);
  // The dependencies of a user's function beyond its arguments are known only in part.
  const Value *self = callee.is(Kind::Method) ? &callee.aggregate->items[0] : nullptr;
  bool isPythonFunction = session.python.isInstance(callee.object, session.python.functionClass) ||
                          session.python.isInstance(callable, session.python.methodClass);
  if (isPythonFunction && !session.python.isOfPackage(callable)) {
    session.tracker.refuseCache();
    readCaptured(callee.object, callee.path, self);
  }
  PyObject *result = PyObject_Call(callable.ptr(), nb::tuple(positional).ptr(), named.ptr());
  if (!result) {
    nb::python_error problem;
    session.failFromPython(problem, " when calling `" + name + "`");
  }
  return fromPython(nb::steal(result), nullptr);
}

void FunctionBuilder::failRuntimeOperands(nb::handle callable, const std::string &name) {
  nb::object module = findAttribute(callable, names().__module__);
  std::string owner = module && PyUnicode_Check(module.ptr()) ? toText(module).str() + "." : "";
  std::string hint;
  nb::object package = nb::steal(PyImport_ImportModule("quadrants"));
  if (package && nb::hasattr(package, name.c_str())) hint = ". Did you mean to use `qd." + name + "` instead of `" + owner + name + "`?";
  PyErr_Clear();
  fail(error::kType, "TypeError when calling `" + name + "`: a run-time value cannot be passed to a non-quadrants function" + hint);
}

Value FunctionBuilder::callMethod(const Value &method, Arguments &arguments, nb::handle at) {
  if (session.python.isInstance(method.object, session.python.localFunc)) {
    for (auto [name, item] : llvm::zip(method.aggregate->names, method.aggregate->items))
      arguments.named.emplace_back(toText(name).str(), item);
    return callFunc(makeObject(method.object, method.path), nullptr, arguments);
  }
  const Value &receiver = method.aggregate->items[0];
  if (method.object.is(session.python.partialClass)) return callPartial(method, arguments, at);
  if (session.python.isInstance(method.object, session.python.func)) {
    Value func = makeObject(method.object, method.path);
    if (isRegisterTile(receiver))
      for (Value &argument : arguments.positional) argument = laneValue(receiver, argument);
    return callFunc(func, &receiver, arguments);
  }
  if (session.python.isInstance(method.object, session.python.functionClass)) {
    std::string called = toText(getAttribute(method.object, names().__name__)).str();
    nb::object bound = receiver.isObject() ? toPython(method) : nb::object();
    std::optional<Value> result = bound ? tryPython(bound, method, called, arguments) : std::nullopt;
    if (result) return *result;
    return callPlain(makeObject(method.object, method.path), &receiver, arguments);
  }
  llvm::StringRef name = toText(method.object);
  if (name == "get_scalar_field" || name == "get_member_field") return partOfField(receiver, name, arguments);
  if (receiver.is(Kind::View) || isTensor(receiver)) {
    std::vector<Value> given = bind(name, arguments, "offset size");
    return subview(toView(receiver), load(given[0]), load(given[1]));
  }
  if (receiver.isTyped()) return callMatrixMethod(receiver, name, arguments);
  if (receiver.is(Kind::Sequence) || receiver.is(Kind::Dictionary)) return callSequenceMethod(receiver, name, arguments);
  if (receiver.is(Kind::Range)) {
    Value grouped = receiver;
    grouped.aggregate = std::make_shared<Aggregate>(*receiver.aggregate);
    grouped.aggregate->isGrouped = true;
    return grouped;
  }
  if (receiver.isObject()) {
    if (receiver.object.is(session.python.matrix) || receiver.object.is(session.python.vector))
      return callMatrixFactory(name, receiver, arguments);
    if (name == "format" && PyUnicode_Check(receiver.object.ptr()) &&
        !llvm::all_of(arguments.positional, [&](const Value &value) { return bool(toPython(value)); }))
      fail(error::kSyntax, "format() with run-time values is supported in print and assert only");
    nb::object found = findAttribute(receiver.object, method.object);
    if (!found)
      fail(error::kAttribute, "'" + llvm::Twine(Py_TYPE(receiver.object.ptr())->tp_name) + "' object has no attribute '" + name + "'");
    return callPython(makeObject(found, receiver.path), arguments);
  }
  fail(error::kAttribute, "'" + describe(receiver) + "' has no attribute '" + name + "'");
}

Value FunctionBuilder::callSequenceMethod(const Value &receiver, llvm::StringRef name, Arguments &arguments) {
  Aggregate &aggregate = *receiver.aggregate;
  if (aggregate.structType && name == "_asdict") {
    Value dictionary = makeAggregate(Kind::Dictionary, aggregate.items);
    dictionary.aggregate->names = aggregate.names;
    return dictionary;
  }
  if (aggregate.structType && name == "_replace") {
    Value result = mapItems(receiver, [](const Value &item) { return item; });
    for (auto &[key, value] : arguments.named) {
      nb::str field(key.c_str());
      auto found = llvm::find_if(aggregate.names, [&](const nb::object &known) { return known.equal(field); });
      if (found == aggregate.names.end()) fail(error::kType, "'" + key + "' is no field of " + describe(receiver));
      result.aggregate->items[size_t(found - aggregate.names.begin())] = copyElement(value);
    }
    return result;
  }
  bool isReadingOnly = llvm::is_contained({"copy", "count", "get", "index", "items", "keys", "values"}, name);
  if (aggregate.ownerBlock && aggregate.ownerBlock != builder.getInsertionBlock() && !isReadingOnly)
    fail(error::kSyntax, "'" + name + "' would change a list or dict from outside of this run-time branch or loop, once, while compiling");
  if (name == "append" && !aggregate.isTuple && receiver.is(Kind::Sequence) && arguments.positional.size() == 1) {
    aggregate.items.push_back(load(arguments.positional[0]));
    return makeObject(nb::none());
  }
  // A list, tuple or dict of Python runs the method, with stand-ins for run-time values.
  std::vector<Value> boxed;
  auto box = [&](const Value &value) -> nb::object {
    nb::handle object = value.object;
    bool isPlain = value.isObject() && (session.python.isNumber(object) || PyUnicode_Check(object.ptr()) || object.is_none());
    if (isPlain) return value.object;
    boxed.push_back(load(value));
    return session.python.standIn(boxed.size() - 1, describe(value).c_str());
  };
  auto boxAll = [&](const std::vector<Value> &items) {
    nb::list list;
    for (const Value &item : items) list.append(box(item));
    return list;
  };
  std::function<Value(nb::handle)> unbox = [&](nb::handle object) -> Value {
    if (session.python.isInstance(object, session.python.standIn)) return boxed[nb::cast<size_t>(getAttribute(object, names().index))];
    PyObject *ptr = object.ptr();
    if (!PyList_Check(ptr) && !PyTuple_Check(ptr) && !PyDictViewSet_Check(ptr) && !PyDictValues_Check(ptr)) return makeObject(object);
    Value items = makeAggregate(Kind::Sequence, {});
    items.aggregate->isTuple = !PyList_Check(ptr);
    for (nb::handle item : object) items.aggregate->items.push_back(unbox(item));
    return items;
  };
  nb::object container = boxAll(aggregate.items);
  if (aggregate.isTuple) container = nb::tuple(container);
  if (receiver.is(Kind::Dictionary)) {
    nb::dict dict;
    for (auto [key, item] : llvm::zip(aggregate.names, container)) dict[key] = item;
    container = dict;
  }
  nb::object method = findAttribute(container, nb::str(name.data(), name.size()));
  if (!method) fail(error::kCompilation, "'" + describe(receiver) + "' has no method '" + name + "' in kernels");
  nb::list given;
  for (const Value &argument : arguments.positional)
    given.append(name == "extend" ? nb::object(boxAll(listItems(argument, "extend with"))) : box(argument));
  nb::object returned;
  try {
    returned = method(*given);
  } catch (nb::python_error &problem) { session.failFromPython(problem); }
  Value result = unbox(returned);
  if (aggregate.isTuple) return result;
  aggregate.items = unbox(receiver.is(Kind::Dictionary) ? container.attr("values")() : container).aggregate->items;
  if (receiver.is(Kind::Dictionary)) {
    aggregate.names.clear();
    for (nb::handle key : nb::list(container)) aggregate.names.push_back(nb::borrow(key));
  }
  return result;
}

} // namespace qd::frontend
