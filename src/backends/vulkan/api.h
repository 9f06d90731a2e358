// api.h: Vulkan's loader, loaded at run time, and its devices behind the functions that the run half of GPUs calls (gpu/device_api.h)
//
// Begin reading at api.cpp: the loader and the table. api_device.cpp: a device and its queue; api_memory.cpp: its memory; api_code.cpp: its
// pipelines and launches.
#pragma once

#include "backends/gpu/device_sequential.h"
#include "backends/gpu/drivers.h"
#include "backends/vulkan/limits.h"

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

#include <memory>
#include <vector>

namespace qd::vulkan {

/// A structure of Vulkan's, with the one that extends it.
template <typename T> T make(VkStructureType type, void *next = nullptr) {
  T made{};
  made.sType = type;
  made.pNext = next;
  return made;
}

/// What a device can do, as Vulkan is asked for it and told what is used: a chain of structures, with those of extensions that were added.
struct FeatureChain {
  VkPhysicalDeviceShaderClockFeaturesKHR clock = make<decltype(clock)>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CLOCK_FEATURES_KHR);
  VkPhysicalDeviceShaderAtomicFloatFeaturesEXT floats =
      make<decltype(floats)>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_ATOMIC_FLOAT_FEATURES_EXT);
  VkPhysicalDeviceVulkan13Features newest = make<decltype(newest)>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES);
  VkPhysicalDeviceVulkan12Features newer = make<decltype(newer)>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES, &newest);
  VkPhysicalDeviceVulkan11Features older = make<decltype(older)>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, &newer);
  VkPhysicalDeviceFeatures2 basic = make<decltype(basic)>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, &older);

  FeatureChain() = default;
  FeatureChain(const FeatureChain &) = delete;
  FeatureChain &operator=(const FeatureChain &) = delete;

  /// Adds a structure of an extension.
  template <typename T> void add(T &extension) {
    extension.pNext = newest.pNext;
    newest.pNext = &extension;
  }
};

// clang-format off
#define QD_VULKAN_INSTANCE_FUNCTIONS(X)                                                                                           \
  X(EnumeratePhysicalDevices) X(GetPhysicalDeviceProperties2) X(GetPhysicalDeviceFeatures2) X(GetPhysicalDeviceMemoryProperties2) \
  X(GetPhysicalDeviceQueueFamilyProperties) X(EnumerateDeviceExtensionProperties) X(CreateDevice) X(GetDeviceProcAddr)
#define QD_VULKAN_DEVICE_FUNCTIONS(X)                                                                                             \
  X(DestroyDevice) X(GetDeviceQueue) X(QueueSubmit) X(DeviceWaitIdle) X(CreateBuffer) X(DestroyBuffer)                            \
  X(GetBufferMemoryRequirements) X(AllocateMemory) X(FreeMemory) X(BindBufferMemory) X(MapMemory) X(GetBufferDeviceAddress)       \
  X(CreateCommandPool) X(DestroyCommandPool) X(AllocateCommandBuffers) X(BeginCommandBuffer) X(EndCommandBuffer)                  \
  X(CmdPipelineBarrier) X(CmdCopyBuffer) X(CmdFillBuffer) X(CmdBindPipeline) X(CmdPushConstants) X(CmdDispatch)                   \
  X(CmdWriteTimestamp) X(CmdResetQueryPool) X(CreateQueryPool) X(DestroyQueryPool) X(GetQueryPoolResults)                         \
  X(CreateSemaphore) X(DestroySemaphore) X(WaitSemaphores) X(GetSemaphoreCounterValue) X(CreateShaderModule)                      \
  X(DestroyShaderModule) X(CreatePipelineLayout) X(DestroyPipelineLayout) X(CreateComputePipelines) X(DestroyPipeline)            \
  X(CreatePipelineCache) X(DestroyPipelineCache) X(GetPipelineCacheData)
// clang-format on

#define QD_VULKAN_MEMBER(name) PFN_vk##name name = nullptr;
struct InstanceFunctions {
  QD_VULKAN_INSTANCE_FUNCTIONS(QD_VULKAN_MEMBER)
};
struct DeviceFunctions {
  QD_VULKAN_DEVICE_FUNCTIONS(QD_VULKAN_MEMBER)
};
#undef QD_VULKAN_MEMBER

/// A device that the loader sees, with what it can do.
struct PhysicalDevice {
  VkPhysicalDevice handle = nullptr;
  VkPhysicalDeviceProperties properties{};
  Features features;
  uint32_t queueFamily = 0;
  bool requiresSubgroupSize = false; ///< its subgroups have several sizes: pipelines ask for that of the features
  bool hasFullSubgroups = false, hasBudget = false;
  std::string problem; ///< why it cannot be used; empty: it can
  bool isProcessor() const { return properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU; }
};

/// The driver: functions of all drivers, and Vulkan's.
struct VulkanApi : gpu::Api {
  InstanceFunctions instance;
  std::vector<PhysicalDevice> devices; ///< those that can be used, the best one first
  std::unique_ptr<gpu::SequentialDevice> open(gpu::Ordinal ordinal) const;
  int getAttribute(int attribute, gpu::Ordinal ordinal) const;
};

using Driver = gpu::Driver<VulkanApi>;
/// The driver, initialized. A non-empty `library` replaces the system's loader; each library is loaded once per process.
const Driver &findDriver(const std::string &library);

/// Adds the functions that need no loader.
void addFunctions(VulkanApi &api);
/// A Vulkan error as a status of gpu::Api.
gpu::Status toStatus(VkResult result);

} // namespace qd::vulkan
