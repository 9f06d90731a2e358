// version_report.h: what reports tell about a version of a kernel, from the moment when it is made.
#pragma once

#include "artifact/artifact.h"
#include "launch/path.h"

namespace qd::launch {

struct KernelObject;

/// How a version came to be.
struct Origin {
  PyObject *stages = nullptr; ///< list of (name, seconds); null when the version was found on disk
  std::string miss;           ///< why it was not
  double seconds = 0;         ///< until it could run
};

/// A quadrants._session.reports.Version.
Ref reportVersion(KernelObject &kernel, const artifact::Artifact &artifact, const Roots &roots, const Origin &origin);

} // namespace qd::launch
