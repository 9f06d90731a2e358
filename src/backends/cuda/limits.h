// limits.h: numbers of CUDA devices that both halves of the backend use
#pragma once

#include <cstdint>

namespace qd::cuda {

constexpr unsigned kSubgroupSize = 32;
constexpr unsigned kMaxBlockThreads = 1024;
/// Bytes of static shared memory of a block, and of the part whose size is chosen at launch.
constexpr unsigned kMaxSharedBytes = 48 << 10, kMaxCopyBytes = 32 << 10;
constexpr unsigned kMaxParameterBytes = 4096; ///< of an entry

} // namespace qd::cuda
