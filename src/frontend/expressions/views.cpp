// views.cpp: subviews of containers: `a[i, lo:hi]`, qd.BufferView, and their elements
//
// In:   a container or view with indices, slices, or offset and size.
// Out:  a value of kind View, which has for each axis of the container a fixed index or a range (start, count and step), or an element.
// Here: views exist only in the frontend: an element of a view is an element of the container. A view that Python has constructed is a
//       container here.
#include "frontend/builder.h"

using namespace mlir;

namespace qd::frontend {

static const Operand &getStart(const Operand &range) { return range.aggregate->items[0]; }
static const Operand &getCount(const Operand &range) { return range.aggregate->items[1]; }
static const Operand &getStep(const Operand &range) { return range.aggregate->items[2]; }

Operand Views::toView(const Operand &value) {
  if (value.is(Kind::View)) return value;
  if (!conversions.isTensor(value)) fail(error::kType, "a view is of an array, got " + conversions.describe(value));
  Operand tensor = conversions.toTensor(value);
  auto type = mlir::cast<ir::TensorType>(tensor.type);
  std::vector<Operand> items{tensor};
  std::vector<Operand> extents = subscripts().tensorShape(tensor).aggregate->items;
  for (int64_t axis = 0; axis < type.getRank(); ++axis)
    items.push_back(
        makeAggregate(Kind::Range, {makeObject(nb::int_(type.getFirst(axis))), extents[size_t(axis)], makeObject(nb::int_(1))}));
  return makeAggregate(Kind::View, std::move(items));
}

std::vector<Operand> Views::listRanges(const Operand &view) {
  std::vector<Operand> ranges;
  for (const Operand &axis : view.aggregate->items)
    if (axis.is(Kind::Range)) ranges.push_back(axis);
  return ranges;
}

Operand Views::combineIndices(BinaryKind kind, const Operand &first, const Operand &second, llvm::StringRef spelling) {
  // With a run-time index, a literal is an i32, not a default_ip.
  auto like = [&](const Operand &value, const Operand &other) {
    auto literal = conversions.findInteger(value);
    return literal && !conversions.isConstant(other) && llvm::isInt<32>(*literal)
               ? makeComputed(emitter.constant(*literal, session.types.i32))
               : value;
  };
  return operators().binary(kind, like(first, second), like(second, first), spelling);
}

Operand Views::add(const Operand &first, const Operand &second) {
  if (conversions.findInteger(second) == 0) return first;
  if (conversions.findInteger(first) == 0) return second;
  return combineIndices(BinaryKind::add, first, second, "+");
}

Operand Views::subtract(const Operand &first, const Operand &second) {
  return conversions.findInteger(second) == 0 ? first : combineIndices(BinaryKind::sub, first, second, "-");
}

Operand Views::multiply(const Operand &first, const Operand &second) {
  if (conversions.findInteger(second) == 1) return first;
  if (conversions.findInteger(first) == 1) return second;
  return combineIndices(BinaryKind::mul, first, second, "*");
}

Operand Views::viewBound(const Operand &bound) {
  if (conversions.findInteger(bound).value_or(0) < 0)
    fail(error::kSyntax, "Negative indices are not supported in Quadrants kernels: the size of a view is known at run time only");
  Type type = conversions.findType(bound);
  if (!type || !ir::isIntegerScalar(type))
    fail(error::kType, "indices must be integers, however '" + conversions.describe(bound) + "' is provided");
  return conversions.isConstant(bound) ? bound : makeComputed(subscripts().indexValue(bound, 0));
}

Operand Views::sliceRange(const Operand &range, const Operand &slice) {
  const std::vector<Operand> &bounds = slice.aggregate->items;
  int64_t step = bounds[2].isNone() ? 1 : conversions.findInteger(bounds[2]).value_or(0);
  if (step == 0) fail(error::kSyntax, "the step of a slice is an integer other than 0 that is known while compiling");
  auto number = [](int64_t value) { return makeObject(nb::int_(value)); };
  const Operand &parent = getCount(range);
  Operand start, count;
  Operation *check = nullptr;
  if (step > 0) {
    start = bounds[0].isNone() ? number(0) : viewBound(bounds[0]);
    Operand stop = bounds[1].isNone() ? parent : viewBound(bounds[1]);
    check = checkSlice({start, subtract(stop, start), stop}, start, subtract(stop, start), parent);
    count = subtract(stop, start);
    if (step > 1) count = combineIndices(BinaryKind::floor_div, add(count, number(step - 1)), number(step), "//");
  } else {
    start = bounds[0].isNone() ? subtract(parent, number(1)) : viewBound(bounds[0]);
    Operand end = add(start, number(1)), stop = bounds[1].isNone() ? number(0) : add(viewBound(bounds[1]), number(1));
    check = checkSlice({end, subtract(end, stop), stop}, start, subtract(end, stop), parent);
    count = combineIndices(BinaryKind::floor_div, add(subtract(end, stop), number(-step - 1)), number(-step), "//");
  }
  Operand result =
      makeAggregate(Kind::Range, {add(getStart(range), multiply(start, getStep(range))), count, multiply(number(step), getStep(range))});
  result.aggregate->check = check;
  return result;
}

Operation *Views::checkWithin(const std::vector<std::pair<Operand, Operand>> &indices, BinaryKind kind, artifact::Site::Kind site,
                              llvm::StringRef what, llvm::function_ref<void(Fragments &)> describeValues) {
  if (!session.options.checksBounds) return nullptr;
  // Compares unsigned numbers, among which negative indices exceed every size.
  Operand isWithin = makeComputed(emitter.constant(1, session.types.u1));
  for (const auto &[index, limit] : indices)
    isWithin = operators().binary(
        BinaryKind::bit_and, isWithin,
        operators().binary(kind, conversions.callCast(index, session.types.u64), conversions.callCast(limit, session.types.u64), "<"), "&");
  Fragments fragments;
  fragments.text(builder, what);
  if (site == artifact::Site::Kind::View) {
    llvm::StringRef kernel = session.artifact.kernel;
    fragments.text(builder, ("kernel[" + kernel.substr(kernel.rfind('.') + 1) + "] tid=").str());
    fragments.fragments.push_back(builder.getUnitAttr());
  }
  describeValues(fragments);
  fragments.text(builder, ".");
  return create<ir::AssertOp>(conversions.emit(isWithin), uint32_t(site), builder.getArrayAttr(fragments.fragments), fragments.values);
}

Operation *Views::checkSlice(const std::vector<Operand> &bounds, const Operand &start, const Operand &size, const Operand &parent) {
  std::vector<std::pair<Operand, Operand>> limits;
  for (const Operand &bound : bounds) limits.emplace_back(bound, parent);
  return checkWithin(limits, BinaryKind::le, artifact::Site::Kind::View, "BufferView subview Out Of Range: ", [&](Fragments &text) {
    printing().addLabeled(text, ", subview offset=", start);
    printing().addLabeled(text, ", subview size=", size);
    printing().addLabeled(text, ", parent size=", parent);
  });
}

void Views::checkViewIndices(const Operand &view, const std::vector<Operand> &indices, const std::vector<Operand> &counts) {
  if (!session.options.checksBounds) return;
  std::vector<std::pair<Operand, Operand>> limits;
  for (size_t axis = 0; axis < indices.size(); ++axis) limits.emplace_back(indices[axis], counts[axis]);
  checkWithin(limits, BinaryKind::lt, artifact::Site::Kind::View, "BufferView Out Of Range: ", [&](Fragments &text) {
    printing().addList(text, ", got index ", indices);
    printing().addLabeled(text, " (offset=", viewOffset(view));
    printing().addList(text, counts.size() == 1 ? ", size=" : ", shape=", counts);
    text.text(builder, ")");
  });
}

Operand Views::clampIndex(const Operand &index, const Operand &count) {
  Operand last = subtract(count, makeObject(nb::int_(1)));
  Operand below = operators().binary(BinaryKind::min, makeComputed(subscripts().indexValue(index, 0)), last, "min");
  return operators().binary(BinaryKind::max, below, makeObject(nb::int_(0)), "max");
}

Operand Views::subscriptView(const Operand &view, const std::vector<Operand> &given) {
  std::vector<Operand> indices = subscripts().flattenIndices(given);
  auto isEllipsis = [](const Operand &index) { return index.isObject() && index.object.ptr() == Py_Ellipsis; };
  std::vector<Operand> ranges = listRanges(view), positions, counts;
  auto whole = [] { return makeAggregate(Kind::Range, std::vector<Operand>(3, makeObject(nb::none()))); };
  if (auto found = llvm::find_if(indices, isEllipsis); found != indices.end()) {
    size_t missing = ranges.size() + 1 - std::min(indices.size(), ranges.size() + 1);
    found = indices.erase(found);
    indices.insert(found, missing, whole());
  }
  bool hasSlice = llvm::any_of(indices, [](const Operand &index) { return index.is(Kind::Range); });
  if (indices.size() > ranges.size() || (indices.size() < ranges.size() && !hasSlice) || llvm::any_of(indices, isEllipsis))
    fail(error::kIndex, std::to_string(ranges.size()) + "d view indexed with " + std::to_string(indices.size()) + "d indices");
  Operand result = makeAggregate(Kind::View, {view.aggregate->items[0]});
  auto next = indices.begin();
  for (const Operand &axis : llvm::drop_begin(view.aggregate->items)) {
    std::vector<Operand> &items = result.aggregate->items;
    if (!axis.is(Kind::Range) || next == indices.end()) {
      items.push_back(axis);
      continue;
    }
    const Operand &index = *next++;
    if (index.is(Kind::Range)) {
      bool isWhole = llvm::all_of(index.aggregate->items, [](const Operand &bound) { return bound.isNone(); });
      items.push_back(isWhole ? axis : sliceRange(axis, index));
      continue;
    }
    Operand position = view.aggregate->items[0].isClamped ? clampIndex(index, getCount(axis)) : viewBound(index);
    positions.push_back(position);
    counts.push_back(getCount(axis));
    items.push_back(add(getStart(axis), multiply(position, getStep(axis))));
  }
  if (!positions.empty()) checkViewIndices(view, positions, counts);
  if (!listRanges(result).empty()) return result;
  return subscripts().subscriptTensor(view.aggregate->items[0],
                                      {llvm::drop_begin(result.aggregate->items).begin(), result.aggregate->items.end()});
}

bool Views::isHostView(const Operand &tensor) { return tensor.path && session.python.isInstance(tensor.object, session.python.bufferView); }

void Views::requireNoHostView(const Operand &tensor) {
  // Only views have an attribute `offset`.
  session.tracker.depend(session.tracker.getStep(tensor.path, PathStep::Kind::Attribute, "offset"), artifact::Dependency::Kind::Absent);
}

Operand Views::viewOffset(const Operand &container) {
  const Operand &tensor = container.is(Kind::View) ? container.aggregate->items[0] : container;
  const PathNode *path = session.tracker.getStep(tensor.path, PathStep::Kind::Attribute, "offset");
  Operand offset = isHostView(tensor) ? conversions.makeInput(path, session.types.i32) : makeObject(nb::int_(0));
  if (!isHostView(tensor)) requireNoHostView(tensor);
  if (!container.is(Kind::View)) return conversions.load(offset);
  auto type = mlir::cast<ir::TensorType>(tensor.type);
  std::vector<Operand> steps = viewStrides(tensor).aggregate->items;
  for (int64_t axis = 0; axis < type.getRank(); ++axis) {
    const Operand &item = container.aggregate->items[size_t(axis) + 1];
    Operand start = add(item.is(Kind::Range) ? getStart(item) : item, makeObject(nb::int_(-type.getFirst(axis))));
    offset = add(conversions.load(offset), multiply(start, steps[size_t(axis)]));
  }
  return conversions.load(offset);
}

Operand Views::viewStrides(const Operand &container) {
  const Operand &tensor = container.is(Kind::View) ? container.aggregate->items[0] : container;
  std::vector<Operand> extents = subscripts().tensorShape(tensor).aggregate->items, strides(extents.size(), makeObject(nb::int_(1)));
  const PathNode *path = session.tracker.getStep(tensor.path, PathStep::Kind::Attribute, "strides");
  for (size_t axis = extents.size(); axis-- > 0;) {
    if (isHostView(tensor))
      strides[axis] = conversions.load(
          conversions.makeInput(session.tracker.getStep(path, PathStep::Kind::Item, "", int64_t(axis)), session.types.i32));
    else if (axis + 1 < extents.size())
      strides[axis] = multiply(strides[axis + 1], extents[axis + 1]);
  }
  if (!isHostView(tensor)) requireNoHostView(tensor);
  if (!container.is(Kind::View)) return makeTuple(strides);
  std::vector<Operand> left;
  for (size_t axis = 0; axis < strides.size(); ++axis)
    if (const Operand &item = container.aggregate->items[axis + 1]; item.is(Kind::Range))
      left.push_back(multiply(strides[axis], getStep(item)));
  return makeTuple(std::move(left));
}

Operand Views::clippedView(const Operand &view) {
  const Operand &tensor = view.aggregate->items[0];
  auto type = mlir::cast<ir::TensorType>(tensor.type);
  std::vector<Operand> extents = subscripts().tensorShape(tensor).aggregate->items;
  Operand result = makeAggregate(Kind::View, {tensor});
  for (auto [axis, item] : llvm::enumerate(llvm::drop_begin(view.aggregate->items))) {
    result.aggregate->items.push_back(item);
    if (!item.is(Kind::Range)) continue;
    if (conversions.findInteger(getStep(item)) != 1) fail(error::kSyntax, "a slice in a tile operation has no step");
    if (Operation *check = std::exchange(item.aggregate->check, nullptr)) check->erase();
    Operand left = subtract(add(extents[axis], makeObject(nb::int_(type.getFirst(int64_t(axis))))), getStart(item));
    Operand count = combineIndices(BinaryKind::min, getCount(item), left, "min");
    result.aggregate->items.back() = makeAggregate(Kind::Range, {getStart(item), count, getStep(item)});
  }
  return result;
}

Operand Views::viewAttribute(const Operand &view, nb::handle name) {
  llvm::StringRef text = toText(name);
  std::vector<Operand> counts = listValues(listRanges(view), [](const Operand &range) { return getCount(range); });
  if (text == "offset") return viewOffset(view);
  if (text == "_offset") return makeTuple(std::vector<Operand>(counts.size(), makeObject(nb::int_(0))));
  if (text == "strides") return viewStrides(view);
  if (text == "shape") return makeTuple(counts);
  if (text == "size") return productOf(counts);
  if (text == "ndim") return makeObject(nb::int_(counts.size()));
  if (text == "subview") return makeMethod(view, name);
  if (text != "grad" && text != "dual") return attributes().tensorAttribute(view.aggregate->items[0], name);
  Operand shadow = view;
  shadow.aggregate = std::make_shared<Aggregate>(*view.aggregate);
  shadow.aggregate->items[0] = conversions.toTensor(attributes().tensorAttribute(view.aggregate->items[0], name));
  return shadow;
}

Operand Views::productOf(const std::vector<Operand> &counts) {
  Operand product = makeObject(nb::int_(1));
  for (const Operand &count : counts) product = multiply(product, count);
  return product;
}

Operand Views::subview(const Operand &view, const Operand &start, const Operand &size) {
  size_t rank = listRanges(view).size();
  if (rank != 1) fail(error::kType, "a subview is of a view with one axis (1D), got " + std::to_string(rank) + " axes: slice it");
  Operand first = viewBound(start), stop = add(first, viewBound(size));
  return subscriptView(view, {makeAggregate(Kind::Range, {first, stop, makeObject(nb::none())})});
}

Operand Views::makeView(Arguments &arguments) {
  std::vector<Operand> given = calls().bind("qd.BufferView", arguments, "arr offset size");
  if (given[0].is(Kind::View) || !conversions.isTensor(given[0]))
    return subview(toView(given[0]), conversions.load(given[1]), conversions.load(given[2]));
  Operand whole = toView(given[0]);
  std::vector<Operand> ranges = listRanges(whole);
  if (ranges.size() != 1)
    fail(error::kType, "qd.BufferView takes an array with one axis (1D), got " + std::to_string(ranges.size()) + " axes: slice it");
  Operand start = viewBound(conversions.load(given[1])), size = viewBound(conversions.load(given[2])), length = getCount(ranges[0]);
  checkWithin({{start, length}, {size, length}, {add(start, size), length}}, BinaryKind::le, artifact::Site::Kind::Bounds,
              "BufferView construction out of range: ", [&](Fragments &text) {
                printing().addLabeled(text, "offset=", start);
                printing().addLabeled(text, ", size=", size);
                printing().addLabeled(text, ", ndarray length=", length);
              });
  whole.aggregate->items[1] = makeAggregate(Kind::Range, {add(getStart(ranges[0]), start), size, makeObject(nb::int_(1))});
  return whole;
}

} // namespace qd::frontend
