// assignments.cpp: assignments to variables, components, elements and members, and unpacking
//
// In:   the syntax node of a target and the assigned value.
// Out:  a new or changed binding, or stores and atomic updates.
// Here: only this file decides whether a name becomes a variable (a place), a compile-time object, or an alias of its value.
#include "frontend/builder.h"

using namespace mlir;

namespace qd::frontend {

void Assignments::assignName(nb::handle target, const Operand &given, Type declared) {
  nb::object name = getAttribute(target, names().id);
  llvm::StringRef text = toText(name);
  auto failHere = [&](const llvm::Twine &message) {
    At here(context, target);
    fail(error::kSyntax, message);
  };
  Binding *binding = variables().findTarget(target);
  Operand value = declared ? makeComputed(conversions.convert(given, declared)) : given;
  bool isContainer = value.is<Sequence>() || value.is<Dictionary>() || value.is<DictView>() || value.is<Method>() || value.is<Range>() ||
                     value.is<Containers>() || value.is<Tensor>() || value.is<View>() || value.is<Instance>();
  bool isObject = value.isObject() && !conversions.canEmit(value);
  Binding made;
  if (value.isStatic || isContainer || isObject) {
    if (isObject && !value.isStatic) {
      PyObject *object = value.getObject().ptr();
      if (PyUnicode_Check(object) || PyBytes_Check(object) || PyComplex_Check(object) || object == Py_Ellipsis)
        fail(error::kType, "Invalid constant scalar data type: " + describeType(value.getObject()));
    }
    bool isVariable = binding && binding->kind == Binding::Kind::Variable;
    if (isVariable && isContainer && binding->value.is<Place>()) return variables().store(binding->value, value);
    bool isSameTime = binding && binding->kind == Binding::Kind::Static && binding->runtimeDepth == nesting.runtimeDepth;
    if (binding && (isVariable || (binding->scope != scopes.depth() && !isSameTime)))
      failHere("Recreating variables is not allowed: '" + text + "' is already defined");
    if (isObject && session.functions.collectionOwners.try_emplace(value.getObject().ptr(), builder.getInsertionBlock()).second)
      session.functions.keptAlive.push_back(value.getObject());
    collections().materialize(value, value.isStatic ? AssignmentCount() : context.assignmentCounts->lookup(name.ptr()));
    if (isSameTime) {
      binding->value = value;
      return;
    }
    made.kind = Binding::Kind::Static;
    made.runtimeDepth = nesting.runtimeDepth;
    made.value = value;
  } else if (binding) {
    bool isPlace = binding->value.is<Place>() || binding->value.is<Struct>() || binding->value.is<Components>();
    bool isObjectBefore =
        binding->kind == Binding::Kind::Static && !binding->value.isStatic && binding->runtimeDepth == nesting.runtimeDepth;
    if (isObjectBefore) { // a name of None or a list becomes a variable
      binding->kind = Binding::Kind::Variable;
      binding->value = variables().declare(value, false);
      return;
    }
    if (binding->kind == Binding::Kind::Static || !isPlace)
      failHere("Variable '" + text + "' cannot be assigned. Maybe it is not a Quadrants object?");
    return variables().store(binding->value, value);
  } else {
    made.value = variables().declare(value, context.assignmentCounts->lookup(name.ptr()).count < 2);
  }
  scopes.bind(name.ptr(), std::move(made));
}

Operand Assignments::memberTarget(const Operand &base, nb::handle name) {
  if (auto *object = base.find<PythonObject>(); object && object->path && !session.python.isTensor(object->object)) {
    const PathNode *root = object->path;
    while (root->parent) root = root->parent;
    std::string member = DependencyTracker::describe(object->path) + "." + toText(name).str();
    if (object->hasRuntimeMembers)
      for (size_t dot; (dot = member.rfind('.')) != std::string::npos;) member.replace(dot, 1, "__qd_");
    if (object->hasRuntimeMembers) variables().failImmutable("__qd_" + member);
    if (root->root == artifact::Path::Root::Argument) variables().failImmutable(member);
    variables().failCaptured(member);
  }
  if (base.is<Argument>()) variables().requirePlace(base);
  return attributes().getAttributeOf(base, name);
}

std::optional<Operand> Assignments::visitTarget(nb::handle target, const Operand &value) {
  At here(context, target);
  Operand place;
  if (kindOf(target) == NodeKind::Attribute) {
    Operand base = expressions().visit(getAttribute(target, names().value));
    nb::object name = getAttribute(target, names().attr);
    if (auto *instance = base.find<Instance>()) {
      instances().storeMember(*instance, name, value);
      return std::nullopt;
    }
    place = memberTarget(base, name);
  } else if (kindOf(target) == NodeKind::Subscript) {
    if (value.isStatic) fail(error::kSyntax, "Static assign cannot be used on elements in arrays");
    Operand base = expressions().visit(getAttribute(target, names().value));
    nb::object index = getAttribute(target, names().slice);
    auto *sequence = base.find<Sequence>();
    if (sequence && sequence->isTuple) fail(error::kType, "the items of a tuple cannot be assigned");
    if ((sequence && !sequence->isUnpacked) || base.is<Dictionary>()) {
      if (sequence && kindOf(index) == NodeKind::Slice) {
        collections().assignSlice(base, subscripts().visitIndices(index)[0].get<Slice>(), value);
        return std::nullopt;
      }
      Operand key = conversions.load(expressions().visit(index)), *item = collections().findItem(base, key);
      if (item && (item->is<Place>() || item->is<Struct>())) return *item;
      if (sequence && !item && key.isTyped()) {
        collections().changeItem(base, key,
                                 [&, given = conversions.load(value)](const Operand &place) { variables().store(place, given); });
        return std::nullopt;
      }
      collections().assignItem(base, key, value);
      return std::nullopt;
    }
    auto *object = base.find<PythonObject>();
    if (object && object->path &&
        (isList(base) || PyDict_Check(object->object.ptr()) || session.python.isInstance(object->object, session.python.values.matrix)))
      variables().failCaptured(DependencyTracker::describe(object->path));
    if (base.is<Argument>()) variables().requirePlace(base);
    if (session.python.isInstance(base.getObject(), session.python.host.numpyArray) && !conversions.isTensor(base))
      fail(error::kSyntax, "a NumPy array in a kernel is constant, unless it is an argument annotated with qd.types.NDArray[...]; small "
                           "arrays of a kernel are made by qd.Vector and qd.Matrix");
    if (instances().hasSpecial(base, "__setitem__")) {
      instances().callSpecial(base, "__setitem__", {collections().copyElement(expressions().visit(index)), value});
      return std::nullopt;
    }
    if (registerTiles().isRegisterTile(base) && kindOf(index) == NodeKind::Slice) {
      registerTiles().loadTile(base, index, value);
      return std::nullopt;
    }
    place = subscripts().subscript(base, index);
    if (auto *view = place.find<View>(); view && registerTiles().isRegisterTile(value)) {
      registerTiles().callRegisterTile(value, "_store", {views().clippedView(*view)});
      return std::nullopt;
    }
  } else {
    fail(error::kSyntax, kindOf(target) == NodeKind::Starred ? "a starred target must be in a list or tuple" : "this cannot be assigned");
  }
  variables().requirePlace(place);
  return place;
}

std::vector<std::pair<nb::object, Operand>> Assignments::pairTargets(nb::handle targets, const Operand &value) {
  std::vector<Operand> items = collections().listItems(value, "unpack");
  size_t count = nb::len(targets), starred = SIZE_MAX;
  for (size_t index = 0; index < count; ++index) {
    if (kindOf(nb::object(targets[index])) != NodeKind::Starred) continue;
    if (starred != SIZE_MAX) fail(error::kSyntax, "only one target may be starred");
    starred = index;
  }
  if (starred == SIZE_MAX ? items.size() != count : items.size() + 1 < count)
    fail(error::kSyntax, "The number of targets is not equal to value length: " + std::to_string(count) + " targets, " +
                             std::to_string(items.size()) + " values");
  std::vector<std::pair<nb::object, Operand>> pairs;
  auto item = items.begin();
  for (size_t index = 0; index < count; ++index) {
    nb::object target = targets[index];
    if (index == starred) {
      auto end = item + int64_t(items.size() + 1 - count);
      pairs.emplace_back(getAttribute(target, names().value), makeSequence({item, end}));
      item = end;
    } else {
      pairs.emplace_back(std::move(target), *item++);
    }
  }
  return pairs;
}

void Assignments::assign(nb::handle target, const Operand &value) {
  if (kindOf(target) == NodeKind::Name) return assignName(target, value);
  if (kindOf(target) == NodeKind::Tuple || kindOf(target) == NodeKind::List) {
    auto pairs = pairTargets(getAttribute(target, names().elts), value);
    // The right side is evaluated completely before the first target changes.
    for (auto &[part, item] : pairs) {
      item = conversions.load(item);
      item.isStatic = item.isStatic || value.isStatic;
    }
    for (auto &[part, item] : pairs) assign(part, item);
    return;
  }
  if (std::optional<Operand> place = visitTarget(target, value)) variables().store(*place, value);
}

void Assignments::visitAssign(nb::handle at) {
  nb::object expression = getAttribute(at, names().value);
  Operand value = expressions().visit(expression);
  // Errors from here on are located at the value; `findTarget` and `visitTarget` locate theirs at the target.
  At here(context, expression);
  nb::object targets = getAttribute(at, names().targets);
  if (nb::len(targets) > 1) value = conversions.copy(value);
  // A name that is assigned from the name of a static number is not static; only a call of qd.static makes it so.
  if (kindOf(expression) == NodeKind::Name && value.isObject() && conversions.canEmit(value)) value.isStatic = false;
  if (!value.isStatic && session.python.isInstance(value.getObject(), session.python.values.structValue))
    value = structs().structOfObject(value);
  for (nb::handle target : targets) assign(target, value);
}

void Assignments::visitAnnotatedAssign(nb::handle at) {
  nb::object target = getAttribute(at, names().target), expression = getAttribute(at, names().value);
  nb::object annotation = conversions.toPython(expressions().visit(getAttribute(at, names().annotation)));
  Type type = annotation ? session.findValueType(annotation) : Type();
  if (expression.is_none()) fail(error::kSyntax, "a declaration needs a value");
  Operand value = expressions().visit(expression);
  if (value.isStatic) fail(error::kSyntax, "Static assign cannot be used on annotated assignment");
  if (!type) {
    if (annotation && session.python.isInstance(annotation, session.python.values.structType))
      return assign(target, structs().convertMember(annotation, value));
    fail(error::kSyntax, "the annotation is no data type of the kernel language");
  }
  if (kindOf(target) != NodeKind::Name) fail(error::kSyntax, "only variables can be declared");
  if (Type read = session.valueType(type); read != type) {
    value = conversions.rounded(makeComputed(conversions.convert(value, type)));
    type = read;
  }
  Binding *binding = scopes.find(getAttribute(target, names().id).ptr());
  if (binding && binding->kind == Binding::Kind::Variable && binding->value.isTyped() && binding->value.getType() != type)
    fail(error::kSyntax, "Static assign cannot have type overloading: '" + toText(getAttribute(target, names().id)) + "' is '" +
                             ir::describe(binding->value.getType()) + "'");
  At here(context, expression);
  assignName(target, value, type);
}

void Assignments::augment(const Operand &place, BinaryKind kind, const Operand &value, llvm::StringRef symbol) {
  if (auto *structure = place.find<Struct>()) {
    if (const Operator *op = findOperator(kind))
      if (std::optional<Operand> result = instances().callInPlace(op->node, place, value)) return variables().store(place, *result);
    auto *other = value.find<Struct>();
    for (auto [index, member] : llvm::enumerate(structure->items)) augment(member, kind, other ? other->items[index] : value, symbol);
    return;
  }
  auto *components = place.find<Components>();
  if (!place.is<Place>() && !components) return variables().store(place, value);
  if (place.isReadOnly()) variables().failImmutable("parameter");
  Type type = place.getType();
  std::optional<ir::AtomicKind> atomic;
  Type scalar = ir::getScalar(type);
  if (kind != BinaryKind::min && kind != BinaryKind::max)
    if (auto found = ir::findKind<ir::AtomicKind>(ir::getOpInfo(kind).name)) atomic = Emitter::getAtomicKind(*found, scalar);
  mlir::Value operand = conversions.emit(value, type);
  bool isFloat = ir::isFloatScalar(scalar) || ir::isFloatScalar(ir::getScalar(operand.getType()));
  auto shape = dyn_cast<VectorType>(operand.getType()), placeShape = dyn_cast<VectorType>(type);
  if ((ir::getOpInfo(kind).operand == ir::OperandClass::Integer && isFloat) ||
      (shape && (!placeShape || placeShape.getShape() != shape.getShape())))
    fail(error::kType, "unsupported operand type(s) for '" + symbol + "=': '" + ir::describe(type) + "' and '" +
                           ir::describe(operand.getType()) + "'" +
                           (ir::getOpInfo(kind).operand == ir::OperandClass::Integer ? "; it requires integer operands" : ""));
  const Operand &first = !components ? place : components->places.empty() ? components->whole : components->places[0];
  auto *whole = first.find<Place>();
  if (atomic && whole && (whole->isElement || (whole->isKernelVariable && nesting.isInsideParallel)))
    return variables().forEachPlace(place, emitter.convert(operand, type),
                                    [&](const Place &one, mlir::Value part) { variables().update(*atomic, one, part); });
  mlir::Value old = conversions.emit(place);
  // An operator with an atomic form converts its operand first, so that `x += 1.9` is the same for a variable and an element.
  if (atomic && kind != BinaryKind::mul) operand = emitter.cast(operand, scalar);
  variables().storeTyped(place,
                         kind == BinaryKind::pow
                             ? conversions.emit(operators().power(makeComputed(old), value.isObject() ? value : makeComputed(operand)))
                             : emitter.binaryTyped(kind, old, operand, symbol));
}

bool Assignments::augmentItem(nb::handle target, NodeKind op, nb::handle operand) {
  nb::object container = getAttribute(target, names().value);
  if (kindOf(container) != NodeKind::Name && kindOf(container) != NodeKind::Attribute) return false; // visiting others has effects
  Operand base = expressions().visit(container);
  if (!instances().hasSpecial(base, "__getitem__")) return false;
  Operand key = collections().copyElement(expressions().visit(getAttribute(target, names().slice)));
  Operand item = *instances().callSpecial(base, "__getitem__", {key}), value = collections().copyElement(expressions().visit(operand));
  std::optional<Operand> result = instances().callInPlace(op, item, value);
  const Operator *known = findOperator(op);
  if (!result && !known) operators().failOperands("@", item, value);
  if (!result) result = operators().binary(known->kind, item, value, known->symbol);
  if (instances().hasSpecial(base, "__setitem__"))
    instances().callSpecial(base, "__setitem__", {key, *result});
  else if (result->find<Instance>() != item.find<Instance>() || !item.is<Instance>())
    fail(error::kType, "'" + conversions.describe(base) + "' has items that cannot be assigned: its class has no __setitem__");
  return true;
}

void Assignments::visitAugmentedAssign(nb::handle at) {
  nb::object target = getAttribute(at, names().target);
  NodeKind kind = kindOf(getAttribute(at, names().op));
  const Operator *op = findOperator(kind);
  if (kindOf(target) == NodeKind::Name) {
    nb::object name = getAttribute(target, names().id);
    if (scopes.isPoisoned(name.ptr())) throw CompileError{};
    Binding *binding = variables().findTarget(target);
    if (!scopes.find(name.ptr())) {
      expressions().lookUpGlobal(name);
      variables().failCaptured(toText(name));
    }
    if (binding && binding->kind == Binding::Kind::Static && binding->value.is<Instance>()) {
      Operand owner = binding->value, value = collections().copyElement(expressions().visit(getAttribute(at, names().value)));
      std::optional<Operand> result = instances().callInPlace(kind, owner, value);
      if (!result) operators().failOperands(op ? llvm::StringRef(op->symbol) : "@", owner, value);
      if (result->find<Instance>() != owner.find<Instance>()) assignName(target, *result);
      return;
    }
    if (binding && binding->kind == Binding::Kind::Static) {
      if (!binding->value.is<Sequence>() || !op)
        fail(error::kSyntax, "Variable '" + toText(name) + "' cannot be assigned. Maybe it is not a Quadrants object?");
      if (binding->runtimeDepth != nesting.runtimeDepth)
        fail(error::kSyntax, "Recreating variables is not allowed: '" + toText(name) + "'");
      Arguments items;
      items.positional = {expressions().visit(getAttribute(at, names().value))};
      // Other names of a list see what is added to it.
      if (op->kind == BinaryKind::add && !binding->value.get<Sequence>().isTuple && isList(items.positional[0]))
        collections().callSequenceMethod(binding->value, "extend", items);
      else
        binding->value = operators().binary(op->kind, binding->value, items.positional[0], op->symbol);
      return;
    }
  }
  auto isPart = [&](nb::handle part) { // a member, or an item by a constant or name: visiting it again has no effect
    NodeKind key = kindOf(part) == NodeKind::Subscript ? kindOf(getAttribute(part, names().slice)) : kindOf(part);
    return key == NodeKind::Attribute || (kindOf(part) == NodeKind::Subscript && (key == NodeKind::Constant || key == NodeKind::Name));
  };
  nb::object root = kindOf(target) == NodeKind::Subscript ? getAttribute(target, names().value) : target;
  while (isPart(root)) root = getAttribute(root, names().value);
  Binding *known = kindOf(root) == NodeKind::Name ? scopes.find(getAttribute(root, names().id).ptr()) : nullptr;
  bool holdsLists = known && (known->value.is<Sequence>() || known->value.is<Dictionary>() || known->value.is<Instance>());
  if (op && kindOf(target) == NodeKind::Subscript && holdsLists) {
    Operand base = expressions().visit(getAttribute(target, names().value));
    auto *sequence = base.find<Sequence>();
    bool isList = sequence ? !sequence->isTuple && !sequence->isUnpacked : base.is<Dictionary>();
    if (isList) {
      Operand key = conversions.load(expressions().visit(getAttribute(target, names().slice))), *item = collections().findItem(base, key);
      if (sequence && !item && key.isTyped()) {
        Operand given = conversions.load(expressions().visit(getAttribute(at, names().value)));
        return collections().changeItem(base, key, [&](const Operand &place) { augment(place, op->kind, given, op->symbol); });
      }
      const bool isChosen = !sequence && runtimeDicts().isChosen(base, key);
      if (isChosen || (item && !item->is<Place>() && !item->is<Struct>())) {
        Operand old = isChosen ? runtimeDicts().subscript(base, key) : *item, value = expressions().visit(getAttribute(at, names().value));
        std::optional<Operand> result = instances().callInPlace(kind, old, value);
        return collections().assignItem(base, key, result ? *result : operators().binary(op->kind, old, value, op->symbol));
      }
    }
  }
  if (kindOf(target) == NodeKind::Subscript && augmentItem(target, kind, getAttribute(at, names().value))) return;
  bool isMember = kindOf(target) == NodeKind::Attribute && !functions().isSuperCall(getAttribute(target, names().value));
  Operand owner = isMember ? expressions().visit(getAttribute(target, names().value)) : Operand();
  auto memberOf = [&] {
    At here(context, target);
    return attributes().getAttributeOf(owner, getAttribute(target, names().attr));
  };
  Operand place = isMember ? memberOf() : expressions().visit(target);
  auto *instance = owner.find<Instance>();
  if (op && isMember && instance && (place.isObject() || place.is<Sequence>() || place.is<Instance>())) {
    Operand value = expressions().visit(getAttribute(at, names().value));
    std::optional<Operand> result =
        place.is<Instance>() ? instances().callInPlace(kind, place, collections().copyElement(value)) : std::nullopt;
    if (result && result->find<Instance>() == place.find<Instance>()) return;
    return instances().storeMember(*instance, getAttribute(target, names().attr),
                                   result ? *result : operators().binary(op->kind, place, value, op->symbol));
  }
  if (place.isObject() || place.is<Argument>()) return variables().store(place, place);
  if (place.is<Computed>()) variables().failNoPlace();
  if (registerTiles().isRegisterTile(place)) return registerTiles().augmentTile(place, at);
  Operand value = expressions().visit(getAttribute(at, names().value));
  if (!op) return variables().store(place, operators().matmul(makeComputed(conversions.emit(place)), value));
  augment(place, op->kind, value, op->symbol);
}

} // namespace qd::frontend
