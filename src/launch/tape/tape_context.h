// tape_context.h: the state of a tape or a forward mode, and its place among those of its thread (docs/design/tapes.md)
#pragma once

#include "launch/tape/undo_log.h"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace qd::launch {

class FusedLaunch;

class TapeContext {
public:
  enum class Phase : uint8_t {
    Idle,      ///< before the block, and after the gradients
    Recording, ///< in the block: the owner handles the calls and writes of this thread
    Closed,    ///< between the block and the gradients: only what is overwritten is recorded
    Backward   ///< the gradients run
  };

  /// `owner` is the Python object with the methods `_on_call` and `_on_write`, which owns this context. Only tapes record memory.
  TapeContext(PyObject *owner, bool recordsMemory, bool recordsAll) : owner(owner), recordsMemory(recordsMemory), log(recordsAll) {}
  TapeContext(const TapeContext &) = delete;
  TapeContext &operator=(const TapeContext &) = delete;
  ~TapeContext() { leave(); }

  //--- Phases ---

  /// Idle → Recording. Returns the owner of the context that handled calls until now; null for none.
  PyObject *enter();
  /// Recording → Closed.
  void close();
  /// Any phase → Backward, until `leave`.
  void beginBackward();
  /// Any phase → Idle.
  void leave();

  /// Hides the calls and writes of this thread until `show`, which records what the calls have read as the reads of one call. Applies to
  /// the enclosing contexts, too. Only while recording.
  void hide();
  void show();

  //--- Recording ---

  /// The context that handles calls of kernels on this thread; null for none.
  static TapeContext *findCallHandler() {
    TapeContext *innermost = getInnermost();
    return innermost ? innermost->findHandler() : nullptr;
  }
  /// The owner of the context that handles calls.
  static PyObject *getCallHandler();
  /// Passes a call to the owner, which calls the kernel; that call is not handled again. A new reference.
  PyObject *handleCall(PyObject *kernel, PyObject *arguments, PyObject *keywords);
  /// Must be called before Python writes to an element, or (Py_None) to any element.
  static void noteWrite(PyObject *container, PyObject *index);
  /// Called before a view of a container is created, through which its memory may change unnoticed.
  static void noteView(PyObject *container);
  /// Called before and after a launch. Throws Error (Memory) that names the container.
  static void noteBegin(const artifact::Artifact &artifact, const UndoLog::Accesses &accesses, const unsigned char *block);
  static void noteEnd(const UndoLog::Accesses &accesses, const unsigned char *block);
  /// Whether a tape of this thread runs gradients.
  static bool isRunningBackward() {
    TapeContext *innermost = getInnermost();
    return innermost && innermost->phase == Phase::Backward;
  }
  /// Whether any thread has a context that records memory.
  static bool isAnyActive() { return firstActive != nullptr; }

  /// Number of entries of the undo log: the position of a call in it.
  size_t getPosition() const { return log.getPosition(); }
  /// Whether a context of this thread takes the binding of a call (launch/tape/binding.h).
  static bool recordsBinding();
  static void noteBinding(const Ref &binding);
  /// Binding of the last recorded call; empty when no compiled kernel has run since the previous request.
  Ref takeBinding() { return std::exchange(binding, Ref()); }
  /// Records for the innermost tape to which container the last launch only added (null: it did something else), and how long it took.
  static void noteSum(PyObject *container, uint64_t microseconds);
  bool addedOnlyTo(PyObject *container, uint64_t minMicroseconds) const {
    return sum.get() == container && sumMicroseconds >= minMicroseconds;
  }

  //--- Fused launches (fused_launch.cpp) ---

  /// Calls a kernel of the mode Fused. False: nothing was done, because the kernel has other effects than adding to the loss, or because
  /// gradients are not known to be zero.
  bool launchFused(PyObject *kernel, PyObject *arguments, PyObject *loss);
  /// The fused launch that this thread has begun; null for none.
  static FusedLaunch *findFused();
  /// Commits the gradients that the last fused call left. False: they have been accessed since, as zeros.
  bool commit();
  void addUncommitted(const Ref &object, bool isReplaced);

  //--- Backward ---

  /// Restores memory to its state at a position of the undo log.
  void undo(size_t position);
  /// Reverts `undo`.
  void redo();
  /// The gradient of the call between two positions runs until `endReplay`.
  void beginReplay(size_t begin, size_t end) { replay.emplace(begin, end); }
  void endReplay() { replay.reset(); }
  /// Exchanges the current contents of these containers and arrays with what they held before that call; a second call, with `isBack`,
  /// exchanges them back.
  static void exchange(const std::vector<PyObject *> &objects, bool isBack);

private:
  /// A gradient that a fused launch wrote, and the write count of its memory at that time.
  struct Uncommitted {
    Ref object;
    uint64_t writes;
    bool isReplaced;
  };

  TapeContext *findHandler();
  void link(Phase next);
  bool isRecordingMemory() const { return recordsMemory && (phase == Phase::Recording || phase == Phase::Closed); }
  UndoLog::Reads getReads() const;
  template <typename Visit> static void forEachOwn(Visit visit);
  template <typename Visit> static void forEachForeign(Visit visit);

  /// The contexts that one thread has entered, which another thread may leave: it lives as long as the thread or one of them.
  struct Stack {
    TapeContext *innermost = nullptr;
  };
  static TapeContext *getInnermost() { return stack ? stack->innermost : nullptr; }

  /// The stack of this thread; null until it enters a context. Every launch reads this variable; with lazy allocation each read would be a
  /// call.
  static constinit thread_local Stack *stack __attribute__((tls_model("initial-exec")));
  /// First of the contexts of all threads that record memory.
  inline static TapeContext *firstActive = nullptr;

  PyObject *const owner; ///< this thread holds a reference while it records or runs gradients
  const bool recordsMemory;
  Phase phase = Phase::Idle;
  bool handlesCall = false, handlesWrite = false; ///< the owner is being called
  int hideDepth = 0;
  std::shared_ptr<Stack> entered; ///< the stack that this context is in; null while idle
  TapeContext *outer = nullptr;
  TapeContext *previousActive = nullptr, *nextActive = nullptr;
  UndoLog log;
  Ref binding;
  Ref sum;
  uint64_t sumMicroseconds = 0;
  FusedLaunch *fused = nullptr;
  std::vector<Uncommitted> uncommitted;
  std::optional<std::pair<size_t, size_t>> replay; ///< positions around the call whose gradient runs
};

} // namespace qd::launch
