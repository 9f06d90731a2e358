// fused_launch.cpp: launches of a kernel together with its gradient, and their commit at the end of the tape
//
// In:   a kernel of the mode Fused, its arguments and the loss.
// Out:  gradients that stay hidden (lazily zeroed) until `commit` commits them; or the answer that a fused launch is not possible.
// Here: the guards report the gradients that the kernel writes (`note`); the context stores the hidden ones until the tape ends.
#include "launch/tape/fused_launch.h"

#include <algorithm>

namespace qd::launch {

using TensorState = runtime::Tensor::State;

void FusedLaunch::begin() {
  restoreLazyZeros();
  areZero = true;
}

void FusedLaunch::note(TensorObject &object, const artifact::Input &input) {
  if (!object.shadow) return;
  bool isLazilyZeroed = object.tensor.state == TensorState::LazilyZeroed;
  areZero &= object.tensor.hasMemory() && isZero(object) && isUniqueOwner(object);
  if (isLazilyZeroed) object.tensor.markAlive();
  gradients.push_back({Ref::borrow(reinterpret_cast<PyObject *>(&object)), !input.written.isEmpty, isLazilyZeroed});
}

/// Marks gradients that were lazily zeroed as such again.
void FusedLaunch::restoreLazyZeros() {
  for (const Gradient &gradient : gradients)
    if (gradient.wasLazilyZeroed && getObject(gradient).tensor.state == TensorState::Alive) getObject(gradient).tensor.markLazilyZeroed();
  gradients.clear();
}

bool FusedLaunch::isPossible(const UndoLog::Accesses &accesses) const {
  bool isSum = false;
  for (const LaunchGuards::Access &access : accesses) {
    auto isGradient = [&](const Gradient &gradient) { return gradient.object.get() == access.object; };
    if (access.input->isWritten && std::count_if(gradients.begin(), gradients.end(), isGradient) != (access.object == loss ? 0 : 1))
      return false;
    if (access.input->isWritten && access.object == loss && std::exchange(isSum, true)) return false;
    if (!access.input->isWritten && mayOverlap(access.object, loss)) return false;
  }
  return isSum && areZero;
}

void FusedLaunch::prepare() {
  for (Gradient &gradient : gradients) {
    if (gradient.wasLazilyZeroed && !gradient.isReplaced && getObject(gradient).tensor.hasMemory()) materializeZeros(getObject(gradient));
    gradient.wasLazilyZeroed = true; // after an exception it counts as zero again
  }
}

void FusedLaunch::finish() {
  for (const Gradient &gradient : gradients) {
    if (!getObject(gradient).tensor.hasMemory()) continue; // the runtime was reset meanwhile
    getObject(gradient).tensor.markLazilyZeroed();
    tape.addUncommitted(gradient.object, gradient.isReplaced);
  }
  gradients.clear();
}

//--- Methods of the context ---

bool TapeContext::launchFused(PyObject *kernel, PyObject *arguments, PyObject *loss) {
  uncommitted.clear();
  FusedLaunch launch(*this, loss);
  struct Use {
    FusedLaunch *&fused, *before;
    ~Use() { fused = before; }
  } use{fused, std::exchange(fused, &launch)};
  return Ref::adopt(PyObject_CallObject(kernel, arguments)).get() == Py_True;
}

FusedLaunch *TapeContext::findFused() {
  TapeContext *found = getInnermost();
  while (found && !found->fused) found = found->outer;
  return found ? found->fused : nullptr;
}

void TapeContext::addUncommitted(const Ref &object, bool isReplaced) {
  uncommitted.push_back({object, getTensor(object.get()).buffer->getWrites(), isReplaced});
}

bool TapeContext::commit() {
  auto isAsLeft = [](const Uncommitted &entry) {
    const runtime::Tensor &tensor = getTensor(entry.object.get());
    return tensor.state == TensorState::LazilyZeroed && tensor.buffer->getWrites() == entry.writes;
  };
  bool isCommitted = std::all_of(uncommitted.begin(), uncommitted.end(), isAsLeft);
  for (const Uncommitted &entry : uncommitted) {
    if (!isCommitted) break;
    auto &object = tensorObject(entry.object.get());
    object.tensor.markAlive();
    object.isReplaced = entry.isReplaced;
  }
  uncommitted.clear();
  return isCommitted;
}

} // namespace qd::launch
