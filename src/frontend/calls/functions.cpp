// functions.cpp: calls of funcs: binding of arguments, instances, inlining at the top level
//
// In:   a func and the values of its arguments.
// Out:  the returned value, and a qd.call of an instance or the inlined body.
// Here: a func is emitted once per combination of the IR types of its by-value arguments and of its compile-time arguments; further calls
//       with the same combination reuse the instance. Containers and launch arguments are no parameters: the func reads them by offset.
#include "frontend/builder.h"

using namespace mlir;

namespace qd::frontend {

std::vector<Operand> Functions::bindArguments(const PythonObject &func, const Operand *self, Arguments &arguments) {
  std::vector<Operand> given;
  auto standIn = [&](const Operand &value) {
    bool isNumber = session.python.isNumber(value.getObject());
    given.push_back(value);
    return session.python.language.standIn(given.size() - 1,
                                           isNumber ? nb::repr(value.getObject()) : nb::str(conversions.describe(value).c_str()));
  };
  nb::list positional;
  nb::dict named;
  if (self) positional.append(standIn(*self));
  for (const Operand &value : arguments.positional) positional.append(standIn(value));
  for (const auto &[name, value] : arguments.named) {
    if (named.contains(name.c_str())) fail(error::kSyntax, "Multiple values for argument '" + name + "'.");
    named[name.c_str()] = standIn(value);
  }
  nb::object parameters = getAttribute(func.object, names().parameters);
  // A function without decorator has no attribute `parameters` at its path.
  nb::object python = getAttribute(func.object, names().function);
  bool isDecorated =
      !session.functions.plainFunctions.contains({python.ptr(), false}) && !session.functions.plainFunctions.contains({python.ptr(), true});
  // Numbers stay known in constructors, and in a lambda that qd.static evaluates.
  std::string called = readText(func.object, names().name);
  bool keepsNumbers = llvm::StringRef(called).ends_with(".__init__") || llvm::StringRef(called).ends_with(".__post_init__") ||
                      (nesting.staticDepth > 0 && called == "<lambda>");
  const PathNode *path = isDecorated ? session.tracker.getStep(func.path, PathStep::Kind::Attribute, "parameters") : nullptr;
  nb::object bound = session.python.language.bind(parameters, nb::tuple(positional), named);
  std::vector<Operand> values;
  for (nb::handle parameter : parameters) {
    nb::object item = bound[values.size()], annotation = getAttribute(parameter, names().annotation);
    const PathNode *parameterPath = session.tracker.getStep(path, PathStep::Kind::Item, "", int64_t(values.size()));
    if (session.python.isStructType(annotation))
      session.tracker.recordType(annotation, session.tracker.getStep(parameterPath, PathStep::Kind::Attribute, "annotation"));
    bool isGiven = session.python.isInstance(item, session.python.language.standIn);
    // A default value is part of its func. A default that is a func has its parameterPath globals, so it needs a path.
    const PathNode *place = session.python.isInstance(item, session.python.functions.func)
                                ? session.tracker.getStep(parameterPath, PathStep::Kind::Attribute, "default")
                                : nullptr;
    const Operand value = isGiven ? given[nb::cast<size_t>(getAttribute(item, names().index))] : conversions.fromPython(item, place);
    auto pass = [&](const Operand &value) {
      bool staysKnown =
          (keepsNumbers || emitter.isLarge(value)) && value.isObject() && getAttribute(parameter, names().annotation).is_none();
      return staysKnown ? value : passArgument(parameter, value);
    };
    auto passGiven = [&](nb::handle item) { return pass(given[nb::cast<size_t>(getAttribute(item, names().index))]); };
    if (nb::cast<int>(getAttribute(parameter, names().stars)) == 1) {
      values.push_back(makeTuple(listOperands(item, passGiven)));
      continue;
    }
    if (nb::cast<int>(getAttribute(parameter, names().stars)) == 2) {
      Dictionary rest;
      for (auto [name, value] : nb::borrow<nb::dict>(item)) {
        rest.names.push_back(nb::borrow(name));
        rest.items.push_back(passGiven(value));
      }
      session.functions.keptAlive.insert(session.functions.keptAlive.end(), rest.names.begin(), rest.names.end());
      values.push_back(rest);
      continue;
    }
    values.push_back(pass(value));
  }
  return values;
}

Operand Functions::passArgument(nb::handle parameter, const Operand &value) {
  std::string kind = readText(parameter, names().kind), name = readText(parameter, names().name);
  nb::object annotation = getAttribute(parameter, names().annotation);
  auto reject = [&](const llvm::Twine &expected) {
    fail(error::kType,
         "Argument " + name + " of type " + conversions.describe(value) + " is not recognized. (" + expected + " is expected)");
  };
  if (kind == "scalar") {
    Type given = conversions.findType(value);
    if (!given || isa<VectorType>(given)) reject("a scalar");
    return conversions.rounded(makeComputed(conversions.convert(value, session.findScalarType(annotation))));
  }
  if (kind == "matrix") {
    mlir::Value given = conversions.canEmit(value) || value.is<Sequence>() ? conversions.emit(value) : mlir::Value();
    auto type = given ? dyn_cast<VectorType>(given.getType()) : VectorType();
    if (!type) fail(error::kArgumentType, "Argument " + name + " is expected to be a Matrix, but got " + conversions.describe(value));
    auto check = [&](const char *what, const nb::object &wanted, int64_t got) {
      if (!wanted.is_none() && nb::cast<int64_t>(wanted) != got)
        fail(error::kArgumentType, "Argument " + name + " is expected to be a Matrix with " + what + " " + toText(nb::str(wanted)) +
                                       ", but got " + std::to_string(got));
    };
    check("ndim", getAttribute(annotation, names().ndim), type.getRank());
    check("n", getAttribute(annotation, names().n), type.getDimSize(0));
    if (type.getRank() == 2) check("m", getAttribute(annotation, names().m), type.getDimSize(1));
    nb::object dtype = getAttribute(annotation, names().dtype);
    return conversions.rounded(makeComputed(dtype.is_none() ? given : emitter.cast(given, session.findScalarType(dtype))));
  }
  if (kind == "struct") return conversions.copy(structs().convertMember(annotation, value));
  if (kind == "ref") {
    Type type = session.findScalarType(getAttribute(annotation, names().dtype));
    if (!value.is<Place>() || value.getType() != type || value.isReadOnly()) reject("a variable of type '" + ir::describe(type) + "'");
  }
  if (kind == "array" || kind == "view") {
    auto *view = value.find<View>();
    if (!view && !conversions.isTensor(value)) reject("an array");
    ir::TensorType type = view ? view->getContainer().type : conversions.toTensor(value).type;
    int64_t rank = view ? int64_t(Views::listRanges(*view).size()) : type.getRank();
    nb::object ndim = getAttribute(annotation, names().ndim), dtype = getAttribute(annotation, names().dtype);
    Type wanted = dtype.is_none() ? Type() : session.findValueType(dtype);
    if ((!ndim.is_none() && nb::cast<int64_t>(ndim) != rank) ||
        (wanted && wanted != type.getElement() && wanted != ir::getScalar(type.getElement())))
      fail(error::kType, "Argument " + name + " of type " + conversions.describe(value) + " with element '" +
                             ir::describe(type.getElement()) + "' and " + std::to_string(rank) + " axes is not recognized. " +
                             toText(nb::repr(annotation)) + " is expected");
    return signature().withBoundary(value, annotation);
  }
  if (kind != "value") return value;
  // An argument by value: numbers become typed, variables are loaded.
  return session.python.isNumber(value.getObject()) ? makeComputed(conversions.emit(value)) : conversions.copy(value);
}

void Functions::flatten(const Operand &value, SmallVectorImpl<mlir::Value> &operands, std::string *key) {
  auto addToKey = [&](char mark, const void *address) {
    if (key) *key += mark + std::to_string(reinterpret_cast<uintptr_t>(address)) + ";";
  };
  auto addValue = [&](mlir::Type type) {
    addToKey('v', type.getAsOpaquePointer());
    operands.push_back(conversions.emit(value));
  };
  value.visit(
      [&](const PythonObject &known) {
        if (!key) return;
        if (known.isClamped) *key += "b";
        if (session.python.isNumber(known.object) || PyUnicode_Check(known.object.ptr())) {
          std::string text = toText(nb::repr(known.object)).str();
          *key += "n" + std::string(Py_TYPE(known.object.ptr())->tp_name) + std::to_string(text.size()) + ":" + text;
          return;
        }
        session.functions.keptAlive.push_back(known.object);
        addToKey('o', known.object.ptr());
        addToKey(known.members == PythonObject::Members::ReadAtLaunch ? 'l' : known.hasRuntimeMembers ? 'P' : 'p', known.path);
      },
      [&](const Tensor &tensor) {
        if (key) *key += (tensor.isClamped ? "bi" : "i") + std::to_string(tensor.input) + ";";
      },
      [&](const Argument &argument) {
        if (key)
          *key += "i" + std::to_string(argument.input) + ";";
        else
          operands.push_back(conversions.emit(value));
      },
      [&](const Place &place) {
        // With `key`, places are passed by reference, so that the callee can assign them.
        if (!key) return addValue(place.getType());
        if (place.isClamped) *key += "b";
        if (place.packed) {
          if (place.packed->offset) fail(error::kType, "an element of a quant_array is passed by value: assign it to a variable first");
          addToKey('q', place.packed->part.ptr());
        }
        char mark = context.isOuterVariable(place) ? 's' : place.isElement ? 'a' : place.isReadOnly ? 'c' : 'r';
        addToKey(mark, place.getType().getAsOpaquePointer());
        operands.push_back(place.ref);
      },
      [&](const Computed &computed) { addValue(computed.type); }, [&](const Components &components) { addValue(components.type); },
      [&](const auto &aggregate) {
        if (key) *key += "(" + std::to_string(value.kindNumber()) + "," + std::to_string(aggregate.items.size()) + ":";
        if constexpr (requires { aggregate.names; })
          for (const nb::object &name : aggregate.names) addToKey('k', name.ptr());
        if constexpr (requires { aggregate.type; })
          if (aggregate.type) addToKey('t', aggregate.type.ptr());
        if constexpr (requires { aggregate.callee; }) addToKey('m', aggregate.callee.ptr());
        // An object may contain itself.
        if (++session.depth.flattened > 64)
          fail(error::kCompilation, "objects are nested too deeply, or in a circle, to be passed to this function");
        for (const Operand &item : aggregate.items) flatten(item, operands, key);
        --session.depth.flattened;
      });
}

Operand Functions::rebuild(const Operand &shape, llvm::function_ref<mlir::Value()> next, bool byReference) {
  if (shape.isObject() || shape.is<Tensor>() || (byReference && shape.is<Argument>())) return shape;
  if (auto *given = shape.find<Place>(); given && byReference) {
    Place place = *given;
    place.ref = next();
    place.isKernelVariable = context.caller && context.caller->isOuterVariable(*given);
    place.isElement = given->isElement || place.isKernelVariable;
    place.sparse = nullptr; // the caller has activated it
    return place;
  }
  if (shape.isTyped()) return makeComputed(next());
  Operand result = mapItems(shape, [&](const Operand &item) { return rebuild(item, next, byReference); });
  // The caller owns lists and dicts that are returned, because they are copies. The callee cannot add members to the caller's object.
  if (auto *collection = result.findBase<Collection>(); collection && (!byReference || result.is<Instance>()))
    collection->ownerBlock = nullptr;
  if (auto *range = result.find<AxisRange>()) range->check = nullptr;
  result.isStatic = shape.isStatic;
  return result;
}

static bool isListOrDict(const Operand &value) {
  auto *sequence = value.find<Sequence>();
  return sequence ? !sequence->isTuple : value.is<Dictionary>();
}

Operand Functions::callFunc(const PythonObject &func, const Operand *self, Arguments &arguments) {
  std::vector<Operand> values = bindArguments(func, self, arguments);
  nb::object python = getAttribute(func.object, names().function);
  // The Python function of the func, under the func's path, for its globals.
  nb::object source = getAttribute(func.object, names().source);
  Callee callee{func.object, {python, func.path}, source.is_none() ? session.python.language.getSource(python) : source};
  // Functions of the package need no path: the build is part of every cache key.
  if (!session.tracker.getFunctionRoot(python, func.path) && !session.python.isOfPackage(func.object)) session.tracker.refuseCache();
  if (++session.depth.calls > 200)
    fail(error::kCompilation,
         "recursive calls of '" + readText(func.object, names().name) + "' do not end within 200 levels; see qd.real_func");
  if (nb::cast<bool>(getAttribute(func.object, names().requires_top_level)) && !context.isTopLevel())
    fail(error::kSyntax,
         "`" + readText(func.object, names().__name__) + "` is decorated with requires_top_level=True and must be called at the top level");
  bool isReal = nb::cast<bool>(getAttribute(func.object, names().is_real_function));
  bool hasTasks =
      context.isTopLevel() && !isReal && FunctionBuilder(session, callee.source, callee.function, &context).syntax.containsTasks();
  if (session.python.isOfPackage(func.object) && readText(func.object, names().name) == "deactivate") ++session.cells.deactivations;
  // A callee that receives objects is inlined if possible, so that it can add members to them; with a list or dict, so that it can change
  // or return it; with elements of sparse fields, so that those it writes become active.
  auto isShared = [](const Operand &value) { return Instances::holdsInstance(value) || SparseCells::holdsElement(value); };
  auto isInlinable = [&] {
    const bool holdsShared = llvm::any_of(values, isShared);
    if (!holdsShared && (llvm::none_of(values, isListOrDict) || session.python.isOfPackage(python))) return false;
    FunctionBuilder called(session, callee.source, callee.function, &context);
    return (holdsShared || called.functions.sharesCollections(values)) && called.syntax.returnsAtEnd();
  };
  bool isInlined = hasTasks || (!isReal && isInlinable());
  Operand result = isInlined ? inlineCall(callee, values, hasTasks) : callInstance(callee, values);
  --session.depth.calls;
  return result;
}

bool Functions::isSuperCall(nb::handle at) {
  if (kindOf(at) != NodeKind::Call || nb::len(getAttribute(at, names().args)) != 0) return false;
  nb::object callee = syntax().resolveCallee(getAttribute(at, names().func));
  return callee && callee.ptr() == reinterpret_cast<PyObject *>(&PySuper_Type);
}

Operand Functions::superAttribute(nb::handle name) {
  std::vector<nb::object> parameters = listParameterNames();
  Binding *self = parameters.empty() ? nullptr : scopes.find(parameters[0].ptr());
  auto *instance = self ? self->value.find<Instance>() : nullptr;
  auto *object = self ? self->value.find<PythonObject>() : nullptr;
  if (!instance && !object) fail(error::kSyntax, "super() stands in methods of classes only");
  Operand owner = expressions().lookUpGlobal(names().__class__);
  nb::handle ownClass = instance ? instance->type : nb::handle(reinterpret_cast<PyObject *>(Py_TYPE(object->object.ptr())));
  const PathNode *type = instance ? instance->path : session.tracker.getStep(object->path, PathStep::Kind::Attribute, "__class__");
  const PathNode *classes = session.tracker.getStep(type, PathStep::Kind::Attribute, "__mro__");
  bool isPast = false;
  int64_t position = 0;
  for (nb::handle candidate : getAttribute(ownClass, names().__mro__)) {
    const PathNode *path = session.tracker.getStep(classes, PathStep::Kind::Item, "", position++);
    nb::object members = getAttribute(candidate, names().__dict__);
    if (isPast && nb::cast<bool>(members.attr("__contains__")(name))) {
      nb::object found = members[name];
      bool isMethod =
          session.python.isInstance(found, session.python.functions.func) || session.python.isInstance(found, session.python.host.function);
      const PathNode *place = session.tracker.getStep(path, PathStep::Kind::Attribute, toText(name));
      session.tracker.read(place, found);
      return isMethod ? makeMethod(self->value, found, place) : makeObject(found, place);
    }
    isPast |= candidate.is(owner.getObject());
  }
  fail(error::kAttribute, "'super' object has no attribute '" + toText(name) + "'");
}

Operand Functions::makeLocalFunc(nb::handle at) {
  Method result;
  nb::list captured;
  for (nb::handle name : session.python.functions.freeNames(at)) {
    Binding *binding = scopes.find(name.ptr());
    if (!binding || binding->kind == Binding::Kind::Partial) continue;
    result.names.push_back(nb::borrow(name));
    result.items.push_back(binding->kind == Binding::Kind::Merged ? variables().merge(*binding, name.ptr()) : binding->value);
    captured.append(name);
  }
  // Defaults are evaluated where the function is defined. The name of each is `=` and that of its parameter.
  nb::object arguments = getAttribute(at, names().args);
  auto addDefaults = [&](const nb::list &parameters, const nb::list &defaults) {
    for (size_t index = 0, first = nb::len(parameters) - nb::len(defaults); index < nb::len(defaults); ++index) {
      if (nb::object(defaults[index]).is_none()) continue;
      nb::object name = nb::str("=") + nb::object(getAttribute(nb::object(parameters[first + index]), names().arg));
      result.names.push_back(name);
      result.items.push_back(collections().copyElement(expressions().visit(nb::object(defaults[index]))));
    }
  };
  addDefaults(nb::list(arguments.attr("posonlyargs") + arguments.attr("args")), nb::list(arguments.attr("defaults")));
  addDefaults(nb::list(arguments.attr("kwonlyargs")), nb::list(arguments.attr("kw_defaults")));
  session.functions.keptAlive.insert(session.functions.keptAlive.end(), result.names.begin(), result.names.end());
  result.callee = session.python.functions.localFunc(context.source.object, at, captured);
  result.path = context.source.function.path;
  return result;
}

void Functions::emitBody(const std::vector<Operand> &values) {
  scopes.push();
  bindParameters(values);
  scopes.push();
  statements().visitBody(getAttribute(context.source.tree, names().body));
}

Operand Functions::inlineCall(const Callee &callee, const std::vector<Operand> &values, bool hasTasks) {
  FunctionBuilder inlined(session, callee.source, callee.function, &context);
  FunctionContext &inner = inlined.context;
  inner.body = context.body;
  inner.role.isInlined = true;
  inner.role.isKernelLevel = hasTasks;
  inner.role.isPartOfKernel = context.role.isKernelLevel || context.role.isPartOfKernel;
  inner.nesting.isInsideParallel = nesting.isInsideParallel;
  inner.stopped = context.stopped;
  inner.results.types = getAttribute(callee.func, names().results);
  inner.builder.restoreInsertionPoint(builder.saveInsertionPoint());
  inlined.functions.emitBody(values);
  return inner.results.inlined;
}

std::vector<nb::object> Functions::listParameterNames() {
  std::vector<nb::object> found;
  nb::object parameters = getAttribute(context.source.tree, names().args);
  for (nb::handle parameter : session.python.functions.allArguments(parameters)) found.push_back(getAttribute(parameter, names().arg));
  return found;
}

/// Whether a parameter that gets a list or dict is assigned to, passed on or kept, or its method is called.
bool Functions::sharesCollections(const std::vector<Operand> &values) {
  syntax().collectAssignments();
  for (auto [name, value] : llvm::zip_equal(listParameterNames(), values))
    if (isListOrDict(value) && (context.assignmentCounts->lookup(name.ptr()).count != 0 || syntax().isKept(name))) return true;
  return false;
}

void Functions::bindParameters(const std::vector<Operand> &values) {
  std::function<bool(const Operand &)> isByReference = [&](const Operand &value) {
    if (auto *structure = value.find<Struct>()) return llvm::all_of(structure->items, isByReference);
    return value.is<Place>() || value.is<Argument>();
  };
  bool isConstructor =
      context.source.name == "__init__" || context.source.name == "__post_init__"; // known numbers stay known unless they are assigned
  for (auto [name, given] : llvm::zip_equal(listParameterNames(), values)) {
    Operand value = given;
    Binding binding;
    bool isAssigned = context.assignmentCounts->lookup(name.ptr()).count != 0;
    if ((value.is<Computed>() && isAssigned) || (value.is<Struct>() && !isByReference(value))) value = variables().declare(value, false);
    if (isConstructor && isAssigned && session.python.isNumber(value.getObject())) value = variables().declare(value, false);
    if (!value.isTyped() && !value.is<Struct>()) binding.kind = Binding::Kind::Static;
    collections().materialize(value, context.assignmentCounts->lookup(name.ptr()));
    binding.value = value;
    scopes.bind(name.ptr(), std::move(binding));
  }
}

Operand Functions::callInstance(const Callee &callee, const std::vector<Operand> &values) {
  for (const Operand &value : values) sparseCells().activateAll(value);
  SmallVector<mlir::Value> operands;
  std::string key = std::to_string(reinterpret_cast<uintptr_t>(callee.func.ptr())) + ":";
  session.functions.keptAlive.push_back(callee.func);
  for (const Operand &value : values) flatten(value, operands, &key);
  auto [found, isNew] = session.functions.instances.try_emplace(key);
  FunctionInstance &instance = found->second;
  std::string name = readText(callee.func, names().name);
  if (isNew) {
    OpBuilder atModule = OpBuilder::atBlockEnd(session.module->getBody());
    std::string plain = name.substr(name.rfind('.') + 1);
    unsigned count = session.functions.symbolCounts[plain]++;
    std::string symbol = count == 0 ? plain : plain + "." + std::to_string(count); // no Python name has this form
    auto types = llvm::map_to_vector(operands, [](mlir::Value operand) { return operand.getType(); });
    instance.op =
        ir::FuncOp::create(atModule, loc(), symbol, FunctionType::get(&session.ctx, types, {}), StringAttr(), ArrayAttr(), ArrayAttr());
    FunctionBuilder inner(session, callee.source, callee.function, &context);
    const nb::object annotations = inner.context.results.types = getAttribute(callee.func, names().results);
    inner.context.role.isReal = nb::cast<bool>(getAttribute(callee.func, names().is_real_function));
    if (inner.context.role.isReal) {
      // The annotation declares the result types before the body is compiled, so that the function can call itself.
      std::vector<Operand> shapes;
      std::vector<Type> results = inner.signature.listResultTypes();
      if (!annotations.is_none())
        for (nb::handle annotation : annotations) shapes.push_back(shapeOf(annotation));
      instance.result = shapes.empty() ? makeObject(nb::none()) : shapes.size() == 1 ? shapes[0] : makeTuple(shapes);
      instance.op.setFunctionType(FunctionType::get(&session.ctx, types, results));
      instance.isInProgress = false;
    }
    const unsigned deactivations = session.cells.deactivations;
    try {
      instance.result = inner.functions.buildFunction(instance.op, values);
      instance.deactivates = session.cells.deactivations != deactivations;
    } catch (const CompileError &) {
      session.functions.instances.erase(key); // so that the next call reports the same mistake and no recursion
      throw;
    }
    instance.isInProgress = false;
  } else if (instance.isInProgress) {
    std::string chain = name;
    for (FunctionContext *at = &context; at->caller; at = at->caller) {
      chain = at->source.name + " -> " + chain;
      if (at->source.name == context.source.name && at != &context) break;
    }
    fail(error::kCompilation,
         "'" + name + "' is recursive: " + chain + "; a func is compiled into its caller, so it cannot call itself at run time");
  }
  session.cells.deactivations += instance.deactivates;
  auto call = create<ir::CallOp>(instance.op.getFunctionType().getResults(), instance.op.getSymName(), operands);
  unsigned position = 0;
  Operand result = rebuild(instance.result, [&] { return call.getResult(position++); }, false);
  instances().materializeInstances(result);
  return result;
}

Operand Functions::shapeOf(nb::handle annotation) {
  if (session.python.isStructType(annotation))
    return structs().makeStructOf(annotation, [&](nb::handle, nb::handle type) { return shapeOf(type); });
  return Computed{{}, session.findValueType(annotation)};
}

Operand Functions::buildFunction(ir::FuncOp op, const std::vector<Operand> &values) {
  context.body = std::make_shared<Body>();
  context.body->entry = op.addEntryBlock();
  builder.setInsertionPointToStart(context.body->entry);
  unsigned position = 0;
  std::vector<Operand> parameters;
  for (const Operand &value : values)
    parameters.push_back(rebuild(value, [&] { return context.body->entry->getArgument(position++); }, true));
  emitBody(parameters);
  return unifyReturns(op);
}

/// Whether two returned values have the same structure and compile-time parts.
static bool isSameShape(const Operand &first, const Operand &second) {
  if (first.isTyped() || second.isTyped()) return first.isTyped() && second.isTyped();
  if (!first.isSameKind(second)) return false;
  if (auto *tensor = first.find<Tensor>()) return tensor->object.is(second.get<Tensor>().object);
  if (const nb::object &object = first.getObject())
    return object.is(second.getObject()) || (PyUnicode_Check(object.ptr()) && object.equal(second.getObject()));
  if (first.is<Instance>() && !first.get<Instance>().type.is(second.get<Instance>().type)) return false;
  auto sameItems = [](const auto &pair) { return isSameShape(std::get<0>(pair), std::get<1>(pair)); };
  auto sameNames = [](const auto &pair) { return std::get<0>(pair).equal(std::get<1>(pair)); };
  auto *names = first.findBase<NamedAggregate>(), *otherNames = second.findBase<NamedAggregate>();
  if (names && (names->names.size() != otherNames->names.size() || !llvm::all_of(llvm::zip(names->names, otherNames->names), sameNames)))
    return false;
  auto *one = first.findBase<Aggregate>(), *other = second.findBase<Aggregate>();
  return one->items.size() == other->items.size() && llvm::all_of(llvm::zip(one->items, other->items), sameItems);
}

/// Whether the block ends with a return, with branches that do, or with a loop whose rounds do.
static bool endsWithReturn(Block &block) {
  Operation *last = block.empty() ? nullptr : &block.back();
  if (isa_and_present<ir::YieldOp>(last)) last = last->getPrevNode();
  if (!isa_and_present<ir::IfOp, ir::ForOp, ir::WhileOp>(last)) return isa_and_present<ir::ReturnOp>(last);
  auto endsRegion = [](Region &region) { return !region.empty() && endsWithReturn(region.front()); };
  if (isa<ir::IfOp>(last)) return llvm::all_of(last->getRegions(), endsRegion);
  auto stops = [](Operation *op) { return isa<ir::BreakOp, ir::ContinueOp>(op) ? WalkResult::interrupt() : WalkResult::advance(); };
  return endsRegion(last->getRegions().back()) && !last->walk(stops).wasInterrupted();
}

Operand Functions::unifyReturns(ir::FuncOp op) {
  At here(context, context.source.tree);
  auto reject = [&](const llvm::Twine &why) { fail(error::kReturnType, "the returns of '" + context.source.name + "' give " + why); };
  if (!context.results.types.is_none() && context.results.returns.empty())
    fail(error::kReturnType, "Function has a return type but does not have a return statement");
  SmallVector<Type> types;
  Operand shape = context.results.returns.empty() ? makeObject(nb::none()) : context.results.returns[0].second;
  if (!context.results.returns.empty()) llvm::append_range(types, context.results.returns[0].first.getValues().getTypes());
  for (auto &[at, value] : llvm::drop_begin(context.results.returns, context.results.returns.empty() ? 0 : 1)) {
    if (at.getValues().size() != types.size() || !value.isSameKind(shape)) reject("values of different shapes");
    if (value.isObject() && !isSameShape(value, shape)) reject("different compile-time objects");
    if (!isSameShape(value, shape)) reject("values that differ in what is known while compiling");
    for (auto [type, operand] : llvm::zip(types, at.getValues())) {
      Type common = emitter.findCommonType(type, operand.getType());
      if (!common) reject("'" + ir::describe(type) + "' and '" + ir::describe(operand.getType()) + "'");
      type = common;
    }
  }
  for (auto &[at, value] : context.results.returns) {
    builder.setInsertionPoint(at);
    SmallVector<mlir::Value> operands;
    for (auto [type, operand] : llvm::zip(types, at.getValues())) operands.push_back(emitter.convert(operand, type));
    at.getValuesMutable().assign(operands);
  }
  bool isWanted = llvm::any_of(context.results.returns, [](const auto &made) { return !made.second.isNone(); });
  // Loops at the end of a real function may return in their first round, and fail the launch where there is none.
  bool mayEnd = isWanted && !context.isTerminated, fails = mayEnd && context.role.isReal && endsWithReturn(*context.body->entry);
  if (mayEnd && !fails) fail(error::kReturnType, "'" + context.source.name + "' does not return a value on every path");
  builder.setInsertionPointToEnd(context.body->entry);
  if (fails) statements().require(emitter.constant(0, session.types.u1), "'" + context.source.name + "' ended without a return");
  if (context.body->entry->empty() || !context.body->entry->back().hasTrait<OpTrait::IsTerminator>()) {
    // Unreachable if the function returns values.
    SmallVector<mlir::Value> zeros;
    for (Type type : types) zeros.push_back(emitter.convert(emitter.constant(0, session.types.i32), type));
    create<ir::ReturnOp>(zeros);
  }
  op.setFunctionType(FunctionType::get(&session.ctx, op.getFunctionType().getInputs(), types));
  return shape;
}

} // namespace qd::frontend
