// variables.cpp: places of variables: declaration, stores, and names that both branches of an `if` assign
//
// In:   a value, or a place and the value that it receives.
// Out:  a place or value for a binding, and stores.
// Here: the components of a struct are variables of their own.
#include "frontend/builder.h"

using namespace mlir;

namespace qd::frontend {

Operand Variables::makeLocal(Type type) {
  Operand place = makePlace(create<ir::LocalOp>(ir::RefType::get(type)));
  // Iterations of a parallel loop share the variables of the kernel's serial part.
  place.isKernelVariable = (context.role.isKernelLevel || context.role.isPartOfKernel) && !nesting.isInsideParallel;
  return place;
}

Operand Variables::declare(const Operand &value, bool isAssignedOnce) {
  if (value.is(Kind::Struct)) return mapItems(value, [&](const Operand &item) { return declare(item, false); });
  mlir::Value initial = conversions.emit(value);
  if (isAssignedOnce) return makeComputed(initial);
  Operand place = makeLocal(initial.getType());
  create<ir::StoreOp>(initial, place.ir);
  return place;
}

void Variables::failImmutable(const llvm::Twine &name) {
  fail(error::kSyntax,
       "Kernel argument \"" + name + "\" is immutable in the kernel. If you want to change its value, please create a new variable.");
}

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
  if (binding->kind == Binding::Kind::Parameter) failImmutable(toText(name));
  if (binding->kind == Binding::Kind::LoopVariable)
    fail(error::kSyntax, "the loop variable '" + toText(name) + "' cannot be assigned: assign a new variable");
  return binding;
}

void Variables::forEachPlace(const Operand &place, mlir::Value value, llvm::function_ref<void(mlir::Value ref, mlir::Value part)> act) {
  if (place.is(Kind::Place)) return act(place.ir, value);
  for (size_t position = 0; position < size_t(ir::getComponentCount(place.type)); ++position)
    act(subscripts().componentPlace(place, position).ir,
        isa<VectorType>(value.getType()) ? emitter.extract(value, int64_t(position)) : value);
}

void Variables::storeTyped(const Operand &place, mlir::Value value) {
  forEachPlace(place, emitter.convert(value, place.type), [&](mlir::Value ref, mlir::Value part) { create<ir::StoreOp>(part, ref); });
}

void Variables::requirePlace(const Operand &place) {
  if (place.isReadOnly) failImmutable(place.path ? DependencyTracker::describe(place.path) : "parameter");
  if (place.is(Kind::Struct) || place.is(Kind::Place) || place.is(Kind::Components)) return;
  if (place.is(Kind::Argument)) failImmutable(DependencyTracker::describe(place.path));
  if (place.is(Kind::View)) conversions.emit(place); // reports the mistake of using a view as an element
  if (place.is(Kind::Object) && place.path) failCaptured(DependencyTracker::describe(place.path));
  fail(error::kSyntax, "the target is not an lvalue and cannot be assigned");
}

void Variables::store(const Operand &place, const Operand &value) {
  requirePlace(place);
  if (place.is(Kind::Struct)) {
    if (session.python.isInstance(value.getObject(), session.python.structValue)) return store(place, structs().structOfObject(value));
    if (!value.is(Kind::Struct)) fail(error::kType, "cannot assign '" + conversions.describe(value) + "' to a struct");
    structs().requireSameMembers(place, value);
    // All members are loaded before any is stored, because the two structs may overlap.
    Operand copied = conversions.copy(value);
    for (auto [member, item] : llvm::zip(place.aggregate->items, copied.aggregate->items)) store(member, item);
    return;
  }
  if (value.is(Kind::Struct)) fail(error::kType, "cannot assign a struct to '" + ir::describe(place.type) + "'");
  storeTyped(place,
             value.isObject() && place.is(Kind::Place) ? conversions.convert(value, place.type) : conversions.emit(value, place.type));
}

Operand Variables::merge(Binding &binding, PyObject *name) {
  bool isVariable = binding.merge || binding.value.isTyped() || binding.value.is(Kind::Struct);
  binding.kind = isVariable ? Binding::Kind::Variable : Binding::Kind::Static;
  // Without `merge` the binding is from the taken branch of a compile-time `if`.
  if (!binding.merge) return binding.value;
  Merge &paths = *binding.merge;
  std::function<Operand(const Operand *, const Operand *)> unify = [&](const Operand *first, const Operand *second) -> Operand {
    const Operand &shape = first ? *first : *second;
    if (shape.is(Kind::Struct)) {
      size_t member = 0;
      auto part = [&](const Operand *side) { return side ? &side->aggregate->items[member] : nullptr; };
      return mapItems(shape, [&](const Operand &) {
        Operand unified = unify(part(first), part(second));
        ++member;
        return unified;
      });
    }
    Type type = first && second ? emitter.findCommonType(first->type, second->type) : shape.type;
    if (!type)
      fail(error::kType, "'" + toText(name) + "' is '" + ir::describe(first->type) + "' on one path and '" + ir::describe(second->type) +
                             "' on the other");
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(paths.branches);
    Operand place = makeLocal(type);
    for (auto [side, region] : {std::pair(first, &paths.branches.getThenRegion()), std::pair(second, &paths.branches.getElseRegion())}) {
      if (!side) continue;
      builder.setInsertionPoint(region->front().getTerminator());
      create<ir::StoreOp>(emitter.convert(conversions.emit(*side), type), place.ir);
    }
    return place;
  };
  binding.value = unify(paths.isTerminated[0] ? nullptr : &paths.values[0], paths.isTerminated[1] ? nullptr : &paths.values[1]);
  binding.merge.reset();
  return binding.value;
}

} // namespace qd::frontend
