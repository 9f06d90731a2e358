// fast_methods.cpp: methods of containers whose ordinary calls run without Python code
//
// In:   Python functions that `fast_fill`, `fast_copy_from`, `fast_from_numpy`, `fast_to_numpy` and `fast_to_torch` decorate, and calls of
// the methods. Out:  the result; calls with other arguments, or of containers that need a conversion, are passed to the function.
#include "launch/containers/tensor_object.h"

#include <structmember.h>

namespace qd::launch {

namespace {

/// A method descriptor around a Python function.
struct FastMethod {
  PyObject_HEAD vectorcallfunc call;
  PyObject *function;
  /// Returns true if it has done the call and set `result`; throws PythonError after an error.
  bool (*tryCall)(PyObject *self, PyObject *const *arguments, PyObject *&result);
  Py_ssize_t count; ///< positional arguments of an ordinary call, `self` included
};

} // namespace

static PyTypeObject *methodType = nullptr;

static PyObject *callMethod(PyObject *object, PyObject *const *arguments, size_t flags, PyObject *names) {
  auto *method = reinterpret_cast<FastMethod *>(object);
  return guard([&] {
    PyObject *result = nullptr;
    if (PyVectorcall_NARGS(flags) == method->count && !names && isTensor(arguments[0]) &&
        method->tryCall(arguments[0], arguments + 1, result))
      return result;
    return PyObject_Vectorcall(method->function, arguments, flags, names);
  });
}

static PyObject *bind(PyObject *method, PyObject *self, PyObject *) { return self ? PyMethod_New(method, self) : Py_NewRef(method); }

/// What the descriptor does not have itself, its function has: the name, the module, annotations.
static PyObject *getMethodAttribute(PyObject *object, PyObject *name) {
  if (PyObject *found = PyObject_GenericGetAttr(object, name)) return found;
  if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return nullptr;
  PyErr_Clear();
  return PyObject_GetAttr(reinterpret_cast<FastMethod *>(object)->function, name);
}

static PyObject *getDocumentation(PyObject *object, void *) {
  return PyObject_GetAttrString(reinterpret_cast<FastMethod *>(object)->function, "__doc__");
}

static void deleteMethod(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  Py_CLEAR(reinterpret_cast<FastMethod *>(object)->function);
  type->tp_free(object);
  Py_DECREF(type);
}

template <auto tryCall, Py_ssize_t count> static PyObject *decorate(PyObject *, PyObject *function) {
  auto *method = PyObject_New(FastMethod, methodType);
  if (!method) return nullptr;
  method->call = callMethod;
  method->function = Py_NewRef(function);
  method->tryCall = tryCall;
  method->count = count;
  return reinterpret_cast<PyObject *>(method);
}

static bool callFill(PyObject *self, PyObject *const *arguments, PyObject *&result) {
  if (!fillWithNumber(self, arguments[0])) return false;
  result = Py_NewRef(Py_None);
  return true;
}

static bool callCopyFrom(PyObject *self, PyObject *const *arguments, PyObject *&result) {
  if (!copyPlainContainer(self, arguments[0])) return false;
  result = Py_NewRef(Py_None);
  return true;
}

static bool callFromNumpy(PyObject *self, PyObject *const *arguments, PyObject *&result) {
  if (!copyUnconverted(self, arguments[0])) return false;
  result = Py_NewRef(Py_None);
  return true;
}

static bool callToNumpy(PyObject *self, PyObject *const *, PyObject *&result) {
  if (tensorObject(self).isSparse) return false; // lists of different lengths give a warning
  // A matrix of one column is exported as a vector.
  const layout::ValueType &element = getTensor(self).layout.element;
  if (element.rank == 2 && element.columns == 1) return false;
  result = copyToNumpy(self).release();
  return result != nullptr;
}

static bool callToTorch(PyObject *self, PyObject *const *arguments, PyObject *&result) {
  static PyObject *countModes, *fromNumpy; // of torch
  if (!fromNumpy) {
    Ref name = Ref::adopt(PyUnicode_FromString("torch"));
    PyObject *torch = PyDict_GetItemWithError(PyImport_GetModuleDict(), name.get()); // the function imports it
    Ref core = torch ? findAttribute(torch, "_C") : Ref(), counter = core ? findAttribute(core.get(), "_len_torch_function_stack") : Ref();
    Ref converter = counter ? findAttribute(torch, "from_numpy") : Ref();
    if (!converter) return false;
    countModes = counter.release(), fromNumpy = converter.release();
  }
  requireAlive(self);
  if (getTensor(self).buffer->getMemory()) return false; // a tensor on the device
  // A default device is a mode of calls.
  if (PyLong_AsLong(Ref::adopt(PyObject_CallNoArgs(countModes)).get()) != 0 || !callToNumpy(self, arguments, result)) return false;
  const Ref array = Ref::adopt(result);
  result = PyObject_CallOneArg(fromNumpy, array.get());
  if (!result) throw PythonError{};
  return true;
}

void addFastMethods(PyObject *module) {
  static PyMemberDef members[] = {{"__vectorcalloffset__", T_PYSSIZET, offsetof(FastMethod, call), READONLY, nullptr},
                                  {"__wrapped__", T_OBJECT_EX, offsetof(FastMethod, function), READONLY, nullptr},
                                  {}};
  static PyGetSetDef properties[] = {{"__doc__", getDocumentation, nullptr, nullptr, nullptr}, {}};
  PyType_Slot slots[] = {slot(Py_tp_dealloc, deleteMethod),
                         slot(Py_tp_call, PyVectorcall_Call),
                         slot(Py_tp_descr_get, bind),
                         slot(Py_tp_getattro, getMethodAttribute),
                         slot(Py_tp_members, members),
                         slot(Py_tp_getset, properties),
                         {}};
  unsigned flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR | Py_TPFLAGS_DISALLOW_INSTANTIATION;
  methodType = addType(module, {"quadrants._runtime.FastMethod", sizeof(FastMethod), 0, flags, slots});
  static PyMethodDef functions[] = {
      {"fast_fill", decorate<callFill, 2>, METH_O, "Let `fill(number)` run without Python code."},
      {"fast_copy_from", decorate<callCopyFrom, 2>, METH_O, "Let `copy_from(container)` run without Python code."},
      {"fast_from_numpy", decorate<callFromNumpy, 2>, METH_O, "Let `from_numpy(array)` run without Python code."},
      {"fast_to_numpy", decorate<callToNumpy, 1>, METH_O, "Let `to_numpy()` run without Python code."},
      {"fast_to_torch", decorate<callToTorch, 1>, METH_O, "Let `to_torch()` run without Python code."},
      {}};
  PyModule_AddFunctions(module, functions);
}

} // namespace qd::launch
