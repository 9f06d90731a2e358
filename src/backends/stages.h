// stages.h: the stages of one compile: their times, their dumps, and where to stop
#pragma once

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"

#include <atomic>
#include <chrono>
#include <string>
#include <vector>

namespace qd::backends {

/// Stages have names like "1_frontend.mlir"; users say "frontend". Dumping changes nothing else.
class Stages {
public:
  struct Time {
    std::string stage;
    double seconds;
  };
  using Clock = std::chrono::steady_clock;
  using Print = llvm::function_ref<void(llvm::raw_ostream &)>;

  /// `folder`: where dumps of this kernel go, empty for none. `last`: the stage to stop after, empty for none; `lastOutput` gets its dump.
  Stages(std::string kernel, const std::string &folder, std::string last, llvm::raw_ostream *lastOutput = nullptr);

  /// When the first stage began, where that was before this was made.
  void startAt(Clock::time_point time) { started = time; }
  /// What is done from here on, in words for whoever waits. `what` lives as long as the process.
  void begin(const char *what) { activity.store(what, std::memory_order_relaxed); }
  const char *getActivity() const { return activity.load(std::memory_order_relaxed); }
  /// Nobody waits for the result any more: the next stage to be done is the last. May be called from any thread.
  void abandon() { abandoned.store(true, std::memory_order_relaxed); }
  const std::atomic<bool> &isAbandoned() const { return abandoned; }

  /// The stage is done: notes its time and dumps it. False when this is the stage to stop after.
  bool finish(llvm::StringRef file, Print print);
  /// A stage that has nothing to show.
  void finish(llvm::StringRef stage);

  const std::string &getKernel() const { return kernel; }
  const std::string &getFolder() const { return folder; }
  std::string getLastFinished() const { return times.empty() ? "start" : times.back().stage; }
  bool isStopped() const { return stopped; }
  const std::vector<Time> &getTimes() const { return times; }

  /// Whether any dump is wanted.
  bool isWatched() const { return !folder.empty() || !last.empty(); }
  /// Whether anyone looks at a stage that compilation itself does not need.
  bool wants(llvm::StringRef stage) const { return !folder.empty() || stage == last; }

  void dump(llvm::StringRef file, Print print);
  void printTimes(llvm::raw_ostream &output) const;

private:
  std::string kernel, folder, last;
  llvm::raw_ostream *lastOutput;
  std::vector<Time> times;
  Clock::time_point started = Clock::now();
  bool stopped = false;
  std::atomic<const char *> activity{"passes"};
  std::atomic<bool> abandoned{false};
};

} // namespace qd::backends
