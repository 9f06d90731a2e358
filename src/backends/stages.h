// stages.h: the stages of one compile: their times, their dumps and replacements, and the stage to stop after
#pragma once

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"

#include <atomic>
#include <chrono>
#include <string>
#include <vector>

namespace qd::support {
class Options;
}

namespace qd::backends {

/// Stages have file names like "1_frontend.mlir"; options call the stage "frontend". Dumps do not change the result.
class Stages {
public:
  struct Time {
    std::string stage;
    double seconds;
  };
  using Clock = std::chrono::steady_clock;
  using Print = llvm::function_ref<void(llvm::raw_ostream &)>;

  /// `folder`: for the dumps of this kernel, empty for none. `last`: the stage to stop after, empty for none; `lastOutput` gets its dump.
  Stages(std::string kernel, const std::string &folder, std::string last, llvm::raw_ostream *lastOutput = nullptr);
  /// Stages with the options dump, stop_after and replay; without them if the option dump_kernel selects another kernel.
  Stages(llvm::StringRef qualifiedName, const support::Options &options);

  /// Sets when the first stage began, if that was before this object existed.
  void startAt(Clock::time_point time) { started = time; }
  /// Sets the description of the current work, for waiting threads. `what` must live as long as the process.
  void begin(const char *what) { activity.store(what, std::memory_order_relaxed); }
  const char *getActivity() const { return activity.load(std::memory_order_relaxed); }
  /// Cancels the compile, because no caller waits for the result: it ends after the current stage. Callable from any thread.
  void abandon() { abandoned.store(true, std::memory_order_relaxed); }
  const std::atomic<bool> &isAbandoned() const { return abandoned; }

  /// Ends a stage: records its time and dumps it. False if compilation stops after this stage.
  bool finish(llvm::StringRef file, Print print);
  /// Ends a stage without a dump.
  void finish(llvm::StringRef stage);

  const std::string &getKernel() const { return kernel; }
  const std::string &getFolder() const { return folder; }
  std::string getLastFinished() const { return times.empty() ? "start" : times.back().stage; }
  bool isStopped() const { return stopped; }
  const std::vector<Time> &getTimes() const { return times; }

  /// Whether any dump is wanted.
  bool wantsDumps() const { return !folder.empty() || !last.empty(); }
  /// Whether to build a stage that only a dump shows.
  bool wants(llvm::StringRef stage) const { return !folder.empty() || stage == last; }

  /// The edited file that replaces a stage whose dumps end with `suffix` (option replay); empty if there is none.
  llvm::StringRef findReplay(llvm::StringRef suffix) const {
    return llvm::StringRef(replay).ends_with(suffix) ? replay : llvm::StringRef();
  }

  void dump(llvm::StringRef file, Print print);
  void printTimes(llvm::raw_ostream &output) const;

private:
  std::string kernel, folder, last, replay;
  llvm::raw_ostream *lastOutput;
  std::vector<Time> times;
  Clock::time_point started = Clock::now();
  bool stopped = false;
  std::atomic<const char *> activity{"passes"};
  std::atomic<bool> abandoned{false};
};

} // namespace qd::backends
