// undo_log.h: the contents of memory before it was overwritten, for tapes
//
// The gradient of a recorded call uses the values that the call read. When a later call or Python overwrites them, the undo log records the
// old contents. While the gradients run, from the last call to the first, it restores them, so that each gradient finds memory as its call
// left it. Memory that no recorded call has read is not recorded.
#pragma once

#include "artifact/artifact.h"
#include "launch/guards.h"
#include "runtime/buffer.h"

#include <array>
#include <unordered_map>
#include <vector>

namespace qd::launch {

class UndoLog {
public:
  /// With `recordsAll` everything that is overwritten is recorded.
  explicit UndoLog(bool recordsAll) : recordsAll(recordsAll) {}
  UndoLog(const UndoLog &) = delete;
  UndoLog &operator=(const UndoLog &) = delete;
  ~UndoLog() { leave(); }

  /// Records the launches and writes of this thread, in this undo log and the enclosing ones, until `leave`.
  void enter();
  void leave();
  /// Ignores all reads from now on.
  void close() { isClosed = true; }
  /// Defers reads until `recordDeferredReads`, which records them as the reads of one call. Applies to the enclosing undo logs, too.
  void deferReads();
  void recordDeferredReads();

  /// Number of entries recorded so far: the position of a call in the log.
  size_t getPosition() const { return entries.size(); }
  /// Restores memory to its state at the given position, as far as gradients need it. Throws Error (Runtime) where the old contents are
  /// not known.
  void undo(size_t position);
  /// The gradient of the call between two positions runs until `endReplay`.
  void beginReplay(size_t before, size_t after);
  void endReplay();
  /// Exchanges the current contents of these containers and arrays with what they held before that call; a second call, with `isBack`,
  /// exchanges them back.
  static void exchange(const std::vector<PyObject *> &objects, bool isBack);
  /// Reverts `undo`.
  void redo();

  using Accesses = std::vector<LaunchGuards::Access>;
  /// Whether any thread has an active undo log.
  static bool isAnyActive() { return firstEntered != nullptr; }
  /// Called before and after a launch. Throws Error (Memory) that names the container.
  static void noteBegin(const artifact::Artifact &artifact, const Accesses &accesses, const unsigned char *block);
  static void noteEnd(const Accesses &accesses, const unsigned char *block);
  /// Called before a view of a container is created, through which its memory may change unnoticed.
  static void noteView(PyObject *container);
  /// Called before Python writes to an element, or (Py_None) to any element.
  static void noteWrite(PyObject *container, PyObject *index);

  /// Whether the last recorded launch only added to the container, and took at least so long.
  bool addedOnlyTo(PyObject *container, uint64_t minMicroseconds) const {
    return sum.get() == container && sumMicroseconds >= minMicroseconds;
  }
  void recordSum(PyObject *container, uint64_t microseconds) {
    sum = Ref::borrow(container);
    sumMicroseconds = microseconds;
  }

  /// Binding of the last recorded call (launch/binding.h); empty when no compiled kernel has run since the previous request.
  Ref takeBinding() { return std::exchange(binding, Ref()); }
  bool recordsBinding() const { return !deferralDepth && !isClosed; }
  void noteBinding(const Ref &made) {
    for (UndoLog *to = this; to; to = to->outer) to->binding = made;
  }

  /// fused_launch.cpp. Calls a kernel of the mode Fused. False: nothing was done, because the kernel has other effects than adding to the
  /// loss, or because gradients are not known to be zero.
  bool launchFused(PyObject *kernel, PyObject *arguments, PyObject *loss);
  /// Commits the gradients that the last fused call left. False: they have been accessed since, as zeros.
  bool commit();
  void addUncommitted(const Ref &object, bool isReplaced);

private:
  /// A gradient that a fused launch wrote, and the write count of its memory at that time.
  struct Uncommitted {
    Ref object;
    uint64_t writes;
    bool isReplaced;
  };
  /// Indices from and to (exclusive) along each axis; empty: all elements.
  using Box = std::vector<std::array<int64_t, 2>>;
  struct Read {
    Ref object;
    Box box;
  };
  /// Memory that views and other libraries may change unnoticed.
  struct Watched {
    Ref object{}, elements{}; ///< `elements`: for containers that are not packed or have a gradient
    runtime::BufferRef copy{};
    int64_t version = 0; ///< version counter of a torch tensor on a device
    std::string name{};
    bool isOutdated = false; ///< the current launch writes to it
    bool isComputed = false; ///< a recorded call has written it, and it has a gradient
  };
  /// A container with a gradient that another thread has written.
  struct Foreign {
    Ref object;
    std::string text; ///< why a call that reads it has no gradient
  };
  struct Entry {
    Ref object{}, elements{}; ///< `elements`: for containers that are not packed
    runtime::BufferRef owner{}, copy{};
    unsigned char *data = nullptr;
    size_t bytes = 0;
    std::string unknownReason{}; ///< why the old contents are not known
    bool isOfLaunch = false;     ///< overwritten by a launch
    Ref changed{};               ///< elements that a recorded call computed and that were overwritten unnoticed: their gradient ends here
  };

  static Box evaluate(const artifact::Region &region, PyObject *object, const unsigned char *block);
  static bool intersect(const Box &one, const Box &other);
  static bool contains(const Box &outer, const Box &inner);
  std::vector<Read> &getReads(PyObject *object);
  bool isNeeded(PyObject *object, const Box &box);
  static bool isReadBy(const Accesses &accesses, PyObject *object, const Box &box, const unsigned char *block);
  void forget(PyObject *object, const Box &box);
  void addRead(PyObject *object, Box box);
  void write(PyObject *object, const Box &box, const std::string &name, const std::string &writer, bool isOfLaunch, bool isOwn);
  void record(PyObject *object, const Box &box);
  void writeFromHost(PyObject *container, const Box &box, const std::string &writer);
  void watch(const LaunchGuards::Access &access);
  static void copyNow(Watched &entry);
  void compare(PyObject *object, bool isWritten);
  void compareAll();
  void recordChange(Watched &&entry);
  static bool hasChanged(const Watched &watched);
  template <typename Visit> static void forEachForeign(Visit visit);
  void noteForeign(PyObject *object, const std::string &writer);
  void readForeign(PyObject *object);
  void swap(Entry &entry);

  inline static UndoLog *firstEntered = nullptr; ///< first of the active undo logs of all threads
  UndoLog *previousEntered = nullptr, *nextEntered = nullptr;
  uint64_t firstLaunch = 0; ///< number of the last launch before `enter`
  bool recordsAll = false, isEntered = false, isClosed = false;
  int deferralDepth = 0;
  UndoLog *outer = nullptr;
  std::unordered_map<const void *, std::vector<Read>> reads; ///< keyed by buffer; arrays of other libraries under null
  std::vector<Read> deferredReads;
  std::vector<Watched> watched;
  std::vector<Foreign> foreign;
  std::string refusal; ///< error message when gradients would be wrong
  std::vector<Entry> entries;
  size_t undone = SIZE_MAX; ///< entries from this index on are undone
  size_t replayBegin = 0, replayEnd = 0;
  UndoLog *outerReplay = nullptr;
  Ref sum;
  uint64_t sumMicroseconds = 0;
  std::vector<Uncommitted> uncommitted;
  Ref binding;
};

/// The innermost undo log of this thread, or null.
inline thread_local UndoLog *undoLog = nullptr;
/// The undo log whose gradients run now, or null.
inline thread_local UndoLog *replaying = nullptr;

} // namespace qd::launch
