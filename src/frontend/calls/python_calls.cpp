// python_calls.cpp: calls of callables that are no funcs: Python functions, methods, partials, objects, C functions
//
// In:   a callee and arguments of which some are known at run time only.
// Out:  the result as a value, and ops in the current block.
// Here: a Python function is compiled as a func. A callable without source runs during compilation, on stand-ins whose operators emit
//       code; this supports C functions that only apply Python's operators, such as those of the module `operator`.
#include "frontend/builder.h"

using namespace mlir;

namespace qd::frontend {

bool PythonCalls::isKnownCall(const Arguments &arguments) {
  auto isKnown = [&](const Operand &value) {
    nb::object object = conversions.toPython(value);
    return object && !session.python.isInstance(object, session.python.functions.func) &&
           !session.python.isInstance(object, session.python.functions.boundFunc);
  };
  return llvm::all_of(arguments.positional, isKnown) &&
         llvm::all_of(arguments.named, [&](const auto &named) { return isKnown(named.second); });
}

bool PythonCalls::mayReadElements(nb::handle callable, const Arguments &arguments) {
  // Constructors keep containers, and methods of Python's collections compare them.
  PyObject *owner = PyCFunction_Check(callable.ptr()) ? PyCFunction_GET_SELF(callable.ptr()) : nullptr;
  bool isOfCollection = owner && (PyDict_Check(owner) || PyList_Check(owner) || PyTuple_Check(owner) || PyAnySet_Check(owner));
  nb::module_ operators = nb::module_::import_("operator");
  bool isIdentity = callable.is(operators.attr("is_")) || callable.is(operators.attr("is_not"));
  if (isOfCollection || isIdentity)
    for (const Operand &value : arguments.positional)
      if (conversions.isTensor(value))
        session.tracker.depend(value.isObject() ? value.get<PythonObject>().path : value.get<Tensor>().path,
                               artifact::Dependency::Kind::Identity);
  if (nesting.staticDepth > 0 || PyType_Check(callable.ptr()) || isOfCollection || isIdentity || session.python.isOfPackage(callable))
    return false;
  return llvm::any_of(arguments.positional, [&](const Operand &value) { return conversions.isTensor(value); }) ||
         llvm::any_of(arguments.named, [&](const auto &named) { return conversions.isTensor(named.second); });
}

std::optional<Operand> PythonCalls::callWrapped(const PythonObject &callee, Arguments &arguments, nb::handle at) {
  const PythonObjects &python = session.python;
  nb::handle object = callee.object;
  auto partOf = [&](const nb::object &name) {
    nb::object part = getAttribute(object, name);
    const PathNode *path = session.tracker.getStep(callee.path, PathStep::Kind::Attribute, toText(name));
    session.tracker.read(path, part);
    return PythonObject{nb::borrow(unwrapTensor(part)), path};
  };
  if (python.isInstance(object, python.host.partial)) {
    Arguments all;
    PythonObject positional = partOf(names().args), named = partOf(names().keywords);
    for (const Operand &value : collections().listItems(positional, "unpack")) all.positional.push_back(value);
    llvm::append_range(all.positional, arguments.positional);
    for (auto [name, item] : nb::borrow<nb::dict>(named.object)) {
      bool isGiven = llvm::any_of(arguments.named, [&](const auto &given) { return given.first == toText(name); });
      const PathNode *path = session.tracker.getStep(named.path, PathStep::Kind::Item, toText(name));
      session.tracker.read(path, item);
      if (!isGiven) all.named.emplace_back(toText(name).str(), conversions.fromPython(item, path));
    }
    // Another dict may have more names, so the partial's identity is a dependency.
    if (nb::len(named.object) != 0) session.tracker.depend(callee.path, artifact::Dependency::Kind::Identity);
    llvm::append_range(all.named, arguments.named);
    return calls().call(partOf(names().func), all, at);
  }
  if (isKnownCall(arguments) && !mayReadElements(object, arguments)) return std::nullopt;
  bool isMethod = python.isInstance(object, python.host.method);
  bool isStatic = Py_TYPE(object.ptr()) == &PyStaticMethod_Type;
  if (isMethod || isStatic) {
    PythonObject function = partOf(names().func_);
    if (isStatic) return calls().call(function, arguments, at);
    PythonObject self = partOf(names().__self__);
    bool isPythonFunction =
        python.isInstance(function.object, python.host.function) || python.isInstance(function.object, python.functions.func);
    if (isPythonFunction) return calls().callMethod(makeMethod(self, function.object, function.path), arguments, at);
  }
  if (PyType_Check(object.ptr()) || python.isInstance(object, python.host.function) || PyCFunction_Check(object.ptr())) return std::nullopt;
  nb::object wrapped = findAttribute(object, names().__wrapped__);
  if (wrapped && python.isInstance(wrapped, python.host.function))
    return calls().call(partOf(names().__wrapped__), arguments, at); // functools.cache
  nb::object type = nb::borrow(reinterpret_cast<PyObject *>(Py_TYPE(object.ptr())));
  nb::object callMember = findAttribute(type, names().__call__);
  if (!callMember || !python.isInstance(callMember, python.host.function)) return std::nullopt;
  const PathNode *path = session.tracker.getStep(callee.path, PathStep::Kind::Attribute, "__call__");
  session.tracker.depend(path, artifact::Dependency::Kind::Function);
  return calls().callMethod(makeMethod(callee, callMember, path), arguments, at);
}

Operand PythonCalls::callPlain(const PythonObject &function, const Operand *self, Arguments &arguments) {
  nb::handle object = function.object;
  auto found = session.functions.plainFunctions.find({object.ptr(), false});
  if (found == session.functions.plainFunctions.end()) {
    session.functions.keptAlive.push_back(nb::borrow(object));
    found = session.functions.plainFunctions.emplace(std::pair(object.ptr(), false), session.python.functions.asFunc(object)).first;
  }
  std::string name = toText(getAttribute(object, names().__name__)).str();
  if (found->second.is_none()) {
    readCaptured(object, function.path, self);
    session.tracker.refuseCache();
    return callWithOperands(object, name, self, arguments);
  }
  // No warning for constructors, because the class calls them.
  if (name != "__init__" && name != "__post_init__")
    session.warn("Calling non-quadrants function \"" + name + "\". Its body is compiled as if it were decorated with @qd.func.",
                 PyExc_SyntaxWarning);
  // The loops of such a function are no tasks.
  Enter inside(context);
  nesting.isOrdered = true;
  return functions().callFunc({found->second, function.path}, self, arguments);
}

Operand PythonCalls::makePartial(const PythonObject &type, Arguments &arguments) {
  Method result;
  for (const Operand &value : arguments.positional) result.items.push_back(collections().copyElement(value));
  for (const auto &[name, value] : arguments.named) {
    result.names.push_back(nb::str(name.c_str()));
    result.items.push_back(collections().copyElement(value));
  }
  session.functions.keptAlive.insert(session.functions.keptAlive.end(), result.names.begin(), result.names.end());
  result.callee = type.object;
  return result;
}

Operand PythonCalls::callPartial(const Method &partial, Arguments &arguments, nb::handle at) {
  size_t namedStart = partial.items.size() - partial.names.size();
  Arguments all;
  all.positional.assign(partial.items.begin() + 1, partial.items.begin() + int64_t(namedStart));
  llvm::append_range(all.positional, arguments.positional);
  for (size_t index = 0; index < partial.names.size(); ++index) {
    std::string name = toText(partial.names[index]).str();
    bool isGiven = llvm::any_of(arguments.named, [&](const auto &given) { return given.first == name; });
    if (!isGiven) all.named.emplace_back(name, partial.items[namedStart + index]);
  }
  llvm::append_range(all.named, arguments.named);
  return calls().call(partial.items[0], all, at);
}

Operand PythonCalls::declareFunc(nb::handle decorator, Arguments &arguments) {
  llvm::StringRef name = toText(getAttribute(decorator, names().__name__));
  bool isReal = name == "real_func";
  const Operand *given = arguments.positional.size() == 1 && arguments.named.empty() ? &arguments.positional[0] : nullptr;
  if (!given) fail(error::kSyntax, "qd." + name + " takes one function in kernels");
  auto *method = given->find<Method>();
  if (method && !isReal && session.python.isInstance(method->callee, session.python.functions.localFunc)) return *given;
  if (!session.python.isInstance(given->getObject(), session.python.host.function))
    fail(error::kType, "qd." + name + " takes a function that is defined outside of the kernel, got " + conversions.describe(*given));
  const auto &plain = given->get<PythonObject>();
  nb::object &made = session.functions.plainFunctions[{plain.object.ptr(), isReal}];
  if (!made || made.is_none()) {
    session.functions.keptAlive.push_back(plain.object);
    made = nb::borrow(decorator)(plain.object);
  }
  return makeObject(made, plain.path);
}

void PythonCalls::readCaptured(nb::handle function, const PathNode *path, const Operand *self) {
  const PythonObjects &python = session.python;
  llvm::DenseSet<PyObject *> seen;
  std::string library = toText(nb::module_::import_("sysconfig").attr("get_path")("stdlib")).str();
  std::function<void(nb::handle, const PathNode *)> visitFunction = [&](nb::handle callable, const PathNode *functionPath) {
    nb::object file = getAttribute(callable, names().__code__).attr("co_filename");
    // Functions of installed packages do not change.
    if (!seen.insert(callable.ptr()).second || toText(file).starts_with(library) || toText(file).contains("site-packages")) return;
    auto record = [&](const PathNode *place, nb::handle object) {
      bool isFunction = python.isInstance(object, python.host.function);
      if (!isFunction && !python.isNumber(object) && !PyUnicode_Check(object.ptr())) return;
      session.tracker.read(place, object);
      if (isFunction && !python.isOfPackage(object)) visitFunction(object, place);
    };
    nb::object code = getAttribute(callable, names().__code__), globals = getAttribute(callable, names().__globals__);
    auto *receiver = self ? self->find<PythonObject>() : nullptr;
    nb::object members = receiver ? findAttribute(receiver->object, names().__dict__) : nb::object();
    const PathNode *root = session.tracker.getFunctionRoot(callable, functionPath);
    for (nb::handle name : code.attr("co_names")) {
      if (PyObject *found = PyDict_GetItem(globals.ptr(), name.ptr()))
        record(session.tracker.getStep(root, PathStep::Kind::FunctionGlobal, toText(name)), found);
      if (PyObject *found = members && PyDict_Check(members.ptr()) ? PyDict_GetItem(members.ptr(), name.ptr()) : nullptr)
        record(session.tracker.getStep(receiver->path, PathStep::Kind::Attribute, toText(name)), found);
    }
    size_t position = 0;
    for (nb::handle name : getAttribute(code, names().co_freevars)) {
      nb::object cell = getAttribute(callable, names().__closure__)[position++];
      nb::object content = nb::steal(PyCell_Get(cell.ptr()));
      const PathNode *step = session.tracker.getStep(functionPath, PathStep::Kind::FunctionClosure, toText(name));
      if (content) record(session.tracker.getCellRoot(cell, step), content);
    }
  };
  if (python.isInstance(function, python.host.function) && !python.isOfPackage(function)) visitFunction(function, path);
}

Operand PythonCalls::applyOperator(llvm::StringRef name, const std::vector<Operand> &given, Arguments &named) {
  if (name == "call") {
    named.positional.assign(given.begin() + 1, given.end());
    return calls().call(given[0], named, context.node);
  }
  if (name == "getattr") return attributes().getAttributeOf(given[0], conversions.known(given[1]));
  if (name == "getitem") {
    auto *sequence = given[1].find<Sequence>();
    bool isTuple = sequence && sequence->isTuple;
    std::vector<Operand> indices = isTuple ? sequence->items : std::vector<Operand>{given[1]};
    for (Operand &index : indices) {
      nb::object slice = index.getObject();
      if (!slice || !PySlice_Check(slice.ptr())) continue;
      index = makeAggregate<Slice>({makeObject(getAttribute(slice, names().start)), makeObject(getAttribute(slice, names().stop)),
                                    makeObject(getAttribute(slice, names().step))});
    }
    return conversions.load(subscripts().subscriptValues(given[0], indices, isTuple));
  }
  if (name == "iter") return makeTuple(collections().listItems(given[0], "iterate over"));
  if (name == "neg") return operators().negate(given[0]);
  if (name == "pos") return given[0];
  if (name == "invert") return operators().unary(UnaryKind::bit_not, given[0], "bit_not");
  if (name == "matmul") return operators().matmul(given[0], given[1]);
  if (auto kind = ir::findKind<BinaryKind>(name)) return operators().binary(*kind, given[0], given[1], name);
  named.positional = given;
  PyObject *function = PyDict_GetItem(session.python.host.builtins.ptr(), nb::str(name.data(), name.size()).ptr());
  return builtinCalls().callPythonBuiltin(name, {nb::borrow(function)}, named); // len, abs, round, divmod
}

namespace {
/// The values behind the stand-ins of one call. Stand-ins may outlive the call, but their operators fail afterwards.
struct Operands {
  std::vector<Operand> values;
  std::optional<CompileError> mistake;
  nb::object apply;
  bool isFinished = false;
};
} // namespace

Operand PythonCalls::callWithOperands(nb::handle object, const std::string &name, const Operand *self, Arguments &arguments) {
  const PythonObjects &python = session.python;
  auto operands = std::make_shared<Operands>();
  std::function<nb::object(const Operand &)> box = [&](const Operand &value) -> nb::object {
    if (value.is<DictView>()) return box(makeTuple(collections().listItems(value, "pass to a function of Python")));
    auto *sequence = value.find<Sequence>();
    auto *dictionary = value.find<Dictionary>();
    runtimeDicts().requireKnownKeys(value, "cannot be passed to a function of Python");
    if (dictionary || (sequence && !sequence->type)) {
      nb::list items;
      for (const Operand &item : value.findBase<Aggregate>()->items) items.append(box(item));
      if (sequence) return sequence->isTuple ? nb::object(nb::tuple(items)) : nb::object(items);
      nb::dict pairs;
      for (auto [key, item] : llvm::zip(dictionary->names, items)) pairs[key] = item;
      return pairs;
    }
    nb::object known = conversions.isTensor(value) ? nb::object() : conversions.toPython(value);
    if (known && !python.isInstance(known, python.functions.func) && !python.isInstance(known, python.functions.boundFunc)) return known;
    operands->values.push_back(conversions.load(value));
    return python.language.operand(operands->apply, operands->values.size() - 1, conversions.describe(value).c_str());
  };
  std::function<Operand(nb::handle)> unbox = [&](nb::handle item) -> Operand {
    if (python.isInstance(item, python.language.operand)) return operands->values.at(nb::cast<size_t>(getAttribute(item, names().index)));
    bool isTuple = PyTuple_CheckExact(item.ptr());
    if (!isTuple && !PyList_CheckExact(item.ptr())) return makeObject(item);
    return makeSequence(listOperands(item, unbox), isTuple);
  };
  operands->apply = nb::cpp_function([&, operands = operands.get()](nb::handle what, nb::args given, nb::kwargs named) -> nb::object {
    if (operands->isFinished || operands->mistake) nb::raise("the kernel whose value this is has been compiled");
    try {
      Arguments keywords;
      for (auto [key, value] : named) keywords.named.emplace_back(toText(key).str(), unbox(value));
      std::vector<Operand> values;
      for (nb::handle operand : given) values.push_back(unbox(operand));
      return box(applyOperator(toText(what), values, keywords));
    } catch (CompileError &error) { operands->mistake = std::move(error); }
    nb::raise("a call in '%s' cannot be compiled", name.c_str());
  });
  struct Closer { // `apply` refers to variables of this function
    Operands &operands;
    ~Closer() {
      operands.isFinished = true;
      operands.apply.reset();
    }
  } closer{*operands};
  session.functions.keptAlive.push_back(operands->apply);
  nb::list positional;
  nb::dict named;
  if (self) positional.append(box(*self));
  for (const Operand &value : arguments.positional) positional.append(box(value));
  for (const auto &[key, value] : arguments.named) named[key.c_str()] = box(value);
  nb::object result = nb::steal(PyObject_Call(object.ptr(), nb::tuple(positional).ptr(), named.ptr()));
  if (operands->mistake) {
    PyErr_Clear();
    throw std::move(*operands->mistake);
  }
  if (!result) {
    bool isPythonFunction = python.isInstance(object, python.host.function);
    nb::python_error problem;
    if (!isPythonFunction && (problem.matches(PyExc_TypeError) || problem.matches(PyExc_AttributeError))) failRuntimeOperands(object, name);
    session.failFromPython(problem, " when calling `" + name + "`");
  }
  return unbox(result);
}

/// Calls the callable in Python. None if an argument is not known, or if the callable calls a func among its arguments.
std::optional<Operand> PythonCalls::tryPython(nb::handle callable, const Operand &callee, const std::string &name, Arguments &arguments) {
  auto isObject = [&](const Operand &value) { return bool(conversions.toPython(value)); };
  bool areObjects = llvm::all_of(arguments.positional, isObject) &&
                    llvm::all_of(arguments.named, [&](const auto &named) { return isObject(named.second); });
  if (!areObjects || mayReadElements(callable, arguments)) return std::nullopt;
  try {
    return runPython(callable, callee, name, arguments);
  } catch (CompileError &error) {
    bool callsFunc = llvm::StringRef(error.diagnostic.message).contains("is a qd.func and cannot be called from Python scope");
    if (!callsFunc || isKnownCall(arguments)) throw;
  }
  return std::nullopt;
}

Operand PythonCalls::callPython(const PythonObject &callee, Arguments &arguments) {
  const PythonObjects &python = session.python;
  nb::handle object = callee.object;
  nb::object qualified = findAttribute(object, names().__name__);
  std::string name = qualified && PyUnicode_Check(qualified.ptr()) ? toText(qualified).str() : toText(nb::repr(object)).str();
  if (!PyCallable_Check(object.ptr())) fail(error::kType, "'" + llvm::Twine(Py_TYPE(object.ptr())->tp_name) + "' object is not callable");
  if (!session.options.isInterpreted && nb::cast<bool>(nb::module_::import_("quadrants._base.source").attr("is_debugger")(object)))
    fail(error::kSyntax, "'" + name + "' stops in a frame of Python: a compiled kernel has none");
  if (PyObject *owner = PyCFunction_Check(object.ptr()) ? PyCFunction_GET_SELF(object.ptr()) : nullptr) {
    const bool isAttribute = callee.path && callee.path->step.name == name;
    collections().requireOwner({nb::borrow(owner), isAttribute ? callee.path->parent : callee.path}, name);
  } else if (const PythonObject *self = arguments.positional.empty() ? nullptr : arguments.positional[0].find<PythonObject>();
             self && self->object && Py_TYPE(object.ptr()) == &PyMethodDescr_Type) { // list.append(items, x)
    collections().requireOwner(*self, name);
  } else if (python.isInstance(object, python.host.method)) { // of a class derived from a collection
    collections().requireOwner({getAttribute(object, names().__self__), callee.path}, name);
  }
  bool isFunction = python.isInstance(object, python.host.function);
  if (python.isOfPackage(object) && (isFunction || PyType_Check(object.ptr())) && !python.isOfPackage(context.source.function.object)) {
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
  if (std::optional<Operand> result = tryPython(object, callee, name, arguments)) return *result;
  if (isFunction && toText(nb::str(getAttribute(object, names().__module__))).starts_with("numpy")) failRuntimeOperands(object, name);
  if (isFunction) return callPlain(callee, nullptr, arguments);
  if (PyType_Check(object.ptr())) failRuntimeOperands(object, name);
  return callWithOperands(object, name, nullptr, arguments);
}

void PythonCalls::warnOfChangingResult(nb::handle callable, const std::string &name) {
  // A method of C has no module of its own, so that of its object's class counts.
  nb::object owner = findAttribute(callable, names().__self__), module = findAttribute(callable, names().__module__);
  if (owner && !session.python.isInstance(owner, session.python.host.module) && !(module && PyUnicode_Check(module.ptr())))
    module = findAttribute(PyType_Check(owner.ptr()) ? owner : nb::handle(reinterpret_cast<PyObject *>(Py_TYPE(owner.ptr()))),
                           names().__module__);
  std::string where = module && PyUnicode_Check(module.ptr()) ? toText(module).str() : "";
  const bool isRandom = where == "random" || where == "secrets" || llvm::StringRef(where).starts_with("numpy.random");
  if (PyType_Check(callable.ptr()) ||
      (!isRandom && where != "time" && !(where == "datetime" && llvm::is_contained({"now", "today", "utcnow"}, name))))
    return;
  session.tracker.refuseCache();
  if (nesting.staticDepth == 0)
    session.warn("Calling non-quadrants function \"" + where + "." + name +
                     "\". It is called once, while the kernel is compiled: its result " + "is a constant. " +
                     (isRandom ? "qd.random() draws numbers" : "qd.clock_counter() reads a clock") + " at run time.",
                 PyExc_SyntaxWarning);
}

Operand PythonCalls::runPython(nb::handle callable, const Operand &callee, const std::string &name, Arguments &arguments) {
  nb::list positional;
  nb::dict named;
  for (const Operand &argument : arguments.positional) positional.append(conversions.toPython(argument));
  for (const auto &[key, argument] : arguments.named) named[key.c_str()] = conversions.toPython(argument);
  // The dependencies of a user's function beyond its arguments are known only in part.
  auto *method = callee.find<Method>();
  const nb::object &function = method ? method->callee : callee.getObject();
  bool isPythonFunction =
      session.python.isInstance(function, session.python.host.function) || session.python.isInstance(callable, session.python.host.method);
  if (isPythonFunction && !session.python.isOfPackage(callable)) {
    session.tracker.refuseCache();
    readCaptured(function, method ? method->path : callee.get<PythonObject>().path, method ? &method->items[0] : nullptr);
  }
  warnOfChangingResult(callable, name);
  PyObject *result = PyObject_Call(callable.ptr(), nb::tuple(positional).ptr(), named.ptr());
  if (!result) {
    nb::python_error problem;
    session.failFromPython(problem, " when calling `" + name + "`");
  }
  return conversions.fromPython(nb::steal(result), nullptr);
}

void PythonCalls::failRuntimeOperands(nb::handle callable, const std::string &name) {
  nb::object module = findAttribute(callable, names().__module__);
  std::string owner = module && PyUnicode_Check(module.ptr()) ? toText(module).str() + "." : "";
  std::string hint;
  static const std::pair<llvm::StringLiteral, const char *> kOthers[] = {
      {"absolute", "abs"},    {"fabs", "abs"},           {"maximum", "max"},      {"minimum", "min"},
      {"where", "qd.select"}, {"clip", "qd.math.clamp"}, {"arctan2", "qd.atan2"}, {"arcsin", "qd.asin"},
      {"arccos", "qd.acos"},  {"power", "**"},           {"square", "**"},        {"rint", "qd.round"}};
  for (auto [other, ours] : kOthers)
    if (name == other) hint = std::string(". Did you mean to use `") + ours + "` instead of `" + owner + name + "`?";
  nb::object package = nb::module_::import_("quadrants");
  const bool isTop = nb::hasattr(package, name.c_str());
  if (isTop || nb::hasattr(package.attr("math"), name.c_str()))
    hint = std::string(". Did you mean to use `qd.") + (isTop ? "" : "math.") + name + "` instead of `" + owner + name + "`?";
  fail(error::kType, "TypeError when calling `" + name + "`: a run-time value cannot be passed to a non-quadrants function" + hint);
}

} // namespace qd::frontend
