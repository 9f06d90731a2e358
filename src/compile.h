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

/// What the compiler asks of the thread that waits for it.
class CompileObserver {
public:
  virtual ~CompileObserver() = default;
  /// Nothing of Python is needed any more.
  virtual void leavePython() = 0;
  /// Called every 50 ms after that. False: nobody wants the kernel any more.
  virtual bool keepWaiting() = 0;
};

/// The compiler. `cacheScope` (empty: none) is what code on disk belongs to beside the kernel; `times` gets the stages in their
/// order. Called with the GIL held. Exceptions of Python code that runs at compile time, KeyboardInterrupt for one, pass through. After an
/// interruption LLVM comes to its end in the background.
std::optional<artifact::Artifact> compileKernel(const frontend::Request &request, const support::Options &options,
                                                std::shared_ptr<const backends::Target> target, llvm::StringRef sourceText,
                                                llvm::StringRef cacheScope, CompileObserver &observer,
                                                std::vector<backends::Stages::Time> &times, CompileFailure &failure);

/// The frontend's IR as text: what the option stop_after=frontend would dump.
std::optional<std::string> buildFrontendIr(const frontend::Request &request, CompileFailure &failure);

} // namespace qd
