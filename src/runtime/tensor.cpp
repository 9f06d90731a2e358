// tensor.cpp: places containers in memory, and compares their memory
//
// In:   a layout and a buffer.
// Out:  the address, byte range and type key that launches read.
#include "runtime/tensor.h"

#include "support/error.h"

#include <numeric>

namespace qd::runtime {

void Tensor::place(layout::TensorLayout newLayout, BufferRef newBuffer, int64_t newByteOffset) {
  layout::ByteRange bytes = layout::computeByteRange(newLayout);
  if (bytes.begin == bytes.end) newByteOffset = 0; // no elements, so the offset does not matter
  if (newByteOffset + bytes.begin < 0 || newByteOffset + bytes.end > int64_t(newBuffer->getSize()))
    throw support::Error(support::ErrorKind::Value, "the layout reaches outside of its buffer");
  layout = std::move(newLayout);
  buffer = std::move(newBuffer);
  byteOffset = newByteOffset;
  range = bytes;
  markAlive();
}

void Tensor::markAlive() {
  data = static_cast<unsigned char *>(buffer->getData()) + byteOffset;
  typeKey = isField ? layout::computeFieldKey(layout) : layout::computeArrayKey(layout, layout::isPacked(layout));
  state = State::Alive;
}

void Tensor::markLazilyZeroed() {
  state = State::LazilyZeroed;
  typeKey = 0;
  data = nullptr;
}

bool mayOverlap(const Tensor &a, const Tensor &b) {
  if (a.data + a.range.end <= b.data + b.range.begin || b.data + b.range.end <= a.data + a.range.begin) return false;
  // Both tensors repeat with a common period; within one period they may lie side by side.
  int64_t period = 0;
  for (const Tensor *tensor : {&a, &b})
    for (size_t axis = 0; axis < tensor->layout.extents.size(); ++axis)
      if (tensor->layout.extents[axis] > 1) period = std::gcd(period, tensor->layout.strides[axis]);
  for (const Tensor *tensor : {&a, &b})
    for (const layout::Tiling &tiling : tensor->layout.tilings) period = std::gcd(period, tiling.jump);
  auto getCellBytes = [](const Tensor &tensor) {
    return (tensor.layout.element.componentCount() - 1) * tensor.layout.componentStride +
           int64_t(getByteSize(tensor.layout.element.scalar));
  };
  if (period == 0 || a.layout.componentStride < 0 || b.layout.componentStride < 0) return true;
  int64_t distance = ((b.data - a.data) % period + period) % period; // from a's cell up to b's
  return distance < getCellBytes(a) || distance + getCellBytes(b) > period;
}

BufferRef Tensor::release() {
  if (hasMemory()) state = State::Dead;
  typeKey = 0;
  data = nullptr;
  return std::move(buffer);
}

} // namespace qd::runtime
