// device_entries.h: a kernel whose entries the driver compiles: their code in its language, and what the driver made of it
//
// Words of 32 bits: kMagic, number of all words, number of entries, bytes of the driver's cache; for each entry threads of a block, bytes
// of the parameters, bytes of the name, words of code, name, code; then the cache.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace qd::gpu {

struct Entries {
  static constexpr uint32_t kMagic = 0x4e454451; // "QDEN"
  struct Entry {
    std::string name;
    uint32_t blockSize = 1, parameterBytes = 0;
    std::vector<uint32_t> code;
  };
  std::vector<Entry> entries;
  std::vector<uint8_t> cache; ///< of the driver's pipelines; empty: not made yet

  std::vector<uint8_t> write() const {
    std::vector<uint32_t> words{kMagic, 0, uint32_t(entries.size()), uint32_t(cache.size())};
    auto addBytes = [&](const void *data, size_t bytes) {
      size_t begin = words.size();
      words.resize(begin + (bytes + 3) / 4);
      if (bytes) memcpy(words.data() + begin, data, bytes);
    };
    for (const Entry &entry : entries) {
      words.insert(words.end(), {entry.blockSize, entry.parameterBytes, uint32_t(entry.name.size()), uint32_t(entry.code.size())});
      addBytes(entry.name.data(), entry.name.size());
      addBytes(entry.code.data(), entry.code.size() * 4);
    }
    addBytes(cache.data(), cache.size());
    words[1] = uint32_t(words.size());
    auto *bytes = reinterpret_cast<const uint8_t *>(words.data());
    return {bytes, bytes + words.size() * 4};
  }

  /// Reads what `write` has written; the bytes need no alignment. False: these are other bytes.
  bool read(const uint8_t *bytes) {
    auto take = [&] {
      uint32_t word;
      memcpy(&word, bytes, 4);
      bytes += 4;
      return word;
    };
    if (take() != kMagic) return false;
    take();
    entries.resize(take());
    cache.resize(take());
    for (Entry &entry : entries) {
      entry.blockSize = take();
      entry.parameterBytes = take();
      entry.name.resize(take());
      entry.code.resize(take());
      memcpy(entry.name.data(), bytes, entry.name.size());
      bytes += (entry.name.size() + 3) / 4 * 4;
      memcpy(entry.code.data(), bytes, entry.code.size() * 4);
      bytes += entry.code.size() * 4;
    }
    if (!cache.empty()) memcpy(cache.data(), bytes, cache.size());
    return true;
  }
};

} // namespace qd::gpu
