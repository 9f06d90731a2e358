// undo_log.h: the contents of memory before it was overwritten, for tapes
//
// The gradient of a recorded call uses the values that the call read. When a later call or Python overwrites them, the undo log records the
// old contents. While the gradients run, from the last call to the first, it restores them, so that each gradient finds memory as its call
// left it. Memory that no recorded call has read is not recorded.
#pragma once

#include "artifact/artifact.h"
#include "launch/guards/launch_guards.h"
#include "runtime/buffer.h"

#include <array>
#include <span>
#include <unordered_map>
#include <vector>

namespace qd::launch {

/// Whether the object is the gradient or tangent of a container; they are never recorded.
bool isShadow(PyObject *object);

/// The log of one tape. `TapeContext` decides which launches and writes it sees.
class UndoLog {
public:
  using Accesses = std::vector<LaunchGuards::Access>;
  /// Indices from and to (exclusive) along each axis; empty: all elements.
  using Box = std::vector<std::array<int64_t, 2>>;
  /// What becomes of the reads of a launch. Deferred ones are recorded later as the reads of one call.
  enum class Reads { Recorded, Deferred, Ignored };

  /// With `recordsAll` everything that is overwritten is recorded.
  explicit UndoLog(bool recordsAll) : recordsAll(recordsAll) {}
  UndoLog(const UndoLog &) = delete;
  UndoLog &operator=(const UndoLog &) = delete;

  /// Sets the number of the last launch before the tape.
  void begin(uint64_t launches) { firstLaunch = launches; }
  /// Number of entries recorded so far: the position of a call in the log.
  size_t getPosition() const { return entries.size(); }
  /// Restores memory to its state at the given position, as far as gradients need it. Throws Error (Runtime) where the old contents are
  /// not known.
  void undo(size_t position);
  /// Reverts `undo`.
  void redo();
  /// Exchanges the current contents of these containers and arrays with what they held before the call between two positions; with `isBack`
  /// exchanges them back.
  void exchange(size_t begin, size_t end, const std::vector<PyObject *> &objects, bool isBack);

  /// Called before and after a launch.
  void noteBegin(const artifact::Artifact &artifact, const Accesses &accesses, const unsigned char *block, Reads policy);
  void noteEnd(const Accesses &accesses, const unsigned char *block, Reads policy);
  void recordDeferredReads();
  /// Called after a launch, when all logs have noted its end: copies again what it has overwritten.
  void refreshWatched();
  /// Called before a launch of another thread, and before a write from Python on another thread.
  void noteForeignBegin(const artifact::Artifact &artifact, const Accesses &accesses, const unsigned char *block);
  void noteForeignWrite(PyObject *container, const Box &box);
  /// Called before Python writes to elements.
  void writeFromHost(PyObject *container, const Box &box, const std::string &writer);
  /// Whether one access reads elements that the other one writes.
  static bool meet(const LaunchGuards::Access &read, const LaunchGuards::Access &write, const unsigned char *block);
  /// The box of the element at an index; Py_None: of all elements.
  static Box findBox(PyObject *container, PyObject *index);
  /// Called before a view of a container is created, through which its memory may change unnoticed.
  void noteView(PyObject *container);

private:
  struct Read {
    Ref object;
    Box box;
  };
  /// Memory that views and other libraries may change unnoticed.
  struct Watched {
    Ref object{}, elements{}; ///< `elements`: for containers that are not packed or have a gradient
    runtime::BufferRef copy{};
    std::optional<int64_t> version{}; ///< version counter of a torch tensor on a device; compared in place of the contents
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
  static Box evaluate(const artifact::Region &region, std::span<const int64_t> extents, const unsigned char *block);
  static bool intersect(const Box &one, const Box &other);
  static bool contains(const Box &outer, const Box &inner);
  std::vector<Read> &getReads(PyObject *object);
  bool isNeeded(PyObject *object, const Box &box);
  void forget(PyObject *object, const Box &box);
  void addRead(PyObject *object, Box box);
  void write(PyObject *object, const Box &box, const std::string &name, const std::string &writer, bool isOfLaunch, bool isOwn);
  void record(PyObject *object, const Box &box);
  void watch(const LaunchGuards::Access &access);
  static void copyNow(Watched &entry);
  void compare(PyObject *object, bool isWritten);
  void compareAll();
  void recordChange(Watched &&entry);
  static bool hasChanged(const Watched &watched);
  void noteForeign(PyObject *object, const std::string &writer);
  void readForeign(PyObject *object);
  void swap(Entry &entry);

  const bool recordsAll;
  uint64_t firstLaunch = 0;
  std::unordered_map<const void *, std::vector<Read>> reads; ///< keyed by buffer; arrays of other libraries under null
  std::vector<Read> deferredReads;
  std::vector<Watched> watched;
  std::vector<Foreign> foreign;
  std::string refusal; ///< error message when gradients would be wrong
  std::vector<Entry> entries;
  size_t undone = SIZE_MAX; ///< entries from this index on are undone
};

} // namespace qd::launch
