// device_sequential.cpp: a device whose streams are one sequence of commands: its batches, its memory, and its table of functions
//
// In:   what backends/gpu asks of any driver.
// Out:  calls of the driver's own functions (device_sequential.h). A range of memory that is released can be used again at once, because
//       commands run in order; a block goes back to the driver when the last batch that may use it has ended.
#include "backends/gpu/device_sequential.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <utility>

namespace qd::gpu {

static constexpr auto kLongBatch = std::chrono::milliseconds(1);
// Allocations of more bytes have a block of their own.
static constexpr size_t kLargeBytes = 8 << 20, kBlockBytes = 32 << 20, kAlignment = 256;
static constexpr size_t kStageBytes = 256 << 10, kStageAlignment = 16;
// Smaller copies to a device that is at work do not wait for it. Longer ones begin at once: the host copies another part meanwhile.
static constexpr size_t kSmallCopy = 64 << 10;

static size_t roundUp(size_t bytes, size_t multiple) { return (bytes + multiple - 1) / multiple * multiple; }

//--- Commands ---

void SequentialDevice::record() {
  if (!reads.empty()) orderReads();
  if (isOpen) return;
  hasEnded(submitted);
  retire();
  beginBatch();
  isOpen = true;
  launches = 0;
  began = std::chrono::steady_clock::now();
}

void SequentialDevice::submit() {
  maxLaunches = kFewLaunches;
  if (!isOpen) return;
  isOpen = false;
  ++submitted;
  for (std::unique_ptr<Block> &block : stages) usedStages.emplace_back(submitted, std::move(block));
  stages.clear();
  submitBatch(submitted);
}

bool SequentialDevice::hasEnded(uint64_t number) {
  if (number > ended) ended = readEnded();
  if (ended == submitted && !isOpen)
    for (const Read &read : std::exchange(reads, {})) memcpy(read.to.getHost(), read.from.getHost(), read.bytes);
  return number <= ended;
}

/// Call before a command, which may change the memory that is to be read.
void SequentialDevice::orderReads() {
  if (!isOpen) return waitOnly(submitted); // they are done then
  for (const Read &read : std::exchange(reads, {})) copy(read.to, read.from, read.bytes);
}

void SequentialDevice::waitOnly(uint64_t number) {
  if (number > submitted) submit();
  if (hasEnded(number)) return;
  waitFor(number);
  hasEnded(number);
}

void SequentialDevice::wait(uint64_t number) {
  waitOnly(number);
  retire();
}

void SequentialDevice::retire() {
  auto hasLeft = [&](auto &entry) { return entry.first <= ended; };
  for (auto &entry : usedStages)
    if (hasLeft(entry) && entry.second->bytes == kStageBytes) idleStages.push_back(std::move(entry.second));
  std::erase_if(usedStages, hasLeft);
  std::erase_if(retired, hasLeft);
}

Range SequentialDevice::stage(size_t bytes) {
  if (stages.empty() || stageUsed + bytes > stages.back()->bytes) {
    bool isUsual = bytes <= kStageBytes;
    if (isUsual && !idleStages.empty()) {
      stages.push_back(std::move(idleStages.back()));
      idleStages.pop_back();
    } else {
      std::unique_ptr<Block> block = makeBlock(isUsual ? kStageBytes : bytes, /*isOfHost=*/true);
      if (!block) throw Failure{kOutOfMemory};
      stages.push_back(std::move(block));
    }
    stageUsed = 0;
  }
  return {stages.back().get(), std::exchange(stageUsed, stageUsed + roundUp(bytes, kStageAlignment))};
}

/// Copies between the device and memory of the host that is ours.
void SequentialDevice::transfer(Range to, Range from, size_t bytes) {
  copy(to, from, bytes);
  if (bytes > kSmallCopy) submit();
}

void SequentialDevice::copyToDevice(Address to, const void *data, size_t bytes) {
  if (bytes == 0) return;
  Range target = find(to);
  if (Range own = findHost(data, bytes); own.block) return transfer(target, own, bytes);
  if (isOpenToHost(*target.block) && (bytes > kSmallCopy || hasEnded(getLast()))) {
    wait(getLast());
    memcpy(target.getHost(), data, bytes);
    return;
  }
  record();
  Range staged = stage(bytes);
  memcpy(staged.getHost(), data, bytes);
  copy(target, staged, bytes);
}

void SequentialDevice::copyToHost(void *data, Address from, size_t bytes) {
  if (bytes == 0) return;
  Range source = find(from), there = source;
  bool isDirect = isOpenToHost(*source.block) && bytes <= maxDirectRead;
  if (Range own = findHost(data, bytes); own.block) {
    if (isDirect && bytes <= kSmallCopy) {
      reads.push_back({own, source, bytes});
      hasEnded(getLast());
      return;
    }
    return transfer(own, source, bytes);
  }
  if (!isDirect) {
    record();
    there = stage(bytes);
    copy(there, source, bytes);
  }
  waitOnly(getLast()); // the staged memory stays ours
  memcpy(data, there.getHost(), bytes);
  retire();
}

Address SequentialDevice::stageParameters(const Entries::Entry &entry, const void *parameters) {
  Range staged = stage(entry.parameterBytes);
  memcpy(staged.getHost(), parameters, entry.parameterBytes);
  return staged.getAddress();
}

void SequentialDevice::launch(void *pipeline, const Entries::Entry &entry, const void *parameters, unsigned blocksOfGrid) {
  record();
  dispatch(pipeline, entry, parameters, blocksOfGrid);
  if (++launches < maxLaunches && std::chrono::steady_clock::now() - began <= kLongBatch) return;
  unsigned next = std::min(2 * maxLaunches, kManyLaunches);
  submit();
  maxLaunches = next;
}

//--- Memory ---

Address SequentialDevice::allocate(size_t bytes) {
  if (bytes > SIZE_MAX / 2) return 0;
  bytes = roundUp(std::max<size_t>(bytes, 1), kAlignment);
  auto use = [&](Address address) {
    sizes[address] = bytes;
    usedBytes += bytes;
    return address;
  };
  for (auto &[end, block] : blocks)
    if (!block->isWhole && bytes <= kLargeBytes)
      if (std::optional<size_t> offset = block->unused.take(bytes)) return use(block->address + *offset);
  hasEnded(submitted);
  retire(); // blocks that commands still used may be free now
  bool isWhole = bytes > kLargeBytes;
  std::unique_ptr<Block> block = makeBlock(isWhole ? bytes : kBlockBytes, /*isOfHost=*/false);
  if (!block && !isWhole) block = makeBlock(bytes, /*isOfHost=*/false);
  if (!block) return 0;
  block->isWhole = isWhole;
  if (size_t rest = block->bytes - bytes) block->unused.put(bytes, rest);
  Address address = block->address;
  blocks[address + block->bytes] = std::move(block);
  return use(address);
}

void SequentialDevice::release(Address address) {
  auto size = sizes.find(address);
  if (size == sizes.end()) return;
  auto entry = blocks.upper_bound(address);
  Block &block = *entry->second;
  block.unused.put(address - block.address, size->second);
  usedBytes -= size->second;
  sizes.erase(size);
  if (!block.unused.isWhole(block.bytes)) return;
  retired.emplace_back(getLast(), std::move(entry->second)); // commands that were recorded before may still use it
  blocks.erase(entry);
  hasEnded(submitted);
  retire();
}

Address SequentialDevice::adopt(void *foreign) {
  for (auto &[end, block] : blocks) // an own one comes back
    if (getForeign(*block) == foreign) return ++block->borrowers, block->address;
  std::unique_ptr<Block> block = adoptBlock(foreign);
  if (!block) throw Failure{kInvalidValue};
  block->isWhole = block->isForeign = true;
  block->borrowers = 1;
  Address address = block->address;
  blocks[address + block->bytes] = std::move(block);
  return address;
}

void SequentialDevice::drop(Address address) {
  uint64_t last = getLast();
  auto entry = blocks.upper_bound(address);
  if (--entry->second->borrowers == 0 && entry->second->isForeign) {
    retired.emplace_back(last, std::move(entry->second));
    blocks.erase(entry);
  }
  if (!isInOrder) wait(last);
}

unsigned char *SequentialDevice::allocateHost(size_t bytes) {
  std::unique_ptr<Block> block = makeBlock(bytes, /*isOfHost=*/true);
  if (!block) return nullptr;
  unsigned char *data = block->host;
  ofHost[data + bytes] = std::move(block);
  return data;
}

void SequentialDevice::releaseHost(void *data) {
  wait(getLast());
  ofHost.erase(ofHost.upper_bound(static_cast<unsigned char *>(data)));
}

Range SequentialDevice::find(Address address) const {
  auto entry = blocks.upper_bound(address);
  if (entry == blocks.end() || address < entry->second->address) throw Failure{kInvalidValue};
  return {entry->second.get(), size_t(address - entry->second->address)};
}

/// A range of memory of the host that contains all of these bytes; null block: it is not from here.
Range SequentialDevice::findHost(const void *data, size_t bytes) const {
  auto *begin = static_cast<const unsigned char *>(data);
  auto entry = ofHost.upper_bound(begin);
  if (entry == ofHost.end() || begin < entry->second->host || begin + bytes > entry->first) return {};
  return {entry->second.get(), size_t(begin - entry->second->host)};
}

void SequentialDevice::clear() {
  reads.clear();
  for (Blocks *all : {&stages, &idleStages}) all->clear();
  for (NumberedBlocks *all : {&retired, &usedStages}) all->clear();
  blocks.clear();
  ofHost.clear();
}

//--- The table ---

namespace {

// Of each thread: the device that is current, what its driver made of the last kernel, the last failure.
thread_local SequentialDevice *current = nullptr;
thread_local std::vector<uint8_t> lastCache;
thread_local SequentialDevice::Failure lastFailure{kSuccess};

struct Pipeline {
  void *handle = nullptr;
  Entries::Entry entry; ///< without code
};
struct Pipelines {
  SequentialDevice *device;
  std::vector<Pipeline> all;
  ~Pipelines() {
    for (Pipeline &pipeline : all)
      if (pipeline.handle) device->destroyPipeline(pipeline.handle);
  }
};

/// Runs `body` with the current device locked. Nothing throws across the table: a failure becomes a status.
template <typename Body> Status with(const Body &body) {
  if (!current) return kInvalidValue;
  std::lock_guard lock(current->mutex);
  try {
    Status status = kSuccess;
    if constexpr (std::is_void_v<decltype(body(*current))>)
      body(*current);
    else
      status = body(*current);
    current->finishCall();
    return status;
  } catch (const SequentialDevice::Failure &failure) { return keep(failure); }
}

/// Makes the pipelines of a kernel, on several threads if it has many: drivers compile them now.
Status loadModule(Module *result, const void *bytes) {
  Entries binary;
  if (!current || !binary.read(static_cast<const uint8_t *>(bytes))) return kInvalidValue;
  auto module = std::make_unique<Pipelines>(current, std::vector<Pipeline>(binary.entries.size()));
  std::atomic<size_t> next{0};
  std::mutex mutex;
  SequentialDevice::Failure failed{kSuccess};
  try {
    std::unique_ptr<PipelineMaker> maker = current->openPipelines(binary.cache);
    auto work = [&] {
      for (size_t i; (i = next++) < binary.entries.size();) try {
          const Entries::Entry &entry = binary.entries[i];
          module->all[i] = {maker->make(entry), {entry.name, entry.blockSize, entry.parameterBytes, {}}};
        } catch (const SequentialDevice::Failure &failure) {
          std::lock_guard lock(mutex);
          failed = failure;
        }
    };
    constexpr size_t kMaxThreads = 8;
    size_t count = std::min({binary.entries.size(), kMaxThreads, size_t(std::max(1u, std::thread::hardware_concurrency()))});
    std::vector<std::thread> threads;
    for (size_t i = 1; i < count; ++i) threads.emplace_back(work);
    work();
    for (std::thread &thread : threads) thread.join();
    if (failed.status != kSuccess) return keep(failed);
    lastCache = maker->finish();
  } catch (const SequentialDevice::Failure &failure) { return keep(failure); }
  *result = reinterpret_cast<Module>(module.release());
  return kSuccess;
}

void addCode(Api &api) {
  api.loadModule = loadModule;
  api.unloadModule = [](Module module) {
    return with([&](SequentialDevice &device) {
      device.wait(device.getLast());
      std::unique_ptr<Pipelines> own(reinterpret_cast<Pipelines *>(module));
    });
  };
  api.getFunction = [](Function *result, Module module, const char *name) {
    for (Pipeline &pipeline : reinterpret_cast<Pipelines *>(module)->all)
      if (pipeline.entry.name == name) return *result = reinterpret_cast<Function>(&pipeline), Status(kSuccess);
    return Status(kInvalidValue);
  };
  // Such drivers do not tell.
  api.getOccupancy = [](int *blocks, Function, int, size_t) { return *blocks = 8, Status(kSuccess); };
  api.launch = [](Function target, unsigned grid, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, void **parameters,
                  void **) {
    auto &pipeline = *reinterpret_cast<Pipeline *>(target);
    return with([&](SequentialDevice &device) { device.launch(pipeline.handle, pipeline.entry, parameters[0], grid); });
  };
}

void addMemory(Api &api) {
  api.getMemoryInfo = [](size_t *free, size_t *total) { return with([&](SequentialDevice &device) { device.getInfo(*free, *total); }); };
  api.allocate = [](Address *result, size_t bytes) {
    return with([&](SequentialDevice &device) { return Status((*result = device.allocate(bytes)) ? kSuccess : kOutOfMemory); });
  };
  api.release = [](Address address) { return with([&](SequentialDevice &device) { device.release(address); }); };
  api.adopt = [](Address *result, void *foreign) { return with([&](SequentialDevice &device) { *result = device.adopt(foreign); }); };
  api.drop = [](Address address) { return with([&](SequentialDevice &device) { device.drop(address); }); };
  api.locate = [](void **foreign, size_t *offset, Address address) {
    return with([&](SequentialDevice &device) {
      Range range = device.find(address);
      *foreign = device.getForeign(*range.block);
      *offset = range.offset;
    });
  };
  api.setQueue = [](uint64_t queue, bool isOrdered) { return with([&](SequentialDevice &device) { device.setQueue(queue, isOrdered); }); };
  api.allocateHost = [](void **result, size_t bytes, unsigned) {
    return with([&](SequentialDevice &device) { return Status((*result = device.allocateHost(bytes)) ? kSuccess : kOutOfMemory); });
  };
  api.releaseHost = [](void *data) { return with([&](SequentialDevice &device) { device.releaseHost(data); }); };
  api.fillBytes = [](Address to, unsigned char byte, size_t bytes, Stream) {
    return with([&](SequentialDevice &device) {
      if (bytes) device.fill(device.find(to), byte * 0x01010101u, bytes);
    });
  };
  api.fillWords = [](Address to, unsigned word, size_t words, Stream) {
    return with([&](SequentialDevice &device) {
      if (words) device.fill(device.find(to), word, words * sizeof word);
    });
  };
  api.copyToDevice = [](Address to, const void *data, size_t bytes, Stream) {
    return with([&](SequentialDevice &device) { device.copyToDevice(to, data, bytes); });
  };
  api.copyToHost = [](void *data, Address from, size_t bytes, Stream) {
    return with([&](SequentialDevice &device) { device.copyToHost(data, from, bytes); });
  };
  api.copyOnDevice = [](Address to, Address from, size_t bytes, Stream) {
    return with([&](SequentialDevice &device) {
      if (bytes) device.copy(device.find(to), device.find(from), bytes);
    });
  };
}

SequenceEvent &get(Event event) { return *reinterpret_cast<SequenceEvent *>(event); }

/// Whether everything up to an event has happened; null: everything so far.
Status query(const SequenceEvent *event) {
  return with([&](SequentialDevice &device) {
    uint64_t number = event ? event->number : device.getLast();
    if (number == device.getLast()) device.submit();
    return Status(device.hasEnded(number) ? kSuccess : kNotReady);
  });
}

void addStreams(Api &api) {
  api.createStream = [](Stream *stream, unsigned) {
    return *stream = reinterpret_cast<Stream>(std::make_unique<char>().release()), Status(kSuccess);
  };
  api.destroyStream = [](Stream stream) { return std::unique_ptr<char>(reinterpret_cast<char *>(stream)), Status(kSuccess); };
  api.synchronizeStream = [](Stream) { return with([](SequentialDevice &device) { device.wait(device.getLast()); }); };
  api.queryStream = [](Stream) { return query(nullptr); };
  api.waitForEvent = [](Stream, Event, unsigned) { return Status(kSuccess); };
  api.createEvent = [](Event *event, unsigned flags) {
    auto made = std::make_unique<SequenceEvent>(SequenceEvent{.isTimed = flags == kTimed});
    return *event = reinterpret_cast<Event>(made.release()), Status(kSuccess);
  };
  api.destroyEvent = [](Event event) {
    std::unique_ptr<SequenceEvent> own(&get(event));
    return with([&](SequentialDevice &device) { device.forget(*own); });
  };
  api.recordEvent = [](Event event, Stream) {
    return with([&](SequentialDevice &device) {
      if (get(event).isTimed) device.stamp(get(event));
      get(event).number = device.getLast();
    });
  };
  api.synchronizeEvent = [](Event event) { return with([&](SequentialDevice &device) { device.wait(get(event).number); }); };
  api.queryEvent = [](Event event) { return query(&get(event)); };
  api.getElapsedTime = [](float *milliseconds, Event begin, Event end) {
    return with([&](SequentialDevice &device) {
      device.wait(std::max(get(begin).number, get(end).number));
      *milliseconds = float(device.getMilliseconds(get(begin), get(end)));
    });
  };
}

} // namespace

Status keep(const SequentialDevice::Failure &failure) {
  lastFailure = failure;
  return failure.status;
}

void addSequence(Api &api) {
  api.getErrorString = [](Status status, const char **text) {
    *text = status == lastFailure.status && !lastFailure.text.empty() ? lastFailure.text.c_str() : nullptr;
    return Status(kSuccess);
  };
  api.isHostMemoryShared = false; // the host's addresses mean nothing to the device
  api.attributes = {kMultiprocessorCount, kClockKilohertz, kMemoryPoolsSupported};
  api.getCurrentContext = [](Context *context) { return *context = reinterpret_cast<Context>(current), Status(kSuccess); };
  api.setCurrentContext = [](Context context) { return current = reinterpret_cast<SequentialDevice *>(context), Status(kSuccess); };
  addCode(api);
  addMemory(api);
  addStreams(api);
}

SequentialGpu::SequentialGpu(const Api &api, const support::Options &options) : GpuDevice(api, options, /*mayPool=*/false) {
  memory->usesGraphs = false;
}

std::unique_ptr<runtime::LoadedKernel> SequentialGpu::load(artifact::Artifact &artifact) {
  lastCache.clear();
  std::unique_ptr<runtime::LoadedKernel> kernel = GpuDevice::load(artifact);
  std::vector<uint8_t> made = std::exchange(lastCache, {});
  Entries binary;
  if (made.empty() || !binary.read(artifact.binary.data()) || !binary.cache.empty()) return kernel;
  binary.cache = std::move(made);
  artifact.binary = binary.write();
  return kernel;
}

} // namespace qd::gpu
