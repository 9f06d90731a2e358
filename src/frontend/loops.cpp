// loops.cpp: loops over ranges, containers and compile-time items
//
// In:   the syntax node of a `for` or `while` statement.
// Out:  qd.for, qd.while or qd.repeat, or the repeated body of an unrolled loop.
// Here: a loop at the kernel's top level becomes `qd.for parallel`; in a run-time construct it is sequential; over a compile-time iterable
//       (qd.static, lists, vectors) it is unrolled.
#include "frontend/builder.h"
#include "ir/attributes.h"

using namespace mlir;

namespace qd::frontend {

using Kind = Value::Kind;
using ir::BinaryKind;

void FunctionBuilder::checkLoopTarget(nb::handle target) {
  At here(*this, target);
  if (kindOf(target) == NodeKind::Tuple || kindOf(target) == NodeKind::List) {
    for (nb::handle part : getAttribute(target, names().elts)) checkLoopTarget(part);
    return;
  }
  if (kindOf(target) != NodeKind::Name) fail(error::kSyntax, "the target of a loop must be a name");
  nb::object name = getAttribute(target, names().id);
  if (isVisible(scopes.find(name.ptr())) && toText(name) != "_")
    fail(error::kSyntax, "Variable '" + toText(name) + "' is already declared in the outer scope and cannot be used as loop variable");
}

void FunctionBuilder::bindLoopVariable(nb::handle target, const Value &value) {
  At here(*this, target);
  if (kindOf(target) == NodeKind::Name) {
    Binding binding;
    binding.kind = Binding::Kind::LoopVariable;
    binding.value = value;
    binding.value.isReadOnly = true;
    scopes.bind(getAttribute(target, names().id).ptr(), std::move(binding));
    return;
  }
  if (kindOf(target) != NodeKind::Tuple && kindOf(target) != NodeKind::List) fail(error::kSyntax, "the target of a loop must be a name");
  for (auto &[part, item] : pairTargets(getAttribute(target, names().elts), value)) bindLoopVariable(part, item);
}

void FunctionBuilder::bindIndices(nb::handle target, const Value &value, nb::handle body) {
  if (kindOf(target) != NodeKind::Name) {
    for (auto &[part, item] : pairTargets(getAttribute(target, names().elts), value)) bindIndices(part, item, body);
    return;
  }
  nb::object name = getAttribute(target, names().id);
  bool isVariable = value.isTyped() && assignmentCounts->lookup(name.ptr()).count > 1 && isAssignedIn(body, name);
  if (!isVariable) return bindLoopVariable(target, value);
  At here(*this, target);
  Binding binding;
  binding.value = declare(value, false);
  scopes.bind(name.ptr(), std::move(binding));
}

void FunctionBuilder::unroll(nb::handle at, const Value &iterable) {
  nb::object target = getAttribute(at, names().target), statements = getAttribute(at, names().body);
  std::vector<Value> items;
  {
    At here(*this, getAttribute(at, names().iter));
    items = listItems(iterable, "loop over");
  }
  if (session.options.unrollingLimit > 0 && int64_t(items.size()) > session.options.unrollingLimit)
    session.warn("You are unrolling more than " + std::to_string(session.options.unrollingLimit) +
                     " iterations, so the compile time may be extremely long.",
                 PyExc_SyntaxWarning);
  loops.emplace_back();
  loops.back().kind = Loop::Kind::Unrolled;
  loops.back().runtimeDepth = runtimeDepth;
  for (const Value &item : items) {
    scopes.push();
    bindLoopVariable(target, load(item)); // loads the item's value of this iteration
    visitBody(statements);
    invalidateMerged(scopes.pop());
    Loop &loop = loops.back();
    if (loop.skip || loop.leave) terminated = false;
    loop.skip = false;
    if (loop.leave || terminated) break;
  }
  bool hadBreak = loops.back().leave;
  loops.pop_back();
  if (!hadBreak && !terminated) visitBlock(getAttribute(at, names().orelse));
}

void FunctionBuilder::visitLoopControl(NodeKind kind) {
  bool isBreak = kind == NodeKind::Break;
  std::string word = isBreak ? "break" : "continue";
  if (loops.empty()) fail(error::kSyntax, "'" + word + "' outside of a loop");
  Loop &loop = loops.back();
  terminated = true;
  if (loop.kind == Loop::Kind::Unrolled) {
    if (runtimeDepth != loop.runtimeDepth)
      fail(error::kSyntax,
           "You are trying to `" + word + "` a static `for` loop, but the `" + word + "` statement is inside a non-static `if`.");
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
  if (loop.breakFlag) create<ir::StoreOp>(constant(1, session.types.u1), loop.breakFlag);
  create<ir::BreakOp>();
}

mlir::Value FunctionBuilder::makeBreakFlag(nb::handle at) {
  if (nb::len(getAttribute(at, names().orelse)) == 0) return {};
  mlir::Value flag = create<ir::LocalOp>(ir::RefType::get(session.types.u1));
  create<ir::StoreOp>(constant(0, session.types.u1), flag);
  return flag;
}

void FunctionBuilder::visitElse(nb::handle at, mlir::Value breakFlag) {
  if (!breakFlag) return;
  mlir::Value left = create<ir::LoadOp>(session.types.u1, breakFlag);
  auto op = create<ir::IfOp>(create<ir::UnaryOp>(ir::UnaryKind::logical_not, left));
  invalidateMerged(runBranch(op.getThenRegion(), [&] { visitBody(getAttribute(at, names().orelse)); }).bindings);
}

size_t FunctionBuilder::countTargets(nb::handle target) {
  if (kindOf(target) == NodeKind::Name) return 1;
  if (kindOf(target) == NodeKind::Tuple || kindOf(target) == NodeKind::List) return nb::len(getAttribute(target, names().elts));
  At here(*this, target);
  fail(error::kSyntax, "the target of a loop must be a name");
}

bool FunctionBuilder::isContainer(const Value &value) {
  return isTensor(value) || value.is(Kind::View) ||
         (value.isObject() && (session.python.isInstance(value.object, session.python.structField) ||
                               session.python.isInstance(value.object, session.python.snode)));
}

std::optional<FunctionBuilder::Box> FunctionBuilder::findBox(nb::handle iterNode, Value &iterable, nb::handle target) {
  At here(*this, iterNode);
  // A loop over the name of a static container is a loop over the container.
  if (kindOf(iterNode) == NodeKind::Name && isContainer(iterable)) iterable.isStatic = false;
  if (iterable.isStatic) {
    if (iterable.is(Kind::Range) && iterable.aggregate->items.size() == 1)
      fail(error::kSyntax, "Only 'qd.ndrange' is allowed in 'qd.static(qd.grouped(...))'.");
    if (isTensor(iterable) || iterable.is(Kind::Range))
      fail(error::kType, "a loop over qd.static needs an iterable known while compiling, got " + describe(iterable));
    return std::nullopt;
  }
  if (isContainer(iterable)) return boxOfContainers({iterable}, false, target);
  if (iterable.is(Kind::Range) && !iterable.aggregate->items.empty() && isContainer(iterable.aggregate->items[0]))
    return boxOfContainers(iterable.aggregate->items, iterable.aggregate->items.size() == 1, target);
  if (iterable.isObject()) iterable = toRange(iterable);
  if (iterable.is(Kind::Range)) return boxOfRange(iterable, target);
  bool isItems = iterable.is(Kind::Sequence) || iterable.is(Kind::Dictionary) || (iterable.isTyped() && isa<VectorType>(iterable.type)) ||
                 (iterable.isObject() && !PyUnicode_Check(iterable.object.ptr()) && findAttribute(iterable.object, nb::str("__iter__")));
  if (!isItems)
    fail(error::kSyntax, "Cannot loop over the object " + (iterable.isObject() ? describeType(iterable.object) : describe(iterable)) +
                             " in Quadrants scope");
  return std::nullopt;
}

void FunctionBuilder::visitFor(nb::handle at) {
  nb::object iterNode = getAttribute(at, names().iter), target = getAttribute(at, names().target);
  Value iterable;
  if (kindOf(iterNode) == NodeKind::Subscript) {
    Value base = visit(getAttribute(iterNode, names().value)), leaf = leafTensor(base);
    bool isWhole = isTensor(base) || base.is(Kind::View);
    if (isTensor(leaf)) leaf = toTensor(leaf);
    if (leaf.is(Kind::Tensor) || leaf.is(Kind::View)) {
      std::vector<Value> indices = visitIndices(getAttribute(iterNode, names().slice));
      llvm::erase_if(indices, [](const Value &index) { return index.isNone(); });
      bool isElement =
          isWhole && indices.size() == countAxes(leaf) && llvm::none_of(indices, [](const Value &index) { return index.is(Kind::Range); });
      if (!isElement) return loopOver(at, boxOfSlice(leaf, indices, target));
      iterable = load(leaf.is(Kind::View) ? subscriptView(leaf, indices) : subscriptTensor(leaf, indices));
    }
  }
  if (kindOf(iterNode) == NodeKind::IfExp) {
    Value test = visit(getAttribute(iterNode, names().test));
    if (!isConstant(test) && !test.isStatic) iterable = chooseRange(iterNode, truth(test, "if"));
  }
  if (!iterable.isGiven()) iterable = visit(iterNode);
  if (std::optional<Box> box = findBox(iterNode, iterable, target)) return loopOver(at, std::move(*box));
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
  for (nb::handle triple : getAttribute(ndrange, names().bounds))
    for (nb::handle end : triple) items.push_back(makeObject(end));
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

Value FunctionBuilder::makeRange(const Arguments &arguments) {
  size_t count = arguments.positional.size();
  if (count == 0 || count > 3 || !arguments.named.empty())
    fail(error::kSyntax,
         "Range should have 1 or 2 arguments, found " + std::to_string(count + arguments.named.size()) + " (a third is the step)");
  std::vector<Value> items;
  if (count == 1) items.push_back(makeObject(nb::int_(0)));
  llvm::append_range(items, arguments.positional);
  if (items.size() == 2) items.push_back(makeObject(nb::int_(1)));
  bool isKnown = llvm::all_of(items, [&](const Value &item) { return findInteger(item).has_value(); });
  if (isKnown) return makeObject(session.python.rangeClass(items[0].object, items[1].object, items[2].object));
  return makeAggregate(Kind::Range, std::move(items));
}

Value FunctionBuilder::makeNdrange(const Arguments &arguments) {
  // The package's class checks the arguments, with zeros in place of run-time bounds.
  std::vector<Value> items;
  bool isKnown = true;
  auto check = [&](const Value &end) -> nb::object {
    items.push_back(end);
    if (nb::object known = toPython(end)) return known;
    isKnown = false;
    Type type = findType(end);
    return type && ir::isIntegerScalar(type) ? nb::object(nb::int_(0)) : nb::none();
  };
  nb::list dimensions;
  for (const Value &argument : arguments.positional) {
    if (!isList(argument)) items.push_back(makeObject(nb::int_(0)));
    nb::list ends;
    for (const Value &end : isList(argument) ? listItems(argument, "unpack") : std::vector<Value>{argument}) ends.append(check(end));
    dimensions.append(isList(argument) ? nb::object(ends) : nb::object(ends[0]));
    if (nb::len(ends) < 3) items.push_back(makeObject(nb::int_(1)));
  }
  nb::dict named;
  for (const auto &[name, value] : arguments.named) named[name.c_str()] = known(value);
  nb::object made = session.python.ndrange(*dimensions, **named);
  if (isKnown) return makeObject(made);
  Value range = toRange(makeObject(made));
  range.aggregate->items = std::move(items);
  return range;
}

Value FunctionBuilder::makeZip(const Arguments &arguments) {
  for (const Value &value : arguments.positional)
    if (!isContainer(value)) fail(error::kType, "qd.zip takes containers, got " + describe(value));
  if (arguments.positional.empty() || !arguments.named.empty()) fail(error::kType, "qd.zip takes one or more containers");
  return arguments.positional.size() == 1 ? arguments.positional[0] : makeAggregate(Kind::Range, arguments.positional);
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
      if (!number || *number < 1 || *number > 1024)
        fail(error::kSyntax, "block_dim must be an integer between 1 and 1024, got " + toText(nb::repr(object)));
      nextLoop.blockDim = int32_t(*number);
    } else if (name == "serialize") {
      nextLoop.isSerial = nextLoop.isSerial || isTrue(value);
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

mlir::Value FunctionBuilder::biased(mlir::Value value) {
  return create<ir::BinaryOp>(BinaryKind::bit_xor, value, constant(INT64_MIN, session.types.i64));
}

mlir::Value FunctionBuilder::clipped(const Value &value) {
  return cast(create<ir::BinaryOp>(BinaryKind::min, emit(value), constant(INT64_MAX, session.types.u64)), session.types.i64);
}

void FunctionBuilder::requireStep(mlir::Value step) {
  Fragments fragments;
  fragments.text(builder, "range() arg 3 must not be zero");
  auto check = create<ir::AssertOp>(nonZero(step), uint32_t(artifact::Site::Kind::Assert), builder.getArrayAttr(fragments.fragments),
                                    fragments.values);
  check->setAttr(ir::kAlways, builder.getUnitAttr());
}

FunctionBuilder::Box FunctionBuilder::boxOfRange(const Value &range, nb::handle target) {
  const std::vector<Value> &items = range.aggregate->items;
  Type type = boundType(items);
  Box box;
  bool hasSteps = false;
  APInt iterations(128, 1);
  for (size_t first = 0; first < items.size(); first += 3) {
    std::optional<int64_t> low = findInteger(items[first]), high = findInteger(items[first + 1]), step = findInteger(items[first + 2]);
    if (step == 0) fail(error::kSyntax, "range() arg 3 must not be zero");
    if (low && high && step) {
      APInt span(128, uint64_t(*high), /*isSigned=*/true), stride(128, uint64_t(*step), /*isSigned=*/true);
      span -= APInt(128, uint64_t(*low), /*isSigned=*/true);
      if (stride.isNegative()) {
        span.negate();
        stride.negate();
      }
      APInt own = span.isStrictlyPositive() ? (span + stride - 1).udiv(stride) : APInt(128, 0);
      iterations = llvm::APIntOps::umin(iterations, APInt(128, INT64_MAX) + 1) * own;
    }
    if (session.options.debug && low && high && step && (*step > 0 ? *low > *high : *low < *high))
      session.warn("the range from " + std::to_string(*low) + " to " + std::to_string(*high) +
                       " is empty: a loop downwards has a step of -1",
                   PyExc_SyntaxWarning);
    bool isBiased = findType(items[first]) == session.types.u64 && findType(items[first + 1]) == session.types.u64;
    auto bound = [&](const Value &value) {
      if (isBiased) return biased(cast(emit(value), session.types.i64));
      return findType(value) == session.types.u64 ? clipped(value) : convert(value, type);
    };
    box.isBiased.push_back(isBiased);
    box.lower.push_back(bound(items[first]));
    box.upper.push_back(bound(items[first + 1]));
    box.steps.push_back(findType(items[first + 2]) == session.types.u64 ? clipped(items[first + 2]) : convert(items[first + 2], type));
    hasSteps |= step != 1;
    if (!step) requireStep(box.steps.back());
  }
  if (iterations.getActiveBits() > 63) fail(error::kSyntax, artifact::kTooManyIterations);
  if (!hasSteps) box.steps.clear();
  box.axes = range.aggregate->axes;
  box.isGrouped = range.aggregate->isGrouped;
  box.isNdrange = range.aggregate->isNdrange;
  if (!range.aggregate->isNdrange || box.isGrouped || countTargets(target) == box.lower.size()) return box;
  At here(*this, target);
  fail(error::kSyntax, "Ndrange for loop with number of the loop variables not equal to the dimension of the ndrange is not supported");
}

Value FunctionBuilder::chooseRange(nb::handle at, mlir::Value condition) {
  At here(*this, at);
  Value sides[2] = {visit(getAttribute(at, names().body)), visit(getAttribute(at, names().orelse))};
  for (Value &side : sides) {
    if (side.isObject()) side = toRange(side);
    if (!side.is(Kind::Range) || side.aggregate->isNdrange || side.aggregate->items.size() != 3)
      fail(error::kSyntax,
           "Using non static inlined if statement as for-loop iterable is not currently supported. (for others than range)");
  }
  auto other = sides[1].aggregate->items.begin();
  return mapItems(sides[0], [&](const Value &item) {
    Type type = boundType({item, *other});
    return select(makeComputed(condition), makeComputed(convert(item, type)), makeComputed(convert(*other++, type)));
  });
}

size_t FunctionBuilder::countAxes(const Value &container) {
  return container.is(Kind::View) ? listRanges(container).size() : size_t(mlir::cast<ir::TensorType>(container.type).getRank());
}

std::pair<mlir::Value, mlir::Value> FunctionBuilder::findBounds(const Value &tensor, size_t axis) {
  if (tensor.is(Kind::View)) {
    mlir::Value count = cast(indexValue(listRanges(tensor)[axis].aggregate->items[1], axis), session.types.i32);
    return {constant(0, count.getType()), count};
  }
  auto type = mlir::cast<ir::TensorType>(tensor.type);
  int64_t first = type.getFirst(axis);
  mlir::Value last = extent(tensor, int(axis));
  if (first) last = create<ir::BinaryOp>(BinaryKind::add, last, constant(first, last.getType()));
  return {constant(first, last.getType()), last};
}

Value FunctionBuilder::leafTensor(Value container) {
  while (container.isObject() && session.python.isInstance(container.object, session.python.structField)) {
    nb::object fields = getAttribute(container.object, names().field_dict);
    auto [name, field] = *nb::borrow<nb::dict>(fields).begin();
    container = structFieldMember(container, name, field);
  }
  return container;
}

std::vector<std::pair<mlir::Value, mlir::Value>> FunctionBuilder::listBounds(Value container) {
  std::vector<std::pair<mlir::Value, mlir::Value>> bounds;
  if (container.isObject() && session.python.isInstance(container.object, session.python.snode)) {
    auto bound = [&](nb::handle end) { return constant(nb::cast<int64_t>(end), session.types.i32); };
    const PathNode *path = session.tracker.getStep(container.path, artifact::PathStep::Kind::Attribute, "_box");
    nb::object box = getAttribute(container.object, names()._box);
    session.tracker.read(path, box);
    for (nb::handle ends : box) bounds.emplace_back(bound(ends[nb::int_(0)]), bound(ends[nb::int_(1)]));
    return bounds;
  }
  container = leafTensor(container);
  if (!isTensor(container) && !container.is(Kind::View))
    fail(error::kSyntax, "Cannot loop over the object " + describe(container) + " in Quadrants scope");
  if (!container.is(Kind::View)) container = toTensor(container);
  for (size_t axis = 0; axis < countAxes(container); ++axis) bounds.push_back(findBounds(container, axis));
  return bounds;
}

FunctionBuilder::Box FunctionBuilder::boxOfContainers(const std::vector<Value> &containers, bool isGrouped, nb::handle target) {
  Box box;
  box.isGrouped = isGrouped;
  for (const auto &[number, container] : llvm::enumerate(containers)) {
    std::vector<std::pair<mlir::Value, mlir::Value>> bounds = listBounds(container);
    if (number > 0 && bounds.size() != box.upper.size()) fail(error::kType, "the containers of qd.zip must have equally many axes");
    for (const auto &[axis, ends] : llvm::enumerate(bounds)) {
      if (number > 0) {
        box.upper[axis] = create<ir::BinaryOp>(BinaryKind::min, box.upper[axis], cast(ends.second, box.upper[axis].getType()));
        continue;
      }
      box.lower.push_back(ends.first);
      box.upper.push_back(ends.second);
    }
  }
  checkIndices(box, target);
  return box;
}

void FunctionBuilder::checkIndices(const Box &box, nb::handle target) {
  size_t targets = countTargets(target), rank = box.lower.size();
  At here(*this, target);
  if (box.isGrouped && targets != 1) fail(error::kSyntax, "Group for should have 1 loop target, found " + std::to_string(targets));
  if (!box.isGrouped && targets != rank)
    fail(error::kSyntax, "Number of struct-for indices does not match loop variable dimensionality (" + std::to_string(targets) +
                             " != " + std::to_string(rank) + ")");
}

FunctionBuilder::Box FunctionBuilder::boxOfSlice(const Value &container, const std::vector<Value> &indices, nb::handle target) {
  size_t rank = countAxes(container);
  if (indices.size() > rank)
    fail(error::kIndex,
         "a container with " + std::to_string(rank) + " axes has no slice with " + std::to_string(indices.size()) + " indices");
  Box box;
  for (size_t axis = 0; axis < rank; ++axis) {
    // An axis with an index is not part of the box; an axis without index or slice is complete.
    if (axis < indices.size() && !indices[axis].is(Kind::Range)) continue;
    auto [first, last] = findBounds(container, axis);
    auto clamp = [&, first = first, last = last](size_t which, mlir::Value whole) -> mlir::Value {
      if (axis >= indices.size() || indices[axis].aggregate->items[which].isNone()) return whole;
      const Value &given = indices[axis].aggregate->items[which];
      mlir::Value value = convert(given, last.getType());
      bool isFromEnd = findInteger(given).value_or(0) < 0 && ir::findInteger(first) == 0;
      if (isFromEnd) value = create<ir::BinaryOp>(BinaryKind::add, last, value);
      return create<ir::BinaryOp>(BinaryKind::min, create<ir::BinaryOp>(BinaryKind::max, value, first), last);
    };
    box.lower.push_back(clamp(0, first));
    box.upper.push_back(clamp(1, last));
    Value step = axis < indices.size() ? indices[axis].aggregate->items[2] : makeObject(nb::none());
    if (!step.isNone() && findInteger(step).value_or(0) < 1)
      fail(error::kSyntax, "the step of a slice that is looped over must be positive and known while compiling");
    box.steps.push_back(constant(findInteger(step).value_or(1), last.getType()));
  }
  checkIndices(box, target);
  return box;
}

void FunctionBuilder::loopOver(nb::handle at, Box box) {
  nb::object target = getAttribute(at, names().target);
  checkLoopTarget(target);
  LoopOptions options = std::exchange(nextLoop, {});
  bool isParallel = isTopLevel() && !isInsideParallel && !options.isSerial;
  bool isNested = isInsideParallel || llvm::any_of(loops, [](const Loop &loop) { return loop.kind != Loop::Kind::Unrolled; });
  if (!options.name.empty() && isNested)
    session.warn("qd.loop_config(name=\"" + options.name +
                     "\") is set on a loop inside of another loop: the name is ignored, only outermost loops have one",
                 PyExc_UserWarning);
  size_t rank = box.lower.size();
  if (rank == 0) {
    // One iteration, for the only element of a container without axes.
    box.lower = {constant(0, session.types.i32)};
    box.upper = {constant(1, session.types.i32)};
  }
  if (!box.axes.empty()) {
    Box written = box;
    for (auto [position, axis] : llvm::enumerate(box.axes)) {
      box.lower[position] = written.lower[size_t(axis)];
      box.upper[position] = written.upper[size_t(axis)];
      if (!box.steps.empty()) box.steps[position] = written.steps[size_t(axis)];
    }
  }
  mlir::Value breakFlag = isParallel ? mlir::Value() : makeBreakFlag(at);
  auto integer = [&](std::optional<int32_t> value) { return value ? builder.getI32IntegerAttr(*value) : IntegerAttr(); };
  auto op = create<ir::ForOp>(ValueRange(box.lower), ValueRange(box.upper), ValueRange(box.steps), isParallel, integer(options.blockDim),
                              integer(options.maxThreads), options.name.empty() ? StringAttr() : builder.getStringAttr(options.name));
  mlir::Block &block = op.getBody().emplaceBlock();
  for (mlir::Value lower : box.lower) block.addArgument(lower.getType(), loc());
  bool wasInside = std::exchange(isInsideParallel, isInsideParallel || isParallel);
  Loop loop;
  loop.kind = isParallel ? Loop::Kind::Parallel : Loop::Kind::Sequential;
  loop.breakFlag = breakFlag;
  loops.push_back(loop);
  Branch body = runBranch(op.getBody(), [&] {
    std::vector<Value> indices(rank);
    for (size_t position = 0; position < rank; ++position) {
      size_t axis = box.axes.empty() ? position : size_t(box.axes[position]);
      mlir::Value index = block.getArgument(unsigned(position));
      indices[axis] = makeComputed(axis < box.isBiased.size() && box.isBiased[axis] ? biased(index) : index);
    }
    Value value = makeTuple(indices);
    if (box.isGrouped && rank != 0)
      value = makeComputed(emitSequence(value));
    else if (!box.isGrouped && kindOf(target) == NodeKind::Name)
      value = indices[0];
    nb::object statements = getAttribute(at, names().body);
    box.isNdrange ? bindIndices(target, value, statements) : bindLoopVariable(target, value);
    visitBody(statements);
  });
  invalidateMerged(body.bindings);
  loops.pop_back();
  isInsideParallel = wasInside;
  if (isParallel) materializeSharedVariables(op);
  if (isParallel)
    visitBlock(getAttribute(at, names().orelse));
  else
    visitElse(at, breakFlag);
}

nb::object FunctionBuilder::findRepeat(nb::handle test) {
  if (kindOf(test) != NodeKind::Call) return {};
  nb::object callee = getAttribute(test, names().func), root = callee;
  while (kindOf(root) == NodeKind::Attribute) root = getAttribute(root, names().value);
  if (kindOf(root) != NodeKind::Name) return {};
  Binding *binding = scopes.find(getAttribute(root, names().id).ptr());
  if (binding && binding->kind != Binding::Kind::Static) return {}; // the test calls a method of a variable
  Value function = visit(callee);
  return function.isObject() && builtinName(function.object) == "graph_do_while" ? callee : nb::object();
}

Value FunctionBuilder::visitRepeatFlag(nb::handle call, nb::handle callee) {
  At here(*this, call);
  constexpr llvm::StringLiteral kName = "qd.graph.do_while()";
  bool isFlat = toText(getAttribute(callee, kindOf(callee) == NodeKind::Name ? names().id : names().attr)) == "graph_do_while";
  if (isFlat)
    session.warn("qd.graph_do_while() is deprecated and will be removed; use qd.graph.do_while() instead.", PyExc_DeprecationWarning);
  if (!nb::cast<bool>(getAttribute(nb::borrow(session.request.source), names().is_graph)))
    fail(error::kSyntax, kName + " requires @qd.kernel(graph=True)");
  if (!isTopLevel() || isInsideParallel)
    fail(error::kSyntax, kName + " must be at the kernel top level or directly in the body of another " + kName);
  if (sections == Sections::Inside) fail(error::kSyntax, kName + " cannot appear inside a qd.graph.parallel() section");
  Arguments arguments;
  try {
    arguments = visitArguments(call);
  } catch (CompileError &error) {
    Diagnostic &found = error.diagnostic;
    bool isMissing = found.className == error::kName || found.className == error::kAttribute;
    if (!isMissing) throw;
    fail(error::kSyntax, kName + ": the flag does not resolve to an ndarray kernel parameter: " + found.message);
  }
  Value flag = bind(kName.drop_back(2), arguments, "flag")[0];
  if (!isTensor(flag))
    fail(error::kSyntax,
         kName + ": '" + describe(flag) + "' does not resolve to an ndarray kernel parameter; the flag is a 0-d i32 ndarray");
  flag = toTensor(flag);
  auto type = cast<ir::TensorType>(flag.type);
  if (type.getRank() != 0 || !ir::isIntegerScalar(type.getElement()))
    fail(error::kType, kName + ": the flag is a 0-d array of integers, got " + describe(flag));
  return flag;
}

void FunctionBuilder::checkRounds(const Value &rounds, const Value &flag) {
  int64_t limit = session.options.maxRounds;
  Value count = binary(BinaryKind::add, rounds, makeObject(nb::int_(1)), "+");
  storeTyped(rounds, emit(count));
  Value isDone = binary(BinaryKind::eq, flag, makeObject(nb::int_(0)), "=="),
        isWithinLimit = binary(BinaryKind::bit_or, isDone, binary(BinaryKind::lt, load(rounds), makeObject(nb::int_(limit)), "<"), "|");
  Fragments fragments;
  fragments.text(builder, "qd.graph.do_while() has run " + std::to_string(limit) +
                              " rounds, and its flag is not zero: set the option graph_max_iterations where it needs more");
  create<ir::AssertOp>(emit(isWithinLimit), uint32_t(artifact::Site::Kind::Assert), builder.getArrayAttr(fragments.fragments),
                       fragments.values);
}

void FunctionBuilder::visitRepeat(nb::handle at, nb::handle callee) {
  Value flag = visitRepeatFlag(getAttribute(at, names().test), callee);
  mlir::Value again = create<ir::LocalOp>(ir::RefType::get(session.types.u1));
  Value rounds;
  if (session.options.maxRounds > 0) {
    rounds = makePlace(create<ir::LocalOp>(ir::RefType::get(session.types.i64)));
    storeTyped(rounds, constant(0, session.types.i64));
  }
  auto op = create<ir::RepeatOp>(again);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.createBlock(&op.getBody());
    auto outerLoops = std::exchange(loops, {});
    ++repeatDepth;
    visitBlock(getAttribute(at, names().body));
    --repeatDepth;
    loops = std::move(outerLoops);
    Value left = load(subscriptTensor(flag, {}));
    create<ir::StoreOp>(nonZero(emit(left)), again);
    if (rounds.ir) checkRounds(rounds, left);
  }
  visitBlock(getAttribute(at, names().orelse));
}

void FunctionBuilder::visitWhile(nb::handle at) {
  if (nb::object callee = findRepeat(getAttribute(at, names().test)); callee) return visitRepeat(at, callee);
  mlir::Value breakFlag = makeBreakFlag(at);
  auto op = create<ir::WhileOp>();
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.createBlock(&op.getConditionRegion());
    scopes.push();
    ++runtimeDepth;
    nb::object expression = getAttribute(at, names().test);
    Value test = visit(expression);
    At here(*this, expression);
    create<ir::ConditionOp>(isConstant(test) ? constant(isTrue(test), session.types.u1) : truth(test, "while"));
    --runtimeDepth;
    scopes.pop();
  }
  Loop loop;
  loop.breakFlag = breakFlag;
  loops.push_back(loop);
  invalidateMerged(runBranch(op.getBody(), [&] { visitBody(getAttribute(at, names().body)); }).bindings);
  loops.pop_back();
  visitElse(at, breakFlag);
}

} // namespace qd::frontend
