// memory.cpp: loads and stores of places in memory
//
// In:   a place: a scalar address, and where the other lanes are.
// Out:  accesses. Those of neighboring lanes become one wide access: contiguous lanes directly, packed vectors and members of structs with
//       shuffles. Adjacent components of distant lanes are one access per lane, and shuffles; single ones are gathers and scatters. One
//       function chooses for loads and stores (chooseAccess).
#include "codegen/llvm/memory.h"

#include "llvm/Analysis/VectorUtils.h"
#include "llvm/IR/Constants.h"

using namespace mlir;

namespace qd::codegen {

/// Packed vectors with more components are gathered: shuffles would cost more.
constexpr int64_t kShuffledComponents = 4;
/// Components of 4 bytes of each lane that are accessed at once where a register holds those of two lanes.
constexpr int64_t kLongRow = 8;
/// Bytes after the end of a field that may be read (runtime/buffer.cpp).
constexpr int64_t kTail = 64;

llvm::Value *Memory::fromMemory(Type scalar, llvm::Value *value) {
  llvm::Type *type = value->getType();
  if (scalar.isBF16()) {
    llvm::Value *bits = builder.CreateShl(builder.CreateZExt(value, type->getWithNewBitWidth(32)), 16);
    return builder.CreateBitCast(bits, type->getWithNewType(builder.getFloatTy()));
  }
  // Other libraries may store any byte but 0 for true.
  return scalar.isInteger(1) ? builder.CreateIsNotNull(value) : value;
}

llvm::Value *Memory::toMemory(Type scalar, llvm::Value *value) {
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

Components Memory::loadPacked(Type type, llvm::Value *pointer, bool invariant) {
  Type scalar = ir::getScalar(type);
  llvm::Type *memoryType = module.getMemoryType(scalar);
  int64_t size = module.getByteSize(scalar);
  llvm::Align align{uint64_t(size)};
  Components result;
  for (int64_t i = 0; i < ir::getComponentCount(type); ++i) {
    llvm::Value *own = in.offsetBy(pointer, i * size);
    result.push_back(
        {fromMemory(scalar, invariant ? in.loadInvariant(memoryType, own, align) : builder.CreateAlignedLoad(memoryType, own, align))});
  }
  return result;
}

void Memory::storePacked(Type type, const Components &value, llvm::Value *pointer) {
  Type scalar = ir::getScalar(type);
  int64_t size = module.getByteSize(scalar);
  for (auto [i, component] : llvm::enumerate(value))
    builder.CreateAlignedStore(toMemory(scalar, component.value), in.offsetBy(pointer, int64_t(i) * size), llvm::Align(uint64_t(size)));
}

Components Memory::load(const Place &place, bool isVolatile) {
  const auto *local = std::get_if<LocalPlace>(&place);
  return local ? loadLocal(*local) : loadMemory(std::get<MemoryPlace>(place), isVolatile);
}

void Memory::store(const Place &place, const Components &value, bool masked) {
  if (const auto *local = std::get_if<LocalPlace>(&place)) return storeLocal(*local, value, masked);
  storeMemory(std::get<MemoryPlace>(place), value);
}

//--- Accesses ---

/// How the lanes access a place in memory. The group is the number of components that one access covers.
struct Memory::Access {
  enum class Strategy {
    OneAddress, ///< one access for all lanes
    PerLane,    ///< one access for each active lane
    Wide,       ///< one access to the adjacent components of all lanes, and what lies between these
    Rows,       ///< one access for each lane to its adjacent components; masked, not in branches
    Gather,
  } strategy;
  int64_t group;
  llvm::Align align;
  int64_t width = 0; ///< of a wide access: elements from one lane to the next

  /// The access to the last `count` components.
  Access forRest(int64_t count) const {
    if (strategy != Strategy::Rows || count >= group) return *this;
    return {count == 1 ? Strategy::Gather : Strategy::Rows, std::min(count, kShuffledComponents), align, width};
  }
};

Memory::Access Memory::chooseAccess(const MemoryPlace &place, bool isVolatile) {
  using enum Access::Strategy;
  int64_t count = ir::getComponentCount(place.pointee), size = module.getByteSize(ir::getScalar(place.pointee));
  int64_t whole = place.alignment && !isVolatile ? place.alignment / size : 1;
  llvm::Align align{uint64_t(std::max({size, place.alignment, place.multiple}))};
  if (place.hasOneAddress() || in.lanes == 1) return {OneAddress, whole, align};
  // On grids the neighbors of an access are other threads, and separate accesses keep their alias metadata.
  if (module.traits.hasGrids) return {PerLane, whole, align};
  // A gather of 16 lanes takes 17 cycles, a scatter 27 (on Zen 4). The ends of runs are short code instead.
  const bool isNear = place.hasTwoRuns() || isa_and_nonnull<llvm::Constant>(place.findOffsets()); // few wide loads
  const bool hasRows = count > 1 && place.componentStride == size && size >= 4 && !isNear && !in.isPartialVector;
  const int64_t longest = size == 4 && in.lanes * size == 64 && count >= kLongRow ? kLongRow : kShuffledComponents;
  const Access distant = hasRows ? Access{Rows, std::min(count, longest), llvm::Align(uint64_t(size))} : Access{Gather, 1, align};
  if (place.findOffsets()) return distant;
  const int64_t width = place.getLaneStride() / size, group = place.componentStride == size ? count : 1;
  if (width * size != place.getLaneStride() || width < 1 || group > width) return distant;
  const bool isPacked = group == width, isShort = isPacked ? width <= kShuffledComponents : hasShortGaps(group, width);
  // Only AVX-512 has masks of bytes.
  const bool mayHaveGaps = (size >= 4 || module.traits.vectorBytes >= 64) && !in.isPartialVector && !(place.isInterleaved && in.lanes < 16);
  return isShort && (isPacked || mayHaveGaps) ? Access{Wide, group, align, width} : distant;
}

/// Whether wide loads with gaps between the components of lanes, each of which takes as many shuffles, take less time than gathers.
bool Memory::hasShortGaps(int64_t group, int64_t width) {
  constexpr int64_t kMostShuffles = 18;
  const int64_t widest =
      module.traits.vectorBytes < 64 ? kShuffledComponents : std::clamp<int64_t>(in.lanes * 3 / 4, kShuffledComponents, 8);
  return width <= widest && group * width <= kMostShuffles;
}

/// Addresses of all lanes, plus `offset` bytes.
llvm::Value *Memory::getPointers(const MemoryPlace &place, int64_t offset) {
  llvm::Value *offsets = place.findOffsets();
  if (!offsets) offsets = in.toVector({builder.getInt32(0), LaneKind::linear(place.getLaneStride())});
  return builder.CreateGEP(builder.getInt8Ty(), in.offsetBy(place.base, offset), offsets);
}

/// Address of one lane, plus `offset` bytes.
llvm::Value *Memory::getLanePointer(const MemoryPlace &place, int64_t offset, unsigned lane) {
  if (const RowLanes *row = place.findRows()) {
    llvm::Value *distance = builder.CreateMul(row->rowStride, builder.getInt64(uint64_t(row->firstRow + row->rowStep * lane)));
    return in.offsetBy(builder.CreateGEP(builder.getInt8Ty(), row->rows, distance), row->rowBytes + offset);
  }
  llvm::Value *offsets = place.findOffsets();
  llvm::Value *distance = offsets ? builder.CreateExtractElement(offsets, lane) : builder.getInt64(uint64_t(place.getLaneStride()) * lane);
  return builder.CreateGEP(builder.getInt8Ty(), in.offsetBy(place.base, offset), distance);
}

/// Joins scalars to a vector; a single one stays a scalar.
llvm::Value *Memory::joinScalars(ArrayRef<llvm::Value *> values) {
  if (values.size() == 1) return values[0];
  llvm::Value *joined = llvm::PoisonValue::get(llvm::FixedVectorType::get(values[0]->getType(), unsigned(values.size())));
  for (auto [i, value] : llvm::enumerate(values)) joined = builder.CreateInsertElement(joined, value, i);
  return joined;
}

llvm::Value *Memory::loadVector(const MemoryPlace &place, llvm::Type *type, llvm::Value *pointer, llvm::Align align, llvm::Value *mask,
                                llvm::Value *others) {
  if (!others) others = llvm::Constant::getNullValue(type);
  llvm::Instruction *loaded = mask ? builder.CreateMaskedLoad(type, pointer, align, mask, others)
                                   : cast<llvm::Instruction>(builder.CreateAlignedLoad(type, pointer, align));
  module.aliases.mark(loaded, place.scope);
  return loaded;
}

void Memory::storeVector(const MemoryPlace &place, llvm::Value *value, llvm::Value *pointer, llvm::Align align, llvm::Value *mask) {
  llvm::Instruction *stored = mask ? builder.CreateMaskedStore(value, pointer, align, mask)
                                   : cast<llvm::Instruction>(builder.CreateAlignedStore(value, pointer, align));
  module.aliases.mark(stored, place.scope);
}

/// Repeats each lane of the mask for `group` packed components.
static llvm::Value *repeatMask(llvm::IRBuilder<> &builder, llvm::Value *mask, unsigned lanes, int64_t group) {
  return group == 1 ? mask : builder.CreateShuffleVector(mask, llvm::createReplicatedMask(unsigned(group), lanes));
}

/// The vectors of a wide access, each of which has as many elements as there are lanes, because LLVM 22 moves the bits of longer masks one
/// by one. The last one ends with the last component: a masked store delays loads of what it spans, such as the first of the next vector.
/// Without masks and gaps there are no vectors: one access is enough.
llvm::SmallVector<Memory::WideVector, 8> Memory::listWideVectors(const Access &access, bool isLoad) {
  if (!in.mask && access.group == access.width) return {};
  llvm::SmallVector<WideVector, 8> vectors;
  const int64_t lanes = in.lanes, end = (lanes - 1) * access.width + access.group;
  for (int64_t first = 0; first < lanes * access.width; first += lanes) {
    const int64_t start = std::min(first, end - lanes);
    llvm::SmallVector<llvm::Constant *, 16> bits;
    llvm::SmallVector<int, 16> owners;
    for (int64_t i = start; i < start + lanes; ++i) {
      bits.push_back(builder.getInt1(isLoad || (i >= first && i % access.width < access.group)));
      owners.push_back(int(i / access.width));
    }
    llvm::Constant *used = llvm::ConstantVector::get(bits);
    llvm::Value *mask = !in.mask || access.width == 1 ? in.mask : builder.CreateShuffleVector(in.mask, owners);
    if (!used->isAllOnesValue()) mask = mask ? builder.CreateAnd(mask, used) : used;
    vectors.push_back({start, mask});
  }
  return vectors;
}

/// Loads a place with clamped indices. Most vectors have no lane that is clamped; wide accesses serve them.
Components Memory::loadUnclamped(const MemoryPlace &place) {
  const auto &[most, isSame, lanes, otherwise] = *place.unclamped;
  const bool isNear = most.hasTwoRuns() || isa_and_nonnull<llvm::Constant>(most.findOffsets());
  if (!isNear && chooseAccess(most, false).strategy != Access::Strategy::Wide) return loadMemory(otherwise(), false);
  llvm::SmallVector<llvm::Value *, 4> slots;
  auto load = [&](const MemoryPlace &from) {
    for (auto [i, component] : llvm::enumerate(loadMemory(from, /*isVolatile=*/false))) {
      llvm::Value *value = in.toVector(component);
      if (i == slots.size()) slots.push_back(in.makeSlot(value->getType(), "loaded"));
      builder.CreateStore(value, slots[i]);
    }
  };
  llvm::Value *isFree = isSame;
  if (lanes) {
    llvm::Value *all = in.isAll(in.mask ? builder.CreateOr(lanes, builder.CreateNot(in.mask)) : lanes);
    isFree = isSame ? builder.CreateAnd(isSame, all) : all;
  }
  in.emitWhen(isFree, "free", [&] { load(most); }, [&] { load(otherwise()); });
  Components result;
  for (llvm::Value *slot : slots)
    result.push_back(in.makeVarying(builder.CreateLoad(cast<llvm::AllocaInst>(slot)->getAllocatedType(), slot)));
  return result;
}

Components Memory::loadMemory(const MemoryPlace &place, bool isVolatile) {
  if (place.unclamped) return loadUnclamped(place);
  Access access = chooseAccess(place, isVolatile);
  Components result;
  for (int64_t i = 0, count = ir::getComponentCount(place.pointee); i < count; i += access.group) {
    access = access.forRest(count - i);
    int64_t offset = i * place.componentStride;
    llvm::Value *pointer = in.offsetBy(place.base, offset);
    switch (access.strategy) {
    case Access::Strategy::OneAddress: llvm::append_range(result, loadOnce(place, pointer, access, isVolatile)); break;
    case Access::Strategy::PerLane: llvm::append_range(result, loadLanes(place, offset, access)); break;
    case Access::Strategy::Wide: llvm::append_range(result, loadWide(place, pointer, access)); break;
    case Access::Strategy::Rows: llvm::append_range(result, loadRows(place, offset, access)); break;
    case Access::Strategy::Gather: result.push_back(gather(place, offset, access)); break;
    }
  }
  return result;
}

Components Memory::loadOnce(const MemoryPlace &place, llvm::Value *pointer, const Access &access, bool isVolatile) {
  Type scalar = ir::getScalar(place.pointee);
  llvm::Type *type = module.getMemoryType(scalar);
  if (access.group > 1) type = llvm::FixedVectorType::get(type, unsigned(access.group));
  llvm::LoadInst *all = builder.CreateAlignedLoad(type, pointer, access.align, isVolatile);
  if (!isVolatile) module.aliases.markReadOnly(all, place.scope);
  module.aliases.mark(all, place.scope);
  if (access.group == 1) return {{fromMemory(scalar, all)}};
  Components parts;
  for (int64_t part = 0; part < access.group; ++part)
    parts.push_back({fromMemory(scalar, builder.CreateExtractElement(all, uint64_t(part)))});
  return parts;
}

Components Memory::loadLanes(const MemoryPlace &place, int64_t offset, const Access &access) {
  Type scalar = ir::getScalar(place.pointee);
  llvm::Type *type = module.getMemoryType(scalar);
  auto count = unsigned(access.group);
  llvm::SmallVector<llvm::Value *, 4> parts(count, llvm::PoisonValue::get(in.widen(type))), slots;
  for (unsigned part = 0; in.mask && part < count; ++part) {
    slots.push_back(in.makeSlot(in.widen(type), "loaded"));
    builder.CreateStore(llvm::Constant::getNullValue(in.widen(type)), slots.back());
  }
  llvm::Type *whole = count == 1 ? type : llvm::FixedVectorType::get(type, count);
  for (unsigned lane = 0; lane < in.lanes; ++lane) {
    auto loadOne = [&] {
      llvm::LoadInst *one = builder.CreateAlignedLoad(whole, getLanePointer(place, offset, lane), access.align);
      module.aliases.mark(one, place.scope, lane);
      module.aliases.markReadOnly(one, place.scope);
      for (unsigned part = 0; part < count; ++part) {
        llvm::Value *own = count == 1 ? one : builder.CreateExtractElement(one, part);
        llvm::Value *before = slots.empty() ? parts[part] : builder.CreateLoad(in.widen(type), slots[part]);
        llvm::Value *after = builder.CreateInsertElement(before, own, lane);
        slots.empty() ? void(parts[part] = after) : void(builder.CreateStore(after, slots[part]));
      }
    };
    in.mask ? in.emitWhen(builder.CreateExtractElement(in.mask, lane), "lane", loadOne) : loadOne();
  }
  for (auto [part, slot] : llvm::zip(parts, slots)) part = builder.CreateLoad(in.widen(type), slot);
  Components result;
  for (llvm::Value *part : parts) result.push_back(in.makeVarying(fromMemory(scalar, part)));
  return result;
}

Components Memory::loadWide(const MemoryPlace &place, llvm::Value *pointer, const Access &access) {
  Type scalar = ir::getScalar(place.pointee);
  const auto group = unsigned(access.group), width = unsigned(access.width);
  llvm::Type *memoryType = module.getMemoryType(scalar);
  auto load = [&](llvm::Type *type, llvm::Value *at, llvm::Align align, llvm::Value *mask) {
    llvm::Value *own = loadVector(place, type, at, align, mask);
    // LLVM 22 turns a select of a masked load by the same mask into the load and moves it past intervening stores (llvm-project issue
    // 215453), but not if the value is frozen.
    return mask ? builder.CreateFreeze(own) : own;
  };
  const int64_t size = module.getByteSize(scalar);
  llvm::SmallVector<WideVector, 8> vectors = listWideVectors(access, /*isLoad=*/true);
  llvm::SmallVector<llvm::Value *, 8> loaded;
  for (const WideVector &vector : vectors)
    loaded.push_back(load(in.widen(memoryType), in.offsetBy(pointer, vector.start * size),
                          llvm::commonAlignment(access.align, uint64_t(vector.start * size)), vector.mask));
  if (loaded.empty())
    loaded.push_back(load(llvm::FixedVectorType::get(memoryType, in.lanes * width), pointer, access.align, /*mask=*/nullptr));
  llvm::Value *all = llvm::concatenateVectors(builder, loaded);
  Components parts;
  for (unsigned part = 0; part < group; ++part) {
    llvm::SmallVector<int, 16> pattern = llvm::createStrideMask(part, width, in.lanes);
    const int last = int((width - 1) * in.lanes);
    for (int &position : pattern)
      if (!vectors.empty() && position >= last) position += last - int(vectors.back().start);
    parts.push_back(in.makeVarying(fromMemory(scalar, width == 1 ? all : builder.CreateShuffleVector(all, pattern))));
  }
  return parts;
}

/// For each lane, the mask of its row: which of its components the access reaches. Null if an access needs none.
llvm::SmallVector<llvm::Value *, 16> Memory::getRowMasks(unsigned group, unsigned width) {
  if (!in.mask && group == width) return llvm::SmallVector<llvm::Value *, 16>(in.lanes, nullptr);
  llvm::SmallVector<llvm::Constant *, 64> bits;
  for (unsigned i = 0; i < in.lanes * width; ++i) bits.push_back(builder.getInt1(i % width < group));
  llvm::Value *all = llvm::ConstantVector::get(bits);
  if (in.mask) all = builder.CreateAnd(all, repeatMask(builder, in.mask, in.lanes, width));
  return getRowParts(all, width, width);
}

/// The first `group` of the `width` elements that each lane has in a vector.
llvm::SmallVector<llvm::Value *, 16> Memory::getRowParts(llvm::Value *rows, unsigned width, unsigned group) {
  llvm::SmallVector<llvm::Value *, 16> parts;
  for (unsigned lane = 0; lane < in.lanes; ++lane)
    parts.push_back(builder.CreateShuffleVector(rows, llvm::createSequentialMask(lane * width, group, 0)));
  return parts;
}

/// Lanes with four elements each, as four vectors: the first has the rows of lanes 0, 4, 8 … side by side, the next those of lanes 1, 5, 9
/// …. Becomes one vector for each component, and the other way around. LLVM 22 takes six times as many instructions for shuffles of all
/// lanes at once; these remain in 16 bytes (elements of 8 bytes: in 32). Lanes with eight elements each are eight vectors.
static llvm::SmallVector<llvm::Value *, 8> transposeBlocks(llvm::IRBuilder<> &builder, ArrayRef<llvm::Value *> from, unsigned lanes) {
  llvm::SmallVector<llvm::Value *, 8> result;
  if (from.size() == kLongRow) {
    auto low = transposeBlocks(builder, from.take_front(4), lanes), high = transposeBlocks(builder, from.drop_front(4), lanes);
    for (unsigned half : {0u, 4u})
      for (auto [a, b] : llvm::zip(low, high)) {
        llvm::SmallVector<int, 16> mask;
        for (unsigned i = 0; i < lanes; ++i) mask.push_back(int(i / 8 * 8 + half + i % 4 + (i % 8 < 4 ? 0 : lanes)));
        result.push_back(builder.CreateShuffleVector(a, b, mask));
      }
    return result;
  }
  auto mix = [&](llvm::Value *a, llvm::Value *b, std::array<unsigned, 4> block) {
    llvm::SmallVector<int, 16> mask;
    for (unsigned i = 0; i < lanes; ++i) mask.push_back(int(i / 4 * 4 + block[i % 4] + (block[i % 4] < 4 ? 0 : lanes - 4)));
    return builder.CreateShuffleVector(a, b, mask);
  };
  const bool isWide = from[0]->getType()->getScalarSizeInBits() > 32;
  const std::array<unsigned, 4> first = isWide ? std::array{0u, 4u, 2u, 6u} : std::array{0u, 4u, 1u, 5u},
                                second = isWide ? std::array{1u, 5u, 3u, 7u} : std::array{2u, 6u, 3u, 7u};
  for (const auto &half : {first, second}) {
    llvm::Value *low = mix(from[0], from[1], half), *high = mix(from[2], from[3], half);
    result.push_back(mix(low, high, {0, 1, 4, 5}));
    result.push_back(mix(low, high, {2, 3, 6, 7}));
  }
  if (isWide) std::swap(result[1], result[2]);
  return result;
}

Components Memory::loadRows(const MemoryPlace &place, int64_t offset, const Access &access) {
  Type scalar = ir::getScalar(place.pointee);
  const auto group = unsigned(access.group), width = unsigned(llvm::bit_ceil(group));
  llvm::Type *row = llvm::FixedVectorType::get(module.getMemoryType(scalar), width);
  llvm::SmallVector<llvm::Value *, 16> rows;
  for (auto [lane, mask] : llvm::enumerate(getRowMasks(group, width)))
    rows.push_back(loadVector(place, row, getLanePointer(place, offset, unsigned(lane)), access.align, mask));
  Components parts;
  if ((width == 4 && in.lanes % 4 == 0) || width == kLongRow) {
    llvm::SmallVector<llvm::Value *, 8> blocks;
    for (unsigned k = 0; k < width; ++k) {
      llvm::SmallVector<llvm::Value *, 4> own;
      for (unsigned lane = k; lane < in.lanes; lane += width) own.push_back(rows[lane]);
      blocks.push_back(llvm::concatenateVectors(builder, own));
      if (in.mask) blocks.back() = builder.CreateFreeze(blocks.back()); // as in loadWide
    }
    const llvm::SmallVector<llvm::Value *, 8> components = transposeBlocks(builder, blocks, in.lanes);
    for (llvm::Value *part : ArrayRef(components).take_front(group)) parts.push_back(in.makeVarying(fromMemory(scalar, part)));
    return parts;
  }
  llvm::Value *all = llvm::concatenateVectors(builder, rows);
  if (in.mask) all = builder.CreateFreeze(all); // as in loadWide
  for (unsigned part = 0; part < group; ++part)
    parts.push_back(in.makeVarying(fromMemory(scalar, builder.CreateShuffleVector(all, llvm::createStrideMask(part, width, in.lanes)))));
  return parts;
}

/// Two loads in place of a gather: of neighbors of the first lane, and of neighbors of the last one.
llvm::Value *Memory::loadRuns(const MemoryPlace &place, int64_t offset, const Access &access) {
  llvm::Type *type = in.widen(module.getMemoryType(ir::getScalar(place.pointee)));
  llvm::Value *offsets = place.findOffsets(), *base = in.offsetBy(place.base, offset);
  llvm::Value *first = builder.CreateExtractElement(offsets, uint64_t(0)), *last = builder.CreateExtractElement(offsets, in.usedLanes - 1);
  llvm::Value *lanes =
      in.toVector({llvm::ConstantInt::get(offsets->getType()->getScalarType(), 0), LaneKind::linear(place.componentStride)});
  llvm::Value *isFirst = builder.CreateICmpEQ(offsets, builder.CreateAdd(in.splat(first), lanes));
  const bool isMasked = in.mask && place.margin < std::get<GatheredLanes>(place.lanes).jump + kTail;
  auto load = [&](llvm::Value *at, int64_t lanesBefore, llvm::Value *chosen, llvm::Value *others) {
    llvm::Value *pointer = in.offsetBy(builder.CreateGEP(builder.getInt8Ty(), base, at), -lanesBefore * place.componentStride);
    return loadVector(place, type, pointer, access.align, isMasked ? builder.CreateAnd(in.mask, chosen) : nullptr, others);
  };
  llvm::Value *firstRun = load(first, 0, isFirst, nullptr);
  llvm::Value *lastRun = load(last, in.usedLanes - 1, builder.CreateNot(isFirst), firstRun);
  return isMasked ? builder.CreateFreeze(lastRun) : builder.CreateSelect(isFirst, firstRun, lastRun); // frozen as in loadWide
}

/// A few wide loads in place of a gather whose offsets are constants, such as one of neighbors in the rows of a block; null if a gather is
/// better. Each load begins at an element that a lane reads.
llvm::Value *Memory::loadWindows(const MemoryPlace &place, int64_t offset, const Access &access) {
  constexpr size_t kMaxWindows = 4;
  struct Window {
    int64_t first;
    llvm::SmallVector<int, 16> positions; // of each lane; -1: in another window
  };
  llvm::Type *type = in.widen(module.getMemoryType(ir::getScalar(place.pointee)));
  const int64_t size = module.getByteSize(ir::getScalar(place.pointee)), lanes = in.lanes;
  auto *offsets = dyn_cast<llvm::Constant>(place.findOffsets()), *knownMask = dyn_cast_or_null<llvm::Constant>(in.mask);
  if (!offsets || size * lanes > kTail) return nullptr;
  llvm::SmallVector<std::pair<int64_t, unsigned>, 16> places;
  for (unsigned lane = 0; lane < in.usedLanes; ++lane) {
    if (knownMask && knownMask->getAggregateElement(lane)->isNullValue()) continue;
    places.emplace_back(cast<llvm::ConstantInt>(offsets->getAggregateElement(lane))->getSExtValue(), lane);
  }
  llvm::sort(places);
  // With a margin, several rows are read as whole vectors of their block, so loads of several neighbors are the same ones. (The neighbors
  // of one row are two loads from elements in use, which are joined without a permutation.)
  const int64_t unit = size * lanes, spread = places.empty() ? 0 : places.back().first - places.front().first;
  const bool hasMargin = place.margin >= spread + 2 * kTail;
  auto getStart = [&](int64_t at) { return hasMargin && in.takesRows && at % size == 0 ? llvm::divideFloorSigned(at, unit) * unit : at; };
  llvm::SmallVector<Window, 4> windows;
  for (auto [k, found] : llvm::enumerate(places)) {
    auto [at, lane] = found;
    if (k > 0 && at == places[k - 1].first && in.mask && !knownMask && !hasMargin) return nullptr;
    if (windows.empty() || at - windows.back().first >= size * lanes || (at - windows.back().first) % size != 0)
      windows.push_back({getStart(at), llvm::SmallVector<int, 16>(size_t(lanes), -1)});
    windows.back().positions[lane] = int((at - windows.back().first) / size);
  }
  if (windows.empty() || windows.size() > kMaxWindows) return nullptr;
  llvm::Value *joined = nullptr;
  llvm::SmallVector<int, 16> chosen(size_t(lanes), -1);
  for (const Window &window : windows) {
    llvm::Value *pointer = in.offsetBy(place.base, offset + window.first);
    llvm::SmallVector<int, 16> inverse(in.lanes, int(lanes)); // the lane of each position
    for (int lane = 0; lane < lanes; ++lane) {
      if (window.positions[size_t(lane)] < 0) continue;
      inverse[size_t(window.positions[size_t(lane)])] = lane;
      chosen[size_t(lane)] = window.positions[size_t(lane)] + (joined ? int(lanes) : 0);
    }
    llvm::Value *mask = in.mask && !knownMask && !hasMargin
                            ? builder.CreateShuffleVector(in.mask, llvm::Constant::getNullValue(in.mask->getType()), inverse)
                            : nullptr;
    llvm::Value *loaded = loadVector(place, type, pointer, access.align, mask);
    joined = joined ? builder.CreateShuffleVector(joined, loaded, chosen) : builder.CreateShuffleVector(loaded, chosen);
    for (int lane = 0; lane < lanes; ++lane)
      if (chosen[size_t(lane)] >= 0) chosen[size_t(lane)] = lane;
  }
  return builder.CreateFreeze(joined); // lanes without a place; and as in loadWide
}

Component Memory::gather(const MemoryPlace &place, int64_t offset, const Access &access) {
  Type scalar = ir::getScalar(place.pointee);
  llvm::Type *type = in.widen(module.getMemoryType(scalar));
  if (place.findOffsets())
    if (llvm::Value *joined = loadWindows(place, offset, access)) return in.makeVarying(fromMemory(scalar, joined));
  if (const auto bytes = int64_t(module.getByteSize(scalar)) * in.lanes;
      place.hasTwoRuns() && bytes <= kTail && bytes == place.componentStride * in.lanes)
    return in.makeVarying(fromMemory(scalar, loadRuns(place, offset, access)));
  llvm::Value *pointers = getPointers(place, offset);
  llvm::Instruction *all = builder.CreateMaskedGather(type, pointers, access.align, in.getMask(), llvm::Constant::getNullValue(type));
  module.aliases.mark(all, place.scope);
  return in.makeVarying(fromMemory(scalar, all));
}

void Memory::storeMemory(const MemoryPlace &place, const Components &value) {
  Access access = chooseAccess(place, /*isVolatile=*/false);
  Type scalar = ir::getScalar(place.pointee);
  for (int64_t i = 0, count = ir::getComponentCount(place.pointee); i < count; i += access.group) {
    access = access.forRest(count - i);
    int64_t offset = i * place.componentStride;
    llvm::Value *pointer = in.offsetBy(place.base, offset), *pointers = nullptr;
    if (access.strategy == Access::Strategy::Gather) pointers = getPointers(place, offset);
    llvm::SmallVector<llvm::Value *, 4> parts;
    for (const Component &own : ArrayRef(value).slice(size_t(i), size_t(access.group))) {
      // All active lanes write one address: the last lane's value remains.
      bool isLast = access.strategy == Access::Strategy::OneAddress;
      llvm::Value *part = !isLast ? in.toVector(own) : own.kind.isUniform() ? own.value : in.getLane(own, in.getLastLane(in.getMask()));
      parts.push_back(toMemory(scalar, part));
    }
    switch (access.strategy) {
    case Access::Strategy::OneAddress: storeVector(place, joinScalars(parts), pointer, access.align, /*mask=*/nullptr); break;
    case Access::Strategy::PerLane: storeLanes(place, offset, parts, access.align); break;
    case Access::Strategy::Wide: storeWide(place, parts, pointer, access); break;
    case Access::Strategy::Rows: storeRows(place, offset, parts, access.align); break;
    case Access::Strategy::Gather:
      module.aliases.mark(builder.CreateMaskedScatter(parts[0], pointers, access.align, in.getMask()), place.scope);
      break;
    }
  }
}

// Two instructions, because Zen 4 takes more than 100 cycles for the one that compresses to memory. Register by register, because LLVM 22
// joins the parts of wider vectors by an aligned store to a place that is not aligned. Of 16 bytes or more, because it fails for less.
void Memory::compress(const MemoryPlace &place, const Component &value, bool clobbers) {
  Type scalar = ir::getScalar(place.pointee);
  const int64_t size = module.getByteSize(scalar);
  llvm::Align align{uint64_t(size)};
  llvm::Value *all = toMemory(scalar, in.toVector(value)), *pointer = place.base;
  if (!in.mask) return storeVector(place, all, pointer, align, /*mask=*/nullptr);
  const unsigned count = std::min(in.lanes, unsigned(module.traits.vectorBytes / size));
  llvm::Type *bits = llvm::FixedVectorType::get(builder.getIntNTy(unsigned(size) * 8), count);
  llvm::Type *wide = llvm::FixedVectorType::get(builder.getIntNTy(std::max(unsigned(size) * 8, 128 / count)), count);
  for (unsigned first = 0; first < in.lanes; first += count) {
    auto getPart = [&](llvm::Value *from) { return builder.CreateShuffleVector(from, llvm::createSequentialMask(first, count, 0)); };
    llvm::Value *mask = getPart(in.mask), *part = builder.CreateZExt(builder.CreateBitCast(getPart(all), bits), wide);
    llvm::Value *packed =
        builder.CreateIntrinsic(llvm::Intrinsic::experimental_vector_compress, {wide}, {part, mask, llvm::PoisonValue::get(wide)});
    packed = builder.CreateTrunc(packed, bits);
    llvm::Value *stored = in.countActive(mask, count);
    llvm::Value *above = builder.CreateShl(builder.getInt64(~0ull), builder.CreateZExt(stored, builder.getInt64Ty()));
    llvm::Value *own = builder.CreateTrunc(builder.CreateNot(above), builder.getIntNTy(count));
    storeVector(place, packed, pointer, align, clobbers ? nullptr : builder.CreateBitCast(own, mask->getType()));
    pointer = builder.CreateGEP(bits->getScalarType(), pointer, stored);
  }
}

void Memory::storeLanes(const MemoryPlace &place, int64_t offset, ArrayRef<llvm::Value *> parts, llvm::Align align) {
  for (unsigned lane = 0; lane < in.lanes; ++lane) {
    auto storeOne = [&] {
      llvm::Value *pointer = getLanePointer(place, offset, lane);
      llvm::SmallVector<llvm::Value *, 4> own;
      for (llvm::Value *part : parts) own.push_back(builder.CreateExtractElement(part, lane));
      module.aliases.mark(builder.CreateAlignedStore(joinScalars(own), pointer, align), place.scope, lane);
    };
    in.mask ? in.emitWhen(builder.CreateExtractElement(in.mask, lane), "lane", storeOne) : storeOne();
  }
}

void Memory::storeRows(const MemoryPlace &place, int64_t offset, ArrayRef<llvm::Value *> parts, llvm::Align align) {
  const auto group = unsigned(parts.size()), width = unsigned(llvm::bit_ceil(group));
  llvm::SmallVector<llvm::Value *, 4> padded(parts);
  padded.resize(width, llvm::PoisonValue::get(parts[0]->getType()));
  llvm::SmallVector<llvm::Value *, 16> rows;
  if ((width == 4 && in.lanes % 4 == 0) || width == kLongRow) {
    const llvm::SmallVector<llvm::Value *, 8> blocks = transposeBlocks(builder, padded, in.lanes);
    for (unsigned lane = 0; lane < in.lanes; ++lane)
      rows.push_back(
          builder.CreateShuffleVector(blocks[lane % width], llvm::createSequentialMask(lane / width * width, in.mask ? width : group, 0)));
  } else {
    llvm::Value *all = builder.CreateShuffleVector(llvm::concatenateVectors(builder, padded), llvm::createInterleaveMask(in.lanes, width));
    rows = getRowParts(all, width, in.mask ? width : group);
  }
  llvm::SmallVector<llvm::Value *, 16> masks = getRowMasks(in.mask ? group : width, width);
  for (auto [lane, row] : llvm::enumerate(rows)) storeVector(place, row, getLanePointer(place, offset, unsigned(lane)), align, masks[lane]);
}

/// Interleaves the components: concatenates all vectors, then shuffles.
void Memory::storeWide(const MemoryPlace &place, ArrayRef<llvm::Value *> parts, llvm::Value *pointer, const Access &access) {
  const auto width = unsigned(access.width);
  llvm::SmallVector<llvm::Value *, 4> padded(parts);
  padded.resize(width, llvm::PoisonValue::get(parts[0]->getType()));
  llvm::Value *all = llvm::concatenateVectors(builder, padded);
  llvm::SmallVector<int, 16> order = llvm::createInterleaveMask(in.lanes, width);
  const int64_t size = module.getByteSize(ir::getScalar(place.pointee));
  llvm::SmallVector<WideVector, 8> vectors = listWideVectors(access, /*isLoad=*/false);
  for (const auto &[start, mask] : vectors) {
    llvm::Value *own = width == 1 ? all : builder.CreateShuffleVector(all, ArrayRef(order).slice(size_t(start), in.lanes));
    llvm::Align align = llvm::commonAlignment(access.align, uint64_t(start * size));
    storeVector(place, own, in.offsetBy(pointer, start * size), align, mask);
  }
  if (!vectors.empty()) return;
  if (width > 1) all = builder.CreateShuffleVector(all, order);
  storeVector(place, all, pointer, access.align, /*mask=*/nullptr);
}

} // namespace qd::codegen
