// api_code.cpp: the functions of gpu/device_api.h: pipelines, launches, copies and events
//
// In:   what backends/gpu asks of any driver.
// Out:  commands in the device's one sequence (api_device.h); a status. Nothing throws across this table: with() makes a status of an
// error.
#include "backends/gpu/device_entries.h"
#include "backends/vulkan/api_device.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <utility>

namespace qd::vulkan {

using gpu::Status;

namespace {

/// The device that is current in a thread.
thread_local Device *current = nullptr;
thread_local std::vector<uint8_t> lastCache;

/// A pipeline of an entry.
struct Function {
  VkPipeline pipeline = VK_NULL_HANDLE;
  gpu::Entries::Entry entry; ///< without code
};

struct Module {
  Device *device;
  std::vector<Function> functions;
};

/// Runs `body` with the current device locked; an error becomes a status.
template <typename Body> Status with(Body &&body) {
  if (!current) return gpu::kInvalidValue;
  std::lock_guard lock(current->mutex);
  try {
    return body(*current);
  } catch (VkResult result) { return toStatus(result); }
}

//--- Memory ---

Status copy(Device &device, Range to, Range from, size_t bytes) {
  if (bytes == 0) return gpu::kSuccess;
  Batch &batch = device.record();
  VkBufferCopy region{from.offset, to.offset, bytes};
  device.vk.CmdCopyBuffer(batch.commands, from.block->buffer, to.block->buffer, 1, &region);
  return gpu::kSuccess;
}

Status copyToDevice(Address to, const void *data, size_t bytes, gpu::Stream) {
  return with([&](Device &device) {
    if (bytes == 0) return Status(gpu::kSuccess);
    if (Range own = device.findHost(data, bytes); own.block) return copy(device, device.find(to), own, bytes);
    device.record();
    Range staged = device.stage(bytes);
    memcpy(staged.block->host + staged.offset, data, bytes);
    return copy(device, device.find(to), staged, bytes);
  });
}

Status copyToHost(void *data, Address from, size_t bytes, gpu::Stream) {
  return with([&](Device &device) {
    if (bytes == 0) return Status(gpu::kSuccess);
    if (Range own = device.findHost(data, bytes); own.block) return copy(device, own, device.find(from), bytes);
    device.record();
    Range staged = device.stage(bytes);
    copy(device, staged, device.find(from), bytes);
    // The memory stays ours while the mutex is locked.
    unsigned char *bytesThere = staged.block->host + staged.offset;
    uint64_t number = device.getLast();
    device.submit();
    device.waitOnly(number);
    memcpy(data, bytesThere, bytes);
    device.wait(number);
    return Status(gpu::kSuccess);
  });
}

/// The command fills whole words at multiples of four bytes; the rest is copied.
Status fill(Address to, uint32_t word, size_t bytes) {
  return with([&](Device &device) {
    size_t head = std::min<size_t>(bytes, (4 - to % 4) % 4), words = (bytes - head) / 4 * 4, tail = bytes - head - words;
    auto copyBytes = [&](Address address, size_t count) {
      device.record();
      Range staged = device.stage(4);
      memcpy(staged.block->host + staged.offset, &word, 4);
      copy(device, device.find(address), staged, count);
    };
    if (head) copyBytes(to, head);
    if (tail) copyBytes(to + head + words, tail);
    if (words) {
      Batch &batch = device.record();
      Range range = device.find(to + head);
      device.vk.CmdFillBuffer(batch.commands, range.block->buffer, range.offset, words, word);
    }
    return Status(gpu::kSuccess);
  });
}

//--- Code ---

/// Makes the pipelines of a kernel, on several threads if it has many: drivers compile them now.
VkResult makePipelines(Module &module, const gpu::Entries &binary, VkPipelineCache cache) {
  Device &device = *module.device;
  const PhysicalDevice &physical = device.physical;
  std::atomic<size_t> next{0};
  std::atomic<VkResult> failure{VK_SUCCESS};
  auto work = [&] {
    for (size_t i; (i = next++) < binary.entries.size();) {
      const gpu::Entries::Entry &entry = binary.entries[i];
      auto code = make<VkShaderModuleCreateInfo>(VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO);
      code.codeSize = entry.code.size() * 4;
      code.pCode = entry.code.data();
      VkShaderModule shader = VK_NULL_HANDLE;
      VkResult result = device.vk.CreateShaderModule(device.handle, &code, nullptr, &shader);
      auto size = make<VkPipelineShaderStageRequiredSubgroupSizeCreateInfo>(
          VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO);
      size.requiredSubgroupSize = physical.features.subgroupSize;
      auto info = make<VkComputePipelineCreateInfo>(VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO);
      info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
      info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
      info.stage.module = shader;
      info.stage.pName = "main";
      if (physical.requiresSubgroupSize) info.stage.pNext = &size;
      if (physical.hasFullSubgroups && entry.blockSize % physical.features.subgroupSize == 0)
        info.stage.flags = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
      info.layout = device.layout;
      if (result == VK_SUCCESS)
        result = device.vk.CreateComputePipelines(device.handle, cache, 1, &info, nullptr, &module.functions[i].pipeline);
      device.vk.DestroyShaderModule(device.handle, shader, nullptr);
      module.functions[i].entry = {entry.name, entry.blockSize, entry.parameterBytes, {}};
      if (result != VK_SUCCESS) failure = result;
    }
  };
  constexpr size_t kMaxThreads = 8;
  size_t count = std::min({binary.entries.size(), kMaxThreads, size_t(std::max(1u, std::thread::hardware_concurrency()))});
  std::vector<std::thread> threads;
  for (size_t i = 1; i < count; ++i) threads.emplace_back(work);
  work();
  for (std::thread &thread : threads) thread.join();
  return failure;
}

void destroyModule(Module *module) {
  for (Function &function : module->functions) module->device->vk.DestroyPipeline(module->device->handle, function.pipeline, nullptr);
  delete module;
}

Status loadModule(gpu::Module *result, const void *bytes) {
  gpu::Entries binary;
  if (!current || !binary.read(static_cast<const uint8_t *>(bytes))) return gpu::kInvalidValue;
  Device &device = *current;
  auto info = make<VkPipelineCacheCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO);
  info.initialDataSize = binary.cache.size();
  info.pInitialData = binary.cache.data();
  VkPipelineCache cache = VK_NULL_HANDLE;
  if (VkResult made = device.vk.CreatePipelineCache(device.handle, &info, nullptr, &cache); made != VK_SUCCESS) return toStatus(made);
  auto *module = new Module{&device, std::vector<Function>(binary.entries.size())};
  VkResult failure = makePipelines(*module, binary, cache);
  lastCache.clear();
  size_t size = 0;
  if (failure == VK_SUCCESS && device.vk.GetPipelineCacheData(device.handle, cache, &size, nullptr) == VK_SUCCESS) {
    lastCache.resize(size);
    if (device.vk.GetPipelineCacheData(device.handle, cache, &size, lastCache.data()) != VK_SUCCESS) lastCache.clear();
  }
  device.vk.DestroyPipelineCache(device.handle, cache, nullptr);
  if (failure != VK_SUCCESS) {
    destroyModule(module);
    return toStatus(failure);
  }
  *result = reinterpret_cast<gpu::Module>(module);
  return gpu::kSuccess;
}

Status launch(gpu::Function target, unsigned grid, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, gpu::Stream,
              void **parameters, void **) {
  return with([&](Device &device) {
    auto &function = *reinterpret_cast<Function *>(target);
    Batch &batch = device.record();
    size_t bytes = function.entry.parameterBytes;
    Range staged = device.stage(bytes);
    memcpy(staged.block->host + staged.offset, parameters[0], bytes);
    Address address = staged.block->address + staged.offset;
    device.vk.CmdBindPipeline(batch.commands, VK_PIPELINE_BIND_POINT_COMPUTE, function.pipeline);
    device.vk.CmdPushConstants(batch.commands, device.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof address, &address);
    // Threads take further iterations where the device has no larger grids.
    device.vk.CmdDispatch(batch.commands, std::min(grid, device.physical.properties.limits.maxComputeWorkGroupCount[0]), 1, 1);
    device.submitWhenLong();
    return Status(gpu::kSuccess);
  });
}

//--- Streams and events: all streams are one sequence ---

Status synchronize(gpu::Stream) {
  return with([](Device &device) { return device.wait(device.getLast()), Status(gpu::kSuccess); });
}

Status recordEvent(gpu::Event event, gpu::Stream) {
  return with([&](Device &device) {
    auto &own = *reinterpret_cast<Event *>(event);
    if (own.isTimed && (own.query >= 0 || !device.freeQueries.empty())) {
      if (own.query < 0) {
        own.query = device.freeQueries.back();
        device.freeQueries.pop_back();
      }
      Batch &batch = device.record();
      device.vk.CmdResetQueryPool(batch.commands, device.queries, uint32_t(own.query), 1);
      device.vk.CmdWriteTimestamp(batch.commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, device.queries, uint32_t(own.query));
    }
    own.number = device.getLast();
    return Status(gpu::kSuccess);
  });
}

Status query(const Event &event) {
  return with([&](Device &device) {
    if (event.number == device.getLast()) device.submit();
    return Status(device.hasEnded(event.number) ? gpu::kSuccess : gpu::kNotReady);
  });
}

Status getElapsedTime(float *milliseconds, gpu::Event begin, gpu::Event end) {
  return with([&](Device &device) {
    uint64_t times[2] = {};
    Event *events[2] = {reinterpret_cast<Event *>(begin), reinterpret_cast<Event *>(end)};
    for (int i = 0; i < 2; ++i) {
      if (events[i]->query < 0) return *milliseconds = 0, Status(gpu::kSuccess); // more events than the device has timestamps
      device.wait(events[i]->number);
      device.check(device.vk.GetQueryPoolResults(device.handle, device.queries, uint32_t(events[i]->query), 1, sizeof times[i], &times[i],
                                                 sizeof times[i], VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT));
    }
    *milliseconds = float(double(int64_t(times[1] - times[0])) * double(device.physical.properties.limits.timestampPeriod) * 1e-6);
    return Status(gpu::kSuccess);
  });
}

//--- Devices ---

/// The opened devices by number.
std::map<int, std::unique_ptr<Device>> &getDevices(const VulkanApi *api) {
  static auto *all = new std::map<const VulkanApi *, std::map<int, std::unique_ptr<Device>>>;
  return (*all)[api];
}

/// The driver that was opened last: functions of the table have no other way to it. A process has one, except in tests.
const VulkanApi *opened = nullptr;

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

void addMemory(VulkanApi &api) {
  api.getMemoryInfo = [](size_t *free, size_t *total) {
    return with([&](Device &device) { return device.getInfo(*free, *total), Status(gpu::kSuccess); });
  };
  api.allocate = [](Address *result, size_t bytes) {
    return with([&](Device &device) {
      *result = device.allocate(bytes);
      return Status(*result ? gpu::kSuccess : gpu::kOutOfMemory);
    });
  };
  api.release = [](Address address) { return with([&](Device &device) { return device.release(address), Status(gpu::kSuccess); }); };
  api.allocateHost = [](void **result, size_t bytes, unsigned) {
    return with([&](Device &device) {
      Block *block = device.makeBlock(bytes, /*isOfHost=*/true);
      if (block) *result = block->host;
      return Status(block ? gpu::kSuccess : gpu::kOutOfMemory);
    });
  };
  api.releaseHost = [](void *data) {
    return with([&](Device &device) {
      device.wait(device.getLast());
      device.destroyBlock(device.findHost(data, 1).block);
      return Status(gpu::kSuccess);
    });
  };
  api.fillBytes = [](Address to, unsigned char byte, size_t bytes, gpu::Stream) { return fill(to, byte * 0x01010101u, bytes); };
  api.fillWords = [](Address to, unsigned word, size_t words, gpu::Stream) { return fill(to, word, words * 4); };
  api.copyToDevice = copyToDevice;
  api.copyToHost = copyToHost;
  api.copyOnDevice = [](Address to, Address from, size_t bytes, gpu::Stream) {
    return with([&](Device &device) { return copy(device, device.find(to), device.find(from), bytes); });
  };
}

void addCode(VulkanApi &api) {
  api.loadModule = loadModule;
  api.unloadModule = [](gpu::Module module) {
    return with([&](Device &device) {
      device.wait(device.getLast());
      destroyModule(reinterpret_cast<Module *>(module));
      return Status(gpu::kSuccess);
    });
  };
  api.getFunction = [](gpu::Function *result, gpu::Module module, const char *name) {
    for (Function &function : reinterpret_cast<Module *>(module)->functions)
      if (function.entry.name == name) return *result = reinterpret_cast<gpu::Function>(&function), Status(gpu::kSuccess);
    return Status(gpu::kInvalidValue);
  };
  // Vulkan does not tell.
  api.getOccupancy = [](int *blocks, gpu::Function, int, size_t) { return *blocks = 8, Status(gpu::kSuccess); };
  api.launch = launch;
  api.takeCache = [] { return std::exchange(lastCache, {}); };
}

void addStreams(VulkanApi &api) {
  api.createStream = [](gpu::Stream *stream, unsigned) {
    *stream = reinterpret_cast<gpu::Stream>(new char);
    return Status(gpu::kSuccess);
  };
  api.destroyStream = [](gpu::Stream stream) { return delete reinterpret_cast<char *>(stream), Status(gpu::kSuccess); };
  api.synchronizeStream = synchronize;
  api.queryStream = [](gpu::Stream) {
    return with([](Device &device) {
      uint64_t last = device.getLast();
      device.submit();
      return Status(device.hasEnded(last) ? gpu::kSuccess : gpu::kNotReady);
    });
  };
  api.waitForEvent = [](gpu::Stream, gpu::Event, unsigned) { return Status(gpu::kSuccess); };
  api.createEvent = [](gpu::Event *event, unsigned flags) {
    *event = reinterpret_cast<gpu::Event>(new Event{0, -1, flags == gpu::kTimed});
    return Status(gpu::kSuccess);
  };
  api.destroyEvent = [](gpu::Event event) {
    return with([&](Device &device) {
      auto *own = reinterpret_cast<Event *>(event);
      if (own->query >= 0) device.freeQueries.push_back(uint32_t(own->query));
      return delete own, Status(gpu::kSuccess);
    });
  };
  api.recordEvent = recordEvent;
  api.synchronizeEvent = [](gpu::Event event) {
    return with([&](Device &device) { return device.wait(reinterpret_cast<Event *>(event)->number), Status(gpu::kSuccess); });
  };
  api.queryEvent = [](gpu::Event event) { return query(*reinterpret_cast<Event *>(event)); };
  api.getElapsedTime = getElapsedTime;
}

} // namespace

void addFunctions(VulkanApi &api) {
  opened = &api;
  api.backend = "vulkan";
  api.driverName = "Vulkan";
  api.maxParameterBytes = kMaxParameterBytes;
  api.maxCopyBytes = kMaxCopyBytes;
  api.isHostMemoryShared = false; // the host's addresses mean nothing to the device
  api.attributes = {kMultiprocessorCount, kClockKilohertz, kMemoryPoolsSupported};
  api.getErrorName = [](Status status, const char **name) { return *name = getName(status), Status(gpu::kSuccess); };
  api.getErrorString = [](Status, const char **text) { return *text = nullptr, Status(gpu::kSuccess); };
  api.countDevices = [](int *count) { return *count = int(opened->devices.size()), Status(gpu::kSuccess); };
  api.getDevice = [](gpu::Ordinal *ordinal, int number) { return *ordinal = number, Status(gpu::kSuccess); };
  api.getDeviceAttribute = [](int *value, int attribute, gpu::Ordinal ordinal) {
    const PhysicalDevice &device = opened->devices[size_t(ordinal)];
    *value = 0;
    // How many blocks run at a time is a guess: Vulkan does not tell.
    if (attribute == kMultiprocessorCount) *value = device.isProcessor() ? int(std::max(1u, std::thread::hardware_concurrency())) : 64;
    if (attribute == kClockKilohertz) *value = int(1e6 / double(device.properties.limits.timestampPeriod));
    return Status(gpu::kSuccess);
  };
  api.retainContext = [](gpu::Context *context, gpu::Ordinal ordinal) {
    std::unique_ptr<Device> &device = getDevices(opened)[ordinal];
    try {
      if (!device) device = std::make_unique<Device>(*opened, opened->devices[size_t(ordinal)]);
    } catch (VkResult result) { return toStatus(result); }
    *context = reinterpret_cast<gpu::Context>(device.get());
    return Status(gpu::kSuccess);
  };
  api.resetContext = [](gpu::Ordinal ordinal) { return getDevices(opened)[ordinal].reset(), Status(gpu::kSuccess); };
  api.getCurrentContext = [](gpu::Context *context) { return *context = reinterpret_cast<gpu::Context>(current), Status(gpu::kSuccess); };
  api.setCurrentContext = [](gpu::Context context) { return current = reinterpret_cast<Device *>(context), Status(gpu::kSuccess); };
  addMemory(api);
  addCode(api);
  addStreams(api);
}

} // namespace qd::vulkan
