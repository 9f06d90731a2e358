// tensor_layout.h: the type of a container's elements, and their addresses.
#pragma once

#include "support/scalar_type.h"

#include <cstdint>
#include <string>
#include <vector>

namespace qd::layout {

/// A scalar (rank 0), vector (rank 1) or matrix (rank 2) of the kernel language.
struct ValueType {
  support::ScalarType scalar = support::ScalarType::F32;
  uint8_t rank = 0;
  uint16_t rows = 1;
  uint16_t columns = 1;

  int64_t componentCount() const { return int64_t(rows) * columns; }
  bool operator==(const ValueType &) const = default;
};

inline constexpr int64_t kDynamic = INT64_MIN;

/// Address contribution of the tiles of an axis: (index / length) * jump bytes.
struct Tiling {
  int64_t axis = 0;
  int64_t length = 1;
  int64_t jump = 0;

  bool operator==(const Tiling &) const = default;
};

/// Element address: data + sum(index[a] * strides[a]) + sum over tilings(index[axis] / length * jump) + component * componentStride, in
/// bytes, where indices count from the origin; components are row-major. A field has static extents and strides. An array argument has
/// kDynamic extents; empty strides mean packed row-major.
struct TensorLayout {
  ValueType element;
  std::vector<int64_t> extents;
  std::vector<int64_t> strides;
  int64_t componentStride = 0;
  std::vector<int64_t> origin; ///< lowest index of each axis; empty when all are 0
  std::vector<Tiling> tilings; ///< for fields whose axes are divided by several nodes of a tree: short tiles first, no negative jump
  bool hasWideStrides = false; ///< of an array argument: strides may need more than 32 bits

  int rank() const { return int(extents.size()); }
  bool operator==(const TensorLayout &) const = default;
};

/// Byte strides of the packed row-major layout with the components innermost.
std::vector<int64_t> computePackedStrides(const ValueType &element, const std::vector<int64_t> &extents);
/// Bytes from the first element to the one at these indices, which count from 0.
int64_t computeOffset(const TensorLayout &layout, const int64_t *indices);
/// The same elements in the same order without tilings: more axes, each with one stride.
TensorLayout splitTiledAxes(const TensorLayout &layout);
/// The product of the extents.
int64_t countElements(const TensorLayout &layout);
/// First byte and one past the last that the elements occupy, relative to the data address (strides may be negative).
struct ByteRange {
  int64_t begin = 0;
  int64_t end = 0;
};
/// Throws support::Error (Memory) when the range does not fit into 63 bits.
ByteRange computeByteRange(const TensorLayout &layout);

/// Whether the elements of an array, and the components in each, are contiguous in row-major order.
bool isPacked(const TensorLayout &layout);

/// Whether a stride that matters, which is one along an axis with several elements, needs more than 32 bits.
bool needsWideStrides(const int64_t *extents, const int64_t *strides, size_t rank);

/// The layout properties that a version depends on, as a key in memory: element, rank, origin and width of strides of an array; for a field
/// extents and strides. Never zero, which marks a dead tensor. The strides of an array that is not packed are read at each launch; only the
/// distance of its components is part of the code.
uint64_t computeArrayKey(const TensorLayout &layout, bool isPacked);
uint64_t computeFieldKey(const TensorLayout &layout);

/// "f32", "vec3 of f32" or "2x3 matrix of f32", for messages.
std::string describe(const ValueType &type);

} // namespace qd::layout
