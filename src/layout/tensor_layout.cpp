// tensor_layout.cpp: address arithmetic of containers
//
// In:   an element type, extents, strides and tilings.
// Out:  offsets, byte ranges and type keys.
#include "layout/tensor_layout.h"

#include "support/error.h"
#include "support/hash.h"

namespace qd::layout {

using support::mixHash;

static uint64_t hashElement(uint64_t seed, const ValueType &element) {
  return mixHash(mixHash(seed, uint64_t(element.scalar) << 8 | element.rank), uint64_t(element.rows) << 16 | element.columns);
}

std::vector<int64_t> computePackedStrides(const ValueType &element, const std::vector<int64_t> &extents) {
  std::vector<int64_t> strides(extents.size());
  int64_t stride = int64_t(getByteSize(element.scalar)) * element.componentCount();
  for (size_t axis = extents.size(); axis-- > 0;) {
    strides[axis] = stride;
    if (__builtin_mul_overflow(stride, extents[axis] ? extents[axis] : 1, &stride))
      throw support::Error(support::ErrorKind::Memory, "a container of this shape does not fit into memory");
  }
  return strides;
}

int64_t computeOffset(const TensorLayout &layout, const int64_t *indices) {
  int64_t offset = 0;
  for (size_t axis = 0; axis < layout.strides.size(); ++axis) offset += indices[axis] * layout.strides[axis];
  for (const Tiling &tiling : layout.tilings) offset += indices[tiling.axis] / tiling.length * tiling.jump;
  return offset;
}

TensorLayout splitTiledAxes(const TensorLayout &layout) {
  TensorLayout split{layout.element, {}, {}, layout.componentStride, {}, {}};
  for (size_t axis = 0; axis < layout.extents.size(); ++axis) {
    std::vector<int64_t> lengths{1}, strides{layout.strides[axis]};
    for (const Tiling &tiling : layout.tilings) {
      if (size_t(tiling.axis) != axis) continue;
      strides.push_back(strides.back() * (tiling.length / lengths.back()) + tiling.jump);
      lengths.push_back(tiling.length);
    }
    for (int64_t rest = layout.extents[axis]; !lengths.empty(); lengths.pop_back(), strides.pop_back()) {
      split.extents.push_back(rest / lengths.back());
      split.strides.push_back(strides.back());
      rest = lengths.back();
    }
  }
  return split;
}

int64_t countElements(const TensorLayout &layout) {
  int64_t count = 1;
  for (int64_t extent : layout.extents) count *= extent;
  return count;
}

ByteRange computeByteRange(const TensorLayout &layout) {
  ByteRange range{0, int64_t(getByteSize(layout.element.scalar))};
  auto extend = [&](int64_t steps, int64_t stride) {
    int64_t reach;
    if (__builtin_mul_overflow(steps, stride, &reach) ||
        __builtin_add_overflow(reach < 0 ? range.begin : range.end, reach, reach < 0 ? &range.begin : &range.end))
      throw support::Error(support::ErrorKind::Memory, "a container of this shape does not fit into memory");
  };
  for (int64_t extent : layout.extents)
    if (extent == 0) return {};
  extend(layout.element.componentCount() - 1, layout.componentStride);
  for (size_t axis = 0; axis < layout.extents.size(); ++axis) extend(layout.extents[axis] - 1, layout.strides[axis]);
  for (const Tiling &tiling : layout.tilings) extend((layout.extents[size_t(tiling.axis)] - 1) / tiling.length, tiling.jump);
  return range;
}

bool isPacked(const TensorLayout &layout) {
  if (layout.componentStride != int64_t(getByteSize(layout.element.scalar))) return false;
  std::vector<int64_t> packed = computePackedStrides(layout.element, layout.extents);
  for (size_t axis = 0; axis < packed.size(); ++axis)
    if (layout.extents[axis] > 1 && layout.strides[axis] != packed[axis]) return false;
  return true;
}

bool needsWideStrides(const int64_t *extents, const int64_t *strides, size_t rank) {
  for (size_t axis = 0; axis < rank; ++axis)
    if (extents[axis] > 1 && strides[axis] != int32_t(strides[axis])) return true;
  return false;
}

uint64_t computeArrayKey(const TensorLayout &layout, bool isPacked) {
  bool isWide = layout.hasWideStrides || needsWideStrides(layout.extents.data(), layout.strides.data(), layout.strides.size());
  uint64_t hash = mixHash(hashElement(isPacked ? 1 : 3, layout.element), uint64_t(layout.rank() * 2 + isWide));
  if (!isPacked) hash = mixHash(hash, uint64_t(layout.componentStride));
  for (int64_t first : layout.origin) hash = mixHash(hash, uint64_t(first));
  return hash | 1;
}

uint64_t computeFieldKey(const TensorLayout &layout) {
  uint64_t hash = mixHash(hashElement(2, layout.element), layout.extents.size());
  for (int64_t extent : layout.extents) hash = mixHash(hash, uint64_t(extent));
  for (int64_t stride : layout.strides) hash = mixHash(hash, uint64_t(stride));
  for (int64_t first : layout.origin) hash = mixHash(hash, uint64_t(first));
  for (const Tiling &tiling : layout.tilings)
    for (int64_t number : {tiling.axis, tiling.length, tiling.jump}) hash = mixHash(hash, uint64_t(number));
  return mixHash(hash, uint64_t(layout.componentStride)) | 1;
}

std::string describe(const ValueType &type) {
  std::string scalar(support::getName(type.scalar));
  if (type.rank == 0) return scalar;
  if (type.rank == 1) return "vec" + std::to_string(type.rows) + " of " + scalar;
  return std::to_string(type.rows) + "x" + std::to_string(type.columns) + " matrix of " + scalar;
}

} // namespace qd::layout
