// kernel.h: the Python type `Kernel`.
#pragma once

#include "launch/python.h"
#include "launch/specializations.h"
#include "support/autodiff_mode.h"

#include <cstddef>
#include <cstdint>
#include <map>

namespace qd::launch {

struct State;

/// Kernels derived from another one, made on request, and what is known about its gradient under a tape.
struct DerivedKernels {
  PyObject *reverse, *forward, *replay, *fused;
  PyObject *endsTapes;   ///< True, False or null: whether the kernel is fused with its gradient when it ends a tape
  bool needsOverwritten; ///< the gradient reads overwritten primals
};

struct KernelObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  // Each launch reads the members up to `mode`; with the head they take 64 bytes.
  Specializations *specializations;
  uint64_t epoch;             ///< epoch of the program that `specializations` belongs to
  Py_ssize_t plainCount;      ///< number of arguments when all are positional; -1: some must be named
  PyObject *defaults;         ///< tuple: defaults of the named parameters, which follow `plainCount` positional arguments; or null
  support::AutodiffMode mode; ///< how this kernel is derived from its function
  PyObject *modeObject;       ///< the same as a quadrants._base.autodiff_mode.AutodiffMode
  PyObject *dict, *weakReferences;
  PyObject *function, *parameters, *results, *name;
  Py_ssize_t parameterCount;
  DerivedKernels derived;
  std::map<const State *, Specializations> *ofPrograms; ///< for each program that has called it
  KernelObject *previous, *next;                        ///< list of all kernels, for reset
};
static_assert(offsetof(KernelObject, mode) + sizeof(support::AutodiffMode) <= 64);

extern PyTypeObject *kernelType;
void addKernelType(PyObject *module);
/// Removes the code of every kernel in the current program; launches in progress finish with theirs. Destroying the result may run any
/// Python code.
std::vector<Specializations> releaseAllKernels();

/// While this object lives, launches of this thread go to a qd.Stream; None: to the same one as before.
class StreamChoice {
public:
  explicit StreamChoice(PyObject *stream);
  ~StreamChoice();
  StreamChoice(const StreamChoice &) = delete;

private:
  void *before;
};

inline bool isKernel(PyObject *object) { return PyObject_TypeCheck(object, kernelType); }
PyObject *getKernelFunction(PyObject *kernel);
/// Switches to the current program's specializations.
void synchronizeEpoch(KernelObject &kernel);

} // namespace qd::launch
