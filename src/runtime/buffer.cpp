// buffer.cpp: allocates and releases blocks of memory
//
// In:   a size in bytes.
// Out:  zeroed memory, or an error with the requested size before the system overcommits.
#include "runtime/buffer.h"

#include "support/error.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace qd::runtime {

static constexpr size_t kAlignment = 64;
static constexpr size_t kHugePage = size_t(2) << 20;
// Kernels may load a whole vector at the last element.
static constexpr size_t kTail = 64;

static std::atomic<int64_t> bytesInUse{0};
static std::atomic<int64_t> blocksInUse{0};

MemoryUse getMemoryUse() { return {bytesInUse.load(), blocksInUse.load()}; }

static size_t getPhysicalBytes() {
  static const size_t bytes = size_t(sysconf(_SC_PHYS_PAGES)) * size_t(sysconf(_SC_PAGE_SIZE));
  return bytes;
}

[[noreturn]] static void refuse(size_t bytes) {
  throw support::Error(support::ErrorKind::Memory, "cannot allocate " + std::to_string(bytes) + " bytes on the CPU (" +
                                                       std::to_string(bytesInUse.load()) + " bytes are in use by Quadrants)");
}

BufferRef Buffer::allocate(size_t bytes) {
  // The system would grant more memory than exists and end the process at the first access.
  if (bytes > getPhysicalBytes()) refuse(bytes);
  BufferRef result(new Buffer);
  Buffer &buffer = *result.buffer;
  if (bytes >= 2 * kHugePage) {
    size_t mapped = (bytes + kTail + 2 * kHugePage - 1) & ~(kHugePage - 1);
    void *block = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) refuse(bytes);
    buffer.mappedBytes = mapped;
    buffer.block = block;
    buffer.data = reinterpret_cast<void *>((uintptr_t(block) + kHugePage - 1) & ~(kHugePage - 1));
    madvise(buffer.data, bytes, MADV_HUGEPAGE); // optional: without huge pages access is slower
  } else {
    buffer.block = calloc(1, bytes + kAlignment + kTail);
    if (!buffer.block) refuse(bytes);
    buffer.data = reinterpret_cast<void *>((uintptr_t(buffer.block) + kAlignment - 1) & ~(kAlignment - 1));
  }
  buffer.size = bytes;
  bytesInUse += int64_t(bytes);
  ++blocksInUse;
  return result;
}

// Smaller blocks are allocated as a whole.
static constexpr size_t kMinReserved = 64 << 10;
// To ask for each page of more addresses takes seconds.
static constexpr size_t kMaxCounted = size_t(64) << 30;

static size_t roundUp(size_t bytes, size_t multiple) { return (bytes + multiple - 1) / multiple * multiple; }

void Buffer::cutMargins(size_t margin) {
  data = static_cast<char *>(data) + margin;
  size -= 2 * margin;
  if (!reserved) bytesInUse -= int64_t(2 * margin);
}

BufferRef Buffer::reserve(size_t bytes) {
  if (bytes < kMinReserved) {
    const size_t margin = planMargins(bytes, kAlignment).second;
    BufferRef result = allocate(bytes + 2 * margin);
    result->cutMargins(margin);
    return result;
  }
  const auto [own, margin] = planMargins(bytes + kTail, kHugePage);
  const size_t mapped = own + 2 * margin;
  void *block = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (block == MAP_FAILED)
    throw support::Error(support::ErrorKind::Memory, "cannot reserve " + std::to_string(bytes) + " bytes of addresses on the CPU");
  madvise(block, mapped, MADV_NOHUGEPAGE); // one element would take 2 MiB
  BufferRef result(new Buffer);
  result->block = block;
  result->data = static_cast<char *>(block) + margin;
  result->mappedBytes = mapped;
  result->size = bytes;
  result->reserved = true;
  ++blocksInUse;
  return result;
}

bool Buffer::isMostlyFree(size_t used, size_t most) const {
  constexpr size_t kKept = 16 << 20; // of each buffer
  if (size <= kKept) return false;
  if (!memory) return size > kMaxCounted || countPresent() > std::max(kKept, 10 * used);
  // A device that allocates all of a field has all of it again after the next access, but not more often than rounds shrink to a tenth.
  return most > 10 * used;
}

void Buffer::discard() {
  if (reserved && !memory) madvise(data, roundUp(size, size_t(sysconf(_SC_PAGE_SIZE))), MADV_DONTNEED);
}

void Buffer::vacate() {
  memory->release(std::exchange(block, nullptr));
  data = nullptr;
  if (!reserved) bytesInUse -= int64_t(size);
  --blocksInUse;
}

void Buffer::provide() {
  BufferRef fresh = memory->reserve(size);
  std::swap(block, fresh->block); // the destructor of a buffer without a block releases nothing
  data = fresh->data;
  reserved = fresh->reserved;
}

size_t Buffer::countPresent() const {
  if (isVacant() || (reserved && !memory && size > kMaxCounted)) return 0;
  size_t present = 0;
  for (auto [begin, end] : listPresent(0, size)) present += end - begin;
  return present;
}

std::vector<std::pair<size_t, size_t>> Buffer::listPresent(size_t first, size_t last) const {
  if (!reserved || memory) return {{first, last}};
  const auto page = size_t(sysconf(_SC_PAGE_SIZE));
  constexpr size_t kWindow = 1 << 16; // pages
  std::vector<unsigned char> flags(kWindow);
  std::vector<std::pair<size_t, size_t>> found;
  for (size_t window = first / page * page; window < last; window += kWindow * page) {
    size_t bytes = std::min(kWindow * page, roundUp(size, page) - window);
    if (mincore(static_cast<char *>(data) + window, bytes, flags.data()) != 0) return {{first, last}};
    for (size_t at = window; at < std::min(window + bytes, last); at += page) {
      if (!(flags[(at - window) / page] & 1)) continue;
      size_t begin = std::max(at, first), end = std::min(at + page, last);
      if (!found.empty() && found.back().second == begin)
        found.back().second = end;
      else
        found.emplace_back(begin, end);
    }
  }
  return found;
}

BufferRef Buffer::adopt(std::shared_ptr<DeviceMemory> memory, void *data, size_t bytes, bool isReserved) {
  BufferRef result(new Buffer);
  result->reserved = isReserved;
  result.buffer->data = result.buffer->block = data;
  result.buffer->size = bytes;
  result.buffer->memory = std::move(memory);
  if (!isReserved) bytesInUse += int64_t(bytes);
  ++blocksInUse;
  return result;
}

BufferRef Buffer::borrow(void *data, size_t bytes, bool isWritable, void *owner, void (*giveBack)(void *),
                         std::shared_ptr<DeviceMemory> memory) {
  BufferRef result(new Buffer);
  result.buffer->data = data;
  result.buffer->size = bytes;
  result.buffer->writable = isWritable;
  result.buffer->block = owner;
  result.buffer->giveBack = giveBack;
  result.buffer->memory = std::move(memory);
  result.buffer->noteView();
  return result;
}

Buffer::~Buffer() {
  if (!block) return;
  if (giveBack) {
    giveBack(block);
    return;
  }
  if (memory)
    memory->release(block);
  else if (mappedBytes)
    munmap(block, mappedBytes);
  else
    free(block);
  if (!reserved) bytesInUse -= int64_t(size);
  --blocksInUse;
}

} // namespace qd::runtime
