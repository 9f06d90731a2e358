// api_device.cpp: a device: its submissions, and its memory, which is few large buffers cut into allocations
//
// In:   commands that api.cpp has given to the driver.
// Out:  submissions when the host waits, when there are many launches, or when the oldest is old. A range that is released can be used
//       again at once, because commands run in order; a buffer goes back to the driver when the last submission that may use it has ended.
#include "backends/metal/api_device.h"

#include <algorithm>
#include <cstring>

namespace qd::metal {

static constexpr unsigned kManyLaunches = 256;
static constexpr auto kLongBatch = std::chrono::milliseconds(1);
// Allocations of more bytes have a buffer of their own.
static constexpr size_t kLargeBytes = 8 << 20, kBlockBytes = 32 << 20, kAlignment = 256, kStageBytes = 256 << 10;

std::string &getLastError() {
  thread_local std::string text;
  return text;
}

Device::Device(const MetalApi &api, int ordinal, uint64_t queue) : functions(*api.functions), info(api.describeDevice(ordinal)) {
  handle = functions.open(api.devices[size_t(ordinal)], queue);
  if (!handle) throw Failure();
}

Device::~Device() {
  if (!handle) return;
  submit();
  functions.wait(handle, submitted);
  for (auto *all : {&retired, &usedStages})
    for (auto &[number, block] : *all) destroyBlock(*block);
  for (auto *all : {&stages, &idleStages})
    for (std::unique_ptr<Block> &block : *all) destroyBlock(*block);
  for (auto &[end, block] : blocks) destroyBlock(*block);
  for (auto &[end, block] : ofHost) destroyBlock(*block);
  functions.close(handle);
}

//--- Commands ---

void Device::record(bool isLaunch) {
  if (!isOpen) began = std::chrono::steady_clock::now();
  isOpen = true;
  if (isLaunch && (++launches >= kManyLaunches || std::chrono::steady_clock::now() - began > kLongBatch)) submit();
}

void Device::submit() {
  if (!isOpen) return;
  functions.submit(handle);
  ++submitted;
  isOpen = false;
  launches = 0;
  for (std::unique_ptr<Block> &block : stages) usedStages.emplace_back(submitted, std::move(block));
  stages.clear();
}

bool Device::hasEnded(uint64_t number) {
  if (number <= ended) return true;
  char error[512] = "";
  int result = functions.getEnded(handle, &ended, error, sizeof error);
  if (result) {
    getLastError() = error;
    throw Failure();
  }
  return number <= ended;
}

void Device::wait(uint64_t number) {
  if (number > submitted) submit();
  if (!hasEnded(number)) functions.wait(handle, number);
  hasEnded(number);
  retire();
}

void Device::retire() {
  std::erase_if(retired, [&](auto &entry) {
    if (entry.first > ended) return false;
    destroyBlock(*entry.second);
    return true;
  });
  std::erase_if(usedStages, [&](auto &entry) {
    if (entry.first > ended) return false;
    idleStages.push_back(std::move(entry.second));
    return true;
  });
}

Range Device::stage(size_t bytes) {
  if (stages.empty() || stageUsed + bytes > stages.back()->bytes) {
    if (idleStages.empty()) {
      hasEnded(submitted);
      retire();
    }
    if (!idleStages.empty() && bytes <= kStageBytes) {
      stages.push_back(std::move(idleStages.back()));
      idleStages.pop_back();
    } else {
      stages.push_back(makeBlock(std::max(bytes, kStageBytes)));
      if (!stages.back()) {
        stages.pop_back();
        getLastError() = "memory for parameters";
        throw Failure();
      }
    }
    stageUsed = 0;
  }
  Range range{stages.back().get(), stageUsed};
  stageUsed += (bytes + 15) / 16 * 16;
  return range;
}

//--- Memory ---

std::unique_ptr<Block> Device::makeBlock(size_t bytes) {
  auto block = std::make_unique<Block>();
  void *contents = nullptr;
  if (bytes <= info.maxBufferBytes) block->buffer = functions.makeBuffer(handle, bytes, &block->address, &contents);
  if (!block->buffer) return nullptr;
  block->contents = static_cast<unsigned char *>(contents);
  block->bytes = bytes;
  return block;
}

Address Device::allocate(size_t bytes) {
  if (bytes > info.maxBufferBytes) return 0;
  bytes = (std::max<size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  auto use = [&](Address address) {
    sizes[address] = bytes;
    usedBytes += bytes;
    return address;
  };
  for (auto &[end, block] : blocks)
    if (!block->isWhole && bytes <= kLargeBytes)
      if (std::optional<size_t> offset = block->unused.take(bytes)) return use(block->address + *offset);
  if (isOpen || !retired.empty()) hasEnded(submitted);
  retire();
  bool isWhole = bytes > kLargeBytes;
  std::unique_ptr<Block> block = makeBlock(isWhole ? bytes : kBlockBytes);
  if (!block && !isWhole) block = makeBlock(bytes);
  if (!block) return 0;
  block->isWhole = isWhole;
  if (size_t rest = block->bytes - bytes) block->unused.put(bytes, rest);
  Address address = block->address;
  blocks[address + block->bytes] = std::move(block);
  return use(address);
}

void Device::release(Address address) {
  auto size = sizes.find(address);
  if (size == sizes.end()) return;
  auto entry = blocks.upper_bound(address);
  Block &block = *entry->second;
  block.unused.put(address - block.address, size->second);
  usedBytes -= size->second;
  sizes.erase(size);
  if (!block.unused.isWhole(block.bytes)) return;
  retired.emplace_back(getLast(), std::move(entry->second));
  blocks.erase(entry);
  retire();
}

Range Device::find(Address address) const {
  auto entry = blocks.upper_bound(address);
  if (entry == blocks.end() || address < entry->second->address) {
    getLastError() = "an address that is not in memory of the device";
    throw Failure();
  }
  return {entry->second.get(), size_t(address - entry->second->address)};
}

Range Device::findHost(const void *data) const {
  auto entry = ofHost.upper_bound(static_cast<const unsigned char *>(data));
  if (entry == ofHost.end() || data < entry->second->contents) return {};
  return {entry->second.get(), size_t(static_cast<const unsigned char *>(data) - entry->second->contents)};
}

} // namespace qd::metal
