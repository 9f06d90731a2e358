// strided_copy.h: copies between arrays whose elements lie apart, or in another order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace qd::runtime {

/// An axis that both arrays have: how many steps, and their bytes.
struct CopiedAxis {
  int64_t extent, to, from;
};

/// Copies scalars of `size` bytes. A source that does not move along an axis fills it. Of much, all threads take part. The memory of the
/// target is not that of the source, and none of its elements share any.
void copyStrided(void *to, const void *from, size_t size, std::vector<CopiedAxis> axes);

} // namespace qd::runtime
