// random.h: counter-based random numbers
//
// Philox4x32-10 (J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, Parallel random numbers: as easy as 1, 2, 3, SC 2011): ten rounds of a
// bijection of a 128-bit counter under a 64-bit key. There is no state: a number depends on its counter and key, not on earlier numbers.
#pragma once

#include "devlib/vector.h"

namespace qd::devlib {

/// Four words of 32 bits, one per 64-bit lane; the upper halves are undefined.
struct Block {
  U64 word[4];
};

QD_INLINE Block philox(Block counter, uint32_t key0, uint32_t key1) {
  constexpr uint64_t kLow = 0xffffffff;
  U64 c0 = counter.word[0], c1 = counter.word[1], c2 = counter.word[2], c3 = counter.word[3];
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    U64 first = (c0 & kLow) * U64(0xd2511f53u), second = (c2 & kLow) * U64(0xcd9e8d57u);
    c0 = (second >> 32) ^ c1 ^ U64(key0);
    c1 = second;
    c2 = (first >> 32) ^ c3 ^ U64(key1);
    c3 = first;
    key0 += 0x9e3779b9u;
    key1 += 0xbb67ae85u;
  }
  return {{c0, c1, c2, c3}};
}

/// The block of one call. The words of the key contain seed and launch; their upper halves, which matter after 2^32 launches only, are
/// folded in.
QD_INLINE Block drawBlock(U64 iteration, U32 call, uint64_t seed, uint64_t launch, uint32_t task) {
  uint32_t key0 =
      static_cast<uint32_t>(seed) ^ static_cast<uint32_t>(seed >> 32) * 0x85ebca6bu ^ static_cast<uint32_t>(launch >> 32) * 0xc2b2ae35u;
  return philox({{iteration, iteration >> 32, convert<U64>(call), U64(task)}}, key0, static_cast<uint32_t>(launch));
}

QD_INLINE U32 toU32(Block block) { return convert<U32>(block.word[0]); }
QD_INLINE U64 toU64(Block block) { return block.word[1] << 32 | (block.word[0] & uint64_t(0xffffffff)); }
/// 24 bits.
QD_INLINE F32 toF32(Block block) { return convert<F32>(convert<I32>(toU32(block) >> 8)) * 0x1p-24f; }
/// 53 bits: 26 and 27 from two words, because vector units convert 32-bit integers.
QD_INLINE F64 toF64(Block block) {
  I32 high = convert<I32>(convert<U32>(block.word[1]) >> 6), low = convert<I32>(toU32(block) >> 5);
  return (convert<F64>(high) * 0x1p27 + convert<F64>(low)) * 0x1p-53;
}

} // namespace qd::devlib
