// device_streams.cpp: streams and events of the driver, for qd.Stream and qd.Event
//
// In:   requests of the runtime, with handles as they come from Python.
// Out:  calls of the driver's functions.
#include "backends/gpu/device_streams.h"

namespace qd::gpu {

namespace {

class GpuStreams final : public runtime::Streams {
public:
  explicit GpuStreams(std::shared_ptr<Memory> memory) : memory(std::move(memory)) {}

  void *makeStream() override {
    Memory::Scope scope(*memory);
    Stream made = nullptr;
    // Events order the memory operations with it: see StreamOrder.
    memory->check(api.createStream(&made, kNonBlocking), "make a stream");
    return made;
  }
  void destroyStream(void *stream) override {
    Memory::Scope scope(*memory);
    memory->order.forget(static_cast<Stream>(stream));
    memory->check(api.destroyStream(static_cast<Stream>(stream)), "destroy a stream");
  }
  void synchronizeStream(void *stream) override {
    Memory::Scope scope(*memory);
    memory->check(api.synchronizeStream(static_cast<Stream>(stream)), "finish what was launched");
  }
  bool isDone(void *stream) override {
    Memory::Scope scope(*memory);
    if (!stream) memory->order.join();
    Status status = api.queryStream(static_cast<Stream>(stream));
    if (status != kNotReady) memory->check(status, "query a stream");
    return status == kSuccess;
  }
  void order(void *first, void *then) override {
    Memory::Scope scope(*memory);
    std::lock_guard lock(ordering);
    if (!ordered) memory->check(api.createEvent(&ordered, kUntimed), "make an event");
    memory->check(api.recordEvent(ordered, static_cast<Stream>(first)), "order streams");
    memory->check(api.waitForEvent(static_cast<Stream>(then), ordered, 0), "order streams");
  }

  void *makeEvent() override {
    Memory::Scope scope(*memory);
    Event made = nullptr;
    memory->check(api.createEvent(&made, kTimed), "make an event");
    return made;
  }
  void destroyEvent(void *event) override {
    Memory::Scope scope(*memory);
    memory->check(api.destroyEvent(static_cast<Event>(event)), "destroy an event");
  }
  void recordEvent(void *event, void *stream) override {
    Memory::Scope scope(*memory);
    memory->check(api.recordEvent(static_cast<Event>(event), static_cast<Stream>(stream)), "record an event");
  }
  void waitForEvent(void *stream, void *event) override {
    Memory::Scope scope(*memory);
    memory->check(api.waitForEvent(static_cast<Stream>(stream), static_cast<Event>(event), 0), "wait for an event");
  }
  void synchronizeEvent(void *event) override {
    Memory::Scope scope(*memory);
    memory->check(api.synchronizeEvent(static_cast<Event>(event)), "wait for an event");
  }
  float computeMilliseconds(void *begin, void *end) override {
    Memory::Scope scope(*memory);
    float time = 0;
    memory->check(api.getElapsedTime(&time, static_cast<Event>(begin), static_cast<Event>(end)), "say how long it took");
    return time;
  }

private:
  std::shared_ptr<Memory> memory;
  const Api &api = memory->api;
  std::mutex ordering;
  Event ordered = nullptr;
};

} // namespace

std::unique_ptr<runtime::Streams> makeStreams(std::shared_ptr<Memory> memory) { return std::make_unique<GpuStreams>(std::move(memory)); }

} // namespace qd::gpu
