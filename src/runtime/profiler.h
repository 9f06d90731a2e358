// profiler.h: how long launches and their tasks took, for qd.profiler
#pragma once

#include "artifact/artifact.h"

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace qd::runtime {

/// Nanoseconds of the monotonic clock, which is Python's time.perf_counter_ns.
inline uint64_t readClock() {
  return uint64_t(std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count());
}

/// Collects times of kernels that were compiled with the option kernel_profiler; from any thread. All times are nanoseconds.
class Profiler {
public:
  struct Entry {
    std::string name;
    bool isLaunch = false; ///< of all tasks of a launch together, on the host
    uint64_t count = 0, total = 0, least = UINT64_MAX, most = 0;
  };
  struct Span {
    uint32_t entry;
    bool isOnDevice;
    uint64_t track; ///< the thread, or the stream of a device
    uint64_t begin, duration;
  };
  /// Further spans are counted in the entries only.
  static constexpr size_t kMaxSpans = size_t(1) << 20;

  static Profiler &get();
  /// Adds an entry for each task of a kernel, and then one for its launches. Returns the number of the first entry.
  uint32_t addKernel(const artifact::Artifact &artifact);
  /// Begins a range with the name of an entry in the profiler of a vendor. Returns whether there is one.
  bool beginRange(uint32_t entry);
  /// May throw std::bad_alloc.
  void record(const Span &span);
  std::vector<Entry> getEntries();
  std::vector<Span> getSpans();
  /// Forgets all times; entries stay.
  void clear();

private:
  std::mutex mutex;
  std::vector<Entry> entries;
  std::vector<Span> spans;
};

/// Number of the calling thread in the operating system.
uint64_t getThreadId();

} // namespace qd::runtime
