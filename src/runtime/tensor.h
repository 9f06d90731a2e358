// tensor.h: the elements of a container: their memory, their offset in it, and their layout.
#pragma once

#include "layout/tensor_layout.h"
#include "runtime/buffer.h"

namespace qd::runtime {

/// Used by fields and ndarrays. The layout has actual extents and strides.
struct Tensor {
  /// LazilyZeroed: all elements count as zero, whatever their memory holds. `markAlive` must come before any access.
  enum class State : uint8_t { Unplaced, Alive, Dead, LazilyZeroed };

  uint64_t typeKey = 0;          ///< layout::computeFieldKey or computeArrayKey; 0 when it has no memory
  unsigned char *data = nullptr; ///< address of the first element
  layout::TensorLayout layout;
  BufferRef buffer;
  int64_t byteOffset = 0;
  layout::ByteRange range; ///< bytes of all elements, relative to data
  State state = State::Unplaced;
  bool isField = false;

  /// Places the elements in `buffer` at `byteOffset`. Throws Error (Value) when the layout does not fit into it.
  void place(layout::TensorLayout newLayout, BufferRef newBuffer, int64_t newByteOffset);
  /// Passes the memory to the caller, who releases it; views keep it alive.
  BufferRef release();
  void markLazilyZeroed();
  /// Changes the state from LazilyZeroed to Alive without storing zeros.
  void markAlive();
  bool hasMemory() const { return state == State::Alive || state == State::LazilyZeroed; }
};

/// Whether any byte may belong to elements of both. Members that interleave in one buffer do not overlap.
bool mayOverlap(const Tensor &a, const Tensor &b);

} // namespace qd::runtime
