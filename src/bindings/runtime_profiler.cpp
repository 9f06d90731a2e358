// runtime_profiler.cpp: the times of kernels as Python data
//
// In:   runtime/profiler.h.
// Out:  functions of the module `_runtime`, on which the package quadrants.profiler is built.
#include "bindings/runtime_profiler.h"

#include "launch/state.h"
#include "runtime/profiler.h"

namespace nb = nanobind;

namespace qd::bindings {

using runtime::Profiler;

/// Waits for the launches of the current runtime and takes their times.
static void collect() {
  launch::State &state = launch::getState();
  if (!state.device) return;
  state.device->synchronize();
  state.device->collectTimes();
}

static nb::list listTasks() {
  collect();
  nb::list list;
  for (const Profiler::Entry &entry : Profiler::get().getEntries())
    if (entry.count && !entry.isLaunch)
      list.append(nb::make_tuple(nb::str(entry.name.data(), entry.name.size()), entry.count, entry.total, entry.least, entry.most));
  return list;
}

static nb::list listSpans() {
  collect();
  const std::vector<Profiler::Entry> entries = Profiler::get().getEntries();
  nb::list list;
  for (const Profiler::Span &span : Profiler::get().getSpans()) {
    const Profiler::Entry &entry = entries[span.entry];
    list.append(nb::make_tuple(nb::str(entry.name.data(), entry.name.size()), entry.isLaunch, span.isOnDevice, span.track, span.begin,
                               span.duration));
  }
  return list;
}

static void clear() {
  collect();
  Profiler::get().clear();
}

void addProfiler(nb::module_ &m) {
  m.def("profiled_tasks", listTasks, "(name, count, total, minimum, maximum) of each task that has run; nanoseconds.");
  m.def("profiled_spans", listSpans,
        "(name, whether it is a whole launch, whether on a device, thread or stream, begin, duration) of each launch and task; nanoseconds "
        "of time.perf_counter_ns.");
  m.def("clear_profile", clear, "Forget all times.");
}

} // namespace qd::bindings
