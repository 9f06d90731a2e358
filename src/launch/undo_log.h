// undo_log.h: what was in memory before it was overwritten, for tapes
//
// The gradient of a recorded call looks at what the call has read. Whatever later calls, or Python, write over it is kept here, and brought
// back when the gradients run: from the last call to the first, so that each finds memory as its call left it. What no recorded call has
// read is not kept.
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
  /// With `keepsAll` whatever is overwritten is kept.
  explicit UndoLog(bool keepsAll) : keepsAll(keepsAll) {}
  UndoLog(const UndoLog &) = delete;
  UndoLog &operator=(const UndoLog &) = delete;
  ~UndoLog() { leave(); }

  /// This thread's launches and writes are noted, here and in the undo logs around, until `leave`.
  void enter();
  void leave();
  /// From here on nothing that is read counts.
  void close() { isClosed = true; }
  /// Until `show`: what is read counts as read when all is over, by one call. In the undo logs around, too.
  void hide();
  void show();

  /// How much has been kept so far: where in its order a call stands.
  size_t getPosition() const { return kept.size(); }
  /// Brings memory back to what it was at the mark, as far as it is needed. Throws Error (Runtime) where it is not known.
  void undo(size_t mark);
  /// Until `endReplay`: a gradient runs, of the call that stands between two marks.
  void beginReplay(size_t before, size_t after);
  void endReplay();
  /// What that call overwrote of these containers and arrays as it was before, and the other way round when called again.
  static void exchange(const std::vector<PyObject *> &objects, bool isBack);
  /// Undoes `undo`.
  void redo();

  using Accesses = std::vector<LaunchGuards::Access>;
  /// Whether some thread's undo log notes launches now.
  static bool isAnyActive() { return firstEntered != nullptr; }
  /// Around a launch. Throws Error (Memory) that names the container.
  static void noteBegin(const artifact::Artifact &artifact, const Accesses &accesses, const unsigned char *block);
  static void noteEnd(const Accesses &accesses, const unsigned char *block);
  /// Before somebody gets a view of a container, through which it may change unseen.
  static void noteView(PyObject *container);
  /// Before Python writes to an element, or (Py_None) anywhere.
  static void noteWrite(PyObject *container, PyObject *index);

  /// Of the last launch that was noted: whether all it does is to add to the container, and that it took so long.
  bool addedOnlyTo(PyObject *container, uint64_t minMicroseconds) const {
    return sum.get() == container && sumMicroseconds >= minMicroseconds;
  }
  void noteSum(PyObject *container, uint64_t microseconds) {
    sum = Ref::borrow(container);
    sumMicroseconds = microseconds;
  }

  /// What the last call that is recorded was called with (launch/binding.h); empty where nothing compiled ran since it was asked for.
  Ref takeBinding() { return std::exchange(binding, Ref()); }
  bool wantsBinding() const { return !hidden && !isClosed; }
  void noteBinding(const Ref &made) {
    for (UndoLog *to = this; to; to = to->outer) to->binding = made;
  }

  /// fused_launch.cpp. Calls a kernel of the mode Fused. False: nothing was done, as it has other effects than to add to the loss, or
  /// as gradients are not known to be zero.
  bool launchFused(PyObject *kernel, PyObject *arguments, PyObject *loss);
  /// Uncovers the gradients that the last such call left. False: something has looked at them since, and they were zero.
  bool accept();
  void addHidden(const Ref &object, bool isReplaced);

private:
  /// A gradient that a fused launch wrote, and how often its memory had been written then.
  struct Hidden {
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
  /// Memory that may change unseen, through views and by other libraries.
  struct Watched {
    Ref object{}, elements{}; ///< elements: where they do not lie packed, or have a gradient
    runtime::BufferRef copy{};
    int64_t version = 0; ///< of a tensor that torch counts changes of, on a device
    std::string name{};
    bool isOutdated = false; ///< a launch that runs now writes to it
    bool isComputed = false; ///< a recorded call has written it, and it has a gradient
  };
  /// What a thread has written that has no part in the tape, and that has a gradient.
  struct Foreign {
    Ref object;
    std::string text; ///< why there is no gradient where it is read
  };
  struct Kept {
    Ref object{}, elements{}; ///< elements: where they do not lie packed
    runtime::BufferRef owner{}, copy{};
    unsigned char *data = nullptr;
    size_t bytes = 0;
    std::string lost{};      ///< why it is not known
    bool isOfLaunch = false; ///< a launch overwrites it
    Ref changed{};           ///< elements that a recorded call has computed and that were overwritten unseen: their gradient ends here
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
  void keep(PyObject *object, const Box &box);
  void writeFromHost(PyObject *container, const Box &box, const std::string &writer);
  void watch(const LaunchGuards::Access &access);
  static void copyNow(Watched &entry);
  void compare(PyObject *object, bool isWritten);
  void compareAll();
  void compareWith(Watched &&entry);
  static bool hasChanged(const Watched &watched);
  template <typename Visit> static void forEachForeign(Visit visit);
  void noteForeign(PyObject *object, const std::string &writer);
  void readForeign(PyObject *object);
  void swap(Kept &entry);

  inline static UndoLog *firstEntered = nullptr; ///< of all threads
  UndoLog *previousEntered = nullptr, *nextEntered = nullptr;
  uint64_t firstLaunch = 0; ///< number of the last launch before it was entered
  bool keepsAll = false, isEntered = false, isClosed = false;
  int hidden = 0;
  UndoLog *outer = nullptr;
  std::unordered_map<const void *, std::vector<Read>> reads; ///< by buffer; arrays of others under null
  std::vector<Read> hiddenReads;
  std::vector<Watched> watched;
  std::vector<Foreign> foreign;
  std::string refusal; ///< why gradients would be wrong
  std::vector<Kept> kept;
  size_t undone = SIZE_MAX; ///< entries from here on are undone
  size_t replayBegin = 0, replayEnd = 0;
  UndoLog *outerReplay = nullptr;
  Ref sum;
  uint64_t sumMicroseconds = 0;
  std::vector<Hidden> uncertain;
  Ref binding;
};

/// The innermost undo log of this thread, or null.
inline thread_local UndoLog *undoLog = nullptr;
/// The undo log whose calls' gradients run now, or null.
inline thread_local UndoLog *replaying = nullptr;

} // namespace qd::launch
