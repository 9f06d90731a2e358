#include "runtime/tensor.h"

#include "support/error.h"

namespace qd::runtime {

void Tensor::place(layout::TensorLayout newLayout, BufferRef newBuffer, int64_t newByteOffset) {
  layout::ByteRange range = layout::computeByteRange(newLayout);
  if (!newBuffer)
    newBuffer = Buffer::allocate(size_t(newByteOffset + range.end));
  if (newByteOffset + range.begin < 0 || newByteOffset + range.end > int64_t(newBuffer->getSize()))
    throw support::Error(support::ErrorKind::Value, "the layout reaches outside of its buffer");
  layout = std::move(newLayout);
  buffer = std::move(newBuffer);
  byteOffset = newByteOffset;
  data = static_cast<unsigned char *>(buffer->getData()) + byteOffset;
  bool isPacked = layout.strides == layout::computePackedStrides(layout.element, layout.extents) &&
                  layout.componentStride == int64_t(getByteSize(layout.element.scalar));
  typeKey = isField    ? layout::computeFieldKey(layout)
            : isPacked ? layout::computeArrayKey(layout.element, layout.rank())
                       : layout::computeStridedArrayKey(layout.element, layout.rank());
  state = State::Alive;
}

void Tensor::release() {
  if (state == State::Alive)
    state = State::Dead;
  typeKey = 0;
  data = nullptr;
  buffer = {};
}

} // namespace qd::runtime
