// compile.h: one kernel, from Python source to an artifact
#pragma once

#include "artifact/artifact.h"
#include "backends/stages.h"
#include "frontend/frontend.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <optional>

namespace qd::support {
class Options;
}
namespace qd::backends {
class Target;
}

namespace qd {

/// Why there is no artifact.
struct CompileFailure {
  enum class Kind {
    User,     ///< a mistake in the kernel: `diagnostic`
    Stopped,  ///< the option stop_after
    Internal, ///< a bug of ours: `diagnostic.message` names stage, kernel and dump
    Memory
  };
  Kind kind = Kind::User;
  frontend::Diagnostic diagnostic;
};

/// The compiler. `cacheScope` (empty: none) is what code on disk belongs to beside the kernel; `times` gets the stages in their order.
/// Called with the GIL held; `leavePython` is called once nothing of Python is needed any more. Exceptions of Python code that runs at
/// compile time, KeyboardInterrupt for one, pass through.
std::optional<artifact::Artifact> compileKernel(const frontend::Request &request, const support::Options &options,
                                                const backends::Target &target, llvm::StringRef sourceText, llvm::StringRef cacheScope,
                                                llvm::function_ref<void()> leavePython, std::vector<backends::Stages::Time> &times,
                                                CompileFailure &failure);

/// The frontend's IR as text: what the option stop_after=frontend would dump.
std::optional<std::string> buildFrontendIr(const frontend::Request &request, CompileFailure &failure);

} // namespace qd
