// api_memory.cpp: memory of a device: blocks, which gpu/device_sequential.h cuts into allocations
#include "backends/vulkan/api_device.h"

#include <algorithm>
#include <fstream>

namespace qd::vulkan {

// Without a cache of the host's, 64 bytes take it 1 us; a copy by the device takes 6 us longer than none.
constexpr size_t kUncachedRead = 256;

Block::~Block() {
  device.blockBytes -= bytes;
  device.vk.DestroyBuffer(device.handle, buffer, nullptr);
  device.vk.FreeMemory(device.handle, memory, nullptr);
}

void Device::chooseMemory() {
  auto memory = make<VkPhysicalDeviceMemoryProperties2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2);
  api.instance.GetPhysicalDeviceMemoryProperties2(physical.handle, &memory);
  const VkPhysicalDeviceMemoryProperties &all = memory.memoryProperties;
  auto has = [&](uint32_t type, VkMemoryPropertyFlags flags) { return (all.memoryTypes[type].propertyFlags & flags) == flags; };
  auto isOpen = [&](uint32_t type) { return has(type, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT); };
  auto isCached = [&](uint32_t type) { return isOpen(type) && has(type, VK_MEMORY_PROPERTY_HOST_CACHED_BIT); };
  auto isLocal = [&](uint32_t type) { return has(type, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT); };
  auto choose = [&](auto rate) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < all.memoryTypeCount; ++i)
      if (rate(i) > rate(best)) best = i;
    return best;
  };
  hostType = choose([&](uint32_t type) { return isOpen(type) ? 1 + 2 * isCached(type) + !isLocal(type) : 0; });
  // The host sees all memory of some devices, and a part of others'.
  auto getHeap = [&](uint32_t type) { return all.memoryTypes[type].heapIndex; };
  uint32_t heap = getHeap(choose([&](uint32_t type) { return isLocal(type) ? all.memoryHeaps[getHeap(type)].size : 0; }));
  deviceType = choose([&](uint32_t type) { return isLocal(type) && getHeap(type) == heap ? 1 + isOpen(type) + isCached(type) : 0; });
  isDeviceOpen = isOpen(deviceType);
  if (isDeviceOpen && !isCached(deviceType)) maxDirectRead = kUncachedRead;
}

std::unique_ptr<gpu::Block> Device::makeBlock(size_t bytes, bool isOfHost) {
  auto block = std::make_unique<Block>(*this);
  auto info = make<VkBufferCreateInfo>(VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO);
  info.size = bytes;
  info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
               VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  if (vk.CreateBuffer(handle, &info, nullptr, &block->buffer) != VK_SUCCESS) return nullptr;
  VkMemoryRequirements needed;
  vk.GetBufferMemoryRequirements(handle, block->buffer, &needed);
  auto flags = make<VkMemoryAllocateFlagsInfo>(VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO);
  flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
  VkMemoryAllocateInfo memory{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, &flags, needed.size, isOfHost ? hostType : deviceType};
  size_t free = 0, total = 0;
  getInfo(free, total);
  // Some drivers promise more than there is, and the process ends when it is used.
  if (needed.size > free || vk.AllocateMemory(handle, &memory, nullptr, &block->memory) != VK_SUCCESS) return nullptr;
  block->bytes = bytes;
  blockBytes += bytes;
  if (vk.BindBufferMemory(handle, block->buffer, block->memory, 0) != VK_SUCCESS) return nullptr;
  auto address = make<VkBufferDeviceAddressInfo>(VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO);
  address.buffer = block->buffer;
  block->address = vk.GetBufferDeviceAddress(handle, &address);
  if (isOfHost || isDeviceOpen) {
    void *mapped = nullptr;
    check(vk.MapMemory(handle, block->memory, 0, VK_WHOLE_SIZE, 0, &mapped));
    block->host = static_cast<unsigned char *>(mapped);
  }
  return block;
}

/// Memory of the machine that is free, for devices that are the processor.
static size_t getFreeMemory() {
  std::ifstream file("/proc/meminfo");
  size_t kilobytes = 0;
  for (std::string name, unit; file >> name >> kilobytes;) {
    std::getline(file, unit);
    if (name == "MemAvailable:") return kilobytes << 10;
  }
  return SIZE_MAX;
}

void Device::getInfo(size_t &free, size_t &total) const {
  auto budget = make<VkPhysicalDeviceMemoryBudgetPropertiesEXT>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT);
  auto memory = make<VkPhysicalDeviceMemoryProperties2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2);
  if (physical.hasBudget) memory.pNext = &budget;
  api.instance.GetPhysicalDeviceMemoryProperties2(physical.handle, &memory);
  uint32_t heap = memory.memoryProperties.memoryTypes[deviceType].heapIndex;
  total = memory.memoryProperties.memoryHeaps[heap].size;
  size_t limit = physical.hasBudget ? budget.heapBudget[heap] : total, used = physical.hasBudget ? budget.heapUsage[heap] : blockBytes;
  free = limit > used ? limit - used : 0;
  if (physical.isProcessor()) free = std::min(free, getFreeMemory());
}

} // namespace qd::vulkan
