// buffer.h: a block of memory with a reference count. Containers, NumPy views and running kernels each own one reference.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace qd::runtime {

class BufferRef;

/// Memory that the processor cannot access: data is copied in and out. All calls are thread-safe and throw support::Error.
class DeviceMemory {
public:
  virtual ~DeviceMemory() = default;
  /// The device's number in DLPack and other libraries.
  virtual int getOrdinal() const = 0;
  /// The device for messages, as other libraries name it.
  virtual std::string getName() const = 0;
  /// Allocates zero-filled memory. Throws Error (Memory) with the requested and the available size.
  virtual BufferRef allocate(size_t bytes) = 0;
  /// As `allocate`, for memory of which a small part may be used, with zeros on each side, as Buffer::reserve has them: a device that can
  /// provides all of it at the first access.
  virtual BufferRef reserve(size_t bytes) = 0;
  /// Both wait for earlier launches as far as needed; `host` may be reused when they return.
  virtual void read(void *host, const void *data, size_t bytes) = 0;
  virtual void write(void *data, const void *host, size_t bytes) = 0;
  /// Queued in the order of launches, without waiting. `word` is repeated; `data` and `bytes` are multiples of 4 unless all bytes of the
  /// word are equal.
  virtual void fill(void *data, uint32_t word, size_t bytes) = 0;
  virtual void copy(void *to, const void *from, size_t bytes) = 0;
  /// Whether other libraries know memory by an object, not by its address.
  virtual bool hasObjects() const { return false; }
  /// The address of another library's object, for kernels until `drop`, which waits for them if the library does not.
  virtual void *adopt(void *foreign) { return foreign; }
  virtual void drop(void *) noexcept {}
  /// The object that contains an address, and the offset in it.
  virtual std::pair<void *, size_t> locate(void *data) { return {data, 0}; }

protected:
  friend class Buffer;
  virtual void release(void *data) noexcept = 0;
};

/// Zero-filled memory, 64-byte aligned; large blocks are 2 MiB aligned and backed by huge pages (page walks cost a virtual machine
/// half of its bandwidth). The address never changes.
class Buffer {
public:
  /// Throws support::Error (Memory) with the requested size.
  static BufferRef allocate(size_t bytes);
  /// Reserves zero-filled memory that the system provides page by page at the first access. It may be larger than the machine's memory.
  /// On each side are as many more zeros (kMaxMargin at most): what an index finds that is out of range by less than the extent of its
  /// axis.
  static BufferRef reserve(size_t bytes);
  static constexpr size_t kMaxMargin = size_t(64) << 30; ///< on each side
  /// Bytes of reserved memory in whole units, and of each of its margins.
  static std::pair<size_t, size_t> planMargins(size_t bytes, size_t unit, size_t most = kMaxMargin) {
    size_t own = (bytes + unit - 1) / unit * unit;
    return {own, std::min(own, most)};
  }
  /// Leaves so many zeros on each side of the bytes, which are counted no more.
  void cutMargins(size_t margin);
  /// Whether most of memory that holds zeros only should be given back, of which the last round used `used` bytes, and `most` is the most
  /// that a round used since some was.
  bool isMostlyFree(size_t used, size_t most) const;
  /// Gives the pages of reserved memory back to the system; they count as zero then.
  void discard();
  /// Gives all memory of a device back, which no kernel that runs and no view may use; `provide` takes new memory, zeroed, elsewhere.
  void vacate();
  void provide();
  bool isVacant() const { return memory && !block; }
  /// Number of bytes of reserved memory that the system has provided; a device does not tell, but for memory that was given back.
  size_t countPresent() const;
  /// The parts of a range of this buffer that may hold other bytes than zeros, as pairs of offsets: of reserved memory the pages that the
  /// system has provided, of other memory all.
  std::vector<std::pair<size_t, size_t>> listPresent(size_t begin, size_t end) const;
  bool isReserved() const { return reserved; }
  /// Takes over memory that a device has allocated or reserved and will release.
  static BufferRef adopt(std::shared_ptr<DeviceMemory> memory, void *data, size_t bytes, bool isReserved = false);
  /// Borrows memory of another owner, on a device when `memory` is given: `giveBack(owner)` is called when the last reference is dropped.
  static BufferRef borrow(void *data, size_t bytes, bool isWritable, void *owner, void (*giveBack)(void *),
                          std::shared_ptr<DeviceMemory> memory = nullptr);

  int64_t countOwners() const { return owners.load(std::memory_order_acquire); }
  bool hasOneOwner() const { return countOwners() == 1; }
  void *getData() const { return data; }
  size_t getSize() const { return size; }
  bool isWritable() const { return writable; }
  /// Null when the processor reads and writes the bytes itself.
  DeviceMemory *getMemory() const { return memory.get(); }

  /// Counts writes by this package. Views of other libraries are not counted: they hold the address permanently.
  void noteWrite() { writes.store(writes.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
  /// Counts a write by the launch with this number; launches count from 1.
  void noteLaunch(uint64_t number) {
    noteWrite();
    lastLaunch.store(number, std::memory_order_relaxed);
  }
  uint64_t getLastLaunch() const { return lastLaunch.load(std::memory_order_relaxed); }
  void noteView() { writes.store(kUncounted, std::memory_order_relaxed); }
  /// Number of writes. When it is the same as before, nothing was written in between. kUncounted: not known.
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
  bool reserved = false;
  void *block = nullptr;              ///< block from the system; contains `data`
  size_t mappedBytes = 0;             ///< size of a mapping; 0: `block` came from calloc
  void (*giveBack)(void *) = nullptr; ///< for borrowed memory, whose owner is `block`
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
/// Total size and number of all live buffers.
MemoryUse getMemoryUse();

} // namespace qd::runtime
