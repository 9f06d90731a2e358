// fused_launch.h: a call that runs a kernel and its gradient in one pass, because it may be the last one of a tape
//
// If a kernel only adds to the loss and is the last call of the tape, the gradient of the loss is 1 and the kernel can compute its
// gradients while it runs. At the call it is not known whether another call follows, so the computed gradients stay hidden: their
// containers are marked as lazily zeroed and read as zero. At the end of the tape `commit` commits them. If a gradient was read in between,
// it was filled with zeros, and the gradients are computed by a separate reverse pass.
#pragma once

#include "launch/containers/tensor_object.h"
#include "launch/tape/tape_context.h"

#include <vector>

namespace qd::launch {

class FusedLaunch {
public:
  FusedLaunch(TapeContext &tape, PyObject *loss) : tape(tape), loss(loss) {}
  ~FusedLaunch() { restoreLazyZeros(); }

  /// Called before a launch reads its arguments.
  void begin();
  /// Called for a container that the launch writes. A lazily zeroed container is passed to the kernel without being filled.
  void note(TensorObject &object, const artifact::Input &input);
  /// Whether the kernel writes nothing but the loss and gradients that are zero, and whether no other object shares memory with those
  /// gradients.
  bool isPossible(const UndoLog::Accesses &accesses) const;
  /// Clears the gradients that the kernel updates; those that it overwrites need no clearing.
  void prepare();
  /// Called after the launch: passes the gradients to the context, which commits them.
  void finish();

private:
  struct Gradient {
    Ref object;
    bool isReplaced, wasLazilyZeroed;
  };
  static TensorObject &getObject(const Gradient &gradient) { return tensorObject(gradient.object.get()); }
  void restoreLazyZeros();

  TapeContext &tape;
  PyObject *loss;
  std::vector<Gradient> gradients;
  bool areZero = true;
};

} // namespace qd::launch
