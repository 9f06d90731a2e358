// functions.cpp: calls of funcs: binding of arguments, instances, inlining at the top level
//
// In:   a func and the values of its arguments.
// Out:  the returned value, and a qd.call of an instance or the inlined body.
// Here: a func is emitted once per combination of the IR types of its by-value arguments and of its compile-time arguments; further calls
//       with the same combination reuse the instance. Containers and launch arguments are no parameters: the func reads them by offset.
#include "frontend/builder.h"

using namespace mlir;

namespace qd::frontend {

using Kind = Value::Kind;

static std::string readText(nb::handle object, const nb::object &name) { return toText(getAttribute(object, name)).str(); }

std::vector<Value> FunctionBuilder::bindArguments(const Value &func, const Value *self, Arguments &arguments) {
  std::vector<Value> given;
  auto standIn = [&](const Value &value) {
    bool isNumber = value.isObject() && session.python.isNumber(value.object);
    given.push_back(value);
    return session.python.standIn(given.size() - 1, isNumber ? nb::repr(value.object) : nb::str(describe(value).c_str()));
  };
  nb::list positional;
  nb::dict named;
  if (self) positional.append(standIn(*self));
  for (const Value &value : arguments.positional) positional.append(standIn(value));
  for (const auto &[name, value] : arguments.named) {
    if (named.contains(name.c_str())) fail(error::kSyntax, "Multiple values for argument '" + name + "'.");
    named[name.c_str()] = standIn(value);
  }
  nb::object parameters = getAttribute(func.object, names().parameters);
  // A function without decorator has no attribute `parameters` at its path.
  nb::object python = getAttribute(func.object, names().function);
  bool isDecorated = !session.plainFunctions.contains({python.ptr(), false}) && !session.plainFunctions.contains({python.ptr(), true});
  // Parameters of constructors stay known numbers.
  std::string called = readText(func.object, names().name);
  bool keepsNumbers = llvm::StringRef(called).ends_with(".__init__") || llvm::StringRef(called).ends_with(".__post_init__");
  const PathNode *path = isDecorated ? session.tracker.getStep(func.path, artifact::PathStep::Kind::Attribute, "parameters") : nullptr;
  nb::object bound = session.python.bind(parameters, nb::tuple(positional), named);
  std::vector<Value> values;
  for (nb::handle parameter : parameters) {
    nb::object item = bound[values.size()], annotation = getAttribute(parameter, names().annotation);
    const PathNode *parameterPath = session.tracker.getStep(path, artifact::PathStep::Kind::Item, "", int64_t(values.size()));
    if (isStructType(annotation))
      session.tracker.recordType(annotation, session.tracker.getStep(parameterPath, artifact::PathStep::Kind::Attribute, "annotation"));
    bool isGiven = session.python.isInstance(item, session.python.standIn);
    // A default value is part of its func. A default that is a func has its parameterPath globals, so it needs a path.
    const PathNode *place = session.python.isInstance(item, session.python.func)
                                ? session.tracker.getStep(parameterPath, artifact::PathStep::Kind::Attribute, "default")
                                : nullptr;
    const Value value = isGiven ? given[nb::cast<size_t>(getAttribute(item, names().index))] : fromPython(item, place);
    bool staysKnown = keepsNumbers && value.isObject() && getAttribute(parameter, names().annotation).is_none();
    values.push_back(staysKnown ? value : passArgument(parameter, value));
  }
  return values;
}

bool FunctionBuilder::mayTakeReference(const Value &callee, size_t position, nb::handle name) {
  const PythonObjects &python = session.python;
  nb::object func = callee.object;
  bool hasSelf = callee.is(Kind::Method);
  if (func && python.isInstance(func, python.boundFunc)) {
    func = getAttribute(func, names().func);
    hasSelf = true;
  }
  if (!func || !python.isInstance(func, python.func)) {
    if (std::string builtin = builtinName(callee.object); !builtin.empty())
      return position == 0 && (llvm::StringRef(builtin).starts_with("atomic_") || builtin == "volatile_load");
    return !callee.isObject() ||
           (!PyType_Check(func.ptr()) && !PyCFunction_Check(func.ptr()) && !python.isInstance(func, python.structType));
  }
  hasSelf = hasSelf && !python.isInstance(func, python.localFunc);
  nb::object parameters = getAttribute(func, names().parameters);
  for (size_t index = 0; index < nb::len(parameters); ++index) {
    nb::object parameter = parameters[index];
    if (name.is_none() ? index != position + hasSelf : !getAttribute(parameter, names().name).equal(name)) continue;
    std::string kind = readText(parameter, names().kind);
    return kind == "template" || kind == "ref";
  }
  return true;
}

Value FunctionBuilder::passArgument(nb::handle parameter, const Value &value) {
  std::string kind = readText(parameter, names().kind), name = readText(parameter, names().name);
  nb::object annotation = getAttribute(parameter, names().annotation);
  auto reject = [&](const llvm::Twine &expected) {
    fail(error::kType, "Argument " + name + " of type " + describe(value) + " is not recognized. (" + expected + " is expected)");
  };
  if (kind == "scalar") {
    Type given = findType(value);
    if (!given || isa<VectorType>(given)) reject("a scalar");
    return rounded(makeComputed(convert(value, session.findScalarType(annotation))));
  }
  if (kind == "matrix") {
    mlir::Value given = canEmit(value) || value.is(Kind::Sequence) ? emit(value) : mlir::Value();
    auto type = given ? dyn_cast<VectorType>(given.getType()) : VectorType();
    if (!type) fail(error::kArgumentType, "Argument " + name + " is expected to be a Matrix, but got " + describe(value));
    auto check = [&](const char *what, const nb::object &wanted, int64_t got) {
      if (!wanted.is_none() && nb::cast<int64_t>(wanted) != got)
        fail(error::kArgumentType, "Argument " + name + " is expected to be a Matrix with " + what + " " + toText(nb::str(wanted)) +
                                       ", but got " + std::to_string(got));
    };
    check("ndim", getAttribute(annotation, names().ndim), type.getRank());
    check("n", getAttribute(annotation, names().n), type.getDimSize(0));
    if (type.getRank() == 2) check("m", getAttribute(annotation, names().m), type.getDimSize(1));
    nb::object dtype = getAttribute(annotation, names().dtype);
    return rounded(makeComputed(dtype.is_none() ? given : cast(given, session.findScalarType(dtype))));
  }
  if (kind == "struct") return copy(convertMember(annotation, value));
  if (kind == "ref") {
    Type type = session.findScalarType(getAttribute(annotation, names().dtype));
    if (!value.is(Kind::Place) || value.type != type || value.isReadOnly) reject("a variable of type '" + ir::describe(type) + "'");
  }
  if (kind == "array" || kind == "view") {
    bool isView = value.is(Kind::View);
    if (!isView && !isTensor(value)) reject("an array");
    auto type = mlir::cast<ir::TensorType>(isView ? value.aggregate->items[0].type : toTensor(value).type);
    int64_t rank = isView ? int64_t(listRanges(value).size()) : type.getRank();
    nb::object ndim = getAttribute(annotation, names().ndim), dtype = getAttribute(annotation, names().dtype);
    Type wanted = dtype.is_none() ? Type() : session.findValueType(dtype);
    if ((!ndim.is_none() && nb::cast<int64_t>(ndim) != rank) ||
        (wanted && wanted != type.getElement() && wanted != ir::getScalar(type.getElement())))
      fail(error::kType, "Argument " + name + " of type " + describe(value) + " with element '" + ir::describe(type.getElement()) +
                             "' and " + std::to_string(rank) + " axes is not recognized. " + toText(nb::repr(annotation)) + " is expected");
    return withBoundary(value, annotation);
  }
  if (kind != "value") return value;
  // An argument by value: numbers become typed, variables are loaded.
  return value.isObject() && session.python.isNumber(value.object) ? makeComputed(emit(value)) : copy(value);
}

void FunctionBuilder::flatten(const Value &value, SmallVectorImpl<mlir::Value> &operands, std::string *key) {
  if (key && value.isClamped) *key += "b";
  auto addToKey = [&](char mark, const void *address) {
    if (key) *key += mark + std::to_string(reinterpret_cast<uintptr_t>(address)) + ";";
  };
  switch (value.kind) {
  case Kind::Object:
    if (!key) return;
    if (session.python.isNumber(value.object) || PyUnicode_Check(value.object.ptr())) {
      std::string text = toText(nb::repr(value.object)).str();
      *key += "n" + std::string(Py_TYPE(value.object.ptr())->tp_name) + std::to_string(text.size()) + ":" + text;
      return;
    }
    session.keptAlive.push_back(value.object);
    addToKey('o', value.object.ptr());
    return addToKey(value.members == Value::Members::ReadAtLaunch ? 'l' : value.hasRuntimeMembers ? 'P' : 'p', value.path);
  case Kind::Argument:
  case Kind::Tensor:
    if (key) *key += "i" + std::to_string(value.input) + ";";
    if (!key && value.is(Kind::Argument)) operands.push_back(emit(value));
    return;
  case Kind::Computed:
  case Kind::Place:
  case Kind::Components: {
    // With `key`, places are passed by reference, so that the callee can assign them.
    bool isPlace = key && value.is(Kind::Place);
    char mark = isOuterVariable(value) ? 's' : value.isElement ? 'a' : value.isReadOnly ? 'c' : 'r';
    addToKey(isPlace ? mark : 'v', value.type.getAsOpaquePointer());
    operands.push_back(isPlace ? value.ir : emit(value));
    return;
  }
  default:
    if (key) *key += "(" + std::to_string(int(value.kind)) + "," + std::to_string(value.aggregate->items.size()) + ":";
    for (const nb::object &name : value.aggregate->names) addToKey('k', name.ptr());
    if (value.aggregate->structType) addToKey('t', value.aggregate->structType.ptr());
    if (value.is(Kind::Method)) addToKey('m', value.object.ptr());
    // An object may contain itself.
    if (++session.flattenDepth > 64)
      fail(error::kCompilation, "objects are nested too deeply, or in a circle, to be passed to this function");
    if (value.is(Kind::Instance)) addToKey('O', value.object.ptr());
    for (const Value &item : value.aggregate->items) flatten(item, operands, key);
    --session.flattenDepth;
    return;
  }
}

Value FunctionBuilder::rebuild(const Value &shape, llvm::function_ref<mlir::Value()> next, bool byReference) {
  switch (shape.kind) {
  case Kind::Object:
  case Kind::Tensor: return shape;
  case Kind::Argument: return byReference ? shape : makeComputed(next());
  case Kind::Place:
    if (byReference) {
      Value place = makePlace(next());
      place.isKernelVariable = caller && caller->isOuterVariable(shape);
      place.isElement = shape.isElement || place.isKernelVariable;
      place.isReadOnly = shape.isReadOnly;
      place.isClamped = shape.isClamped;
      return place;
    }
    [[fallthrough]];
  case Kind::Computed:
  case Kind::Components: return makeComputed(next());
  default: {
    Value result = mapItems(shape, [&](const Value &item) { return rebuild(item, next, byReference); });
    if (result.is(Kind::Instance)) result.aggregate->ownerBlock = nullptr; // the callee cannot add members to the caller's object
    result.isStatic = shape.isStatic;
    result.object = shape.object;
    result.path = shape.path;
    return result;
  }
  }
}

bool FunctionBuilder::isOuterVariable(const Value &place) const {
  return place.isKernelVariable && (isInsideParallel || place.isElement); // `rebuild` sets isElement for outer variables of callers
}

Value FunctionBuilder::callFunc(const Value &func, const Value *self, Arguments &arguments) {
  std::vector<Value> values = bindArguments(func, self, arguments);
  nb::object python = getAttribute(func.object, names().function);
  // The Python function of the func, under the func's path, for its globals.
  nb::object source = getAttribute(func.object, names().source);
  Callee callee{func.object, makeObject(python, func.path), source.is_none() ? session.python.getSource(python) : source};
  // Functions of the package need no path: the build is part of every cache key.
  if (!session.tracker.getFunctionRoot(python, func.path) && !session.python.isOfPackage(func.object)) session.tracker.refuseCache();
  if (++session.callDepth > 200)
    fail(error::kCompilation,
         "recursive calls of '" + readText(func.object, names().name) + "' do not end within 200 levels; see qd.real_func");
  if (nb::cast<bool>(getAttribute(func.object, names().requires_top_level)) && !isTopLevel())
    fail(error::kSyntax,
         "`" + readText(func.object, names().__name__) + "` is decorated with requires_top_level=True and must be called at the top level");
  bool isReal = nb::cast<bool>(getAttribute(func.object, names().is_real_function));
  bool hasTasks = isTopLevel() && !isReal && FunctionBuilder(session, callee.source, callee.function, this).containsTasks();
  // A callee that receives objects is inlined if possible, so that it can add members to them.
  bool isInlined = hasTasks || (!isReal && llvm::any_of(values, holdsInstance) &&
                                FunctionBuilder(session, callee.source, callee.function, this).returnsAtEnd());
  Value result = isInlined ? inlineCall(callee, values, hasTasks) : callInstance(callee, values);
  --session.callDepth;
  return result;
}

bool FunctionBuilder::isSuperCall(nb::handle at) {
  if (kindOf(at) != NodeKind::Call || nb::len(getAttribute(at, names().args)) != 0) return false;
  nb::object callee = resolveCallee(getAttribute(at, names().func));
  return callee && callee.ptr() == reinterpret_cast<PyObject *>(&PySuper_Type);
}

Value FunctionBuilder::superAttribute(nb::handle name) {
  std::vector<nb::object> parameters = listParameterNames();
  Binding *self = parameters.empty() ? nullptr : scopes.find(parameters[0].ptr());
  bool isInstance = self && self->value.is(Kind::Instance);
  if (!self || (!isInstance && !self->value.isObject())) fail(error::kSyntax, "super() stands in methods of classes only");
  Value owner = lookUpGlobal(names().__class__);
  nb::handle ownClass = isInstance ? self->value.object : nb::handle(reinterpret_cast<PyObject *>(Py_TYPE(self->value.object.ptr())));
  const PathNode *type =
      isInstance ? self->value.path : session.tracker.getStep(self->value.path, artifact::PathStep::Kind::Attribute, "__class__");
  const PathNode *classes = session.tracker.getStep(type, artifact::PathStep::Kind::Attribute, "__mro__");
  bool isPast = false;
  int64_t position = 0;
  for (nb::handle candidate : getAttribute(ownClass, names().__mro__)) {
    const PathNode *path = session.tracker.getStep(classes, artifact::PathStep::Kind::Item, "", position++);
    nb::object members = getAttribute(candidate, names().__dict__);
    if (isPast && nb::cast<bool>(members.attr("__contains__")(name))) {
      nb::object found = members[name];
      bool isMethod =
          session.python.isInstance(found, session.python.func) || session.python.isInstance(found, session.python.functionClass);
      Value method = isMethod ? makeMethod(self->value, found) : makeObject(found);
      method.path = session.tracker.getStep(path, artifact::PathStep::Kind::Attribute, toText(name));
      session.tracker.read(method.path, found);
      return method;
    }
    isPast |= candidate.is(owner.object);
  }
  fail(error::kAttribute, "'super' object has no attribute '" + toText(name) + "'");
}

Value FunctionBuilder::makeLocalFunc(nb::handle at) {
  Value result = makeAggregate(Kind::Method, {});
  nb::list captured;
  for (nb::handle name : session.python.freeNames(at)) {
    Binding *binding = scopes.find(name.ptr());
    if (!binding || binding->kind == Binding::Kind::Partial) continue;
    result.aggregate->names.push_back(nb::borrow(name));
    result.aggregate->items.push_back(binding->kind == Binding::Kind::Merged ? merge(*binding, name.ptr()) : binding->value);
    captured.append(name);
  }
  result.object = session.python.localFunc(source, at, captured);
  result.path = function.path;
  return result;
}

void FunctionBuilder::emitBody(const std::vector<Value> &values) {
  scopes.push();
  bindParameters(values);
  scopes.push();
  visitBody(getAttribute(tree, names().body));
}

Value FunctionBuilder::inlineCall(const Callee &callee, const std::vector<Value> &values, bool hasTasks) {
  FunctionBuilder inner(session, callee.source, callee.function, this);
  inner.body = body;
  inner.isInlined = true;
  inner.isKernelLevel = hasTasks;
  inner.isPartOfKernel = isKernelLevel || isPartOfKernel;
  inner.isInsideParallel = isInsideParallel;
  inner.stopped = stopped;
  inner.resultTypes = getAttribute(callee.func, names().results);
  inner.builder.restoreInsertionPoint(builder.saveInsertionPoint());
  inner.emitBody(values);
  return inner.inlinedResult;
}

std::vector<nb::object> FunctionBuilder::listParameterNames() {
  std::vector<nb::object> found;
  nb::object parameters = getAttribute(tree, names().args);
  for (const nb::object &part : {names().posonlyargs, names().args, names().kwonlyargs})
    for (nb::handle parameter : getAttribute(parameters, part)) found.push_back(getAttribute(parameter, names().arg));
  return found;
}

void FunctionBuilder::bindParameters(const std::vector<Value> &values) {
  std::function<bool(const Value &)> isByReference = [&](const Value &value) {
    if (value.is(Kind::Struct)) return llvm::all_of(value.aggregate->items, isByReference);
    return value.is(Kind::Place) || value.is(Kind::Argument);
  };
  bool isConstructor = functionName == "__init__" || functionName == "__post_init__"; // known numbers stay known unless they are assigned
  for (auto [name, given] : llvm::zip_equal(listParameterNames(), values)) {
    Value value = given;
    Binding binding;
    bool isAssigned = assignmentCounts->lookup(name.ptr()).count != 0;
    if (value.is(Kind::Argument) && isAssigned && !value.isReadOnly) value = load(value);
    if ((value.is(Kind::Computed) && isAssigned) || (value.is(Kind::Struct) && !isByReference(value))) value = declare(value, false);
    if (isConstructor && value.isObject() && isAssigned && session.python.isNumber(value.object)) value = declare(value, false);
    if (!value.isTyped() && !value.is(Kind::Struct)) binding.kind = Binding::Kind::Static;
    binding.value = value;
    scopes.bind(name.ptr(), std::move(binding));
  }
}

Value FunctionBuilder::callInstance(const Callee &callee, const std::vector<Value> &values) {
  SmallVector<mlir::Value> operands;
  std::string key = std::to_string(reinterpret_cast<uintptr_t>(callee.func.ptr())) + ":";
  session.keptAlive.push_back(callee.func);
  for (const Value &value : values) flatten(value, operands, &key);
  auto [found, isNew] = session.instances.try_emplace(key);
  Instance &instance = found->second;
  std::string name = readText(callee.func, names().name);
  if (isNew) {
    OpBuilder atModule = OpBuilder::atBlockEnd(session.module->getBody());
    std::string plain = name.substr(name.rfind('.') + 1);
    unsigned count = session.symbolCounts[plain]++;
    std::string symbol = count == 0 ? plain : plain + "." + std::to_string(count); // no Python name has this form
    auto types = llvm::map_to_vector(operands, [](mlir::Value operand) { return operand.getType(); });
    instance.op =
        ir::FuncOp::create(atModule, loc(), symbol, FunctionType::get(&session.ctx, types, {}), StringAttr(), ArrayAttr(), ArrayAttr());
    FunctionBuilder inner(session, callee.source, callee.function, this);
    inner.resultTypes = getAttribute(callee.func, names().results);
    inner.isReal = nb::cast<bool>(getAttribute(callee.func, names().is_real_function));
    if (inner.isReal) {
      // The annotation declares the result types before the body is compiled, so that the function can call itself.
      std::vector<Value> shapes;
      std::vector<Type> results = inner.listResultTypes();
      if (!inner.resultTypes.is_none())
        for (nb::handle annotation : inner.resultTypes) shapes.push_back(inner.shapeOf(annotation));
      instance.result = shapes.empty() ? makeObject(nb::none()) : shapes.size() == 1 ? shapes[0] : makeTuple(shapes);
      instance.op.setFunctionType(FunctionType::get(&session.ctx, types, results));
      instance.isInProgress = false;
    }
    try {
      instance.result = inner.buildFunction(instance.op, values);
    } catch (const CompileError &) {
      session.instances.erase(key); // so that the next call reports the same mistake and no recursion
      throw;
    }
    instance.isInProgress = false;
  } else if (instance.isInProgress) {
    std::string chain = name;
    for (FunctionBuilder *at = this; at && at->caller; at = at->caller) {
      chain = at->functionName + " -> " + chain;
      if (at->functionName == functionName && at != this) break;
    }
    fail(error::kCompilation,
         "'" + name + "' is recursive: " + chain + "; a func is compiled into its caller, so it cannot call itself at run time");
  }
  auto call = create<ir::CallOp>(instance.op.getFunctionType().getResults(), instance.op.getSymName(), operands);
  unsigned position = 0;
  Value result = rebuild(instance.result, [&] { return call.getResult(position++); }, false);
  materializeInstances(result);
  return result;
}

Value FunctionBuilder::shapeOf(nb::handle annotation) {
  if (isStructType(annotation)) return makeStructOf(annotation, [&](nb::handle, nb::handle type) { return shapeOf(type); });
  Value shape;
  shape.kind = Kind::Computed;
  shape.type = session.findValueType(annotation);
  return shape;
}

Value FunctionBuilder::buildFunction(ir::FuncOp op, const std::vector<Value> &values) {
  body = std::make_shared<Body>();
  body->entry = op.addEntryBlock();
  builder.setInsertionPointToStart(body->entry);
  unsigned position = 0;
  std::vector<Value> parameters;
  for (const Value &value : values) parameters.push_back(rebuild(value, [&] { return body->entry->getArgument(position++); }, true));
  emitBody(parameters);
  return unifyReturns(op);
}

Type FunctionBuilder::findCommonType(Type first, Type second) {
  auto one = dyn_cast<VectorType>(first), other = dyn_cast<VectorType>(second);
  bool fits = (one != nullptr) == (other != nullptr) && (!one || one.getShape() == other.getShape());
  return fits ? ir::withScalar(first, promote(first, second)) : Type();
}

/// Whether two returned values have the same structure and compile-time parts.
static bool isSameShape(const Value &first, const Value &second) {
  if (first.isTyped() || second.isTyped()) return first.isTyped() && second.isTyped();
  if (first.kind != second.kind) return false;
  if (first.is(Kind::Object) || first.is(Kind::Tensor))
    return first.object.is(second.object) || (PyUnicode_Check(first.object.ptr()) && first.object.equal(second.object));
  if (first.is(Kind::Instance) && !first.object.is(second.object)) return false;
  if (!first.aggregate || !second.aggregate) return first.aggregate == second.aggregate;
  auto sameItems = [](const auto &pair) { return isSameShape(std::get<0>(pair), std::get<1>(pair)); };
  auto sameNames = [](const auto &pair) { return std::get<0>(pair).equal(std::get<1>(pair)); };
  const Aggregate &one = *first.aggregate, &other = *second.aggregate;
  return one.items.size() == other.items.size() && one.names.size() == other.names.size() &&
         llvm::all_of(llvm::zip(one.names, other.names), sameNames) && llvm::all_of(llvm::zip(one.items, other.items), sameItems);
}

Value FunctionBuilder::unifyReturns(ir::FuncOp op) {
  At here(*this, tree);
  auto reject = [&](const llvm::Twine &why) { fail(error::kReturnType, "the returns of '" + functionName + "' give " + why); };
  if (!resultTypes.is_none() && returns.empty())
    fail(error::kReturnType, "Function has a return type but does not have a return statement");
  SmallVector<Type> types;
  Value shape = returns.empty() ? makeObject(nb::none()) : returns[0].second;
  if (!returns.empty()) llvm::append_range(types, returns[0].first.getValues().getTypes());
  for (auto &[at, value] : llvm::drop_begin(returns, returns.empty() ? 0 : 1)) {
    if (at.getValues().size() != types.size() || value.kind != shape.kind) reject("values of different shapes");
    if (value.isObject() && !isSameShape(value, shape)) reject("different compile-time objects");
    if (!isSameShape(value, shape)) reject("values that differ in what is known while compiling");
    for (auto [type, operand] : llvm::zip(types, at.getValues())) {
      Type common = findCommonType(type, operand.getType());
      if (!common) reject("'" + ir::describe(type) + "' and '" + ir::describe(operand.getType()) + "'");
      type = common;
    }
  }
  for (auto &[at, value] : returns) {
    builder.setInsertionPoint(at);
    SmallVector<mlir::Value> operands;
    for (auto [type, operand] : llvm::zip(types, at.getValues())) operands.push_back(convert(operand, type));
    at.getValuesMutable().assign(operands);
  }
  bool isWanted = llvm::any_of(returns, [](const auto &made) { return !made.second.isNone(); });
  // Not checked for real funcs, nor for annotated functions that end with a loop, which may always return.
  nb::object statements = getAttribute(tree, names().body);
  NodeKind last = kindOf(nb::object(statements[nb::len(statements) - 1]));
  bool mayFallThrough = isReal || (!resultTypes.is_none() && (last == NodeKind::For || last == NodeKind::While));
  if (isWanted && !terminated && !mayFallThrough) fail(error::kReturnType, "'" + functionName + "' does not return a value on every path");
  builder.setInsertionPointToEnd(body->entry);
  if (body->entry->empty() || !body->entry->back().hasTrait<OpTrait::IsTerminator>()) {
    // This point is unreachable if every path returns a value; otherwise the result is unspecified, and zero here.
    SmallVector<mlir::Value> zeros;
    for (Type type : types) zeros.push_back(convert(constant(0, session.types.i32), type));
    create<ir::ReturnOp>(zeros);
  }
  op.setFunctionType(FunctionType::get(&session.ctx, op.getFunctionType().getInputs(), types));
  return shape;
}

} // namespace qd::frontend
