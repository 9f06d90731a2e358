// version_report.h: makes the entry of a version in reports, when the version is made.
#pragma once

#include "artifact/artifact.h"
#include "launch/path.h"

namespace qd::launch {

struct KernelObject;

/// How a version was obtained.
struct Origin {
  PyObject *stages = nullptr; ///< list of (name, seconds); null when the version was found on disk
  std::string miss;           ///< why it was not found on disk
  double seconds = 0;         ///< time until it could run
};

/// Adds the entry; returns a dictionary of the dependencies by name, with their values as texts.
Ref reportVersion(KernelObject &kernel, const artifact::Artifact &artifact, const Roots &roots, const Origin &origin);

} // namespace qd::launch
