// device_blocks.cpp: small blocks of a device's memory that were released, for others of the same size
//
// In:   addresses and sizes of blocks that the driver has allocated, and those that are released.
// Out:  blocks to use again, or to give back to the driver.
#include "backends/gpu/device_blocks.h"

#include <utility>

namespace qd::gpu {

static constexpr size_t kLargestBlock = 2 << 20, kMostBytes = 32 << 20;
static constexpr size_t kUnit = 512; // of the driver's pool

size_t KeptBlocks::round(size_t bytes) { return bytes > kLargestBlock ? 0 : (bytes + kUnit - 1) / kUnit * kUnit; }

Address KeptBlocks::take(size_t size) {
  std::lock_guard lock(mutex);
  auto found = kept.find(size);
  if (found == kept.end() || found->second.empty()) return 0;
  Address address = found->second.back();
  found->second.pop_back();
  keptBytes -= size;
  return address;
}

void KeptBlocks::add(Address address, size_t size) {
  std::lock_guard lock(mutex);
  sizes.emplace(address, size);
}

bool KeptBlocks::keep(Address address) {
  std::lock_guard lock(mutex);
  auto found = sizes.find(address);
  if (found == sizes.end()) return false;
  if (keptBytes + found->second > kMostBytes) {
    sizes.erase(found);
    return false;
  }
  kept[found->second].push_back(address);
  keptBytes += found->second;
  return true;
}

std::vector<Address> KeptBlocks::drop() {
  std::lock_guard lock(mutex);
  std::vector<Address> all;
  for (auto &[size, addresses] : kept)
    for (Address address : addresses) {
      all.push_back(address);
      sizes.erase(address);
    }
  kept.clear();
  keptBytes = 0;
  return all;
}

} // namespace qd::gpu
