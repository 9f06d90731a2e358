// kernel_run.h: one launch while it runs: the context that compiled code sees, and what it reports back.
#pragma once

#include "artifact/artifact.h"
#include "runtime/kernel_abi.h"

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace qd::runtime {

/// What the launching side wants to do while a kernel runs long: let other Python threads in, look for signals.
class RunObserver {
public:
  virtual ~RunObserver() = default;
  /// Called on the launching thread every few milliseconds, and before it waits for another thread.
  virtual void poll() noexcept = 0;
  /// Called on the launching thread when another one asks for it (QD_LOOK): signals have waited for long.
  virtual void lookForSignals() noexcept = 0;
};

/// Made on the launching thread's stack; costs nothing until something is reported.
class KernelRun {
public:
  KernelRun(const artifact::Artifact &artifact, const QdRuntimeApi &api, RunObserver *observer);
  ~KernelRun();
  KernelRun(const KernelRun &) = delete;
  KernelRun &operator=(const KernelRun &) = delete;

  static KernelRun &from(QdKernelContext *context) { return *static_cast<KernelRun *>(context->runtime); }

  // Compiled code calls these, and no exception can pass through it: where there is no memory, the launch fails for that.

  /// Keeps the first failure of all threads.
  void fail(int32_t site, const uint64_t *values) noexcept;
  void print(int32_t site, const uint64_t *values) noexcept;
  /// A failure that no place in the code stands for.
  void failBecause(std::string reason) noexcept;
  void failForMemory() noexcept;
  void *allocateTemporary(int64_t bytes) noexcept;
  /// Whether no other iteration of the loop has written to the address, or updated it before this one writes. The bits of the loop's number
  /// are flipped for an atomic update.
  bool claim(uint64_t address, int32_t loop, uint64_t iteration) noexcept;
  /// A round of repeated tasks is over: what its iterations have claimed is free again, and its temporaries are released.
  void finishRound() noexcept;
  /// Makes the kernel stop soon without a failure of its own.
  void cancel() { __atomic_store_n(&context.failed, QD_STOP, __ATOMIC_RELAXED); }
  bool isStopped() const { return __atomic_load_n(&context.failed, __ATOMIC_RELAXED) & QD_STOP; }
  /// Called by code that runs long, on any thread: whether it is to return at once.
  bool mustStop() noexcept;
  /// What was printed since the last call: for each print its site and the values of the operands.
  std::vector<uint64_t> takePrinted();

  QdKernelContext context{};
  const artifact::Artifact &artifact;
  RunObserver *observer;
  bool isSingle = false;   ///< no other launch runs in this process
  void *stream = nullptr;  ///< of the device, which the launch is queued in; null: the default one
  int32_t failedSite = -1; ///< read when the kernel has returned
  bool isOutOfMemory = false;
  std::string reason; ///< of a failure without a place
  std::vector<uint64_t> failedValues;
  int failedThread = 0; ///< its number: 0 is the one that launched

private:
  void releaseTemporaries();
  struct Temporary {
    Temporary *next;
    void *block;
  };
  std::atomic<bool> hasFailed{false};
  template <typename Body> bool tryWith(Body &&body) noexcept;
  std::atomic<Temporary *> temporaries{nullptr};
  std::mutex printing;
  std::vector<uint64_t> printed;
  std::mutex claiming;
  /// Which iterations write and update an address: none, this one, or several.
  struct Claim {
    std::optional<uint64_t> writer, updater;
    bool hasManyUpdaters = false;
  };
  std::map<std::pair<int32_t, uint64_t>, Claim> claims; ///< by loop and address
  std::set<int32_t> reported;                           ///< checks that were told of: once for each launch
};

} // namespace qd::runtime
