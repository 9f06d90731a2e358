// loop_checkpoints.cpp: stores the states of a loop's variables, in local arrays of a size that is known at compile time
//
// A loop with few iterations, known at compile time, stores a checkpoint of each. Any other loop has at most kSlots: one for each iteration
// while they fit, otherwise one for every n-th, where n grows with the loop (a `while` thins out its checkpoints as it runs). The backward
// sweep uses the free slots for the iterations that it computes again (Griewank and Walther, "Revolve", ACM TOMS 26, 2000, with even
// spacing). So memory is bounded: nothing is allocated at run time. Up to kSlots iterations, each is computed at most twice; up to
// (kSlots / 2)² iterations, three times.
#include "passes/autodiff/loop_checkpoints.h"

#include "ir/attributes.h"

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

/// Slots of a loop whose number of iterations is unknown; a multiple of 8. Loops with large states get fewer.
constexpr int64_t kSlots = 64, kFewestSlots = 16;
/// Bytes that all checkpoints of a loop may take.
constexpr int64_t kCheckpointBytes = 8192;

//--- States in arrays ---

static int64_t getBytes(Type type) { return getComponentCount(type) * int64_t(support::getByteSize(getScalarType(getScalar(type)))); }

/// An array of scalars is a vector, an array of vectors a matrix.
static Type getArrayType(Type element, int64_t count) {
  if (!isa<VectorType>(element)) return VectorType::get({count}, element);
  return VectorType::get({count, getComponentCount(element)}, getScalar(element));
}

static void storeSlot(Code code, Value array, Value slot, Value value) {
  if (!isa<VectorType>(value.getType())) return code.store(value, code.component(array, slot));
  for (int64_t i = 0; i < getComponentCount(value.getType()); ++i)
    code.store(code.extract(value, i), code.component(array, {slot, code.integer(i)}));
}

static Value loadSlot(Code code, Value array, Value slot, Type type) {
  if (!isa<VectorType>(type)) return code.load(code.component(array, slot));
  SmallVector<Value> components;
  for (int64_t i = 0; i < getComponentCount(type); ++i) components.push_back(code.load(code.component(array, {slot, code.integer(i)})));
  return VectorOp::create(code.builder, code.loc, type, components);
}

static Type getPointee(Value place) { return cast<RefType>(place.getType()).getPointee(); }

void LoopCheckpoints::store(Code code, ArrayRef<Value> state, Value slot) const {
  for (auto [place, value] : llvm::zip(carried, state)) storeSlot(code, slots.lookup(place), slot, value);
}

void LoopCheckpoints::restore(Code code, Value slot, GetPlace getPlace) const {
  for (Value place : carried) code.store(loadSlot(code, slots.lookup(place), slot, getPointee(place)), getPlace(place));
}

//--- Forward ---

void LoopCheckpoints::allocate(Code code, std::optional<int64_t> length, bool mayExit, llvm::function_ref<Value(Type)> makeLocal) {
  int64_t bytes = 0;
  for (Value place : carried) bytes += getBytes(getPointee(place));
  bool holdsEach = length && (*length <= kFewestSlots || *length * bytes <= kCheckpointBytes);
  policy = holdsEach ? Policy::All : mayExit ? Policy::Thinning : Policy::EveryNth;
  slotCount = holdsEach ? std::max<int64_t>(*length, 1) : bytes * kSlots <= kCheckpointBytes ? kSlots : kFewestSlots;
  for (Value place : carried) {
    slots[place] = makeLocal(getArrayType(getPointee(place), slotCount));
    slots[place].getDefiningOp()->setAttr(kCheckpoints, code.builder.getI32IntegerAttr(number));
  }
  if (policy == Policy::All) return;
  positions = makeLocal(getArrayType(code.type(), slotCount));
  used = makeLocal(code.type());
  if (policy == Policy::EveryNth) holdsAll = makeLocal(code.builder.getI1Type());
}

Spacing LoopCheckpoints::begin(Code code, Value length, Value zero, Value one) const {
  if (policy == Policy::All) return {};
  Spacing spacing{code.local(code.type()), code.local(code.type())};
  code.store(zero, spacing.next);
  code.store(zero, used);
  if (policy == Policy::Thinning) {
    code.store(one, spacing.stride);
    return spacing;
  }
  Value fits = code.binary(BinaryKind::le, length, code.integer(slotCount));
  code.store(code.select(fits, one, code.divideUp(length, code.integer(slotCount / 2))), spacing.stride);
  code.store(fits, holdsAll);
  return spacing;
}

void LoopCheckpoints::save(Code code, ArrayRef<Value> state, Value iteration, const Spacing &spacing) const {
  auto saveAny = [&] { store(code, state, iteration); };
  switch (policy) {
  case Policy::All: return saveAny();
  case Policy::EveryNth:
    return code.when(code.load(holdsAll), saveAny, [&] { saveIfDue(code, state, iteration, spacing, /*thins=*/false); });
  case Policy::Thinning: return saveIfDue(code, state, iteration, spacing, /*thins=*/true);
  }
}

/// Stores a checkpoint if the iteration is the next one that gets one.
void LoopCheckpoints::saveIfDue(Code code, ArrayRef<Value> state, Value iteration, const Spacing &spacing, bool thins) const {
  code.when(code.binary(BinaryKind::eq, iteration, code.load(spacing.next)), [&] {
    if (thins) thinOut(code, spacing.stride);
    Value slot = code.load(used);
    store(code, state, slot);
    code.store(iteration, code.component(positions, slot));
    code.store(code.add(slot, code.integer(1)), used);
    code.store(code.add(iteration, code.load(spacing.stride)), spacing.next);
  });
}

/// Keeps one checkpoint in four, first when all slots are full, later when half of them are. The other half is for the backward sweep.
void LoopCheckpoints::thinOut(Code code, Value stride) const {
  Value isFirst = code.binary(BinaryKind::eq, code.load(stride), code.integer(1));
  Value limit = code.select(isFirst, code.integer(slotCount), code.integer(slotCount / 2));
  code.when(code.binary(BinaryKind::eq, code.load(used), limit), [&] {
    Value left = code.binary(BinaryKind::raw_div, limit, code.integer(4));
    code.loop(code.integer(0), left, [&](Value slot) {
      Value from = code.binary(BinaryKind::mul, slot, code.integer(4));
      for (Value place : carried) {
        Value array = slots.lookup(place);
        storeSlot(code, array, slot, loadSlot(code, array, from, getPointee(place)));
      }
      code.store(code.load(code.component(positions, from)), code.component(positions, slot));
    });
    code.store(left, used);
    code.store(code.binary(BinaryKind::mul, code.load(stride), code.integer(4)), stride);
  });
}

//--- Backward ---

std::pair<Value, Value> LoopCheckpoints::findLast(Code code, Value one) const {
  Value slot = code.sub(code.load(used), one);
  return {slot, code.load(code.component(positions, slot))};
}

Spacing LoopCheckpoints::spread(Code code, Value one, Value slot, Value from, Value to) const {
  Value free = code.sub(code.integer(slotCount - 1), slot), length = code.sub(to, from);
  Value half = code.binary(BinaryKind::max, code.binary(BinaryKind::raw_div, free, code.integer(2)), one);
  Spacing spacing{code.local(code.type()), code.local(code.type())};
  Value fits = code.binary(BinaryKind::le, length, free);
  code.store(code.select(fits, one, code.divideUp(length, half)), spacing.stride);
  code.store(code.add(from, code.load(spacing.stride)), spacing.next);
  return spacing;
}

void LoopCheckpoints::saveIfFree(Code code, ArrayRef<Value> state, Value iteration, const Spacing &spacing) const {
  Value hasSlot = code.binary(BinaryKind::lt, code.load(used), code.integer(slotCount));
  code.when(hasSlot, [&] { saveIfDue(code, state, iteration, spacing, /*thins=*/false); });
}

void LoopCheckpoints::release(Code code, Value one, Value iteration) const {
  Value last = code.sub(code.load(used), one);
  Value isDone = code.binary(BinaryKind::eq, code.load(code.component(positions, last)), iteration);
  code.store(code.select(isDone, last, code.add(last, one)), used);
}

} // namespace qd::passes
