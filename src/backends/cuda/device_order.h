// device_order.h: how the memory is ordered with launches in streams beside the default one.
//
// Memory is taken, given back, filled and copied in the default stream. Streams of a program and of other libraries do not wait for it by
// themselves, nor it for them, so that kernels of both run side by side; events put what concerns memory before and after their launches.
#pragma once

#include "backends/cuda/api.h"

#include <atomic>
#include <list>
#include <mutex>

namespace qd::cuda {

class StreamOrder {
public:
  explicit StreamOrder(const Api &api) : api(api) {}

  /// To be called around a launch in a stream; nothing happens for the default one.
  void beginLaunch(Stream stream) {
    if (stream) follow(stream);
  }
  void endLaunch(Stream stream) {
    if (stream) mark(stream);
  }
  /// What is put into the default stream from here on comes after all launches.
  void join() {
    if (aheadCount.load(std::memory_order_acquire)) joinAll();
  }
  /// Around what changes memory in the default stream: it comes after all launches before, and before all launches after.
  class Change {
  public:
    explicit Change(StreamOrder &order) : order(order) { order.join(); }
    ~Change() { order.changes.fetch_add(1, std::memory_order_release); }
    Change(const Change &) = delete;
    Change &operator=(const Change &) = delete;

  private:
    StreamOrder &order;
  };
  /// Of a stream that ends.
  void forget(Stream stream);

private:
  struct Side {
    Stream stream;
    Event mark;        ///< after its last launch
    uint64_t seen = 0; ///< how many changes came before its last launch
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
  std::atomic<int> aheadCount{0}; ///< sides whose last launch the default stream does not wait for yet
  Event memoryMark = nullptr;
};

} // namespace qd::cuda
