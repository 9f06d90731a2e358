// kernel.h: the Python type `Kernel`.
#pragma once

#include "launch/python.h"
#include "launch/specializations.h"
#include "support/autodiff_mode.h"

#include <cstdint>
#include <map>

namespace qd::launch {

struct State;

struct KernelObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject *dict, *weakReferences;
  PyObject *function, *parameters, *results, *name;
  PyObject *reverse, *forward, *replay, *fused; ///< kernels derived from this one, made on request
  PyObject *endsTapes;                          ///< True, False or null: whether it is fused with its gradient when it ends a tape
  bool needsOverwritten;                        ///< its gradient under a tape reads overwritten primals
  support::AutodiffMode mode;                   ///< how this kernel is derived from its function
  PyObject *modeObject;                         ///< the same as a quadrants._base.autodiff_mode.AutodiffMode
  Py_ssize_t parameterCount;
  Py_ssize_t plainCount; ///< number of arguments when all are positional; -1: some must be named
  PyObject *defaults;    ///< tuple: defaults of the named parameters, which follow `plainCount` positional arguments; or null
  uint64_t epoch;        ///< epoch of the program that `specializations` belongs to
  Specializations *specializations;
  std::map<const State *, Specializations> *ofPrograms; ///< for each program that has called it
  KernelObject *previous, *next;                        ///< list of all kernels, for reset
};

extern PyTypeObject *kernelType;
void addKernelType(PyObject *module);
/// Removes the code of every kernel in the current program; launches in progress finish with theirs. Destroying the result may run any
/// Python code.
std::vector<Specializations> releaseAllKernels();

inline bool isKernel(PyObject *object) { return PyObject_TypeCheck(object, kernelType); }
PyObject *getKernelFunction(PyObject *kernel);
/// Switches to the current program's specializations.
void synchronizeEpoch(KernelObject &kernel);

} // namespace qd::launch
