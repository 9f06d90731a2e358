// hash.cpp: BLAKE3 digests
//
// In:   bytes.
// Out:  their digest, also as text for names of files.
#include "support/hash.h"

#include "llvm-c/blake3.h"

namespace qd::support {

Digest computeDigest(const void *bytes, size_t size) {
  llvm_blake3_hasher hasher;
  llvm_blake3_hasher_init(&hasher);
  llvm_blake3_hasher_update(&hasher, bytes, size);
  Digest digest;
  llvm_blake3_hasher_finalize(&hasher, digest.data(), digest.size());
  return digest;
}

std::string toHex(const Digest &digest) {
  std::string text;
  text.reserve(64);
  for (uint8_t byte : digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

} // namespace qd::support
