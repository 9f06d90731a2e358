// python.cpp: errors, imports and the GIL
//
// In:   C++ exceptions, names of modules, and threads that need the GIL back.
// Out:  Python errors and objects. At the interpreter's shutdown, threads block here instead of unwinding C++ frames without the GIL.
#include "launch/python.h"

#include "support/error.h"

#include <cstdarg>
#include <cstring>
#include <cxxabi.h>
#include <new>
#include <unistd.h>
#include <unwind.h>

namespace qd::launch {

/// Imports a module. `quadrants._base.imports` makes forks wait for the import.
static Ref importModule(const char *name) {
  if (PyDict_GetItemString(PyImport_GetModuleDict(), name)) return Ref::adopt(PyImport_ImportModule(name));
  Ref imports = Ref::adopt(PyImport_ImportModule("quadrants._base.imports"));
  return Ref::adopt(PyObject_CallMethod(imports.get(), "load", "s", name));
}

Ref importAttribute(const char *module, const char *name) {
  Ref imported = importModule(module);
  return Ref::adopt(PyObject_GetAttrString(imported.get(), name));
}

Ref findAttribute(PyObject *object, const char *name) {
  PyObject *found = PyObject_GetAttrString(object, name);
  PyErr_Clear();
  return found ? Ref::adopt(found) : Ref();
}

PyTypeObject *addType(PyObject *module, PyType_Spec spec) {
  Ref type = Ref::adopt(PyType_FromSpec(&spec));
  if (PyModule_AddObjectRef(module, strrchr(spec.name, '.') + 1, type.get()) < 0) throw PythonError{};
  return reinterpret_cast<PyTypeObject *>(type.release());
}

[[noreturn]] static void waitForProcessEnd() {
  for (;;) pause();
}

/// At shutdown the interpreter ends a thread that requests the GIL by unwinding its stack: destructors would decrement reference counts
/// without the GIL. Instead such a thread stops at the first frame of this module and waits there for the end of the process (`--wrap`,
/// CMakeLists.txt). Linkers of other systems have no such option.
#ifdef __linux__
extern "C" _Unwind_Reason_Code __real___gxx_personality_v0(int version, _Unwind_Action actions, _Unwind_Exception_Class kind,
                                                           _Unwind_Exception *exception, _Unwind_Context *context);
extern "C" _Unwind_Reason_Code __wrap___gxx_personality_v0(int version, _Unwind_Action actions, _Unwind_Exception_Class kind,
                                                           _Unwind_Exception *exception, _Unwind_Context *context) {
  if (actions & _UA_FORCE_UNWIND) waitForProcessEnd();
  return __real___gxx_personality_v0(version, actions, kind, exception, context);
}
#endif

void prepareForcedUnwinding() {
  try {
    throw PythonError{};
  } catch (const PythonError &) {}
}

void takeBackGil(PyThreadState *thread) {
  struct Unwinding {
    bool isOver = false;
    ~Unwinding() {
      if (!isOver) waitForProcessEnd();
    }
  } unwinding;
  PyEval_RestoreThread(thread);
  unwinding.isOver = true;
}

static void setOwnError(const char *name, const char *message) {
  try {
    PyErr_SetString(importAttribute("quadrants._base.errors", name).get(), message);
  } catch (const PythonError &) {
    // The package with the exception class cannot be imported; the Python error has the reason.
  }
}

void setPythonError() noexcept {
  try {
    throw;
  } catch (const abi::__forced_unwind &) {
    waitForProcessEnd(); // the interpreter's shutdown has ended Python code that we called
  } catch (const PythonError &) {
  } catch (const support::Error &error) {
    switch (error.kind) {
    case support::ErrorKind::Runtime: return setOwnError("QuadrantsRuntimeError", error.what());
    case support::ErrorKind::RuntimeType: return setOwnError("QuadrantsRuntimeTypeError", error.what());
    case support::ErrorKind::Bounds: return setOwnError("QuadrantsBoundsError", error.what());
    case support::ErrorKind::Type: return PyErr_SetString(PyExc_TypeError, error.what());
    case support::ErrorKind::Key: return PyErr_SetString(PyExc_KeyError, error.what());
    case support::ErrorKind::Memory: return setOwnError("QuadrantsMemoryError", error.what());
    case support::ErrorKind::Value:
    case support::ErrorKind::Format: return PyErr_SetString(PyExc_ValueError, error.what());
    }
  } catch (const std::bad_alloc &) { PyErr_NoMemory(); } catch (const std::exception &error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
}

void throwPython(PyObject *type, const char *format, ...) {
  va_list values;
  va_start(values, format);
  PyErr_FormatV(type, format, values);
  va_end(values);
  throw PythonError{};
}

} // namespace qd::launch
