// runtime_module.cpp: the extension module `_runtime`, all that `import quadrants` loads. The types on the way of a launch are written
// against CPython itself: a slot costs nothing, a binding layer's dispatch costs as much as a whole launch may take.
#include "launch/data_type.h"
#include "launch/python.h"
#include "launch/tensor_object.h"
#include "runtime/buffer.h"
#include "support/error.h"
#include "support/log.h"
#include "support/options.h"

namespace qd::bindings {

using launch::guard;
using launch::Ref;

static PyObject *makeOption(const support::OptionValue &value) {
  if (auto *truth = std::get_if<bool>(&value))
    return PyBool_FromLong(*truth);
  if (auto *whole = std::get_if<int64_t>(&value))
    return PyLong_FromLongLong(*whole);
  if (auto *real = std::get_if<double>(&value))
    return PyFloat_FromDouble(*real);
  return PyUnicode_FromString(std::get<std::string>(value).c_str());
}

static PyObject *getOptionTable(PyObject *, PyObject *) {
  return guard([&] {
    static const char *scopes[] = {"everywhere", "keyword_only", "no_config"};
    Ref table = Ref::adopt(PyList_New(0));
    for (const support::OptionRow &row : support::getOptionRows()) {
      Ref value = Ref::adopt(makeOption(row.defaultValue));
      Ref kind = Ref::adopt(PyUnicode_FromStringAndSize(row.kind.data(), Py_ssize_t(row.kind.size())));
      Ref line = Ref::adopt(Py_BuildValue("sOOsOs", row.name, kind.get(), value.get(), row.doc,
                                          row.key == support::OptionKey::Key ? Py_True : Py_False, scopes[size_t(row.scope)]));
      PyList_Append(table.get(), line.get());
    }
    return table.release();
  });
}

static PyObject *writeLog(PyObject *, PyObject *args) {
  return guard([&]() -> PyObject * {
    const char *level, *message, *place = "";
    if (!PyArg_ParseTuple(args, "ss|s:log", &level, &message, &place))
      return nullptr;
    support::log(support::parseLogLevel(level), message, place);
    Py_RETURN_NONE;
  });
}

static PyObject *setLogLevel(PyObject *, PyObject *name) {
  return guard([&]() -> PyObject * {
    const char *text = PyUnicode_AsUTF8(name);
    if (!text)
      return nullptr;
    support::setLogLevel(support::parseLogLevel(text));
    Py_RETURN_NONE;
  });
}

static PyObject *isLogged(PyObject *, PyObject *name) {
  return guard([&]() -> PyObject * {
    const char *text = PyUnicode_AsUTF8(name);
    return text ? PyBool_FromLong(support::isLogged(support::parseLogLevel(text))) : nullptr;
  });
}

static PyObject *getMemoryUse(PyObject *, PyObject *) {
  runtime::MemoryUse use = runtime::getMemoryUse();
  return Py_BuildValue("{sLsL}", "bytes", static_cast<long long>(use.bytes), "blocks", static_cast<long long>(use.blocks));
}

static PyMethodDef functions[] = {
    {"option_table", getOptionTable, METH_NOARGS, "Rows of options.def: (name, kind, default, doc, in cache key, scope)."},
    {"log", writeLog, METH_VARARGS, "log(level, message, place=''): one line on stderr when the level is on."},
    {"set_log_level", setLogLevel, METH_O, "Least severe level that is written."},
    {"is_logged", isLogged, METH_O, "Whether lines of this level are written."},
    {"memory_use", getMemoryUse, METH_NOARGS, "Bytes and blocks of all buffers that are alive."},
    {}};

static PyModuleDef moduleDefinition = {
    PyModuleDef_HEAD_INIT, "quadrants._runtime", "Containers, kernel launches and the cache: everything but the compiler.", -1, functions, {}, {}, {}, {}};

} // namespace qd::bindings

PyMODINIT_FUNC PyInit__runtime() {
  return qd::launch::guard([]() -> PyObject * {
    qd::launch::Ref module = qd::launch::Ref::adopt(PyModule_Create(&qd::bindings::moduleDefinition));
    qd::launch::addDataTypes(module.get());
    qd::launch::addTensorTypes(module.get());
    return module.release();
  });
}
