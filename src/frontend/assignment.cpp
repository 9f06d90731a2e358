// assignment.cpp: targets: variables, components, elements, members, and unpacking
#include "frontend/builder.h"

using namespace mlir;

namespace qd::frontend {

using Kind = Value::Kind;
using artifact::PathStep;
using ir::BinaryKind;

Value FunctionBuilder::makeLocal(Type type) {
  Value place = makePlace(create<ir::LocalOp>(ir::RefType::get(type)));
  // Iterations of a parallel loop share the variables of the kernel's serial part.
  place.isShared = isKernelLevel && !isInsideParallel;
  return place;
}

std::vector<Value> FunctionBuilder::listItems(const Value &value, const char *purpose) {
  switch (value.kind) {
  case Kind::Sequence: return value.aggregate->items;
  case Kind::Dictionary: {
    std::vector<Value> keys;
    for (const nb::object &name : value.aggregate->names) keys.push_back(makeObject(name));
    return keys;
  }
  case Kind::Struct: return value.aggregate->items;
  case Kind::Object: {
    if (session.python.isInstance(value.object, session.python.matrix))
      return listItems(makeComputed(emitHostMatrix(value.object)), purpose);
    if (session.python.isTensor(value.object) || session.python.isNumber(value.object)) break;
    std::vector<Value> items;
    bool hasItems = PyList_Check(value.object.ptr()) || PyTuple_Check(value.object.ptr());
    PyObject *iterator = PyObject_GetIter(value.object.ptr());
    if (!iterator) {
      PyErr_Clear();
      break;
    }
    nb::object owner = nb::steal(iterator);
    while (PyObject *next = PyIter_Next(iterator)) {
      nb::object item = nb::steal(next);
      const PathNode *path = hasItems ? session.reader.getStep(value.path, PathStep::Kind::Item, "", int64_t(items.size())) : nullptr;
      session.reader.read(path, item);
      items.push_back(fromPython(item, path));
    }
    if (PyErr_Occurred()) throw nb::python_error();
    if (hasItems && value.path)
      session.reader.depend(session.reader.getStep(value.path, PathStep::Kind::Item, "", int64_t(items.size())),
                            artifact::Dependency::Kind::Absent);
    return items;
  }
  default: break;
  }
  if (value.isTyped()) {
    if (auto type = dyn_cast<VectorType>(value.type)) {
      std::vector<Value> items;
      // The parts of a variable are read together, before anything is assigned.
      Value whole = value.is(Kind::Computed) ? value : makeComputed(emit(value));
      for (int64_t row = 0; row < type.getDimSize(0); ++row) {
        if (type.getRank() == 1) {
          items.push_back(makeComputed(extract(whole.ir, row)));
          continue;
        }
        if (type.getDimSize(1) != 1 && llvm::StringRef(purpose) == "unpack")
          fail(error::kSyntax, "Matrices with more than one columns cannot be unpacked");
        SmallVector<mlir::Value> components;
        for (int64_t column = 0; column < type.getDimSize(1); ++column)
          components.push_back(extract(whole.ir, row * type.getDimSize(1) + column));
        items.push_back(components.size() == 1
                            ? makeComputed(components[0])
                            : makeComputed(makeVector(components, VectorType::get({type.getDimSize(1)}, type.getElementType()))));
      }
      return items;
    }
  }
  if (llvm::StringRef(purpose) == "unpack") fail(error::kSyntax, "Cannot unpack type: " + describe(value));
  fail(error::kType, "cannot " + llvm::Twine(purpose) + " " + describe(value));
}

Value FunctionBuilder::copy(const Value &value) {
  if (!value.is(Kind::Struct)) return load(value);
  return mapItems(value, [&](const Value &item) { return copy(item); });
}

Value FunctionBuilder::declare(const Value &value, bool isAssignedOnce) {
  if (value.is(Kind::Struct)) return mapItems(value, [&](const Value &item) { return declare(item, false); });
  mlir::Value initial = emit(value);
  if (isAssignedOnce) return makeComputed(initial);
  Value place = makeLocal(initial.getType());
  create<ir::StoreOp>(initial, place.ir);
  return place;
}

void FunctionBuilder::failImmutable(const Value &, const llvm::Twine &name) {
  fail(error::kSyntax,
       "Kernel argument \"" + name + "\" is immutable in the kernel. If you want to change its value, please create a new variable.");
}

void FunctionBuilder::assignName(nb::handle target, const Value &given, Type declared) {
  At here(*this, target);
  nb::object name = getAttribute(target, names().id);
  llvm::StringRef text = toText(name);
  Binding *binding = scopes.find(name.ptr());
  Value value = given;
  if (binding && binding->kind == Binding::Kind::Parameter) failImmutable(binding->value, text);
  if (binding && binding->kind == Binding::Kind::LoopVariable)
    fail(error::kSyntax, "the loop variable '" + text + "' cannot be assigned: assign a new variable");
  bool isVisible = binding && (binding->kind == Binding::Kind::Variable || binding->kind == Binding::Kind::Static);
  bool isContainer =
      value.is(Kind::Sequence) || value.is(Kind::Dictionary) || value.is(Kind::Method) || value.is(Kind::Range) || value.is(Kind::Tensor);
  bool isObject = value.isObject() && !canEmit(value);
  if (declared) value = makeComputed(convert(value, declared));
  if (!declared && (value.isStatic || isContainer || isObject)) {
    if (isObject && !value.isStatic) {
      PyObject *object = value.object.ptr();
      if (PyUnicode_Check(object) || PyBytes_Check(object) || PyComplex_Check(object) || object == Py_Ellipsis)
        fail(error::kType, "Invalid constant scalar data type: " + describeType(value.object));
    }
    if (isVisible && binding->kind == Binding::Kind::Variable && isContainer && binding->value.is(Kind::Place))
      return store(binding->value, value);
    if (isVisible && (binding->scope != scopes.depth() || binding->kind == Binding::Kind::Variable))
      fail(error::kSyntax, "Recreating variables is not allowed: '" + text + "' is already defined");
    Binding made;
    made.kind = Binding::Kind::Static;
    made.value = value;
    scopes.bind(name.ptr(), std::move(made));
    return;
  }
  if (isVisible) {
    if (binding->kind == Binding::Kind::Static)
      fail(error::kSyntax, "Variable '" + text + "' cannot be assigned. Maybe it is not a Quadrants object?");
    if (!binding->value.is(Kind::Place) && !binding->value.is(Kind::Struct) && !binding->value.is(Kind::Components))
      fail(error::kSyntax, "Variable '" + text + "' cannot be assigned. Maybe it is not a Quadrants object?");
    return store(binding->value, value);
  }
  Binding made;
  made.value = declare(value, uses->lookup(name.ptr()) < 2);
  scopes.bind(name.ptr(), std::move(made));
}

void FunctionBuilder::storeTyped(const Value &place, mlir::Value value) {
  mlir::Value converted = convert(value, place.type);
  if (place.is(Kind::Place)) {
    create<ir::StoreOp>(converted, place.ir);
    return;
  }
  for (size_t position = 0; position < place.aggregate->components.size(); ++position)
    storeTyped(componentPlace(place, position), isa<VectorType>(converted.getType()) ? extract(converted, int64_t(position)) : converted);
}

void FunctionBuilder::store(const Value &place, const Value &value) {
  if (place.isReadOnly) failImmutable(place, place.path ? Reader::describe(place.path) : "parameter");
  switch (place.kind) {
  case Kind::Struct: {
    if (!value.is(Kind::Struct)) {
      if (value.isObject() && session.python.isInstance(value.object, session.python.structValue))
        return store(place, structOfObject(value));
      fail(error::kType, "cannot assign '" + describe(value) + "' to a struct");
    }
    auto list = [](const Value &structure) {
      std::string text = "[";
      for (const nb::object &name : structure.aggregate->names) text += (text.size() > 1 ? ", '" : "'") + toText(name).str() + "'";
      return text + "]";
    };
    if (list(place) != list(value)) fail(error::kType, "Member mismatch between structs " + list(place) + ", " + list(value));
    // All is read before anything is written: the two may overlap.
    Value copied = copy(value);
    for (size_t member = 0; member < place.aggregate->items.size(); ++member)
      store(place.aggregate->items[member], copied.aggregate->items[member]);
    return;
  }
  case Kind::Place:
  case Kind::Components:
    if (value.is(Kind::Struct)) fail(error::kType, "cannot assign a struct to '" + ir::describe(place.type) + "'");
    return storeTyped(place, value.isObject() && place.is(Kind::Place) ? convert(value, place.type) : emit(value, place.type));
  case Kind::Argument: failImmutable(place, Reader::describe(place.path));
  case Kind::Object:
    if (place.path) fail(error::kSyntax, "'" + Reader::describe(place.path) + "' cannot be assigned: a captured value is constant");
    [[fallthrough]];
  default: fail(error::kSyntax, "the target is not an lvalue and cannot be assigned");
  }
}

void FunctionBuilder::assignAttribute(nb::handle target, const Value &value) {
  Value base = visit(getAttribute(target, names().value));
  nb::object name = getAttribute(target, names().attr);
  if (base.isObject() && base.path && !session.python.isTensor(base.object)) {
    const PathNode *root = base.path;
    while (root->parent) root = root->parent;
    bool isArgument = root->root == artifact::Path::Root::Argument;
    std::string owner = kindOf(getAttribute(target, names().value)) == NodeKind::Name
                            ? toText(getAttribute(getAttribute(target, names().value), names().id)).str()
                            : Reader::describe(base.path);
    if (base.hasRuntimeMembers) failImmutable(base, "__qd_" + owner + "__qd_" + toText(name));
    if (isArgument) failImmutable(base, owner + "." + toText(name));
    fail(error::kSyntax, "'" + owner + "." + toText(name) + "' cannot be assigned: a captured value is constant");
  }
  store(getAttributeOf(base, name), value);
}

void FunctionBuilder::unpack(nb::handle targets, const Value &value) {
  std::vector<Value> items = listItems(value, "unpack");
  std::vector<nb::object> list;
  size_t starred = SIZE_MAX;
  for (nb::handle target : targets) {
    if (kindOf(target) == NodeKind::Starred) {
      if (starred != SIZE_MAX) fail(error::kSyntax, "only one target may be starred");
      starred = list.size();
    }
    list.push_back(nb::borrow(target));
  }
  bool fits = starred == SIZE_MAX ? items.size() == list.size() : items.size() + 1 >= list.size();
  if (!fits)
    fail(error::kSyntax, "The number of targets is not equal to value length: " + std::to_string(list.size()) + " targets, " +
                             std::to_string(items.size()) + " values");
  // The right side is complete before the first target changes.
  for (Value &item : items) {
    bool isStatic = value.isStatic;
    item = load(item);
    item.isStatic = item.isStatic || isStatic;
  }
  size_t position = 0;
  for (size_t index = 0; index < list.size(); ++index) {
    if (index != starred) {
      assign(list[index], items[position++]);
      continue;
    }
    size_t count = items.size() + 1 - list.size();
    Value rest = makeAggregate(Kind::Sequence, {items.begin() + int64_t(position), items.begin() + int64_t(position + count)});
    position += count;
    assign(getAttribute(list[index], names().value), rest);
  }
}

void FunctionBuilder::assign(nb::handle target, const Value &value) {
  At here(*this, target);
  switch (kindOf(target)) {
  case NodeKind::Name: return assignName(target, value);
  case NodeKind::Tuple:
  case NodeKind::List: return unpack(getAttribute(target, names().elts), value);
  case NodeKind::Attribute: return assignAttribute(target, value);
  case NodeKind::Subscript: {
    if (value.isStatic) fail(error::kSyntax, "Static assign cannot be used on elements in arrays");
    Value base = visit(getAttribute(target, names().value));
    nb::object index = getAttribute(target, names().slice);
    if (base.is(Kind::Sequence) || base.is(Kind::Dictionary)) {
      std::vector<Value> indices = visitIndices(index);
      std::vector<Value> &items = base.aggregate->items;
      if (base.is(Kind::Dictionary)) return put(base, knownKey(indices[0]), load(value));
      std::optional<int64_t> known = findInteger(indices[0]);
      if (base.aggregate->isTuple || !known || indices.size() != 1)
        fail(error::kType, "only elements of lists at indices known while compiling can be assigned");
      items[size_t(wrapIndex(*known, int64_t(items.size()), "a list of " + std::to_string(items.size())))] = load(value);
      return;
    }
    if (base.isObject() && base.path && session.python.isInstance(base.object, session.python.matrix))
      fail(error::kSyntax, "'" + Reader::describe(base.path) + "' cannot be assigned: a captured value is constant");
    return store(subscript(base, index), value);
  }
  case NodeKind::Starred: fail(error::kSyntax, "a starred target must be in a list or tuple");
  default: fail(error::kSyntax, "this cannot be assigned");
  }
}

void FunctionBuilder::visitAssign(nb::handle at) {
  Value value = visit(getAttribute(at, names().value));
  nb::object targets = getAttribute(at, names().targets);
  if (nb::len(targets) > 1) value = copy(value);
  for (nb::handle target : targets) assign(target, value);
}

void FunctionBuilder::visitAnnotatedAssign(nb::handle at) {
  nb::object target = getAttribute(at, names().target), expression = getAttribute(at, names().value);
  nb::object annotation = toPython(visit(getAttribute(at, names().annotation)));
  Type type = annotation ? session.findValueType(annotation) : Type();
  if (expression.is_none()) fail(error::kSyntax, "a declaration needs a value");
  Value value = visit(expression);
  if (value.isStatic) fail(error::kSyntax, "Static assign cannot be used on annotated assignment");
  if (!type) {
    if (annotation && session.python.isInstance(annotation, session.python.structType))
      return assign(target, convertMember(annotation, value));
    fail(error::kSyntax, "the annotation is no data type of the kernel language");
  }
  if (kindOf(target) != NodeKind::Name) fail(error::kSyntax, "only variables can be declared");
  Binding *binding = scopes.find(getAttribute(target, names().id).ptr());
  if (binding && binding->kind == Binding::Kind::Variable && binding->value.isTyped() && binding->value.type != type)
    fail(error::kSyntax, "Static assign cannot have type overloading: '" + toText(getAttribute(target, names().id)) + "' is '" +
                             ir::describe(binding->value.type) + "'");
  assignName(target, value, type);
}

void FunctionBuilder::augment(const Value &place, BinaryKind kind, const Value &value, llvm::StringRef symbol) {
  if (place.is(Kind::Struct)) {
    for (size_t member = 0; member < place.aggregate->items.size(); ++member)
      augment(place.aggregate->items[member], kind, value.is(Kind::Struct) ? value.aggregate->items[member] : value, symbol);
    return;
  }
  if (!place.is(Kind::Place) && !place.is(Kind::Components)) return store(place, value);
  if (place.isReadOnly) failImmutable(place, place.path ? Reader::describe(place.path) : "parameter");
  std::optional<ir::AtomicKind> atomic;
  if (kind != BinaryKind::min && kind != BinaryKind::max) atomic = ir::findKind<ir::AtomicKind>(ir::getRow(kind).name);
  Type scalar = ir::getScalar(place.type);
  bool isBitwise = ir::getRow(kind).operand == ir::OperandClass::Integer;
  mlir::Value operand = emit(value, place.type);
  if (isBitwise && (ir::isFloatScalar(scalar) || ir::isFloatScalar(ir::getScalar(operand.getType()))))
    fail(error::kType, "unsupported operand type(s) for '" + symbol + "=': '" + ir::describe(place.type) + "' and '" +
                           ir::describe(operand.getType()) + "'");
  if (auto shape = dyn_cast<VectorType>(operand.getType()))
    if (!isa<VectorType>(place.type) || mlir::cast<VectorType>(place.type).getShape() != shape.getShape())
      fail(error::kType,
           "unsupported operand type(s) for '" + symbol + "=': '" + ir::describe(place.type) + "' and '" + ir::describe(shape) + "'");
  bool isShared = place.is(Kind::Components)
                      ? (place.aggregate->items[0].isElement || (place.aggregate->items[0].isShared && isInsideParallel))
                      : (place.isElement || (place.isShared && isInsideParallel));
  if (atomic && isShared) {
    operand = convert(operand, place.type);
    if (place.is(Kind::Place)) {
      create<ir::AtomicOp>(*atomic, place.ir, operand);
      return;
    }
    for (size_t position = 0; position < place.aggregate->components.size(); ++position)
      create<ir::AtomicOp>(*atomic, componentPlace(place, position).ir, extract(operand, int64_t(position)));
    return;
  }
  mlir::Value old = emit(place);
  if (kind == BinaryKind::pow && value.isObject()) return storeTyped(place, emit(power(makeComputed(old), value)));
  // What may be atomic elsewhere takes the target's type first, so that `x += 1.9` means the same on a variable and on an element.
  if (atomic && kind != BinaryKind::mul && !scalar.isInteger(1)) operand = cast(operand, scalar);
  mlir::Value result =
      kind == BinaryKind::pow ? emit(power(makeComputed(old), makeComputed(operand))) : binaryTyped(kind, old, operand, symbol);
  storeTyped(place, result);
}

void FunctionBuilder::visitAugmentedAssign(nb::handle at) {
  nb::object target = getAttribute(at, names().target);
  NodeKind kind = kindOf(getAttribute(at, names().op));
  if (kindOf(target) == NodeKind::Name) {
    nb::object name = getAttribute(target, names().id);
    Binding *binding = scopes.find(name.ptr());
    if (binding && binding->kind == Binding::Kind::Parameter) failImmutable(binding->value, toText(name));
    if (binding && binding->kind == Binding::Kind::LoopVariable)
      fail(error::kSyntax, "the loop variable '" + toText(name) + "' cannot be assigned: assign a new variable");
    if (!binding) {
      lookUpGlobal(name);
      fail(error::kSyntax, "'" + toText(name) + "' cannot be changed: a captured value is constant");
    }
    if (binding->kind == Binding::Kind::Static && binding->value.is(Kind::Sequence)) {
      binding->value =
          binary(kind == NodeKind::Add ? BinaryKind::add : BinaryKind::mul, binding->value, visit(getAttribute(at, names().value)), "+=");
      return;
    }
    if (binding->kind == Binding::Kind::Static)
      fail(error::kSyntax, "Variable '" + toText(name) + "' cannot be assigned. Maybe it is not a Quadrants object?");
  }
  Value place = visit(target);
  if (place.isObject() || place.is(Kind::Argument)) return store(place, place);
  if (place.is(Kind::Computed)) fail(error::kSyntax, "the target is not an lvalue and cannot be assigned");
  Value value = visit(getAttribute(at, names().value));
  if (kind == NodeKind::MatMult) return store(place, matmul(makeComputed(emit(place)), value));
  const Operator &row = *findOperator(kind);
  augment(place, row.kind, value, row.symbol);
}

Value FunctionBuilder::merge(Binding &binding, PyObject *name) {
  if (!binding.merge) {
    // From the taken branch of a compile-time `if`.
    bool isVariable = binding.value.isTyped() || binding.value.is(Kind::Struct);
    binding.kind = isVariable ? Binding::Kind::Variable : Binding::Kind::Static;
    return binding.value;
  }
  Merge &paths = *binding.merge;
  std::function<Value(const Value *, const Value *)> join = [&](const Value *first, const Value *second) -> Value {
    const Value &shape = first ? *first : *second;
    if (shape.is(Kind::Struct)) {
      std::vector<Value> items;
      for (size_t member = 0; member < shape.aggregate->items.size(); ++member)
        items.push_back(join(first ? &first->aggregate->items[member] : nullptr, second ? &second->aggregate->items[member] : nullptr));
      Value result = makeAggregate(Kind::Struct, std::move(items));
      result.aggregate->names = shape.aggregate->names;
      result.aggregate->structType = shape.aggregate->structType;
      return result;
    }
    Type type = shape.type;
    if (first && second) {
      Type other = second->type;
      bool fits = isa<VectorType>(type) == isa<VectorType>(other) &&
                  (!isa<VectorType>(type) || mlir::cast<VectorType>(type).getShape() == mlir::cast<VectorType>(other).getShape());
      if (!fits)
        fail(error::kType,
             "'" + toText(name) + "' is '" + ir::describe(type) + "' on one path and '" + ir::describe(other) + "' on the other");
      type = ir::withScalar(type, promote(type, other));
    }
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(paths.branches);
    Value place = makeLocal(type);
    const Value *sides[] = {first, second};
    mlir::Region *regions[] = {&paths.branches.getThenRegion(), &paths.branches.getElseRegion()};
    for (int side = 0; side < 2; ++side) {
      if (!sides[side]) continue;
      builder.setInsertionPoint(regions[side]->front().getTerminator());
      create<ir::StoreOp>(convert(emit(*sides[side]), type), place.ir);
    }
    return place;
  };
  Value joined = join(paths.isTerminated[0] ? nullptr : &paths.values[0], paths.isTerminated[1] ? nullptr : &paths.values[1]);
  binding.kind = Binding::Kind::Variable;
  binding.value = joined;
  binding.merge.reset();
  return joined;
}

} // namespace qd::frontend
