// tensor.h: a container's elements: memory, where in it, and how they lie.
#pragma once

#include "layout/tensor_layout.h"
#include "runtime/buffer.h"

namespace qd::runtime {

/// Fields and ndarrays alike. The layout has actual extents and strides.
struct Tensor {
  /// LazilyZeroed: all elements count as zero, whatever their memory holds. `wake` comes before anything else.
  enum class State : uint8_t { Unplaced, Alive, Dead, LazilyZeroed };

  uint64_t typeKey = 0;          ///< layout::computeFieldKey or computeArrayKey; 0 when it has no memory
  unsigned char *data = nullptr; ///< address of the first element
  layout::TensorLayout layout;
  BufferRef buffer;
  int64_t byteOffset = 0;
  layout::ByteRange range; ///< of all elements, relative to data
  State state = State::Unplaced;
  bool isField = false;

  /// Takes memory: `buffer` at `byteOffset`. Throws Error (Value) when the layout does not lie within.
  void place(layout::TensorLayout newLayout, BufferRef newBuffer, int64_t newByteOffset);
  /// Gives the memory to the caller, who lets it go; views keep it.
  BufferRef release();
  void markLazilyZeroed();
  /// From stale to alive, with what its memory holds.
  void wake();
  bool hasMemory() const { return state == State::Alive || state == State::LazilyZeroed; }
};

/// Whether some byte may belong to elements of both. Members that interleave in one buffer are told apart.
bool mayOverlap(const Tensor &a, const Tensor &b);

} // namespace qd::runtime
