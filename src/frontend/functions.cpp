// functions.cpp: funcs: binding of arguments, instances, inlining at the top level
//
// A func is emitted once for each combination of IR types of its by-value arguments and of compile-time arguments; further calls with the
// same combination reuse the instance. Containers and launch arguments are read inside by their offset and are no parameters.
#include "frontend/builder.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace qd::frontend {

using Kind = Value::Kind;

static std::string readText(nb::handle object, const nb::object &name) { return toText(getAttribute(object, name)).str(); }

std::vector<Value> FunctionBuilder::bindArguments(nb::handle func, const Value *self, Arguments &arguments) {
  std::vector<nb::object> parameters;
  for (nb::handle parameter : getAttribute(func, names().parameters)) parameters.push_back(nb::borrow(parameter));
  std::vector<Value> given;
  if (self) given.push_back(*self);
  llvm::append_range(given, arguments.positional);
  std::string expected, got;
  for (const nb::object &parameter : parameters) expected += (expected.empty() ? "" : ", ") + toText(nb::repr(parameter)).str();
  for (const Value &value : given)
    got += (got.empty() ? "" : ", ") + (value.isObject() ? toText(nb::repr(value.object)).str() : describe(value));
  std::vector<std::optional<Value>> bound(parameters.size());
  std::vector<std::string> problems;
  for (size_t index = 0; index < given.size(); ++index)
    if (index < bound.size()) bound[index] = given[index];
  for (const auto &[name, value] : arguments.named) {
    auto found = llvm::find_if(parameters, [&](const nb::object &parameter) { return readText(parameter, names().name) == name; });
    if (found == parameters.end())
      problems.push_back("Unexpected argument '" + name + "'.");
    else if (bound[size_t(found - parameters.begin())])
      problems.push_back("Multiple values for argument '" + name + "'.");
    else
      bound[size_t(found - parameters.begin())] = value;
  }
  std::vector<std::string> missing;
  for (size_t index = 0; index < bound.size(); ++index) {
    if (bound[index]) continue;
    if (nb::cast<bool>(getAttribute(parameters[index], names().has_default)))
      bound[index] = fromPython(getAttribute(parameters[index], names().default_), nullptr);
    else
      missing.push_back("Missing argument '" + readText(parameters[index], names().name) + "'.");
  }
  problems.insert(problems.begin(), missing.begin(), missing.end());
  if (given.size() > bound.size()) problems.push_back("Too many arguments. Expected (" + expected + "), got (" + got + ").");
  if (!problems.empty()) fail(error::kSyntax, llvm::join(problems, " "));
  std::vector<Value> values;
  for (size_t index = 0; index < bound.size(); ++index) values.push_back(passArgument(parameters[index], *bound[index]));
  return values;
}

Value FunctionBuilder::passArgument(nb::handle parameter, const Value &value) {
  std::string kind = readText(parameter, names().kind), name = readText(parameter, names().name);
  nb::object annotation = getAttribute(parameter, names().annotation);
  if (kind == "scalar") {
    Type type = session.findScalarType(annotation);
    Type given = findType(value);
    if (!given || isa<VectorType>(given))
      fail(error::kType, "Argument " + name + " of type " + describe(value) + " is not recognized. (a scalar is expected)");
    return makeComputed(convert(value, type));
  }
  if (kind == "matrix") {
    bool isVector = nb::cast<int>(getAttribute(annotation, names().ndim)) == 1;
    if (!canEmit(value) && !value.is(Kind::Sequence))
      fail(error::kType, "Argument " + name + " is expected to be a Matrix, but got " + describe(value));
    mlir::Value given = emit(value);
    auto type = dyn_cast<VectorType>(given.getType());
    if (!type) fail(error::kType, "Argument " + name + " is expected to be a Matrix, but got " + describe(value));
    if (type.getRank() != (isVector ? 1 : 2))
      fail(error::kType, "Argument " + name + " is expected to be a Matrix with ndim " + std::to_string(isVector ? 1 : 2) + ", but got " +
                             std::to_string(type.getRank()));
    nb::object n = getAttribute(annotation, names().n), m = getAttribute(annotation, names().m);
    if (!n.is_none() && nb::cast<int64_t>(n) != type.getDimSize(0))
      fail(error::kType, "Argument " + name + " is expected to be a Matrix with n " + toText(nb::str(n)) + ", but got " +
                             std::to_string(type.getDimSize(0)));
    if (!isVector && !m.is_none() && nb::cast<int64_t>(m) != type.getDimSize(1))
      fail(error::kType, "Argument " + name + " is expected to be a Matrix with m " + toText(nb::str(m)) + ", but got " +
                             std::to_string(type.getDimSize(1)));
    nb::object dtype = getAttribute(annotation, names().dtype);
    return makeComputed(dtype.is_none() ? given : cast(given, session.findScalarType(dtype)));
  }
  if (kind == "struct") return copy(convertMember(annotation, value));
  if (kind == "array") {
    if (!isTensor(value))
      fail(error::kType, "Argument " + name + " of type " + describe(value) + " is not recognized. (an ndarray is expected)");
    Value tensor = toTensor(value);
    auto type = mlir::cast<ir::TensorType>(tensor.type);
    nb::object ndim = getAttribute(annotation, names().ndim), dtype = getAttribute(annotation, names().dtype);
    Type wanted = dtype.is_none() ? Type() : session.findValueType(dtype);
    if ((!ndim.is_none() && nb::cast<int64_t>(ndim) != type.getRank()) ||
        (wanted && wanted != type.getElement() && wanted != ir::getScalar(type.getElement())))
      fail(error::kType, "Argument " + name + " of type " + describe(value) + " with element '" + ir::describe(type.getElement()) +
                             "' and " + std::to_string(type.getRank()) + " axes is not recognized. " + toText(nb::repr(annotation)) +
                             " is expected");
    return value;
  }
  if (kind == "value") {
    // By value: numbers become typed, variables are read.
    if (value.isObject() && session.python.isNumber(value.object)) return makeComputed(emit(value));
    return copy(value);
  }
  return value;
}

void FunctionBuilder::flatten(const Value &value, SmallVectorImpl<mlir::Value> &operands, std::string *key, bool byReference) {
  auto note = [&](char mark, const void *address) {
    if (key) *key += mark + std::to_string(reinterpret_cast<uintptr_t>(address)) + ";";
  };
  switch (value.kind) {
  case Kind::Object:
    if (key && session.python.isNumber(value.object)) {
      *key += std::string("n") + Py_TYPE(value.object.ptr())->tp_name + toText(nb::repr(value.object)).str() + ";";
      return;
    }
    if (key && PyUnicode_Check(value.object.ptr())) {
      *key += "s" + std::to_string(toText(value.object).size()) + ":" + toText(value.object).str();
      return;
    }
    if (key) session.kept.push_back(value.object);
    note('o', value.object.ptr());
    note(value.hasRuntimeMembers ? 'P' : 'p', value.path);
    return;
  case Kind::Computed:
    note('v', value.type.getAsOpaquePointer());
    operands.push_back(value.ir);
    return;
  case Kind::Place:
    if (byReference) {
      bool isAtomic = value.isElement || (value.isShared && isInsideParallel);
      note(isAtomic ? 'a' : value.isReadOnly ? 'c' : 'r', value.type.getAsOpaquePointer());
      operands.push_back(value.ir);
      return;
    }
    [[fallthrough]];
  case Kind::Components:
    note('v', value.type.getAsOpaquePointer());
    operands.push_back(emit(value));
    return;
  case Kind::Argument:
  case Kind::Tensor:
    if (!key) {
      if (value.is(Kind::Argument)) operands.push_back(emit(value));
      return;
    }
    *key += "i" + std::to_string(value.input) + ";";
    return;
  default:
    if (key) *key += "(" + std::to_string(int(value.kind)) + "," + std::to_string(value.aggregate->items.size()) + ":";
    for (const nb::object &name : value.aggregate->names) note('k', name.ptr());
    if (value.aggregate->structType) note('t', value.aggregate->structType.ptr());
    if (value.is(Kind::Method)) note('m', value.object.ptr());
    for (const Value &item : value.aggregate->items) flatten(item, operands, key, byReference);
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
      place.isElement = shape.isElement || (shape.isShared && caller && caller->isInsideParallel);
      place.isReadOnly = shape.isReadOnly;
      return place;
    }
    [[fallthrough]];
  case Kind::Computed:
  case Kind::Components: return makeComputed(next());
  default: {
    Value result = shape;
    result.aggregate = std::make_shared<Aggregate>(*shape.aggregate);
    for (Value &item : result.aggregate->items) item = rebuild(item, next, byReference);
    return result;
  }
  }
}

bool FunctionBuilder::mayHoldTasks(nb::handle statements) {
  for (nb::handle statement : statements) {
    switch (kindOf(statement)) {
    case NodeKind::For: {
      // An unrolled loop is no task; its body may hold some.
      nb::object iterable = getAttribute(statement, names().iter);
      nb::object callee = kindOf(iterable) == NodeKind::Call ? resolveCallee(getAttribute(iterable, names().func)) : nb::object();
      nb::object builtin = callee ? findAttribute(callee, names()._qd_builtin) : nb::object();
      bool isStatic = builtin && PyUnicode_Check(builtin.ptr()) && toText(builtin) == "static";
      if (!isStatic || mayHoldTasks(getAttribute(statement, names().body))) return true;
      break;
    }
    case NodeKind::If:
      if (mayHoldTasks(getAttribute(statement, names().body)) || mayHoldTasks(getAttribute(statement, names().orelse))) return true;
      break;
    case NodeKind::Expr:
    case NodeKind::Assign: {
      nb::object value = getAttribute(statement, names().value);
      if (kindOf(value) != NodeKind::Call) break;
      nb::object callee = getAttribute(value, names().func);
      if (kindOf(statement) == NodeKind::Expr && kindOf(callee) == NodeKind::Attribute && !resolveCallee(callee)) return true;
      nb::object found = resolveCallee(callee);
      if (found && session.python.isInstance(found, session.python.func)) return true;
      break;
    }
    default: break;
    }
  }
  return false;
}

bool FunctionBuilder::returnsEarly(nb::handle statements, bool isNested) {
  for (nb::handle statement : statements) {
    NodeKind kind = kindOf(statement);
    if (kind == NodeKind::Return && isNested) return true;
    bool isBlock = kind == NodeKind::If || kind == NodeKind::For || kind == NodeKind::While;
    // A compile-time `if` is told by its call of qd.static.
    bool isStatic = kind == NodeKind::If && kindOf(getAttribute(statement, names().test)) == NodeKind::Call;
    if (isBlock && (returnsEarly(getAttribute(statement, names().body), isNested || !isStatic) ||
                    returnsEarly(getAttribute(statement, names().orelse), isNested || !isStatic)))
      return true;
  }
  return false;
}

Value FunctionBuilder::callFunc(const Value &func, const Value *self, Arguments &arguments) {
  std::vector<Value> values = bindArguments(func.object, self, arguments);
  nb::object python = getAttribute(func.object, names().function);
  nb::object functionSource = nb::module_::import_("quadrants._source").attr("get_source")(python);
  // The func's own function, known under the path of the func: globals are those of the function.
  Value callee = makeObject(python, func.path);
  if (!func.path) callee.path = session.reader.getFunctionRoot(python, nullptr);
  if (!callee.path) session.reader.refuseCache();
  if (++session.callDepth > 200)
    fail(error::kCompilation,
         "recursive calls of '" + readText(func.object, names().name) + "' do not end within 200 levels; see qd.real_func");
  nb::object statements = getAttribute(getAttribute(functionSource, names().tree), names().body);
  Value result;
  if (isTopLevel() && !isInsideParallel && loops.empty()) {
    FunctionBuilder probe(session, functionSource, callee, this);
    bool isReal = nb::cast<bool>(getAttribute(func.object, names().is_real_function));
    if (!isReal && probe.mayHoldTasks(statements) && !probe.returnsEarly(statements, false))
      result = inlineCall(callee, values, functionSource);
    else
      result = callInstance(func, values, functionSource);
  } else {
    result = callInstance(func, values, functionSource);
  }
  --session.callDepth;
  return result;
}

Value FunctionBuilder::inlineCall(const Value &callee, const std::vector<Value> &values, nb::object functionSource) {
  FunctionBuilder inner(session, functionSource, callee, this);
  inner.body = body;
  inner.isInlined = true;
  inner.isKernelLevel = true;
  inner.resultTypes = nb::none();
  inner.builder.restoreInsertionPoint(builder.saveInsertionPoint());
  inner.scopes.push();
  inner.bindParameters(values);
  inner.scopes.push();
  inner.visitBody(getAttribute(inner.tree, names().body));
  return inner.hasInlinedResult ? inner.inlinedResult : makeObject(nb::none());
}

void FunctionBuilder::bindParameters(const std::vector<Value> &values) {
  std::function<bool(const Value &)> isByReference = [&](const Value &value) {
    if (value.is(Kind::Struct)) return llvm::all_of(value.aggregate->items, isByReference);
    return value.is(Kind::Place) || value.is(Kind::Argument);
  };
  nb::object parameters = getAttribute(getAttribute(tree, names().args), names().args);
  size_t index = 0;
  for (nb::handle parameter : parameters) {
    nb::object name = getAttribute(parameter, names().arg);
    Value value = values[index++];
    Binding binding;
    bool isAssigned = uses->lookup(name.ptr()) != 0;
    if (value.is(Kind::Argument) && isAssigned && !value.isReadOnly) value = load(value);
    if ((value.is(Kind::Computed) && isAssigned) || (value.is(Kind::Struct) && !isByReference(value))) value = declare(value, false);
    if (!value.isTyped() && !value.is(Kind::Struct)) binding.kind = Binding::Kind::Static;
    binding.value = value;
    scopes.bind(name.ptr(), std::move(binding));
  }
}

Value FunctionBuilder::callInstance(const Value &func, const std::vector<Value> &values, nb::object functionSource) {
  SmallVector<mlir::Value> operands;
  std::string key = std::to_string(reinterpret_cast<uintptr_t>(func.object.ptr())) + ":";
  session.kept.push_back(func.object);
  for (const Value &value : values) flatten(value, operands, &key, true);
  auto [found, isNew] = session.instances.try_emplace(key);
  Instance &instance = found->second;
  std::string name = readText(func.object, names().name);
  if (isNew) {
    OpBuilder atModule = OpBuilder::atBlockEnd(session.module->getBody());
    std::string plain = name.substr(name.rfind('.') + 1);
    unsigned count = session.symbolCounts[plain]++;
    std::string symbol = count == 0 ? plain : plain + "." + std::to_string(count); // no name in Python ends like this
    auto types = llvm::map_to_vector(operands, [](mlir::Value operand) { return operand.getType(); });
    instance.op =
        ir::FuncOp::create(atModule, loc(), symbol, FunctionType::get(&session.ctx, types, {}), StringAttr(), ArrayAttr(), ArrayAttr());
    Value callee = makeObject(getAttribute(func.object, names().function),
                              func.path ? func.path : session.reader.getFunctionRoot(getAttribute(func.object, names().function), nullptr));
    FunctionBuilder inner(session, functionSource, callee, this);
    inner.resultTypes = getAttribute(func.object, names().results);
    if (nb::cast<bool>(getAttribute(func.object, names().is_real_function))) {
      // The annotation says what it returns, so that it may call itself.
      std::vector<Value> shapes;
      SmallVector<Type> results;
      if (!inner.resultTypes.is_none())
        for (nb::handle annotation : inner.resultTypes) shapes.push_back(inner.shapeOf(annotation, results));
      instance.result = shapes.empty() ? makeObject(nb::none()) : shapes.size() == 1 ? shapes[0] : makeTuple(shapes);
      instance.op.setFunctionType(FunctionType::get(&session.ctx, types, results));
      instance.isInProgress = false;
    }
    Value result = inner.buildFunction(instance.op, values);
    instance.result = result;
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
  return rebuild(instance.result, [&] { return call.getResult(position++); }, false);
}

Value FunctionBuilder::shapeOf(nb::handle annotation, SmallVectorImpl<Type> &types) {
  Value shape;
  if (session.python.isInstance(annotation, session.python.structType)) {
    shape = makeAggregate(Kind::Struct, {});
    shape.aggregate->structType = nb::borrow(annotation);
    for (auto [name, element] : nb::borrow<nb::dict>(getAttribute(annotation, names().members))) {
      shape.aggregate->names.push_back(nb::borrow(name));
      shape.aggregate->items.push_back(shapeOf(element, types));
    }
    return shape;
  }
  shape.kind = Kind::Computed;
  shape.type = session.findValueType(annotation);
  types.push_back(shape.type);
  return shape;
}

Value FunctionBuilder::buildFunction(ir::FuncOp op, const std::vector<Value> &values) {
  body = std::make_shared<Body>();
  body->entry = op.addEntryBlock();
  builder.setInsertionPointToStart(body->entry);
  scopes.push();
  unsigned position = 0;
  std::vector<Value> parameters;
  for (const Value &value : values) parameters.push_back(rebuild(value, [&] { return body->entry->getArgument(position++); }, true));
  bindParameters(parameters);
  scopes.push();
  visitBody(getAttribute(tree, names().body));
  return unifyReturns(op);
}

Value FunctionBuilder::returnedValue(nb::handle at) {
  nb::object expression = getAttribute(at, names().value);
  Value value = expression.is_none() ? makeObject(nb::none()) : visit(expression);
  if (isInKernel()) return value;
  if (!resultTypes || resultTypes.is_none()) {
    // One return hands out compile-time values as they are; of several, the one that runs is known at run time.
    bool isNumber = value.isObject() && session.python.isNumber(value.object);
    return isNumber && uses->lookup(tree.ptr()) > 1 ? makeComputed(emit(value)) : value;
  }
  // A real func says what it returns.
  std::vector<nb::object> annotations;
  for (nb::handle annotation : resultTypes) annotations.push_back(nb::borrow(annotation));
  std::vector<Value> given = annotations.size() == 1 ? std::vector<Value>{value} : listItems(value, "unpack");
  if (given.size() != annotations.size())
    fail(error::kSyntax, std::to_string(annotations.size()) + " values are annotated as returned, got " + std::to_string(given.size()));
  std::vector<Value> converted;
  for (size_t index = 0; index < given.size(); ++index) {
    Type type = session.findValueType(annotations[index]);
    converted.push_back(type ? makeComputed(convert(given[index], type)) : convertMember(annotations[index], given[index]));
  }
  return converted.size() == 1 ? converted[0] : makeTuple(std::move(converted));
}

Value FunctionBuilder::unifyReturns(ir::FuncOp op) {
  At here(*this, tree);
  SmallVector<Type> types;
  Value shape = makeObject(nb::none());
  for (auto &[at, value] : returns) {
    if (at == returns.front().first) {
      shape = value;
      for (mlir::Value operand : at.getValues()) types.push_back(operand.getType());
      continue;
    }
    if (at.getValues().size() != types.size() || value.kind != shape.kind)
      fail(error::kReturnType, "the returns of '" + functionName + "' give values of different shapes");
    for (auto [type, operand] : llvm::zip(types, at.getValues())) {
      auto first = dyn_cast<VectorType>(type), other = dyn_cast<VectorType>(operand.getType());
      if ((first != nullptr) != (other != nullptr) || (first && first.getShape() != other.getShape()))
        fail(error::kReturnType,
             "the returns of '" + functionName + "' give '" + ir::describe(type) + "' and '" + ir::describe(operand.getType()) + "'");
      type = ir::withScalar(type, promote(type, operand.getType()));
    }
    if (value.isObject() && !value.object.is(shape.object))
      fail(error::kReturnType, "the returns of '" + functionName + "' give different compile-time objects");
  }
  for (auto &[at, value] : returns) {
    builder.setInsertionPoint(at);
    SmallVector<mlir::Value> operands;
    for (auto [type, operand] : llvm::zip(types, at.getValues())) operands.push_back(convert(operand, type));
    at.getValuesMutable().assign(operands);
  }
  if (!types.empty() && !terminated) fail(error::kReturnType, "'" + functionName + "' does not return a value on every path");
  builder.setInsertionPointToEnd(body->entry);
  if (body->entry->empty() || !body->entry->back().hasTrait<OpTrait::IsTerminator>()) {
    // Reached by no path when values are returned: every path has left before.
    SmallVector<mlir::Value> zeros;
    for (Type type : types) zeros.push_back(convert(constant(0, session.types.i32), type));
    create<ir::ReturnOp>(zeros);
  }
  op.setFunctionType(FunctionType::get(&session.ctx, op.getFunctionType().getInputs(), types));
  return shape;
}

} // namespace qd::frontend
