// strided_copy.h: copies between arrays with different strides or axis orders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace qd::runtime {

/// An axis of both arrays: its extent, and the byte strides of target and source.
struct CopiedAxis {
  int64_t extent, to, from;
};

/// Copies scalars of `size` bytes. A source stride of 0 repeats an element. All threads take part in large copies. Source and target must
/// not overlap, and no two elements of the target may share memory.
void copyStrided(void *to, const void *from, size_t size, std::vector<CopiedAxis> axes);

/// Repeats an item of `size` bytes until `bytes` are written, a multiple of `size`.
void fillMemory(void *to, const void *item, size_t size, size_t bytes);

} // namespace qd::runtime
