// api.cpp: finds Metal, or a library in its place, and fills in the table of functions of gpu/device_api.h
//
// In:   what backends/gpu asks of any driver.
// Out:  commands in the device's one sequence (api_device.h); a status. Nothing throws across this table: with() makes a status of an
// error.
#include "backends/metal/api.h"
#include "backends/gpu/device_entries.h"
#include "backends/gpu/drivers.h"
#include "backends/metal/api_device.h"
#include "backends/metal/limits.h"

#include <atomic>
#include <cstring>
#include <dlfcn.h>
#include <thread>

#ifdef __APPLE__
extern "C" const qd::metal::DriverFunctions *qd_metal_driver();
#endif

namespace qd::metal {

using gpu::Status;

namespace {

enum : Status { kNotCompiled = 300, kFault = 719 };

/// The device that is current in a thread.
thread_local Device *current = nullptr;
/// The driver that was opened last: functions of the table have no other way to it. A process has one, except in tests.
const MetalApi *opened = nullptr;
std::atomic<uint64_t> nextQueue{0};

/// Numbers of a device, for gpu::Api::getDeviceAttribute.
enum Attribute : int { kMultiprocessorCount, kClockKilohertz, kMemoryPoolsSupported };

struct Function {
  void *pipeline = nullptr;
  gpu::Entries::Entry entry; ///< without code
};
struct Module {
  Device *device;
  std::vector<Function> functions;
};
struct Event {
  uint64_t number = 0;
  bool isTimed = false;
};

/// Runs `body` with the current device locked; an error becomes a status.
template <typename Body> Status with(Body &&body) {
  if (!current) return gpu::kInvalidValue;
  std::lock_guard lock(current->mutex);
  try {
    return body(*current);
  } catch (const Device::Failure &) { return kFault; }
}

//--- Memory ---

Status copy(Device &device, Range to, Range from, size_t bytes) {
  device.functions.copy(device.handle, to.block->buffer, to.offset, from.block->buffer, from.offset, bytes);
  device.record();
  return gpu::kSuccess;
}

Status copyToDevice(Address to, const void *data, size_t bytes, gpu::Stream) {
  constexpr size_t kSmall = 64 << 10;
  return with([&](Device &device) {
    if (bytes == 0) return Status(gpu::kSuccess);
    Range target = device.find(to);
    if (Range own = device.findHost(data); own.block) return copy(device, target, own, bytes);
    if (bytes <= kSmall && !device.isIdle()) {
      Range staged = device.stage(bytes);
      memcpy(staged.getContents(), data, bytes);
      return copy(device, target, staged, bytes);
    }
    device.wait(device.getLast());
    memcpy(target.getContents(), data, bytes);
    return Status(gpu::kSuccess);
  });
}

Status copyToHost(void *data, Address from, size_t bytes, gpu::Stream) {
  return with([&](Device &device) {
    if (bytes == 0) return Status(gpu::kSuccess);
    Range source = device.find(from);
    if (Range own = device.findHost(data); own.block) return copy(device, own, source, bytes);
    device.wait(device.getLast());
    memcpy(data, source.getContents(), bytes);
    return Status(gpu::kSuccess);
  });
}

Status fillBytes(Address to, unsigned char byte, size_t bytes, gpu::Stream) {
  return with([&](Device &device) {
    if (bytes == 0) return Status(gpu::kSuccess);
    Range target = device.find(to);
    device.functions.fill(device.handle, target.block->buffer, target.offset, byte, bytes);
    device.record();
    return Status(gpu::kSuccess);
  });
}

/// Metal fills with bytes only.
Status fillWords(Address to, unsigned word, size_t words, gpu::Stream) {
  return with([&](Device &device) {
    if (words == 0) return Status(gpu::kSuccess);
    device.wait(device.getLast());
    unsigned char *target = device.find(to).getContents();
    for (size_t i = 0; i < words; ++i) memcpy(target + i * sizeof word, &word, sizeof word);
    return Status(gpu::kSuccess);
  });
}

void addMemory(MetalApi &api) {
  api.getMemoryInfo = [](size_t *free, size_t *total) {
    return with([&](Device &device) {
      *total = device.info.memoryBytes;
      *free = *total - std::min(*total, device.getUsedBytes());
      return Status(gpu::kSuccess);
    });
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
      std::unique_ptr<Block> block = device.makeBlock(bytes);
      if (!block) return Status(gpu::kOutOfMemory);
      *result = block->contents;
      device.ofHost[block->contents + bytes] = std::move(block);
      return Status(gpu::kSuccess);
    });
  };
  api.releaseHost = [](void *data) {
    return with([&](Device &device) {
      device.wait(device.getLast());
      auto entry = device.ofHost.upper_bound(static_cast<unsigned char *>(data));
      device.destroyBlock(*entry->second);
      device.ofHost.erase(entry);
      return Status(gpu::kSuccess);
    });
  };
  api.fillBytes = fillBytes;
  api.fillWords = fillWords;
  api.copyToDevice = copyToDevice;
  api.copyToHost = copyToHost;
  api.copyOnDevice = [](Address to, Address from, size_t bytes, gpu::Stream) {
    return with([&](Device &device) { return bytes ? copy(device, device.find(to), device.find(from), bytes) : Status(gpu::kSuccess); });
  };
}

//--- Code ---

Status loadModule(gpu::Module *result, const void *bytes) {
  gpu::Entries binary;
  if (!current || !binary.read(static_cast<const uint8_t *>(bytes))) return gpu::kInvalidValue;
  auto module = std::make_unique<Module>(Module{current, std::vector<Function>(binary.entries.size())});
  Device &device = *current;
  std::mutex mutex;
  std::string error;
  std::atomic<size_t> next{0};
  auto work = [&] {
    for (size_t i; (i = next++) < binary.entries.size();) {
      const gpu::Entries::Entry &entry = binary.entries[i];
      auto *source = reinterpret_cast<const char *>(entry.code.data());
      char text[2048] = "";
      Function &made = module->functions[i];
      made.pipeline = device.functions.makePipeline(device.handle, source, entry.name.c_str(), text, sizeof text);
      made.entry = {entry.name, entry.blockSize, entry.parameterBytes, {}};
      std::lock_guard lock(mutex);
      if (!made.pipeline) error = entry.name + ", " + std::to_string(strlen(source)) + " bytes of source: " + text;
    }
  };
  constexpr size_t kMaxThreads = 8;
  size_t count = std::min({binary.entries.size(), kMaxThreads, size_t(std::max(1u, std::thread::hardware_concurrency()))});
  std::vector<std::thread> threads;
  for (size_t i = 1; i < count; ++i) threads.emplace_back(work);
  work();
  for (std::thread &thread : threads) thread.join();
  if (!error.empty()) {
    for (Function &made : module->functions)
      if (made.pipeline) device.functions.destroyPipeline(made.pipeline);
    getLastError() = error;
    return kNotCompiled;
  }
  *result = reinterpret_cast<gpu::Module>(module.release());
  return gpu::kSuccess;
}

Status launch(gpu::Function target, unsigned grid, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, gpu::Stream,
              void **parameters, void **) {
  return with([&](Device &device) {
    auto &function = *reinterpret_cast<Function *>(target);
    Range staged = device.stage(function.entry.parameterBytes);
    memcpy(staged.getContents(), parameters[0], function.entry.parameterBytes);
    device.functions.launch(device.handle, function.pipeline, staged.block->address + staged.offset, grid, function.entry.blockSize);
    device.record(/*isLaunch=*/true);
    return Status(gpu::kSuccess);
  });
}

void addCode(MetalApi &api) {
  api.loadModule = loadModule;
  api.unloadModule = [](gpu::Module module) {
    return with([&](Device &device) {
      device.wait(device.getLast());
      std::unique_ptr<Module> own(reinterpret_cast<Module *>(module));
      for (Function &function : own->functions) device.functions.destroyPipeline(function.pipeline);
      return Status(gpu::kSuccess);
    });
  };
  api.getFunction = [](gpu::Function *result, gpu::Module module, const char *name) {
    for (Function &function : reinterpret_cast<Module *>(module)->functions)
      if (function.entry.name == name) return *result = reinterpret_cast<gpu::Function>(&function), Status(gpu::kSuccess);
    return Status(gpu::kInvalidValue);
  };
  // Metal does not tell.
  api.getOccupancy = [](int *blocks, gpu::Function, int, size_t) { return *blocks = 8, Status(gpu::kSuccess); };
  api.launch = launch;
}

//--- Streams and events: all streams are one sequence ---

Status query(uint64_t number) {
  return with([&](Device &device) {
    if (number == device.getLast()) device.submit();
    return Status(device.hasEnded(number) ? gpu::kSuccess : gpu::kNotReady);
  });
}

void addStreams(MetalApi &api) {
  api.createStream = [](gpu::Stream *stream, unsigned) {
    *stream = reinterpret_cast<gpu::Stream>(std::make_unique<char>().release());
    return Status(gpu::kSuccess);
  };
  api.destroyStream = [](gpu::Stream stream) {
    std::unique_ptr<char> own(reinterpret_cast<char *>(stream));
    return Status(gpu::kSuccess);
  };
  api.synchronizeStream = [](gpu::Stream) {
    return with([](Device &device) { return device.wait(device.getLast()), Status(gpu::kSuccess); });
  };
  api.queryStream = [](gpu::Stream) { return current ? query(current->getLast()) : Status(gpu::kInvalidValue); };
  api.waitForEvent = [](gpu::Stream, gpu::Event, unsigned) { return Status(gpu::kSuccess); };
  api.createEvent = [](gpu::Event *event, unsigned flags) {
    *event = reinterpret_cast<gpu::Event>(std::make_unique<Event>(Event{0, flags == gpu::kTimed}).release());
    return Status(gpu::kSuccess);
  };
  api.destroyEvent = [](gpu::Event event) {
    std::unique_ptr<Event> own(reinterpret_cast<Event *>(event));
    return Status(gpu::kSuccess);
  };
  api.recordEvent = [](gpu::Event event, gpu::Stream) {
    return with([&](Device &device) {
      auto &own = *reinterpret_cast<Event *>(event);
      if (own.isTimed) device.submit(); // only the ends of submissions have a time
      own.number = device.getLast();
      return Status(gpu::kSuccess);
    });
  };
  api.synchronizeEvent = [](gpu::Event event) {
    return with([&](Device &device) { return device.wait(reinterpret_cast<Event *>(event)->number), Status(gpu::kSuccess); });
  };
  api.queryEvent = [](gpu::Event event) { return query(reinterpret_cast<Event *>(event)->number); };
  api.getElapsedTime = [](float *milliseconds, gpu::Event begin, gpu::Event end) {
    return with([&](Device &device) {
      uint64_t first = reinterpret_cast<Event *>(begin)->number, last = reinterpret_cast<Event *>(end)->number;
      device.wait(std::max(first, last));
      double seconds = device.functions.getEndTime(device.handle, last) - device.functions.getEndTime(device.handle, first);
      *milliseconds = float(1e3 * seconds);
      return Status(gpu::kSuccess);
    });
  };
}

//--- Devices ---

/// The opened devices by number.
std::map<int, std::unique_ptr<Device>> &getDevices() {
  static auto *all = new std::map<const MetalApi *, std::map<int, std::unique_ptr<Device>>>;
  return (*all)[opened];
}

void addDevices(MetalApi &api) {
  api.getErrorName = [](Status status, const char **name) {
    *name = status == gpu::kOutOfMemory ? "no memory" : status == kNotCompiled ? "Metal's compiler" : status == kFault ? "Metal" : nullptr;
    return Status(gpu::kSuccess);
  };
  api.getErrorString = [](Status status, const char **text) {
    *text = status >= kNotCompiled && status != gpu::kNotReady ? getLastError().c_str() : nullptr;
    return Status(gpu::kSuccess);
  };
  api.countDevices = [](int *count) { return *count = int(opened->devices.size()), Status(gpu::kSuccess); };
  api.getDevice = [](gpu::Ordinal *ordinal, int number) { return *ordinal = number, Status(gpu::kSuccess); };
  api.getDeviceAttribute = [](int *value, int attribute, gpu::Ordinal) {
    // How many blocks run at a time is a guess: Metal does not tell. There is no clock.
    *value = attribute == kMultiprocessorCount ? 32 : 0;
    return Status(gpu::kSuccess);
  };
  api.retainContext = [](gpu::Context *context, gpu::Ordinal ordinal) {
    std::unique_ptr<Device> &device = getDevices()[ordinal];
    try {
      if (!device) device = std::make_unique<Device>(*opened, ordinal, nextQueue);
    } catch (const Device::Failure &) { return Status(gpu::kNoDevice); }
    *context = reinterpret_cast<gpu::Context>(device.get());
    return Status(gpu::kSuccess);
  };
  api.resetContext = [](gpu::Ordinal ordinal) { return getDevices()[ordinal].reset(), Status(gpu::kSuccess); };
  api.getCurrentContext = [](gpu::Context *context) { return *context = reinterpret_cast<gpu::Context>(current), Status(gpu::kSuccess); };
  api.setCurrentContext = [](gpu::Context context) { return current = reinterpret_cast<Device *>(context), Status(gpu::kSuccess); };
}

std::string load(const std::string &library, MetalApi &api) {
  GetDriver find = nullptr;
#ifdef __APPLE__
  find = qd_metal_driver;
#endif
  if (!library.empty()) {
    void *handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) return library + " cannot be loaded";
    find = reinterpret_cast<GetDriver>(dlsym(handle, "qd_metal_driver"));
    if (!find) return library + " is no driver in place of Metal";
  }
  if (!find) return "Metal exists on Apple's systems only";
  api.functions = find();
  std::string problems;
  for (int i = 0; i < api.functions->countDevices(); ++i) {
    DeviceInfo info{};
    api.functions->describe(i, &info);
    if (!info.problem[0])
      api.devices.push_back(i);
    else
      problems += (problems.empty() ? " (" : "; ") + std::string(info.name) + ": " + info.problem;
  }
  if (api.devices.empty()) return "Metal has no device that can be used" + (problems.empty() ? "" : problems + ")");
  addFunctions(api);
  return "";
}

} // namespace

DeviceInfo MetalApi::describeDevice(int ordinal) const {
  DeviceInfo info{};
  functions->describe(devices[size_t(ordinal)], &info);
  return info;
}

void setQueue(uint64_t queue) { nextQueue = queue; }

const Driver &findDriver(const std::string &library) { return gpu::findDriver<Driver>(library, load); }

void addFunctions(MetalApi &api) {
  opened = &api;
  api.backend = "metal";
  api.driverName = "Metal";
  api.maxParameterBytes = kMaxParameterBytes;
  api.maxCopyBytes = kMaxCopyBytes;
  api.isHostMemoryShared = false; // the host's addresses mean nothing to the device
  api.attributes = {kMultiprocessorCount, kClockKilohertz, kMemoryPoolsSupported};
  addDevices(api);
  addMemory(api);
  addCode(api);
  addStreams(api);
}

} // namespace qd::metal
