// limits.h: what both halves of the backend know of every device with Metal 3: Apple's GPUs from the M1 on
#pragma once

namespace qd::metal {

constexpr unsigned kSubgroupSize = 32, kMaxBlockThreads = 1024, kMaxSharedBytes = 32 << 10;
/// Bytes of an entry's parameters, which are in memory that the host writes.
constexpr unsigned kMaxParameterBytes = 4096;
/// Bytes of shared memory for private copies of containers, which each block of such a task has.
constexpr unsigned kMaxCopyBytes = 8 << 10;

} // namespace qd::metal
