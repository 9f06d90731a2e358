// scopes.h: whether a block may read what another one has written in the same launch
//
// Caches of a block are not coherent with those of others, and the emulator has none: a plain load finds any store at once. Instead, each
// word of memory keeps the block and the time of its last plain store. A block may read it if it knows of that time: the writer has
// released the store for the device and then published it by an atomic operation, which the reader has seen before it has acquired. These
// are the clocks of blocks that race detectors keep. Words that atomic operations write are not watched: these are done where all blocks
// see them.
#pragma once

#include "machine.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

class Scopes {
public:
  std::string problem; ///< what is wrong with the last load that was refused

  /// `writesBack`: stores stay in a cache of the writer until a release (gfx942, gfx950). `acquires`: the code has such instructions.
  void begin(unsigned count, bool writesBack, bool acquires) {
    constexpr unsigned kMostBlocks = 4096; // every block has a clock of all blocks
    isOn = count <= kMostBlocks;
    this->writesBack = writesBack;
    blocks.assign(acquires && isOn ? count : 0, {});
    pages.clear(), published.clear(), last = nullptr;
  }
  void end() { isOn = false; }
  bool isWatching() const { return isOn; }

  void release(unsigned block) {
    if (block < blocks.size()) blocks[block].released = ++now;
  }
  void acquire(unsigned block) {
    if (block < blocks.size()) merge(blocks[block].known, blocks[block].seen);
  }
  void store(unsigned block, u64 at, size_t size) {
    ++now;
    for (u64 begin = at; begin < at + size; begin = (begin | 3) + 1) {
      Word &word = find(begin);
      u8 bytes = findBytes(begin, at + size);
      word = {now, block, u8(word.block == block ? word.bytes | bytes : bytes)};
    }
  }
  /// An atomic operation that all blocks see.
  bool update(unsigned block, u64 at, size_t size) {
    if (!load(block, at, size, true)) return false;
    for (u64 begin = at; begin < at + size; begin = (begin | 3) + 1) find(begin).bytes &= u8(~findBytes(begin, at + size));
    if (block >= blocks.size()) return true;
    Clock &clock = published[at];
    merge(clock, blocks[block].known);
    raise(clock, block, writesBack ? blocks[block].released : ++now);
    return true;
  }
  /// `isOfDevice`: the load passes by the caches of the block.
  bool load(unsigned block, u64 at, size_t size, bool isOfDevice) {
    if (isOfDevice && block < blocks.size())
      if (auto clock = published.find(at); clock != published.end()) merge(blocks[block].seen, clock->second);
    for (u64 begin = at; begin < at + size; begin = (begin | 3) + 1) {
      const Word &word = find(begin);
      if (!(word.bytes & findBytes(begin, at + size)) || word.block == block) continue;
      bool isReleased = !writesBack || (word.block < blocks.size() && blocks[word.block].released > word.time);
      if (isReleased && isOfDevice && block < blocks.size()) raise(blocks[block].seen, word.block, word.time);
      if (isReleased && (isOfDevice || isKnown(block, word))) continue;
      problem = "block " + std::to_string(block) + " reads what block " + std::to_string(word.block) +
                " has written in the same launch and " + (isReleased ? "it has not acquired" : "not released");
      return false;
    }
    return true;
  }

private:
  using Clock = std::vector<u64>; ///< for each block a time; no entry: 0
  struct Block {
    Clock known, seen; ///< what it may read; what it may read after its next acquire
    u64 released = 0;
  };
  struct Word {
    u64 time;
    u32 block;
    u8 bytes; ///< which of the four
  };
  using Page = std::array<Word, 1024>;

  static void raise(Clock &clock, unsigned block, u64 time) {
    if (clock.size() <= block) clock.resize(block + 1);
    clock[block] = std::max(clock[block], time);
  }
  static void merge(Clock &into, const Clock &other) {
    if (into.size() < other.size()) into.resize(other.size());
    for (size_t i = 0; i < other.size(); ++i) into[i] = std::max(into[i], other[i]);
  }
  bool isKnown(unsigned block, const Word &word) const {
    return block < blocks.size() && word.block < blocks[block].known.size() && blocks[block].known[word.block] >= word.time;
  }
  static u8 findBytes(u64 begin, u64 end) {
    u64 count = std::min(end - begin, 4 - (begin & 3));
    return u8(((1u << count) - 1) << (begin & 3));
  }
  Word &find(u64 at) {
    u64 number = at / sizeof(u32) / std::tuple_size_v<Page>;
    if (!last || number != lastNumber) {
      std::unique_ptr<Page> &page = pages[number];
      if (!page) page = std::make_unique<Page>();
      last = page.get(), lastNumber = number;
    }
    return (*last)[at / sizeof(u32) % std::tuple_size_v<Page>];
  }

  bool isOn = false, writesBack = false;
  u64 now = 0, lastNumber = 0;
  Page *last = nullptr;
  std::unordered_map<u64, std::unique_ptr<Page>> pages;
  std::unordered_map<u64, Clock> published; ///< by words of atomic operations
  std::vector<Block> blocks;
};
