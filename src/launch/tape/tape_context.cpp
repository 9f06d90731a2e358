// tape_context.cpp: the phases of tapes, and which of them see a call, a launch or a write
//
// In:   the blocks of tapes and forward modes, calls of kernels, launches, and writes and views from Python.
// Out:  calls of the Python objects that own the contexts, and notes in their undo logs.
// Here: contexts of one thread are a list, innermost first; undo logs also see the launches and writes of other threads.
#include "launch/tape/tape_context.h"

#include "launch/capture.h"
#include "launch/state.h"
#include "support/error.h"

#include <chrono>
#include <pthread.h>
#include <thread>

namespace qd::launch {

namespace {

/// Threads take turns in using the undo logs, because an undo log may call Python, which may pass the GIL to another thread. A thread waits
/// without the GIL, and may enter again while it holds the turn. `owner` and `depth` are read and changed with the GIL held, and the GIL is
/// not released between a read and a change, so they need no atomics. The modules do not run without a GIL.
class Turn {
public:
  Turn() {
    while (owner && owner != &identity) {
      PyThreadState *thread = PyEval_SaveThread();
      std::this_thread::sleep_for(std::chrono::microseconds(20));
      takeBackGil(thread);
    }
    owner = &identity;
    ++depth;
  }
  ~Turn() {
    if (--depth == 0) owner = nullptr;
  }
  Turn(const Turn &) = delete;
  Turn &operator=(const Turn &) = delete;

  /// A forked child has no other threads.
  static void forgetOthers() {
    if (owner != &identity) owner = nullptr, depth = 0;
  }

private:
  inline static thread_local char identity = 0;
  inline static const void *owner = nullptr;
  inline static int depth = 0;
};

[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, Turn::forgetOthers);

} // namespace

constinit thread_local TapeContext::Stack *TapeContext::stack = nullptr;

//--- Phases ---

/// Makes this context the innermost one, and keeps it alive.
void TapeContext::link(Phase next) {
  static thread_local std::shared_ptr<Stack> own = std::make_shared<Stack>();
  stack = own.get();
  entered = own;
  outer = std::exchange(stack->innermost, this);
  phase = next;
  Py_INCREF(owner);
}

PyObject *TapeContext::enter() {
  Capture::refuse("entering a tape");
  PyObject *handler = getCallHandler();
  if (phase != Phase::Idle) return handler;
  Turn turn;
  link(Phase::Recording);
  if (!recordsMemory) return handler;
  log.begin(getState().launches);
  nextActive = std::exchange(firstActive, this);
  if (nextActive) nextActive->previousActive = this;
  return handler;
}

void TapeContext::close() {
  if (phase != Phase::Recording) return;
  phase = Phase::Closed;
  Py_DECREF(owner);
}

void TapeContext::leave() {
  if (phase == Phase::Idle) return;
  Turn turn;
  Phase before = std::exchange(phase, Phase::Idle);
  TapeContext **link = &entered->innermost;
  while (*link != this) link = &(*link)->outer;
  *link = outer;
  outer = nullptr;
  entered.reset();
  if (recordsMemory && before != Phase::Backward) {
    (previousActive ? previousActive->nextActive : firstActive) = nextActive;
    if (nextActive) nextActive->previousActive = previousActive;
    previousActive = nextActive = nullptr;
  }
  if (before != Phase::Closed) Py_DECREF(owner);
}

void TapeContext::beginBackward() {
  Ref held = Ref::borrow(owner);
  leave();
  link(Phase::Backward);
}

void TapeContext::hide() {
  Turn turn;
  for (TapeContext *to = this; to; to = to->outer) ++to->hideDepth;
}

void TapeContext::show() {
  Turn turn;
  for (TapeContext *to = this; to; to = to->outer)
    if (--to->hideDepth == 0) to->log.recordDeferredReads();
}

//--- Calls and writes ---

TapeContext *TapeContext::findHandler() {
  TapeContext *found = this;
  while (found && found->phase != Phase::Recording) found = found->outer;
  return found && !found->handlesCall && !found->hideDepth ? found : nullptr;
}

PyObject *TapeContext::getCallHandler() {
  TapeContext *found = findCallHandler();
  return found ? found->owner : nullptr;
}

PyObject *TapeContext::handleCall(PyObject *kernel, PyObject *arguments, PyObject *keywords) {
  static PyObject *name = PyUnicode_InternFromString("_on_call");
  Ref held = Ref::borrow(owner); // and with it this context
  Raised raised{handlesCall};
  return PyObject_CallMethodObjArgs(owner, name, kernel, arguments, keywords, nullptr);
}

void TapeContext::noteWrite(PyObject *container, PyObject *index) {
  if (!firstActive) return;
  if (!isShadow(container)) {
    Turn turn;
    UndoLog::Box box = UndoLog::findBox(container, index);
    forEachOwn([&](TapeContext &to) { to.log.writeFromHost(container, box, "Python"); });
    forEachForeign([&](TapeContext &other) { other.log.noteForeignWrite(container, box); });
  }
  static PyObject *name = PyUnicode_InternFromString("_on_write");
  for (TapeContext *to = getInnermost(); to;) {
    if (to->phase == Phase::Backward || to->handlesWrite || to->hideDepth) return;
    Ref held = Ref::borrow(to->phase == Phase::Recording ? to->owner : nullptr);
    if (held && to->recordsMemory) {
      Raised raised{to->handlesWrite};
      Ref::adopt(PyObject_CallMethodObjArgs(to->owner, name, container, index, nullptr));
    }
    to = to->outer;
  }
}

void TapeContext::noteView(PyObject *container) {
  if (!firstActive || isShadow(container)) return;
  Turn turn;
  for (TapeContext *to = firstActive; to; to = to->nextActive)
    if (to->phase != Phase::Closed) to->log.noteView(container);
}

//--- Launches ---

UndoLog::Reads TapeContext::getReads() const {
  if (phase == Phase::Closed) return UndoLog::Reads::Ignored;
  return hideDepth ? UndoLog::Reads::Deferred : UndoLog::Reads::Recorded;
}

/// The contexts of this thread that record memory.
template <typename Visit> void TapeContext::forEachOwn(Visit visit) {
  for (TapeContext *to = getInnermost(); to; to = to->outer)
    if (to->isRecordingMemory()) visit(*to);
}

/// The contexts of other threads that record memory.
template <typename Visit> void TapeContext::forEachForeign(Visit visit) {
  for (TapeContext *other = firstActive; other; other = other->nextActive) {
    bool isOwn = false;
    for (TapeContext *own = getInnermost(); own; own = own->outer) isOwn |= own == other;
    if (!isOwn) visit(*other);
  }
}

void TapeContext::noteBegin(const artifact::Artifact &artifact, const UndoLog::Accesses &accesses, const unsigned char *block) {
  Turn turn;
  forEachOwn([&](TapeContext &to) { to.log.noteBegin(artifact, accesses, block, to.getReads()); });
  forEachForeign([&](TapeContext &other) { other.log.noteForeignBegin(artifact, accesses, block); });
}

void TapeContext::noteEnd(const UndoLog::Accesses &accesses, const unsigned char *block) {
  Turn turn;
  forEachOwn([&](TapeContext &to) { to.log.noteEnd(accesses, block, to.getReads()); });
  forEachOwn([&](TapeContext &to) { to.log.refreshWatched(); });
  forEachForeign([&](TapeContext &other) { other.log.refreshWatched(); });
}

bool TapeContext::recordsBinding() {
  for (TapeContext *to = getInnermost(); to; to = to->outer)
    if (to->isRecordingMemory()) return to->getReads() == UndoLog::Reads::Recorded;
  return false;
}

void TapeContext::noteBinding(const Ref &binding) {
  forEachOwn([&](TapeContext &to) { to.binding = binding; });
}

void TapeContext::noteSum(PyObject *container, uint64_t microseconds) {
  for (TapeContext *to = getInnermost(); to; to = to->outer) {
    if (!to->isRecordingMemory()) continue;
    to->sum = Ref::borrow(container);
    to->sumMicroseconds = microseconds;
    return;
  }
}

//--- Backward ---

void TapeContext::undo(size_t position) {
  Turn turn;
  log.undo(position);
}

void TapeContext::redo() {
  Turn turn;
  log.redo();
}

void TapeContext::exchange(const std::vector<PyObject *> &objects, bool isBack) {
  TapeContext *from = getInnermost();
  while (from && !(from->phase == Phase::Backward && from->replay)) from = from->outer;
  if (!from) throw support::Error(support::ErrorKind::Runtime, "a gradient that needs what its kernel overwrites runs under a tape only");
  auto [begin, end] = *from->replay;
  from->log.exchange(begin, end, objects, isBack);
}

} // namespace qd::launch
