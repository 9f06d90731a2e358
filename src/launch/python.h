// python.h: owning references and the way from C++ errors to Python exceptions. Every function of this room that calls Python holds the
// GIL.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <utility>

namespace qd::launch {

/// Thrown after a Python call failed: the Python error is set already.
struct PythonError {};

/// One owned reference to a Python object, or none.
class Ref {
public:
  Ref() = default;
  /// Takes over a new reference; throws PythonError for null, so that a call and its check are one expression.
  static Ref adopt(PyObject *object) {
    if (!object) throw PythonError{};
    return Ref(object);
  }
  static Ref borrow(PyObject *object) {
    Py_XINCREF(object);
    return Ref(object);
  }
  Ref(const Ref &other) : object(other.object) { Py_XINCREF(object); }
  Ref(Ref &&other) noexcept : object(std::exchange(other.object, nullptr)) {}
  Ref &operator=(Ref other) noexcept {
    std::swap(object, other.object);
    return *this;
  }
  ~Ref() { Py_XDECREF(object); }
  PyObject *get() const { return object; }
  PyObject *release() { return std::exchange(object, nullptr); }
  explicit operator bool() const { return object; }

private:
  explicit Ref(PyObject *object) : object(object) {}
  PyObject *object = nullptr;
};

/// Called once. CPython unwinds with the system's libgcc, which hands its context to the copy that is linked in here; that copy prepares
/// its tables at its first exception only, and aborts when it meets a context before.
void prepareForcedUnwinding();
/// PyEval_RestoreThread for threads that may outlive the interpreter. When it is shutting down, CPython ends such a thread by unwinding its
/// stack, C++ frames included, which would run destructors without the GIL; the thread waits for the end of the process instead.
void takeBackGil(PyThreadState *thread);

/// Sets the Python error for the C++ exception that is being handled.
void setPythonError() noexcept;

/// Runs `body` and turns exceptions into a Python error and `failure`: the wrapper of every slot and method.
template <typename Body, typename Result> Result guard(Result failure, Body &&body) noexcept {
  try {
    return body();
  } catch (...) {
    setPythonError();
    return failure;
  }
}
template <typename Body> PyObject *guard(Body &&body) noexcept { return guard(static_cast<PyObject *>(nullptr), std::forward<Body>(body)); }

/// A new reference to a Python object of a module, imported when it is first asked for.
Ref importAttribute(const char *module, const char *name);
/// An exception of quadrants._errors, ready to be raised.
[[noreturn]] void throwPython(PyObject *type, const char *format, ...);

} // namespace qd::launch
