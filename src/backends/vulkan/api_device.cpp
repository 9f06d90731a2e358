// api_device.cpp: a device and its queue: batches of commands, and the timeline that counts them
//
// In:   commands that other files record.
// Out:  command buffers, submitted when the shared half (gpu/device_sequential.h) says so. The timeline's value says which have ended.
#include "backends/vulkan/api_device.h"

#include <utility>

namespace qd::vulkan {

constexpr VkPipelineStageFlags kWork = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;

gpu::Status toStatus(VkResult result) {
  switch (result) {
  case VK_SUCCESS: return gpu::kSuccess;
  case VK_ERROR_OUT_OF_HOST_MEMORY:
  case VK_ERROR_OUT_OF_DEVICE_MEMORY: return gpu::kOutOfMemory;
  case VK_ERROR_DEVICE_LOST: return 719; // a kernel has faulted
  default: return result;                // negative numbers, which no other driver has
  }
}

void Device::check(VkResult result) {
  if (result != VK_SUCCESS) throw Failure{toStatus(result)};
}

Device::Device(const VulkanApi &api, const PhysicalDevice &physical) : api(api), physical(physical) {
  const InstanceFunctions &instance = api.instance;
  const Features &has = physical.features;
  float priority = 1;
  auto queueInfo = make<VkDeviceQueueCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO);
  queueInfo.queueFamilyIndex = physical.queueFamily;
  queueInfo.queueCount = 1;
  queueInfo.pQueuePriorities = &priority;
  FeatureChain features;
  auto &[clock, floats, newest, newer, older, basic] = features;
  std::vector<const char *> extensions;
  basic.features.shaderInt64 = VK_TRUE;
  basic.features.shaderFloat64 = has.hasF64;
  basic.features.shaderInt16 = has.hasI16;
  older.storageBuffer16BitAccess = has.hasStorage16;
  newer.storageBuffer8BitAccess = has.hasStorage8;
  newer.shaderFloat16 = has.hasF16;
  newer.shaderInt8 = has.hasI8;
  newer.shaderBufferInt64Atomics = has.hasI64Atomics;
  newer.shaderSharedInt64Atomics = has.hasSharedI64Atomics;
  newer.bufferDeviceAddress = newer.vulkanMemoryModel = newer.vulkanMemoryModelDeviceScope = newer.timelineSemaphore = VK_TRUE;
  newest.subgroupSizeControl = physical.requiresSubgroupSize || physical.hasFullSubgroups;
  newest.computeFullSubgroups = physical.hasFullSubgroups;
  if (has.hasF32Add || has.hasSharedF32Add) {
    floats.shaderBufferFloat32AtomicAdd = floats.shaderBufferFloat32Atomics = has.hasF32Add;
    floats.shaderSharedFloat32AtomicAdd = floats.shaderSharedFloat32Atomics = has.hasSharedF32Add;
    features.add(floats);
    extensions.push_back(VK_EXT_SHADER_ATOMIC_FLOAT_EXTENSION_NAME);
  }
  if (has.hasDeviceClock || has.hasSubgroupClock) {
    clock.shaderDeviceClock = has.hasDeviceClock;
    clock.shaderSubgroupClock = has.hasSubgroupClock;
    features.add(clock);
    extensions.push_back(VK_KHR_SHADER_CLOCK_EXTENSION_NAME);
  }
  if (physical.hasBudget) extensions.push_back(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
  auto info = make<VkDeviceCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, &basic);
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queueInfo;
  info.enabledExtensionCount = uint32_t(extensions.size());
  info.ppEnabledExtensionNames = extensions.data();
  check(instance.CreateDevice(physical.handle, &info, nullptr, &handle));
#define QD_VULKAN_FIND(name) vk.name = reinterpret_cast<PFN_vk##name>(instance.GetDeviceProcAddr(handle, "vk" #name));
  QD_VULKAN_DEVICE_FUNCTIONS(QD_VULKAN_FIND)
  vk.GetDeviceQueue(handle, physical.queueFamily, 0, &queue);

  auto kind = make<VkSemaphoreTypeCreateInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO);
  kind.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
  auto semaphore = make<VkSemaphoreCreateInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, &kind);
  check(vk.CreateSemaphore(handle, &semaphore, nullptr, &timeline));
  VkPushConstantRange range{VK_SHADER_STAGE_COMPUTE_BIT, 0, has.pushBytes};
  auto layoutInfo = make<VkPipelineLayoutCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO);
  layoutInfo.pushConstantRangeCount = 1;
  layoutInfo.pPushConstantRanges = &range;
  check(vk.CreatePipelineLayout(handle, &layoutInfo, nullptr, &layout));
  auto pool = make<VkQueryPoolCreateInfo>(VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO);
  pool.queryType = VK_QUERY_TYPE_TIMESTAMP;
  pool.queryCount = kTimestamps;
  check(vk.CreateQueryPool(handle, &pool, nullptr, &queries));
  for (uint32_t i = 0; i < kTimestamps; ++i) freeQueries.push_back(kTimestamps - 1 - i);

  chooseMemory();
}

Device::~Device() {
  if (!handle) return;
  vk.DeviceWaitIdle(handle);
  clear();
  idle.insert(idle.end(), running.begin(), running.end());
  idle.push_back(open);
  for (Batch &batch : idle) vk.DestroyCommandPool(handle, batch.pool, nullptr);
  vk.DestroyQueryPool(handle, queries, nullptr);
  vk.DestroyPipelineLayout(handle, layout, nullptr);
  vk.DestroySemaphore(handle, timeline, nullptr);
  vk.DestroyDevice(handle, nullptr);
}

void Device::beginBatch() {
  for (; !running.empty() && running.front().number <= getEnded(); running.pop_front()) idle.push_back(running.front());
  if (idle.empty()) {
    Batch batch;
    auto pool = make<VkCommandPoolCreateInfo>(VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO);
    pool.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
    pool.queueFamilyIndex = physical.queueFamily;
    check(vk.CreateCommandPool(handle, &pool, nullptr, &batch.pool));
    auto info = make<VkCommandBufferAllocateInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO);
    info.commandPool = batch.pool;
    info.commandBufferCount = 1;
    check(vk.AllocateCommandBuffers(handle, &info, &batch.commands));
    idle.push_back(batch);
  }
  auto info = make<VkCommandBufferBeginInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);
  info.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  check(vk.BeginCommandBuffer(idle.back().commands, &info));
  open = idle.back();
  lastStages = 0; // an earlier batch ends with a barrier
  lastPipeline = nullptr;
  idle.pop_back();
}

static VkAccessFlags getAccesses(VkPipelineStageFlags stages, VkAccessFlags ofKernels, VkAccessFlags ofCopies) {
  return (stages & VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT ? ofKernels : 0) | (stages & VK_PIPELINE_STAGE_TRANSFER_BIT ? ofCopies : 0);
}

/// What commands of some stages have written is seen by later ones of others. A barrier that names more than it needs takes longer.
void Device::orderStages(VkPipelineStageFlags before, VkPipelineStageFlags after) {
  auto barrier = make<VkMemoryBarrier>(VK_STRUCTURE_TYPE_MEMORY_BARRIER);
  barrier.srcAccessMask = getAccesses(before, VK_ACCESS_SHADER_WRITE_BIT, VK_ACCESS_TRANSFER_WRITE_BIT);
  barrier.dstAccessMask = getAccesses(after, VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT,
                                      VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT);
  if (after & VK_PIPELINE_STAGE_HOST_BIT) barrier.dstAccessMask |= VK_ACCESS_HOST_READ_BIT;
  vk.CmdPipelineBarrier(open.commands, before, after, 0, 1, &barrier, 0, nullptr, 0, nullptr);
}

/// What the host has written is seen by all that is submitted later.
VkCommandBuffer Device::recordCommand(VkPipelineStageFlags stage) {
  record();
  if (lastStages) orderStages(lastStages, stage);
  lastStages = stage;
  return open.commands;
}

void Device::submitBatch(uint64_t number) {
  orderStages(kWork, VK_PIPELINE_STAGE_HOST_BIT | kWork);
  open.number = number;
  running.push_back(std::exchange(open, {}));
  const Batch &batch = running.back();
  check(vk.EndCommandBuffer(batch.commands));
  auto values = make<VkTimelineSemaphoreSubmitInfo>(VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO);
  values.signalSemaphoreValueCount = 1;
  values.pSignalSemaphoreValues = &batch.number;
  auto info = make<VkSubmitInfo>(VK_STRUCTURE_TYPE_SUBMIT_INFO, &values);
  info.commandBufferCount = 1;
  info.pCommandBuffers = &batch.commands;
  info.signalSemaphoreCount = 1;
  info.pSignalSemaphores = &timeline;
  check(vk.QueueSubmit(queue, 1, &info, VK_NULL_HANDLE));
}

uint64_t Device::readEnded() {
  uint64_t ended = 0;
  check(vk.GetSemaphoreCounterValue(handle, timeline, &ended));
  return ended;
}

void Device::waitFor(uint64_t number) {
  // Drivers wait for an interrupt, which costs more than short kernels take. A device that is the processor needs the time of this thread.
  constexpr auto kShortWait = std::chrono::milliseconds(1);
  auto end = std::chrono::steady_clock::now() + kShortWait;
  while (!physical.isProcessor() && std::chrono::steady_clock::now() < end)
    if (readEnded() >= number) return;
  auto info = make<VkSemaphoreWaitInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO);
  info.semaphoreCount = 1;
  info.pSemaphores = &timeline;
  info.pValues = &number;
  check(vk.WaitSemaphores(handle, &info, UINT64_MAX));
}

} // namespace qd::vulkan
