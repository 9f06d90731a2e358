// api_code.cpp: what only Vulkan does its own way: pipelines, launches, copies and timestamps
//
// In:   what gpu/device_sequential.h asks of a driver.
// Out:  commands in the device's one sequence (api_device.h).
#include "backends/vulkan/api_device.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

namespace qd::vulkan {

using gpu::Status;

namespace {

VkBuffer getBuffer(const Range &range) { return static_cast<Block *>(range.block)->buffer; }

class Pipelines final : public gpu::PipelineMaker {
public:
  Pipelines(Device &device, const std::vector<uint8_t> &bytes) : device(device) {
    auto info = vulkan::make<VkPipelineCacheCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO);
    info.initialDataSize = bytes.size();
    info.pInitialData = bytes.data();
    Device::check(device.vk.CreatePipelineCache(device.handle, &info, nullptr, &cache));
  }
  ~Pipelines() override { device.vk.DestroyPipelineCache(device.handle, cache, nullptr); }

  void *make(const gpu::Entries::Entry &entry) override {
    const PhysicalDevice &physical = device.physical;
    auto code = vulkan::make<VkShaderModuleCreateInfo>(VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO);
    code.codeSize = entry.code.size() * 4;
    code.pCode = entry.code.data();
    VkShaderModule shader = VK_NULL_HANDLE;
    Device::check(device.vk.CreateShaderModule(device.handle, &code, nullptr, &shader));
    auto size = vulkan::make<VkPipelineShaderStageRequiredSubgroupSizeCreateInfo>(
        VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO);
    size.requiredSubgroupSize = physical.features.subgroupSize;
    auto info = vulkan::make<VkComputePipelineCreateInfo>(VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO);
    info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
    info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    info.stage.module = shader;
    info.stage.pName = "main";
    if (physical.requiresSubgroupSize) info.stage.pNext = &size;
    if (physical.hasFullSubgroups && entry.blockSize % physical.features.subgroupSize == 0)
      info.stage.flags = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
    info.layout = device.layout;
    VkPipeline pipeline = VK_NULL_HANDLE;
    VkResult result = device.vk.CreateComputePipelines(device.handle, cache, 1, &info, nullptr, &pipeline);
    device.vk.DestroyShaderModule(device.handle, shader, nullptr);
    Device::check(result);
    return pipeline;
  }

  std::vector<uint8_t> finish() override {
    std::vector<uint8_t> bytes;
    size_t size = 0;
    if (device.vk.GetPipelineCacheData(device.handle, cache, &size, nullptr) == VK_SUCCESS) bytes.resize(size);
    if (size && device.vk.GetPipelineCacheData(device.handle, cache, &size, bytes.data()) != VK_SUCCESS) bytes.clear();
    return bytes;
  }

private:
  Device &device;
  VkPipelineCache cache = VK_NULL_HANDLE;
};

const char *getName(Status status) {
  switch (status) {
  case gpu::kOutOfMemory: return "VK_ERROR_OUT_OF_DEVICE_MEMORY";
  case 719: return "VK_ERROR_DEVICE_LOST";
  case VK_ERROR_INITIALIZATION_FAILED: return "VK_ERROR_INITIALIZATION_FAILED";
  case VK_ERROR_EXTENSION_NOT_PRESENT: return "VK_ERROR_EXTENSION_NOT_PRESENT";
  case VK_ERROR_FEATURE_NOT_PRESENT: return "VK_ERROR_FEATURE_NOT_PRESENT";
  case VK_ERROR_INVALID_SHADER_NV: return "VK_ERROR_INVALID_SHADER_NV";
  default: return nullptr;
  }
}

} // namespace

std::unique_ptr<gpu::PipelineMaker> Device::openPipelines(const std::vector<uint8_t> &cache) {
  return std::make_unique<Pipelines>(*this, cache);
}

void Device::copy(Range to, Range from, size_t bytes) {
  VkBufferCopy region{from.offset, to.offset, bytes};
  vk.CmdCopyBuffer(recordCommand(VK_PIPELINE_STAGE_TRANSFER_BIT), getBuffer(from), getBuffer(to), 1, &region);
}

/// The command fills whole words at multiples of four bytes; the rest is copied.
void Device::fill(Range to, uint32_t word, size_t bytes) {
  size_t head = std::min<size_t>(bytes, (4 - to.offset % 4) % 4), words = (bytes - head) / 4 * 4, tail = bytes - head - words;
  auto copyBytes = [&](size_t offset, size_t count) {
    record();
    Range staged = stage(sizeof word);
    memcpy(staged.getHost(), &word, sizeof word);
    copy({to.block, to.offset + offset}, staged, count);
  };
  if (head) copyBytes(0, head);
  if (tail) copyBytes(head + words, tail);
  if (words) vk.CmdFillBuffer(recordCommand(VK_PIPELINE_STAGE_TRANSFER_BIT), getBuffer(to), to.offset + head, words, word);
}

void Device::dispatch(void *pipeline, const gpu::Entries::Entry &entry, const void *parameters, unsigned blocks) {
  VkCommandBuffer commands = recordCommand(VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT);
  if (std::exchange(lastPipeline, pipeline) != pipeline)
    vk.CmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, static_cast<VkPipeline>(pipeline));
  if (entry.parameterBytes <= physical.features.pushBytes) {
    vk.CmdPushConstants(commands, layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, entry.parameterBytes, parameters);
  } else {
    Address address = stageParameters(entry, parameters);
    vk.CmdPushConstants(commands, layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof address, &address);
  }
  // Threads take further iterations where the device has no larger grids.
  vk.CmdDispatch(commands, std::min(blocks, physical.properties.limits.maxComputeWorkGroupCount[0]), 1, 1);
}

void Device::stamp(gpu::SequenceEvent &event) {
  if (event.query < 0) {
    if (freeQueries.empty()) return; // more events than the device has timestamps: their times are 0
    event.query = freeQueries.back();
    freeQueries.pop_back();
  }
  VkCommandBuffer commands = recordCommand(VK_PIPELINE_STAGE_TRANSFER_BIT);
  vk.CmdResetQueryPool(commands, queries, uint32_t(event.query), 1);
  vk.CmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, queries, uint32_t(event.query));
}

void Device::forget(gpu::SequenceEvent &event) {
  if (event.query >= 0) freeQueries.push_back(uint32_t(event.query));
}

double Device::getMilliseconds(const gpu::SequenceEvent &begin, const gpu::SequenceEvent &end) {
  if (begin.query < 0 || end.query < 0) return 0;
  auto read = [&](const gpu::SequenceEvent &event) {
    int64_t time = 0;
    check(vk.GetQueryPoolResults(handle, queries, uint32_t(event.query), 1, sizeof time, &time, sizeof time,
                                 VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT));
    return time;
  };
  return double(read(end) - read(begin)) * double(physical.properties.limits.timestampPeriod) * 1e-6;
}

std::unique_ptr<gpu::SequentialDevice> VulkanApi::open(gpu::Ordinal ordinal) const {
  return std::make_unique<Device>(*this, devices[size_t(ordinal)]);
}

int VulkanApi::getAttribute(int attribute, gpu::Ordinal ordinal) const {
  const PhysicalDevice &device = devices[size_t(ordinal)];
  // How many blocks run at a time is a guess: Vulkan does not tell.
  if (attribute == gpu::kMultiprocessorCount) return device.isProcessor() ? int(std::max(1u, std::thread::hardware_concurrency())) : 64;
  return attribute == gpu::kClockKilohertz ? int(1e6 / double(device.properties.limits.timestampPeriod)) : 0;
}

void addFunctions(VulkanApi &api) {
  api.backend = "vulkan";
  api.driverName = "Vulkan";
  api.maxParameterBytes = kMaxParameterBytes;
  api.maxCopyBytes = kMaxCopyBytes;
  api.getErrorName = [](Status status, const char **name) { return *name = getName(status), Status(gpu::kSuccess); };
  gpu::addDevices(api);
}

} // namespace qd::vulkan
