// path.cpp: takes the steps of a path
//
// In:   an object and a step: an attribute, an item, a global name or a closure variable.
// Out:  the object that the step leads to now, or empty when it is missing.
#include "launch/path.h"

#include "launch/containers/external_array.h"
#include "launch/containers/tensor_object.h"
#include "launch/kernel.h"

#include <string>

namespace qd::launch {

using artifact::PathStep;

/// Clears an error that means a missing object.
static Ref missing() {
  PyObject *error = PyErr_Occurred();
  if (error && !PyErr_GivenExceptionMatches(error, PyExc_AttributeError) && !PyErr_GivenExceptionMatches(error, PyExc_LookupError) &&
      !PyErr_GivenExceptionMatches(error, PyExc_TypeError) && !PyErr_GivenExceptionMatches(error, PyExc_NameError))
    throw PythonError{};
  PyErr_Clear();
  return {};
}

PyObject *findBound(PyObject *object) {
  static constinit KnownAttribute boundKernel("quadrants._language.kernel", "BoundKernel");
  static PyObject *function = PyUnicode_InternFromString("__func__");
  if (PyMethod_Check(object)) return PyMethod_GET_FUNCTION(object);
  return Py_TYPE(object) == boundKernel.getType() ? Ref::adopt(PyObject_GetAttr(object, function)).get()
                                                  : nullptr; // the object holds the reference
}

PyObject *getFunction(PyObject *object) {
  static PyObject *name = PyUnicode_InternFromString("function");
  for (int depth = 0; depth < 8 && object; ++depth) {
    if (PyFunction_Check(object)) return object;
    if (isKernel(object))
      object = getKernelFunction(object);
    else if (PyObject *bound = findBound(object))
      object = bound;
    else if (PyType_Check(object))
      return nullptr;
    else {
      // A qd.func stores its function in its own dictionary, which keeps the function alive.
      PyObject *dict = PyObject_GenericGetDict(object, nullptr);
      PyErr_Clear();
      object = dict ? PyDict_GetItemWithError(dict, name) : nullptr;
      Py_XDECREF(dict);
    }
  }
  return nullptr;
}

Ref unbind(Ref object, PyObject *owner) {
  static constinit KnownAttribute boundFunc("quadrants._language.func", "BoundFunc");
  static PyObject *func = PyUnicode_InternFromString("func"), *instance = PyUnicode_InternFromString("instance");
  bool isOther = PyMethod_Check(object.get()) && PyMethod_GET_SELF(object.get()) != owner && !PyType_Check(PyMethod_GET_SELF(object.get()));
  if (isOther) return object;
  if (PyObject *bound = findBound(object.get())) return Ref::borrow(bound);
  if (Py_TYPE(object.get()) != boundFunc.getType() || Ref::adopt(PyObject_GetAttr(object.get(), instance)).get() != owner) return object;
  return Ref::adopt(PyObject_GetAttr(object.get(), func));
}

Py_ssize_t findCell(PyObject *function, PyObject *name) {
  Ref names = Ref::adopt(PyObject_GetAttrString(PyFunction_GetCode(function), "co_freevars"));
  Py_ssize_t index = PySequence_Index(names.get(), name);
  PyErr_Clear();
  return index;
}

PyObject *findEntry(PyObject *dict, int64_t position, PyObject **value) {
  Py_ssize_t place = 0;
  PyObject *key = nullptr;
  for (int64_t i = 0; PyDict_Check(dict) && i <= position; ++i)
    if (!PyDict_Next(dict, &place, &key, value)) return *value = nullptr;
  return key;
}

Ref takeStep(PyObject *object, const PathStep &step, PyObject *name) {
  PyObject *found = nullptr;
  object = unwrap(object);
  switch (step.kind) {
  case PathStep::Kind::Attribute:
    if (step.name == "grad" && !isTensor(object) && isTorchTensor(object)) {
      // A torch tensor without a gradient has no such attribute.
      Ref gradient = call("quadrants._containers.foreign", "grad_of", "O", object);
      return gradient.get() == Py_None ? Ref() : gradient;
    }
    found = PyObject_GetAttr(object, name);
    break;
  case PathStep::Kind::Item: {
    Ref key = name ? Ref::borrow(name) : Ref::adopt(PyLong_FromLongLong(step.index));
    // A defaultdict does not get the key by being asked for it.
    const bool isDict = PyDict_Check(object) && Py_TYPE(object)->tp_as_mapping->mp_subscript == PyDict_Type.tp_as_mapping->mp_subscript;
    found = isDict ? Py_XNewRef(PyDict_GetItemWithError(object, key.get())) : PyObject_GetItem(object, key.get());
    break;
  }
  case PathStep::Kind::FunctionGlobal:
    if (PyObject *function = getFunction(object)) {
      found = PyDict_GetItemWithError(PyFunction_GetGlobals(function), name);
      if (!found) found = PyDict_GetItemWithError(reinterpret_cast<PyFunctionObject *>(function)->func_builtins, name);
    }
    return Ref::borrow(found);
  case PathStep::Kind::FunctionClosure: {
    PyObject *function = getFunction(object);
    return Ref::borrow(function ? readCell(function, findCell(function, name)) : nullptr);
  }
  case PathStep::Kind::Entry: {
    PyObject *key = findEntry(object, step.index, &found);
    Ref value = Ref::borrow(found);
    if (!key || key == name || step.name.empty()) return value;
    Ref text = Ref::adopt(PyObject_Repr(key));
    const char *shown = PyUnicode_AsUTF8(text.get());
    return shown && step.name == shown ? value : missing();
  }
  }
  return found ? unbind(Ref::adopt(found), object) : missing();
}

Ref takeSteps(PyObject *root, std::span<const PathStep> steps) {
  Ref object = Ref::borrow(root);
  for (const PathStep &step : steps) {
    if (!object) break;
    Ref name = step.name.empty() ? Ref() : Ref::adopt(PyUnicode_InternFromString(step.name.c_str()));
    object = takeStep(object.get(), step, name.get());
  }
  return object;
}

std::string describe(const artifact::Path &path) {
  std::string text = path.root == artifact::Path::Root::Argument ? "argument " + std::to_string(path.argument) : "";
  for (const PathStep &step : path.steps) {
    if (step.kind == PathStep::Kind::Entry)
      text += "[" + step.name + "]";
    else if (step.kind == PathStep::Kind::Item)
      text += "[" + (step.name.empty() ? std::to_string(step.index) : "'" + step.name + "'") + "]";
    else if (step.kind == PathStep::Kind::Attribute)
      text += "." + step.name;
    else
      text += (text.empty() ? "" : " → ") + step.name;
  }
  return text;
}

} // namespace qd::launch
