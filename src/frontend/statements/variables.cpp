// variables.cpp: places of variables: declaration, stores, and names that both branches of an `if` assign
//
// In:   a value, or a place and the value that it receives.
// Out:  a place or value for a binding, and stores.
// Here: the components of a struct are variables of their own.
#include "frontend/builder.h"

using namespace mlir;

namespace qd::frontend {

Place Variables::makeLocal(Type type) {
  Place place{create<ir::LocalOp>(ir::RefType::get(type))};
  // Iterations of a parallel loop share the variables of the kernel's serial part.
  place.isKernelVariable = (context.role.isKernelLevel || context.role.isPartOfKernel) && !nesting.isInsideParallel;
  return place;
}

Operand Variables::declare(const Operand &value, bool isAssignedOnce) {
  if (value.is<Struct>()) return mapItems(value, [&](const Operand &item) { return declare(item, false); });
  mlir::Value initial = conversions.emit(value);
  if (isAssignedOnce) return makeComputed(initial);
  Place place = makeLocal(initial.getType());
  create<ir::StoreOp>(initial, place.ref);
  return place;
}

void Variables::declareForStatement(PyObject *name, const Operand &value) {
  const auto [depth, block] = context.statement;
  const bool isVariable = value.is<Struct>() || (!value.isStatic && conversions.canEmit(value));
  if (!block || scopes.depth() == depth || isVisible(scopes.find(name)) || !isVariable) return;
  std::function<Operand(const Operand &)> declareZero = [&](const Operand &item) -> Operand {
    if (item.is<Struct>()) return mapItems(item, declareZero);
    Type type = conversions.emit(item).getType();
    OpBuilder::InsertionGuard guard(builder);
    Operation *part =
        builder.getInsertionBlock() == block ? nullptr : block->findAncestorOpInBlock(*builder.getInsertionBlock()->getParentOp());
    if (part) builder.setInsertionPoint(part);
    return declare(makeComputed(emitter.convert(emitter.constant(0, session.types.u1), type)), false);
  };
  Binding binding;
  binding.value = declareZero(value);
  scopes.bind(name, std::move(binding), depth);
}

void Variables::failImmutable(const llvm::Twine &name) {
  fail(error::kSyntax,
       "Kernel argument \"" + name + "\" is immutable in the kernel. If you want to change its value, please create a new variable.");
}

void Variables::failNoPlace() { fail(error::kSyntax, "the target is not an lvalue and cannot be assigned"); }

void Variables::failCaptured(const llvm::Twine &name) {
  fail(error::kSyntax, "'" + name + "' cannot be assigned: a captured value is constant");
}

bool Variables::isVisible(const Binding *binding) {
  return binding && binding->kind != Binding::Kind::Merged && binding->kind != Binding::Kind::Partial;
}

Binding *Variables::findTarget(nb::handle target) {
  At here(context, target);
  nb::object name = getAttribute(target, names().id);
  Binding *binding = scopes.find(name.ptr());
  if (!isVisible(binding)) return nullptr;
  if (binding->kind == Binding::Kind::Parameter && conversions.isTensor(binding->value))
    fail(error::kSyntax, "Kernel argument \"" + toText(name) + "\" is immutable in the kernel: assign the elements of the container");
  if (binding->kind == Binding::Kind::Parameter) failImmutable(toText(name));
  if (binding->kind == Binding::Kind::LoopVariable)
    fail(error::kSyntax, "the loop variable '" + toText(name) + "' cannot be assigned: assign a new variable");
  return binding;
}

void Variables::forEachPlace(const Operand &place, mlir::Value value, llvm::function_ref<void(const Place &one, mlir::Value part)> act) {
  sparseCells().activate(place);
  if (auto *single = place.find<Place>()) return act(*single, value);
  const auto &components = place.get<Components>();
  for (size_t position = 0; position < size_t(ir::getComponentCount(components.type)); ++position) {
    Operand component = subscripts().componentPlace(components, position);
    if (!component.is<Place>()) failNoPlace(); // of a temporary vector
    act(component.get<Place>(), isa<VectorType>(value.getType()) ? emitter.extract(value, int64_t(position)) : value);
  }
}

void Variables::storeTyped(const Operand &place, mlir::Value value) {
  forEachPlace(place, emitter.convert(value, place.getType()), [&](const Place &one, mlir::Value part) {
    one.packed ? packedElements().store(one, part) : void(create<ir::StoreOp>(part, one.ref));
  });
}

mlir::Value Variables::update(ir::AtomicKind kind, const Place &place, mlir::Value value) {
  return place.packed ? packedElements().update(kind, place, value) : create<ir::AtomicOp>(kind, place.ref, value).getResult();
}

void Variables::requirePlace(const Operand &place) {
  if (auto *argument = place.find<Argument>()) failImmutable(DependencyTracker::describe(argument->path));
  if (place.isReadOnly()) failImmutable("parameter");
  if (place.is<Struct>() || place.is<Place>() || place.is<Components>()) return;
  if (place.is<View>()) conversions.emit(place); // reports the mistake of using a view as an element
  if (auto *object = place.find<PythonObject>(); object && object->path) failCaptured(DependencyTracker::describe(object->path));
  failNoPlace();
}

void Variables::store(const Operand &place, const Operand &value) {
  requirePlace(place);
  if (auto *target = place.find<Struct>()) {
    if (session.python.isInstance(value.getObject(), session.python.values.structValue))
      return store(place, structs().structOfObject(value));
    if (!value.is<Struct>()) fail(error::kType, "cannot assign '" + conversions.describe(value) + "' to a struct");
    structs().requireSameMembers(place, value);
    // All members are loaded before any is stored, because the two structs may overlap.
    Operand copied = conversions.copy(value);
    for (auto [member, item] : llvm::zip(target->items, copied.get<Struct>().items)) store(member, item);
    return;
  }
  if (value.is<Struct>()) fail(error::kType, "cannot assign a struct to '" + ir::describe(place.getType()) + "'");
  storeTyped(place, value.isObject() && place.is<Place>() ? conversions.convert(value, place.getType())
                                                          : conversions.emit(value, place.getType()));
}

Operand Variables::merge(Binding &binding, PyObject *name) {
  bool isVariable = binding.merge || binding.value.isTyped() || binding.value.is<Struct>();
  binding.kind = isVariable ? Binding::Kind::Variable : Binding::Kind::Static;
  // Without `merge` the binding is from the taken branch of a compile-time `if`.
  if (!binding.merge) return binding.value;
  Merge &paths = *binding.merge;
  std::function<Operand(const Operand *, const Operand *)> unify = [&](const Operand *first, const Operand *second) -> Operand {
    const Operand &shape = first ? *first : *second;
    if (shape.is<Struct>()) {
      size_t member = 0;
      auto part = [&](const Operand *side) { return side ? &side->get<Struct>().items[member] : nullptr; };
      return mapItems(shape, [&](const Operand &) {
        Operand unified = unify(part(first), part(second));
        ++member;
        return unified;
      });
    }
    Type type = first && second ? emitter.findCommonType(first->getType(), second->getType()) : shape.getType();
    if (!type)
      fail(error::kType, "'" + toText(name) + "' is '" + ir::describe(first->getType()) + "' on one path and '" +
                             ir::describe(second->getType()) + "' on the other");
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(paths.branches);
    Place place = makeLocal(type);
    for (auto [side, region] : {std::pair(first, &paths.branches.getThenRegion()), std::pair(second, &paths.branches.getElseRegion())}) {
      if (!side) continue;
      builder.setInsertionPoint(region->front().getTerminator());
      create<ir::StoreOp>(emitter.convert(conversions.emit(*side), type), place.ref);
    }
    return place;
  };
  binding.value = unify(paths.isTerminated[0] ? nullptr : &paths.values[0], paths.isTerminated[1] ? nullptr : &paths.values[1]);
  binding.merge.reset();
  return binding.value;
}

} // namespace qd::frontend
