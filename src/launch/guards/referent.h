// referent.h: the object of a weak reference
#pragma once

#include "launch/python.h"

namespace qd::launch {

/// Borrowed, for comparisons only. Null when the object no longer exists.
inline PyObject *getReferent(PyObject *weak) {
#if PY_VERSION_HEX < 0x030d0000
  PyObject *referent = PyWeakref_GetObject(weak);
  return referent == Py_None ? nullptr : referent;
#else
  PyObject *referent = nullptr;
  PyWeakref_GetRef(weak, &referent);
  Py_XDECREF(referent);
  return referent;
#endif
}

} // namespace qd::launch
