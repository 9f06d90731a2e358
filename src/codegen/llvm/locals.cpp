// locals.cpp: loads and stores of locals
//
// Locals are stack slots, which LLVM turns into registers: one for each component, or an array if there are many. A component whose index
// is known at run time is chosen by selects, or by its address in the array.
#include "codegen/llvm/memory.h"

#include "llvm/IR/Constants.h"

#include <numeric>

using namespace mlir;

namespace qd::codegen {

LocalStorage *Memory::makeLocal(Type pointee, ArrayRef<LaneKind> kinds, llvm::StringRef name) {
  LocalStorage &storage = storages.emplace_back();
  size_t count = size_t(ir::getComponentCount(pointee));
  llvm::Type *type = module.getMemoryType(ir::getScalar(pointee));
  for (size_t i = 0; i < count; ++i) storage.kinds.push_back(kinds.empty() || kinds[i].isUnset() ? LaneKind::uniform() : kinds[i]);
  if (int64_t(count) <= kSeparateComponents) {
    for (LaneKind kind : storage.kinds) storage.slots.push_back(in.makeSlot(in.widen(type, kind), name));
    return &storage;
  }
  llvm::Type *slot = in.widen(type, storage.kinds[0]);
  storage.array = in.makeSlot(llvm::ArrayType::get(slot, count), name);
  llvm::IRBuilder<>::InsertPointGuard guard(builder);
  builder.SetInsertPoint(storage.array->getParent(), std::next(storage.array->getIterator())); // the block may end there
  for (size_t i = 0; i < count; ++i) storage.slots.push_back(builder.CreateConstGEP1_64(slot, storage.array, i));
  return &storage;
}

/// Addresses of the components of a stack array at a varying index: element index * lanes + lane.
llvm::Value *Memory::getLocalPointers(const LocalStorage &local, const Component &index) {
  auto slots = cast<llvm::ArrayType>(local.array->getAllocatedType());
  llvm::Value *position = in.toVector(index);
  if (local.kinds[0].isVarying()) {
    llvm::Type *type = position->getType()->getScalarType();
    position = builder.CreateMul(position, in.splat(llvm::ConstantInt::get(type, in.lanes)));
    position = builder.CreateAdd(position, in.toVector({llvm::ConstantInt::get(type, 0), LaneKind::linear(1)}));
  }
  return builder.CreateGEP(slots->getElementType()->getScalarType(), local.array, position);
}

/// Neighboring components of an array, which lanes share, in the order of the lanes or in another one that is known; null if a gather is
/// needed.
llvm::Value *Memory::loadNear(const LocalStorage &local, llvm::Type *type, llvm::Align align, const Component &index) {
  llvm::SmallVector<int, 16> order(in.lanes);
  llvm::Value *first = index.value;
  if (index.kind == LaneKind::linear(1)) {
    std::iota(order.begin(), order.end(), 0);
  } else {
    auto *lanes = dyn_cast<llvm::Constant>(in.toVector(index));
    llvm::SmallVector<int64_t, 16> places;
    for (unsigned lane = 0; lanes && lane < in.lanes; ++lane)
      if (auto *place = dyn_cast_or_null<llvm::ConstantInt>(lanes->getAggregateElement(lane))) places.push_back(place->getSExtValue());
    if (places.size() != in.lanes) return nullptr;
    const int64_t least = *llvm::min_element(places), count = int64_t(local.slots.size());
    if (least < 0 || least + in.lanes > count || *llvm::max_element(places) >= least + in.lanes) return nullptr;
    llvm::transform(places, order.begin(), [&](int64_t place) { return int(place - least); });
    first = builder.getInt64(uint64_t(least));
  }
  llvm::Value *pointer = builder.CreateGEP(type, local.array, first);
  llvm::Value *all = in.mask && index.kind == LaneKind::linear(1)
                         ? builder.CreateMaskedLoad(in.widen(type), pointer, align, in.mask)
                         : cast<llvm::Value>(builder.CreateAlignedLoad(in.widen(type), pointer, align));
  return builder.CreateShuffleVector(all, order);
}

Components Memory::loadLocal(const LocalPlace &place) {
  const LocalStorage &local = *place.storage;
  Type scalar = ir::getScalar(place.pointee);
  llvm::Type *type = module.getMemoryType(scalar);
  auto loadFrom = [&](llvm::Value *pointer, LaneKind kind) -> Component {
    return {fromMemory(scalar, builder.CreateLoad(in.widen(type, kind), pointer)), kind};
  };
  if (const size_t *number = place.findNumber()) return {loadFrom(local.slots[*number], local.kinds[*number])};
  const Component *index = place.findIndex();
  if (index && local.array) {
    LaneKind kind = local.kinds[0];
    if (index->kind.isUniform()) return {loadFrom(builder.CreateGEP(in.widen(type, kind), local.array, index->value), kind)};
    if (llvm::Value *near = kind.isScalar() ? loadNear(local, type, llvm::Align(uint64_t(module.getByteSize(scalar))), *index) : nullptr)
      return {in.makeVarying(fromMemory(scalar, near))};
    llvm::Align align(uint64_t(module.getByteSize(scalar)));
    llvm::Value *pointers = getLocalPointers(local, *index), *none = llvm::Constant::getNullValue(in.widen(type));
    return {in.makeVarying(fromMemory(scalar, builder.CreateMaskedGather(in.widen(type), pointers, align, in.getMask(), none)))};
  }
  Components all;
  for (auto [slot, kind] : llvm::zip(local.slots, local.kinds)) all.push_back(loadFrom(slot, kind));
  return index ? Components{operators.choose(all, *index)} : all;
}

void Memory::storeLocal(const LocalPlace &place, const Components &value, bool masked) {
  const LocalStorage &local = *place.storage;
  Type scalar = ir::getScalar(place.pointee);
  llvm::Type *type = module.getMemoryType(scalar);
  llvm::Value *only = masked || place.isReference ? in.mask : nullptr;
  auto storeTo = [&](llvm::Value *pointer, LaneKind kind, const Component &component, llvm::Value *where) {
    llvm::Value *stored = toMemory(scalar, kind.isVarying() ? in.toVector(component) : component.value);
    if (where) stored = builder.CreateSelect(where, stored, builder.CreateLoad(in.widen(type, kind), pointer));
    builder.CreateStore(stored, pointer);
    if (kind.isScalar() && component.kind != kind)
      module.reportError(UnknownLoc::get(place.pointee.getContext()))
          << "the LLVM emitter stores a varying value to a uniform local; this is a bug of the compiler";
  };
  if (const size_t *number = place.findNumber()) return storeTo(local.slots[*number], local.kinds[*number], value[0], only);
  const Component *index = place.findIndex();
  if (index && local.array) {
    if (index->kind.isUniform())
      return storeTo(builder.CreateGEP(in.widen(type, local.kinds[0]), local.array, index->value), local.kinds[0], value[0], only);
    if (local.kinds[0].isScalar() && index->kind == LaneKind::linear(1)) { // an array that lanes share
      llvm::Value *stored = toMemory(scalar, in.toVector(value[0])), *pointer = builder.CreateGEP(type, local.array, index->value);
      llvm::Align align(uint64_t(module.getByteSize(scalar)));
      return in.mask ? void(builder.CreateMaskedStore(stored, pointer, align, in.mask))
                     : void(builder.CreateAlignedStore(stored, pointer, align));
    }
    builder.CreateMaskedScatter(toMemory(scalar, in.toVector(value[0])), getLocalPointers(local, *index),
                                llvm::Align(uint64_t(module.getByteSize(scalar))), in.getMask());
    return;
  }
  for (auto [i, slot] : llvm::enumerate(local.slots)) {
    llvm::Value *where = only;
    if (index) {
      Component isHere = operators.isAt(*index, i);
      bool varies = local.kinds[i].isVarying();
      where = varies ? in.toVector(isHere) : isHere.value;
      if (varies && only) where = builder.CreateAnd(where, only);
    }
    storeTo(slot, local.kinds[i], value[index ? 0 : i], where);
  }
}

} // namespace qd::codegen
