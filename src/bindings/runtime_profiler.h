// runtime_profiler.h: the times of kernels for Python
#pragma once

#include <nanobind/nanobind.h>

namespace qd::bindings {

/// Adds the functions of the profiler to the module.
void addProfiler(nanobind::module_ &m);

} // namespace qd::bindings
