// subscripts.cpp: indices, slices and swizzles of containers, vectors, lists and Python objects
#include "frontend/builder.h"

using namespace mlir;

namespace qd::frontend {

using Kind = Value::Kind;
using artifact::PathStep;

Value FunctionBuilder::visitSubscript(nb::handle at) {
  Value base = visit(getAttribute(at, names().value));
  return subscript(base, getAttribute(at, names().slice));
}

std::vector<Value> FunctionBuilder::visitIndices(nb::handle index) {
  std::vector<Value> indices;
  auto add = [&](nb::handle part) {
    if (kindOf(part) == NodeKind::Slice) {
      Value slice = makeAggregate(Kind::Range, {});
      for (const nb::object &name : {names().lower, names().upper, names().step}) {
        nb::object bound = getAttribute(part, name);
        slice.aggregate->items.push_back(bound.is_none() ? makeObject(nb::none()) : load(visit(bound)));
      }
      indices.push_back(std::move(slice));
      return;
    }
    if (kindOf(part) == NodeKind::Starred) {
      for (Value &item : listItems(visit(getAttribute(part, names().value)), "unpack")) indices.push_back(std::move(item));
      return;
    }
    indices.push_back(load(visit(part)));
  };
  if (kindOf(index) == NodeKind::Tuple) {
    At here(*this, index);
    for (nb::handle part : getAttribute(index, names().elts)) add(part);
  } else {
    add(index);
  }
  return indices;
}

Value FunctionBuilder::subscript(const Value &base, nb::handle index) {
  if (base.isObject() && session.python.isInstance(base.object, session.python.structField)) {
    std::vector<Value> indices = visitIndices(index);
    return structElement(base, [&](const Value &member) { return subscriptTensor(toTensor(member), indices); });
  }
  if (isTensor(base)) {
    Value tensor = toTensor(base);
    return subscriptTensor(tensor, visitIndices(index));
  }
  if (base.isTyped()) return subscriptVector(base, visitIndices(index));
  if (base.isObject() && session.python.isInstance(base.object, session.python.matrix)) {
    std::vector<Value> indices = visitIndices(index);
    return subscriptVector(makeComputed(emitHostMatrix(base.object)), indices);
  }
  if (base.is(Kind::Struct)) {
    nb::object name = toPython(visit(index));
    if (!name || !PyUnicode_Check(name.ptr())) fail(error::kType, "a struct is indexed with the name of a member");
    return structAttribute(base, name);
  }
  std::vector<Value> indices = visitIndices(index);
  if (base.is(Kind::Sequence) || base.is(Kind::Dictionary)) {
    Value value = indices.size() == 1 && kindOf(index) != NodeKind::Tuple ? indices[0] : makeTuple(indices);
    return subscriptSequence(base, value);
  }
  if (base.isObject())
    return subscriptObject(base, indices.size() == 1 && kindOf(index) != NodeKind::Tuple ? indices[0] : makeTuple(indices));
  fail(error::kType, "'" + describe(base) + "' cannot be indexed");
}

mlir::Value FunctionBuilder::indexValue(const Value &value, size_t position) {
  mlir::Value index = emit(value);
  Type type = index.getType();
  if (!ir::isIntegerScalar(type))
    fail(error::kType, "indices must be integers, however '" + ir::describe(type) + "' is provided as index " + std::to_string(position));
  if (type.isInteger(1) || type.getIntOrFloatBitWidth() < 32) return cast(index, session.types.i32);
  return index;
}

Value FunctionBuilder::subscriptTensor(const Value &tensor, const std::vector<Value> &given) {
  auto type = mlir::cast<ir::TensorType>(tensor.type);
  std::vector<Value> indices;
  for (const Value &index : given) {
    if (index.is(Kind::Range))
      fail(error::kSyntax, session.reader.getInput(tensor.input).isField ? "Slicing is not supported on qd.field"
                                                                         : "containers do not support index of slice type");
    if (index.isNone()) continue;
    if (index.is(Kind::Sequence) || (index.isTyped() && isa<VectorType>(index.type)) ||
        (index.isObject() && (PyTuple_Check(index.object.ptr()) || session.python.isInstance(index.object, session.python.matrix)))) {
      for (Value &item : listItems(index, "index with")) indices.push_back(std::move(item));
      continue;
    }
    indices.push_back(index);
  }
  bool isField = session.reader.getInput(tensor.input).isField;
  auto rank = size_t(type.getRank());
  if (indices.size() != rank) {
    std::string hint = indices.size() < rank ? "; write all indices in one bracket: f[i, j]" : "";
    if (isField)
      fail(error::kIndex,
           "Field with dim " + std::to_string(rank) + " accessed with indices of dim " + std::to_string(indices.size()) + hint);
    fail(error::kIndex, std::to_string(rank) + "d ndarray indexed with " + std::to_string(indices.size()) + "d indices" + hint);
  }
  SmallVector<mlir::Value> operands;
  for (size_t axis = 0; axis < rank; ++axis) {
    int64_t size = type.getExtents()[axis];
    std::optional<int64_t> known = findInteger(indices[axis]);
    if (known && size != layout::kDynamic) {
      int64_t wrapped = *known < 0 ? *known + size : *known;
      if (wrapped < 0 || wrapped >= size)
        fail(error::kIndex, "index " + std::to_string(*known) + " of axis " + std::to_string(axis) + " is out of range of " +
                                session.reader.getInput(tensor.input).name + ", whose extent is " + std::to_string(size));
      operands.push_back(constant(wrapped, wrapped <= INT32_MAX ? session.types.i32 : session.types.i64));
      continue;
    }
    if (known && *known < 0)
      fail(error::kSyntax, "Negative indices are not supported in Quadrants kernels. (the extent is known at run time only)");
    operands.push_back(indexValue(indices[axis], axis));
  }
  Value place = makePlace(create<ir::ElementOp>(ir::RefType::get(type.getElement()), getInput(tensor), operands));
  place.isElement = true;
  return place;
}

std::optional<std::vector<int64_t>> FunctionBuilder::sliceComponents(const Value &slice, int64_t extent) {
  if (!slice.is(Kind::Range)) return std::nullopt;
  nb::object bounds[3];
  for (int index = 0; index < 3; ++index) {
    bounds[index] = toPython(slice.aggregate->items[index]);
    if (!bounds[index]) fail(error::kSyntax, "Quadrants does not support variables in slice now, please use constant instead of it.");
  }
  nb::object object = nb::steal(PySlice_New(bounds[0].ptr(), bounds[1].ptr(), bounds[2].ptr()));
  Py_ssize_t start = 0, stop = 0, step = 0;
  if (!object || PySlice_Unpack(object.ptr(), &start, &stop, &step) < 0) throw nb::python_error();
  Py_ssize_t count = PySlice_AdjustIndices(extent, &start, &stop, step);
  std::vector<int64_t> result;
  for (Py_ssize_t index = 0; index < count; ++index) result.push_back(start + index * step);
  if (result.empty()) fail(error::kIndex, "the slice is empty: a vector has at least one component");
  return result;
}

Value FunctionBuilder::componentsOf(const Value &base, std::vector<int32_t> components, Type type) {
  Value result = makeAggregate(Kind::Components, {base});
  result.type = type;
  result.isReadOnly = base.isReadOnly;
  if (base.is(Kind::Components)) {
    for (int32_t &component : components) component = base.aggregate->components[component];
    result.aggregate->items[0] = base.aggregate->items[0];
  }
  result.aggregate->components = std::move(components);
  return result;
}

Value FunctionBuilder::component(const Value &base, ArrayRef<int64_t> indices) {
  auto type = mlir::cast<VectorType>(base.type);
  int64_t flat = indices[0];
  if (indices.size() == 2) flat = flat * type.getDimSize(1) + indices[1];
  if (base.is(Kind::Components)) return componentPlace(base, size_t(flat));
  if (!base.is(Kind::Place)) return makeComputed(extract(emit(base), flat));
  SmallVector<mlir::Value> operands;
  for (int64_t index : indices) operands.push_back(constant(index, session.types.i32));
  Value place = makePlace(create<ir::ComponentOp>(ir::RefType::get(type.getElementType()), base.ir, operands));
  place.isElement = base.isElement;
  place.isShared = base.isShared;
  place.isReadOnly = base.isReadOnly;
  return place;
}

Value FunctionBuilder::componentPlace(const Value &components, size_t position) {
  const Value &base = components.aggregate->items[0];
  int64_t flat = components.aggregate->components[position];
  auto type = mlir::cast<VectorType>(base.type);
  if (type.getRank() == 1) return component(base, {flat});
  return component(base, {flat / type.getDimSize(1), flat % type.getDimSize(1)});
}

Value FunctionBuilder::subscriptVector(const Value &base, const std::vector<Value> &given) {
  auto type = dyn_cast<VectorType>(base.type);
  std::vector<Value> indices;
  for (const Value &index : given) {
    if (index.is(Kind::Sequence) || (index.isTyped() && isa<VectorType>(index.type)))
      for (Value &item : listItems(index, "index with")) indices.push_back(std::move(item));
    else
      indices.push_back(index);
  }
  if (!type) {
    if (given.size() == 1 && (given[0].isNone() || indices.empty())) return base;
    fail(error::kType, "a scalar ('" + ir::describe(base.type) + "') cannot be indexed");
  }
  auto rank = size_t(type.getRank());
  // `v[i, 0]` on a vector, and a row of a matrix.
  if (rank == 1 && indices.size() == 2 && findInteger(indices[1]) == 0) indices.pop_back();
  if (rank == 2 && indices.size() == 1) {
    Value all = makeAggregate(Kind::Range, {makeObject(nb::none()), makeObject(nb::none()), makeObject(nb::none())});
    indices.push_back(all);
  }
  if (indices.size() != rank)
    fail(error::kIndex, "Expected " + std::to_string(rank) + " indices, got " + std::to_string(indices.size()) + ".");
  std::vector<std::vector<int64_t>> chosen;
  SmallVector<int64_t> shape;
  bool isStatic = true, hasSlice = false;
  for (size_t axis = 0; axis < rank; ++axis) {
    int64_t size = type.getDimSize(axis);
    if (auto slice = sliceComponents(indices[axis], size)) {
      shape.push_back(int64_t(slice->size()));
      chosen.push_back(std::move(*slice));
      hasSlice = true;
    } else if (auto known = findInteger(indices[axis])) {
      int64_t wrapped = *known < 0 ? *known + size : *known;
      if (wrapped < 0 || wrapped >= size)
        fail(error::kIndex, "index " + std::to_string(*known) + " is out of range of '" + ir::describe(type) + "'");
      chosen.push_back({wrapped});
    } else {
      isStatic = false;
      chosen.push_back({});
    }
  }
  if (isStatic && !hasSlice) return rank == 1 ? component(base, {chosen[0][0]}) : component(base, {chosen[0][0], chosen[1][0]});
  if (isStatic) {
    std::vector<int32_t> components;
    for (int64_t row : chosen[0]) {
      if (rank == 1)
        components.push_back(int32_t(row));
      else
        for (int64_t column : chosen[1]) components.push_back(int32_t(row * type.getDimSize(1) + column));
    }
    return componentsOf(base, std::move(components), VectorType::get(shape, type.getElementType()));
  }
  if (hasSlice) {
    // A row or column at a run-time index: read it component by component.
    mlir::Value whole = emit(base);
    SmallVector<mlir::Value> components;
    size_t sliced = chosen[0].empty() ? 1 : 0;
    mlir::Value fixed = indexValue(indices[1 - sliced], 1 - sliced);
    for (int64_t along : chosen[sliced]) {
      mlir::Value other = constant(along, fixed.getType());
      SmallVector<mlir::Value> operands = sliced == 1 ? SmallVector<mlir::Value>{fixed, other} : SmallVector<mlir::Value>{other, fixed};
      components.push_back(create<ir::ExtractAtOp>(type.getElementType(), whole, operands));
    }
    return makeComputed(makeVector(components, VectorType::get(shape, type.getElementType())));
  }
  SmallVector<mlir::Value> operands;
  for (size_t axis = 0; axis < rank; ++axis) operands.push_back(indexValue(indices[axis], axis));
  if (base.is(Kind::Place)) {
    Value place = makePlace(create<ir::ComponentOp>(ir::RefType::get(type.getElementType()), base.ir, operands));
    place.isElement = base.isElement;
    place.isShared = base.isShared;
    place.isReadOnly = base.isReadOnly;
    return place;
  }
  return makeComputed(create<ir::ExtractAtOp>(type.getElementType(), emit(base), operands));
}

Value FunctionBuilder::subscriptSequence(const Value &base, const Value &index) {
  std::vector<Value> &items = base.aggregate->items;
  if (base.is(Kind::Dictionary)) {
    nb::object key = toPython(index);
    if (!key) fail(error::kType, "the key of a dict must be known while compiling");
    for (size_t position = 0; position < items.size(); ++position)
      if (base.aggregate->names[position].equal(key)) return items[position];
    fail(error::kIndex, "the dict has no key " + toText(nb::repr(key)));
  }
  if (auto slice = index.is(Kind::Range) ? sliceComponents(index, int64_t(items.size())) : std::nullopt) {
    std::vector<Value> chosen;
    for (int64_t position : *slice) chosen.push_back(items[size_t(position)]);
    Value result = makeAggregate(Kind::Sequence, std::move(chosen));
    result.aggregate->isTuple = base.aggregate->isTuple;
    return result;
  }
  if (auto known = findInteger(index)) {
    int64_t wrapped = *known < 0 ? *known + int64_t(items.size()) : *known;
    if (wrapped < 0 || wrapped >= int64_t(items.size()))
      fail(error::kIndex, "index " + std::to_string(*known) + " is out of range of a list of " + std::to_string(items.size()));
    return items[size_t(wrapped)];
  }
  if (index.isTyped() && ir::isIntegerScalar(index.type) && !items.empty() &&
      llvm::all_of(items, [&](const Value &item) { return findType(item) && !isa<VectorType>(findType(item)); }))
    return subscriptVector(makeComputed(emitSequence(base)), {index});
  fail(error::kType, "list indices must be integers or slices known while compiling, got " + describe(index));
}

Value FunctionBuilder::subscriptObject(const Value &base, const Value &index) {
  PyObject *container = base.object.ptr();
  if (session.python.isInstance(base.object, session.python.structValue)) return structAttribute(structOfObject(base), known(index));
  if (index.isTyped()) {
    if ((PyTuple_Check(container) || PyList_Check(container)) && ir::isIntegerScalar(index.type))
      return subscriptVector(makeComputed(emit(base)), {index});
    fail(error::kType, "list indices must be integers or slices known while compiling, got " + describe(index));
  }
  nb::object key;
  if (index.is(Kind::Range)) {
    nb::object bounds[3];
    for (int part = 0; part < 3; ++part) bounds[part] = toPython(index.aggregate->items[part]);
    key = nb::steal(PySlice_New(bounds[0].ptr(), bounds[1].ptr(), bounds[2].ptr()));
  } else {
    key = toPython(index);
  }
  PyObject *item = key ? PyObject_GetItem(container, key.ptr()) : nullptr;
  if (!item && key) throw nb::python_error();
  if (!item) fail(error::kType, "'" + describe(base) + "' cannot be indexed with " + describe(index));
  nb::object found = nb::steal(item);
  const PathNode *path = nullptr;
  if (auto position = findInteger(index); position && (PyTuple_Check(container) || PyList_Check(container))) {
    int64_t wrapped = *position < 0 ? *position + int64_t(PySequence_Size(container)) : *position;
    path = session.reader.getStep(base.path, PathStep::Kind::Item, "", wrapped);
    session.reader.read(path, found);
  } else if (base.path && !session.python.isPlainData(base.object)) {
    session.reader.refuseCache();
    session.reader.depend(base.path, artifact::Dependency::Kind::Identity);
  }
  return fromPython(found, path);
}

mlir::Value FunctionBuilder::extent(const Value &tensor, int axis) {
  int64_t size = mlir::cast<ir::TensorType>(tensor.type).getExtents()[size_t(axis)];
  if (size != layout::kDynamic) return constant(size, size <= INT32_MAX ? session.types.i32 : session.types.i64);
  return create<ir::ExtentOp>(session.types.i32, getInput(tensor), uint32_t(axis));
}

Value FunctionBuilder::tensorShape(const Value &tensor) {
  auto type = mlir::cast<ir::TensorType>(tensor.type);
  std::vector<Value> items;
  for (int axis = 0; axis < type.getRank(); ++axis) {
    int64_t size = type.getExtents()[size_t(axis)];
    items.push_back(size == layout::kDynamic ? makeComputed(extent(tensor, axis)) : makeObject(nb::int_(size)));
  }
  return makeTuple(std::move(items));
}

} // namespace qd::frontend
