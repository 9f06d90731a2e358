// path.h: from a path in an artifact to the Python object that it means now.
#pragma once

#include "artifact/artifact.h"
#include "launch/python.h"

namespace qd::launch {

/// Where paths begin: the kernel's function and the arguments of one call.
struct Roots {
  PyObject *function;
  PyObject *const *arguments;
  size_t argumentCount;
};

/// What is bound in a method, or in a kernel that was taken from an object; borrowed, null for anything else.
PyObject *findBound(PyObject *object);

/// The Python function behind a function, func or kernel; borrowed, null for anything else.
PyObject *getFunction(PyObject *object);

/// Where a function has its closure variable `name`, -1 when it has none of that name.
Py_ssize_t findCell(PyObject *function, PyObject *name);
/// What a closure variable of a function is; borrowed, null when there is none.
PyObject *readCell(PyObject *function, Py_ssize_t index);

/// One step from `object`; empty when it leads nowhere. `name` is the step's name, null for an index. Errors other than something missing
/// are thrown.
Ref takeStep(PyObject *object, const artifact::PathStep &step, PyObject *name);
/// "self.x[3]", for messages.
std::string describe(const artifact::Path &path);

} // namespace qd::launch
