// read_options.h: reads option values from a Python dict, for both modules.
#pragma once

#include "support/error.h"
#include "support/options.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>

#include <string>

namespace qd::bindings {

// nanobind converts strings and lists in functions that cannot throw and that end the process when an allocation fails. Arguments are
// therefore read by hand.

/// Throws TypeError when the object is no str.
inline std::string readText(nanobind::handle text) {
  Py_ssize_t size = 0;
  const char *data = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
  if (!data) throw nanobind::python_error();
  return {data, size_t(size)};
}

inline support::OptionValue readOption(nanobind::handle value) {
  PyObject *object = value.ptr();
  if (PyBool_Check(object)) return object == Py_True;
  if (PyFloat_Check(object)) return PyFloat_AS_DOUBLE(object);
  return PyLong_Check(object) ? support::OptionValue(nanobind::cast<int64_t>(value)) : support::OptionValue(readText(value));
}

/// Returns `options` with the values of the dict (None: unchanged). Throws support::Error with the name of an unknown option.
inline support::Options readOptions(support::Options options, nanobind::dict given) {
  for (auto [key, value] : given) {
    std::string name = readText(key);
    int row = support::Options::find(name);
    if (row < 0) throw support::Error(support::ErrorKind::Key, "there is no option " + name);
    if (!value.is_none()) options.set(row, readOption(value));
  }
  return options;
}

} // namespace qd::bindings
