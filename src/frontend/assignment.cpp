// assignment.cpp: assignments to variables, components, elements and members, and unpacking
//
// In:   the syntax node of a target and the assigned value.
// Out:  a new or changed binding, or stores and atomic updates.
// Here: only this file decides whether a name becomes a variable (a place), a compile-time object, or an alias of its value.
#include "frontend/builder.h"

using namespace mlir;

namespace qd::frontend {

using Kind = Value::Kind;
using artifact::PathStep;
using ir::BinaryKind;

Value FunctionBuilder::makeLocal(Type type) {
  Value place = makePlace(create<ir::LocalOp>(ir::RefType::get(type)));
  // Iterations of a parallel loop share the variables of the kernel's serial part.
  place.isKernelVariable = (isKernelLevel || isPartOfKernel) && !isInsideParallel;
  return place;
}

std::vector<Value> FunctionBuilder::listItems(const Value &value, llvm::StringRef purpose) {
  std::vector<Value> items;
  if (value.is(Kind::Sequence) || value.is(Kind::Struct)) return value.aggregate->items;
  if (value.is(Kind::Dictionary)) {
    for (const nb::object &name : value.aggregate->names) items.push_back(makeObject(name));
    return items;
  }
  if (value.isObject() && session.python.isInstance(value.object, session.python.groupedRange)) {
    for (nb::handle index : getAttribute(value.object, names().r)) items.push_back(indexVector(index));
    return items;
  }
  if (value.isIndex)
    return listValues(getAttribute(value.object, names()._array).attr("tolist")(), [](nb::handle item) { return makeObject(item); });
  if (value.isObject() && session.python.isInstance(value.object, session.python.matrix))
    return listItems(makeComputed(emitHostMatrix(value.object)), purpose);
  nb::object iterator;
  if (value.isObject() && !session.python.isTensor(value.object) && !session.python.isNumber(value.object))
    iterator = nb::steal(PyObject_GetIter(value.object.ptr()));
  if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_TypeError)) throw nb::python_error(); // raised by the object's __iter__
  if (iterator) {
    bool hasItems = PyList_Check(value.object.ptr()) || PyTuple_Check(value.object.ptr());
    auto step = [&] { return hasItems ? session.tracker.getStep(value.path, PathStep::Kind::Item, "", int64_t(items.size())) : nullptr; };
    while (nb::object item = nb::steal(PyIter_Next(iterator.ptr()))) {
      session.tracker.read(step(), item);
      items.push_back(fromPython(item, step()));
    }
    if (PyErr_Occurred()) throw nb::python_error();
    session.tracker.depend(step(), artifact::Dependency::Kind::Absent);
    return items;
  }
  PyErr_Clear();
  auto type = value.isTyped() ? dyn_cast<VectorType>(value.type) : VectorType();
  if (!type && purpose == "unpack") fail(error::kSyntax, "Cannot unpack type: " + describe(value));
  if (!type) fail(error::kType, "cannot " + purpose + " " + describe(value));
  // All components are loaded before any target is assigned.
  mlir::Value whole = emit(value);
  int64_t columns = type.getRank() == 2 ? type.getDimSize(1) : 1;
  if (columns != 1 && purpose == "unpack") fail(error::kSyntax, "Matrices with more than one columns cannot be unpacked");
  for (int64_t row = 0; row < type.getDimSize(0); ++row) {
    SmallVector<mlir::Value> components;
    for (int64_t column = 0; column < columns; ++column) components.push_back(extract(whole, row * columns + column));
    items.push_back(makeComputed(columns == 1 ? components[0] : makeVector(components, VectorType::get({columns}, type.getElementType()))));
  }
  return items;
}

Value FunctionBuilder::indexVector(nb::handle index) {
  if (nb::len(index) == 0) return makeTuple({});
  Value vector = makeObject(session.python.vector(nb::list(index), nb::module_::import_("quadrants._base.dtypes").attr("i32")));
  vector.isIndex = true;
  return vector;
}

Value FunctionBuilder::copy(const Value &value) {
  return value.is(Kind::Struct) ? mapItems(value, [&](const Value &item) { return copy(item); }) : load(value);
}

Value FunctionBuilder::declare(const Value &value, bool isAssignedOnce) {
  if (value.is(Kind::Struct)) return mapItems(value, [&](const Value &item) { return declare(item, false); });
  mlir::Value initial = emit(value);
  if (isAssignedOnce) return makeComputed(initial);
  Value place = makeLocal(initial.getType());
  create<ir::StoreOp>(initial, place.ir);
  return place;
}

void FunctionBuilder::materialize(const Value &container, const Assignments &use) {
  if (!container.is(Kind::Sequence) && !container.is(Kind::Dictionary)) return;
  Aggregate &aggregate = *container.aggregate;
  if (aggregate.isTuple || aggregate.isUnpacked || aggregate.ownerBlock) return;
  aggregate.ownerBlock = builder.getInsertionBlock();
  for (Value &item : aggregate.items)
    if (item.is(Kind::Computed) ? use.hasItemAssigned || use.hasItemPassed
                                : use.hasItemAssigned && item.isObject() && session.python.isNumber(item.object))
      item = declare(item, false);
}

Value *FunctionBuilder::findItem(const Value &container, const Value &key) {
  if (container.is(Kind::Dictionary)) return findKey(container, knownKey(key));
  std::vector<Value> &items = container.aggregate->items;
  std::optional<int64_t> position = findPosition(key);
  if (!position) return nullptr;
  return &items[size_t(wrapIndex(*position, int64_t(items.size()), "a list of " + std::to_string(items.size())))];
}

void FunctionBuilder::assignItem(const Value &container, const Value &key, const Value &value) {
  Arguments item;
  item.positional = {key, value};
  callSequenceMethod(container, "__setitem__", item);
}

void FunctionBuilder::failImmutable(const llvm::Twine &name) {
  fail(error::kSyntax,
       "Kernel argument \"" + name + "\" is immutable in the kernel. If you want to change its value, please create a new variable.");
}

void FunctionBuilder::failCaptured(const llvm::Twine &name) {
  fail(error::kSyntax, "'" + name + "' cannot be assigned: a captured value is constant");
}

bool FunctionBuilder::isVisible(const Binding *binding) {
  return binding && binding->kind != Binding::Kind::Merged && binding->kind != Binding::Kind::Partial;
}

Binding *FunctionBuilder::findTarget(nb::handle target) {
  At here(*this, target);
  nb::object name = getAttribute(target, names().id);
  Binding *binding = scopes.find(name.ptr());
  if (!isVisible(binding)) return nullptr;
  if (binding->kind == Binding::Kind::Parameter) failImmutable(toText(name));
  if (binding->kind == Binding::Kind::LoopVariable)
    fail(error::kSyntax, "the loop variable '" + toText(name) + "' cannot be assigned: assign a new variable");
  return binding;
}

void FunctionBuilder::assignName(nb::handle target, const Value &given, Type declared) {
  nb::object name = getAttribute(target, names().id);
  llvm::StringRef text = toText(name);
  auto failHere = [&](const llvm::Twine &message) {
    At here(*this, target);
    fail(error::kSyntax, message);
  };
  Binding *binding = findTarget(target);
  Value value = declared ? makeComputed(convert(given, declared)) : given;
  bool isContainer = value.is(Kind::Sequence) || value.is(Kind::Dictionary) || value.is(Kind::Method) || value.is(Kind::Range) ||
                     value.is(Kind::Tensor) || value.is(Kind::View) || value.is(Kind::Instance);
  bool isObject = value.isObject() && !canEmit(value);
  Binding made;
  if (value.isStatic || isContainer || isObject) {
    if (isObject && !value.isStatic) {
      PyObject *object = value.object.ptr();
      if (PyUnicode_Check(object) || PyBytes_Check(object) || PyComplex_Check(object) || object == Py_Ellipsis)
        fail(error::kType, "Invalid constant scalar data type: " + describeType(value.object));
    }
    bool isVariable = binding && binding->kind == Binding::Kind::Variable;
    if (isVariable && isContainer && binding->value.is(Kind::Place)) return store(binding->value, value);
    bool isSameTime = binding && binding->kind == Binding::Kind::Static && binding->runtimeDepth == runtimeDepth;
    if (binding && (isVariable || (binding->scope != scopes.depth() && !isSameTime)))
      failHere("Recreating variables is not allowed: '" + text + "' is already defined");
    materialize(value, value.isStatic ? Assignments() : assignmentCounts->lookup(name.ptr()));
    if (isSameTime) {
      binding->value = value;
      return;
    }
    made.kind = Binding::Kind::Static;
    made.runtimeDepth = runtimeDepth;
    made.value = value;
  } else if (binding) {
    bool isPlace = binding->value.is(Kind::Place) || binding->value.is(Kind::Struct) || binding->value.is(Kind::Components);
    bool isObjectBefore = binding->kind == Binding::Kind::Static && !binding->value.isStatic && binding->runtimeDepth == runtimeDepth;
    if (isObjectBefore) { // a name of None or a list becomes a variable
      binding->kind = Binding::Kind::Variable;
      binding->value = declare(value, false);
      return;
    }
    if (binding->kind == Binding::Kind::Static || !isPlace)
      failHere("Variable '" + text + "' cannot be assigned. Maybe it is not a Quadrants object?");
    return store(binding->value, value);
  } else {
    made.value = declare(value, assignmentCounts->lookup(name.ptr()).count < 2);
  }
  scopes.bind(name.ptr(), std::move(made));
}

void FunctionBuilder::forEachPlace(const Value &place, mlir::Value value, llvm::function_ref<void(mlir::Value ref, mlir::Value part)> act) {
  if (place.is(Kind::Place)) return act(place.ir, value);
  for (size_t position = 0; position < size_t(ir::getComponentCount(place.type)); ++position)
    act(componentPlace(place, position).ir, isa<VectorType>(value.getType()) ? extract(value, int64_t(position)) : value);
}

void FunctionBuilder::storeTyped(const Value &place, mlir::Value value) {
  forEachPlace(place, convert(value, place.type), [&](mlir::Value ref, mlir::Value part) { create<ir::StoreOp>(part, ref); });
}

void FunctionBuilder::requirePlace(const Value &place) {
  if (place.isReadOnly) failImmutable(place.path ? DependencyTracker::describe(place.path) : "parameter");
  if (place.is(Kind::Struct) || place.is(Kind::Place) || place.is(Kind::Components)) return;
  if (place.is(Kind::Argument)) failImmutable(DependencyTracker::describe(place.path));
  if (place.is(Kind::View)) emit(place); // reports the mistake of using a view as an element
  if (place.is(Kind::Object) && place.path) failCaptured(DependencyTracker::describe(place.path));
  fail(error::kSyntax, "the target is not an lvalue and cannot be assigned");
}

void FunctionBuilder::requireSameMembers(const Value &first, const Value &second) {
  if (!first.is(Kind::Struct) && !second.is(Kind::Struct)) return;
  auto list = [&](const Value &value) {
    return value.is(Kind::Struct) ? toText(nb::repr(nb::cast(value.aggregate->names))).str() : describe(value);
  };
  if (list(first) != list(second)) fail(error::kType, "Member mismatch between structs " + list(first) + ", " + list(second));
  for (auto [one, other] : llvm::zip_equal(first.aggregate->items, second.aggregate->items)) requireSameMembers(one, other);
}

void FunctionBuilder::store(const Value &place, const Value &value) {
  requirePlace(place);
  if (place.is(Kind::Struct)) {
    if (value.isObject() && session.python.isInstance(value.object, session.python.structValue)) return store(place, structOfObject(value));
    if (!value.is(Kind::Struct)) fail(error::kType, "cannot assign '" + describe(value) + "' to a struct");
    requireSameMembers(place, value);
    // All members are loaded before any is stored, because the two structs may overlap.
    Value copied = copy(value);
    for (auto [member, item] : llvm::zip(place.aggregate->items, copied.aggregate->items)) store(member, item);
    return;
  }
  if (value.is(Kind::Struct)) fail(error::kType, "cannot assign a struct to '" + ir::describe(place.type) + "'");
  storeTyped(place, value.isObject() && place.is(Kind::Place) ? convert(value, place.type) : emit(value, place.type));
}

Value FunctionBuilder::memberTarget(const Value &base, nb::handle name) {
  if (base.isObject() && base.path && !session.python.isTensor(base.object)) {
    const PathNode *root = base.path;
    while (root->parent) root = root->parent;
    std::string member = DependencyTracker::describe(base.path) + "." + toText(name).str();
    if (base.hasRuntimeMembers)
      for (size_t dot; (dot = member.rfind('.')) != std::string::npos;) member.replace(dot, 1, "__qd_");
    if (base.hasRuntimeMembers) failImmutable("__qd_" + member);
    if (root->root == artifact::Path::Root::Argument) failImmutable(member);
    failCaptured(member);
  }
  if (base.is(Kind::Argument)) requirePlace(base);
  return getAttributeOf(base, name);
}

std::optional<Value> FunctionBuilder::visitTarget(nb::handle target, const Value &value) {
  At here(*this, target);
  Value place;
  if (kindOf(target) == NodeKind::Attribute) {
    Value base = visit(getAttribute(target, names().value));
    nb::object name = getAttribute(target, names().attr);
    if (base.is(Kind::Instance)) {
      storeMember(base, name, value);
      return std::nullopt;
    }
    place = memberTarget(base, name);
  } else if (kindOf(target) == NodeKind::Subscript) {
    if (value.isStatic) fail(error::kSyntax, "Static assign cannot be used on elements in arrays");
    Value base = visit(getAttribute(target, names().value));
    nb::object index = getAttribute(target, names().slice);
    if (base.is(Kind::Sequence) && base.aggregate->isTuple) fail(error::kType, "the items of a tuple cannot be assigned");
    if ((base.is(Kind::Sequence) && !base.aggregate->isUnpacked) || base.is(Kind::Dictionary)) {
      Value key = visit(index), *item = findItem(base, key);
      if (item && (item->is(Kind::Place) || item->is(Kind::Struct))) return *item;
      assignItem(base, key, value);
      return std::nullopt;
    }
    if (base.isObject() && base.path && session.python.isInstance(base.object, session.python.matrix))
      failCaptured(DependencyTracker::describe(base.path));
    if (base.is(Kind::Argument)) requirePlace(base);
    if (base.is(Kind::Instance) && callSpecial(base, "__setitem__", {copyElement(visit(index)), value})) return std::nullopt;
    if (isRegisterTile(base) && kindOf(index) == NodeKind::Slice) {
      loadTile(base, index, value);
      return std::nullopt;
    }
    place = subscript(base, index);
    if (place.is(Kind::View) && isRegisterTile(value)) {
      callRegisterTile(value, "_store", {clippedView(place)});
      return std::nullopt;
    }
  } else {
    fail(error::kSyntax, kindOf(target) == NodeKind::Starred ? "a starred target must be in a list or tuple" : "this cannot be assigned");
  }
  requirePlace(place);
  return place;
}

std::vector<std::pair<nb::object, Value>> FunctionBuilder::pairTargets(nb::handle targets, const Value &value) {
  std::vector<Value> items = listItems(value, "unpack");
  size_t count = nb::len(targets), starred = SIZE_MAX;
  for (size_t index = 0; index < count; ++index) {
    if (kindOf(nb::object(targets[index])) != NodeKind::Starred) continue;
    if (starred != SIZE_MAX) fail(error::kSyntax, "only one target may be starred");
    starred = index;
  }
  if (starred == SIZE_MAX ? items.size() != count : items.size() + 1 < count)
    fail(error::kSyntax, "The number of targets is not equal to value length: " + std::to_string(count) + " targets, " +
                             std::to_string(items.size()) + " values");
  std::vector<std::pair<nb::object, Value>> pairs;
  auto item = items.begin();
  for (size_t index = 0; index < count; ++index) {
    nb::object target = targets[index];
    if (index == starred) {
      auto end = item + int64_t(items.size() + 1 - count);
      pairs.emplace_back(getAttribute(target, names().value), makeAggregate(Kind::Sequence, {item, end}));
      item = end;
    } else {
      pairs.emplace_back(std::move(target), *item++);
    }
  }
  return pairs;
}

void FunctionBuilder::assign(nb::handle target, const Value &value) {
  if (kindOf(target) == NodeKind::Name) return assignName(target, value);
  if (kindOf(target) == NodeKind::Tuple || kindOf(target) == NodeKind::List) {
    auto pairs = pairTargets(getAttribute(target, names().elts), value);
    // The right side is evaluated completely before the first target changes.
    for (auto &[part, item] : pairs) {
      item = load(item);
      item.isStatic = item.isStatic || value.isStatic;
    }
    for (auto &[part, item] : pairs) assign(part, item);
    return;
  }
  if (std::optional<Value> place = visitTarget(target, value)) store(*place, value);
}

void FunctionBuilder::visitAssign(nb::handle at) {
  nb::object expression = getAttribute(at, names().value);
  Value value = visit(expression);
  // Errors from here on are located at the value; `findTarget` and `visitTarget` locate theirs at the target.
  At here(*this, expression);
  nb::object targets = getAttribute(at, names().targets);
  if (nb::len(targets) > 1) value = copy(value);
  // A name that is assigned from the name of a static number is not static; only a call of qd.static makes it so.
  if (kindOf(expression) == NodeKind::Name && value.isObject() && canEmit(value)) value.isStatic = false;
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
  if (Type read = session.valueType(type); read != type) {
    value = rounded(makeComputed(convert(value, type)));
    type = read;
  }
  Binding *binding = scopes.find(getAttribute(target, names().id).ptr());
  if (binding && binding->kind == Binding::Kind::Variable && binding->value.isTyped() && binding->value.type != type)
    fail(error::kSyntax, "Static assign cannot have type overloading: '" + toText(getAttribute(target, names().id)) + "' is '" +
                             ir::describe(binding->value.type) + "'");
  At here(*this, expression);
  assignName(target, value, type);
}

ir::AtomicKind FunctionBuilder::getAtomicKind(ir::AtomicKind kind, Type scalar) {
  if (!scalar.isInteger(1)) return kind;
  switch (kind) {
  case ir::AtomicKind::add: return ir::AtomicKind::bit_or;
  case ir::AtomicKind::sub: return ir::AtomicKind::bit_xor;
  case ir::AtomicKind::mul: return ir::AtomicKind::bit_and;
  default: return kind;
  }
}

void FunctionBuilder::augment(const Value &place, BinaryKind kind, const Value &value, llvm::StringRef symbol) {
  if (place.is(Kind::Struct)) {
    for (auto [index, member] : llvm::enumerate(place.aggregate->items))
      augment(member, kind, value.is(Kind::Struct) ? value.aggregate->items[index] : value, symbol);
    return;
  }
  if (!place.is(Kind::Place) && !place.is(Kind::Components)) return store(place, value);
  if (place.isReadOnly) failImmutable(place.path ? DependencyTracker::describe(place.path) : "parameter");
  std::optional<ir::AtomicKind> atomic;
  Type scalar = ir::getScalar(place.type);
  if (kind != BinaryKind::min && kind != BinaryKind::max)
    if (auto found = ir::findKind<ir::AtomicKind>(ir::getOpInfo(kind).name)) atomic = getAtomicKind(*found, scalar);
  mlir::Value operand = emit(value, place.type);
  bool isFloat = ir::isFloatScalar(scalar) || ir::isFloatScalar(ir::getScalar(operand.getType()));
  auto shape = dyn_cast<VectorType>(operand.getType()), placeShape = dyn_cast<VectorType>(place.type);
  if ((ir::getOpInfo(kind).operand == ir::OperandClass::Integer && isFloat) ||
      (shape && (!placeShape || placeShape.getShape() != shape.getShape())))
    fail(error::kType, "unsupported operand type(s) for '" + symbol + "=': '" + ir::describe(place.type) + "' and '" +
                           ir::describe(operand.getType()) + "'");
  const Value &whole = place.is(Kind::Components) ? place.aggregate->items[0] : place;
  if (atomic && (whole.isElement || (whole.isKernelVariable && isInsideParallel)))
    return forEachPlace(place, convert(operand, place.type),
                        [&](mlir::Value ref, mlir::Value part) { create<ir::AtomicOp>(*atomic, ref, part); });
  mlir::Value old = emit(place);
  // An operator with an atomic form converts its operand first, so that `x += 1.9` is the same for a variable and an element.
  if (atomic && kind != BinaryKind::mul) operand = cast(operand, scalar);
  storeTyped(place, kind == BinaryKind::pow ? emit(power(makeComputed(old), value.isObject() ? value : makeComputed(operand)))
                                            : binaryTyped(kind, old, operand, symbol));
}

void FunctionBuilder::visitAugmentedAssign(nb::handle at) {
  nb::object target = getAttribute(at, names().target);
  NodeKind kind = kindOf(getAttribute(at, names().op));
  const Operator *op = findOperator(kind);
  if (kindOf(target) == NodeKind::Name) {
    nb::object name = getAttribute(target, names().id);
    if (scopes.isPoisoned(name.ptr())) throw CompileError{};
    Binding *binding = findTarget(target);
    if (!scopes.find(name.ptr())) {
      lookUpGlobal(name);
      failCaptured(toText(name));
    }
    if (binding && binding->kind == Binding::Kind::Static && binding->value.is(Kind::Instance)) {
      Value owner = binding->value, value = copyElement(visit(getAttribute(at, names().value)));
      std::optional<Value> result = callInPlace(kind, owner, value);
      if (!result) failOperands(op ? llvm::StringRef(op->symbol) : "@", owner, value);
      if (result->aggregate != owner.aggregate) assignName(target, *result);
      return;
    }
    if (binding && binding->kind == Binding::Kind::Static) {
      if (!binding->value.is(Kind::Sequence) || !op)
        fail(error::kSyntax, "Variable '" + toText(name) + "' cannot be assigned. Maybe it is not a Quadrants object?");
      if (binding->runtimeDepth != runtimeDepth) fail(error::kSyntax, "Recreating variables is not allowed: '" + toText(name) + "'");
      binding->value = binary(op->kind, binding->value, visit(getAttribute(at, names().value)), op->symbol);
      return;
    }
  }
  if (op && kindOf(target) == NodeKind::Subscript && kindOf(getAttribute(target, names().value)) == NodeKind::Name) {
    Value base = visit(getAttribute(target, names().value));
    bool isList = (base.is(Kind::Sequence) && !base.aggregate->isTuple && !base.aggregate->isUnpacked) || base.is(Kind::Dictionary);
    if (isList) {
      Value key = visit(getAttribute(target, names().slice)), *item = findItem(base, key);
      if (item && !item->is(Kind::Place) && !item->is(Kind::Struct)) {
        Value old = *item, value = visit(getAttribute(at, names().value));
        return assignItem(base, key, binary(op->kind, old, value, op->symbol));
      }
    }
  }
  bool isMember = kindOf(target) == NodeKind::Attribute && !isSuperCall(getAttribute(target, names().value));
  Value owner = isMember ? visit(getAttribute(target, names().value)) : Value();
  auto memberOf = [&] {
    At here(*this, target);
    return getAttributeOf(owner, getAttribute(target, names().attr));
  };
  Value place = isMember ? memberOf() : visit(target);
  if (op && isMember && owner.is(Kind::Instance) && (place.isObject() || place.is(Kind::Sequence) || place.is(Kind::Instance))) {
    Value value = visit(getAttribute(at, names().value));
    std::optional<Value> result = place.is(Kind::Instance) ? callInPlace(kind, place, copyElement(value)) : std::nullopt;
    if (result && result->aggregate == place.aggregate) return;
    return storeMember(owner, getAttribute(target, names().attr), result ? *result : binary(op->kind, place, value, op->symbol));
  }
  if (place.isObject() || place.is(Kind::Argument)) return store(place, place);
  if (place.is(Kind::Computed)) fail(error::kSyntax, "the target is not an lvalue and cannot be assigned");
  if (isRegisterTile(place)) return augmentTile(place, at);
  Value value = visit(getAttribute(at, names().value));
  if (!op) return store(place, matmul(makeComputed(emit(place)), value));
  augment(place, op->kind, value, op->symbol);
}

Value FunctionBuilder::merge(Binding &binding, PyObject *name) {
  bool isVariable = binding.merge || binding.value.isTyped() || binding.value.is(Kind::Struct);
  binding.kind = isVariable ? Binding::Kind::Variable : Binding::Kind::Static;
  // Without `merge` the binding is from the taken branch of a compile-time `if`.
  if (!binding.merge) return binding.value;
  Merge &paths = *binding.merge;
  std::function<Value(const Value *, const Value *)> unify = [&](const Value *first, const Value *second) -> Value {
    const Value &shape = first ? *first : *second;
    if (shape.is(Kind::Struct)) {
      size_t member = 0;
      auto part = [&](const Value *side) { return side ? &side->aggregate->items[member] : nullptr; };
      return mapItems(shape, [&](const Value &) {
        Value unified = unify(part(first), part(second));
        ++member;
        return unified;
      });
    }
    Type type = first && second ? findCommonType(first->type, second->type) : shape.type;
    if (!type)
      fail(error::kType, "'" + toText(name) + "' is '" + ir::describe(first->type) + "' on one path and '" + ir::describe(second->type) +
                             "' on the other");
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(paths.branches);
    Value place = makeLocal(type);
    for (auto [side, region] : {std::pair(first, &paths.branches.getThenRegion()), std::pair(second, &paths.branches.getElseRegion())}) {
      if (!side) continue;
      builder.setInsertionPoint(region->front().getTerminator());
      create<ir::StoreOp>(convert(emit(*side), type), place.ir);
    }
    return place;
  };
  binding.value = unify(paths.isTerminated[0] ? nullptr : &paths.values[0], paths.isTerminated[1] ? nullptr : &paths.values[1]);
  binding.merge.reset();
  return binding.value;
}

} // namespace qd::frontend
