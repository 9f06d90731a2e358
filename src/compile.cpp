// compile.cpp: the whole compiler, in the order of its steps
//
// In:   a request: a function and its arguments, options and a target.
// Out:  an artifact, or the reason why there is none.
// Here: the frontend runs on the caller's thread, which holds the GIL. The other steps run on a thread with a large stack, while the caller
//       waits, or leaves when the user interrupts it.
#include "compile.h"

#include "backends/target.h"
#include "compile_cache.h"
#include "compile_options.h"
#include "compile_process.h"
#include "ir/dialect.h"
#include "passes/accessed_regions.h"
#include "passes/pipeline.h"
#include "passes/source_locations.h"
#include "passes/widen_serial_loops.h"
#include "support/emergency_pool.h"
#include "support/large_stack.h"
#include "support/log.h"
#include "support/status_line.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/raw_ostream.h"

#include <system_error>

namespace qd {

using support::Option;

namespace {

/// A separate MLIR context for each compile: creating one costs less than sharing. Stores the first error that the stages report.
class CompileContext {
public:
  CompileContext() : context(mlir::MLIRContext::Threading::DISABLED) {
    context.loadDialect<ir::QdDialect>();
    context.printOpOnDiagnostic(false);
    context.getDiagEngine().registerHandler([this](mlir::Diagnostic &problem) {
      if (problem.getSeverity() != mlir::DiagnosticSeverity::Error || !first.message.empty()) return;
      first.className = "QuadrantsCompilationError";
      first.message = problem.str();
      passes::collectLocations(problem.getLocation(), first.frames);
    });
  }

  mlir::MLIRContext &get() { return context; }
  frontend::Diagnostic &getFirstError() { return first; }

private:
  mlir::MLIRContext context;
  frontend::Diagnostic first;
};

bool isLowered(mlir::ModuleOp module) {
  return module.walk([](ir::TaskOp) { return mlir::WalkResult::interrupt(); }).wasInterrupted();
}

CompileFailure describeInternalError(const backends::Stages &stages, llvm::StringRef reason) {
  std::string text =
      ("internal error while compiling kernel '" + stages.getKernel() + "', after stage '" + stages.getLastFinished() + "': " + reason)
          .str();
  text += stages.getFolder().empty() ? "; set QD_DUMP=<folder> to get the stages as files" : "; the stages are in " + stages.getFolder();
  return {CompileFailure::Kind::Internal, {"", text, {}}};
}

/// One compilation. Owns all its data, because the waiting thread may leave, and goes on before all of it is destroyed.
class Compilation : public std::enable_shared_from_this<Compilation> {
public:
  explicit Compilation(const CompileRequest &request) : options(request.options), target(request.target), symbol(request.symbol) {
    if (!request.cacheScope.empty()) objects.emplace(request.cacheScope, options);
  }

  /// Runs the frontend. Returns false after an error, which it describes in `diagnostic`.
  bool build(frontend::Request kernel, support::StatusLine &line, frontend::Diagnostic &diagnostic) {
    kernel.compacts = makePipelineOptions(options).compacts && target->getTraits().hasCompress();
    kernel.beforeStatement = [&] {
      memory.check();
      line.update(artifact.kernel, "frontend");
    };
    try {
      module = frontend::build(context.get(), kernel, artifact, diagnostic);
    } catch (const std::bad_alloc &) {
      if (memory.isLost()) leak();
      throw;
    }
    memory.check();
    return bool(module);
  }

  /// Ends the frontend's stage. Returns false if the compilation stops after it. Python is not needed any more.
  bool finishFrontend(const CompileRequest &request, backends::Stages::Clock::time_point started) {
    // Before the passes change the accesses that the user wrote.
    if (llvm::is_contained({support::AutodiffMode::None, support::AutodiffMode::Fused, support::AutodiffMode::Reverse},
                           request.kernel.mode))
      passes::findAccessedRegions(*module, artifact);
    stages = std::make_shared<backends::Stages>(artifact.kernel, options);
    stages->startAt(started);
    stages->dump("0_source.py", [&](llvm::raw_ostream &output) { output << request.sourceText; });
    return stages->finish("1_frontend.mlir", [&](llvm::raw_ostream &output) { module->print(output); });
  }

  /// Runs all stages after the frontend's, and describes how they ended.
  void run(CompileResult &result) noexcept {
    try {
      try {
        succeeded = stages->isStopped() || lower();
      } catch (const std::bad_alloc &) { throw; } catch (const std::system_error &error) {
        if (error.code() == std::errc::resource_unavailable_try_again) throw; // memory for a thread ran out
        crash = error.what();
      } catch (const std::exception &error) { crash = error.what(); }
      stages->dump("5_times.txt", [&](llvm::raw_ostream &output) { stages->printTimes(output); });
      result.times = stages->getTimes();
      if (std::optional<CompileFailure> failure = takeFailure())
        result.failure = std::move(*failure);
      else
        result.artifact = std::move(artifact);
    } catch (const std::exception &) {
      leak();
      result.failure = {CompileFailure::Kind::Memory, {}};
    }
  }

  support::MemoryWatch memory;
  std::optional<RunningCompile> running; ///< from the release of the GIL until everything below is destroyed
  CompileContext context;
  artifact::Artifact artifact;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::shared_ptr<backends::Stages> stages; ///< set by `finishFrontend`

private:
  /// The failure of `run`; nothing if there is an artifact.
  std::optional<CompileFailure> takeFailure() {
    if (memory.ranOut()) return CompileFailure{CompileFailure::Kind::Memory, {}};
    if (crash) return describeInternalError(*stages, *crash);
    if (stages->isStopped())
      return CompileFailure{CompileFailure::Kind::Stopped, {"", "stopped after stage '" + stages->getLastFinished() + "'", {}}};
    if (!succeeded && context.getFirstError().frames.empty()) return describeInternalError(*stages, context.getFirstError().message);
    if (!succeeded) return CompileFailure{CompileFailure::Kind::User, std::move(context.getFirstError())};
    return std::nullopt;
  }

  bool lower() {
    if (llvm::StringRef edited = stages->findReplay(".mlir"); !edited.empty())
      module = mlir::parseSourceFile<mlir::ModuleOp>(edited, mlir::ParserConfig(&context.get()));
    if (!module) return false;
    passes::PipelineOptions pipelineOptions = makePipelineOptions(options);
    pipelineOptions.specialize &= symbol.empty();
    if (!isLowered(*module) && mlir::failed(passes::run(*module, target->getTraits(), pipelineOptions))) return false;
    if (memory.ranOut()) return false;
    if (!stages->finish("2_lowered.mlir", [&](llvm::raw_ostream &output) { module->print(output); })) return true;
    passes::findReplacedRegions(*module, artifact);
    passes::collectAssumptions(*module, artifact);
    // From here on every outermost loop is a task, and values that cross tasks have scratch slots.
    module->walk([&](mlir::Operation *) { ++artifact.report.operations; });

    artifact.libraryFolder = options.getText(Option::line_tables);
    backends::TargetOptions targetOptions = makeTargetOptions(options);
    targetOptions.symbol = symbol;
    targetOptions.stackBytes = target->getStackBytes(options);
    targetOptions.leftovers = &leftovers;
    if (objects) targetOptions.objects = &*objects;
    return mlir::succeeded(target->emit(*module, targetOptions, *stages, artifact));
  }

  /// Never destroys this object: an exception passed through frames of LLVM or MLIR and may have left their data inconsistent, so a
  /// destructor could end the process.
  void leak() {
    self = shared_from_this();
    running.reset();
  }

  support::Options options;
  std::shared_ptr<const backends::Target> target;
  std::string symbol;
  std::optional<DiskObjects> objects;
  std::unique_ptr<backends::Leftovers> leftovers;
  std::shared_ptr<Compilation> self; ///< set if the object must never be destroyed
  bool succeeded = false;
  std::optional<std::string> crash;
};

} // namespace

CompileResult compileKernel(const CompileRequest &request, CompileObserver &observer) {
  throwFatalErrors();
  CompileResult result;
  auto work = std::make_shared<Compilation>(request);
  support::StatusLine line(support::parseLogLevel(request.options.getText(Option::log_level)) <= support::LogLevel::Info);
  auto started = backends::Stages::Clock::now();
  if (!work->build(request.kernel, line, result.failure.diagnostic)) return result;
  // From here on the module contains no references to Python objects.
  work->running.emplace();
  observer.leavePython();
  bool continues = work->finishFrontend(request, started);

  std::optional<CodeCache> cache;
  if (continues && !work->artifact.cacheable && !request.cacheScope.empty()) {
    cache.emplace(*work->module, request.cacheScope, request.options);
    if (cache->find(work->artifact)) {
      work->stages->finish("cached code");
      result.times = work->stages->getTimes();
      result.artifact = std::move(work->artifact);
      return result;
    }
  }

  std::string kernel = work->artifact.kernel;
  std::shared_ptr<backends::Stages> stages = work->stages;
  auto keepWaiting = [&] {
    line.update(kernel, stages->getActivity());
    return observer.keepWaiting();
  };
  // Run on a large stack: nested regions are walked by recursion, and LLVM recurses over expressions.
  auto ended = std::make_shared<CompileResult>();
  auto run = [work = std::move(work), ended] { work->run(*ended); };
  if (!support::runLeakingOnCancel(std::move(run), keepWaiting)) {
    stages->abandon();
    result.failure.kind = CompileFailure::Kind::Interrupted;
    return result;
  }
  if (cache && ended->artifact) cache->publish(*ended->artifact);
  return std::move(*ended);
}

std::optional<FrontendIr> buildFrontendIr(const frontend::Request &request, CompileFailure &failure) {
  CompileContext context;
  artifact::Artifact artifact;
  mlir::OwningOpRef<mlir::ModuleOp> module = frontend::build(context.get(), request, artifact, failure.diagnostic);
  if (!module) return std::nullopt;
  if (mlir::failed(mlir::verify(*module))) {
    failure = {CompileFailure::Kind::Internal, std::move(context.getFirstError())};
    return std::nullopt;
  }
  FrontendIr result{{}, artifact.drawsRandom};
  llvm::raw_string_ostream output(result.text);
  module->print(output);
  return result;
}

} // namespace qd
