// python.h: owning references, and the conversion of C++ errors to Python exceptions. Every function of this module that calls Python
// requires the GIL.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <atomic>
#include <utility>

namespace qd::launch {

/// Thrown after a Python call failed: the Python error is set already.
struct PythonError {};

/// An owned reference to a Python object, or none.
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

/// Sets a flag as long as it lives.
struct Raised {
  bool &flag;
  const bool before = std::exchange(flag, true);
  ~Raised() { flag = before; }
};

/// List of all living objects of a type with `previous` and `next`, for reset.
template <typename Object> struct LiveList {
  Object *first = nullptr;
  void add(Object &object) {
    object.next = std::exchange(first, &object);
    if (object.next) object.next->previous = &object;
  }
  void remove(Object &object) {
    (object.previous ? object.previous->next : first) = object.next;
    if (object.next) object.next->previous = object.previous;
  }
};

/// One entry of a type's slots.
template <typename Function> PyType_Slot slot(int id, Function *function) { return {id, reinterpret_cast<void *>(function)}; }
/// Makes a type and adds it to the module under its name.
PyTypeObject *addType(PyObject *module, PyType_Spec spec);
inline PyCFunction withKeywords(PyCFunctionWithKeywords function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

/// Called once. CPython unwinds with the system's libgcc, which passes its context to the copy of libgcc that is linked in here. That copy
/// initializes its tables only at its first exception and aborts when it gets a context earlier.
void prepareForcedUnwinding();
/// PyEval_RestoreThread for threads that may outlive the interpreter. During shutdown CPython ends such a thread by unwinding its stack,
/// C++ frames included, which would run destructors without the GIL. This function instead blocks the thread until the process ends.
void takeBackGil(PyThreadState *thread);

/// Sets the Python error for the C++ exception that is being handled.
void setPythonError() noexcept;

/// Runs `body`; converts an exception into a Python error and returns `failure`. Wraps every slot and method.
template <typename Body, typename Result> Result guard(Result failure, Body &&body) noexcept {
  try {
    return body();
  } catch (...) {
    setPythonError();
    return failure;
  }
}
template <typename Body> PyObject *guard(Body &&body) noexcept { return guard(static_cast<PyObject *>(nullptr), std::forward<Body>(body)); }

/// A new reference to an attribute of a module, which is imported on first use.
Ref importAttribute(const char *module, const char *name);
/// An attribute of a module that is looked up once and never released. The import may let other threads run: one of them that waited for
/// the initialization of a static variable would hold the GIL for ever, so declare this as `static constinit`, which needs none.
class KnownAttribute {
public:
  constexpr KnownAttribute(const char *module, const char *name) : module(module), name(name) {}
  PyObject *get() {
    PyObject *known = found.load(std::memory_order_acquire);
    if (known) return known;
    Ref made = importAttribute(module, name);
    return found.compare_exchange_strong(known, made.get()) ? made.release() : known;
  }
  PyTypeObject *getType() { return reinterpret_cast<PyTypeObject *>(get()); }

private:
  const char *module, *name;
  std::atomic<PyObject *> found{nullptr};
};
/// Calls a function of a module; the arguments are those of Py_BuildValue.
template <typename... Args> Ref call(const char *module, const char *name, const char *format, Args... args) {
  return Ref::adopt(PyObject_CallFunction(importAttribute(module, name).get(), format, args...));
}
inline void append(const Ref &list, const Ref &item) {
  if (PyList_Append(list.get(), item.get()) < 0) throw PythonError{};
}
inline Ref makeTuple(PyObject *const *items, Py_ssize_t count) {
  Ref tuple = Ref::adopt(PyTuple_New(count));
  for (Py_ssize_t i = 0; i < count; ++i) PyTuple_SET_ITEM(tuple.get(), i, Py_NewRef(items[i]));
  return tuple;
}
/// An attribute that may be missing: returns an empty reference then, without an error.
Ref findAttribute(PyObject *object, const char *name);
/// Raises a Python exception with a formatted message.
[[noreturn]] void throwPython(PyObject *type, const char *format, ...);

} // namespace qd::launch
