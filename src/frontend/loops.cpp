// loops.cpp: loops over ranges, containers and compile-time items
//
// A loop at the kernel's top level becomes `qd.for parallel`; below a run-time construct it is sequential; over a compile-time iterable
// (qd.static, lists, vectors) it is unrolled.
#include "frontend/builder.h"

using namespace mlir;

namespace qd::frontend {

using Kind = Value::Kind;

void FunctionBuilder::checkLoopTarget(nb::handle target) {
  if (kindOf(target) == NodeKind::Tuple || kindOf(target) == NodeKind::List) {
    for (nb::handle part : getAttribute(target, names().elts)) checkLoopTarget(part);
    return;
  }
  if (kindOf(target) != NodeKind::Name) fail(error::kSyntax, "the target of a loop must be a name");
  nb::object name = getAttribute(target, names().id);
  const Binding *binding = scopes.find(name.ptr());
  if (binding && binding->kind != Binding::Kind::Merged && binding->kind != Binding::Kind::Partial && toText(name) != "_")
    fail(error::kSyntax, "Variable '" + toText(name) + "' is already declared in the outer scope and cannot be used as loop variable");
}

void FunctionBuilder::bindLoopVariable(nb::handle target, const Value &value) {
  if (kindOf(target) == NodeKind::Name) {
    Binding binding;
    binding.kind = Binding::Kind::LoopVariable;
    binding.value = value;
    binding.value.isReadOnly = true;
    scopes.bind(getAttribute(target, names().id).ptr(), std::move(binding));
    return;
  }
  if (kindOf(target) != NodeKind::Tuple && kindOf(target) != NodeKind::List) fail(error::kSyntax, "the target of a loop must be a name");
  std::vector<Value> items = listItems(value, "unpack");
  nb::object targets = getAttribute(target, names().elts);
  if (items.size() != nb::len(targets))
    fail(error::kSyntax, "The number of targets is not equal to value length: " + std::to_string(nb::len(targets)) + " targets, " +
                             std::to_string(items.size()) + " values");
  for (size_t index = 0; index < items.size(); ++index) bindLoopVariable(nb::object(targets[index]), items[index]);
}

void FunctionBuilder::unroll(nb::handle at, const Value &iterable) {
  nb::object target = getAttribute(at, names().target), statements = getAttribute(at, names().body);
  std::vector<Value> items = listItems(iterable, "loop over");
  if (session.options.unrollingLimit > 0 && int64_t(items.size()) > session.options.unrollingLimit)
    session.warn("You are unrolling more than " + std::to_string(session.options.unrollingLimit) +
                     " iterations, so the compile time may be extremely long.",
                 PyExc_SyntaxWarning);
  loops.emplace_back();
  loops.back().kind = Loop::Kind::Unrolled;
  loops.back().runtimeDepth = runtimeDepth;
  for (const Value &item : items) {
    scopes.push();
    bindLoopVariable(target, item);
    visitBody(statements);
    scopes.pop();
    Loop &loop = loops.back();
    if (loop.skip || loop.leave) terminated = false;
    loop.skip = false;
    if (loop.leave || terminated) break;
  }
  bool wasLeft = loops.back().leave;
  loops.pop_back();
  if (!wasLeft && !terminated) {
    scopes.push();
    visitBody(getAttribute(at, names().orelse));
    scopes.pop();
  }
}

void FunctionBuilder::visitLoopControl(NodeKind kind) {
  bool isBreak = kind == NodeKind::Break;
  if (loops.empty()) fail(error::kSyntax, llvm::Twine("'") + (isBreak ? "break" : "continue") + "' outside of a loop");
  Loop &loop = loops.back();
  terminated = true;
  if (loop.kind == Loop::Kind::Unrolled) {
    if (runtimeDepth != loop.runtimeDepth) {
      llvm::StringRef word = isBreak ? "break" : "continue";
      fail(error::kSyntax,
           "You are trying to `" + word + "` a static `for` loop, but the `" + word + "` statement is inside a non-static `if`.");
    }
    (isBreak ? loop.leave : loop.skip) = true;
    return;
  }
  if (!isBreak) {
    create<ir::ContinueOp>();
    return;
  }
  if (loop.kind == Loop::Kind::Parallel)
    fail(error::kSyntax,
         "Cannot break in the outermost loop: its iterations run in parallel (qd.loop_config(serialize=True) makes it serial)");
  if (loop.wasLeft) create<ir::StoreOp>(constant(1, session.types.u1), loop.wasLeft);
  create<ir::BreakOp>();
}

mlir::Value FunctionBuilder::makeLeftFlag(nb::handle at) {
  if (nb::len(getAttribute(at, names().orelse)) == 0) return {};
  mlir::Value flag = create<ir::LocalOp>(ir::RefType::get(session.types.u1));
  create<ir::StoreOp>(constant(0, session.types.u1), flag);
  return flag;
}

void FunctionBuilder::visitElse(nb::handle at, mlir::Value wasLeft) {
  if (!wasLeft) return;
  mlir::Value left = create<ir::LoadOp>(session.types.u1, wasLeft);
  auto op = create<ir::IfOp>(create<ir::UnaryOp>(ir::UnaryKind::logical_not, left));
  runBranch(op.getThenRegion(), [&] { visitBody(getAttribute(at, names().orelse)); });
}

void FunctionBuilder::visitFor(nb::handle at) {
  nb::object iterNode = getAttribute(at, names().iter), target = getAttribute(at, names().target);
  if (kindOf(iterNode) == NodeKind::IfExp && !isConstant(visit(getAttribute(iterNode, names().test))))
    fail(error::kSyntax, "Using non static inlined if statement as for-loop iterable is not currently supported.");
  Value iterable = visit(iterNode);
  if (iterable.isStatic) {
    if (isTensor(iterable) || iterable.is(Kind::Range))
      fail(error::kType, "a loop over qd.static needs an iterable known while compiling, got " + describe(iterable));
    return unroll(at, iterable);
  }
  bool isStructField = iterable.isObject() && session.python.isInstance(iterable.object, session.python.structField);
  if (isTensor(iterable) || isStructField) return loopOverTensor(at, iterable, false);
  if (iterable.is(Kind::Range) && iterable.aggregate->items.size() == 1 && !iterable.aggregate->isNdrange)
    return loopOverTensor(at, iterable.aggregate->items[0], true);
  if (iterable.isObject()) iterable = toRange(iterable);
  if (iterable.is(Kind::Range)) return loopOverRange(at, iterable);
  bool isNumber = iterable.isObject() && session.python.isNumber(iterable.object);
  bool isItems =
      iterable.is(Kind::Sequence) || iterable.is(Kind::Dictionary) || (iterable.isTyped() && isa<VectorType>(iterable.type)) ||
      (iterable.isObject() && !isNumber && !PyUnicode_Check(iterable.object.ptr()) && findAttribute(iterable.object, nb::str("__iter__")));
  if (!isItems) fail(error::kSyntax, "Cannot loop over the object " + describe(iterable) + " in Quadrants scope");
  unroll(at, iterable);
}

Value FunctionBuilder::toRange(const Value &object) {
  PyObject *ptr = object.object.ptr();
  if (PyRange_Check(ptr)) {
    std::vector<Value> items;
    for (const nb::object &name : {names().start, names().stop, names().step})
      items.push_back(makeObject(getAttribute(object.object, name)));
    return makeAggregate(Kind::Range, std::move(items));
  }
  nb::object ndrange = object.object;
  bool isGrouped = session.python.isInstance(ndrange, session.python.groupedRange);
  if (isGrouped) ndrange = getAttribute(ndrange, names().r);
  if (!session.python.isInstance(ndrange, session.python.ndrange)) return object;
  std::vector<Value> items;
  for (nb::handle pair : getAttribute(ndrange, names().bounds))
    for (nb::handle end : pair) items.push_back(makeObject(end));
  Value range = makeAggregate(Kind::Range, std::move(items));
  range.aggregate->isNdrange = true;
  range.aggregate->isGrouped = isGrouped;
  nb::object axes = findAttribute(ndrange, names().axes);
  if (axes && !axes.is_none())
    for (nb::handle axis : axes) range.aggregate->axes.push_back(nb::cast<int32_t>(axis));
  return range;
}

Type FunctionBuilder::boundType(ArrayRef<Value> bounds) {
  for (const Value &value : bounds) {
    if (auto known = findInteger(value)) {
      if (*known < INT32_MIN || *known > INT32_MAX) return session.types.i64;
      continue;
    }
    Type type = findType(value);
    if (!type || isa<VectorType>(type)) fail(error::kType, "the bounds of a loop must be scalars, got " + describe(value));
    if (ir::isFloatScalar(type))
      session.warn("Casting range_for boundary values from " + ir::describe(type) + " to i32, which may cause numerical issues",
                   PyExc_Warning);
    else if (type.getIntOrFloatBitWidth() == 64 || type == session.types.u32)
      return session.types.i64;
  }
  return session.types.i32;
}

mlir::Value FunctionBuilder::bound(const Value &value, Type type) { return convert(value, type); }

Value FunctionBuilder::makeRange(const Arguments &arguments) {
  size_t count = arguments.positional.size();
  if (count == 0 || count > 3 || !arguments.named.empty())
    fail(error::kSyntax,
         "Range should have 1 or 2 arguments, found " + std::to_string(count + arguments.named.size()) + " (a third is the step)");
  std::vector<Value> items;
  if (count == 1) items.push_back(makeObject(nb::int_(0)));
  llvm::append_range(items, arguments.positional);
  if (items.size() == 2) items.push_back(makeObject(nb::int_(1)));
  Value range = makeAggregate(Kind::Range, std::move(items));
  if (!llvm::all_of(range.aggregate->items, [&](const Value &item) { return findInteger(item).has_value(); })) return range;
  nb::object type = session.python.rangeClass;
  nb::object made = type(toPython(range.aggregate->items[0]), toPython(range.aggregate->items[1]), toPython(range.aggregate->items[2]));
  return makeObject(made);
}

Value FunctionBuilder::makeNdrange(const Arguments &arguments) {
  Value range = makeAggregate(Kind::Range, {});
  range.aggregate->isNdrange = true;
  bool isKnown = true;
  for (const Value &argument : arguments.positional) {
    bool isPair = argument.is(Kind::Sequence) ||
                  (argument.isObject() && (PyTuple_Check(argument.object.ptr()) || PyList_Check(argument.object.ptr())));
    std::vector<Value> ends = isPair ? listItems(argument, "unpack") : std::vector<Value>{makeObject(nb::int_(0)), argument};
    if (ends.size() != 2) fail(error::kSyntax, "Every argument of ndrange should be a scalar or a tuple/list like (begin, end)");
    for (Value &end : ends) {
      Type type = findType(end);
      if (!type || !ir::isIntegerScalar(type))
        fail(error::kType, "Every argument of ndrange should be an integer scalar or a tuple/list of (int, int)");
      isKnown = isKnown && findInteger(end).has_value();
      range.aggregate->items.push_back(std::move(end));
    }
  }
  for (const auto &[name, value] : arguments.named) {
    if (name != "axes") fail(error::kType, "ndrange() got an unexpected keyword argument '" + name + "'");
    if (value.isNone()) continue;
    std::vector<Value> axes = listItems(value, "unpack");
    size_t rank = arguments.positional.size();
    if (axes.size() != rank)
      fail(error::kSyntax, "qd.ndrange(axes=...) has " + std::to_string(axes.size()) + " entries but ndrange was called with " +
                               std::to_string(rank) + " dimension argument(s); they must match");
    std::string text = toText(nb::repr(nb::tuple(known(value)))).str();
    std::vector<bool> seen(rank);
    for (const Value &axis : axes) {
      auto known = findInteger(axis);
      if (!known)
        fail(error::kType, "qd.ndrange(axes=...) entries must be Python ints; got " +
                               llvm::Twine(axis.isObject() ? Py_TYPE(axis.object.ptr())->tp_name : "a run-time value") + " (" +
                               (axis.isObject() ? toText(nb::repr(axis.object)) : "") + ").");
      if (*known < 0 || *known >= int64_t(rank) || seen[size_t(*known)])
        fail(error::kSyntax, "qd.ndrange(axes=" + text + ") is not a permutation of range(" + std::to_string(rank) + ")");
      seen[size_t(*known)] = true;
      range.aggregate->axes.push_back(int32_t(*known));
    }
  }
  if (!isKnown || !session.python.ndrange) return range;
  nb::list pairs;
  for (size_t index = 0; index < range.aggregate->items.size(); index += 2)
    pairs.append(nb::make_tuple(toPython(range.aggregate->items[index]), toPython(range.aggregate->items[index + 1])));
  nb::object axes = nb::none();
  if (!range.aggregate->axes.empty()) {
    nb::list list;
    for (int32_t axis : range.aggregate->axes) list.append(axis);
    axes = nb::tuple(list);
  }
  return makeObject(session.python.ndrange(*pairs, nb::arg("axes") = axes));
}

void FunctionBuilder::configureLoop(const Arguments &arguments) {
  if (!arguments.positional.empty()) fail(error::kType, "loop_config() takes keyword arguments only");
  nextLoop = {};
  for (const auto &[name, value] : arguments.named) {
    nb::object object = toPython(value);
    if (!object) fail(error::kType, "loop_config() needs values that are known while compiling");
    if (object.is_none() || name == "block_dim_adaptive" || name == "bit_vectorize") continue;
    std::optional<int64_t> number = findInteger(value);
    if (name == "block_dim") {
      if (!number || *number < 1 || *number > 1024 || (*number & (*number - 1)) != 0)
        fail(error::kSyntax, "block_dim must be a power of two between 1 and 1024, got " + toText(nb::repr(object)));
      nextLoop.blockDim = int32_t(*number);
    } else if (name == "serialize") {
      nextLoop.isSerial = nextLoop.isSerial || PyObject_IsTrue(object.ptr()) == 1;
    } else if (name == "parallelize") {
      if (!number || *number < 1) fail(error::kSyntax, "parallelize must be a positive number of threads, got " + toText(nb::repr(object)));
      nextLoop.isSerial = nextLoop.isSerial || *number == 1;
      nextLoop.maxThreads = int32_t(*number);
    } else if (name == "name") {
      nextLoop.name = toText(nb::str(object)).str();
    } else {
      fail(error::kType, "loop_config() got an unexpected keyword argument '" + name + "'");
    }
  }
}

void FunctionBuilder::loopOverRange(nb::handle at, const Value &range) {
  const std::vector<Value> &items = range.aggregate->items;
  Box box;
  if (!range.aggregate->isNdrange) {
    Type type = boundType(items);
    box.lower = {bound(items[0], type)};
    box.upper = {bound(items[1], type)};
    if (findInteger(items[2]) == 0) fail(error::kSyntax, "range() arg 3 must not be zero");
    if (findInteger(items[2]) != 1) box.steps = {bound(items[2], type)};
    return loopOverBox(at, std::move(box), false);
  }
  nb::object target = getAttribute(at, names().target);
  size_t rank = items.size() / 2;
  if (!range.aggregate->isGrouped) {
    size_t targets = kindOf(target) == NodeKind::Name ? 1 : nb::len(getAttribute(target, names().elts));
    if (targets != rank)
      fail(error::kSyntax, "Ndrange for loop with number of the loop variables not equal to the dimension of the ndrange is not supported");
  }
  Type type = boundType(items);
  for (size_t axis = 0; axis < rank; ++axis) {
    box.lower.push_back(bound(items[2 * axis], type));
    box.upper.push_back(bound(items[2 * axis + 1], type));
  }
  box.axes = range.aggregate->axes;
  loopOverBox(at, std::move(box), range.aggregate->isGrouped);
}

void FunctionBuilder::loopOverTensor(nb::handle at, const Value &container, bool isGrouped) {
  Value tensor = container;
  while (tensor.isObject() && session.python.isInstance(tensor.object, session.python.structField)) {
    nb::object fields = getAttribute(tensor.object, names().field_dict);
    auto first = nb::borrow<nb::dict>(fields).begin();
    tensor = objectAttribute(tensor, (*first).first);
  }
  if (!isTensor(tensor)) fail(error::kSyntax, "Cannot loop over the object " + describe(tensor) + " in Quadrants scope");
  tensor = toTensor(tensor);
  int rank = int(mlir::cast<ir::TensorType>(tensor.type).getRank());
  nb::object target = getAttribute(at, names().target);
  int targets = kindOf(target) == NodeKind::Name ? 1 : int(nb::len(getAttribute(target, names().elts)));
  if (isGrouped && targets != 1) fail(error::kSyntax, "Group for should have 1 loop target, found " + std::to_string(targets));
  if (!isGrouped && targets != rank)
    fail(error::kSyntax, "Number of struct-for indices does not match loop variable dimensionality (" + std::to_string(targets) +
                             " != " + std::to_string(rank) + ")");
  Box box;
  for (int axis = 0; axis < rank; ++axis) {
    box.upper.push_back(extent(tensor, axis));
    box.lower.push_back(constant(0, box.upper.back().getType()));
  }
  loopOverBox(at, std::move(box), isGrouped);
}

void FunctionBuilder::loopOverBox(nb::handle at, Box box, bool isGrouped) {
  nb::object target = getAttribute(at, names().target);
  checkLoopTarget(target);
  LoopOptions options = std::exchange(nextLoop, {});
  bool isParallel = isTopLevel() && !isInsideParallel && !options.isSerial;
  size_t rank = box.lower.size();
  if (rank == 0) {
    // The only element of a container without axes.
    box.lower = {constant(0, session.types.i32)};
    box.upper = {constant(1, session.types.i32)};
  }
  if (!box.axes.empty()) {
    Box permuted;
    for (int32_t axis : box.axes) {
      permuted.lower.push_back(box.lower[size_t(axis)]);
      permuted.upper.push_back(box.upper[size_t(axis)]);
    }
    permuted.axes = box.axes;
    box = std::move(permuted);
  }
  mlir::Value wasLeft = isParallel ? mlir::Value() : makeLeftFlag(at);
  auto integer = [&](std::optional<int32_t> value) { return value ? builder.getI32IntegerAttr(*value) : IntegerAttr(); };
  auto op = create<ir::ForOp>(ValueRange(box.lower), ValueRange(box.upper), ValueRange(box.steps), isParallel, integer(options.blockDim),
                              integer(options.maxThreads), options.name.empty() ? StringAttr() : builder.getStringAttr(options.name));
  mlir::Block &block = op.getBody().emplaceBlock();
  for (mlir::Value lower : box.lower) block.addArgument(lower.getType(), loc());
  bool wasInside = std::exchange(isInsideParallel, isInsideParallel || isParallel);
  Loop loop;
  loop.kind = isParallel ? Loop::Kind::Parallel : Loop::Kind::Sequential;
  loop.wasLeft = wasLeft;
  loops.push_back(loop);
  runBranch(op.getBody(), [&] {
    std::vector<Value> indices(rank);
    for (size_t position = 0; position < rank; ++position)
      indices[box.axes.empty() ? position : size_t(box.axes[position])] = makeComputed(block.getArgument(unsigned(position)));
    Value value = makeTuple(indices);
    if (isGrouped && rank != 0)
      value = makeComputed(emitSequence(value));
    else if (!isGrouped && kindOf(target) == NodeKind::Name)
      value = indices[0];
    bindLoopVariable(target, value);
    visitBody(getAttribute(at, names().body));
  });
  loops.pop_back();
  isInsideParallel = wasInside;
  if (isParallel) {
    scopes.push();
    visitBody(getAttribute(at, names().orelse));
    scopes.pop();
  } else {
    visitElse(at, wasLeft);
  }
}

void FunctionBuilder::visitWhile(nb::handle at) {
  mlir::Value wasLeft = makeLeftFlag(at);
  auto op = create<ir::WhileOp>();
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.createBlock(&op.getConditionRegion());
    scopes.push();
    ++runtimeDepth;
    Value test = visit(getAttribute(at, names().test));
    mlir::Value condition;
    if (isConstant(test))
      condition = constant(isTrue(test), session.types.u1);
    else
      condition = truth(test, "while");
    create<ir::ConditionOp>(condition);
    --runtimeDepth;
    scopes.pop();
  }
  Loop loop;
  loop.wasLeft = wasLeft;
  loops.push_back(loop);
  runBranch(op.getBody(), [&] { visitBody(getAttribute(at, names().body)); });
  loops.pop_back();
  visitElse(at, wasLeft);
}

} // namespace qd::frontend
