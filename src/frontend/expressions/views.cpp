// views.cpp: subviews of containers: `a[i, lo:hi]`, qd.BufferView, and their elements
//
// In:   a container or view with indices, slices, or offset and size.
// Out:  a View, which has for each axis of the container a fixed index or a range (start, count and step), or an element.
// Here: views exist only in the frontend: an element of a view is an element of the container. A view that Python has constructed is a
//       container here.
#include "frontend/builder.h"

using namespace mlir;

namespace qd::frontend {

View Views::toView(const Operand &value) {
  if (auto *view = value.find<View>()) return *view;
  if (!conversions.isTensor(value)) fail(error::kType, "a view is of an array, got " + conversions.describe(value));
  Tensor tensor = conversions.toTensor(value);
  View view{{{tensor}}};
  for (const auto &[axis, extent] : llvm::enumerate(subscripts().tensorShape(tensor)))
    view.items.push_back(
        makeAggregate<AxisRange>({makeObject(nb::int_(tensor.type.getFirst(int64_t(axis)))), extent, makeObject(nb::int_(1))}));
  return view;
}

std::vector<AxisRange> Views::listRanges(const View &view) {
  std::vector<AxisRange> ranges;
  for (const Operand &axis : view.getAxes())
    if (auto *range = axis.find<AxisRange>()) ranges.push_back(*range);
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

AxisRange Views::sliceRange(const AxisRange &range, const Slice &slice) {
  const std::vector<Operand> &bounds = slice.items;
  int64_t step = bounds[2].isNone() ? 1 : conversions.findInteger(bounds[2]).value_or(0);
  if (step == 0) fail(error::kSyntax, "the step of a slice is an integer other than 0 that is known while compiling");
  auto number = [](int64_t value) { return makeObject(nb::int_(value)); };
  const Operand &parent = range.getCount();
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
  return {{{add(range.getStart(), multiply(start, range.getStep())), count, multiply(number(step), range.getStep())}}, check};
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

Operand Views::subscriptView(const View &view, const std::vector<Operand> &given) {
  std::vector<Operand> indices = subscripts().flattenIndices(given);
  auto isEllipsis = [](const Operand &index) { return index.getObject().ptr() == Py_Ellipsis; };
  size_t rank = listRanges(view).size();
  std::vector<Operand> positions, counts;
  auto whole = [] { return makeAggregate<Slice>(std::vector<Operand>(3, makeObject(nb::none()))); };
  if (auto found = llvm::find_if(indices, isEllipsis); found != indices.end()) {
    size_t missing = rank + 1 - std::min(indices.size(), rank + 1);
    found = indices.erase(found);
    indices.insert(found, missing, whole());
  }
  bool hasSlice = llvm::any_of(indices, [](const Operand &index) { return index.is<Slice>(); });
  if (indices.size() > rank || (indices.size() < rank && !hasSlice) || llvm::any_of(indices, isEllipsis))
    fail(error::kIndex, std::to_string(rank) + "d view indexed with " + std::to_string(indices.size()) + "d indices");
  View result{{{view.getContainer()}}};
  auto next = indices.begin();
  for (const Operand &axis : view.getAxes()) {
    auto *range = axis.find<AxisRange>();
    if (!range || next == indices.end()) {
      result.items.push_back(axis);
      continue;
    }
    const Operand &index = *next++;
    if (auto *slice = index.find<Slice>()) {
      bool isWhole = llvm::all_of(slice->items, [](const Operand &bound) { return bound.isNone(); });
      result.items.push_back(isWhole ? axis : sliceRange(*range, *slice));
      continue;
    }
    Operand position = view.getContainer().isClamped ? clampIndex(index, range->getCount()) : viewBound(index);
    positions.push_back(position);
    counts.push_back(range->getCount());
    result.items.push_back(add(range->getStart(), multiply(position, range->getStep())));
  }
  if (!positions.empty()) checkViewIndices(view, positions, counts);
  if (!listRanges(result).empty()) return result;
  return subscripts().subscriptTensor(view.getContainer(), {result.getAxes().begin(), result.getAxes().end()});
}

bool Views::isHostView(const Tensor &tensor) {
  return tensor.path && session.python.isInstance(tensor.object, session.python.containers.bufferView);
}

void Views::requireNoHostView(const Tensor &tensor) {
  // Only views have an attribute `offset`.
  session.tracker.depend(session.tracker.getStep(tensor.path, PathStep::Kind::Attribute, "offset"), artifact::Dependency::Kind::Absent);
}

Operand Views::viewOffset(const Operand &container) {
  auto *view = container.find<View>();
  const Tensor &tensor = view ? view->getContainer() : container.get<Tensor>();
  const PathNode *path = session.tracker.getStep(tensor.path, PathStep::Kind::Attribute, "offset");
  Operand offset = isHostView(tensor) ? conversions.makeInput(path, session.types.i32) : makeObject(nb::int_(0));
  if (!isHostView(tensor)) requireNoHostView(tensor);
  if (!view) return conversions.load(offset);
  std::vector<Operand> steps = viewStrides(tensor);
  for (const auto &[axis, item] : llvm::enumerate(view->getAxes())) {
    auto *range = item.find<AxisRange>();
    Operand start = add(range ? range->getStart() : item, makeObject(nb::int_(-tensor.type.getFirst(int64_t(axis)))));
    offset = add(conversions.load(offset), multiply(start, steps[axis]));
  }
  return conversions.load(offset);
}

std::vector<Operand> Views::viewStrides(const Operand &container) {
  auto *view = container.find<View>();
  const Tensor &tensor = view ? view->getContainer() : container.get<Tensor>();
  std::vector<Operand> extents = subscripts().tensorShape(tensor), strides(extents.size(), makeObject(nb::int_(1)));
  const PathNode *path = session.tracker.getStep(tensor.path, PathStep::Kind::Attribute, "strides");
  for (size_t axis = extents.size(); axis-- > 0;) {
    if (isHostView(tensor))
      strides[axis] = conversions.load(
          conversions.makeInput(session.tracker.getStep(path, PathStep::Kind::Item, "", int64_t(axis)), session.types.i32));
    else if (axis + 1 < extents.size())
      strides[axis] = multiply(strides[axis + 1], extents[axis + 1]);
  }
  if (!isHostView(tensor)) requireNoHostView(tensor);
  if (!view) return strides;
  std::vector<Operand> left;
  for (const auto &[item, stride] : llvm::zip_equal(view->getAxes(), strides))
    if (auto *range = item.find<AxisRange>()) left.push_back(multiply(stride, range->getStep()));
  return left;
}

View Views::clippedView(const View &view) {
  const Tensor &tensor = view.getContainer();
  std::vector<Operand> extents = subscripts().tensorShape(tensor);
  View result{{{tensor}}};
  for (const auto &[axis, item] : llvm::enumerate(view.getAxes())) {
    result.items.push_back(item);
    auto *range = item.find<AxisRange>();
    if (!range) continue;
    if (conversions.findInteger(range->getStep()) != 1) fail(error::kSyntax, "a slice in a tile operation has no step");
    if (Operation *check = std::exchange(range->check, nullptr)) check->erase();
    Operand left = subtract(add(extents[axis], makeObject(nb::int_(tensor.type.getFirst(int64_t(axis))))), range->getStart());
    Operand count = combineIndices(BinaryKind::min, range->getCount(), left, "min");
    result.items.back() = makeAggregate<AxisRange>({range->getStart(), count, range->getStep()});
  }
  return result;
}

Operand Views::viewAttribute(const View &view, nb::handle name) {
  llvm::StringRef text = toText(name);
  std::vector<Operand> counts = listOperands(listRanges(view), [](const AxisRange &range) { return range.getCount(); });
  if (text == "offset") return viewOffset(view);
  if (text == "_offset") return makeTuple(std::vector<Operand>(counts.size(), makeObject(nb::int_(0))));
  if (text == "strides") return makeTuple(viewStrides(view));
  if (text == "shape") return makeTuple(counts);
  if (text == "size") return productOf(counts);
  if (text == "ndim") return makeObject(nb::int_(counts.size()));
  if (text == "subview") return makeMethod(view, name);
  if (text != "grad" && text != "dual") return attributes().tensorAttribute(view.getContainer(), name);
  View shadow = view;
  shadow.items[0] = conversions.toTensor(attributes().tensorAttribute(view.getContainer(), name));
  return shadow;
}

Operand Views::productOf(const std::vector<Operand> &counts) {
  Operand product = makeObject(nb::int_(1));
  for (const Operand &count : counts) product = multiply(product, count);
  return product;
}

Operand Views::subview(const View &view, const Operand &start, const Operand &size) {
  size_t rank = listRanges(view).size();
  if (rank != 1) fail(error::kType, "a subview is of a view with one axis (1D), got " + std::to_string(rank) + " axes: slice it");
  Operand first = viewBound(start), stop = add(first, viewBound(size));
  return subscriptView(view, {makeAggregate<Slice>({first, stop, makeObject(nb::none())})});
}

Operand Views::makeView(Arguments &arguments) {
  std::vector<Operand> given = calls().bind("qd.BufferView", arguments, "arr offset size");
  if (given[0].is<View>() || !conversions.isTensor(given[0]))
    return subview(toView(given[0]), conversions.load(given[1]), conversions.load(given[2]));
  View whole = toView(given[0]);
  std::vector<AxisRange> ranges = listRanges(whole);
  if (ranges.size() != 1)
    fail(error::kType, "qd.BufferView takes an array with one axis (1D), got " + std::to_string(ranges.size()) + " axes: slice it");
  Operand start = viewBound(conversions.load(given[1])), size = viewBound(conversions.load(given[2])), length = ranges[0].getCount();
  checkWithin({{start, length}, {size, length}, {add(start, size), length}}, BinaryKind::le, artifact::Site::Kind::Bounds,
              "BufferView construction out of range: ", [&](Fragments &text) {
                printing().addLabeled(text, "offset=", start);
                printing().addLabeled(text, ", size=", size);
                printing().addLabeled(text, ", ndarray length=", length);
              });
  whole.items[1] = makeAggregate<AxisRange>({add(ranges[0].getStart(), start), size, makeObject(nb::int_(1))});
  return whole;
}

} // namespace qd::frontend
