// api_device.h: a device with its queue, its memory, and the commands that wait to be submitted
//
// All streams of a program are one sequence: commands are recorded in the order of the calls, with a barrier between them, and submitted
// in batches. A timeline counts the batches that have ended.
#pragma once

#include "backends/gpu/device_ranges.h"
#include "backends/vulkan/api.h"

#include <chrono>
#include <deque>
#include <map>
#include <mutex>

namespace qd::vulkan {

using gpu::Address;

/// Memory in one piece, with a buffer over all of it.
struct Block {
  VkBuffer buffer = VK_NULL_HANDLE;
  VkDeviceMemory memory = VK_NULL_HANDLE;
  Address address = 0;
  size_t bytes = 0;
  unsigned char *host = nullptr; ///< mapped; null: memory of the device
  bool isWhole = false;          ///< holds one allocation
  gpu::FreeRanges unused;
};

/// A range of a block.
struct Range {
  Block *block = nullptr;
  size_t offset = 0;
};

/// The memory of a device, and what of it is in use.
struct Blocks {
  std::map<Address, Block *> all;
  std::map<const unsigned char *, Block *> ofHost; ///< those that are mapped
  std::map<Address, size_t> sizes;                 ///< of allocations
  size_t bytes = 0;                                ///< of all blocks
};

/// A batch of commands.
struct Batch {
  VkCommandPool pool = VK_NULL_HANDLE;
  VkCommandBuffer commands = VK_NULL_HANDLE;
  uint64_t number = 0; ///< the timeline reaches it when the batch has ended
  unsigned launches = 0;
  std::chrono::steady_clock::time_point began;
  std::vector<Block *> stages; ///< memory of the host for its copies and parameters
  size_t used = 0;             ///< bytes of the last one
};

struct Device {
  Device(const VulkanApi &api, const PhysicalDevice &physical);
  ~Device();
  Device(const Device &) = delete;
  Device &operator=(const Device &) = delete;

  //--- Commands (api_device.cpp); callers hold the mutex ---
  /// The batch to record in, after a barrier.
  Batch &record();
  /// Submits what has been recorded.
  void submit();
  void submitWhenLong();
  /// Waits until a batch has ended.
  void wait(uint64_t number);
  void waitOnly(uint64_t number); ///< leaves its memory as it is
  /// Whether it has.
  bool hasEnded(uint64_t number);
  /// The batch that contains everything recorded so far.
  uint64_t getLast() const { return open ? open->number : submitted; }
  /// Memory of the host that the open batch keeps until it has ended, 16-byte aligned.
  Range stage(size_t bytes);

  //--- Memory (api_memory.cpp); callers hold the mutex ---
  Address allocate(size_t bytes);
  void release(Address address);
  Block *makeBlock(size_t bytes, bool isOfHost);
  void destroyBlock(Block *block);
  Range find(Address address) const;
  /// The block of mapped memory that contains all of these bytes; null: none.
  Range findHost(const void *data, size_t bytes) const;
  void getInfo(size_t &free, size_t &total) const;

  void check(VkResult result) const; ///< throws the result unless it is a success

  const VulkanApi &api;
  const PhysicalDevice &physical;
  DeviceFunctions vk;
  VkDevice handle = VK_NULL_HANDLE;
  VkQueue queue = VK_NULL_HANDLE;
  VkPipelineLayout layout = VK_NULL_HANDLE;
  std::mutex mutex;

  // Timestamps of events.
  static constexpr uint32_t kTimestamps = 4096;
  VkQueryPool queries = VK_NULL_HANDLE;
  std::vector<uint32_t> freeQueries;

private:
  void recycle();
  void retire(); ///< destroys blocks that no batch uses any more

  VkSemaphore timeline = VK_NULL_HANDLE;
  uint64_t submitted = 0, ended = 0; ///< numbers of batches
  std::unique_ptr<Batch> open;
  std::deque<std::unique_ptr<Batch>> running;
  std::vector<std::unique_ptr<Batch>> idle;
  std::vector<Block *> idleStages;
  Blocks blocks;
  std::vector<std::pair<uint64_t, Block *>> retired; ///< with the last batch that may use them
  uint32_t deviceType = 0, hostType = 0;             ///< of memory
};

/// An event: the batch after whose commands it comes, and the number of its timestamp.
struct Event {
  uint64_t number = 0;
  int64_t query = -1; ///< none
  bool isTimed = false;
};

} // namespace qd::vulkan
