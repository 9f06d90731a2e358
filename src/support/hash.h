// hash.h: BLAKE3 digests (LLVM's implementation) for data on disk, and a small mixing hash for keys in memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace qd::support {

using Digest = std::array<uint8_t, 32>;

Digest computeDigest(const void *bytes, size_t size);
inline Digest computeDigest(std::string_view text) { return computeDigest(text.data(), text.size()); }
std::string toHex(const Digest &digest);

/// Order-dependent mix of 64-bit words (the finalizer of splitmix64 after each word).
constexpr uint64_t mixHash(uint64_t state, uint64_t word) {
  uint64_t x = (state ^ word) + 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

} // namespace qd::support
