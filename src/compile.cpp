// compile.cpp: the whole compiler, in the order of its steps
//
// In:   a request of the frontend (a function and its arguments), options and a target.
// Out:  an artifact, or the reason why there is none.
// Here: the waiting thread, interruptions, memory limits, and the disk caches of code and partitions.
#include "compile.h"

#include "artifact/disk_cache.h"
#include "backends/target.h"
#include "ir/dialect.h"
#include "passes/accessed_regions.h"
#include "passes/assumptions.h"
#include "passes/pipeline.h"
#include "passes/source_locations.h"
#include "support/emergency_pool.h"
#include "support/large_stack.h"
#include "support/log.h"
#include "support/options.h"
#include "support/status_line.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <pthread.h>
#include <system_error>
#include <thread>

namespace qd {

using support::Option;

namespace {

/// LLVM's fatal errors become exceptions: no input may end the process.
struct InternalError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void throwInternalError(void *, const char *reason, bool) { throw InternalError(reason); }

void installFatalErrorHandler() {
  static const bool once = [] {
    llvm::install_fatal_error_handler(throwInternalError);
    llvm::install_bad_alloc_error_handler([](void *, const char *, bool) { throw std::bad_alloc(); });
    return true;
  }();
  (void)once;
}

/// A running compile. The first compiles of a process fill tables of LLVM and MLIR under locks. A child forked meanwhile could never take
/// these locks, so a fork waits for the compiles, up to 200 ms.
class Compiling {
public:
  Compiling() {
    [[maybe_unused]] static const int registered = pthread_atfork(waitForFirst, nullptr, [] { running = 0; });
    ++running;
  }
  ~Compiling() {
    areTablesFull = true;
    if (running > 0) --running;
  }
  Compiling(const Compiling &) = delete;
  Compiling &operator=(const Compiling &) = delete;

private:
  static void waitForFirst() {
    for (int milliseconds = 0; milliseconds < 200 && running > 0 && !areTablesFull; ++milliseconds)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  static inline std::atomic<int> running{0};
  static inline std::atomic<bool> areTablesFull{false};
};

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

passes::PipelineOptions makePipelineOptions(const support::Options &options) {
  passes::PipelineOptions result;
  result.debug = options.getBool(Option::debug);
  const std::string &overflow = options.getText(Option::overflow);
  result.checkOverflow = overflow != "ignore";
  result.reportOverflow = overflow == "print";
  result.checkBounds = result.debug || options.getBool(Option::check_out_of_bound);
  result.checkNans = options.getBool(Option::check_nan);
  result.checkRaces = options.getBool(Option::check_races);
  result.privatize = options.getBool(Option::make_thread_local);
  // A failed check must report the first failing iteration.
  result.widen = options.getInt(Option::opt_level) > 0 && !result.debug && !result.checkBounds && !result.checkNans && !result.checkRaces;
  result.verify = options.getBool(Option::verify);
  return result;
}

backends::TargetOptions makeTargetOptions(const support::Options &options) {
  backends::TargetOptions result;
  result.fastMath = options.getBool(Option::fast_math);
  result.parallel = options.getBool(Option::make_cpu_multithreading_loop);
  int64_t processors = std::max(1u, std::thread::hardware_concurrency());
  result.threads = unsigned(std::clamp<int64_t>(options.getInt(Option::num_compile_threads), 1, processors));
  result.verify = options.getBool(Option::verify);
  result.optLevel = int(options.getInt(Option::opt_level));
  result.pieceSize = options.getInt(Option::piece_size);
  result.lineTables = !options.getText(Option::line_tables).empty();
  result.blockSize = int(options.getInt(Option::default_gpu_block_dim));
  if (int64_t limit = options.getInt(Option::max_block_dim); limit > 0)
    result.maxThreads = int(std::min<int64_t>(limit, result.maxThreads));
  result.replay = options.getText(Option::replay);
  return result;
}

/// The file of the option replay for one kernel, whose name replaces `{kernel}` in the path; empty if that file does not exist.
std::string findReplay(std::string path, const std::string &kernel) {
  constexpr std::string_view mark = "{kernel}";
  size_t place = path.find(mark);
  if (place == std::string::npos) return path;
  path.replace(place, mark.size(), kernel);
  return llvm::sys::fs::exists(path) ? path : "";
}

/// Applies the option replay: an edited stage replaces the compiled one.
mlir::OwningOpRef<mlir::ModuleOp> replay(const support::Options &options, mlir::OwningOpRef<mlir::ModuleOp> module) {
  const std::string &path = options.getText(Option::replay);
  if (!llvm::StringRef(path).ends_with(".mlir")) return module;
  mlir::MLIRContext *ctx = module->getContext();
  return mlir::parseSourceFile<mlir::ModuleOp>(path, mlir::ParserConfig(ctx));
}

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

/// Caches code on disk for kernels whose compile runs Python code of the user. The launcher cannot compute a key for those, so the key is
/// the frontend's IR.
class CodeCache {
public:
  CodeCache(mlir::ModuleOp module, llvm::StringRef scope, const support::Options &options) : cache(artifact::readCacheOptions(options)) {
    std::string text = scope.str();
    llvm::raw_string_ostream output(text);
    // Texts of failed checks contain source locations; if accesses or results are checked, every operation has such a text.
    passes::PipelineOptions checks = makePipelineOptions(options);
    bool wantsPlaces = checks.checkBounds || checks.checkNans || checks.checkRaces || !options.getText(Option::line_tables).empty();
    module.print(output, wantsPlaces ? mlir::OpPrintingFlags().enableDebugInfo() : mlir::OpPrintingFlags());
    module.walk([&](mlir::Operation *op) {
      if (mlir::isa<ir::PrintOp, ir::AssertOp>(op)) output << op->getLoc();
    });
    key = support::computeDigest(text);
  }

  /// Takes the code of the artifact from the cache; all other members come from the frontend.
  bool find(artifact::Artifact &artifact) {
    bool isFound = false;
    cache.find(key, [&](artifact::Artifact &&found) {
      std::swap(artifact.kernel, found.kernel);
      copyAssumptions(found.inputs, artifact.inputs);
      std::swap(artifact.inputs, found.inputs);
      std::swap(artifact.dependencies, found.dependencies);
      artifact = std::move(found);
      return isFound = true;
    });
    return isFound;
  }
  void publish(const artifact::Artifact &artifact) { cache.publish(key, artifact); }

private:
  /// Copies the assumptions of the cached code about its inputs.
  static void copyAssumptions(const std::vector<artifact::Input> &from, std::vector<artifact::Input> &to) {
    for (size_t i = 0; i < std::min(from.size(), to.size()); ++i) {
      to[i].isUnaliased = from[i].isUnaliased;
      to[i].manyAxes = from[i].manyAxes;
      to[i].fewAxes = from[i].fewAxes;
    }
  }

  artifact::DiskCache cache;
  support::Digest key;
};

/// Stores the objects of partitions on disk, beside the kernels. After an edit of one task the others' objects are found here.
class DiskObjects : public backends::ObjectStore {
public:
  DiskObjects(llvm::StringRef scope, const support::Options &options) : scope(support::computeDigest(scope)), cache(readOptions(options)) {}

  std::optional<llvm::SmallVector<char, 0>> find(llvm::StringRef source) override {
    std::lock_guard<std::mutex> lock(mutex);
    std::optional<llvm::SmallVector<char, 0>> object;
    cache.find(makeKey(source), [&](artifact::Artifact &&found) {
      object.emplace(found.binary.begin(), found.binary.end());
      return true;
    });
    return object;
  }
  void publish(llvm::StringRef source, llvm::ArrayRef<char> object) override {
    artifact::Artifact entry;
    entry.binary.assign(object.begin(), object.end());
    std::lock_guard<std::mutex> lock(mutex);
    cache.publish(makeKey(source), entry);
  }

private:
  /// Does not clean the cache: the kernel is published directly after its partitions, and cleans it for all of them.
  static artifact::DiskCacheOptions readOptions(const support::Options &options) {
    artifact::DiskCacheOptions result = artifact::readCacheOptions(options);
    result.policy = artifact::CleaningPolicy::Never;
    return result;
  }
  support::Digest makeKey(llvm::StringRef source) const {
    support::Digest both[2] = {scope, support::computeDigest(source)};
    return support::computeDigest(both, sizeof both);
  }

  support::Digest scope;
  artifact::DiskCache cache;
  std::mutex mutex;
};

/// Everything after the frontend. Owns all its data, because the waiting thread may leave.
class Lowering : public std::enable_shared_from_this<Lowering> {
public:
  /// `cacheScope`: key of the stored objects, beside their source; empty: none are stored.
  Lowering(const support::Options &options, std::shared_ptr<const backends::Target> target, llvm::StringRef cacheScope)
      : options(options), target(std::move(target)) {
    if (!cacheScope.empty()) objects.emplace(cacheScope, options);
  }

  /// Returns false if a stage stops the compile.
  bool begin(mlir::OwningOpRef<mlir::ModuleOp> built, backends::Stages::Clock::time_point started, llvm::StringRef sourceText) {
    module = std::move(built);
    const std::string &onlyKernel = options.getText(Option::dump_kernel);
    llvm::StringRef shortName = llvm::StringRef(artifact.kernel).rsplit('.').second;
    std::string name = shortName.empty() ? artifact.kernel : shortName.str();
    options.set(int(Option::replay), findReplay(options.getText(Option::replay), name));
    isDumped = onlyKernel.empty() || onlyKernel == artifact.kernel || onlyKernel == name;
    stages.emplace(name, isDumped ? options.getText(Option::dump) : "", isDumped ? options.getText(Option::stop_after) : "");
    stages->startAt(started);
    stages->dump("0_source.py", [&](llvm::raw_ostream &output) { output << sourceText; });
    return succeeded = stages->finish("1_frontend.mlir", [&](llvm::raw_ostream &output) { module->print(output); });
  }

  void run() noexcept {
    try {
      try {
        if (isDumped) module = replay(options, std::move(module));
        if (succeeded) succeeded = module && lower();
      } catch (const std::bad_alloc &) { throw; } catch (const std::system_error &error) {
        if (error.code() == std::errc::resource_unavailable_try_again) throw; // memory for a thread ran out
        crash = error.what();
      } catch (const std::exception &error) { crash = error.what(); }
      module = nullptr;
      stages->dump("5_times.txt", [&](llvm::raw_ostream &output) { stages->printTimes(output); });
    } catch (const std::exception &) { leak(); }
    compiling.reset();
  }

  /// Never destroys this object: an exception passed through frames of LLVM or MLIR and may have left their data inconsistent, so a
  /// destructor could end the process.
  void leak() { self = shared_from_this(); }

  /// The failure of `run`; nothing if there is an artifact.
  std::optional<CompileFailure> takeFailure() {
    if (self || memory.ranOut()) return CompileFailure{CompileFailure::Kind::Memory, {}};
    if (crash) return describeInternalError(*stages, *crash);
    if (stages->isStopped())
      return CompileFailure{CompileFailure::Kind::Stopped, {"", "stopped after stage '" + stages->getLastFinished() + "'", {}}};
    if (!succeeded && context.getFirstError().frames.empty()) return describeInternalError(*stages, context.getFirstError().message);
    if (!succeeded) return CompileFailure{CompileFailure::Kind::User, std::move(context.getFirstError())};
    return std::nullopt;
  }

  support::MemoryWatch memory;
  CompileContext context;
  artifact::Artifact artifact;
  std::optional<Compiling> compiling;       ///< from the release of the GIL to the end of `run`
  mlir::OwningOpRef<mlir::ModuleOp> module; ///< until the end of `run`
  std::optional<backends::Stages> stages;   ///< set by `begin`

private:
  bool lower() {
    if (!isLowered(*module) && mlir::failed(passes::run(*module, target->getTraits(), makePipelineOptions(options)))) return false;
    if (memory.ranOut()) return false;
    if (!stages->finish("2_lowered.mlir", [&](llvm::raw_ostream &output) { module->print(output); })) return true;
    passes::findReplacedRegions(*module, artifact);
    passes::collectAssumptions(*module, artifact);
    // From here on every outermost loop is a task, and values that cross tasks have scratch slots.
    module->walk([&](mlir::Operation *) { ++artifact.operations; });

    artifact.libraryFolder = options.getText(Option::line_tables);
    backends::TargetOptions targetOptions = makeTargetOptions(options);
    if (objects) targetOptions.objects = &*objects;
    return mlir::succeeded(target->emit(*module, targetOptions, *stages, artifact));
  }

  support::Options options;
  std::shared_ptr<const backends::Target> target;
  std::optional<DiskObjects> objects;
  std::shared_ptr<Lowering> self; ///< set if the object must never be destroyed
  bool isDumped = false, succeeded = false;
  std::optional<std::string> crash;
};

} // namespace

std::optional<artifact::Artifact> compileKernel(const frontend::Request &request, const support::Options &options,
                                                std::shared_ptr<const backends::Target> target, llvm::StringRef sourceText,
                                                llvm::StringRef cacheScope, CompileObserver &observer,
                                                std::vector<backends::Stages::Time> &times, CompileFailure &failure) {
  installFatalErrorHandler();
  auto work = std::make_shared<Lowering>(options, std::move(target), cacheScope);
  artifact::Artifact &artifact = work->artifact;
  support::StatusLine line(support::parseLogLevel(options.getText(Option::log_level)) <= support::LogLevel::Info);
  frontend::Request watched = request;
  watched.beforeStatement = [&] {
    work->memory.check();
    line.update(artifact.kernel, "frontend");
  };
  auto started = backends::Stages::Clock::now();
  mlir::OwningOpRef<mlir::ModuleOp> module;
  try {
    module = frontend::build(work->context.get(), watched, artifact, failure.diagnostic);
  } catch (const std::bad_alloc &) {
    if (work->memory.isLost()) work->leak();
    throw;
  }
  work->memory.check();
  if (!module) return std::nullopt;
  // From here on the module contains no references to Python objects.
  work->compiling.emplace();
  observer.leavePython();
  // Before the passes change the accesses that the user wrote.
  if (request.mode == support::AutodiffMode::None || request.mode == support::AutodiffMode::Fused)
    passes::findAccessedRegions(*module, artifact);
  bool succeeded = work->begin(std::move(module), started, sourceText);

  std::optional<CodeCache> cache;
  if (succeeded && !artifact.cacheable && !cacheScope.empty()) {
    cache.emplace(*work->module, cacheScope, options);
    if (cache->find(artifact)) {
      work->stages->finish("cached code");
      times = work->stages->getTimes();
      return std::move(artifact);
    }
  }

  std::string kernel = artifact.kernel;
  auto keepWaiting = [&] {
    line.update(kernel, work->stages->getActivity());
    return observer.keepWaiting();
  };
  // Run on a large stack: nested regions are walked by recursion, and LLVM recurses over expressions.
  if (!support::runLeakingOnCancel([work] { work->run(); }, keepWaiting)) {
    work->stages->abandon();
    failure.kind = CompileFailure::Kind::Interrupted;
    return std::nullopt;
  }
  times = work->stages->getTimes();
  if (std::optional<CompileFailure> problem = work->takeFailure()) {
    failure = std::move(*problem);
    return std::nullopt;
  }
  if (cache) cache->publish(artifact);
  return std::move(artifact);
}

std::optional<std::string> buildFrontendIr(const frontend::Request &request, CompileFailure &failure) {
  CompileContext context;
  artifact::Artifact artifact;
  mlir::OwningOpRef<mlir::ModuleOp> module = frontend::build(context.get(), request, artifact, failure.diagnostic);
  if (!module) return std::nullopt;
  if (mlir::failed(mlir::verify(*module))) {
    failure = {CompileFailure::Kind::Internal, std::move(context.getFirstError())};
    return std::nullopt;
  }
  std::string text;
  llvm::raw_string_ostream output(text);
  module->print(output);
  return text;
}

} // namespace qd
