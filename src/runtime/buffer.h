// buffer.h: a block of memory with a count of its owners. Containers, NumPy views and running kernels each own one reference.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace qd::runtime {

class BufferRef;

/// Memory that the processor does not reach: what lies in it goes out and in by copies. All calls are thread-safe and throw support::Error.
class DeviceMemory {
public:
  virtual ~DeviceMemory() = default;
  /// The number that DLPack and other libraries know the device by.
  virtual int getOrdinal() const = 0;
  /// Zero-filled. Throws Error (Memory) that says how much was asked for and how much there is.
  virtual BufferRef allocate(size_t bytes) = 0;
  /// Both wait for the kernels that were launched before as far as is needed; `host` may be used again when they return.
  virtual void read(void *host, const void *data, size_t bytes) = 0;
  virtual void write(void *data, const void *host, size_t bytes) = 0;
  /// In the order of launches, without waiting. `word` is repeated; `data` and `bytes` are multiples of 4 unless its bytes are equal.
  virtual void fill(void *data, uint32_t word, size_t bytes) = 0;
  virtual void copy(void *to, const void *from, size_t bytes) = 0;

protected:
  friend class Buffer;
  virtual void release(void *data) noexcept = 0;
};

/// Zero-filled memory, 64-byte aligned; large blocks are 2 MiB aligned and backed by huge pages (page walks cost a virtual machine
/// half of its bandwidth). The address never changes.
class Buffer {
public:
  /// Throws support::Error (Memory) that says how much was asked for.
  static BufferRef allocate(size_t bytes);
  /// What a device has allocated and will release.
  static BufferRef adopt(std::shared_ptr<DeviceMemory> memory, void *data, size_t bytes);
  /// Memory of someone else, on a device where `memory` is given: `giveBack(owner)` is called when the last reference goes.
  static BufferRef borrow(void *data, size_t bytes, bool isWritable, void *owner, void (*giveBack)(void *),
                          std::shared_ptr<DeviceMemory> memory = nullptr);

  bool hasOneOwner() const { return owners.load(std::memory_order_acquire) == 1; }
  void *getData() const { return data; }
  size_t getSize() const { return size; }
  bool isWritable() const { return writable; }
  /// Null when the processor reads and writes the bytes itself.
  DeviceMemory *getMemory() const { return memory.get(); }

  /// Counts what may have written to it, but for views of other libraries: these have its address for good.
  void noteWrite() { writes.store(writes.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
  /// By a kernel: the launch with this number, from 1.
  void noteLaunch(uint64_t number) {
    noteWrite();
    lastLaunch.store(number, std::memory_order_relaxed);
  }
  uint64_t getLastLaunch() const { return lastLaunch.load(std::memory_order_relaxed); }
  void noteView() { writes.store(kUncounted, std::memory_order_relaxed); }
  /// The same number as before: nothing was written in between. kUncounted: nobody knows.
  uint64_t getWrites() const {
    uint64_t now = writes.load(std::memory_order_relaxed);
    return now >= kUncounted ? kUncounted : now;
  }
  static constexpr uint64_t kUncounted = uint64_t(1) << 63;

private:
  friend class BufferRef;
  Buffer() = default;
  ~Buffer();
  std::atomic<int64_t> owners{1};
  std::atomic<uint64_t> writes{0}, lastLaunch{0};
  void *data = nullptr;
  size_t size = 0;
  bool writable = true;
  void *block = nullptr;              ///< what was obtained from the system; `data` lies within
  size_t mappedBytes = 0;             ///< size of a mapping; 0: `block` came from calloc
  void (*giveBack)(void *) = nullptr; ///< of borrowed memory, whose owner `block` is
  std::shared_ptr<DeviceMemory> memory;
};

/// One reference to a Buffer, or none.
class BufferRef {
public:
  BufferRef() = default;
  BufferRef(const BufferRef &other) : buffer(other.buffer) {
    if (buffer) buffer->owners.fetch_add(1, std::memory_order_relaxed);
  }
  BufferRef(BufferRef &&other) noexcept : buffer(std::exchange(other.buffer, nullptr)) {}
  BufferRef &operator=(BufferRef other) noexcept {
    std::swap(buffer, other.buffer);
    return *this;
  }
  ~BufferRef() {
    if (buffer && buffer->owners.fetch_sub(1, std::memory_order_acq_rel) == 1) delete buffer;
  }
  Buffer *get() const { return buffer; }
  Buffer *operator->() const { return buffer; }
  explicit operator bool() const { return buffer; }

private:
  friend class Buffer;
  explicit BufferRef(Buffer *adopted) : buffer(adopted) {}
  Buffer *buffer = nullptr;
};

struct MemoryUse {
  int64_t bytes = 0;
  int64_t blocks = 0;
};
/// All buffers that are alive now.
MemoryUse getMemoryUse();

} // namespace qd::runtime
