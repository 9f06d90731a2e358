// limits.h: numbers of AMD GPUs that both halves of the backend use
#pragma once

#include <string_view>

namespace qd::amdgpu {

constexpr unsigned kPrivate = 5;       ///< LLVM's address space of locals
constexpr unsigned kSubgroupSize = 64; ///< on every family: those with subgroups of 32 pair two of them
constexpr unsigned kMaxBlockThreads = 1024;
/// Bytes of shared memory of a block, and of the part of them whose size is chosen at launch.
constexpr unsigned kMaxSharedBytes = 64 << 10, kMaxCopyBytes = 32 << 10;
constexpr unsigned kMaxParameterBytes = 2048; ///< of an entry

/// The counter of cycles of gfx11 has 20 bits: its kernels read the clock of this frequency.
constexpr bool hasCycleCounter(std::string_view processor) { return !processor.starts_with("gfx11"); }
constexpr double kSteadyHertz = 1e8;

} // namespace qd::amdgpu
