// interleave.h: elements whose components lie together, and components that lie apart: from one to the other
#pragma once

#include <cstddef>
#include <cstdint>

namespace qd::runtime {

/// Components of an element that these take, and bytes of one.
constexpr bool canInterleave(int64_t components, size_t size) { return components >= 2 && components <= 64 && (size == 4 || size == 8); }

/// `count` elements one after the other, from as many arrays as they have components, `apart` bytes from one to the next. With
/// `isPastCaches` the caches keep nothing of what is written.
void interleave(unsigned char *to, const unsigned char *from, size_t size, int64_t components, int64_t apart, int64_t count,
                bool isPastCaches);

/// The other way.
void deinterleave(unsigned char *to, const unsigned char *from, size_t size, int64_t components, int64_t apart, int64_t count,
                  bool isPastCaches);

} // namespace qd::runtime
