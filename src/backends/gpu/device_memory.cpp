// device_memory.cpp: the memory of one GPU: opening the device, allocation, waiting, pinned memory and staged copies
//
// In:   sizes, addresses, and memory of the host.
// Out:  memory of the device, from the driver's pool where it has one; copies, through pinned memory where that is faster.
#include "backends/gpu/device_memory.h"

#include "runtime/copy.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <pthread.h>
#include <thread>

namespace qd::gpu {

using support::Error;
using support::ErrorKind;

// Kernels may read a whole vector at the last element.
static constexpr size_t kPaddingBytes = 64;
// Amount of unused memory that the pool retains; other libraries in the process need memory, too.
static constexpr uint64_t kRetainedBytes = 128 << 20;
static constexpr size_t kSlabBytes = 64 << 10;
// Smaller copies are one call of the driver.
static constexpr size_t kSmallCopy = 64 << 10;
static constexpr size_t kHugePage = 2 << 20; // also the unit in which managed memory is provided
// Most zeros on each side of reserved memory where all of it is allocated at once.
static constexpr size_t kMaxAllocatedMargin = 16 << 20;

static std::atomic<bool> isForked{false};

//--- Opening and ending ---

std::shared_ptr<Memory> Memory::open(const Api &api, int ordinal, bool mayPool) {
  static std::mutex mutex;
  // Never destroyed: memory is released until the process ends.
  static auto *opened = new std::vector<std::shared_ptr<Memory>>;
  static const bool isWatched = [] { return pthread_atfork(nullptr, nullptr, [] { isForked = true; }) == 0; }();
  (void)isWatched;
  std::lock_guard lock(mutex);
  int count = 0;
  api.check(api.countDevices(&count), "count its devices");
  if (ordinal < 0 || ordinal >= count)
    throw Error(ErrorKind::Runtime, "there is no GPU number " + std::to_string(ordinal) + ": " + api.driverName + " sees " +
                                        std::to_string(count) + ", counted from 0");
  for (std::shared_ptr<Memory> &memory : *opened) {
    if (memory->ordinal != ordinal || &memory->api != &api) continue;
    if (memory->isLost) {
      api.setCurrentContext(nullptr); // if another library left the lost context current, every call fails
      api.check(api.resetContext(ordinal), "be reset after a fault");
      try {
        memory.reset(new Memory(api, ordinal, mayPool));
      } catch (const DriverError &) { // the driver gives no new context while another library's runtime still uses the lost one
        throw Error(ErrorKind::Runtime, "the GPU cannot be used again in this process: a kernel has faulted, and another library of this "
                                        "process (torch?) uses the GPU, too; start the process again");
      }
    }
    return memory;
  }
  opened->emplace_back(new Memory(api, ordinal, mayPool));
  opened->back()->warmUp();
  return opened->back();
}

Memory::Memory(const Api &api, int number, bool mayPool) : api(api), order(api) {
  api.check(api.getDevice(&ordinal, number), "be opened");
  // The primary context, which the CUDA runtime and torch use, too.
  api.check(api.retainContext(&context, ordinal), "make a context");
  if (!mayPool || !api.getDefaultMemoryPool || !getAttribute(api.attributes.memoryPoolsSupported) ||
      api.getDefaultMemoryPool(&pool, ordinal) != kSuccess)
    return;
  uint64_t kept = kRetainedBytes;
  api.check(api.setPoolAttribute(pool, kReleaseThreshold, &kept), "set up its pool of memory");
}

/// Makes the driver create its pool and load its own routines, which it does at first use, before the first launch.
void Memory::warmUp() {
  Scope scope(*this);
  Address address = tryAllocate(1);
  if (!address) return;
  check(api.fillBytes(address, 0, 1, nullptr), "clear memory");
  unsigned char byte = 0;
  check(api.copyToHost(&byte, address, 1, nullptr), "copy to the host");
  check(api.synchronizeStream(nullptr), "finish what was launched");
  release(reinterpret_cast<void *>(address));
}

int Memory::getAttribute(int attribute) const {
  int value = 0;
  api.check(api.getDeviceAttribute(&value, attribute, ordinal), "report its properties");
  return value;
}

Function Memory::getConditionSetter() {
  std::call_once(isSetterLoaded, [&] {
    if (!api.hasLoops()) return;
    Scope scope(*this);
    Module module = nullptr;
    check(api.loadModule(&module, api.conditionSetter), "load the code that ends loops of graphs");
    check(api.getFunction(&conditionSetter, module, "set_condition"), "find the code that ends loops of graphs");
  });
  return conditionSetter;
}

bool Memory::isUsable() const { return !isLost && !isForked; }

Memory::Scope::Scope(const Memory &memory) : api(memory.api) {
  if (isForked)
    throw Error(ErrorKind::Runtime, std::string("the GPU does not work in a process that was forked after qd.init(arch=qd.") + api.backend +
                                        "): start processes with the method 'spawn', or call qd.init in the child only");
  if (memory.isLost) throw Error(ErrorKind::Runtime, "a kernel has faulted, and all memory on the GPU is lost: call qd.init() again");
  api.getCurrentContext(&before);
  if (before == memory.context) return;
  api.check(api.setCurrentContext(memory.context), "become current in this thread");
  // A thread without a context uses the first device anyway, so that device's context can stay current.
  isRestored = before || memory.ordinal != 0;
}

Memory::Scope::~Scope() {
  if (isRestored) api.setCurrentContext(before);
}

void Memory::check(Status status, const char *action) {
  if (status == kSuccess) [[likely]]
    return;
  // These codes are faults of kernels (illegal addresses and instructions, traps, time-outs), after which the context is unusable.
  if (status == 700 || status == 702 || status == 709 || status == 710 || (status >= 714 && status <= 719)) {
    isLost = true;
    throw Error(ErrorKind::Runtime, "a kernel has faulted: " + api.describe(status) +
                                        ". All memory on the GPU is lost; call qd.init() again, with debug=True to have indices checked");
  }
  throw DriverError(api, status, action);
}

void Memory::synchronize() {
  Scope scope(*this);
  order.join();
  check(api.synchronizeStream(nullptr), "finish what was launched");
}

bool Memory::waitFor(Stream stream, const std::function<bool()> &keepWaiting) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kShortWait = std::chrono::milliseconds(1);
  constexpr auto kPollInterval = std::chrono::microseconds(50);
  // Short waits spin, like the driver's own.
  Clock::time_point begin = Clock::now();
  for (Status status; (status = api.queryStream(stream)) != kSuccess;) {
    if (status != kNotReady) check(status, "finish what was launched");
    if (Clock::now() - begin < kShortWait) continue;
    if (!keepWaiting()) return false;
    std::this_thread::sleep_for(kPollInterval);
  }
  return true;
}

//--- Blocks ---

Address Memory::tryAllocate(size_t bytes) {
  Address address = 0;
  Status status = pool ? api.allocateAsync(&address, bytes, nullptr) : api.allocate(&address, bytes);
  if (status == kOutOfMemory) return 0;
  check(status, "allocate memory");
  return address;
}

Address Memory::allocateBlock(size_t bytes) {
  const size_t size = pool ? KeptBlocks::round(bytes) : 0;
  if (Address address = size ? keptBlocks.take(size) : 0) return address;
  Address address = tryAllocate(size ? size : bytes);
  if (!address) {
    // Blocks that kernels still use are freed when the kernels end.
    trim();
    address = tryAllocate(size ? size : bytes);
  }
  if (address && size) keptBlocks.add(address, size);
  return address;
}

runtime::BufferRef Memory::allocate(size_t bytes) {
  Scope scope(*this);
  if (bytes > SIZE_MAX - kPaddingBytes) bytes = SIZE_MAX - kPaddingBytes;
  Address address = allocateBlock(bytes + kPaddingBytes);
  if (!address) {
    size_t free = 0, total = 0;
    api.getMemoryInfo(&free, &total);
    throw Error(ErrorKind::Memory, "cannot allocate " + std::to_string(bytes) + " bytes on the GPU (" + api.backend +
                                       "): " + std::to_string(free) + " of " + std::to_string(total) + " bytes are free, " +
                                       std::to_string(runtime::getMemoryUse().bytes) + " are in use by Quadrants");
  }
  auto *data = reinterpret_cast<void *>(address);
  StreamOrder::Change change(order);
  runtime::BufferRef buffer = runtime::Buffer::adopt(shared_from_this(), data, bytes);
  check(api.fillBytes(address, 0, bytes + kPaddingBytes, nullptr), "clear memory");
  return buffer;
}

runtime::BufferRef Memory::reserve(size_t bytes) {
  Scope scope(*this);
  auto [own, margin] = runtime::Buffer::planMargins(bytes + kPaddingBytes, kHugePage);
  Address address = 0;
  if (bytes >= kHugePage && api.allocateManaged && getAttribute(api.attributes.concurrentManagedAccess) &&
      api.allocateManaged(&address, own + 2 * margin, kAttachGlobal) == kSuccess) {
    if (api.advise) api.advise(address, own + 2 * margin, kPreferredLocation, ordinal); // optional
    auto *block = reinterpret_cast<void *>(address);
    std::lock_guard lock(managing);
    managed.insert(block);
    runtime::BufferRef buffer = runtime::Buffer::adopt(shared_from_this(), block, bytes + 2 * margin, /*isReserved=*/true);
    buffer->cutMargins(margin);
    return buffer;
  }
  constexpr size_t kAlignment = 256; // of the driver's own blocks
  margin = runtime::Buffer::planMargins(bytes, kAlignment, kMaxAllocatedMargin).second;
  runtime::BufferRef buffer = allocate(bytes + 2 * margin);
  buffer->cutMargins(margin);
  return buffer;
}

void Memory::release(void *data) noexcept {
  if (!isUsable()) return;
  try {
    Scope scope(*this);
    order.join();
    if (std::lock_guard lock(managing); managed.erase(data)) {
      api.release(Address(data));
      return;
    }
    if (keptBlocks.keep(Address(data))) return;
    pool ? api.releaseAsync(Address(data), nullptr) : api.release(Address(data));
  } catch (const Error &) {} // the driver has shut down already
}

void Memory::trim() {
  Scope scope(*this);
  for (Address address : keptBlocks.drop()) api.releaseAsync(address, nullptr);
  synchronize();
  if (pool) check(api.trimPool(pool, 0), "release memory");
}

void Memory::fill(void *data, uint32_t word, size_t bytes) {
  Scope scope(*this);
  StreamOrder::Change change(order);
  bool isByte = word == (word & 0xff) * 0x01010101u;
  check(isByte ? api.fillBytes(Address(data), static_cast<unsigned char>(word), bytes, nullptr)
               : api.fillWords(Address(data), word, bytes / sizeof word, nullptr),
        "fill memory");
}

void Memory::copy(void *to, const void *from, size_t bytes) {
  Scope scope(*this);
  StreamOrder::Change change(order);
  if (bytes) check(api.copyOnDevice(Address(to), Address(from), bytes, nullptr), "copy memory");
}

//--- Memory of other libraries ---

void *Memory::adopt(void *foreign) {
  if (!api.hasObjects) return foreign;
  Scope scope(*this);
  Address address = 0;
  check(api.adopt(&address, foreign), "use memory of another library");
  return reinterpret_cast<void *>(address);
}

void Memory::drop(void *data) noexcept {
  if (!api.hasObjects || !isUsable()) return;
  try {
    Scope scope(*this);
    check(api.drop(Address(data)), "give memory back");
  } catch (const Error &) {} // a fault is reported by the next call
}

std::pair<void *, size_t> Memory::locate(void *data) {
  if (!api.hasObjects) return {data, 0};
  Scope scope(*this);
  std::pair<void *, size_t> place;
  check(api.locate(&place.first, &place.second, Address(data)), "find memory");
  return place;
}

//--- Memory that both see ---

unsigned char *Memory::allocateShared(size_t bytes) {
  Scope scope(*this);
  std::lock_guard lock(sharing);
  auto found = std::find_if(freeShared.begin(), freeShared.end(), [&](auto &block) { return block.first == bytes; });
  if (found != freeShared.end()) {
    unsigned char *data = found->second;
    freeShared.erase(found);
    return data;
  }
  auto allocatePinned = [&](size_t size) {
    void *data = nullptr;
    check(api.allocateHost(&data, size, kPortable | kMapped), "allocate memory of the host");
    return static_cast<unsigned char *>(data);
  };
  if (bytes > kSlabBytes / 4) return allocatePinned(bytes);
  if (bytes > slabLeft) {
    slab = allocatePinned(kSlabBytes); // the remainder of the previous slab stays unused
    slabLeft = kSlabBytes;
  }
  slabLeft -= bytes;
  return std::exchange(slab, slab + bytes);
}

void Memory::releaseShared(unsigned char *data, size_t bytes) {
  std::lock_guard lock(sharing);
  freeShared.emplace_back(bytes, data);
}

Memory::Shared::Shared(Memory &owner, size_t wanted) : memory(owner.shared_from_this()), bytes((wanted + 255) & ~size_t(255)) {
  data = owner.allocateShared(bytes);
  memset(data, 0, bytes);
  if (!owner.api.isHostMemoryShared) copy = owner.allocate(bytes);
}

void Memory::Shared::fetch(Stream stream, size_t count) const {
  if (copy) memory->check(memory->api.copyToHost(data, Address(copy->getData()), count, stream), "copy to the host");
}

void Memory::Shared::send(Stream stream, size_t count) const {
  if (copy) memory->check(memory->api.copyToDevice(Address(copy->getData()), data, count, stream), "copy from the host");
}

Memory::Shared &Memory::Shared::operator=(Shared &&other) noexcept {
  std::swap(memory, other.memory);
  std::swap(data, other.data);
  std::swap(copy, other.copy);
  std::swap(bytes, other.bytes);
  return *this;
}

Memory::Shared::~Shared() {
  if (data) memory->releaseShared(data, bytes);
}

//--- Copies ---

/// Bytes per staged copy: several chunks per transfer, so that host and device work at the same time.
static size_t getChunk(size_t bytes, size_t maxBytes) {
  if (bytes <= kSmallCopy) return kSmallCopy;
  return std::min(maxBytes, std::max(kHugePage, bytes / 4 / kHugePage * kHugePage));
}

void Memory::prepareStages(size_t wanted) {
  if (wanted <= stageBytes) return;
  for (Stage &stage : stages) {
    if (stage.done) check(api.synchronizeEvent(stage.done), "copy from the host");
    if (stage.data) check(api.releaseHost(std::exchange(stage.data, nullptr)), "release memory of the host");
    check(api.allocateHost(&stage.data, wanted, kPortable), "allocate memory of the host");
    if (!stage.done) check(api.createEvent(&stage.done, kUntimed), "make an event");
  }
  stageBytes = wanted;
}

void Memory::read(void *host, const void *data, size_t bytes) {
  if (bytes == 0) return;
  Scope scope(*this);
  order.join();
  std::lock_guard lock(staging);
  const size_t chunk = getChunk(bytes, kStageBytes);
  prepareStages(chunk);
  auto *out = static_cast<unsigned char *>(host);
  auto finish = [&](size_t begin) {
    const Stage &stage = stages[begin / chunk % 2];
    check(api.synchronizeEvent(stage.done), "copy to the host");
    runtime::copyMemory(out + begin, stage.data, std::min(chunk, bytes - begin));
  };
  for (size_t begin = 0; begin < bytes; begin += chunk) {
    const Stage &stage = stages[begin / chunk % 2];
    check(api.copyToHost(stage.data, Address(data) + begin, std::min(chunk, bytes - begin), nullptr), "copy to the host");
    check(api.recordEvent(stage.done, nullptr), "copy to the host");
    if (begin) finish(begin - chunk);
  }
  finish((bytes - 1) / chunk * chunk);
}

void Memory::write(void *data, const void *host, size_t bytes) {
  if (bytes == 0) return;
  Scope scope(*this);
  StreamOrder::Change change(order);
  if (bytes <= kSmallCopy) {
    // The driver copies pageable memory before it returns.
    check(api.copyToDevice(Address(data), host, bytes, nullptr), "copy from the host");
    return;
  }
  std::lock_guard lock(staging);
  const size_t chunk = getChunk(bytes, kStageBytes);
  prepareStages(chunk);
  for (size_t begin = 0; begin < bytes; begin += chunk) {
    const Stage &stage = stages[begin / chunk % 2];
    size_t size = std::min(chunk, bytes - begin);
    check(api.synchronizeEvent(stage.done), "copy from the host");
    runtime::copyMemory(stage.data, static_cast<const unsigned char *>(host) + begin, size);
    check(api.copyToDevice(Address(data) + begin, stage.data, size, nullptr), "copy from the host");
    check(api.recordEvent(stage.done, nullptr), "copy from the host");
  }
}

} // namespace qd::gpu
