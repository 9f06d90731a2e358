// device_timer.h: times the tasks of kernels on a GPU, for the profiler
#pragma once

#include "backends/gpu/device_memory.h"

#include <mutex>
#include <vector>

namespace qd::gpu {

/// Records events between tasks, and reads them once they have passed: launches never wait. One for each device.
class TaskTimer {
public:
  explicit TaskTimer(std::shared_ptr<Memory> memory) : owner(std::move(memory)) {}
  ~TaskTimer();
  TaskTimer(const TaskTimer &) = delete;
  TaskTimer &operator=(const TaskTimer &) = delete;

  /// A launch: its tasks pass `finishTask` in their order.
  class Launch {
  public:
    Launch(TaskTimer &timer, Stream stream, uint32_t firstEntry);
    Launch(const Launch &) = delete;
    Launch &operator=(const Launch &) = delete;
    void finishTask(size_t task);
    /// Gives the events to the timer.
    ~Launch();

  private:
    friend TaskTimer;
    struct Mark {
      Event event;
      uint32_t entry; ///< of the profiler: the task that ends here
    };
    TaskTimer &timer;
    Stream stream;
    uint32_t firstEntry;
    std::vector<Mark> marks; ///< the first one is the start of the launch
  };

  /// Passes the times of launches that have ended to the profiler.
  void collect() {
    std::lock_guard lock(mutex);
    collectPassed();
  }

private:
  struct Pending {
    Stream stream;
    std::vector<Launch::Mark> marks;
  };
  void collectPassed();
  void renewReference(Stream stream);
  Event makeEvent();
  void report(const Pending &launch);

  std::shared_ptr<Memory> owner;
  Memory &memory = *owner;
  std::mutex mutex;
  std::vector<Event> unused;
  std::vector<Pending> pending;
  Event reference = nullptr;  ///< passed at `referenceTime` of the profiler's clock
  uint64_t referenceTime = 0; ///< nanoseconds
};

} // namespace qd::gpu
