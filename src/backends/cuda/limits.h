// limits.h: numbers of CUDA devices that both halves of the backend use
#pragma once

#include <cstdint>

namespace qd::cuda {

constexpr unsigned kSubgroupSize = 32;
constexpr unsigned kMaxBlockThreads = 1024;
/// Bytes of static shared memory of a block, and of the part whose size is chosen at launch.
constexpr unsigned kMaxSharedBytes = 48 << 10, kMaxCopyBytes = 32 << 10;
/// Bytes of shared memory that a block may have if it asks for them, by compute capability: 90 for sm_90.
constexpr unsigned getMaxDynamicBytes(unsigned capability) {
  unsigned kilobytes = 48;
  if (capability >= 70) kilobytes = capability == 75 ? 64 : 96;
  if (capability >= 80) kilobytes = capability == 80 || capability == 87 ? 163 : 99;
  if (capability >= 90) kilobytes = capability < 120 ? 227 : 99;
  return kilobytes << 10;
}
constexpr unsigned kMaxParameterBytes = 4096; ///< of an entry

} // namespace qd::cuda
