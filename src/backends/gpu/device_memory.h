// device_memory.h: the memory of one GPU: allocation and copies
//
// All operations are ordered by the default stream, which torch uses, too: memory is allocated and released there (the driver's pool reuses
// blocks at once), copies and kernels follow each other, and the host waits only for data that the program reads. `order` adds launches in
// other streams to this order.
#pragma once

#include "backends/gpu/device_api.h"
#include "backends/gpu/device_blocks.h"
#include "backends/gpu/device_order.h"
#include "runtime/buffer.h"

#include <atomic>
#include <functional>
#include <mutex>
#include <set>
#include <vector>

namespace qd::gpu {

/// One device and its state in this process. A fault of a kernel ends it: all blocks are lost, and the next `qd.init` makes a new object.
class Memory final : public runtime::DeviceMemory, public std::enable_shared_from_this<Memory> {
public:
  /// The memory of a device; one object for all runtimes of the process, until a fault, with the pool that
  /// the first one allowed. Throws Error (Runtime) if there is no such device.
  static std::shared_ptr<Memory> open(const Api &api, int ordinal, bool mayPool);

  int getOrdinal() const override { return ordinal; }
  std::string getName() const override { return api.backend + (":" + std::to_string(ordinal)); }
  runtime::BufferRef allocate(size_t bytes) override;
  runtime::BufferRef reserve(size_t bytes) override;
  void read(void *host, const void *data, size_t bytes) override;
  void write(void *data, const void *host, size_t bytes) override;
  void synchronize();
  /// Waits for a stream. After a millisecond it calls `keepWaiting` about every 50 µs, and stops waiting when that returns false.
  bool waitFor(Stream stream, const std::function<bool()> &keepWaiting);
  void fill(void *data, uint32_t word, size_t bytes) override;
  void copy(void *to, const void *from, size_t bytes) override;
  bool hasObjects() const override { return api.hasObjects; }
  void *adopt(void *foreign) override;
  void drop(void *data) noexcept override;
  std::pair<void *, size_t> locate(void *data) override;
  /// Returns the pool's unused memory to the system.
  void trim();

  int getAttribute(int attribute) const;
  /// The kernel that takes a ConditionUpdate; null if graphs of this driver have no loops.
  Function getConditionSetter();

  /// Makes the device the current one of this thread while it lives. Throws if a fault or a fork has ended the device.
  class Scope {
  public:
    explicit Scope(const Memory &memory);
    ~Scope();
    Scope(const Scope &) = delete;
    Scope &operator=(const Scope &) = delete;

  private:
    const Api &api;
    Context before = nullptr;
    bool isRestored = false;
  };

  /// Like Api::check, but also records a fault, after which all calls fail.
  void check(Status status, const char *action);

  /// Zeroed memory of the host that the device sees at the same address. Small blocks are cut from larger ones. Where kernels may not
  /// change memory of the host, it has a copy in memory of the device, which `fetch` and `send` copy in a stream.
  class Shared {
  public:
    Shared() = default;
    Shared(Memory &memory, size_t bytes);
    Shared(Shared &&other) noexcept { *this = std::move(other); }
    Shared &operator=(Shared &&other) noexcept;
    ~Shared();
    unsigned char *get() const { return data; }
    unsigned char *getOnDevice() const { return copy ? static_cast<unsigned char *>(copy->getData()) : data; }
    /// Copies the first bytes; the host may read or change them once the stream has passed that.
    void fetch(Stream stream, size_t count) const;
    void send(Stream stream, size_t count) const;
    bool isCopied() const { return bool(copy); }

  private:
    std::shared_ptr<Memory> memory;
    unsigned char *data = nullptr;
    runtime::BufferRef copy; ///< null if kernels use `data`
    size_t bytes = 0;
  };

  const Api &api;
  StreamOrder order;
  bool usesGraphs = true; ///< as set by the latest runtime

private:
  Memory(const Api &api, int ordinal, bool mayPool);
  void warmUp();
  void release(void *data) noexcept override;
  Address tryAllocate(size_t bytes);
  Address allocateBlock(size_t bytes);
  unsigned char *allocateShared(size_t bytes);
  void releaseShared(unsigned char *data, size_t bytes);
  bool isUsable() const;

  // Large copies alternate between two blocks: the device fills or empties one while the processor works on the other. Fresh memory of the
  // host is cleared page by page at first access, so a block has one huge page for each of 16 threads.
  static constexpr size_t kStageBytes = size_t(32) << 20;
  struct Stage {
    void *data = nullptr;
    Event done = nullptr; ///< recorded after the last copy
  };
  void prepareStages(size_t bytes);

  Ordinal ordinal;
  Context context = nullptr;
  MemoryPool pool = nullptr; ///< null if the device has none
  std::atomic<bool> isLost{false};
  std::once_flag isSetterLoaded;
  Function conditionSetter = nullptr; ///< as long as the context
  std::mutex managing;
  std::set<void *> managed; ///< blocks that the driver provides at the first access
  KeptBlocks keptBlocks;
  std::mutex staging;
  Stage stages[2];
  size_t stageBytes = 0; ///< per block
  std::mutex sharing;
  std::vector<std::pair<size_t, unsigned char *>> freeShared;
  unsigned char *slab = nullptr;
  size_t slabLeft = 0;
};

} // namespace qd::gpu
