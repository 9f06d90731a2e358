// device_order.h: orders memory operations with launches in streams other than the default one
//
// Memory is allocated, released, filled and copied in the default stream. Streams of the program and of other libraries are not ordered
// with it, so that kernels of both run concurrently. Events order memory operations before and after the launches in such streams.
#pragma once

#include "backends/gpu/device_api.h"

#include <atomic>
#include <list>
#include <mutex>

namespace qd::gpu {

class StreamOrder {
public:
  explicit StreamOrder(const Api &api) : api(api) {}

  /// Call before a launch in a stream; does nothing for the default stream.
  void beginLaunch(Stream stream) {
    if (stream) follow(stream);
  }
  void endLaunch(Stream stream) {
    if (stream) mark(stream);
  }
  /// Orders everything that is put into the default stream from here on after all launches.
  void join() {
    if (aheadCount.load(std::memory_order_acquire)) joinAll();
  }
  /// Encloses memory changes in the default stream: they come after all earlier launches and before all later ones.
  class Change {
  public:
    explicit Change(StreamOrder &order) : order(order) { order.join(); }
    ~Change() { order.changes.fetch_add(1, std::memory_order_release); }
    Change(const Change &) = delete;
    Change &operator=(const Change &) = delete;

  private:
    StreamOrder &order;
  };
  /// Call when a stream ends.
  void forget(Stream stream);

private:
  struct Side {
    Stream stream;
    Event mark;        ///< recorded after its last launch
    uint64_t seen = 0; ///< number of changes before its last launch
    bool isAhead = false;
  };
  Side &find(Stream stream);
  void follow(Stream stream);
  void mark(Stream stream);
  void joinAll();

  const Api &api;
  std::mutex mutex;
  std::list<Side> sides;
  std::atomic<uint64_t> changes{1};
  std::atomic<int> aheadCount{0}; ///< side streams whose last launch the default stream does not wait for yet
  Event memoryMark = nullptr;
};

} // namespace qd::gpu
