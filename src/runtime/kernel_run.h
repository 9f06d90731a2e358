// kernel_run.h: the state of one launch: the context for compiled code, and the failures and prints that it reports.
#pragma once

#include "artifact/artifact.h"
#include "runtime/buffer.h"
#include "runtime/kernel_abi.h"

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace qd::runtime {

/// Callbacks to the launching side during a long launch: to let other Python threads run, and to handle signals.
class RunObserver {
public:
  virtual ~RunObserver() = default;
  /// Called on the launching thread every few milliseconds, and before it waits for another thread.
  virtual void poll() noexcept = 0;
  /// Called on the launching thread after another thread has requested it (QD_LOOK): signals have been pending for long.
  virtual void checkSignals() noexcept = 0;
};

/// Created on the launching thread's stack; costs nothing until something is reported.
class KernelRun {
public:
  KernelRun(const artifact::Artifact &artifact, const QdRuntimeApi &api, RunObserver *observer);
  ~KernelRun();
  KernelRun(const KernelRun &) = delete;
  KernelRun &operator=(const KernelRun &) = delete;

  static KernelRun &from(QdKernelContext *context) { return *static_cast<KernelRun *>(context->runtime); }

  // Compiled code calls these, and no exception may pass through it: when an allocation fails, the launch fails.

  /// Records the first failure of all threads.
  void fail(int32_t site, const uint64_t *values) noexcept;
  void print(int32_t site, const uint64_t *values) noexcept;
  /// Records a failure without a source location.
  void failBecause(std::string reason) noexcept;
  void failForMemory() noexcept;
  void *allocateTemporary(int64_t bytes) noexcept;
  /// Gives the temporaries of the artifact memory, and replaces what is too small. Throws when there is none.
  template <typename Allocate> void placeTemporaries(std::vector<BufferRef> &memory, Allocate &&allocate) {
    memory.resize(artifact.temporaries.size());
    for (size_t i = 0; i < memory.size(); ++i) {
      const auto bytes = size_t(std::max<int64_t>(placeTemporary(artifact.temporaries[i], arguments), 1));
      if (!memory[i] || memory[i]->getSize() < bytes) memory[i] = BufferRef(), memory[i] = allocate(bytes);
      void *data = memory[i]->getData();
      memcpy(arguments + artifact.temporaries[i].offset, &data, sizeof data);
    }
  }
  /// False when another iteration of the loop has written to the address, or has updated it and this one writes it. An atomic update passes
  /// the loop number with its bits flipped.
  bool claim(uint64_t address, int32_t loop, uint64_t iteration) noexcept;
  /// Ends a round of repeated tasks: forgets the claims of its iterations and releases its temporaries.
  void finishRound(bool isInSection) noexcept;
  /// Reports how long the task took that began when this was called before; `beginTasks` comes before the first.
  void finishTask(int32_t task) noexcept;
  void beginTasks(uint32_t firstEntry);
  void endTasks();
  /// Makes the kernel stop soon without recording a failure.
  void cancel() { __atomic_store_n(&context.failed, QD_STOP, __ATOMIC_RELAXED); }
  bool isStopped() const { return __atomic_load_n(&context.failed, __ATOMIC_RELAXED) & QD_STOP; }
  /// Called by long-running code on any thread: whether to return at once.
  bool mustStop() noexcept;
  /// Returns what was printed since the last call: for each print its site and the values of the operands.
  std::vector<uint64_t> takePrinted();

  QdKernelContext context{};
  const artifact::Artifact &artifact;
  unsigned char *arguments = nullptr; ///< those of the context
  RunObserver *observer;
  bool isSingle = false;   ///< no other launch runs in this process
  void *stream = nullptr;  ///< stream of the device for the launch; null: the default one
  int32_t failedSite = -1; ///< read after the kernel has returned
  bool isOutOfMemory = false;
  std::string reason; ///< text of a failure without a source location
  std::vector<uint64_t> failedValues;
  int failedThread = 0; ///< thread number; 0 is the launching thread

private:
  void releaseTemporaries();
  void endRange();
  uint32_t getLaunchEntry() const { return firstEntry + uint32_t(artifact.taskNames.size()); }
  uint32_t firstEntry = 0;                 ///< of the profiler, for the tasks of this kernel
  bool isInRange = false;                  ///< a range of a vendor's profiler is open
  uint64_t launchBegan = 0, taskBegan = 0; ///< of the profiler's clock
  struct Temporary {
    Temporary *next;
    void *block;
  };
  std::atomic<bool> hasFailed{false};
  template <typename Body> bool tryWith(Body &&body) noexcept;
  std::atomic<Temporary *> temporaries{nullptr};
  std::mutex reporting; ///< protects `reports`
  /// Which iterations write and update an address: none, this one, or several.
  struct Claim {
    std::optional<uint64_t> writer, updater;
    bool hasManyUpdaters = false;
  };
  struct Reports {
    std::vector<uint64_t> printed;
    std::map<std::pair<int32_t, uint64_t>, Claim> claims; ///< by loop and address
    std::set<int32_t> checks;                             ///< those that this launch has reported
  };
  std::unique_ptr<Reports> reports; ///< null until there is something to report: most launches only begin and end
};

} // namespace qd::runtime
