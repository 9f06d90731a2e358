// api_device.h: a device with its memory, and the commands that wait to be submitted
//
// All streams of a program are one sequence. Memory is shared with the host, so that the host copies by itself what no command uses.
#pragma once

#include "backends/gpu/device_ranges.h"
#include "backends/metal/api.h"

#include <chrono>
#include <map>
#include <memory>
#include <mutex>

namespace qd::metal {

using gpu::Address;

/// A buffer of Metal's, which holds allocations.
struct Block {
  void *buffer = nullptr;
  Address address = 0;
  unsigned char *contents = nullptr; ///< where the host sees it
  size_t bytes = 0;
  bool isWhole = false; ///< holds one allocation
  gpu::FreeRanges unused;
};

struct Range {
  Block *block = nullptr;
  size_t offset = 0;
  unsigned char *getContents() const { return block->contents + offset; }
};

struct Device {
  Device(const MetalApi &api, int ordinal, uint64_t queue);
  ~Device();
  Device(const Device &) = delete;
  Device &operator=(const Device &) = delete;

  //--- Commands; callers hold the mutex ---
  void record(bool isLaunch = false); ///< call after each command
  void submit();
  /// Waits for a submission. Throws a Failure if one has failed.
  void wait(uint64_t number);
  bool hasEnded(uint64_t number);
  /// The submission that contains everything recorded so far.
  uint64_t getLast() const { return submitted + (isOpen ? 1 : 0); }
  bool isIdle() { return hasEnded(getLast()); }
  /// Memory that belongs to the next submission until it has ended, 16-byte aligned.
  Range stage(size_t bytes);

  //--- Memory; callers hold the mutex ---
  Address allocate(size_t bytes);
  void release(Address address);
  Range find(Address address) const;
  /// Memory of the host that the device sees at another address. Null block: it is not from here.
  Range findHost(const void *data) const;
  std::unique_ptr<Block> makeBlock(size_t bytes);
  void destroyBlock(Block &block) { functions.destroyBuffer(handle, block.buffer); }
  size_t getUsedBytes() const { return usedBytes; }

  struct Failure {};
  const DriverFunctions &functions;
  DeviceInfo info;
  void *handle = nullptr;
  std::mutex mutex;
  std::map<const unsigned char *, std::unique_ptr<Block>> ofHost; ///< by their end

private:
  void retire();

  bool isOpen = false;
  unsigned launches = 0;
  std::chrono::steady_clock::time_point began;
  uint64_t submitted = 0, ended = 0;
  std::map<Address, std::unique_ptr<Block>> blocks; ///< by their end
  std::map<Address, size_t> sizes;                  ///< of allocations
  size_t usedBytes = 0;
  std::vector<std::pair<uint64_t, std::unique_ptr<Block>>> retired; ///< with the last submission that may use them
  std::vector<std::unique_ptr<Block>> stages, idleStages;           ///< the open submission's; unused ones
  std::vector<std::pair<uint64_t, std::unique_ptr<Block>>> usedStages;
  size_t stageUsed = 0;
};

/// The last error of Metal's own that this thread has seen.
std::string &getLastError();

} // namespace qd::metal
