// kernel.h: the Python type `Kernel`. kernel.cpp is a call on one page.
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
  PyObject *reverse, *forward, *replay; ///< kernels derived from this one, made when they are asked for
  support::AutodiffMode mode;           ///< what this one is of its function
  Py_ssize_t parameterCount;
  Py_ssize_t plainCount; ///< arguments of a call that gives all by position; -1: some must be given by name
  uint64_t epoch;        ///< of the program that `specializations` belong to
  Specializations *specializations;
  std::map<const State *, Specializations> *ofPrograms; ///< in each program that has called it
  KernelObject *previous, *next;                        ///< all kernels, so that reset reaches them
};

extern PyTypeObject *kernelType;
void addKernelType(PyObject *module);
/// Takes the code of every kernel in the current program away; launches that are under way finish with theirs. What it returns may run
/// anything when it goes.
std::vector<Specializations> releaseAllKernels();

inline bool isKernel(PyObject *object) { return PyObject_TypeCheck(object, kernelType); }
PyObject *getKernelFunction(PyObject *kernel);
/// Takes up the versions that the current program has.
void synchronizeEpoch(KernelObject &kernel);

} // namespace qd::launch
