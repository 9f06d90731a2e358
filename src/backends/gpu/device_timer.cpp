// device_timer.cpp: times the tasks of kernels on a GPU with events of the driver
//
// In:   the streams of launches and the ends of their tasks.
// Out:  spans of the profiler, on the host's clock.
// Here: events tell differences in milliseconds as a float. The start of a launch is measured from a reference event, which is renewed
//       before that float gets too coarse.
#include "backends/gpu/device_timer.h"

#include "runtime/profiler.h"

#include <algorithm>

namespace qd::gpu {

using runtime::Profiler;

// With more launches than this in flight, those that have ended are read.
static constexpr size_t kManyLaunches = 256;
// A float tells microseconds of a few seconds.
static constexpr uint64_t kReferenceNanoseconds = 4'000'000'000;

TaskTimer::~TaskTimer() {
  try {
    Memory::Scope scope(memory);
    for (const Pending &launch : pending)
      for (const Launch::Mark &mark : launch.marks) memory.api.destroyEvent(mark.event);
    for (Event event : unused) memory.api.destroyEvent(event);
    if (reference) memory.api.destroyEvent(reference);
  } catch (const support::Error &) {
    // After a fault there is nothing to release.
  }
}

Event TaskTimer::makeEvent() {
  Event made = nullptr;
  if (unused.empty()) {
    memory.check(memory.api.createEvent(&made, kTimed), "make an event");
  } else {
    made = unused.back();
    unused.pop_back();
  }
  return made;
}

void TaskTimer::renewReference(Stream stream) {
  memory.synchronize();
  collectPassed(); // these are measured from the former reference
  if (!reference) memory.check(memory.api.createEvent(&reference, kTimed), "make an event");
  memory.check(memory.api.recordEvent(reference, stream), "record an event");
  memory.check(memory.api.synchronizeEvent(reference), "wait for an event");
  referenceTime = runtime::readClock();
}

TaskTimer::Launch::Launch(TaskTimer &owner, Stream stream, uint32_t firstEntry) : timer(owner), stream(stream), firstEntry(firstEntry) {
  std::lock_guard lock(timer.mutex);
  if (timer.pending.size() > kManyLaunches) timer.collectPassed();
  if (!timer.reference || runtime::readClock() - timer.referenceTime > kReferenceNanoseconds) timer.renewReference(stream);
  Event begin = timer.makeEvent();
  marks.push_back({begin, 0});
  timer.memory.check(timer.memory.api.recordEvent(begin, stream), "record an event");
}

void TaskTimer::Launch::finishTask(size_t task) {
  std::lock_guard lock(timer.mutex);
  Event end = timer.makeEvent();
  marks.push_back({end, firstEntry + uint32_t(task)});
  timer.memory.check(timer.memory.api.recordEvent(end, stream), "record an event");
}

TaskTimer::Launch::~Launch() {
  std::lock_guard lock(timer.mutex);
  timer.pending.push_back({stream, std::move(marks)});
}

void TaskTimer::report(const Pending &launch) {
  auto computeNanoseconds = [&](Event from, Event to) {
    float milliseconds = 0;
    memory.check(memory.api.getElapsedTime(&milliseconds, from, to), "read an event");
    return uint64_t(std::max(0.0, double(milliseconds) * 1e6));
  };
  uint64_t begin = referenceTime + computeNanoseconds(reference, launch.marks[0].event);
  for (size_t i = 1; i < launch.marks.size(); ++i) {
    uint64_t duration = computeNanoseconds(launch.marks[i - 1].event, launch.marks[i].event);
    Profiler::get().record({launch.marks[i].entry, true, uint64_t(reinterpret_cast<uintptr_t>(launch.stream)), begin, duration});
    begin += duration;
  }
}

void TaskTimer::collectPassed() {
  std::vector<Pending> left;
  for (Pending &launch : pending) {
    if (memory.api.queryEvent(launch.marks.back().event) == kNotReady) {
      left.push_back(std::move(launch));
      continue;
    }
    report(launch);
    for (const Launch::Mark &mark : launch.marks) unused.push_back(mark.event);
  }
  pending = std::move(left);
}

} // namespace qd::gpu
