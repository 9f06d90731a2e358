// profiler_ranges.h: named ranges of the host's time for the profilers of vendors
#pragma once

namespace qd::runtime {

/// The functions of a profiler that begin and end a range on the calling thread; null where no profiler collects ranges.
struct Ranges {
  int (*push)(const char *name) = nullptr;
  int (*pop)() = nullptr;

  /// Those of NVTX where a tool has set NVTX_INJECTION64_PATH, else those of ROCTX; found once.
  static const Ranges &get();
};

} // namespace qd::runtime
