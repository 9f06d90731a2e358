// loop_ranges.cpp: what a loop iterates over: ranges, ndranges, containers, and parts of containers
//
// In:   the value of a loop's iterable.
// Out:  a Box: bounds and steps of each axis as IR values.
// Here: the type of the loop variable is that of the bounds: i32 or i64. A u64 range is shifted into the signed order.
#include "frontend/builder.h"
#include "ir/attributes.h"

using namespace mlir;

namespace qd::frontend {

size_t LoopRanges::countTargets(nb::handle target) {
  if (kindOf(target) == NodeKind::Name) return 1;
  if (kindOf(target) == NodeKind::Tuple || kindOf(target) == NodeKind::List) return nb::len(getAttribute(target, names().elts));
  At here(context, target);
  fail(error::kSyntax, "the target of a loop must be a name");
}

bool LoopRanges::isContainer(const Operand &value) {
  return conversions.isTensor(value) || value.is<View>() ||
         session.python.isInstance(value.getObject(), session.python.containers.structField) ||
         session.python.isInstance(value.getObject(), session.python.containers.node);
}

std::optional<Box> LoopRanges::findBox(nb::handle iterNode, Operand &iterable, nb::handle target) {
  At here(context, iterNode);
  // A loop over the name of a static container is a loop over the container.
  if (kindOf(iterNode) == NodeKind::Name && isContainer(iterable)) iterable.isStatic = false;
  auto *containers = iterable.find<Containers>();
  if (iterable.isStatic) {
    if (containers && containers->items.size() == 1) fail(error::kSyntax, "Only 'qd.ndrange' is allowed in 'qd.static(qd.grouped(...))'.");
    if (conversions.isTensor(iterable) || iterable.is<Range>() || containers)
      fail(error::kType, "a loop over qd.static needs an iterable known while compiling, got " + conversions.describe(iterable));
    return std::nullopt;
  }
  if (isContainer(iterable)) return boxOfContainers({iterable}, false, target);
  if (containers) return boxOfContainers(containers->items, containers->items.size() == 1, target);
  if (iterable.isObject()) iterable = toRange(iterable);
  if (auto *range = iterable.find<Range>()) return boxOfRange(*range, target);
  bool isItems =
      iterable.is<Sequence>() || iterable.is<Dictionary>() || iterable.is<DictView>() || isa_and_nonnull<VectorType>(iterable.getType()) ||
      (iterable.isObject() && !PyUnicode_Check(iterable.getObject().ptr()) && findAttribute(iterable.getObject(), nb::str("__iter__")));
  if (!isItems)
    fail(error::kSyntax, "Cannot loop over the object " +
                             (iterable.isObject() ? describeType(iterable.getObject()) : conversions.describe(iterable)) +
                             " in Quadrants scope");
  return std::nullopt;
}

Operand LoopRanges::toRange(const Operand &object) {
  nb::object ndrange = object.getObject();
  if (PyRange_Check(ndrange.ptr())) {
    std::vector<Operand> items;
    for (const nb::object &name : {names().start, names().stop, names().step}) items.push_back(makeObject(getAttribute(ndrange, name)));
    return makeAggregate<Range>(std::move(items));
  }
  bool isGrouped = session.python.isInstance(ndrange, session.python.language.groupedRange);
  if (isGrouped) ndrange = getAttribute(ndrange, names().r);
  if (!session.python.isInstance(ndrange, session.python.language.ndrange)) return object;
  Range range;
  for (nb::handle triple : getAttribute(ndrange, names().bounds))
    for (nb::handle end : triple) range.items.push_back(makeObject(end));
  range.isNdrange = true;
  range.isGrouped = isGrouped;
  nb::object axes = findAttribute(ndrange, names().axes);
  if (axes && !axes.is_none())
    for (nb::handle axis : axes) range.axes.push_back(nb::cast<int32_t>(axis));
  return range;
}

Type LoopRanges::boundType(ArrayRef<Operand> bounds) {
  for (const Operand &value : bounds) {
    if (auto known = conversions.findInteger(value)) {
      if (*known < INT32_MIN || *known > INT32_MAX) return session.types.i64;
      continue;
    }
    Type type = conversions.findType(value);
    if (!type || isa<VectorType>(type)) fail(error::kType, "the bounds of a loop must be scalars, got " + conversions.describe(value));
    if (ir::isFloatScalar(type))
      session.warn("Casting range_for boundary values from " + ir::describe(type) + " to i32, which may cause numerical issues",
                   PyExc_Warning);
    else if (type.getIntOrFloatBitWidth() == 64 || type == session.types.u32)
      return session.types.i64;
  }
  return session.types.i32;
}

Operand LoopRanges::makeRange(const Arguments &arguments) {
  size_t count = arguments.positional.size();
  if (count == 0 || count > 3 || !arguments.named.empty())
    fail(error::kSyntax,
         "Range should have 1 or 2 arguments, found " + std::to_string(count + arguments.named.size()) + " (a third is the step)");
  std::vector<Operand> items;
  if (count == 1) items.push_back(makeObject(nb::int_(0)));
  llvm::append_range(items, arguments.positional);
  if (items.size() == 2) items.push_back(makeObject(nb::int_(1)));
  bool isKnown = llvm::all_of(items, [&](const Operand &item) { return conversions.findInteger(item).has_value(); });
  if (isKnown) return makeObject(session.python.host.range(items[0].getObject(), items[1].getObject(), items[2].getObject()));
  return makeAggregate<Range>(std::move(items));
}

Operand LoopRanges::reverse(const Range &range) {
  const std::optional<int64_t> step = conversions.findInteger(range.items[2]);
  if (range.isNdrange || !step || *step == 0) fail(error::kType, "reversed() takes a range whose step is known while compiling");
  auto apply = [&](BinaryKind kind, const Operand &lhs, int64_t rhs) {
    return operators().binary(kind, lhs, makeObject(nb::int_(rhs)), "reversed");
  };
  const Operand &begin = range.items[0], length = operators().binary(BinaryKind::sub, range.items[1], begin, "reversed");
  const Operand rounds = apply(BinaryKind::floor_div, apply(BinaryKind::sub, length, *step > 0 ? 1 : -1), *step);
  const Operand last = operators().binary(BinaryKind::add, begin, apply(BinaryKind::mul, rounds, *step), "reversed");
  return makeAggregate<Range>({last, apply(BinaryKind::sub, begin, *step), makeObject(nb::int_(-*step))});
}

Operand LoopRanges::makeNdrange(const Arguments &arguments) {
  // The package's class checks the arguments, with zeros in place of run-time bounds.
  std::vector<Operand> items;
  bool isKnown = true;
  auto check = [&](const Operand &end) -> nb::object {
    items.push_back(end);
    if (nb::object known = conversions.toPython(end)) return known;
    isKnown = false;
    Type type = conversions.findType(end);
    return type && ir::isIntegerScalar(type) ? nb::object(nb::int_(0)) : nb::none();
  };
  nb::list dimensions;
  for (const Operand &argument : arguments.positional) {
    if (!isList(argument)) items.push_back(makeObject(nb::int_(0)));
    nb::list ends;
    for (const Operand &end : isList(argument) ? collections().listItems(argument, "unpack") : std::vector<Operand>{argument})
      ends.append(check(end));
    dimensions.append(isList(argument) ? nb::object(ends) : nb::object(ends[0]));
    if (nb::len(ends) < 3) items.push_back(makeObject(nb::int_(1)));
  }
  nb::dict named;
  for (const auto &[name, value] : arguments.named) named[name.c_str()] = conversions.known(value);
  nb::object made = session.python.language.ndrange(*dimensions, **named);
  if (isKnown) return makeObject(made);
  Operand range = toRange(makeObject(made));
  range.get<Range>().items = std::move(items);
  return range;
}

Operand LoopRanges::makeZip(const Arguments &arguments) {
  for (const Operand &value : arguments.positional)
    if (!isContainer(value)) fail(error::kType, "qd.zip takes containers, got " + conversions.describe(value));
  if (arguments.positional.empty() || !arguments.named.empty()) fail(error::kType, "qd.zip takes one or more containers");
  return arguments.positional.size() == 1 ? arguments.positional[0] : makeAggregate<Containers>(arguments.positional);
}

mlir::Value LoopRanges::biased(mlir::Value value) {
  return create<ir::BinaryOp>(BinaryKind::bit_xor, value, emitter.constant(INT64_MIN, session.types.i64));
}

mlir::Value LoopRanges::clipped(const Operand &value) {
  return emitter.cast(create<ir::BinaryOp>(BinaryKind::min, conversions.emit(value), emitter.constant(INT64_MAX, session.types.u64)),
                      session.types.i64);
}

Box LoopRanges::boxOfRange(const Range &range, nb::handle target) {
  const std::vector<Operand> &items = range.items;
  Type type = boundType(items);
  Box box;
  bool hasSteps = false;
  APInt iterations(128, 1);
  for (size_t first = 0; first < items.size(); first += 3) {
    std::optional<int64_t> low = conversions.findInteger(items[first]), high = conversions.findInteger(items[first + 1]),
                           step = conversions.findInteger(items[first + 2]);
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
    bool isBiased = conversions.findType(items[first]) == session.types.u64 && conversions.findType(items[first + 1]) == session.types.u64;
    auto bound = [&](const Operand &value) {
      if (isBiased) return biased(emitter.cast(conversions.emit(value), session.types.i64));
      return conversions.findType(value) == session.types.u64 ? clipped(value) : conversions.convert(value, type);
    };
    box.isBiased.push_back(isBiased);
    box.lower.push_back(bound(items[first]));
    box.upper.push_back(bound(items[first + 1]));
    box.steps.push_back(conversions.findType(items[first + 2]) == session.types.u64 ? clipped(items[first + 2])
                                                                                    : conversions.convert(items[first + 2], type));
    hasSteps |= step != 1;
    if (!step) statements().require(emitter.nonZero(box.steps.back()), "range() arg 3 must not be zero");
  }
  if (iterations.getActiveBits() > 63) fail(error::kSyntax, artifact::kTooManyIterations);
  if (!hasSteps) box.steps.clear();
  box.axes = range.axes;
  box.isGrouped = range.isGrouped;
  box.isNdrange = range.isNdrange;
  if (!range.isNdrange || box.isGrouped || countTargets(target) == box.lower.size()) return box;
  At here(context, target);
  fail(error::kSyntax, "Ndrange for loop with number of the loop variables not equal to the dimension of the ndrange is not supported");
}

Operand LoopRanges::chooseRange(nb::handle at, mlir::Value condition) {
  At here(context, at);
  Operand sides[2] = {expressions().visit(getAttribute(at, names().body)), expressions().visit(getAttribute(at, names().orelse))};
  for (Operand &side : sides) {
    if (side.isObject()) side = toRange(side);
    auto *range = side.find<Range>();
    if (!range || range->isNdrange)
      fail(error::kSyntax,
           "Using non static inlined if statement as for-loop iterable is not currently supported. (for others than range)");
  }
  auto other = sides[1].get<Range>().items.begin();
  return mapItems(sides[0], [&](const Operand &item) {
    Type type = boundType({item, *other});
    return operators().select(makeComputed(condition), makeComputed(conversions.convert(item, type)),
                              makeComputed(conversions.convert(*other++, type)));
  });
}

size_t LoopRanges::countAxes(const Operand &container) {
  auto *view = container.find<View>();
  return view ? Views::listRanges(*view).size() : size_t(container.get<Tensor>().type.getRank());
}

std::pair<mlir::Value, mlir::Value> LoopRanges::findBounds(const Operand &container, size_t axis) {
  if (auto *view = container.find<View>()) {
    mlir::Value count = emitter.cast(subscripts().indexValue(Views::listRanges(*view)[axis].getCount(), axis), session.types.i32);
    return {emitter.constant(0, count.getType()), count};
  }
  const auto &tensor = container.get<Tensor>();
  int64_t first = tensor.type.getFirst(int64_t(axis));
  mlir::Value last = subscripts().extent(tensor, int(axis));
  if (first) last = create<ir::BinaryOp>(BinaryKind::add, last, emitter.constant(first, last.getType()));
  return {emitter.constant(first, last.getType()), last};
}

Operand LoopRanges::leafTensor(Operand container) {
  while (session.python.isInstance(container.getObject(), session.python.containers.structField)) {
    nb::object fields = getAttribute(container.getObject(), names().field_dict);
    auto [name, field] = *nb::borrow<nb::dict>(fields).begin();
    container = structs().structFieldMember(container.get<PythonObject>(), name, field);
  }
  return container;
}

std::vector<std::pair<mlir::Value, mlir::Value>> LoopRanges::listBounds(Operand container) {
  std::vector<std::pair<mlir::Value, mlir::Value>> bounds;
  if (session.python.isInstance(container.getObject(), session.python.containers.node)) {
    auto bound = [&](nb::handle end) { return emitter.constant(nb::cast<int64_t>(end), session.types.i32); };
    const auto &node = container.get<PythonObject>();
    const PathNode *path = session.tracker.getStep(node.path, PathStep::Kind::Attribute, "_box");
    nb::object box = getAttribute(node.object, names()._box);
    session.tracker.read(path, box);
    for (nb::handle ends : box) bounds.emplace_back(bound(ends[nb::int_(0)]), bound(ends[nb::int_(1)]));
    return bounds;
  }
  container = leafTensor(container);
  if (!conversions.isTensor(container) && !container.is<View>())
    fail(error::kSyntax, "Cannot loop over the object " + conversions.describe(container) + " in Quadrants scope");
  if (!container.is<View>()) container = conversions.toTensor(container);
  for (size_t axis = 0; axis < countAxes(container); ++axis) bounds.push_back(findBounds(container, axis));
  return bounds;
}

Box LoopRanges::boxOfContainers(const std::vector<Operand> &containers, bool isGrouped, nb::handle target) {
  Box box;
  box.isGrouped = isGrouped;
  for (const auto &[number, container] : llvm::enumerate(containers)) {
    std::vector<std::pair<mlir::Value, mlir::Value>> bounds = listBounds(container);
    if (number > 0 && bounds.size() != box.upper.size()) fail(error::kType, "the containers of qd.zip must have equally many axes");
    for (const auto &[axis, ends] : llvm::enumerate(bounds)) {
      if (number > 0) {
        box.upper[axis] = create<ir::BinaryOp>(BinaryKind::min, box.upper[axis], emitter.cast(ends.second, box.upper[axis].getType()));
        continue;
      }
      box.lower.push_back(ends.first);
      box.upper.push_back(ends.second);
    }
  }
  checkIndices(box, target);
  return box;
}

void LoopRanges::checkIndices(const Box &box, nb::handle target) {
  size_t targets = countTargets(target), rank = box.lower.size();
  At here(context, target);
  if (box.isGrouped && targets != 1) fail(error::kSyntax, "Group for should have 1 loop target, found " + std::to_string(targets));
  if (!box.isGrouped && targets != rank)
    fail(error::kSyntax, "Number of struct-for indices does not match loop variable dimensionality (" + std::to_string(targets) +
                             " != " + std::to_string(rank) + ")");
}

Box LoopRanges::boxOfSlice(const Operand &container, const std::vector<Operand> &indices, nb::handle target) {
  size_t rank = countAxes(container);
  if (indices.size() > rank)
    fail(error::kIndex,
         "a container with " + std::to_string(rank) + " axes has no slice with " + std::to_string(indices.size()) + " indices");
  Box box;
  for (size_t axis = 0; axis < rank; ++axis) {
    // An axis with an index is not part of the box; an axis without index or slice is complete.
    auto *slice = axis < indices.size() ? indices[axis].find<Slice>() : nullptr;
    if (axis < indices.size() && !slice) continue;
    auto [first, last] = findBounds(container, axis);
    auto clamp = [&, first = first, last = last](size_t which, mlir::Value whole) -> mlir::Value {
      if (!slice || slice->items[which].isNone()) return whole;
      const Operand &given = slice->items[which];
      mlir::Value value = conversions.convert(given, last.getType());
      bool isFromEnd = conversions.findInteger(given).value_or(0) < 0 && ir::findInteger(first) == 0;
      if (isFromEnd) value = create<ir::BinaryOp>(BinaryKind::add, last, value);
      return create<ir::BinaryOp>(BinaryKind::min, create<ir::BinaryOp>(BinaryKind::max, value, first), last);
    };
    box.lower.push_back(clamp(0, first));
    box.upper.push_back(clamp(1, last));
    Operand step = slice ? slice->items[2] : makeObject(nb::none());
    if (!step.isNone() && conversions.findInteger(step).value_or(0) < 1)
      fail(error::kSyntax, "the step of a slice that is looped over must be positive and known while compiling");
    box.steps.push_back(emitter.constant(conversions.findInteger(step).value_or(1), last.getType()));
  }
  checkIndices(box, target);
  return box;
}

} // namespace qd::frontend
