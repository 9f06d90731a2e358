// sites.h: records that a thread of a grid writes for the host (runtime/kernel_abi.h)
#pragma once

#include "runtime/kernel_abi.h"

namespace qd::devlib {

/// Records site and values of the first failing check in the stream; every failure stops the following tasks.
inline void leaveFailure(const QdGpuLaunch *launch, int32_t site, const uint64_t *values, uint32_t count) {
  QdGpuFailure *failure = launch->failure;
  if (__atomic_exchange_n(&failure->claimed, 1u, __ATOMIC_RELAXED) == 0) {
    constexpr uint32_t most = sizeof(failure->values) / sizeof(failure->values[0]);
    failure->site = site;
    for (uint32_t i = 0; i < count && i < most; ++i) failure->values[i] = values[i];
    __atomic_store_n(&failure->failed, 1u, __ATOMIC_RELEASE);
  }
  __atomic_store_n(&launch->state->failed, 1u, __ATOMIC_RELAXED);
}

/// Appends a record if the buffer has space. Nothing is counted once it is full, so that the counter does not overflow.
inline void leavePrint(const QdGpuLaunch *launch, int32_t site, const uint64_t *values, uint32_t count) {
  QdGpuPrints *prints = launch->prints;
  if (__atomic_load_n(&prints->used, __ATOMIC_RELAXED) > prints->capacity) return;
  uint32_t length = count + 1, at = __atomic_fetch_add(&prints->used, length, __ATOMIC_RELAXED);
  if (uint64_t(at) + length > prints->capacity) return;
  prints->words[at] = static_cast<uint64_t>(site);
  for (uint32_t i = 0; i < count; ++i) prints->words[at + 1 + i] = values[i];
}

} // namespace qd::devlib
