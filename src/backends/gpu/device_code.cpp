// device_code.cpp: joins objects of machine code to a binary, and finds them in it
//
// In:   objects, or a binary that the disk cache may have kept.
// Out:  the binary, or where its objects begin.
#include "backends/gpu/device_code.h"

#include "support/error.h"

#include <cstring>

namespace qd::gpu {

static constexpr uint64_t kMark = 0x3153545241504451; // "QDPARTS1"
static constexpr size_t kAlignment = 8;

static size_t align(size_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; }

Code joinParts(const std::vector<Code> &parts) {
  if (parts.size() == 1) return parts[0];
  std::vector<uint64_t> head{kMark, parts.size()};
  for (const Code &part : parts) head.push_back(align(part.size()));
  Code binary(head.size() * sizeof(uint64_t));
  memcpy(binary.data(), head.data(), binary.size());
  for (const Code &part : parts) {
    binary.insert(binary.end(), part.begin(), part.end());
    binary.resize(align(binary.size()));
  }
  return binary;
}

static uint64_t getWord(const Code &binary, size_t number) {
  uint64_t word = 0;
  if ((number + 1) * sizeof word <= binary.size()) memcpy(&word, binary.data() + number * sizeof word, sizeof word);
  return word;
}

bool hasParts(const Code &binary) { return getWord(binary, 0) == kMark; }

std::vector<const uint8_t *> findParts(const Code &binary) {
  if (!hasParts(binary)) return {binary.data()};
  std::vector<const uint8_t *> parts;
  uint64_t count = getWord(binary, 1), words = binary.size() / sizeof(uint64_t);
  uint64_t at = (2 + count) * sizeof(uint64_t);
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t size = getWord(binary, size_t(2 + i));
    if (count >= words || at > binary.size() || size > binary.size() - at)
      throw support::Error(support::ErrorKind::Format, "the bytes are not the machine code of a kernel");
    parts.push_back(binary.data() + at);
    at += size;
  }
  return parts;
}

} // namespace qd::gpu
