// path.h: resolves the paths of an artifact to Python objects.
#pragma once

#include "artifact/artifact.h"
#include "launch/python.h"

#include <span>

namespace qd::launch {

/// Objects where paths begin: the kernel's function and the arguments of one call.
struct Roots {
  PyObject *function;
  PyObject *const *arguments;
  size_t argumentCount;
};

/// The object bound in a method, or in a kernel that was accessed through an object; borrowed, null for anything else.
PyObject *findBound(PyObject *object);

/// Removes the binding of a method of `owner`, or of a func that is bound to it: binding makes a new object at each access and adds nothing
/// to the path. A func that is bound to another object stays bound.
Ref unbind(Ref object, PyObject *owner);

/// The Python function behind a function, func or kernel; borrowed, null for anything else.
PyObject *getFunction(PyObject *object);

/// Index of the closure variable `name` of a function, -1 when there is none.
Py_ssize_t findCell(PyObject *function, PyObject *name);
/// Value of a closure variable of a function; borrowed, null when there is none.
inline PyObject *readCell(PyObject *function, Py_ssize_t index) {
  PyObject *closure = function ? PyFunction_GET_CLOSURE(function) : nullptr;
  return closure && index >= 0 && index < PyTuple_GET_SIZE(closure) ? PyCell_GET(PyTuple_GET_ITEM(closure, index)) : nullptr;
}

/// The key of an entry of a dict, and its value; borrowed, null when there are not so many.
PyObject *findEntry(PyObject *dict, int64_t position, PyObject **value);

/// Takes one step from `object`; empty when the object is missing. `name` is the step's name, null for an index; of an entry, the key if
/// it is known. Throws on all other errors.
Ref takeStep(PyObject *object, const artifact::PathStep &step, PyObject *name);
/// Takes steps from `object`; empty when one leads nowhere.
Ref takeSteps(PyObject *object, std::span<const artifact::PathStep> steps);
/// The path as text such as "self.x[3]", for messages.
std::string describe(const artifact::Path &path);

} // namespace qd::launch
