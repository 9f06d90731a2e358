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
  auto visitOne = [&](nb::handle part) {
    if (kindOf(part) != NodeKind::Slice) return conversions.load(expressions().visit(part));
    Operand slice = makeAggregate(Kind::Range, {});
    slice.aggregate->sliceLength = knownLength(part);
    for (const nb::object &name : {names().lower, names().upper, names().step}) {
      nb::object bound = getAttribute(part, name);
      slice.aggregate->items.push_back(bound.is_none() ? makeObject(nb::none()) : conversions.load(expressions().visit(bound)));
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
                    session.python.isInstance(index.getObject(), session.python.matrix);
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
  if (base.is(Kind::Struct)) {
    nb::object name = conversions.toPython(expressions().visit(index));
    if (!name || !PyUnicode_Check(name.ptr())) fail(error::kType, "a struct is indexed with the name of a member");
    return attributes().structAttribute(base, name);
  }
  return subscriptValues(base, visitIndices(index), kindOf(index) == NodeKind::Tuple);
}

Operand Subscripts::subscriptValues(const Operand &base, const std::vector<Operand> &indices, bool isTuple) {
  if (conversions.isTensor(base)) return subscriptTensor(conversions.toTensor(base), indices);
  if (base.is(Kind::View)) return views().subscriptView(base, indices);
  if (base.isTyped()) return subscriptVector(base, indices);
  if (session.python.isInstance(base.getObject(), session.python.structField))
    return structs().structElement(base, [&](const Operand &member) { return subscriptTensor(conversions.toTensor(member), indices); });
  if (std::optional<int64_t> known; base.isIndex && indices.size() == 1 && (known = conversions.findInteger(indices[0]))) {
    std::vector<Operand> components = collections().listItems(base, "index");
    return components[size_t(wrapIndex(*known, int64_t(components.size()), "the index of the loop"))];
  }
  if (session.python.isInstance(base.getObject(), session.python.matrix))
    return subscriptVector(makeComputed(conversions.emitHostMatrix(base.object)), indices);
  Operand key = isTuple ? makeTuple(indices) : indices[0];
  if (base.is(Kind::Sequence) || base.is(Kind::Dictionary)) return subscriptSequence(base, key);
  if (!base.isObject() || !conversions.isConstant(key))
    if (std::optional<Operand> item = instances().callSpecial(base, "__getitem__", {collections().copyElement(key)})) return *item;
  if (base.isObject()) return subscriptObject(base, key);
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

Operand Subscripts::subscriptTensor(const Operand &tensor, const std::vector<Operand> &given) {
  auto type = mlir::cast<ir::TensorType>(tensor.type);
  bool isField = session.tracker.getInput(tensor.input).isField;
  std::vector<Operand> indices = flattenIndices(given);
  llvm::erase_if(indices, [](const Operand &index) { return index.isNone(); });
  auto rank = size_t(type.getRank());
  bool isPart = llvm::any_of(
      indices, [](const Operand &index) { return index.is(Kind::Range) || (index.isObject() && index.object.ptr() == Py_Ellipsis); });
  if (isPart) return viewOf(tensor, indices);
  if (indices.size() != rank) failIndexCount(tensor, indices.size());
  if (tensor.isClamped)
    for (size_t axis = 0; axis < rank; ++axis) indices[axis] = views().clampIndex(indices[axis], makeComputed(extent(tensor, int(axis))));
  if (session.options.checksBounds && views().isHostView(tensor))
    views().checkViewIndices(tensor, indices, tensorShape(tensor).aggregate->items);
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
  Operand place = makePlace(create<ir::ElementOp>(ir::RefType::get(type.getElement()), conversions.getInput(tensor), operands));
  place.isElement = true;
  place.isClamped = tensor.isClamped;
  return place;
}

void Subscripts::failIndexCount(const Operand &tensor, size_t count) {
  auto rank = size_t(mlir::cast<ir::TensorType>(tensor.type).getRank());
  std::string hint = count < rank ? "; use f[i, j]: all indices in one bracket" : "";
  if (session.tracker.getInput(tensor.input).isField)
    fail(error::kIndex, "Field with dim " + std::to_string(rank) + " accessed with indices of dim " + std::to_string(count) + hint);
  std::string have = std::to_string(rank), given = std::to_string(count);
  fail(error::kIndex, "Array with dim " + have + " accessed with indices of dim " + given + " (" + have + "d ndarray indexed with " +
                          given + "d indices)" + hint);
}

Operand Subscripts::viewOf(const Operand &tensor, std::vector<Operand> indices) {
  auto type = mlir::cast<ir::TensorType>(tensor.type);
  if (indices.size() > size_t(type.getRank()) + 1) failIndexCount(tensor, indices.size());
  // Indices of a view begin at 0, also if the container has another lowest index.
  for (size_t axis = 0; axis < indices.size() && !type.getOrigin().empty(); ++axis) {
    auto place = [&](const Operand &index) {
      return index.isNone() ? index : operators().binary(BinaryKind::sub, index, makeObject(nb::int_(type.getFirst(int64_t(axis)))), "-");
    };
    if (!indices[axis].is(Kind::Range)) {
      indices[axis] = place(indices[axis]);
      continue;
    }
    indices[axis] = mapItems(indices[axis], [](const Operand &bound) { return bound; });
    for (int bound : {0, 1}) indices[axis].aggregate->items[size_t(bound)] = place(indices[axis].aggregate->items[size_t(bound)]);
  }
  return views().subscriptView(views().toView(tensor), indices);
}

nb::object Subscripts::makeSlice(const Operand &range) {
  nb::object bounds[3];
  for (int index = 0; index < 3; ++index) {
    bounds[index] = conversions.toPython(range.aggregate->items[index]);
    if (!bounds[index]) fail(error::kSyntax, "Quadrants does not support variables in slice now, please use constant instead of it.");
  }
  return checked(PySlice_New(bounds[0].ptr(), bounds[1].ptr(), bounds[2].ptr()));
}

std::vector<int64_t> Subscripts::sliceComponents(const Operand &slice, int64_t extent) {
  Py_ssize_t start = 0, stop = 0, step = 0;
  if (PySlice_Unpack(makeSlice(slice).ptr(), &start, &stop, &step) < 0) throw nb::python_error();
  std::vector<int64_t> result(size_t(PySlice_AdjustIndices(extent, &start, &stop, step)));
  for (size_t index = 0; index < result.size(); ++index) result[index] = start + int64_t(index) * step;
  return result;
}

Operand Subscripts::componentsOf(const Operand &base, std::vector<int32_t> components, Type type) {
  Operand result = makeAggregate(Kind::Components, {base});
  result.type = type;
  result.isReadOnly = base.isReadOnly;
  if (base.is(Kind::Components) && base.aggregate->components.empty()) {
    result.aggregate->items = listValues(components, [&](int32_t component) { return base.aggregate->items[size_t(component)]; });
    return result;
  }
  if (base.is(Kind::Components)) {
    for (int32_t &component : components) component = base.aggregate->components[component];
    result.aggregate->items[0] = base.aggregate->items[0];
  }
  result.aggregate->components = std::move(components);
  return result;
}

Operand Subscripts::placeOfComponent(const Operand &base, ArrayRef<mlir::Value> indices) {
  Operand place = makePlace(create<ir::ComponentOp>(ir::RefType::get(ir::getScalar(base.type)), base.ir, indices));
  place.isElement = base.isElement;
  place.isClamped = base.isClamped;
  place.isKernelVariable = base.isKernelVariable;
  place.isReadOnly = base.isReadOnly;
  return place;
}

Operand Subscripts::component(const Operand &base, int64_t flat) {
  if (base.is(Kind::Components)) return componentPlace(base, size_t(flat));
  if (!base.is(Kind::Place)) return makeComputed(emitter.extract(conversions.emit(base), flat));
  auto type = mlir::cast<VectorType>(base.type);
  if (type.getRank() == 1) return placeOfComponent(base, emitter.constant(flat, session.types.i32));
  return placeOfComponent(base, {emitter.constant(flat / type.getDimSize(1), session.types.i32),
                                 emitter.constant(flat % type.getDimSize(1), session.types.i32)});
}

Operand Subscripts::componentPlace(const Operand &components, size_t position) {
  if (components.aggregate->components.empty()) return components.aggregate->items[position];
  return component(components.aggregate->items[0], components.aggregate->components[position]);
}

Operand Subscripts::subscriptVector(const Operand &base, const std::vector<Operand> &given) {
  auto type = dyn_cast<VectorType>(base.type);
  std::vector<Operand> indices = flattenIndices(given);
  if (!type) {
    if (given.size() == 1 && (given[0].isNone() || indices.empty())) return base;
    fail(error::kType, "a scalar ('" + ir::describe(base.type) + "') cannot be indexed");
  }
  // `m[i][j]` is a place if `m[i, j]` is one.
  if (base.is(Kind::Components) && !base.aggregate->rowOf.empty() && indices.size() == 1 && !indices[0].is(Kind::Range))
    return subscriptVector(base.aggregate->rowOf[0], {base.aggregate->rowOf[1], indices[0]});
  auto rank = size_t(type.getRank());
  std::vector<Operand> rowOf;
  if (rank == 2 && indices.size() == 1 && base.is(Kind::Place)) rowOf = {base, conversions.load(indices[0])};
  // `v[i, 0]` is an element of a vector, and `m[i]` a row of a matrix.
  if (rank == 1 && indices.size() == 2 && conversions.findInteger(indices[1]) == 0) indices.pop_back();
  if (rank == 2 && indices.size() == 1) indices.push_back(makeAggregate(Kind::Range, std::vector<Operand>(3, makeObject(nb::none()))));
  if (indices.size() != rank)
    fail(error::kIndex, "Expected " + std::to_string(rank) + " indices, got " + std::to_string(indices.size()) + ".");
  // The selected positions per axis; for a run-time index, offsets from it.
  std::vector<int64_t> chosen[2] = {{0}, {0}};
  mlir::Value atRunTime[2];
  SmallVector<int64_t> shape;
  auto placeWithin = [&](const Operand &index, int64_t count) {
    return base.isClamped ? views().clampIndex(index, makeObject(nb::int_(count))) : index;
  };
  for (size_t axis = 0; axis < rank; ++axis) {
    int64_t size = type.getDimSize(axis);
    if (indices[axis].is(Kind::Range)) {
      const Aggregate &slice = *indices[axis].aggregate;
      if (slice.sliceLength > 0 && !conversions.isConstant(slice.items[0])) {
        if (slice.sliceLength > size)
          fail(error::kIndex,
               "a slice of " + std::to_string(slice.sliceLength) + " components is longer than '" + ir::describe(type) + "'");
        atRunTime[axis] = indexValue(placeWithin(slice.items[0], size - slice.sliceLength + 1), axis);
        chosen[axis].resize(size_t(slice.sliceLength));
        std::iota(chosen[axis].begin(), chosen[axis].end(), 0);
      } else {
        chosen[axis] = sliceComponents(indices[axis], size);
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
    Operand result = componentsOf(base, std::move(flat), VectorType::get(shape, type.getElementType()));
    result.aggregate->rowOf = std::move(rowOf);
    return result;
  }
  if (base.is(Kind::Place)) {
    std::vector<Operand> places = listValues(positions, [&](ArrayRef<mlir::Value> at) { return placeOfComponent(base, at); });
    if (shape.empty()) return places[0];
    Operand result = makeAggregate(Kind::Components, std::move(places));
    result.type = VectorType::get(shape, type.getElementType());
    result.isReadOnly = base.isReadOnly;
    result.isClamped = base.isClamped;
    result.aggregate->rowOf = std::move(rowOf);
    return result;
  }
  mlir::Value whole = conversions.emit(base);
  auto components = llvm::map_to_vector(
      positions, [&](ArrayRef<mlir::Value> at) -> mlir::Value { return create<ir::ExtractAtOp>(type.getElementType(), whole, at); });
  return makeComputed(shape.empty() ? components[0] : emitter.makeVectorOf(components, shape));
}

std::optional<int64_t> Subscripts::findPosition(const Operand &index) {
  return index.is(Kind::Computed) ? ir::findInteger(index.ir) : conversions.findInteger(index);
}

Operand Subscripts::subscriptSequence(const Operand &base, const Operand &index) {
  std::vector<Operand> &items = base.aggregate->items;
  if (base.is(Kind::Dictionary)) {
    nb::object key = collections().knownKey(index);
    if (const Operand *item = collections().findKey(base, key)) return *item;
    fail(error::kIndex, "the dict has no key " + toText(nb::repr(key)));
  }
  if (index.is(Kind::Range)) {
    std::vector<Operand> chosen;
    for (int64_t position : sliceComponents(index, int64_t(items.size()))) chosen.push_back(items[size_t(position)]);
    Operand result = makeAggregate(Kind::Sequence, std::move(chosen));
    result.aggregate->isTuple = base.aggregate->isTuple;
    return result;
  }
  if (index.isObject() && PyBool_Check(index.object.ptr()))
    return subscriptSequence(base, makeObject(nb::int_(nb::cast<int>(index.object))));
  // A list of numbers with a typed index becomes a vector, so that the result's type does not depend on the index being constant.
  if (index.isTyped() && ir::isIntegerScalar(index.getType()) && !items.empty() &&
      llvm::all_of(items, [&](const Operand &item) { return conversions.findType(item) && !isa<VectorType>(conversions.findType(item)); }))
    return subscriptVector(makeComputed(conversions.emitSequence(base)), {index});
  if (Operand *item = collections().findItem(base, index)) return *item;
  fail(error::kType, "list indices must be integers or slices known while compiling, got " + conversions.describe(index));
}

Operand Subscripts::subscriptObject(const Operand &base, const Operand &index) {
  PyObject *container = base.object.ptr();
  attributes().requireShadow(base);
  if (session.python.isInstance(base.object, session.python.structValue))
    return attributes().structAttribute(structs().structOfObject(base), conversions.known(index));
  if (isList(base) && index.isTyped() && ir::isIntegerScalar(index.getType())) {
    std::vector<Operand> items = collections().listItems(base, "index");
    return subscriptSequence(makeAggregate(Kind::Sequence, std::move(items)), index);
  }
  if (auto position = findPosition(index); position && index.isTyped()) return subscriptObject(base, makeObject(nb::int_(*position)));
  bool isArray = session.python.isInstance(base.object, session.python.numpyArray);
  nb::object key = index.is(Kind::Range) ? makeSlice(index) : conversions.toPython(index);
  if (index.isTyped() || (isArray && !key))
    fail(error::kType, "list indices must be integers or slices known while compiling, got " + conversions.describe(index) +
                           (isArray ? "; an array that is indexed at run time is passed as an argument" : ""));
  if (!key) fail(error::kType, "'" + conversions.describe(base) + "' cannot be indexed with " + conversions.describe(index));
  nb::object found = checked(PyObject_GetItem(container, key.ptr()));
  const PathNode *path = nullptr;
  if (auto position = conversions.findInteger(index); position && isList(base)) {
    int64_t wrapped = *position < 0 ? *position + int64_t(PySequence_Size(container)) : *position;
    path = session.tracker.getStep(base.path, PathStep::Kind::Item, "", wrapped);
    session.tracker.read(path, found);
  } else if (base.path && !session.python.isPlainData(base.object)) {
    session.tracker.refuseCache();
    session.tracker.depend(base.path, artifact::Dependency::Kind::Identity);
  }
  return conversions.fromPython(found, path);
}

mlir::Value Subscripts::extent(const Operand &tensor, int axis) {
  int64_t size = mlir::cast<ir::TensorType>(tensor.type).getExtents()[size_t(axis)];
  if (size != layout::kDynamic) return emitter.constant(size, size <= INT32_MAX ? session.types.i32 : session.types.i64);
  return create<ir::ExtentOp>(session.types.i32, conversions.getInput(tensor), uint32_t(axis));
}

Operand Subscripts::tensorShape(const Operand &tensor) {
  auto type = mlir::cast<ir::TensorType>(tensor.type);
  std::vector<Operand> items;
  for (int axis = 0; axis < type.getRank(); ++axis) {
    int64_t size = type.getExtents()[size_t(axis)];
    items.push_back(size == layout::kDynamic ? makeComputed(extent(tensor, axis)) : makeObject(nb::int_(size)));
  }
  return makeTuple(std::move(items));
}

} // namespace qd::frontend
