// device_blocks.h: small blocks of a device's memory that were released, for others of the same size
#pragma once

#include "backends/gpu/device_api.h"

#include <mutex>
#include <unordered_map>
#include <vector>

namespace qd::gpu {

/// Each of the two calls of the driver's pool takes as long as a launch. In the order of the default stream, all that used a released
/// block comes before what will. All calls are thread-safe.
class KeptBlocks {
public:
  /// The size of the block that is allocated for so many bytes; 0 if blocks of that size are not kept.
  static size_t round(size_t bytes);
  /// A kept block of a size that `round` has returned; 0 if there is none.
  Address take(size_t size);
  /// Registers a block that the driver has allocated.
  void add(Address address, size_t size);
  /// Keeps a block that is released; false if it was not registered, or enough are kept.
  bool keep(Address address);
  /// Forgets all kept blocks and returns them.
  std::vector<Address> drop();

private:
  std::mutex mutex;
  std::unordered_map<Address, size_t> sizes; ///< of registered blocks, in use or kept
  std::unordered_map<size_t, std::vector<Address>> kept;
  size_t keptBytes = 0;
};

} // namespace qd::gpu
