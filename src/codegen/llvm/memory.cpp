// memory.cpp: locals and containers
//
// Locals are slots on the stack, which LLVM turns into registers. A place in a container is a scalar address and what the other lanes add
// to it, so that neighbouring lanes become one wide access: contiguous ones directly, packed vectors with shuffles, the rest by gathering.
#include "codegen/llvm/body.h"

#include "llvm/IR/Constants.h"

using namespace mlir;

namespace qd::codegen {

/// Packed vectors of more components are gathered: shuffling them apart costs more.
constexpr int64_t kShuffledComponents = 4;

llvm::AllocaInst *BodyEmitter::makeSlot(llvm::Type *type, llvm::StringRef name) {
  llvm::IRBuilder<>::InsertPointGuard guard(builder);
  llvm::BasicBlock &entry = function->getEntryBlock();
  builder.SetInsertPoint(&entry, entry.begin());
  return builder.CreateAlloca(type, nullptr, name);
}

LocalStorage *BodyEmitter::makeLocal(Type pointee, ArrayRef<LaneKind> kinds, llvm::StringRef name) {
  LocalStorage &storage = storages.emplace_back();
  int64_t count = ir::getComponentCount(pointee);
  llvm::Type *type = module.getMemoryType(ir::getScalar(pointee));
  for (int64_t i = 0; i < count; ++i) {
    LaneKind kind = kinds.empty() || kinds[size_t(i)].isUnset() ? LaneKind::uniform() : kinds[size_t(i)];
    storage.kinds.push_back(kind);
    if (count <= kSeparateComponents) storage.slots.push_back(makeSlot(kind.isVarying() ? widen(type) : type, name));
  }
  if (count > kSeparateComponents)
    storage.array = makeSlot(llvm::ArrayType::get(storage.kinds[0].isVarying() ? widen(type) : type, uint64_t(count)), name);
  return &storage;
}

llvm::Value *BodyEmitter::fromMemory(Type scalar, llvm::Value *value) {
  return scalar.isInteger(1) ? builder.CreateTrunc(value, value->getType()->getWithNewBitWidth(1)) : value;
}

llvm::Value *BodyEmitter::toMemory(Type scalar, llvm::Value *value) {
  return scalar.isInteger(1) ? builder.CreateZExt(value, value->getType()->getWithNewBitWidth(8)) : value;
}

llvm::Value *BodyEmitter::loadPlain(Type scalar, llvm::Value *pointer, bool invariant) {
  llvm::LoadInst *load =
      builder.CreateAlignedLoad(module.getMemoryType(scalar), pointer, llvm::Align(uint64_t(module.getByteSize(scalar))));
  if (invariant) load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(module.ctx, {}));
  return fromMemory(scalar, load);
}

void BodyEmitter::storePlain(Type scalar, llvm::Value *value, llvm::Value *pointer) {
  builder.CreateAlignedStore(toMemory(scalar, value), pointer, llvm::Align(uint64_t(module.getByteSize(scalar))));
}

Place BodyEmitter::getPlace(Value ref) {
  if (!places.contains(ref) && (!resolve || failed(resolve(ref)))) {
    emitError(ref.getLoc(), "the LLVM emitter has no place here; this is a bug of the compiler");
    module.hasFailed = true;
    Place none;
    none.pointee = cast<ir::RefType>(ref.getType()).getPointee();
    none.base = llvm::PoisonValue::get(builder.getPtrTy());
    setPlace(ref, none);
  }
  return places[ref];
}

Tensor BodyEmitter::getTensor(Value tensor) {
  if (!tensors.contains(tensor) && (!resolve || failed(resolve(tensor)))) {
    emitError(tensor.getLoc(), "the LLVM emitter has no container here; this is a bug of the compiler");
    module.hasFailed = true;
    llvm::Value *none = llvm::PoisonValue::get(builder.getPtrTy());
    setTensor(tensor, {cast<ir::TensorType>(tensor.getType()), none, none, -1, false});
  }
  return tensors[tensor];
}

//--- Addresses ---

namespace {

/// A sum of indices times strides: a scalar part, a stride from lane to lane, and a part that varies.
class AddressSum {
public:
  AddressSum(BodyEmitter &body, llvm::Type *varyingType) : body(body), varyingType(varyingType) {}

  void add(const Component &index, Type type, llvm::Value *stride) {
    llvm::IRBuilder<> &builder = body.builder;
    auto constant = dyn_cast<llvm::ConstantInt>(stride);
    Component wide = index.kind.isVarying() ? index : body.castIndex(index, type, builder.getInt64Ty());
    if (wide.kind.isScalar() && (wide.kind.isUniform() || constant)) {
      offset = sum(offset, builder.CreateMul(wide.value, stride));
      if (!wide.kind.isUniform()) laneStride += wide.kind.getStride() * constant->getSExtValue();
      return;
    }
    bool isSigned = !type.isUnsignedInteger() && !type.isInteger(1);
    llvm::Value *vector = builder.CreateIntCast(body.toVector(index), body.widen(varyingType), isSigned);
    varying = sum(varying, builder.CreateMul(vector, body.splat(builder.CreateIntCast(stride, varyingType, true))));
  }

  void finish(Place &place) {
    llvm::IRBuilder<> &builder = body.builder;
    if (offset) place.base = builder.CreateGEP(builder.getInt8Ty(), place.base, offset);
    if (place.lanes.isVarying() || varying) {
      llvm::Type *type = place.offsets ? place.offsets->getType()->getScalarType() : varyingType;
      if (place.offsets) varying = sum(varying ? builder.CreateIntCast(varying, body.widen(type), true) : nullptr, place.offsets);
      int64_t stride = laneStride + (place.lanes.isScalar() ? place.lanes.getStride() : 0);
      if (stride != 0) varying = builder.CreateAdd(varying, body.toVector({llvm::ConstantInt::get(type, 0), LaneKind::linear(stride)}));
      place.offsets = varying;
      place.lanes = LaneKind::varying();
    } else {
      place.lanes = LaneKind::linear(place.lanes.getStride() + laneStride);
    }
  }

private:
  llvm::Value *sum(llvm::Value *a, llvm::Value *b) { return !a ? b : !b ? a : body.builder.CreateAdd(a, b); }

  BodyEmitter &body;
  llvm::Type *varyingType;
  llvm::Value *offset = nullptr, *varying = nullptr;
  int64_t laneStride = 0;
};

/// Whether 31 bits hold every byte offset in the container.
bool hasSmallOffsets(ir::TensorType type) {
  int64_t span = ir::getComponentCount(type.getElement()) * std::max<int64_t>(type.getComponentStride(), 8);
  for (int64_t axis = 0; axis < type.getRank(); ++axis) {
    int64_t extent = type.getExtents()[axis];
    if (extent == layout::kDynamic) return false;
    if (!type.isPacked()) {
      int64_t stride = type.getStrides()[axis], length = 0;
      if (stride == layout::kDynamic || __builtin_mul_overflow(std::abs(stride), extent, &length) || length > INT32_MAX) return false;
      span = std::max(span, length);
    } else if (__builtin_mul_overflow(span, std::max<int64_t>(extent, 1), &span)) {
      return false;
    }
  }
  return span <= INT32_MAX / 2;
}

} // namespace

llvm::Value *BodyEmitter::getExtent(const Tensor &tensor, int64_t axis) {
  int64_t extent = tensor.type.getExtents()[size_t(axis)];
  if (extent != layout::kDynamic) return builder.getInt64(uint64_t(extent));
  int64_t position = 1 + llvm::count(tensor.type.getExtents().take_front(size_t(axis)), layout::kDynamic);
  llvm::Value *pointer = builder.CreateConstGEP1_64(builder.getInt8Ty(), tensor.descriptor, uint64_t(position) * 8);
  llvm::LoadInst *load = builder.CreateAlignedLoad(builder.getInt64Ty(), pointer, llvm::Align(8), "extent");
  load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(module.ctx, {}));
  return load;
}

Place BodyEmitter::getElement(const Tensor &tensor, ArrayRef<Component> indices, TypeRange types) {
  ir::TensorType type = tensor.type;
  Place place;
  place.pointee = type.getElement();
  place.base = tensor.data;
  place.componentStride = type.getComponentStride();
  place.scope = tensor.scope;
  place.isPrivate = tensor.isPrivate;
  AddressSum sum(*this, hasSmallOffsets(type) ? builder.getInt32Ty() : builder.getInt64Ty());
  llvm::Value *packed = builder.getInt64(uint64_t(ir::getComponentCount(place.pointee) * module.getByteSize(ir::getScalar(place.pointee))));
  for (int64_t axis = type.getRank() - 1; axis >= 0; --axis) {
    llvm::Value *stride = packed;
    if (type.isPacked()) {
      if (axis > 0) packed = builder.CreateMul(packed, getExtent(tensor, axis));
    } else if (type.getStrides()[size_t(axis)] != layout::kDynamic) {
      stride = builder.getInt64(uint64_t(type.getStrides()[size_t(axis)]));
    } else {
      int64_t position = 1 + llvm::count(type.getExtents(), layout::kDynamic) + axis;
      llvm::Value *pointer = builder.CreateConstGEP1_64(builder.getInt8Ty(), tensor.descriptor, uint64_t(position) * 8);
      llvm::LoadInst *load = builder.CreateAlignedLoad(builder.getInt64Ty(), pointer, llvm::Align(8), "stride");
      load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(module.ctx, {}));
      stride = load;
    }
    sum.add(indices[size_t(axis)], types[size_t(axis)], stride);
  }
  sum.finish(place);
  return place;
}

Place BodyEmitter::getComponent(const Place &place, ArrayRef<Component> indices, TypeRange types) {
  auto shape = cast<VectorType>(place.pointee);
  Place part = place;
  part.pointee = shape.getElementType();
  if (!place.local) {
    AddressSum sum(*this, place.offsets ? place.offsets->getType()->getScalarType() : builder.getInt64Ty());
    int64_t stride = place.componentStride;
    for (int64_t axis = shape.getRank() - 1; axis >= 0; --axis) {
      sum.add(indices[size_t(axis)], types[size_t(axis)], builder.getInt64(uint64_t(stride)));
      stride *= shape.getDimSize(unsigned(axis));
    }
    sum.finish(part);
    return part;
  }
  Component position;
  Type indexType = IntegerType::get(shape.getContext(), 32, IntegerType::Signed);
  for (auto [axis, index] : llvm::enumerate(indices)) {
    Component next = castIndex(index, types[axis], builder.getInt32Ty());
    if (axis > 0) {
      Component extent = {builder.getInt32(uint32_t(shape.getDimSize(unsigned(axis))))};
      next = combine(ir::BinaryKind::add, indexType, combine(ir::BinaryKind::mul, indexType, position, extent), next);
    }
    position = next;
  }
  auto constant = dyn_cast<llvm::ConstantInt>(position.value);
  if (constant && constant->getSExtValue() >= 0 && constant->getSExtValue() < shape.getNumElements())
    part.component = int(constant->getSExtValue());
  else
    part.chosen = position;
  return part;
}

//--- Access ---

Components BodyEmitter::load(const Place &place) { return place.local ? loadLocal(place) : loadMemory(place); }

void BodyEmitter::store(const Place &place, const Components &value, bool masked) {
  if (place.local)
    storeLocal(place, value, masked);
  else
    storeMemory(place, value);
}

/// Addresses of a component of an array on the stack, at an index that varies: slot index * lanes + lane.
llvm::Value *BodyEmitter::getLocalPointers(const LocalStorage &local, const Component &index) {
  auto slots = cast<llvm::ArrayType>(cast<llvm::AllocaInst>(local.array)->getAllocatedType());
  llvm::Type *scalar = slots->getElementType()->getScalarType();
  llvm::Value *position = toVector(index);
  if (local.kinds[0].isVarying()) {
    position = builder.CreateMul(position, splat(llvm::ConstantInt::get(position->getType()->getScalarType(), lanes)));
    position =
        builder.CreateAdd(position, toVector({llvm::ConstantInt::get(position->getType()->getScalarType(), 0), LaneKind::linear(1)}));
  }
  return builder.CreateGEP(scalar, local.array, position);
}

Components BodyEmitter::loadLocal(const Place &place) {
  const LocalStorage &local = *place.local;
  Type scalar = ir::getScalar(place.pointee);
  llvm::Type *type = module.getMemoryType(scalar);
  auto slotType = [&](LaneKind kind) { return kind.isVarying() ? widen(type) : type; };
  auto loadAt = [&](size_t i) -> Component {
    llvm::Value *pointer =
        local.array ? builder.CreateConstGEP2_64(llvm::ArrayType::get(slotType(local.kinds[0]), local.kinds.size()), local.array, 0, i)
                    : local.slots[i];
    return {fromMemory(scalar, builder.CreateLoad(slotType(local.kinds[i]), pointer)), local.kinds[i]};
  };
  Components result;
  if (!place.chosen.value) {
    if (place.component >= 0) return {loadAt(size_t(place.component))};
    for (size_t i = 0; i < local.kinds.size(); ++i) result.push_back(loadAt(i));
    return result;
  }
  if (!local.array) {
    for (size_t i = 0; i < local.kinds.size(); ++i) result.push_back(loadAt(i));
    return {choose(result, place.chosen)};
  }
  if (place.chosen.kind.isUniform()) {
    llvm::Value *pointer = builder.CreateGEP(slotType(local.kinds[0]), local.array, place.chosen.value);
    return {{fromMemory(scalar, builder.CreateLoad(slotType(local.kinds[0]), pointer)), local.kinds[0]}};
  }
  llvm::Value *pointers = getLocalPointers(local, place.chosen);
  llvm::Align align(uint64_t(module.getByteSize(scalar)));
  return {makeVarying(
      fromMemory(scalar, builder.CreateMaskedGather(widen(type), pointers, align, getMask(), llvm::Constant::getNullValue(widen(type)))))};
}

void BodyEmitter::storeLocal(const Place &place, const Components &value, bool masked) {
  const LocalStorage &local = *place.local;
  Type scalar = ir::getScalar(place.pointee);
  llvm::Type *type = module.getMemoryType(scalar);
  llvm::Value *only = masked || place.isReference ? mask : nullptr;
  auto slotType = [&](LaneKind kind) { return kind.isVarying() ? widen(type) : type; };
  auto storeAt = [&](llvm::Value *pointer, LaneKind kind, const Component &component, llvm::Value *where) {
    llvm::Value *stored = toMemory(scalar, kind.isVarying() ? toVector(component) : component.value);
    if (where) stored = builder.CreateSelect(where, stored, builder.CreateLoad(slotType(kind), pointer));
    builder.CreateStore(stored, pointer);
    if (kind.isScalar() && component.kind != kind) {
      emitError(UnknownLoc::get(place.pointee.getContext()),
                "the LLVM emitter stores a varying value to a uniform local; this is a bug of the compiler");
      module.hasFailed = true;
    }
  };
  auto getPointer = [&](size_t i) -> llvm::Value * {
    if (!local.array) return local.slots[i];
    return builder.CreateConstGEP2_64(llvm::ArrayType::get(slotType(local.kinds[0]), local.kinds.size()), local.array, 0, i);
  };
  if (!place.chosen.value) {
    if (place.component >= 0) return storeAt(getPointer(size_t(place.component)), local.kinds[size_t(place.component)], value[0], only);
    for (size_t i = 0; i < local.kinds.size(); ++i) storeAt(getPointer(i), local.kinds[i], value[i], only);
    return;
  }
  if (!local.array) {
    llvm::Type *indexType = place.chosen.value->getType()->getScalarType();
    for (size_t i = 0; i < local.kinds.size(); ++i) {
      llvm::Constant *position = llvm::ConstantInt::get(indexType, i);
      llvm::Value *where;
      if (local.kinds[i].isVarying()) {
        where = builder.CreateICmpEQ(toVector(place.chosen), splat(position));
        where = only ? builder.CreateAnd(where, only) : where;
      } else {
        where = builder.CreateICmpEQ(place.chosen.value, position);
      }
      storeAt(local.slots[i], local.kinds[i], value[0], where);
    }
    return;
  }
  if (place.chosen.kind.isUniform())
    return storeAt(builder.CreateGEP(slotType(local.kinds[0]), local.array, place.chosen.value), local.kinds[0], value[0], only);
  builder.CreateMaskedScatter(toMemory(scalar, toVector(value[0])), getLocalPointers(local, place.chosen),
                              llvm::Align(uint64_t(module.getByteSize(scalar))), getMask());
}

/// Addresses of all lanes, `offset` bytes on.
llvm::Value *BodyEmitter::getPointers(const Place &place, int64_t offset) {
  llvm::Value *base = builder.CreateConstGEP1_64(builder.getInt8Ty(), place.base, uint64_t(offset));
  llvm::Value *offsets = place.offsets;
  if (!offsets) offsets = toVector({builder.getInt32(0), place.lanes});
  return builder.CreateGEP(builder.getInt8Ty(), base, offsets);
}

/// The mask with every lane repeated: for `count` packed components in each.
static llvm::Value *repeatMask(llvm::IRBuilder<> &builder, llvm::Value *mask, unsigned lanes, unsigned count) {
  llvm::SmallVector<int, 64> pattern;
  for (unsigned i = 0; i < lanes * count; ++i) pattern.push_back(int(i / count));
  return builder.CreateShuffleVector(mask, pattern);
}

Components BodyEmitter::loadMemory(const Place &place) {
  Type scalar = ir::getScalar(place.pointee);
  llvm::Type *type = module.getMemoryType(scalar);
  int64_t count = ir::getComponentCount(place.pointee), size = module.getByteSize(scalar);
  llvm::Align align{uint64_t(size)};
  Components result;
  auto finish = [&](llvm::Instruction *instruction) {
    module.setAlias(instruction, place.scope);
    return instruction;
  };
  bool packed = place.lanes.isScalar() && count > 1 && count <= kShuffledComponents && place.componentStride == size &&
                place.lanes.getStride() == count * size && lanes > 1;
  if (packed) {
    llvm::Type *wide = llvm::FixedVectorType::get(type, unsigned(lanes * count));
    llvm::Instruction *all;
    if (mask)
      all = builder.CreateMaskedLoad(wide, place.base, align, repeatMask(builder, mask, lanes, unsigned(count)),
                                     llvm::Constant::getNullValue(wide));
    else
      all = builder.CreateAlignedLoad(wide, place.base, align);
    finish(all);
    for (int64_t i = 0; i < count; ++i) {
      llvm::SmallVector<int, 16> pattern;
      for (unsigned lane = 0; lane < lanes; ++lane) pattern.push_back(int(lane * count + i));
      result.push_back(makeVarying(fromMemory(scalar, builder.CreateShuffleVector(all, pattern))));
    }
    return result;
  }
  for (int64_t i = 0; i < count; ++i) {
    int64_t offset = i * place.componentStride;
    if (lanes == 1 || place.lanes.isUniform()) {
      llvm::Value *pointer = builder.CreateConstGEP1_64(builder.getInt8Ty(), place.base, uint64_t(offset));
      result.push_back({fromMemory(scalar, finish(builder.CreateAlignedLoad(type, pointer, align)))});
    } else if (place.lanes.isScalar() && place.lanes.getStride() == size) {
      llvm::Value *pointer = builder.CreateConstGEP1_64(builder.getInt8Ty(), place.base, uint64_t(offset));
      llvm::Instruction *wide;
      if (mask)
        wide = builder.CreateMaskedLoad(widen(type), pointer, align, mask, llvm::Constant::getNullValue(widen(type)));
      else
        wide = builder.CreateAlignedLoad(widen(type), pointer, align);
      result.push_back(makeVarying(fromMemory(scalar, finish(wide))));
    } else {
      llvm::Instruction *gathered =
          builder.CreateMaskedGather(widen(type), getPointers(place, offset), align, getMask(), llvm::Constant::getNullValue(widen(type)));
      result.push_back(makeVarying(fromMemory(scalar, finish(gathered))));
    }
  }
  return result;
}

void BodyEmitter::storeMemory(const Place &place, const Components &value) {
  Type scalar = ir::getScalar(place.pointee);
  int64_t count = ir::getComponentCount(place.pointee), size = module.getByteSize(scalar);
  llvm::Align align{uint64_t(size)};
  bool packed = place.lanes.isScalar() && count > 1 && count <= kShuffledComponents && place.componentStride == size &&
                place.lanes.getStride() == count * size && lanes > 1;
  if (packed) {
    // Components in a row, lane by lane: first all vectors end to end, then one shuffle.
    llvm::SmallVector<llvm::Value *, 4> parts;
    for (const Component &component : value) parts.push_back(toMemory(scalar, toVector(component)));
    unsigned width = lanes;
    while (parts.size() > 1) {
      if (parts.size() % 2) parts.push_back(llvm::PoisonValue::get(parts[0]->getType()));
      llvm::SmallVector<int, 64> all;
      for (unsigned i = 0; i < 2 * width; ++i) all.push_back(int(i));
      llvm::SmallVector<llvm::Value *, 4> pairs;
      for (size_t i = 0; i < parts.size(); i += 2) pairs.push_back(builder.CreateShuffleVector(parts[i], parts[i + 1], all));
      parts = pairs;
      width *= 2;
    }
    llvm::SmallVector<int, 64> pattern;
    for (unsigned i = 0; i < unsigned(lanes * count); ++i) pattern.push_back(int(i % unsigned(count) * lanes + i / unsigned(count)));
    llvm::Value *wide = builder.CreateShuffleVector(parts[0], pattern);
    llvm::Instruction *stored;
    if (mask)
      stored = builder.CreateMaskedStore(wide, place.base, align, repeatMask(builder, mask, lanes, unsigned(count)));
    else
      stored = builder.CreateAlignedStore(wide, place.base, align);
    module.setAlias(stored, place.scope);
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    const Component &component = value[size_t(i)];
    int64_t offset = i * place.componentStride;
    llvm::Instruction *stored;
    if (lanes == 1 || place.lanes.isUniform()) {
      // All active lanes write one place: the last one stays.
      llvm::Value *pointer = builder.CreateConstGEP1_64(builder.getInt8Ty(), place.base, uint64_t(offset));
      llvm::Value *last = component.kind.isUniform() ? component.value : getLane(component, getLastLane(getMask()));
      stored = builder.CreateAlignedStore(toMemory(scalar, last), pointer, align);
    } else if (place.lanes.isScalar() && place.lanes.getStride() == size) {
      llvm::Value *pointer = builder.CreateConstGEP1_64(builder.getInt8Ty(), place.base, uint64_t(offset));
      llvm::Value *wide = toMemory(scalar, toVector(component));
      if (mask)
        stored = builder.CreateMaskedStore(wide, pointer, align, mask);
      else
        stored = builder.CreateAlignedStore(wide, pointer, align);
    } else {
      stored = builder.CreateMaskedScatter(toMemory(scalar, toVector(component)), getPointers(place, offset), align, getMask());
    }
    module.setAlias(stored, place.scope);
  }
}

} // namespace qd::codegen
