// emergency_pool.cpp: a first-fit allocator on a static array
//
// In:   allocations that the system has refused.
// Out:  blocks of the pool, and counts of refusals for the compiler's checks.
#include "support/emergency_pool.h"

#include <atomic>
#include <mutex>
#include <new>

namespace qd::support::emergency_pool {
namespace {

/// More than LLVM allocates between two checks of a compilation for exhausted memory.
constexpr size_t kPoolBytes = size_t(32) << 20;

/// Precedes each block. Blocks are contiguous and fill the used part of the pool.
struct alignas(16) Header {
  size_t bytes; ///< size including the header
  bool isFree;
};

alignas(4096) char pool[kPoolBytes];
size_t used = 0;  ///< offset of the memory that was never allocated
size_t rover = 0; ///< offset at which the search for a free block begins: after the last block found
constinit std::mutex mutex;
constinit std::atomic<uint64_t> refusals{0}, failures{0};

Header *getHeader(size_t offset) { return reinterpret_cast<Header *>(pool + offset); }
size_t getOffset(const Header *header) { return size_t(reinterpret_cast<const char *>(header) - pool); }

/// Merges a free block with the free ones after it.
void mergeFollowing(Header *header) {
  for (size_t next = getOffset(header) + header->bytes; next < used && getHeader(next)->isFree; next = getOffset(header) + header->bytes)
    header->bytes += getHeader(next)->bytes;
  size_t offset = getOffset(header);
  if (rover > offset && rover < offset + header->bytes) rover = offset; // no block begins there any more
}

/// Padding before a block that aligns the bytes after its header.
size_t findPadding(const Header *header, size_t alignment) {
  return (alignment - reinterpret_cast<uintptr_t>(header + 1) % alignment) % alignment;
}

/// Splits a block into one of `bytes` bytes and a free one of the rest. Sizes are multiples of the header size, so the second header always
/// fits.
void split(Header *header, size_t bytes) {
  size_t rest = header->bytes - bytes;
  if (!rest) return;
  header->bytes = bytes;
  *getHeader(getOffset(header) + bytes) = {rest, true};
}

void *take(Header *header, size_t bytes, size_t alignment) {
  if (size_t padding = findPadding(header, alignment)) {
    split(header, padding);
    header = getHeader(getOffset(header) + padding);
  }
  split(header, bytes);
  header->isFree = false;
  rover = getOffset(header) + header->bytes;
  return header + 1;
}

/// The first free block in a range of offsets that is large enough.
Header *findFree(size_t from, size_t to, size_t bytes, size_t alignment) {
  for (size_t offset = from; offset < to; offset += getHeader(offset)->bytes) {
    Header *header = getHeader(offset);
    if (!header->isFree) continue;
    mergeFollowing(header);
    if (header->bytes >= bytes + findPadding(header, alignment)) return header;
  }
  return nullptr;
}

} // namespace

void *allocate(size_t bytes, size_t alignment) noexcept {
  refusals.fetch_add(1, std::memory_order_relaxed);
  if (bytes > kPoolBytes || alignment > kPoolBytes) {
    failures.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
  }
  bytes = sizeof(Header) + (bytes + 15) / 16 * 16;
  if (alignment < alignof(Header)) alignment = alignof(Header);
  std::lock_guard lock(mutex);
  if (Header *header = findFree(rover, used, bytes, alignment)) return take(header, bytes, alignment);
  if (Header *header = findFree(0, rover, bytes, alignment)) return take(header, bytes, alignment);
  size_t most = bytes + alignment;
  if (kPoolBytes - used < most) {
    failures.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
  }
  Header *header = getHeader(used);
  *header = {most, true};
  used += most;
  return take(header, bytes, alignment);
}

bool owns(const void *block) noexcept { return reinterpret_cast<uintptr_t>(block) - reinterpret_cast<uintptr_t>(pool) < kPoolBytes; }

void release(void *block) noexcept {
  std::lock_guard lock(mutex);
  (static_cast<Header *>(block) - 1)->isFree = true;
}

size_t getSize(const void *block) noexcept { return (static_cast<const Header *>(block) - 1)->bytes - sizeof(Header); }

uint64_t countRefusals() noexcept { return refusals.load(std::memory_order_relaxed); }
uint64_t countFailures() noexcept { return failures.load(std::memory_order_relaxed); }

} // namespace qd::support::emergency_pool

void qd::support::MemoryWatch::check() const {
  if (ranOut()) throw std::bad_alloc();
}
