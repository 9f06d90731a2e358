// api.cpp: finds Metal, or a library in its place, and puts its devices behind the functions of gpu/device_api.h
//
// In:   what gpu/device_sequential.h asks of a driver.
// Out:  calls of driver.h. All memory is shared with the host.
#include "backends/metal/api.h"
#include "backends/metal/limits.h"

#include <algorithm>
#include <cstring>
#include <utility>

#ifdef __APPLE__
extern "C" const qd::metal::DriverFunctions *qd_metal_driver();
#endif

namespace qd::metal {

using gpu::Range;
using gpu::Status;

namespace {

enum : Status { kNotCompiled = 300, kFault = 719 };

/// A driver's device.
struct Opened {
  const DriverFunctions &functions;
  void *handle;
};

/// A buffer of Metal's.
struct Block final : gpu::Block {
  explicit Block(const Opened &device) : device(device) {}
  ~Block() override {
    if (buffer) device.functions.destroyBuffer(device.handle, buffer);
  }
  const Opened &device;
  void *buffer = nullptr;
};

void *getBuffer(const Range &range) { return static_cast<Block *>(range.block)->buffer; }

class Pipelines final : public gpu::PipelineMaker {
public:
  Pipelines(const Opened &device, const std::vector<uint8_t> &cache)
      : device(device), archive(device.functions.openArchive(device.handle, cache.data(), cache.size())) {}
  ~Pipelines() override {
    if (archive) device.functions.closeArchive(archive, [](void *, const void *, size_t) {}, nullptr);
  }

  void *make(const gpu::Entries::Entry &entry) override {
    auto *source = reinterpret_cast<const char *>(entry.code.data());
    char text[2048] = "";
    void *made = device.functions.makePipeline(device.handle, archive, source, entry.name.c_str(), text, sizeof text);
    if (made) return made;
    throw gpu::SequentialDevice::Failure{kNotCompiled, entry.name + ", " + std::to_string(strlen(source)) + " bytes of source: " + text};
  }

  std::vector<uint8_t> finish() override {
    std::vector<uint8_t> bytes;
    auto take = [](void *to, const void *from, size_t count) {
      auto *begin = static_cast<const uint8_t *>(from);
      static_cast<std::vector<uint8_t> *>(to)->assign(begin, begin + count);
    };
    if (archive) device.functions.closeArchive(std::exchange(archive, nullptr), take, &bytes);
    return bytes;
  }

private:
  const Opened &device;
  void *archive; ///< null: Metal keeps none
};

class Device final : public gpu::SequentialDevice {
public:
  Device(const MetalApi &api, int ordinal)
      : info(api.describeDevice(ordinal)), device{*api.functions, api.functions->open(api.devices[size_t(ordinal)])},
        functions(device.functions) {
    if (!device.handle) throw Failure{gpu::kNoDevice};
  }
  ~Device() override {
    submit();
    functions.wait(device.handle, getLast());
    clear();
    functions.close(device.handle);
  }

  void setQueue(uint64_t queue, bool isOrdered) override {
    if (queue != std::exchange(ownQueue, queue)) {
      wait(getLast());
      functions.setQueue(device.handle, queue);
    }
    SequentialDevice::setQueue(queue, isOrdered);
  }
  void *getForeign(const gpu::Block &block) const override { return functions.getForeign(static_cast<const Block &>(block).buffer); }
  void copy(Range to, Range from, size_t bytes) override {
    record();
    functions.copy(device.handle, getBuffer(to), to.offset, getBuffer(from), from.offset, bytes);
  }
  /// Metal fills with bytes only.
  void fill(Range to, uint32_t word, size_t bytes) override {
    if (word == (word & 0xff) * 0x01010101u) {
      record();
      return functions.fill(device.handle, getBuffer(to), to.offset, static_cast<unsigned char>(word), bytes);
    }
    Range place = to;
    if (isOpenToHost(*to.block)) {
      wait(getLast());
    } else {
      record();
      place = stage(bytes);
    }
    for (size_t i = 0; i < bytes; i += sizeof word) memcpy(place.getHost() + i, &word, sizeof word);
    if (place.block != to.block) copy(to, place, bytes);
  }
  void getInfo(size_t &free, size_t &total) const override {
    total = info.memoryBytes;
    free = total - std::min(total, getUsedBytes());
  }
  /// Only the ends of batches have a time.
  void stamp(gpu::SequenceEvent &) override { submit(); }
  double getMilliseconds(const gpu::SequenceEvent &begin, const gpu::SequenceEvent &end) override {
    return 1e3 * (functions.getEndTime(device.handle, end.number) - functions.getEndTime(device.handle, begin.number));
  }
  std::unique_ptr<gpu::PipelineMaker> openPipelines(const std::vector<uint8_t> &cache) override {
    return std::make_unique<Pipelines>(device, cache);
  }
  void destroyPipeline(void *pipeline) override { functions.destroyPipeline(pipeline); }

private:
  void submitBatch(uint64_t) override { functions.submit(device.handle); }
  uint64_t readEnded() override {
    char error[512] = "";
    uint64_t number = 0;
    if (functions.getEnded(device.handle, &number, error, sizeof error)) throw Failure{kFault, error};
    return number;
  }
  void waitFor(uint64_t number) override { functions.wait(device.handle, number); }
  void dispatch(void *pipeline, const gpu::Entries::Entry &entry, const void *parameters, unsigned blocks) override {
    functions.launch(device.handle, pipeline, stageParameters(entry, parameters), blocks, entry.blockSize);
  }
  std::unique_ptr<gpu::Block> makeBlock(size_t bytes, bool) override {
    auto block = std::make_unique<Block>(device);
    void *contents = nullptr;
    if (bytes <= info.maxBufferBytes) block->buffer = functions.makeBuffer(device.handle, bytes, &block->address, &contents);
    if (!block->buffer) return nullptr;
    block->host = static_cast<unsigned char *>(contents);
    block->bytes = bytes;
    return block;
  }

  std::unique_ptr<gpu::Block> adoptBlock(void *foreign) override {
    auto block = std::make_unique<Block>(device);
    void *contents = nullptr;
    block->buffer = functions.adoptBuffer(device.handle, foreign, &block->bytes, &block->address, &contents);
    if (!block->buffer) return nullptr;
    block->host = static_cast<unsigned char *>(contents);
    return block;
  }

  DeviceInfo info;
  Opened device;
  const DriverFunctions &functions;
  uint64_t ownQueue = 0; ///< of the program; 0: the driver's
};

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
  api.backend = "metal";
  api.driverName = "Metal";
  api.maxParameterBytes = kMaxParameterBytes;
  api.maxCopyBytes = kMaxCopyBytes;
  api.hasObjects = true;
  api.getErrorName = [](Status status, const char **name) {
    *name = status == gpu::kOutOfMemory ? "no memory" : status == kNotCompiled ? "Metal's compiler" : status == kFault ? "Metal" : nullptr;
    return Status(gpu::kSuccess);
  };
  gpu::addDevices(api);
  return "";
}

} // namespace

DeviceInfo MetalApi::describeDevice(int ordinal) const {
  DeviceInfo info{};
  functions->describe(devices[size_t(ordinal)], &info);
  return info;
}

std::unique_ptr<gpu::SequentialDevice> MetalApi::open(gpu::Ordinal ordinal) const { return std::make_unique<Device>(*this, ordinal); }

/// How many blocks run at a time is a guess: Metal does not tell. There is no clock.
int MetalApi::getAttribute(int attribute, gpu::Ordinal) const { return attribute == gpu::kMultiprocessorCount ? 32 : 0; }

const Driver &findDriver(const std::string &library) { return gpu::findDriver<MetalApi>(library, load); }

} // namespace qd::metal
