// api_memory.cpp: memory of a device: few large blocks, cut into allocations
//
// A range that is released can be used again at once: all commands run in the order in which they were recorded.
#include "backends/vulkan/api_device.h"

#include <algorithm>
#include <fstream>

namespace qd::vulkan {

// Allocations of more bytes have a block of their own, which is given back with them.
static constexpr size_t kLargeBytes = 8 << 20, kBlockBytes = 32 << 20, kAlignment = 256;

Block *Device::makeBlock(size_t bytes, bool isOfHost) {
  auto block = std::make_unique<Block>();
  block->bytes = bytes;
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
  bool isThere = needed.size <= free && vk.AllocateMemory(handle, &memory, nullptr, &block->memory) == VK_SUCCESS;
  if (!isThere || vk.BindBufferMemory(handle, block->buffer, block->memory, 0) != VK_SUCCESS) {
    destroyBlock(block.release());
    return nullptr;
  }
  auto address = make<VkBufferDeviceAddressInfo>(VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO);
  address.buffer = block->buffer;
  block->address = vk.GetBufferDeviceAddress(handle, &address);
  blocks.bytes += bytes;
  blocks.all[block->address] = block.get();
  if (isOfHost) {
    void *mapped = nullptr;
    check(vk.MapMemory(handle, block->memory, 0, VK_WHOLE_SIZE, 0, &mapped));
    block->host = static_cast<unsigned char *>(mapped);
    blocks.ofHost[block->host] = block.get();
  }
  return block.release();
}

void Device::destroyBlock(Block *block) {
  if (block->host) blocks.ofHost.erase(block->host);
  if (block->address && blocks.all.erase(block->address)) blocks.bytes -= block->bytes;
  vk.DestroyBuffer(handle, block->buffer, nullptr);
  vk.FreeMemory(handle, block->memory, nullptr);
  delete block;
}

Address Device::allocate(size_t bytes) {
  bytes = (std::max<size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  Range range;
  for (auto &[address, block] : blocks.all) {
    if (block->isWhole || block->host || bytes > kLargeBytes) continue;
    if (std::optional<size_t> offset = block->unused.take(bytes)) {
      range = {block, *offset};
      break;
    }
  }
  if (!range.block) {
    recycle(); // blocks that commands still used may be free now
    bool isWhole = bytes > kLargeBytes;
    range.block = makeBlock(isWhole ? bytes : kBlockBytes, /*isOfHost=*/false);
    if (!range.block && !isWhole) range.block = makeBlock(bytes, /*isOfHost=*/false);
    if (!range.block) return 0;
    range.block->isWhole = isWhole;
    if (size_t rest = range.block->bytes - bytes) range.block->unused.put(bytes, rest);
  }
  Address address = range.block->address + range.offset;
  blocks.sizes[address] = bytes;
  return address;
}

void Device::release(Address address) {
  auto size = blocks.sizes.find(address);
  if (size == blocks.sizes.end()) return;
  Range range = find(address);
  range.block->unused.put(range.offset, size->second);
  blocks.sizes.erase(size);
  if (!range.block->unused.isWhole(range.block->bytes)) return;
  // Nothing of the block is in use. Commands that were recorded before may still use it.
  blocks.bytes -= range.block->bytes;
  blocks.all.erase(range.block->address);
  retired.emplace_back(getLast(), range.block);
  recycle();
}

Range Device::find(Address address) const {
  auto after = blocks.all.upper_bound(address);
  if (after == blocks.all.begin()) throw VK_ERROR_UNKNOWN;
  Block *block = std::prev(after)->second;
  if (address - block->address >= block->bytes) throw VK_ERROR_UNKNOWN;
  return {block, size_t(address - block->address)};
}

Range Device::findHost(const void *data, size_t bytes) const {
  auto *begin = static_cast<const unsigned char *>(data);
  auto after = blocks.ofHost.upper_bound(begin);
  if (after == blocks.ofHost.begin()) return {};
  auto [start, block] = *std::prev(after);
  return begin + bytes <= start + block->bytes ? Range{block, size_t(begin - start)} : Range{};
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
  size_t limit = physical.hasBudget ? budget.heapBudget[heap] : total, used = physical.hasBudget ? budget.heapUsage[heap] : blocks.bytes;
  free = limit > used ? limit - used : 0;
  if (physical.isProcessor()) free = std::min(free, getFreeMemory());
}

} // namespace qd::vulkan
