// compile.h: one kernel, from Python source to an artifact
#pragma once

#include "artifact/artifact.h"
#include "backends/stages.h"
#include "frontend/frontend.h"
#include "support/options.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace qd::backends {
class Target;
}

namespace qd {

/// What to compile, for which target.
struct CompileRequest {
  frontend::Request kernel;
  support::Options options;
  std::shared_ptr<const backends::Target> target;
  std::string sourceText; ///< for a dump
  std::string cacheScope; ///< part of the cache keys that does not depend on the kernel; empty: no cache
  std::string symbol;     ///< for an export: a name of the entry; the code assumes nothing about its arguments
};

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

struct CompileResult {
  std::optional<artifact::Artifact> artifact;
  CompileFailure failure;                    ///< without an artifact
  std::vector<backends::Stages::Time> times; ///< of the stages, in their order; empty if the frontend or the caller ended the compilation
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

/// Compiles a kernel. The caller holds the GIL. Exceptions of Python code that runs at compile time, for instance KeyboardInterrupt,
/// propagate. After an interruption LLVM finishes in the background.
CompileResult compileKernel(const CompileRequest &request, CompileObserver &observer);

struct FrontendIr {
  std::string text; ///< the dump of the option stop_after=frontend
  bool drawsRandom;
};
std::optional<FrontendIr> buildFrontendIr(const frontend::Request &request, CompileFailure &failure);

} // namespace qd
