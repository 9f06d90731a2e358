// specialize.h: what happens when no specialization in memory fits: the cache on disk, then the compiler.
#pragma once

#include "launch/kernel.h"

namespace qd::launch {

/// Everything beside kernels and arguments that code on disk belongs to: this build, the processor, options. Empty where the disk cache is
/// not to be used.
std::string makeCacheScope();

/// A specialization for these arguments (a tuple as quadrants._session.prepare.prepare returned it). Throws PythonError or Error.
std::shared_ptr<Specialization> specialize(KernelObject &kernel, PyObject *arguments);

} // namespace qd::launch
