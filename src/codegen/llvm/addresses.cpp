// addresses.cpp: from indices to places in containers and locals
//
// In:   a container or place, and the indices of all lanes.
// Out:  a place in memory whose lanes are a constant distance apart, rows, or gathered; or a component of a local.
#include "codegen/llvm/memory.h"
#include "runtime/kernel_abi.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/Analysis/VectorUtils.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/PatternMatch.h"

#include <numeric>
#include <tuple>

using namespace mlir;

namespace qd::codegen {

namespace {

/// An index as a value plus a constant.
struct SplitIndex {
  llvm::Value *rest;
  int64_t constant = 0;
};

// Larger constants are not split off an index.
constexpr int64_t kSmallIndex = 1 << 20;

/// Splits the constant off a signed index, so that neighbors (i - 1, i + 1) have the same address plus a constant. If the sum wraps, it is
/// within kSmallIndex of the ends of its range, and such an index is out of bounds on every axis.
SplitIndex splitIndex(llvm::Value *index) {
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

/// A varying index as a scalar plus a constant for each lane; the scalar is null if there is none.
struct SplitLanes {
  llvm::Value *scalar = nullptr;
  llvm::Constant *lanes = nullptr;
};

/// Splits a varying index whose lanes are a constant distance apart, such as an index in several rows of a block.
SplitLanes splitLanes(llvm::IRBuilder<> &builder, llvm::Value *index) {
  constexpr size_t kMaxTerms = 16;
  llvm::Value *lanes = llvm::Constant::getNullValue(index->getType());
  SplitLanes split;
  llvm::SmallVector<llvm::Value *, 8> terms{index};
  for (size_t k = 0; k < terms.size(); ++k) {
    auto *op = dyn_cast<llvm::BinaryOperator>(terms[k]);
    auto *right = op ? dyn_cast<llvm::Constant>(op->getOperand(1)) : nullptr;
    if (isa<llvm::Constant>(terms[k]))
      lanes = builder.CreateAdd(lanes, terms[k]);
    else if (llvm::Value *scalar = llvm::getSplatValue(terms[k]))
      split.scalar = split.scalar ? builder.CreateAdd(split.scalar, scalar) : scalar;
    else if (op && op->getOpcode() == llvm::Instruction::Add && k < kMaxTerms)
      terms.append(op->value_op_begin(), op->value_op_end());
    else if (right && op->getOpcode() == llvm::Instruction::Sub)
      terms.push_back(op->getOperand(0)), lanes = builder.CreateSub(lanes, right);
    else
      return {};
  }
  split.lanes = dyn_cast<llvm::Constant>(lanes);
  for (unsigned lane = 0; split.lanes && lane < cast<llvm::FixedVectorType>(index->getType())->getNumElements(); ++lane) {
    auto *distance = dyn_cast_or_null<llvm::ConstantInt>(split.lanes->getAggregateElement(lane));
    if (!distance || std::abs(distance->getSExtValue()) > kSmallIndex) return {};
  }
  return split.lanes ? split : SplitLanes();
}

/// The number of a lane of a constant vector.
int64_t getLane(llvm::Constant *lanes, unsigned lane) { return cast<llvm::ConstantInt>(lanes->getAggregateElement(lane))->getSExtValue(); }

/// The distance of the first `count` lanes of a constant vector if all are equally far from the one before.
std::optional<int64_t> findDistance(llvm::Constant *lanes, unsigned count) {
  const int64_t step = getLane(lanes, 1) - getLane(lanes, 0);
  for (unsigned lane = 2; lane < count; ++lane)
    if (getLane(lanes, lane) - getLane(lanes, lane - 1) != step) return std::nullopt;
  return step;
}

/// An index as `tiles * length + rest`.
struct SplitTile {
  llvm::Value *tiles = nullptr, *rest = nullptr;
};

/// Splits the multiples of a length off a signed index, such as the first index of a block; `tiles` is null if there are none. The rest is
/// the position in the block, plus the distance of a neighbor: a constant after LLVM has unrolled the loop over the block.
SplitTile splitTile(llvm::IRBuilder<> &builder, llvm::Value *index, int64_t first, int64_t length) {
  constexpr size_t kMaxTerms = 16;
  if (auto *vector = dyn_cast<llvm::FixedVectorType>(index->getType())) {
    SplitLanes parts = splitLanes(builder, index);
    SplitTile own = parts.scalar ? splitTile(builder, parts.scalar, first, length) : SplitTile();
    if (own.tiles) own.rest = builder.CreateAdd(builder.CreateVectorSplat(vector->getNumElements(), own.rest), parts.lanes);
    return own;
  }
  llvm::Type *type = index->getType();
  SplitTile split;
  int64_t constant = -first;
  auto add = [&](llvm::Value *&sum, llvm::Value *more) { sum = sum ? builder.CreateAdd(sum, more) : more; };
  llvm::SmallVector<llvm::Value *, 8> terms{index};
  for (size_t k = 0; k < terms.size(); ++k) {
    auto *number = dyn_cast<llvm::ConstantInt>(terms[k]);
    auto *op = dyn_cast<llvm::BinaryOperator>(terms[k]);
    auto *right = op ? dyn_cast<llvm::ConstantInt>(op->getOperand(1)) : nullptr;
    int64_t known = right ? right->getSExtValue() : 0;
    if (number)
      constant += number->getSExtValue();
    else if (op && op->getOpcode() == llvm::Instruction::Add && k < kMaxTerms)
      terms.append(op->value_op_begin(), op->value_op_end());
    else if (right && op->getOpcode() == llvm::Instruction::Sub)
      terms.push_back(op->getOperand(0)), constant -= known;
    else if (right && op->getOpcode() == llvm::Instruction::Mul && known % length == 0)
      add(split.tiles, builder.CreateMul(op->getOperand(0), llvm::ConstantInt::getSigned(type, known / length)));
    else
      add(split.rest, terms[k]);
  }
  if (split.tiles) add(split.rest, llvm::ConstantInt::getSigned(type, constant));
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
  AddressSum(LaneBuilder &in, llvm::Type *varyingType, int64_t rowAlignment, const Columns &columns)
      : in(in), varyingType(varyingType), columns(columns), multiple(rowAlignment) {}

  void add(const Component &index, Type type, llvm::Value *stride) {
    llvm::IRBuilder<> &builder = in.builder;
    auto constant = dyn_cast<llvm::ConstantInt>(stride);
    if (index.kind.isVarying() && constant && type.isSignedInteger())
      if (SplitLanes parts = splitLanes(builder, index.value); parts.scalar) {
        add({parts.scalar}, type, stride);
        return add({parts.lanes, index.kind}, type, stride);
      }
    auto [rest, more] = index.kind.isScalar() && type.isSignedInteger() ? splitIndex(index.value) : SplitIndex{index.value};
    llvm::Value *uncut = index.kind.isScalar() && type.isSignedInteger() ? findUncut(rest, builder.getInt64Ty()) : nullptr;
    Component wide = index.kind.isVarying() ? index
                     : uncut                ? Component{uncut, index.kind}
                                            : in.castIndex({rest, index.kind}, type, builder.getInt64Ty());
    if (!constant && wide.kind.isScalar() && !wide.kind.isUniform()) {
      std::tie(rowStride, firstRow, rowStep) = std::tuple(stride, more, wide.kind.getStride());
      rowOffset = sum(rowOffset, builder.CreateMul(wide.value, stride));
      if (more) offset = sum(offset, builder.CreateMul(builder.getInt64(more), stride));
    } else if (more) {
      addConstant(more, stride);
    }
    // For other strides the tensor's alignment is known.
    if (constant) keepMultiple(constant->getSExtValue() * (rest == columns.first ? columns.count : 1));
    if (wide.kind.isScalar() && (wide.kind.isUniform() || constant)) {
      addOffset(builder.CreateMul(wide.value, stride));
      if (!wide.kind.isUniform()) laneStride += wide.kind.getStride() * constant->getSExtValue();
      return;
    }
    bool isSigned = !type.isUnsignedInteger() && !type.isInteger(1);
    llvm::Value *vector = builder.CreateIntCast(in.toVector({rest, index.kind}), in.widen(varyingType), isSigned);
    varying = sum(varying, builder.CreateMul(vector, in.splat(builder.CreateIntCast(stride, varyingType, true))));
    ++varyingParts;
  }

  void addConstant(int64_t count, llvm::Value *stride) {
    if (auto *constant = dyn_cast<llvm::ConstantInt>(stride))
      bytes += count * constant->getSExtValue();
    else
      addOffset(in.builder.CreateMul(in.builder.getInt64(count), stride));
  }

  /// Moves the place by the sum. `jump`: how much the varying part changes between the lanes, once at most; 0: it changes in other ways.
  void finish(MemoryPlace &place, int64_t jump = 0) {
    llvm::IRBuilder<> &builder = in.builder;
    llvm::Value *before = place.findOffsets();
    std::optional<RowLanes> inRows;
    if (rowStride && varyingParts == 1 && !before && laneStride == 0) {
      llvm::Value *rows = rowOffset ? builder.CreateGEP(builder.getInt8Ty(), place.base, rowOffset) : place.base;
      inRows = RowLanes{{}, rows, rowStride, firstRow, rowStep, bytes};
    }
    if (offset) place.base = builder.CreateGEP(builder.getInt8Ty(), place.base, offset);
    place.base = in.offsetBy(place.base, bytes);
    int64_t stride = laneStride + (before ? 0 : place.getLaneStride());
    if (before || varying) {
      llvm::Type *type = before ? before->getType()->getScalarType() : varyingType;
      if (before) varying = sum(varying ? builder.CreateIntCast(varying, in.widen(type), true) : nullptr, before);
      if (stride != 0) varying = builder.CreateAdd(varying, in.toVector({llvm::ConstantInt::get(type, 0), LaneKind::linear(stride)}));
      if (inRows) {
        inRows->offsets = varying;
        place.lanes = *inRows;
      } else if (std::optional<int64_t> step = findStep(); step && *step) {
        const int64_t first = getLane(cast<llvm::Constant>(varying), 0);
        place.base = in.offsetBy(place.base, first);
        keepMultiple(first);
        keepMultiple(*step);
        place.lanes = LinearLanes{*step};
      } else {
        place.lanes = GatheredLanes{varying, !before && laneStride == place.componentStride ? jump : 0};
      }
    } else {
      place.lanes = LinearLanes{stride};
    }
    keepMultiple(bytes);
    keepMultiple(laneStride);
    place.multiple = multiple;
  }

private:
  llvm::Value *sum(llvm::Value *a, llvm::Value *b) { return !a ? b : !b ? a : in.builder.CreateAdd(a, b); }
  void addOffset(llvm::Value *more) {
    offset = sum(offset, more);
    rowOffset = sum(rowOffset, more);
  }
  /// The distance of the lanes in use if their offsets are constants at equal distances.
  std::optional<int64_t> findStep() {
    auto *constant = dyn_cast<llvm::Constant>(varying);
    return constant && in.usedLanes >= 2 ? findDistance(constant, in.usedLanes) : std::nullopt;
  }
  void keepMultiple(int64_t part) { multiple = std::gcd(multiple, multiple ? part : 0); }

  LaneBuilder &in;
  llvm::Type *varyingType;
  const Columns &columns;
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

/// Loads a number of the QdTensorArgument, after the pointer to the data, or its lower half.
llvm::Value *Memory::loadNumber(const Tensor &tensor, int64_t position, bool isWide) {
  int64_t offset = offsetof(QdTensorArgument, extents_and_strides) + position * int64_t(sizeof(int64_t));
  return in.loadInvariant(isWide ? builder.getInt64Ty() : builder.getInt32Ty(), in.offsetBy(tensor.descriptor, offset));
}

llvm::Value *Memory::getExtent(const Tensor &tensor, int64_t axis, bool isWide) {
  int64_t extent = tensor.type.getExtents()[size_t(axis)];
  if (extent != layout::kDynamic) return builder.getIntN(isWide ? 64 : 32, uint64_t(extent));
  return loadNumber(tensor, llvm::count(tensor.type.getExtents().take_front(size_t(axis)), layout::kDynamic), isWide);
}

llvm::SmallVector<llvm::Value *, 4> Memory::getStrides(const Tensor &tensor) {
  ir::TensorType type = tensor.type;
  const bool isWide = module.hasWideStrides() || !tensor.descriptor;
  llvm::SmallVector<llvm::Value *, 4> strides(size_t(type.getRank()));
  int64_t size = ir::getComponentCount(type.getElement()) * module.getByteSize(ir::getScalar(type.getElement()));
  llvm::Value *packed = builder.getIntN(isWide ? 64 : 32, uint64_t(size));
  for (int64_t axis = type.getRank() - 1; axis >= 0; --axis) {
    llvm::Value *&stride = strides[size_t(axis)];
    if (type.isPacked()) {
      stride = packed;
      if (axis > 0) packed = builder.CreateMul(packed, getExtent(tensor, axis, isWide));
    } else if (type.getStrides()[size_t(axis)] != layout::kDynamic) {
      stride = builder.getInt64(uint64_t(type.getStrides()[size_t(axis)]));
    } else {
      stride = loadNumber(tensor, llvm::count(type.getExtents(), layout::kDynamic) + axis, isWide);
    }
    stride = builder.CreateSExt(stride, builder.getInt64Ty());
  }
  return strides;
}

/// The tile of an index, whose axis begins at `first`, or of the rest of one that was split. A neighbor before the first cell of a tile is
/// in the tile before.
Component Memory::getTile(const Component &index, Type type, int64_t first, int64_t length, bool isRest) {
  Component from = index.kind.isUniform() ? index : in.makeVarying(in.toVector(index));
  llvm::Type *integer = from.value->getType();
  llvm::Value *place = first ? builder.CreateSub(from.value, llvm::ConstantInt::get(integer, uint64_t(first), true)) : from.value;
  llvm::Value *divisor = llvm::ConstantInt::get(integer, uint64_t(length));
  if (!type.isSignedInteger()) return {builder.CreateUDiv(place, divisor), from.kind};
  if (llvm::isPowerOf2_64(uint64_t(length))) return {builder.CreateAShr(place, llvm::Log2_64(uint64_t(length))), from.kind};
  llvm::Value *quotient = builder.CreateSDiv(place, divisor);
  if (!isRest) return {quotient, from.kind}; // an index out of range need not find the right tile
  llvm::Value *remainder = builder.CreateSub(place, builder.CreateMul(quotient, divisor));
  return {builder.CreateAdd(quotient, builder.CreateAShr(remainder, integer->getScalarSizeInBits() - 1)), from.kind};
}

MemoryPlace Memory::locate(const Tensor &tensor, ArrayRef<Component> indices, TypeRange types) {
  ir::TensorType type = tensor.type;
  MemoryPlace place{type.getElement(), tensor.data};
  place.componentStride = type.getComponentStride();
  place.scope = tensor.scope;
  place.isPrivate = tensor.isPrivate;
  place.isInterleaved = tensor.isInterleaved;
  place.isShared = tensor.isShared;
  place.margin = tensor.margin;
  place.alignment = tensor.alignment;
  AddressSum sum(in, hasSmallOffsets(type) ? builder.getInt32Ty() : builder.getInt64Ty(), tensor.rowAlignment, columns);
  llvm::SmallVector<llvm::Value *, 4> strides = getStrides(tensor);
  llvm::SmallVector<layout::Tiling, 2> tilings = ir::getTilings(type);
  auto split = [&](size_t axis, int64_t length) {
    return types[axis].isSignedInteger() ? splitTile(builder, indices[axis].value, type.getFirst(int64_t(axis)), length) : SplitTile();
  };
  for (size_t axis = strides.size(); axis-- > 0;) {
    auto shortest = llvm::find_if(tilings, [&](const layout::Tiling &tiling) { return size_t(tiling.axis) == axis; });
    if (SplitTile parts = shortest == tilings.end() ? SplitTile() : split(axis, shortest->length); parts.tiles) {
      sum.add({parts.tiles}, types[axis], builder.CreateMul(strides[axis], builder.getInt64(uint64_t(shortest->length))));
      sum.add({parts.rest, indices[axis].kind}, types[axis], strides[axis]);
      continue;
    }
    sum.add(indices[axis], types[axis], strides[axis]);
    if (int64_t first = type.getFirst(int64_t(axis))) sum.addConstant(-first, strides[axis]);
  }
  int64_t jump = 0;
  const bool hasOneAxis = llvm::count_if(indices, [](const Component &index) { return !index.kind.isUniform(); }) == 1;
  for (const layout::Tiling &tiling : tilings) {
    Type indexType = types[size_t(tiling.axis)];
    const Component &index = indices[size_t(tiling.axis)];
    if (hasOneAxis && index.kind.isScalar() && !index.kind.isUniform() && index.kind.getStride() == 1 && tiling.length + 1 >= in.usedLanes)
      jump += tiling.jump;
    SplitTile parts = split(size_t(tiling.axis), tiling.length);
    if (parts.tiles) sum.add({parts.tiles}, indexType, builder.getInt64(uint64_t(tiling.jump)));
    Component rest = parts.tiles ? Component{parts.rest, index.kind} : index;
    Component tile = getTile(rest, indexType, parts.tiles ? 0 : type.getFirst(tiling.axis), tiling.length, parts.tiles);
    sum.add(tile, indexType, builder.getInt64(uint64_t(tiling.jump)));
  }
  sum.finish(place, jump);
  return place;
}

/// Whether all ways to a block lead through another one in the same round of the loop that is being emitted; false if they are long.
static bool isAlwaysBefore(llvm::BasicBlock *block, llvm::BasicBlock *other) {
  constexpr size_t kMostBlocks = 64;
  llvm::SetVector<llvm::BasicBlock *> seen;
  seen.insert(other);
  for (size_t k = 0; k < seen.size(); ++k) {
    if (seen[k] == block) continue;
    llvm::BasicBlock *only = seen[k]->getSinglePredecessor();
    const bool mayBegin = only && only->getSingleSuccessor(); // a loop, to which no branch leads back yet
    if (mayBegin || llvm::pred_empty(seen[k]) || seen.size() > kMostBlocks) return false;
    seen.insert_range(llvm::predecessors(seen[k]));
  }
  return true;
}

/// The value that a local had, as the last store before the load tells; null if that is not known.
static llvm::Value *findStored(llvm::LoadInst *load) {
  if (!isa<llvm::AllocaInst>(load->getPointerOperand())) return nullptr;
  bool isEarlier = false; // the latest use is the first one of the list
  for (llvm::User *user : load->getPointerOperand()->users()) {
    if (auto *store = dyn_cast<llvm::StoreInst>(user); store && isEarlier) {
      llvm::Value *stored = store->getValueOperand();
      return stored->getType() == load->getType() && isAlwaysBefore(store->getParent(), load->getParent()) ? stored : nullptr;
    }
    isEarlier |= user == load;
  }
  return nullptr;
}

/// The operand that an index equals in most iterations: what a minimum, a maximum or a choice takes in place of a bound, what a remainder
/// is of, or what a variable holds. Null for other indices.
static llvm::Value *findUsualOperand(llvm::Value *index) {
  using namespace llvm::PatternMatch;
  if (auto *load = dyn_cast<llvm::LoadInst>(index)) return findStored(load);
  auto isBound = [](llvm::Value *operand) { return isa<llvm::Constant>(operand) || llvm::getSplatValue(operand); };
  llvm::Value *a = nullptr, *b = nullptr;
  if (auto *extremum = dyn_cast<llvm::MinMaxIntrinsic>(index)) std::tie(a, b) = std::pair(extremum->getLHS(), extremum->getRHS());
  if (a || match(index, m_Select(m_Value(), m_Value(a), m_Value(b)))) return isBound(a) == isBound(b) ? nullptr : isBound(a) ? b : a;
  if (!index->getType()->isVectorTy()) return nullptr; // a scalar remainder is as likely the position in a tile
  const bool isRemainder = match(index, m_And(m_Value(a), m_Constant())) ||
                           match(index, m_Add(m_Sub(m_Value(a), m_Mul(m_SDiv(m_Deferred(a), m_Value()), m_Value())), m_Value()));
  return isRemainder ? a : nullptr;
}

/// What an index is where it is not clamped; itself if nothing clamps it. A scalar that changes by a constant from lane to lane is linear.
Component Memory::removeClamps(const Component &index) {
  constexpr int kMostClamps = 8;
  llvm::Value *value = index.value;
  bool isClamped = false; // a variable that nothing clamps is what it is
  for (int step = 0; step < kMostClamps; ++step) {
    llvm::Value *operand = findUsualOperand(value);
    if (!operand) break;
    isClamped |= !isa<llvm::LoadInst>(value);
    value = operand;
  }
  if (!isClamped) return index;
  if (index.kind.isScalar()) return {value, index.kind};
  SplitLanes parts = splitLanes(builder, value);
  if (!parts.scalar) return index;
  std::optional<int64_t> step = findDistance(parts.lanes, in.lanes);
  if (!step) return {value, index.kind};
  return {builder.CreateAdd(parts.scalar, parts.lanes->getAggregateElement(0u)), LaneKind::linear(*step)};
}

/// A clamped index as it is in tiles at the border: lanes that differ by constants from the first index of the tile, which is a multiple of
/// `length` after `first`. The index itself if that is not known.
Component Memory::clampAtBorder(const Component &index, int64_t first, int64_t length) {
  llvm::SmallVector<std::pair<llvm::CmpInst::Predicate, int64_t>, 2> clamps;
  llvm::Value *value = index.value;
  while (auto *clamp = dyn_cast<llvm::MinMaxIntrinsic>(value)) {
    const bool isLeft = isa<llvm::Constant>(clamp->getLHS());
    auto *bound = dyn_cast_or_null<llvm::ConstantInt>(llvm::getSplatValue(isLeft ? clamp->getLHS() : clamp->getRHS()));
    if (!bound || !clamp->isSigned()) return index;
    clamps.emplace_back(clamp->getPredicate(), bound->getSExtValue());
    value = isLeft ? clamp->getRHS() : clamp->getLHS();
  }
  SplitLanes parts = splitLanes(builder, value);
  if (clamps.empty() || !parts.scalar) return index;
  auto [start, constant] = splitIndex(parts.scalar);
  auto getVector = [&](int64_t number) { return llvm::ConstantInt::get(value->getType(), uint64_t(number), true, true); };
  llvm::Value *distances = builder.CreateAdd(parts.lanes, getVector(constant));
  for (auto [predicate, bound] : llvm::reverse(clamps)) {
    llvm::Value *limit = getVector(bound - first - llvm::divideFloorSigned(bound - first, length) * length);
    distances = builder.CreateSelect(builder.CreateICmp(predicate, distances, limit), distances, limit);
  }
  return in.makeVarying(builder.CreateAdd(in.splat(start), distances));
}

/// Adds to a place the way by other indices, which are usually the same.
void Memory::addWay(MemoryPlace &place, const Tensor &tensor, ArrayRef<Component> indices, ArrayRef<Component> others, TypeRange types,
                    std::function<MemoryPlace()> otherwise) {
  llvm::Value *isSame = nullptr, *lanes = nullptr;
  for (const auto &[index, other] : llvm::zip(indices, others)) {
    if (other.value == index.value) continue;
    llvm::Value *&where = index.kind.isVarying() ? lanes : isSame;
    llvm::Value *own = builder.CreateICmpEQ(index.value, index.kind.isVarying() ? in.toVector(other) : other.value);
    where = where ? builder.CreateAnd(where, own) : own;
  }
  if (lanes || isSame)
    place.unclamped = std::make_shared<UnclampedPlace>(locate(tensor, others, types), isSame, lanes, std::move(otherwise));
}

MemoryPlace Memory::getElement(const Tensor &tensor, ArrayRef<Component> indices, TypeRange types, bool isRead) {
  MemoryPlace place = locate(tensor, indices, types);
  if (!isRead || in.lanes == 1 || module.traits.hasGrids || in.isPartialVector) return place;
  Components others, atBorder(indices);
  for (auto [axis, index] : llvm::enumerate(indices)) {
    const layout::Tiling *tiling = nullptr;
    llvm::SmallVector<layout::Tiling, 2> tilings = ir::getTilings(tensor.type);
    for (const layout::Tiling &each : tilings)
      if (size_t(each.axis) == axis) tiling = &each;
    // The tile of a scalar is a quotient, which costs more than a branch unless it is a shift.
    const bool isQuotient = tiling && !llvm::isPowerOf2_64(uint64_t(tiling->length));
    others.push_back(index.kind.isVarying() || isQuotient ? removeClamps(index) : index);
    if (tiling && index.kind.isVarying()) atBorder[axis] = clampAtBorder(index, tensor.type.getFirst(int64_t(axis)), tiling->length);
  }
  auto locateExactly = [this, tensor, own = Components(indices), ownTypes = llvm::SmallVector<Type, 4>(types)] {
    return locate(tensor, own, ownTypes);
  };
  auto locateAtBorder = [this, tensor, own = Components(indices), ownTypes = llvm::SmallVector<Type, 4>(types), atBorder, locateExactly] {
    MemoryPlace exact = locateExactly();
    addWay(exact, tensor, own, atBorder, ownTypes, locateExactly);
    return exact;
  };
  addWay(place, tensor, indices, others, types, locateAtBorder);
  return place;
}

Place Memory::getComponent(const Place &place, ArrayRef<Component> indices, TypeRange types) {
  if (const auto *memory = std::get_if<MemoryPlace>(&place)) {
    auto shape = cast<VectorType>(memory->pointee);
    MemoryPlace part = *memory;
    part.pointee = shape.getElementType();
    part.alignment = 0;
    llvm::Value *offsets = part.findOffsets();
    AddressSum sum(in, offsets ? offsets->getType()->getScalarType() : builder.getInt64Ty(), /*rowAlignment=*/0, columns);
    int64_t stride = part.componentStride;
    for (int64_t axis = shape.getRank() - 1; axis >= 0; --axis) {
      sum.add(indices[size_t(axis)], types[size_t(axis)], builder.getInt64(uint64_t(stride)));
      stride *= shape.getDimSize(unsigned(axis));
    }
    sum.finish(part);
    if (memory->unclamped) {
      auto getPart = [this, own = Components(indices), ownTypes = llvm::SmallVector<Type, 4>(types)](const MemoryPlace &whole) {
        return std::get<MemoryPlace>(getComponent(whole, own, ownTypes));
      };
      const auto &[most, isSame, lanes, otherwise] = *memory->unclamped;
      auto getOther = [getPart, otherwise] { return getPart(otherwise()); };
      part.unclamped = std::make_shared<UnclampedPlace>(getPart(most), isSame, lanes, getOther);
    }
    return part;
  }
  LocalPlace part = std::get<LocalPlace>(place);
  auto shape = cast<VectorType>(part.pointee);
  part.pointee = shape.getElementType();
  Component position = operators.getPosition(shape, indices, types);
  auto constant = dyn_cast<llvm::ConstantInt>(position.value);
  if (constant && position.kind.isUniform() && constant->getSExtValue() >= 0 && constant->getSExtValue() < shape.getNumElements())
    part.selected = size_t(constant->getZExtValue());
  else
    part.selected = position;
  return part;
}

} // namespace qd::codegen
