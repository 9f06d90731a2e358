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

/// The Python function behind a function, func or kernel; borrowed, null for anything else.
PyObject *getFunction(PyObject *object);

/// What is bound, of a bound method or bound func: binding makes a new object at each access, and says nothing that the path does not say.
Ref unbind(Ref object);

/// One step from `object`; empty when it leads nowhere. Errors other than a missing name are thrown.
Ref takeStep(PyObject *object, const artifact::PathStep &step);
/// The object at the end of the path; empty when some step leads nowhere.
Ref resolvePath(const artifact::Path &path, const Roots &roots);
/// "self.x[3]", for messages.
std::string describe(const artifact::Path &path);

} // namespace qd::launch
