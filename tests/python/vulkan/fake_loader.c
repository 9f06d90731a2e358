/* fake_loader.c: stands between the backend and Vulkan's loader, and makes devices worse than they are.
 *
 * FAKE_VULKAN is a list of words: "no_devices"; "no_f64", "no_i64": a feature is missing; "lost=3": the third submission from now loses the
 * device; "no_memory": no allocation succeeds. The variable is read at each call, so tests change it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

static PFN_vkGetInstanceProcAddr real_instance;
static PFN_vkGetDeviceProcAddr real_device;
static PFN_vkEnumeratePhysicalDevices real_enumerate;
static PFN_vkGetPhysicalDeviceFeatures2 real_features;
static PFN_vkQueueSubmit real_submit;
static PFN_vkAllocateMemory real_allocate;
static int submissions;

static const char *find(const char *word) {
  const char *all = getenv("FAKE_VULKAN");
  return all ? strstr(all, word) : NULL;
}

static VkResult enumerate(VkInstance instance, uint32_t *count, VkPhysicalDevice *devices) {
  if (!find("no_devices")) return real_enumerate(instance, count, devices);
  *count = 0;
  return VK_SUCCESS;
}

static void get_features(VkPhysicalDevice device, VkPhysicalDeviceFeatures2 *features) {
  real_features(device, features);
  if (find("no_f64")) features->features.shaderFloat64 = VK_FALSE;
  if (find("no_i64")) features->features.shaderInt64 = VK_FALSE;
}

static VkResult submit(VkQueue queue, uint32_t count, const VkSubmitInfo *info, VkFence fence) {
  const char *lost = find("lost=");
  if (!lost) submissions = 0;
  if (lost && ++submissions >= atoi(lost + 5)) return VK_ERROR_DEVICE_LOST;
  return real_submit(queue, count, info, fence);
}

static VkResult allocate(VkDevice device, const VkMemoryAllocateInfo *info, const VkAllocationCallbacks *callbacks, VkDeviceMemory *memory) {
  return find("no_memory") ? VK_ERROR_OUT_OF_DEVICE_MEMORY : real_allocate(device, info, callbacks, memory);
}

static PFN_vkVoidFunction get_device(VkDevice device, const char *name) {
  PFN_vkVoidFunction real = real_device(device, name);
  if (!strcmp(name, "vkQueueSubmit")) return real_submit = (PFN_vkQueueSubmit)real, (PFN_vkVoidFunction)submit;
  if (!strcmp(name, "vkAllocateMemory")) return real_allocate = (PFN_vkAllocateMemory)real, (PFN_vkVoidFunction)allocate;
  return real;
}

__attribute__((visibility("default"))) PFN_vkVoidFunction vkGetInstanceProcAddr(VkInstance instance, const char *name) {
  if (!real_instance) {
    void *loader = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    real_instance = (PFN_vkGetInstanceProcAddr)dlsym(loader, "vkGetInstanceProcAddr");
  }
  PFN_vkVoidFunction real = real_instance(instance, name);
  if (!strcmp(name, "vkEnumeratePhysicalDevices"))
    return real_enumerate = (PFN_vkEnumeratePhysicalDevices)real, (PFN_vkVoidFunction)enumerate;
  if (!strcmp(name, "vkGetPhysicalDeviceFeatures2"))
    return real_features = (PFN_vkGetPhysicalDeviceFeatures2)real, (PFN_vkVoidFunction)get_features;
  if (!strcmp(name, "vkGetDeviceProcAddr")) return real_device = (PFN_vkGetDeviceProcAddr)real, (PFN_vkVoidFunction)get_device;
  return real;
}
