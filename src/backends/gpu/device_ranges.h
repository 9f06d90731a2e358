// device_ranges.h: which ranges of a block of memory are unused, for drivers whose allocations are large and few
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>

namespace qd::gpu {

class FreeRanges {
public:
  /// The offset of so many unused bytes, which become used.
  std::optional<size_t> take(size_t bytes) {
    auto hole = std::find_if(holes.begin(), holes.end(), [&](auto &own) { return own.second >= bytes; });
    if (hole == holes.end()) return std::nullopt;
    auto [offset, size] = *hole;
    holes.erase(hole);
    if (size > bytes) holes[offset + bytes] = size - bytes;
    return offset;
  }
  /// Makes a range unused, and joins its neighbors.
  void put(size_t offset, size_t bytes) {
    auto after = holes.lower_bound(offset);
    if (after != holes.end() && after->first == offset + bytes) {
      bytes += after->second;
      after = holes.erase(after);
    }
    if (after != holes.begin() && std::prev(after)->first + std::prev(after)->second == offset)
      std::prev(after)->second += bytes;
    else
      holes[offset] = bytes;
  }
  /// Whether a block of this size is unused as a whole.
  bool isWhole(size_t bytes) const { return !holes.empty() && holes.begin()->second == bytes; }

private:
  std::map<size_t, size_t> holes; ///< offset → bytes
};

} // namespace qd::gpu
