#include "launch/path.h"

#include "launch/kernel.h"

#include <string>

namespace qd::launch {

using artifact::PathStep;

/// Clears an error that only says that something is not there.
static Ref missing() {
  PyObject *error = PyErr_Occurred();
  if (error && !PyErr_GivenExceptionMatches(error, PyExc_AttributeError) && !PyErr_GivenExceptionMatches(error, PyExc_LookupError) &&
      !PyErr_GivenExceptionMatches(error, PyExc_TypeError) && !PyErr_GivenExceptionMatches(error, PyExc_NameError))
    throw PythonError{};
  PyErr_Clear();
  return {};
}

PyObject *getFunction(PyObject *object) {
  static PyObject *name = PyUnicode_InternFromString("function");
  for (int depth = 0; depth < 8 && object; ++depth) {
    if (PyFunction_Check(object)) return object;
    if (isKernel(object))
      object = getKernelFunction(object);
    else if (PyMethod_Check(object))
      object = PyMethod_GET_FUNCTION(object);
    else if (PyType_Check(object))
      return nullptr;
    else {
      // A func holds its function in its own dictionary, which keeps it alive.
      Ref dict(Ref::borrow(nullptr));
      if (PyObject *found = PyObject_GenericGetDict(object, nullptr)) dict = Ref::adopt(found);
      PyErr_Clear();
      object = dict ? PyDict_GetItemWithError(dict.get(), name) : nullptr;
    }
  }
  return nullptr;
}

Ref unbind(Ref object) {
  static PyTypeObject *boundFunc = reinterpret_cast<PyTypeObject *>(importAttribute("quadrants._func", "BoundFunc").release());
  static PyObject *name = PyUnicode_InternFromString("func");
  if (!object) return object;
  if (PyMethod_Check(object.get())) return Ref::borrow(PyMethod_GET_FUNCTION(object.get()));
  return Py_TYPE(object.get()) == boundFunc ? Ref::adopt(PyObject_GetAttr(object.get(), name)) : object;
}

static Ref readClosure(PyObject *function, const std::string &name) {
  PyObject *closure = PyFunction_GetClosure(function);
  Ref names = Ref::adopt(PyObject_GetAttrString(PyFunction_GetCode(function), "co_freevars"));
  for (Py_ssize_t i = 0; closure && i < PyTuple_GET_SIZE(names.get()); ++i)
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names.get(), i), name.c_str()) == 0)
      return Ref::borrow(PyCell_GET(PyTuple_GET_ITEM(closure, i)));
  return {};
}

Ref takeStep(PyObject *object, const PathStep &step) {
  PyObject *found = nullptr;
  switch (step.kind) {
  case PathStep::Kind::Attribute: found = PyObject_GetAttrString(object, step.name.c_str()); break;
  case PathStep::Kind::Item: {
    Ref key = Ref::adopt(step.name.empty() ? PyLong_FromLongLong(step.index) : PyUnicode_FromString(step.name.c_str()));
    found = PyObject_GetItem(object, key.get());
    break;
  }
  case PathStep::Kind::FunctionGlobal: {
    PyObject *function = getFunction(object);
    if (!function) return {};
    if (PyObject *global = PyDict_GetItemString(PyFunction_GetGlobals(function), step.name.c_str())) return Ref::borrow(global);
    return Ref::borrow(PyDict_GetItemString(reinterpret_cast<PyFunctionObject *>(function)->func_builtins, step.name.c_str()));
  }
  case PathStep::Kind::FunctionClosure: {
    PyObject *function = getFunction(object);
    return function ? readClosure(function, step.name) : Ref{};
  }
  }
  return found ? unbind(Ref::adopt(found)) : missing();
}

Ref resolvePath(const artifact::Path &path, const Roots &roots) {
  if (path.root == artifact::Path::Root::Argument && path.argument >= roots.argumentCount) return {};
  Ref object = Ref::borrow(path.root == artifact::Path::Root::Argument ? roots.arguments[path.argument] : roots.function);
  for (const PathStep &step : path.steps) {
    object = takeStep(object.get(), step);
    if (!object) return {};
  }
  return object;
}

std::string describe(const artifact::Path &path) {
  std::string text = path.root == artifact::Path::Root::Argument ? "argument " + std::to_string(path.argument) : "";
  for (const PathStep &step : path.steps) {
    if (step.kind == PathStep::Kind::Item)
      text += "[" + (step.name.empty() ? std::to_string(step.index) : "'" + step.name + "'") + "]";
    else if (step.kind == PathStep::Kind::Attribute)
      text += "." + step.name;
    else
      text += (text.empty() ? "" : " → ") + step.name;
  }
  return text;
}

} // namespace qd::launch
