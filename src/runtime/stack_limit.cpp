// stack_limit.cpp: finds the end of the current stack
//
// In:   the calling thread, or the thread of a block that it is running.
// Out:  the address at which a recursion must stop.
#include "runtime/stack_limit.h"

#include "runtime/block_threads.h"

#include <algorithm>
#include <pthread.h>

namespace qd::runtime {

/// Reserved for signal handlers, in which Python may run.
static constexpr uint64_t kReserve = 512 << 10;

static uint64_t addReserve(uint64_t lowest, uint64_t size) { return lowest + std::min(kReserve, size / 4); }

static uint64_t findStackLimit() {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return 0;
  void *lowest = nullptr;
  size_t size = 0, guard = 0;
  pthread_attr_getstack(&attributes, &lowest, &size);
  pthread_attr_getguardsize(&attributes, &guard);
  pthread_attr_destroy(&attributes);
  return addReserve(reinterpret_cast<uint64_t>(lowest) + guard, size);
}

uint64_t getStackLimit() {
  if (auto [lowest, size] = getBlockThreadStack(); lowest) return addReserve(reinterpret_cast<uint64_t>(lowest), size);
  thread_local uint64_t limit = 0;
  if (limit == 0) limit = findStackLimit();
  return limit;
}

} // namespace qd::runtime
