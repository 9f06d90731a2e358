// api_device.h: a device with its queue and its memory, as a gpu::SequentialDevice
//
// Commands are recorded in the order of the calls, with a barrier between them. A timeline counts the batches that have ended.
#pragma once

#include "backends/gpu/device_sequential.h"
#include "backends/vulkan/api.h"

#include <deque>

namespace qd::vulkan {

using gpu::Address;
using gpu::Range;

class Device;

/// Memory with a buffer over all of it.
struct Block final : gpu::Block {
  explicit Block(Device &device) : device(device) {}
  ~Block() override;
  Device &device;
  VkBuffer buffer = VK_NULL_HANDLE;
  VkDeviceMemory memory = VK_NULL_HANDLE;
};

class Device final : public gpu::SequentialDevice {
public:
  Device(const VulkanApi &api, const PhysicalDevice &physical);
  ~Device() override;

  //--- Commands (api_code.cpp) ---
  void copy(Range to, Range from, size_t bytes) override;
  void fill(Range to, uint32_t word, size_t bytes) override;
  void dispatch(void *pipeline, const gpu::Entries::Entry &entry, const void *parameters, unsigned blocks) override;
  void stamp(gpu::SequenceEvent &event) override;
  void forget(gpu::SequenceEvent &event) override;
  double getMilliseconds(const gpu::SequenceEvent &begin, const gpu::SequenceEvent &end) override;
  std::unique_ptr<gpu::PipelineMaker> openPipelines(const std::vector<uint8_t> &cache) override;
  void destroyPipeline(void *pipeline) override { vk.DestroyPipeline(handle, static_cast<VkPipeline>(pipeline), nullptr); }

  //--- Memory (api_memory.cpp) ---
  void getInfo(size_t &free, size_t &total) const override;
  std::unique_ptr<gpu::Block> makeBlock(size_t bytes, bool isOfHost) override;

  static void check(VkResult result); ///< throws a Failure unless it is a success

  const VulkanApi &api;
  const PhysicalDevice &physical;
  DeviceFunctions vk;
  VkDevice handle = VK_NULL_HANDLE;
  VkPipelineLayout layout = VK_NULL_HANDLE;
  size_t blockBytes = 0; ///< of all blocks

private:
  struct Batch {
    VkCommandPool pool = VK_NULL_HANDLE;
    VkCommandBuffer commands = VK_NULL_HANDLE;
    uint64_t number = 0; ///< the timeline reaches it when the batch has ended
  };

  void chooseMemory(); ///< (api_memory.cpp)
  void orderStages(VkPipelineStageFlags before, VkPipelineStageFlags after);
  /// The buffer to record a command of this stage in, after a barrier.
  VkCommandBuffer recordCommand(VkPipelineStageFlags stage);
  //--- Batches (api_device.cpp) ---
  void beginBatch() override;
  void submitBatch(uint64_t number) override;
  uint64_t readEnded() override;
  void waitFor(uint64_t number) override;

  VkQueue queue = VK_NULL_HANDLE;
  VkSemaphore timeline = VK_NULL_HANDLE;
  Batch open;
  VkPipelineStageFlags lastStages = 0; ///< of what was recorded last; 0: nothing
  void *lastPipeline = nullptr;        ///< of the open batch
  std::deque<Batch> running;
  std::vector<Batch> idle;
  uint32_t deviceType = 0, hostType = 0; ///< of memory
  bool isDeviceOpen = false;             ///< the host sees that of the device
  // Timestamps of events.
  static constexpr uint32_t kTimestamps = 4096;
  VkQueryPool queries = VK_NULL_HANDLE;
  std::vector<uint32_t> freeQueries;
};

} // namespace qd::vulkan
