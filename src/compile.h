// compile.h: one kernel, from Python source to an artifact
#pragma once

#include "artifact/artifact.h"
#include "backends/stages.h"
#include "frontend/frontend.h"

#include <memory>
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
    Memory,
    Interrupted ///< by `CompileObserver::keepWaiting`
  };
  Kind kind = Kind::User;
  frontend::Diagnostic diagnostic;
};

/// Callbacks from the compiler to the thread that waits for it.
class CompileObserver {
public:
  virtual ~CompileObserver() = default;
  /// Called when the compiler needs no Python any more.
  virtual void leavePython() = 0;
  /// Called every 50 ms after that. False: no caller wants the kernel any more.
  virtual bool keepWaiting() = 0;
};

/// Compiles a kernel. `cacheScope` (empty: no cache) is the part of the cache key that does not depend on the kernel; `times` gets the
/// stages in their order. The caller holds the GIL. Exceptions of Python code that runs at compile time, for instance KeyboardInterrupt,
/// propagate. After an interruption LLVM finishes in the background.
std::optional<artifact::Artifact> compileKernel(const frontend::Request &request, const support::Options &options,
                                                std::shared_ptr<const backends::Target> target, llvm::StringRef sourceText,
                                                llvm::StringRef cacheScope, CompileObserver &observer,
                                                std::vector<backends::Stages::Time> &times, CompileFailure &failure);

/// The frontend's IR as text: the dump of the option stop_after=frontend.
std::optional<std::string> buildFrontendIr(const frontend::Request &request, CompileFailure &failure);

} // namespace qd
