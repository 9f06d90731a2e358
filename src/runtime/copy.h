// copy.h: memcpy and memset of much.
#pragma once

#include <cstddef>

namespace qd::runtime {

/// As memcpy. From a few megabytes on all threads take part, and the copy goes past the caches, which it would only empty: a line that is
/// written need not be read first, a third of the traffic.
void copyMemory(void *to, const void *from, size_t bytes);

/// memcpy on this thread that leaves nothing in the caches. A processor without such stores decides for itself.
void copyPastCaches(void *to, const void *from, size_t bytes);

/// Zeros, into the caches: what is cleared is about to be used. From some hundred kilobytes on all threads take part.
void clearMemory(void *to, size_t bytes);

} // namespace qd::runtime
