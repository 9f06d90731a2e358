// exported_files.h: the files of an exported kernel
#pragma once

#include "artifact/artifact.h"

#include <string>
#include <utility>
#include <vector>

namespace qd::backends {

class Target;

/// Names without folder, and contents: the code (one file, or one for each entry), the manifest and the header. `symbol` is the function
/// that runs the kernel on the processor; `targetName` is what findTarget took.
std::vector<std::pair<std::string, std::string>> makeExportedFiles(const artifact::Artifact &artifact, const std::string &name,
                                                                   const std::string &symbol, const std::string &targetName,
                                                                   const Target &target);

} // namespace qd::backends
