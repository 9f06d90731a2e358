// specialise.h: what happens when no specialisation in memory fits: the cache on disk, then the compiler.
#pragma once

#include "launch/kernel.h"

namespace qd::launch {

/// Everything beside kernels and arguments that code on disk belongs to: this build, the processor, options. Empty where the disk cache is
/// not to be used.
std::string describeCacheScope();

/// A specialisation for these arguments (a tuple as quadrants._compile.prepare returned it). Throws PythonError or Error.
std::shared_ptr<Specialisation> specialise(KernelObject &kernel, PyObject *arguments);

} // namespace qd::launch
