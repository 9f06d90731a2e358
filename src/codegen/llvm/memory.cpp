// memory.cpp: locals and containers
//
// Locals are stack slots, which LLVM turns into registers. A place in a container is a scalar address and the offsets of the other lanes.
// Accesses of neighboring lanes become one wide access: contiguous lanes directly, packed vectors with shuffles, all others by gathers and
// scatters.
#include "codegen/llvm/body.h"

#include "llvm/Analysis/VectorUtils.h"
#include "llvm/IR/Constants.h"

#include <numeric>
#include <tuple>

using namespace mlir;

namespace qd::codegen {

/// Packed vectors with more components are gathered: shuffles would cost more.
constexpr int64_t kShuffledComponents = 4;

llvm::AllocaInst *BodyEmitter::makeSlot(llvm::Type *type, llvm::StringRef name) {
  llvm::IRBuilder<>::InsertPointGuard guard(builder);
  llvm::BasicBlock &entry = function->getEntryBlock();
  builder.SetInsertPoint(&entry, entry.begin());
  return builder.CreateAlloca(type, nullptr, name);
}

LocalStorage *BodyEmitter::makeLocal(Type pointee, ArrayRef<LaneKind> kinds, llvm::StringRef name) {
  LocalStorage &storage = storages.emplace_back();
  size_t count = size_t(ir::getComponentCount(pointee));
  llvm::Type *type = module.getMemoryType(ir::getScalar(pointee));
  for (size_t i = 0; i < count; ++i) storage.kinds.push_back(kinds.empty() || kinds[i].isUnset() ? LaneKind::uniform() : kinds[i]);
  if (int64_t(count) <= kSeparateComponents) {
    for (LaneKind kind : storage.kinds) storage.slots.push_back(makeSlot(widen(type, kind), name));
    return &storage;
  }
  llvm::Type *slot = widen(type, storage.kinds[0]);
  storage.array = makeSlot(llvm::ArrayType::get(slot, count), name);
  llvm::IRBuilder<>::InsertPointGuard guard(builder);
  builder.SetInsertPoint(storage.array->getParent(), std::next(storage.array->getIterator())); // the block may end there
  for (size_t i = 0; i < count; ++i) storage.slots.push_back(builder.CreateConstGEP1_64(slot, storage.array, i));
  return &storage;
}

llvm::Value *BodyEmitter::fromMemory(Type scalar, llvm::Value *value) {
  llvm::Type *type = value->getType();
  if (scalar.isBF16()) {
    llvm::Value *bits = builder.CreateShl(builder.CreateZExt(value, type->getWithNewBitWidth(32)), 16);
    return builder.CreateBitCast(bits, type->getWithNewType(builder.getFloatTy()));
  }
  // Other libraries may store any byte but 0 for true.
  return scalar.isInteger(1) ? builder.CreateIsNotNull(value) : value;
}

llvm::Value *BodyEmitter::toMemory(Type scalar, llvm::Value *value) {
  llvm::Type *type = value->getType();
  if (scalar.isBF16()) { // as support::floatToBfloat
    llvm::Type *word = type->getWithNewType(builder.getInt32Ty());
    llvm::Value *bits = builder.CreateBitCast(value, word), *odd = builder.CreateAnd(builder.CreateLShr(bits, 16), 1);
    llvm::Value *rounded = builder.CreateAdd(bits, builder.CreateAdd(odd, llvm::ConstantInt::get(word, 0x7fff)));
    llvm::Value *isNan = builder.CreateICmpUGT(builder.CreateAnd(bits, 0x7fffffff), llvm::ConstantInt::get(word, 0x7f800000));
    rounded = builder.CreateSelect(isNan, builder.CreateOr(bits, 0x400000), rounded);
    return builder.CreateTrunc(builder.CreateLShr(rounded, 16), word->getWithNewBitWidth(16));
  }
  return scalar.isInteger(1) ? builder.CreateZExt(value, type->getWithNewBitWidth(8)) : value;
}

Components BodyEmitter::loadPacked(Type type, llvm::Value *pointer, bool invariant) {
  Type scalar = ir::getScalar(type);
  llvm::Type *memoryType = module.getMemoryType(scalar);
  int64_t size = module.getByteSize(scalar);
  llvm::Align align{uint64_t(size)};
  Components result;
  for (int64_t i = 0; i < ir::getComponentCount(type); ++i) {
    llvm::Value *own = offsetBy(pointer, i * size);
    result.push_back(
        {fromMemory(scalar, invariant ? loadInvariant(memoryType, own, align) : builder.CreateAlignedLoad(memoryType, own, align))});
  }
  return result;
}

void BodyEmitter::storePacked(Type type, const Components &value, llvm::Value *pointer) {
  Type scalar = ir::getScalar(type);
  int64_t size = module.getByteSize(scalar);
  for (auto [i, component] : llvm::enumerate(value))
    builder.CreateAlignedStore(toMemory(scalar, component.value), offsetBy(pointer, int64_t(i) * size), llvm::Align(uint64_t(size)));
}

//--- Addresses ---

namespace {

/// An index as a value plus a constant.
struct SplitIndex {
  llvm::Value *rest;
  int64_t constant = 0;
};

/// Splits the constant off a signed index, so that neighbors (i - 1, i + 1) have the same address plus a constant. If the sum wraps, it is
/// within kSmallIndex of the ends of its range, and such an index is out of bounds on every axis.
SplitIndex splitIndex(llvm::Value *index) {
  constexpr int64_t kSmallIndex = 1 << 20;
  SplitIndex split{index};
  while (auto *sum = dyn_cast<llvm::BinaryOperator>(split.rest)) {
    auto *right = dyn_cast<llvm::ConstantInt>(sum->getOperand(1)), *left = dyn_cast<llvm::ConstantInt>(sum->getOperand(0));
    bool isDifference = sum->getOpcode() == llvm::Instruction::Sub;
    if (!isDifference && sum->getOpcode() != llvm::Instruction::Add) break;
    if (!right && (isDifference || !left)) break;
    int64_t more = right ? right->getSExtValue() : left->getSExtValue();
    if (std::abs(more) > kSmallIndex || std::abs(split.constant) > kSmallIndex) break;
    split.constant += isDifference ? -more : more;
    split.rest = sum->getOperand(right ? 0 : 1);
  }
  return split;
}

/// The 64-bit value that a signed index was truncated from without loss; null for other indices. LLVM would otherwise extend the 32 bits.
llvm::Value *findUncut(llvm::Value *index, llvm::Type *wide) {
  auto *cut = dyn_cast<llvm::TruncInst>(index);
  return cut && cut->hasNoSignedWrap() && cut->getSrcTy() == wide ? cut->getOperand(0) : nullptr;
}

/// A sum of indices times strides: a scalar part, a stride between lanes, and a varying part.
class AddressSum {
public:
  AddressSum(BodyEmitter &body, llvm::Type *varyingType, int64_t rowAlignment = 0)
      : body(body), varyingType(varyingType), multiple(rowAlignment) {}

  void add(const Component &index, Type type, llvm::Value *stride) {
    llvm::IRBuilder<> &builder = body.builder;
    auto constant = dyn_cast<llvm::ConstantInt>(stride);
    auto [rest, more] = index.kind.isScalar() && type.isSignedInteger() ? splitIndex(index.value) : SplitIndex{index.value};
    llvm::Value *uncut = index.kind.isScalar() && type.isSignedInteger() ? findUncut(rest, builder.getInt64Ty()) : nullptr;
    Component wide = index.kind.isVarying() ? index
                     : uncut                ? Component{uncut, index.kind}
                                            : body.castIndex({rest, index.kind}, type, builder.getInt64Ty());
    if (!constant && wide.kind.isScalar() && !wide.kind.isUniform()) {
      std::tie(rowStride, firstRow, rowStep) = std::tuple(stride, more, wide.kind.getStride());
      rowOffset = sum(rowOffset, builder.CreateMul(wide.value, stride));
      if (more) offset = sum(offset, builder.CreateMul(builder.getInt64(more), stride));
    } else if (more) {
      addConstant(more, stride);
    }
    // For other strides the tensor's alignment is known.
    if (constant) keepMultiple(constant->getSExtValue() * (rest == body.firstColumn ? body.columns : 1));
    if (wide.kind.isScalar() && (wide.kind.isUniform() || constant)) {
      addOffset(builder.CreateMul(wide.value, stride));
      if (!wide.kind.isUniform()) laneStride += wide.kind.getStride() * constant->getSExtValue();
      return;
    }
    bool isSigned = !type.isUnsignedInteger() && !type.isInteger(1);
    llvm::Value *vector = builder.CreateIntCast(body.toVector({rest, index.kind}), body.widen(varyingType), isSigned);
    varying = sum(varying, builder.CreateMul(vector, body.splat(builder.CreateIntCast(stride, varyingType, true))));
    ++varyingParts;
  }

  void addConstant(int64_t count, llvm::Value *stride) {
    if (auto *constant = dyn_cast<llvm::ConstantInt>(stride))
      bytes += count * constant->getSExtValue();
    else
      addOffset(body.builder.CreateMul(body.builder.getInt64(count), stride));
  }

  void finish(Place &place) {
    llvm::IRBuilder<> &builder = body.builder;
    if (rowStride && varyingParts == 1 && !place.offsets && laneStride == 0) {
      place.rows = rowOffset ? builder.CreateGEP(builder.getInt8Ty(), place.base, rowOffset) : place.base;
      std::tie(place.rowStride, place.firstRow, place.rowStep, place.rowBytes) = std::tuple(rowStride, firstRow, rowStep, bytes);
    }
    if (offset) place.base = builder.CreateGEP(builder.getInt8Ty(), place.base, offset);
    place.base = body.offsetBy(place.base, bytes);
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
    keepMultiple(bytes);
    keepMultiple(laneStride);
    place.multiple = multiple;
  }

private:
  llvm::Value *sum(llvm::Value *a, llvm::Value *b) { return !a ? b : !b ? a : body.builder.CreateAdd(a, b); }
  void addOffset(llvm::Value *more) {
    offset = sum(offset, more);
    rowOffset = sum(rowOffset, more);
  }
  void keepMultiple(int64_t part) { multiple = std::gcd(multiple, multiple ? part : 0); }

  BodyEmitter &body;
  llvm::Type *varyingType;
  llvm::Value *offset = nullptr, *varying = nullptr;
  int varyingParts = 0;
  llvm::Value *rowOffset = nullptr, *rowStride = nullptr; // of the last part whose lanes are rows
  int64_t firstRow = 0, rowStep = 0;
  int64_t laneStride = 0, bytes = 0;
  int64_t multiple; ///< every part of the sum is a multiple of this many bytes, a power of two; 0: unknown
};

/// Whether every index times its stride fits in 31 bits.
bool hasSmallOffsets(ir::TensorType type) {
  int64_t span = ir::getComponentCount(type.getElement()) * std::max<int64_t>(type.getComponentStride(), 8);
  for (int64_t axis = 0; axis < type.getRank(); ++axis) {
    int64_t extent = type.getExtents()[axis];
    if (extent == layout::kDynamic) return false;
    extent += std::abs(type.getFirst(axis));
    if (!type.isPacked()) {
      int64_t stride = type.getStrides()[axis], length = 0;
      if (stride == layout::kDynamic || __builtin_mul_overflow(std::abs(stride), extent, &length) || length > INT32_MAX) return false;
      span = std::max(span, length);
    } else if (__builtin_mul_overflow(span, std::max<int64_t>(extent, 1), &span)) {
      return false;
    }
  }
  for (const layout::Tiling &tiling : ir::getTilings(type))
    span = std::max(span, type.getExtents()[size_t(tiling.axis)] / tiling.length * tiling.jump); // less than the container's size
  return span <= INT32_MAX / 2;
}

} // namespace

// passes/launch_exprs.cpp, which does not include the ABI, depends on this layout.
static_assert(offsetof(QdTensorArgument, extents_and_strides) == 8 && sizeof(*QdTensorArgument::extents_and_strides) == 8);

/// Loads a number of the QdTensorArgument, after the pointer to the data.
static llvm::Value *loadNumber(BodyEmitter &body, const Tensor &tensor, int64_t position) {
  int64_t offset = offsetof(QdTensorArgument, extents_and_strides) + position * int64_t(sizeof(int64_t));
  return body.loadInvariant(body.builder.getInt64Ty(), body.offsetBy(tensor.descriptor, offset));
}

llvm::Value *BodyEmitter::getExtent(const Tensor &tensor, int64_t axis) {
  int64_t extent = tensor.type.getExtents()[size_t(axis)];
  if (extent != layout::kDynamic) return builder.getInt64(uint64_t(extent));
  return loadNumber(*this, tensor, llvm::count(tensor.type.getExtents().take_front(size_t(axis)), layout::kDynamic));
}

llvm::SmallVector<llvm::Value *, 4> BodyEmitter::getStrides(const Tensor &tensor) {
  ir::TensorType type = tensor.type;
  llvm::SmallVector<llvm::Value *, 4> strides(size_t(type.getRank()));
  llvm::Value *packed =
      builder.getInt64(uint64_t(ir::getComponentCount(type.getElement()) * module.getByteSize(ir::getScalar(type.getElement()))));
  for (int64_t axis = type.getRank() - 1; axis >= 0; --axis) {
    llvm::Value *&stride = strides[size_t(axis)];
    if (type.isPacked()) {
      stride = packed;
      if (axis > 0) packed = builder.CreateMul(packed, getExtent(tensor, axis));
    } else if (type.getStrides()[size_t(axis)] != layout::kDynamic) {
      stride = builder.getInt64(uint64_t(type.getStrides()[size_t(axis)]));
    } else {
      stride = loadNumber(*this, tensor, llvm::count(type.getExtents(), layout::kDynamic) + axis);
    }
  }
  return strides;
}

Component BodyEmitter::getTile(const Component &index, int64_t first, int64_t length) {
  Component from = index.kind.isUniform() ? index : makeVarying(toVector(index));
  llvm::Type *integer = from.value->getType();
  llvm::Value *place = first ? builder.CreateSub(from.value, llvm::ConstantInt::get(integer, uint64_t(first), true)) : from.value;
  return {builder.CreateUDiv(place, llvm::ConstantInt::get(integer, uint64_t(length))), from.kind};
}

Place BodyEmitter::getElement(const Tensor &tensor, ArrayRef<Component> indices, TypeRange types) {
  ir::TensorType type = tensor.type;
  Place place;
  place.pointee = type.getElement();
  place.base = tensor.data;
  place.componentStride = type.getComponentStride();
  place.scope = tensor.scope;
  place.isPrivate = tensor.isPrivate;
  place.isShared = tensor.isShared;
  place.alignment = tensor.alignment;
  AddressSum sum(*this, hasSmallOffsets(type) ? builder.getInt32Ty() : builder.getInt64Ty(), tensor.rowAlignment);
  llvm::SmallVector<llvm::Value *, 4> strides = getStrides(tensor);
  for (size_t axis = strides.size(); axis-- > 0;) {
    sum.add(indices[axis], types[axis], strides[axis]);
    if (int64_t first = type.getFirst(int64_t(axis))) sum.addConstant(-first, strides[axis]);
  }
  for (const layout::Tiling &tiling : ir::getTilings(type)) {
    Type indexType = types[size_t(tiling.axis)];
    Component tile = getTile(indices[size_t(tiling.axis)], type.getFirst(tiling.axis), tiling.length);
    sum.add(tile, indexType, builder.getInt64(uint64_t(tiling.jump)));
  }
  sum.finish(place);
  return place;
}

Place BodyEmitter::getComponent(const Place &place, ArrayRef<Component> indices, TypeRange types) {
  auto shape = cast<VectorType>(place.pointee);
  Place part = place;
  part.pointee = shape.getElementType();
  part.alignment = part.multiple = 0;
  part.rows = nullptr;
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
  Component position = getPosition(shape, indices, types);
  auto constant = dyn_cast<llvm::ConstantInt>(position.value);
  if (constant && constant->getSExtValue() >= 0 && constant->getSExtValue() < shape.getNumElements())
    part.component = int(constant->getSExtValue());
  else
    part.chosen = position;
  return part;
}

//--- Locals ---

void BodyEmitter::store(const Place &place, const Components &value, bool masked) {
  if (place.local)
    storeLocal(place, value, masked);
  else
    storeMemory(place, value);
}

/// Addresses of the components of a stack array at a varying index: element index * lanes + lane.
llvm::Value *BodyEmitter::getLocalPointers(const LocalStorage &local, const Component &index) {
  auto slots = cast<llvm::ArrayType>(local.array->getAllocatedType());
  llvm::Value *position = toVector(index);
  if (local.kinds[0].isVarying()) {
    llvm::Type *type = position->getType()->getScalarType();
    position = builder.CreateMul(position, splat(llvm::ConstantInt::get(type, lanes)));
    position = builder.CreateAdd(position, toVector({llvm::ConstantInt::get(type, 0), LaneKind::linear(1)}));
  }
  return builder.CreateGEP(slots->getElementType()->getScalarType(), local.array, position);
}

Components BodyEmitter::loadLocal(const Place &place) {
  const LocalStorage &local = *place.local;
  Type scalar = ir::getScalar(place.pointee);
  llvm::Type *type = module.getMemoryType(scalar);
  auto loadFrom = [&](llvm::Value *pointer, LaneKind kind) -> Component {
    return {fromMemory(scalar, builder.CreateLoad(widen(type, kind), pointer)), kind};
  };
  if (place.component >= 0) return {loadFrom(local.slots[size_t(place.component)], local.kinds[size_t(place.component)])};
  if (place.chosen.value && local.array) {
    LaneKind kind = local.kinds[0];
    if (place.chosen.kind.isUniform()) return {loadFrom(builder.CreateGEP(widen(type, kind), local.array, place.chosen.value), kind)};
    llvm::Align align(uint64_t(module.getByteSize(scalar)));
    llvm::Value *pointers = getLocalPointers(local, place.chosen), *none = llvm::Constant::getNullValue(widen(type));
    return {makeVarying(fromMemory(scalar, builder.CreateMaskedGather(widen(type), pointers, align, getMask(), none)))};
  }
  Components all;
  for (auto [slot, kind] : llvm::zip(local.slots, local.kinds)) all.push_back(loadFrom(slot, kind));
  return place.chosen.value ? Components{choose(all, place.chosen)} : all;
}

void BodyEmitter::storeLocal(const Place &place, const Components &value, bool masked) {
  const LocalStorage &local = *place.local;
  Type scalar = ir::getScalar(place.pointee);
  llvm::Type *type = module.getMemoryType(scalar);
  llvm::Value *only = masked || place.isReference ? mask : nullptr;
  auto storeTo = [&](llvm::Value *pointer, LaneKind kind, const Component &component, llvm::Value *where) {
    llvm::Value *stored = toMemory(scalar, kind.isVarying() ? toVector(component) : component.value);
    if (where) stored = builder.CreateSelect(where, stored, builder.CreateLoad(widen(type, kind), pointer));
    builder.CreateStore(stored, pointer);
    if (kind.isScalar() && component.kind != kind)
      module.reportError(UnknownLoc::get(place.pointee.getContext()))
          << "the LLVM emitter stores a varying value to a uniform local; this is a bug of the compiler";
  };
  if (place.component >= 0) {
    storeTo(local.slots[size_t(place.component)], local.kinds[size_t(place.component)], value[0], only);
  } else if (place.chosen.value && local.array) {
    if (place.chosen.kind.isUniform())
      return storeTo(builder.CreateGEP(widen(type, local.kinds[0]), local.array, place.chosen.value), local.kinds[0], value[0], only);
    builder.CreateMaskedScatter(toMemory(scalar, toVector(value[0])), getLocalPointers(local, place.chosen),
                                llvm::Align(uint64_t(module.getByteSize(scalar))), getMask());
  } else {
    for (auto [i, slot] : llvm::enumerate(local.slots)) {
      llvm::Value *where = only;
      if (place.chosen.value) {
        Component isHere = isAt(place.chosen, i);
        bool varies = local.kinds[i].isVarying();
        where = varies ? toVector(isHere) : isHere.value;
        if (varies && only) where = builder.CreateAnd(where, only);
      }
      storeTo(slot, local.kinds[i], value[place.chosen.value ? 0 : i], where);
    }
  }
}

//--- Containers ---

/// Addresses of all lanes, plus `offset` bytes.
llvm::Value *BodyEmitter::getPointers(const Place &place, int64_t offset) {
  llvm::Value *offsets = place.offsets ? place.offsets : toVector({builder.getInt32(0), place.lanes});
  return builder.CreateGEP(builder.getInt8Ty(), offsetBy(place.base, offset), offsets);
}

/// Address of one lane, plus `offset` bytes.
llvm::Value *BodyEmitter::getLanePointer(const Place &place, int64_t offset, unsigned lane) {
  if (place.rows) {
    llvm::Value *distance = builder.CreateMul(place.rowStride, builder.getInt64(uint64_t(place.firstRow + place.rowStep * lane)));
    return offsetBy(builder.CreateGEP(builder.getInt8Ty(), place.rows, distance), place.rowBytes + offset);
  }
  llvm::Value *distance = place.lanes.isVarying() ? builder.CreateExtractElement(place.offsets, lane)
                                                  : builder.getInt64(uint64_t(place.lanes.getStride()) * lane);
  return builder.CreateGEP(builder.getInt8Ty(), offsetBy(place.base, offset), distance);
}

/// Loads `count` contiguous components lane by lane. On grids the neighbors of an access are other threads, and separate accesses keep
/// their alias metadata.
llvm::SmallVector<llvm::Value *, 4> BodyEmitter::loadLanes(const Place &place, int64_t offset, unsigned count, llvm::Type *type,
                                                           llvm::Align align) {
  llvm::SmallVector<llvm::Value *, 4> parts(count, llvm::PoisonValue::get(widen(type))), slots;
  for (unsigned part = 0; mask && part < count; ++part) {
    slots.push_back(makeSlot(widen(type), "loaded"));
    builder.CreateStore(llvm::Constant::getNullValue(widen(type)), slots.back());
  }
  llvm::Type *whole = count == 1 ? type : llvm::FixedVectorType::get(type, count);
  for (unsigned lane = 0; lane < lanes; ++lane) {
    auto loadOne = [&] {
      llvm::LoadInst *one = builder.CreateAlignedLoad(whole, getLanePointer(place, offset, lane), align);
      module.setAlias(one, place.scope, lane);
      module.setReadOnly(one, place.scope);
      for (unsigned part = 0; part < count; ++part) {
        llvm::Value *own = count == 1 ? one : builder.CreateExtractElement(one, part);
        llvm::Value *before = slots.empty() ? parts[part] : builder.CreateLoad(widen(type), slots[part]);
        llvm::Value *after = builder.CreateInsertElement(before, own, lane);
        slots.empty() ? void(parts[part] = after) : void(builder.CreateStore(after, slots[part]));
      }
    };
    mask ? emitWhen(builder.CreateExtractElement(mask, lane), "lane", loadOne) : loadOne();
  }
  for (auto [part, slot] : llvm::zip(parts, slots)) part = builder.CreateLoad(widen(type), slot);
  return parts;
}

/// Joins scalars to a vector; a single one stays a scalar.
llvm::Value *BodyEmitter::joinScalars(ArrayRef<llvm::Value *> values) {
  if (values.size() == 1) return values[0];
  llvm::Value *joined = llvm::PoisonValue::get(llvm::FixedVectorType::get(values[0]->getType(), unsigned(values.size())));
  for (auto [i, value] : llvm::enumerate(values)) joined = builder.CreateInsertElement(joined, value, i);
  return joined;
}

void BodyEmitter::storeLanes(const Place &place, int64_t offset, ArrayRef<llvm::Value *> parts, llvm::Align align) {
  for (unsigned lane = 0; lane < lanes; ++lane) {
    auto storeOne = [&] {
      llvm::Value *pointer = getLanePointer(place, offset, lane);
      llvm::SmallVector<llvm::Value *, 4> own;
      for (llvm::Value *part : parts) own.push_back(builder.CreateExtractElement(part, lane));
      module.setAlias(builder.CreateAlignedStore(joinScalars(own), pointer, align), place.scope, lane);
    };
    mask ? emitWhen(builder.CreateExtractElement(mask, lane), "lane", storeOne) : storeOne();
  }
}

/// Number of adjacent components per lane that one wide access covers: all if they are packed, or one. 0: lanes are not adjacent.
static int64_t getGroup(const Place &place, int64_t count, int64_t size) {
  if (place.lanes.isVarying()) return 0;
  if (place.componentStride == size && count <= kShuffledComponents && place.lanes.getStride() == count * size) return count;
  return place.lanes.getStride() == size ? 1 : 0;
}

/// Repeats each lane of the mask for `group` packed components.
static llvm::Value *repeatMask(llvm::IRBuilder<> &builder, llvm::Value *mask, unsigned lanes, int64_t group) {
  return group == 1 ? mask : builder.CreateShuffleVector(mask, llvm::createReplicatedMask(unsigned(group), lanes));
}

Components BodyEmitter::loadMemory(const Place &place) {
  Type scalar = ir::getScalar(place.pointee);
  llvm::Type *type = module.getMemoryType(scalar);
  int64_t count = ir::getComponentCount(place.pointee), size = module.getByteSize(scalar);
  int64_t group = module.traits.hasGrids ? std::max<int64_t>(place.alignment / size, 1) : getGroup(place, count, size);
  llvm::Align align{uint64_t(std::max({size, place.alignment, place.multiple}))};
  Components result;
  for (int64_t i = 0; i < count; i += std::max<int64_t>(group, 1)) {
    llvm::Instruction *all;
    llvm::Value *pointer = offsetBy(place.base, i * place.componentStride);
    if (place.alignment && !place.isVolatile && (place.lanes.isUniform() || lanes == 1)) {
      all = builder.CreateAlignedLoad(llvm::FixedVectorType::get(type, unsigned(group)), pointer, align);
      module.setReadOnly(all, place.scope);
      for (int64_t part = 0; part < group; ++part) result.push_back({builder.CreateExtractElement(all, uint64_t(part))});
    } else if (place.lanes.isUniform() || lanes == 1) {
      all = builder.CreateAlignedLoad(type, pointer, align, place.isVolatile);
      if (!place.isVolatile) module.setReadOnly(all, place.scope);
      result.push_back({fromMemory(scalar, all)});
    } else if (module.traits.hasGrids) {
      for (llvm::Value *part : loadLanes(place, i * place.componentStride, unsigned(group), type, align))
        result.push_back(makeVarying(fromMemory(scalar, part)));
      continue;
    } else if (group == 0) {
      llvm::Value *pointers = getPointers(place, i * place.componentStride);
      all = builder.CreateMaskedGather(widen(type), pointers, align, getMask(), llvm::Constant::getNullValue(widen(type)));
      result.push_back(makeVarying(fromMemory(scalar, all)));
    } else {
      llvm::Type *wide = llvm::FixedVectorType::get(type, unsigned(lanes * group));
      llvm::Constant *none = llvm::Constant::getNullValue(wide);
      if (mask)
        all = builder.CreateMaskedLoad(wide, pointer, align, repeatMask(builder, mask, lanes, group), none);
      else
        all = builder.CreateAlignedLoad(wide, pointer, align);
      // LLVM 22 turns a select of a masked load by the same mask into the load and moves it past intervening stores (llvm-project issue
      // 215453), but not if the value is frozen.
      llvm::Value *loaded = mask ? builder.CreateFreeze(all) : all;
      for (int64_t part = 0; part < group; ++part) {
        auto pattern = llvm::createStrideMask(unsigned(part), unsigned(group), lanes);
        result.push_back(makeVarying(fromMemory(scalar, group == 1 ? loaded : builder.CreateShuffleVector(loaded, pattern))));
      }
    }
    module.setAlias(all, place.scope);
  }
  return result;
}

void BodyEmitter::storeMemory(const Place &place, const Components &value) {
  Type scalar = ir::getScalar(place.pointee);
  int64_t count = ir::getComponentCount(place.pointee), size = module.getByteSize(scalar);
  int64_t group = module.traits.hasGrids ? std::max<int64_t>(place.alignment / size, 1) : getGroup(place, count, size);
  llvm::Align align{uint64_t(std::max({size, place.alignment, place.multiple}))};
  for (int64_t i = 0; i < count; i += std::max<int64_t>(group, 1)) {
    const Component &component = value[size_t(i)];
    llvm::Instruction *stored;
    llvm::Value *pointer = offsetBy(place.base, i * place.componentStride);
    // All active lanes write one place: the last lane's value remains.
    auto getLast = [&](const Component &own) {
      return toMemory(scalar, own.kind.isUniform() ? own.value : getLane(own, getLastLane(getMask())));
    };
    if (place.alignment && (place.lanes.isUniform() || lanes == 1)) {
      llvm::SmallVector<llvm::Value *, 4> parts;
      for (int64_t part = i; part < i + group; ++part) parts.push_back(getLast(value[size_t(part)]));
      stored = builder.CreateAlignedStore(joinScalars(parts), pointer, align);
    } else if (place.lanes.isUniform() || lanes == 1) {
      stored = builder.CreateAlignedStore(getLast(component), pointer, align);
    } else if (module.traits.hasGrids) {
      llvm::SmallVector<llvm::Value *, 4> parts;
      for (int64_t part = i; part < i + group; ++part) parts.push_back(toMemory(scalar, toVector(value[size_t(part)])));
      storeLanes(place, i * place.componentStride, parts, align);
      continue;
    } else if (group == 0) {
      llvm::Value *pointers = getPointers(place, i * place.componentStride);
      stored = builder.CreateMaskedScatter(toMemory(scalar, toVector(component)), pointers, align, getMask());
    } else {
      // Interleave the components: concatenate all vectors, then shuffle once.
      llvm::SmallVector<llvm::Value *, 4> parts;
      for (int64_t part = i; part < i + group; ++part) parts.push_back(toMemory(scalar, toVector(value[size_t(part)])));
      llvm::Value *wide = llvm::concatenateVectors(builder, parts);
      if (group > 1) wide = builder.CreateShuffleVector(wide, llvm::createInterleaveMask(lanes, unsigned(group)));
      if (mask)
        stored = builder.CreateMaskedStore(wide, pointer, align, repeatMask(builder, mask, lanes, group));
      else
        stored = builder.CreateAlignedStore(wide, pointer, align);
    }
    module.setAlias(stored, place.scope);
  }
}

} // namespace qd::codegen
