// copy.h: memcpy and memset for large blocks.
#pragma once

#include <cstddef>

namespace qd::runtime {

/// Of a copy of so many bytes, the caches cannot hold source and target.
constexpr size_t kUncachedBytes = size_t(32) << 20;

/// As memcpy. From a megabyte on, all threads take part; from 128 KB on those that are awake. From some tens of megabytes on, stores bypass
/// the caches, which such a copy would only flush: a stored line is then not read first, which saves a third of the traffic. Lines of
/// memory that `isNew` are in the caches, because the system has just cleared them.
void copyMemory(void *to, const void *from, size_t bytes, bool isNew = false);

/// memcpy on this thread with stores that bypass the caches. On processors without such stores, a plain memcpy. Meanwhile loads `bytes`
/// bytes at `next`, if it is given, into the caches. `orderStoresPastCaches` must follow.
void copyPastCaches(void *target, const void *source, size_t bytes, const void *next = nullptr);

/// Orders the stores of `copyPastCaches` before later ones for other threads. Waits for them: after each kilobyte that costs more than the
/// copy.
void orderStoresPastCaches();

/// Stores zeros through the caches, because cleared memory is used soon. From some hundred kilobytes on, all threads take part.
void clearMemory(void *to, size_t bytes);

} // namespace qd::runtime
