// read_options.h: option values from a Python dict, for both modules.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "support/error.h"
#include "support/options.h"

#include <string>

namespace qd::bindings {

/// Sets the options that the dict (str to bool, int, float or str; None: as it is) names. Throws support::Error that names the option.
inline void readOptions(support::Options &options, PyObject *dict) {
  PyObject *name, *value;
  for (Py_ssize_t position = 0; PyDict_Next(dict, &position, &name, &value);) {
    const char *text = PyUnicode_AsUTF8(name);
    int row = text ? support::Options::find(text) : -1;
    if (row < 0) throw support::Error(support::ErrorKind::Key, std::string("there is no option ") + (text ? text : "of that name"));
    if (PyBool_Check(value))
      options.set(row, value == Py_True);
    else if (PyLong_Check(value))
      options.set(row, int64_t(PyLong_AsLongLong(value)));
    else if (PyFloat_Check(value))
      options.set(row, PyFloat_AS_DOUBLE(value));
    else if (PyUnicode_Check(value))
      options.set(row, std::string(PyUnicode_AsUTF8(value)));
    else if (value != Py_None)
      throw support::Error(support::ErrorKind::Type, std::string("option ") + text + " cannot be a " + Py_TYPE(value)->tp_name);
  }
}

} // namespace qd::bindings
