// api.cpp: loads Vulkan's loader, and lists the devices that can run kernels
//
// In:   a library.
// Out:  the table of functions of gpu/device_api.h; for each device its features, or why it cannot be used.
#include "backends/vulkan/api.h"

#include <algorithm>
#include <cstring>
#include <dlfcn.h>

namespace qd::vulkan {

namespace {

struct Extensions {
  std::vector<VkExtensionProperties> all;
  bool has(const char *name) const {
    return std::any_of(all.begin(), all.end(), [&](const VkExtensionProperties &own) { return strcmp(own.extensionName, name) == 0; });
  }
};

/// The text of what a device lacks; empty if it has all that every kernel needs.
std::string findMissing(const VkPhysicalDeviceFeatures2 &basic, const VkPhysicalDeviceVulkan12Features &newer) {
  struct {
    VkBool32 isThere;
    const char *name;
  } needed[] = {{basic.features.shaderInt64, "integers of 64 bits (shaderInt64)"},
                {newer.bufferDeviceAddress, "addresses (bufferDeviceAddress)"},
                {newer.vulkanMemoryModel, "Vulkan's memory model (vulkanMemoryModel)"},
                {newer.vulkanMemoryModelDeviceScope, "its scope of the device (vulkanMemoryModelDeviceScope)"},
                {newer.timelineSemaphore, "timelines (timelineSemaphore)"}};
  for (auto [isThere, name] : needed)
    if (!isThere) return std::string("it lacks ") + name;
  return "";
}

PhysicalDevice describe(const InstanceFunctions &vk, VkPhysicalDevice handle) {
  PhysicalDevice device;
  device.handle = handle;
  uint32_t count = 0;
  Extensions extensions;
  vk.EnumerateDeviceExtensionProperties(handle, nullptr, &count, nullptr);
  extensions.all.resize(count);
  vk.EnumerateDeviceExtensionProperties(handle, nullptr, &count, extensions.all.data());

  FeatureChain features;
  auto &[clock, floats, newest, newer, older, basic] = features;
  auto driver = make<VkPhysicalDeviceDriverProperties>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES);
  auto sizes =
      make<VkPhysicalDeviceSubgroupSizeControlProperties>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES, &driver);
  auto controls = make<VkPhysicalDeviceFloatControlsProperties>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES, &sizes);
  auto subgroups = make<VkPhysicalDeviceSubgroupProperties>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES, &controls);
  auto properties = make<VkPhysicalDeviceProperties2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2);
  vk.GetPhysicalDeviceProperties2(handle, &properties);
  device.properties = properties.properties;
  if (device.properties.apiVersion < VK_API_VERSION_1_3) {
    device.problem = "its driver has Vulkan " + std::to_string(VK_API_VERSION_MAJOR(device.properties.apiVersion)) + "." +
                     std::to_string(VK_API_VERSION_MINOR(device.properties.apiVersion)) + ", 1.3 is needed";
    return device;
  }
  properties.pNext = &subgroups;
  vk.GetPhysicalDeviceProperties2(handle, &properties);
  if (extensions.has(VK_EXT_SHADER_ATOMIC_FLOAT_EXTENSION_NAME)) features.add(floats);
  if (extensions.has(VK_KHR_SHADER_CLOCK_EXTENSION_NAME)) { features.add(clock); }
  vk.GetPhysicalDeviceFeatures2(handle, &basic);
  device.problem = findMissing(basic, newer);

  uint32_t families = 0;
  vk.GetPhysicalDeviceQueueFamilyProperties(handle, &families, nullptr);
  std::vector<VkQueueFamilyProperties> queues(families);
  vk.GetPhysicalDeviceQueueFamilyProperties(handle, &families, queues.data());
  // One for computations only, if there is one: others share their time with what is on the screen.
  auto rate = [](const VkQueueFamilyProperties &queue) {
    return !(queue.queueFlags & VK_QUEUE_COMPUTE_BIT) ? 0 : queue.queueFlags & VK_QUEUE_GRAPHICS_BIT ? 1 : 2;
  };
  for (uint32_t i = 0; i < families; ++i)
    if (rate(queues[i]) > rate(queues[device.queueFamily])) device.queueFamily = i;
  if (families == 0 || rate(queues[device.queueFamily]) == 0) device.problem = "it has no queue for computations";

  // Mesa's llvmpipe before 23: a fence is a barrier there, and threads that do not come to it are missed. The processor needs no fences.
  bool isOldProcessor = driver.driverID == VK_DRIVER_ID_MESA_LLVMPIPE && device.properties.apiVersion < VK_MAKE_API_VERSION(0, 1, 3, 240);
  device.features.hasFences = !isOldProcessor;
  // Vulkan allows Fma to round twice, and llvmpipe does; GPUs have the instruction. llvmpipe gives Floor, Trunc and the like of f64 above
  // 2^24 unchanged.
  device.features.hasFma = device.features.hasRounding64 = driver.driverID != VK_DRIVER_ID_MESA_LLVMPIPE;
  // Vulkan allows quotients of f32 an error of 2.5 ulp.
  device.features.hasExactQuotients = driver.driverID == VK_DRIVER_ID_MESA_LLVMPIPE;
  // f32 -> f16 -> f32 is f32 there.
  device.features.roundsHalves = driver.driverID != VK_DRIVER_ID_NVIDIA_PROPRIETARY;
  device.features.savesRegisters = driver.driverID == VK_DRIVER_ID_NVIDIA_PROPRIETARY;
  const VkPhysicalDeviceLimits &limits = device.properties.limits;
  Features &has = device.features;
  has.subgroupSize = std::min(64u, subgroups.subgroupSize);
  bool canChoose = newest.subgroupSizeControl && (sizes.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT);
  if (canChoose && sizes.minSubgroupSize <= 32 && sizes.maxSubgroupSize >= 32) has.subgroupSize = 32;
  device.requiresSubgroupSize = canChoose && sizes.minSubgroupSize != sizes.maxSubgroupSize;
  device.hasFullSubgroups = newest.computeFullSubgroups;
  device.hasBudget = extensions.has(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
  has.maxBlockThreads = std::min({limits.maxComputeWorkGroupInvocations, limits.maxComputeWorkGroupSize[0], 1024u});
  has.maxSharedBytes = limits.maxComputeSharedMemorySize;
  has.pushBytes = std::min(256u, limits.maxPushConstantsSize);
  has.hasF64 = basic.features.shaderFloat64;
  has.hasI16 = basic.features.shaderInt16;
  has.hasF16 = newer.shaderFloat16;
  has.hasI8 = newer.shaderInt8;
  has.hasStorage16 = older.storageBuffer16BitAccess;
  has.hasStorage8 = newer.storageBuffer8BitAccess;
  has.hasI64Atomics = newer.shaderBufferInt64Atomics;
  has.hasSharedI64Atomics = newer.shaderSharedInt64Atomics;
  has.hasF32Add = floats.shaderBufferFloat32AtomicAdd;
  has.hasSharedF32Add = floats.shaderSharedFloat32AtomicAdd;
  has.hasDeviceClock = clock.shaderDeviceClock;
  has.hasSubgroupClock = clock.shaderSubgroupClock;
  // Modes of one width may not differ from those of others where the device cannot mix them: then none is asked for.
  has.keepsNan16 = controls.shaderSignedZeroInfNanPreserveFloat16;
  has.keepsNan32 = controls.shaderSignedZeroInfNanPreserveFloat32;
  has.keepsNan64 = controls.shaderSignedZeroInfNanPreserveFloat64;
  has.keepsDenormals32 =
      controls.shaderDenormPreserveFloat32 && controls.denormBehaviorIndependence != VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_NONE;
  has.keepsDenormals64 =
      controls.shaderDenormPreserveFloat64 && controls.denormBehaviorIndependence == VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_ALL;
  has.combinesWords = subgroups.supportedOperations & VK_SUBGROUP_FEATURE_ARITHMETIC_BIT;
  constexpr VkSubgroupFeatureFlags kNeeded =
      VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_BALLOT_BIT | VK_SUBGROUP_FEATURE_SHUFFLE_BIT;
  if ((subgroups.supportedOperations & kNeeded) != kNeeded || !(subgroups.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT))
    device.problem = "its subgroups cannot exchange values";
  if (subgroups.subgroupSize > 64 && has.subgroupSize != 32) device.problem = "its subgroups have more than 64 threads";
  return device;
}

/// Discrete devices come first, then those that share the host's memory, then the processor; among them the newest driver.
std::pair<int, uint32_t> rate(const PhysicalDevice &device) {
  int kind = 1;
  switch (device.properties.deviceType) {
  case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: kind = 4; break;
  case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: kind = 3; break;
  case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: kind = 2; break;
  case VK_PHYSICAL_DEVICE_TYPE_CPU: kind = 0; break;
  default: break;
  }
  return {-kind, ~device.properties.apiVersion};
}

std::string load(const std::string &library, VulkanApi &api) {
  std::vector<std::string> names = {"libvulkan.so.1", "libvulkan.so"};
  void *handle = gpu::openLibrary(names, library);
  if (!handle) return "there is no Vulkan loader (" + names[0] + " cannot be loaded)";
  auto find = reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(handle, "vkGetInstanceProcAddr"));
  auto create = find ? reinterpret_cast<PFN_vkCreateInstance>(find(nullptr, "vkCreateInstance")) : nullptr;
  if (!create) return names[0] + " is no Vulkan loader";
  auto application = make<VkApplicationInfo>(VK_STRUCTURE_TYPE_APPLICATION_INFO);
  application.pApplicationName = application.pEngineName = "quadrants";
  application.apiVersion = VK_API_VERSION_1_3;
  auto info = make<VkInstanceCreateInfo>(VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO);
  info.pApplicationInfo = &application;
  VkInstance instance = nullptr;
  VkResult result = create(&info, nullptr, &instance);
  if (result == VK_ERROR_INCOMPATIBLE_DRIVER) return "Vulkan has no driver";
  if (result != VK_SUCCESS) return "Vulkan does not start: error " + std::to_string(result);
  const char *missing = nullptr;
#define QD_VULKAN_FIND(name)                                                                                                               \
  api.instance.name = reinterpret_cast<PFN_vk##name>(find(instance, "vk" #name));                                                          \
  if (!api.instance.name) missing = "vk" #name;
  QD_VULKAN_INSTANCE_FUNCTIONS(QD_VULKAN_FIND)
  if (missing) return std::string("the Vulkan loader is too old (it has no ") + missing + ")";
  uint32_t count = 0;
  result = api.instance.EnumeratePhysicalDevices(instance, &count, nullptr);
  std::vector<VkPhysicalDevice> all(count);
  if (result == VK_SUCCESS && count) result = api.instance.EnumeratePhysicalDevices(instance, &count, all.data());
  std::string problems;
  for (VkPhysicalDevice one : all) {
    PhysicalDevice device = describe(api.instance, one);
    if (device.problem.empty())
      api.devices.push_back(std::move(device));
    else
      problems += (problems.empty() ? " (" : "; ") + std::string(device.properties.deviceName) + ": " + device.problem;
  }
  if (api.devices.empty()) return "Vulkan has no device that can be used" + (problems.empty() ? "" : problems + ")");
  std::sort(api.devices.begin(), api.devices.end(), [](auto &a, auto &b) { return rate(a) < rate(b); });
  addFunctions(api);
  return "";
}

} // namespace

const Driver &findDriver(const std::string &library) { return gpu::findDriver<VulkanApi>(library, load); }

} // namespace qd::vulkan
