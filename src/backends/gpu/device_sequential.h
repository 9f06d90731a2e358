// device_sequential.h: a device whose streams are one sequence of commands, behind the functions of device_api.h
//
// Vulkan and Metal take batches of commands, and memory in few large blocks. What they share is here: batches are submitted when the host
// waits, when they have many launches, or when they are old; blocks are cut into allocations. A driver derives from SequentialDevice; its
// table (addSequence) is filled in by what is here.
#pragma once

#include "backends/gpu/device.h"
#include "backends/gpu/device_entries.h"
#include "backends/gpu/device_ranges.h"

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace qd::gpu {

/// Memory in one piece. Destroying it gives it back to the driver.
struct Block {
  virtual ~Block() = default;
  Address address = 0;
  size_t bytes = 0;
  unsigned char *host = nullptr; ///< where the host sees it; null: nowhere
  bool isWhole = false;          ///< holds one allocation
  bool isForeign = false;        ///< another library's
  unsigned borrowers = 0;        ///< of one
  FreeRanges unused;
};

struct Range {
  Block *block = nullptr;
  size_t offset = 0;
  unsigned char *getHost() const { return block->host + offset; }
  Address getAddress() const { return block->address + offset; }
};

/// An event: the batch after whose commands it comes, and where its time is.
struct SequenceEvent {
  uint64_t number = 0;
  bool isTimed = false;
  int64_t query = -1; ///< the driver's number of the time; -1: none
};

/// Makes the pipelines of a kernel, with what the driver made of them in an earlier process.
struct PipelineMaker {
  virtual ~PipelineMaker() = default;
  /// Several threads may. Throws a SequentialDevice::Failure.
  virtual void *make(const Entries::Entry &entry) = 0;
  /// What the driver made of them; empty: it does not tell.
  virtual std::vector<uint8_t> finish() = 0;
};

/// Callers of its functions hold the mutex, except where they are functions of pipelines.
class SequentialDevice {
public:
  /// What a call of the driver has thrown; functions of the table return its status.
  struct Failure {
    Status status;
    std::string text = {}; ///< the driver's own
  };

  virtual ~SequentialDevice() = default;
  SequentialDevice() = default;
  SequentialDevice(const SequentialDevice &) = delete;
  SequentialDevice &operator=(const SequentialDevice &) = delete;

  void submit();
  /// Waits until a batch has ended.
  void wait(uint64_t number);
  bool hasEnded(uint64_t number);
  /// The batch that contains everything recorded so far.
  uint64_t getLast() const { return submitted + (isOpen ? 1 : 0); }
  void copyToDevice(Address to, const void *data, size_t bytes);
  void copyToHost(void *data, Address from, size_t bytes);
  /// Runs the pipeline of an entry after what was recorded before.
  void launch(void *pipeline, const Entries::Entry &entry, const void *parameters, unsigned blocks);

  Address allocate(size_t bytes);
  void release(Address address);
  unsigned char *allocateHost(size_t bytes); ///< null: there is no more
  void releaseHost(void *data);
  Range find(Address address) const;

  // Memory of other libraries, which see blocks by the driver's own objects.
  /// The address of another library's object, which kernels may use until `drop`.
  Address adopt(void *foreign);
  /// Ends that after all commands so far: waits for them, unless the other library's come later in the same queue.
  void drop(Address address);
  virtual void *getForeign(const Block &) const { return nullptr; }
  /// A queue of the program for commands from now on; 0: an own one. `isOrdered`: other libraries submit to it what shall come after ours.
  virtual void setQueue(uint64_t, bool isOrdered) { isInOrder = isOrdered; }
  /// Call after commands of the program: other libraries' come after those that are submitted.
  void finishCall() {
    if (isInOrder) submit();
  }

  // What each driver does its own way.
  virtual void copy(Range to, Range from, size_t bytes) = 0;
  virtual void fill(Range to, uint32_t word, size_t bytes) = 0;
  virtual void getInfo(size_t &free, size_t &total) const = 0;
  virtual void stamp(SequenceEvent &event) = 0; ///< at the end of what was recorded
  virtual void forget(SequenceEvent &) {}
  virtual double getMilliseconds(const SequenceEvent &begin, const SequenceEvent &end) = 0; ///< both have happened
  virtual std::unique_ptr<PipelineMaker> openPipelines(const std::vector<uint8_t> &cache) = 0;
  virtual void destroyPipeline(void *pipeline) = 0;

  std::mutex mutex;

protected:
  /// Call before each command: opens a batch.
  void record();
  /// Memory of the host that belongs to the open batch until it has ended, 16-byte aligned.
  Range stage(size_t bytes);
  /// The parameters of an entry in such memory, for drivers that pass their address.
  Address stageParameters(const Entries::Entry &entry, const void *parameters);
  /// Gives all memory back, which derived classes do while the driver is there.
  void clear();
  /// Whether the host may access the memory when all commands of ours have ended; others' in the same queue may use it.
  bool isOpenToHost(const Block &block) const { return block.host && !isInOrder; }
  uint64_t getEnded() const { return ended; }
  size_t getUsedBytes() const { return usedBytes; }

  /// Bytes that the host reads from memory that both see; more are copied by the device. Fewer where the host does not cache it.
  size_t maxDirectRead = SIZE_MAX;

  virtual void beginBatch() {}
  virtual void submitBatch(uint64_t number) = 0;
  virtual uint64_t readEnded() = 0; ///< the last batch that has ended
  virtual void waitFor(uint64_t number) = 0;
  virtual void dispatch(void *pipeline, const Entries::Entry &entry, const void *parameters, unsigned blocks) = 0;
  virtual std::unique_ptr<Block> makeBlock(size_t bytes, bool isOfHost) = 0; ///< null: there is no more
  virtual std::unique_ptr<Block> adoptBlock(void *) { return nullptr; }      ///< null: it cannot be used

private:
  using Blocks = std::vector<std::unique_ptr<Block>>;
  using NumberedBlocks = std::vector<std::pair<uint64_t, std::unique_ptr<Block>>>; ///< with the last batch that may use them

  /// A read of memory that both see, done when all commands have ended.
  struct Read {
    Range to, from;
    size_t bytes;
  };

  void waitOnly(uint64_t number); ///< leaves memory as it is
  void orderReads();
  void transfer(Range to, Range from, size_t bytes);
  void retire();
  Range findHost(const void *data, size_t bytes) const;

  bool isOpen = false, isInOrder = false;
  // A submission costs as much as many launches. After the host has waited the device has nothing to do, so the first batch is short, and
  // each one after it is twice as long.
  static constexpr unsigned kFewLaunches = 4, kManyLaunches = 256;
  unsigned launches = 0, maxLaunches = kFewLaunches; ///< of the open batch; those with which it is submitted
  std::vector<Read> reads;
  std::chrono::steady_clock::time_point began;
  uint64_t submitted = 0, ended = 0;
  std::map<Address, std::unique_ptr<Block>> blocks;               ///< by their end
  std::map<const unsigned char *, std::unique_ptr<Block>> ofHost; ///< by their end
  std::map<Address, size_t> sizes;                                ///< of allocations
  size_t usedBytes = 0;
  Blocks stages, idleStages; ///< the open batch's; unused ones
  size_t stageUsed = 0;      ///< bytes of the last one
  NumberedBlocks retired, usedStages;
};

/// A GPU that stores what the driver made of a kernel with its binary.
class SequentialGpu : public GpuDevice {
public:
  SequentialGpu(const Api &api, const support::Options &options);
  std::unique_ptr<runtime::LoadedKernel> load(artifact::Artifact &artifact) override;
  bool addsToBinaries() const override { return true; }
};

/// Numbers of a device, for Api::getDeviceAttribute.
enum SequenceAttribute : int { kMultiprocessorCount, kClockKilohertz, kMemoryPoolsSupported };

/// Keeps a failure of this thread for Api::getErrorString; returns its status.
Status keep(const SequentialDevice::Failure &failure);
/// Adds the functions that need no driver.
void addSequence(Api &api);

/// Adds those that open devices, too: `OwnApi` has a vector `devices`, `open(ordinal)`, and `getAttribute(attribute, ordinal)`. They use
/// the driver that was added last, since functions of the table have no other way to it. A process has one, except in tests.
template <typename OwnApi> void addDevices(OwnApi &api) {
  static const OwnApi *opened = nullptr;
  using Opened = std::map<int, std::unique_ptr<SequentialDevice>>;
  static auto *all = new std::map<const OwnApi *, Opened>;
  opened = &api;
  api.countDevices = [](int *count) { return *count = int(opened->devices.size()), Status(kSuccess); };
  api.getDevice = [](Ordinal *ordinal, int number) { return *ordinal = number, Status(kSuccess); };
  api.getDeviceAttribute = [](int *value, int attribute, Ordinal ordinal) {
    return *value = opened->getAttribute(attribute, ordinal), Status(kSuccess);
  };
  api.retainContext = [](Context *context, Ordinal ordinal) {
    std::unique_ptr<SequentialDevice> &device = (*all)[opened][ordinal];
    try {
      if (!device) device = opened->open(ordinal);
    } catch (const SequentialDevice::Failure &failure) { return keep(failure); }
    return *context = reinterpret_cast<Context>(device.get()), Status(kSuccess);
  };
  api.resetContext = [](Ordinal ordinal) { return (*all)[opened][ordinal].reset(), Status(kSuccess); };
  addSequence(api);
}

} // namespace qd::gpu
