// specialize.h: finds or makes a version when none in memory fits: first in the disk cache, then by compiling.
#pragma once

#include "launch/kernel.h"

namespace qd::launch {

/// The part of cache keys that does not depend on the kernel and its arguments: this build, the processor, options. Empty when the disk
/// cache is disabled.
std::string makeCacheScope();

/// Makes a version for these arguments (a tuple that quadrants._session.prepare.prepare returned). Throws PythonError or Error.
std::shared_ptr<Specialization> specialize(KernelObject &kernel, PyObject *arguments);

/// Issues warnings of a compilation. Throws PythonError if one is an error.
void issueWarnings(const std::vector<artifact::Warning> &warnings);

} // namespace qd::launch
