// copy.cpp: copies and clears large blocks on all threads
//
// In:   addresses and a size.
// Out:  the copied or cleared bytes, when the call returns.
#include "runtime/copy.h"

#include "runtime/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace qd::runtime {

// From `kSharedBytes` on, threads that are awake help; from `kLargeBytes` on, waking them pays off.
static constexpr size_t kSharedBytes = 128 << 10, kLargeBytes = size_t(1) << 20;
// Copies with less time between them are in quick succession; idle threads spin longer.
static constexpr auto kPause = std::chrono::microseconds(20), kWakeInterval = std::chrono::microseconds(400);
// Chunks are small enough that all threads get some. For large blocks they are whole huge pages, because two threads that first touch the
// same page wait for each other.
static constexpr size_t kChunks = 16, kMinChunk = 256 << 10, kMaxChunk = size_t(4) << 20;

void copyPastCaches(void *target, const void *source, size_t bytes, const void *next) {
  auto *to = static_cast<char *>(target);
  auto *from = static_cast<const char *>(source), *later = static_cast<const char *>(next);
#if defined(__x86_64__)
  constexpr size_t kLine = 64, kStore = sizeof(__m128i);
  size_t begin = std::min(bytes, size_t(-uintptr_t(to) % kLine)), end = begin + (bytes - begin) / kLine * kLine;
  memcpy(to, from, begin);
  for (size_t line = begin; line < end; line += kLine) {
    if (later) __builtin_prefetch(later + line);
    for (size_t at = line; at < line + kLine; at += kStore)
      _mm_stream_si128(reinterpret_cast<__m128i *>(to + at), _mm_loadu_si128(reinterpret_cast<const __m128i *>(from + at)));
  }
  memcpy(to + end, from + end, bytes - end);
#else
  (void)later;
  memcpy(to, from, bytes);
#endif
}

void orderStoresPastCaches() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

/// Bytes that a thread copies at a time. Of a block that the caches can hold, each thread takes one part: it has that part in its cache if
/// the block is copied again.
static size_t getChunk(size_t bytes) {
  if (bytes < kUncachedBytes) return std::max(bytes / size_t(getThreadCount()), kSharedBytes / 2);
  return std::clamp(bytes / kChunks, kMinChunk, kMaxChunk);
}

static void copyInParts(void *to, const void *from, size_t bytes, bool isPastCaches) {
  auto *target = static_cast<char *>(to);
  auto *source = static_cast<const char *>(from);
  forEachChunk(int64_t(bytes), int64_t(getChunk(bytes)), [=](int64_t begin, int64_t size) {
    if (!isPastCaches) {
      memcpy(target + begin, source + begin, size_t(size));
      return;
    }
    copyPastCaches(target + begin, source + begin, size_t(size));
    orderStoresPastCaches();
  });
}

/// Copies a block for which alone threads are not woken. They take part if they are awake. Copies in quick succession wake them, but only
/// once in `kWakeInterval`, because on a busy machine they come too late.
static void copySmall(void *to, const void *from, size_t bytes) {
  using Clock = std::chrono::steady_clock;
  // If threads mix these up, that costs time only.
  static std::atomic<Clock::time_point> lastEnd{Clock::time_point()}, lastWake{Clock::time_point()};
  const Clock::time_point now = Clock::now();
  bool isShared = isHelperAwake();
  if (!isShared && now - lastEnd.load(std::memory_order_relaxed) < kPause &&
      now - lastWake.load(std::memory_order_relaxed) > kWakeInterval) {
    lastWake.store(now, std::memory_order_relaxed);
    isShared = true;
  }
  isShared ? copyInParts(to, from, bytes, /*isPastCaches=*/false) : void(memcpy(to, from, bytes));
  lastEnd.store(Clock::now(), std::memory_order_relaxed);
}

void copyMemory(void *to, const void *from, size_t bytes, bool isNew) {
  if (bytes < kSharedBytes)
    memcpy(to, from, bytes);
  else if (bytes < kLargeBytes)
    copySmall(to, from, bytes);
  else
    copyInParts(to, from, bytes, bytes >= kUncachedBytes && !isNew);
}

void clearMemory(void *to, size_t bytes) {
  if (bytes < 2 * kMinChunk) {
    memset(to, 0, bytes);
    return;
  }
  auto *target = static_cast<char *>(to);
  forEachChunk(int64_t(bytes), int64_t(kMinChunk), [=](int64_t begin, int64_t size) { memset(target + begin, 0, size_t(size)); });
}

} // namespace qd::runtime
