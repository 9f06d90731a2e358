// subscripts.cpp: indices, slices and swizzles of containers, vectors, lists and Python objects
//
// In:   a base and the syntax node or values of its indices.
// Out:  a place, a value, a view, or a compile-time object.
// Here: constant indices are checked and wrapped now; a pass adds the checks of run-time indices.
#include "frontend/builder.h"

#include <numeric>

using namespace mlir;

namespace qd::frontend {

Operand Subscripts::visitSubscript(nb::handle at) {
  Operand base = expressions().visit(getAttribute(at, names().value));
  return subscript(base, getAttribute(at, names().slice));
}

std::vector<Operand> Subscripts::visitIndices(nb::handle index) {
  auto visitOne = [&](nb::handle part) -> Operand {
    if (kindOf(part) != NodeKind::Slice) return conversions.load(expressions().visit(part));
    Slice slice;
    slice.length = knownLength(part);
    for (const nb::object &name : {names().lower, names().upper, names().step}) {
      nb::object bound = getAttribute(part, name);
      slice.items.push_back(bound.is_none() ? makeObject(nb::none()) : conversions.load(expressions().visit(bound)));
    }
    return slice;
  };
  if (kindOf(index) != NodeKind::Tuple) return {visitOne(index)};
  At here(context, index);
  return collections().visitAll(getAttribute(index, names().elts), visitOne);
}

int64_t Subscripts::knownLength(nb::handle slice) {
  // Splits `i + 1` into ("i", 1).
  auto split = [&](nb::handle bound) -> std::pair<nb::object, int64_t> {
    nb::object base = nb::borrow(bound);
    int64_t sign = 0;
    if (kindOf(bound) == NodeKind::BinOp) {
      NodeKind op = kindOf(getAttribute(bound, names().op));
      sign = op == NodeKind::Add ? 1 : op == NodeKind::Sub ? -1 : 0;
    }
    std::optional<int64_t> offset;
    nb::object number = sign != 0 ? findAttribute(getAttribute(bound, names().right), names().value) : nb::object();
    if (number) offset = conversions.findInteger(makeObject(number));
    if (offset) base = getAttribute(bound, names().left);
    return {nb::module_::import_("ast").attr("dump")(base), offset ? sign * *offset : 0};
  };
  nb::object lower = getAttribute(slice, names().lower), upper = getAttribute(slice, names().upper);
  if (lower.is_none() || upper.is_none() || !getAttribute(slice, names().step).is_none()) return 0;
  auto [first, start] = split(lower);
  auto [last, stop] = split(upper);
  // Two calls may return different values.
  return first.equal(last) && toText(first).find("Call(") == llvm::StringRef::npos ? stop - start : 0;
}

std::vector<Operand> Subscripts::flattenIndices(const std::vector<Operand> &given) {
  std::vector<Operand> indices;
  for (const Operand &index : given) {
    bool isVector = isa_and_nonnull<VectorType>(index.getType()) || isList(index) ||
                    session.python.isInstance(index.getObject(), session.python.values.matrix);
    if (isVector)
      llvm::append_range(indices, collections().listItems(index, "index with"));
    else
      indices.push_back(index);
  }
  return indices;
}

int64_t Subscripts::wrapIndex(int64_t index, int64_t size, const llvm::Twine &container) {
  int64_t wrapped = index < 0 ? index + size : index;
  if (wrapped < 0 || wrapped >= size) fail(error::kIndex, "index " + std::to_string(index) + " is out of range of " + container);
  return wrapped;
}

Operand Subscripts::subscript(const Operand &base, nb::handle index) {
  if (base.is<Struct>() && !instances().hasSpecial(base, "__getitem__")) {
    nb::object name = conversions.toPython(expressions().visit(index));
    if (!name || !PyUnicode_Check(name.ptr())) fail(error::kType, "a struct is indexed with the name of a member");
    return attributes().structAttribute(base, name);
  }
  return subscriptValues(base, visitIndices(index), kindOf(index) == NodeKind::Tuple);
}

Operand Subscripts::subscriptValues(const Operand &base, const std::vector<Operand> &indices, bool isTuple) {
  if (conversions.isTensor(base)) return subscriptTensor(conversions.toTensor(base), indices);
  if (auto *view = base.find<View>()) return views().subscriptView(*view, indices);
  if (base.isTyped()) return subscriptVector(base, indices);
  if (session.python.isInstance(base.getObject(), session.python.containers.structField))
    return structs().structElement(base.get<PythonObject>(),
                                   [&](const Operand &member) { return subscriptTensor(conversions.toTensor(member), indices); });
  auto *object = base.find<PythonObject>();
  if (std::optional<int64_t> known; object && object->isIndex && indices.size() == 1 && (known = conversions.findInteger(indices[0]))) {
    std::vector<Operand> components = collections().listItems(base, "index");
    return components[size_t(wrapIndex(*known, int64_t(components.size()), "the index of the loop"))];
  }
  if (session.python.isInstance(base.getObject(), session.python.values.matrix))
    return subscriptVector(makeComputed(conversions.emitHostMatrix(object->object)), indices);
  Operand key = isTuple ? makeTuple(indices) : indices[0];
  if (base.is<Sequence>() || base.is<Dictionary>()) return subscriptSequence(base, key);
  if (!object || !conversions.isConstant(key))
    if (std::optional<Operand> item = instances().callSpecial(base, "__getitem__", {collections().copyElement(key)})) return *item;
  if (object) return subscriptObject(base, key);
  fail(error::kType, "'" + conversions.describe(base) + "' cannot be indexed");
}

mlir::Value Subscripts::indexValue(const Operand &value, size_t position) {
  mlir::Value index = conversions.emit(value);
  Type type = index.getType();
  if (!ir::isIntegerScalar(type))
    fail(error::kType, "indices must be integers, however '" + ir::describe(type) + "' is provided as index " + std::to_string(position));
  if (type.isInteger(1) || type.getIntOrFloatBitWidth() < 32) return emitter.cast(index, session.types.i32);
  return index;
}

Operand Subscripts::subscriptTensor(const Tensor &tensor, const std::vector<Operand> &given) {
  ir::TensorType type = tensor.type;
  bool isField = session.tracker.getInput(tensor.input).isField;
  std::vector<Operand> indices = flattenIndices(given);
  llvm::erase_if(indices, [](const Operand &index) { return index.isNone(); });
  auto rank = size_t(type.getRank());
  bool isPart = llvm::any_of(indices, [](const Operand &index) { return index.is<Slice>() || index.getObject().ptr() == Py_Ellipsis; });
  if (isPart) return viewOf(tensor, indices);
  if (indices.size() != rank) failIndexCount(tensor, indices.size());
  if (tensor.isClamped)
    for (size_t axis = 0; axis < rank; ++axis) indices[axis] = views().clampIndex(indices[axis], makeComputed(extent(tensor, int(axis))));
  if (session.options.checksBounds && views().isHostView(tensor))
    views().checkViewIndices(tensor, indices, tensorShape(tensor));
  else if (session.options.checksBounds && !isField)
    views().requireNoHostView(tensor);
  SmallVector<mlir::Value> operands;
  for (size_t axis = 0; axis < rank; ++axis) {
    int64_t size = type.getExtents()[axis];
    std::optional<int64_t> known = conversions.findInteger(indices[axis]);
    if (known && !type.getOrigin().empty()) {
      int64_t first = type.getFirst(int64_t(axis));
      bool isOutside = *known < first || (size != layout::kDynamic && *known - first >= size);
      if (isOutside && !session.options.checksBounds) // with checks, it is an error only where the code runs
        fail(error::kIndex, "index " + std::to_string(*known) + " is out of range of " + session.tracker.getInput(tensor.input).name +
                                ", whose indices along axis " + std::to_string(axis) + " begin at " + std::to_string(first) +
                                (size == layout::kDynamic ? "" : " and end before " + std::to_string(first + size)));
    } else if (known && size != layout::kDynamic) {
      std::string extent = ", whose extent along axis " + std::to_string(axis) + " is " + std::to_string(size);
      bool isChecked = session.options.checksBounds && (*known < -size || *known >= size);
      int64_t wrapped = isChecked ? *known : wrapIndex(*known, size, session.tracker.getInput(tensor.input).name + extent);
      operands.push_back(emitter.constant(wrapped, wrapped <= INT32_MAX ? session.types.i32 : session.types.i64));
      continue;
    }
    if (known && *known < 0 && type.getOrigin().empty())
      fail(error::kSyntax, "Negative indices are not supported in Quadrants kernels. (the extent is known at run time only)");
    operands.push_back(indexValue(indices[axis], axis));
  }
  if (isField)
    if (std::optional<Operand> packed = packedElements().findElement(tensor, operands)) return *packed;
  if (isField)
    if (std::optional<Place> visited = sparseCells().findVisited(tensor, operands)) return *visited;
  Place place{create<ir::ElementOp>(ir::RefType::get(type.getElement()), conversions.getInput(tensor.input, type), operands)};
  place.isElement = true;
  place.isClamped = tensor.isClamped;
  if (isField) sparseCells().markElement(place, tensor, operands);
  return place;
}

void Subscripts::failIndexCount(const Tensor &tensor, size_t count) {
  auto rank = size_t(tensor.type.getRank());
  std::string hint = count < rank ? "; use f[i, j]: all indices in one bracket" : "";
  if (session.tracker.getInput(tensor.input).isField)
    fail(error::kIndex, "Field with dim " + std::to_string(rank) + " accessed with indices of dim " + std::to_string(count) + hint);
  std::string have = std::to_string(rank), given = std::to_string(count);
  fail(error::kIndex, "Array with dim " + have + " accessed with indices of dim " + given + " (" + have + "d ndarray indexed with " +
                          given + "d indices)" + hint);
}

Operand Subscripts::viewOf(const Tensor &tensor, std::vector<Operand> indices) {
  ir::TensorType type = tensor.type;
  if (indices.size() > size_t(type.getRank()) + 1) failIndexCount(tensor, indices.size());
  // Indices of a view begin at 0, also if the container has another lowest index.
  for (size_t axis = 0; axis < indices.size() && !type.getOrigin().empty(); ++axis) {
    auto place = [&](const Operand &index) {
      return index.isNone() ? index : operators().binary(BinaryKind::sub, index, makeObject(nb::int_(type.getFirst(int64_t(axis)))), "-");
    };
    auto *given = indices[axis].find<Slice>();
    if (!given) {
      indices[axis] = place(indices[axis]);
      continue;
    }
    Slice slice = *given;
    for (size_t bound : {0, 1}) slice.items[bound] = place(slice.items[bound]);
    indices[axis] = slice;
  }
  return views().subscriptView(views().toView(tensor), indices);
}

nb::object Subscripts::makeSlice(const Slice &slice) {
  nb::object bounds[3];
  for (int index = 0; index < 3; ++index) {
    bounds[index] = conversions.toPython(slice.items[size_t(index)]);
    if (!bounds[index]) fail(error::kSyntax, "Quadrants does not support variables in slice now, please use constant instead of it.");
  }
  return checked(PySlice_New(bounds[0].ptr(), bounds[1].ptr(), bounds[2].ptr()));
}

std::vector<int64_t> Subscripts::sliceComponents(const Slice &slice, int64_t extent) {
  Py_ssize_t start = 0, stop = 0, step = 0;
  if (PySlice_Unpack(makeSlice(slice).ptr(), &start, &stop, &step) < 0) throw nb::python_error();
  std::vector<int64_t> result(size_t(PySlice_AdjustIndices(extent, &start, &stop, step)));
  for (size_t index = 0; index < result.size(); ++index) result[index] = start + int64_t(index) * step;
  return result;
}

Components Subscripts::componentsOf(const Operand &base, std::vector<int32_t> numbers, Type type) {
  Components result;
  result.type = type;
  result.isReadOnly = base.isReadOnly();
  auto *parts = base.find<Components>();
  if (parts && !parts->places.empty()) {
    result.places = listOperands(numbers, [&](int32_t number) { return parts->places[size_t(number)]; });
    return result;
  }
  if (parts)
    for (int32_t &number : numbers) number = parts->numbers[size_t(number)];
  result.whole = parts ? parts->whole : base;
  result.numbers = std::move(numbers);
  return result;
}

Operand Subscripts::placeOfComponent(const Place &base, ArrayRef<mlir::Value> indices) {
  Place place = base;
  place.ref = create<ir::ComponentOp>(ir::RefType::get(ir::getScalar(base.getType())), base.ref, indices);
  return place;
}

Operand Subscripts::component(const Operand &base, int64_t flat) {
  if (auto *components = base.find<Components>()) return componentPlace(*components, size_t(flat));
  auto *place = base.find<Place>();
  if (!place) return makeComputed(emitter.extract(conversions.emit(base), flat));
  auto type = mlir::cast<VectorType>(place->getType());
  if (type.getRank() == 1) return placeOfComponent(*place, emitter.constant(flat, session.types.i32));
  return placeOfComponent(*place, {emitter.constant(flat / type.getDimSize(1), session.types.i32),
                                   emitter.constant(flat % type.getDimSize(1), session.types.i32)});
}

Operand Subscripts::componentPlace(const Components &components, size_t position) {
  if (!components.places.empty()) return components.places[position];
  return component(components.whole, components.numbers[position]);
}

Operand Subscripts::subscriptVector(const Operand &base, const std::vector<Operand> &given) {
  auto type = dyn_cast<VectorType>(base.getType());
  std::vector<Operand> indices = flattenIndices(given);
  if (!type) {
    if (given.size() == 1 && (given[0].isNone() || indices.empty())) return base;
    fail(error::kType, "a scalar ('" + ir::describe(base.getType()) + "') cannot be indexed");
  }
  // `m[i][j]` is a place if `m[i, j]` is one.
  auto *place = base.find<Place>();
  auto *parts = base.find<Components>();
  if (parts && parts->rowOf && indices.size() == 1 && !indices[0].is<Slice>())
    return subscriptVector(parts->rowOf->first, {parts->rowOf->second, indices[0]});
  auto rank = size_t(type.getRank());
  bool isClamped = place ? place->isClamped : parts && parts->isClamped;
  std::optional<std::pair<Operand, Operand>> rowOf;
  if (rank == 2 && indices.size() == 1 && place) rowOf = {base, conversions.load(indices[0])};
  // `v[i, 0]` is an element of a vector, and `m[i]` a row of a matrix.
  if (rank == 1 && indices.size() == 2 && conversions.findInteger(indices[1]) == 0) indices.pop_back();
  if (rank == 2 && indices.size() == 1) indices.push_back(makeAggregate<Slice>(std::vector<Operand>(3, makeObject(nb::none()))));
  if (indices.size() != rank)
    fail(error::kIndex, "Expected " + std::to_string(rank) + " indices, got " + std::to_string(indices.size()) + ".");
  // The selected positions per axis; for a run-time index, offsets from it.
  std::vector<int64_t> chosen[2] = {{0}, {0}};
  mlir::Value atRunTime[2];
  SmallVector<int64_t> shape;
  auto placeWithin = [&](const Operand &index, int64_t count) {
    return isClamped ? views().clampIndex(index, makeObject(nb::int_(count))) : index;
  };
  for (size_t axis = 0; axis < rank; ++axis) {
    int64_t size = type.getDimSize(axis);
    if (auto *slice = indices[axis].find<Slice>()) {
      if (slice->length > 0 && !conversions.isConstant(slice->items[0])) {
        if (slice->length > size)
          fail(error::kIndex, "a slice of " + std::to_string(slice->length) + " components is longer than '" + ir::describe(type) + "'");
        atRunTime[axis] = indexValue(placeWithin(slice->items[0], size - slice->length + 1), axis);
        chosen[axis].resize(size_t(slice->length));
        std::iota(chosen[axis].begin(), chosen[axis].end(), 0);
      } else {
        chosen[axis] = sliceComponents(*slice, size);
      }
      if (chosen[axis].empty()) fail(error::kIndex, "the slice is empty: a vector has at least one component");
      shape.push_back(int64_t(chosen[axis].size()));
    } else if (auto known = conversions.findInteger(indices[axis])) {
      chosen[axis] = {wrapIndex(*known, size, "'" + ir::describe(type) + "'")};
    } else {
      atRunTime[axis] = indexValue(placeWithin(indices[axis], size), axis);
    }
  }
  int64_t stride = rank == 2 ? type.getDimSize(1) : 1;
  bool isStatic = !atRunTime[0] && !atRunTime[1];
  if (isStatic && shape.empty()) return component(base, chosen[0][0] * stride + chosen[1][0]);
  std::vector<int32_t> flat;
  SmallVector<SmallVector<mlir::Value>> positions;
  for (int64_t row : chosen[0])
    for (int64_t column : chosen[1]) {
      flat.push_back(int32_t(row * stride + column));
      if (isStatic) continue;
      positions.emplace_back();
      for (size_t axis = 0; axis < rank; ++axis) {
        int64_t offset = axis == 0 ? row : column;
        mlir::Value start = atRunTime[axis];
        mlir::Value at = !start || offset != 0 ? emitter.constant(offset, start ? start.getType() : session.types.i32) : start;
        positions.back().push_back(start && offset != 0 ? mlir::Value(create<ir::BinaryOp>(BinaryKind::add, start, at)) : at);
      }
    }
  if (isStatic) {
    Components result = componentsOf(base, std::move(flat), VectorType::get(shape, type.getElementType()));
    result.rowOf = std::move(rowOf);
    return result;
  }
  if (place) {
    Components result;
    result.places = listOperands(positions, [&](ArrayRef<mlir::Value> at) { return placeOfComponent(*place, at); });
    if (shape.empty()) return result.places[0];
    result.type = VectorType::get(shape, type.getElementType());
    result.isReadOnly = place->isReadOnly;
    result.isClamped = place->isClamped;
    result.rowOf = std::move(rowOf);
    return result;
  }
  mlir::Value whole = conversions.emit(base);
  auto components = llvm::map_to_vector(
      positions, [&](ArrayRef<mlir::Value> at) -> mlir::Value { return create<ir::ExtractAtOp>(type.getElementType(), whole, at); });
  return makeComputed(shape.empty() ? components[0] : emitter.makeVectorOf(components, shape));
}

std::optional<int64_t> Subscripts::findPosition(const Operand &index) {
  auto *computed = index.find<Computed>();
  return computed ? ir::findInteger(computed->ir) : conversions.findInteger(index);
}

Operand Subscripts::subscriptSequence(const Operand &base, const Operand &index) {
  if (auto *dictionary = base.find<Dictionary>()) {
    if (runtimeDicts().isChosen(base, index)) return runtimeDicts().subscript(base, index);
    nb::object key = conversions.toPython(index);
    if (const Operand *item = collections().findKey(*dictionary, key)) return *item;
    fail(error::kIndex, "the dict has no key " + toText(nb::repr(key)));
  }
  const auto &sequence = base.get<Sequence>();
  const std::vector<Operand> &items = sequence.items;
  if (auto *slice = index.find<Slice>()) {
    std::vector<int64_t> positions = sliceComponents(*slice, int64_t(items.size()));
    return makeSequence(listOperands(positions, [&](int64_t position) { return items[size_t(position)]; }), sequence.isTuple);
  }
  if (index.isObject() && PyBool_Check(index.getObject().ptr()))
    return subscriptSequence(base, makeObject(nb::int_(nb::cast<int>(index.getObject()))));
  // A list of numbers with a typed index becomes a vector, so that the result's type does not depend on the index being constant.
  if (index.isTyped() && ir::isIntegerScalar(index.getType()) && !items.empty() &&
      llvm::all_of(items, [&](const Operand &item) { return conversions.findType(item) && !isa<VectorType>(conversions.findType(item)); }))
    return subscriptVector(makeComputed(conversions.emitSequence(items)), {index});
  if (Operand *item = collections().findItem(base, index)) return *item;
  fail(error::kType, "list indices must be integers or slices known while compiling, got " + conversions.describe(index));
}

Operand Subscripts::subscriptObject(const Operand &operand, const Operand &index) {
  const auto &base = operand.get<PythonObject>();
  PyObject *container = base.object.ptr();
  attributes().requireShadow(base);
  if (operand.isNone()) fail(error::kType, "None has no elements: the argument was left out; guard its use with qd.static(x is not None)");
  if (session.python.isInstance(base.object, session.python.values.structValue))
    return attributes().structAttribute(structs().structOfObject(operand), conversions.known(index));
  const bool isPart = index.is<Slice>() && !session.python.isPlainData(base.object); // its items keep their paths
  if (isList(operand) && (isPart || (index.isTyped() && ir::isIntegerScalar(index.getType()))))
    return subscriptSequence(makeSequence(collections().listItems(operand, "index"), PyTuple_Check(container)), index);
  if (auto position = findPosition(index); position && index.isTyped()) return subscriptObject(operand, makeObject(nb::int_(*position)));
  bool isArray = session.python.isInstance(base.object, session.python.host.numpyArray) || nb::hasattr(base.object, "__dlpack__");
  auto *slice = index.find<Slice>();
  nb::object key = slice ? makeSlice(*slice) : conversions.toPython(index);
  if (isArray && (index.isTyped() || !key))
    fail(error::kType, "an array of NumPy or torch in a kernel is constant and has constant indices, got " + conversions.describe(index) +
                           ": pass it as an argument annotated with qd.types.NDArray[...], or use a field or a qd.ndarray");
  if (!key && hasDictOrder(base.object)) return runtimeDicts().subscript(operand, index);
  if (index.isTyped())
    fail(error::kType, "list indices must be integers or slices known while compiling, got " + conversions.describe(index));
  if (!key) fail(error::kType, "'" + conversions.describe(operand) + "' cannot be indexed with " + conversions.describe(index));
  if (base.path && PyDict_Check(container) && PyDict_Contains(container, key.ptr()) == 0)
    if (nb::object factory = findAttribute(base.object, nb::str("default_factory")); factory && !factory.is_none())
      variables().failCaptured(DependencyTracker::describe(base.path)); // a defaultdict adds the key
  nb::object found = checked(PyObject_GetItem(container, key.ptr()));
  const PathNode *path = nullptr;
  if (auto position = conversions.findInteger(index); position && hasIndexedItems(operand)) {
    int64_t wrapped = *position < 0 ? *position + int64_t(PySequence_Size(container)) : *position;
    path = session.tracker.getStep(base.path, PathStep::Kind::Item, "", wrapped);
    session.tracker.read(path, found);
  } else if (path = collections().findKeyPath(base, key); path) {
    if (!session.python.isPlainData(base.object)) session.tracker.read(path, found);
  } else if (base.path && !session.python.isPlainData(base.object)) {
    session.tracker.refuseCache();
    session.tracker.depend(base.path, artifact::Dependency::Kind::Identity);
  }
  return conversions.fromPython(found, path);
}

mlir::Value Subscripts::extent(const Tensor &tensor, int axis) {
  int64_t size = tensor.type.getExtents()[size_t(axis)];
  if (size != layout::kDynamic) return emitter.constant(size, size <= INT32_MAX ? session.types.i32 : session.types.i64);
  return create<ir::ExtentOp>(session.types.i32, conversions.getInput(tensor.input, tensor.type), uint32_t(axis));
}

std::vector<Operand> Subscripts::tensorShape(const Tensor &tensor) {
  std::vector<Operand> items;
  for (int axis = 0; axis < tensor.type.getRank(); ++axis) {
    int64_t size = tensor.type.getExtents()[size_t(axis)];
    items.push_back(size == layout::kDynamic ? makeComputed(extent(tensor, axis)) : makeObject(nb::int_(size)));
  }
  return items;
}

} // namespace qd::frontend
