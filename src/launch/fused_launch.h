// fused_launch.h: a call that runs a kernel and its gradient in one pass, because it may be the last one of a tape
//
// A kernel that only adds to the loss has gradients as soon as it runs, if nothing follows it on the tape: the gradient of the loss is 1
// then. Nobody knows at the call whether something follows. So what the pass leaves in the gradients stays hidden: they are stale, that is
// zero to all who look. At the end of the tape `accept` uncovers it; whatever has looked at a gradient in between has made it zero, and
// gradients are computed the usual way.
#pragma once

#include "launch/tensor_object.h"
#include "launch/undo_log.h"

#include <vector>

namespace qd::launch {

class FusedLaunch {
public:
  FusedLaunch(UndoLog &undoLog, PyObject *loss) : undoLog(undoLog), loss(loss) {}
  ~FusedLaunch() { hide(); }

  /// Before a launch reads its arguments.
  void begin();
  /// Of the arguments of a launch: a container that the kernel writes. Lets it go on with a stale one as it is.
  void note(TensorObject &object, const artifact::Input &input);
  /// Whether the loss is all that is written but for gradients, which are zero, and nothing else has part in their memory.
  bool isPossible(const UndoLog::Accesses &accesses) const;
  /// What is added to, not overwritten, is cleared.
  void prepare();
  /// After the launch: the undo log knows what to uncover.
  void finish();

private:
  struct Gradient {
    Ref object;
    bool isReplaced, isWoken;
  };
  static TensorObject &getObject(const Gradient &gradient) { return *reinterpret_cast<TensorObject *>(gradient.object.get()); }
  void hide();

  UndoLog &undoLog;
  PyObject *loss;
  std::vector<Gradient> gradients;
  bool areZero = true;
};

/// The one under way on this thread, or null.
inline thread_local FusedLaunch *fusedLaunch = nullptr;

} // namespace qd::launch
