// limits.h: numbers of AMD GPUs that both halves of the backend use
#pragma once

namespace qd::amdgpu {

constexpr unsigned kPrivate = 5;       ///< LLVM's address space of locals
constexpr unsigned kSubgroupSize = 64; ///< on every family: those with subgroups of 32 pair two of them
constexpr unsigned kMaxBlockThreads = 1024;
/// Bytes of shared memory of a block, and of the part of them whose size is chosen at launch.
constexpr unsigned kMaxSharedBytes = 64 << 10, kMaxCopyBytes = 32 << 10;
constexpr unsigned kMaxParameterBytes = 2048; ///< of an entry

} // namespace qd::amdgpu
