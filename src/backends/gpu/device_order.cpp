// device_order.cpp: orders memory operations in the default stream with launches in other streams, by events
//
// In:   the stream of an operation.
// Out:  events on which later operations of other streams wait.
#include "backends/gpu/device_order.h"

namespace qd::gpu {

StreamOrder::Side &StreamOrder::find(Stream stream) {
  for (Side &side : sides)
    if (side.stream == stream) return side;
  Event mark = nullptr;
  api.check(api.createEvent(&mark, kUntimed), "make an event");
  return sides.emplace_back(Side{stream, mark});
}

void StreamOrder::follow(Stream stream) {
  std::lock_guard lock(mutex);
  Side &side = find(stream);
  uint64_t now = changes.load(std::memory_order_acquire);
  if (side.seen == now) return;
  if (!memoryMark) api.check(api.createEvent(&memoryMark, kUntimed), "make an event");
  api.check(api.recordEvent(memoryMark, nullptr), "order streams");
  api.check(api.waitForEvent(stream, memoryMark, 0), "order streams");
  side.seen = now;
}

void StreamOrder::mark(Stream stream) {
  std::lock_guard lock(mutex);
  Side &side = find(stream);
  // Record now, not when the event is waited for: a stream of another library may be gone by then.
  api.check(api.recordEvent(side.mark, stream), "order streams");
  if (!side.isAhead) aheadCount.fetch_add(1, std::memory_order_release);
  side.isAhead = true;
}

void StreamOrder::joinAll() {
  std::lock_guard lock(mutex);
  for (Side &side : sides) {
    if (!side.isAhead) continue;
    api.check(api.waitForEvent(nullptr, side.mark, 0), "order streams");
    side.isAhead = false;
    aheadCount.fetch_sub(1, std::memory_order_relaxed);
  }
}

void StreamOrder::forget(Stream stream) {
  join();
  std::lock_guard lock(mutex);
  sides.remove_if([&](const Side &side) {
    if (side.stream != stream) return false;
    api.destroyEvent(side.mark);
    return true;
  });
}

} // namespace qd::gpu
