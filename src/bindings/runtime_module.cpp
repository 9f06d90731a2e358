// runtime_module.cpp: the extension module `_runtime`, all that `import quadrants` loads. The types on the way of a launch are written
// against CPython itself: a slot costs nothing, a binding layer's dispatch costs as much as a whole launch may take.
#include "backends/cpu/device.h"
#include "bindings/read_options.h"
#include "launch/data_type.h"
#include "launch/kernel.h"
#include "launch/python.h"
#include "launch/state.h"
#include "launch/tensor_object.h"
#include "runtime/buffer.h"
#include "runtime/thread_pool.h"
#include "support/error.h"
#include "support/log.h"
#include "support/options.h"

namespace qd::bindings {

using launch::guard;
using launch::Ref;

// The operators of the language, a line for each row of the table, its columns separated by tabs.
static const char *operators =
#define QD_UNARY(name, operand, result, numpy, cost, doc) "unary\t" #name "\t" #operand "\t" #result "\t" numpy "\t" doc "\n"
#define QD_BINARY(name, operand, result, numpy, cost, doc) "binary\t" #name "\t" #operand "\t" #result "\t" numpy "\t" doc "\n"
#define QD_ATOMIC(name, operand, numpy, doc) "atomic\t" #name "\t" #operand "\tSame\t" numpy "\t" doc "\n"
#include "ir/builtins.def"
    ;

static PyObject *makeOption(const support::OptionValue &value) {
  if (auto *truth = std::get_if<bool>(&value)) return PyBool_FromLong(*truth);
  if (auto *whole = std::get_if<int64_t>(&value)) return PyLong_FromLongLong(*whole);
  if (auto *real = std::get_if<double>(&value)) return PyFloat_FromDouble(*real);
  return PyUnicode_FromString(std::get<std::string>(value).c_str());
}

static PyObject *getOptionTable(PyObject *, PyObject *) {
  return guard([&] {
    static const char *scopes[] = {"everywhere", "keyword_only", "no_config"};
    Ref table = Ref::adopt(PyList_New(0));
    for (const support::OptionRow &row : support::getOptionRows())
      launch::append(
          table, Ref::adopt(Py_BuildValue("ss#NsOs", row.name, row.kind.data(), Py_ssize_t(row.kind.size()), makeOption(row.defaultValue),
                                          row.doc, row.key == support::OptionKey::Key ? Py_True : Py_False, scopes[size_t(row.scope)])));
    return table.release();
  });
}

static void applyOptions(launch::State &state) {
  using support::Option;
  runtime::setThreadCount(int(state.options.getInt(Option::cpu_max_num_threads)));
  support::setLogLevel(support::parseLogLevel(state.options.getText(Option::log_level)));
  state.cache.reset();
  if (!state.options.getBool(Option::offline_cache)) return;
  static const std::pair<const char *, artifact::CleaningPolicy> policies[] = {{"never", artifact::CleaningPolicy::Never},
                                                                               {"version", artifact::CleaningPolicy::Version},
                                                                               {"lru", artifact::CleaningPolicy::Lru},
                                                                               {"fifo", artifact::CleaningPolicy::Fifo}};
  artifact::DiskCacheOptions cache;
  cache.folder = state.options.getText(Option::offline_cache_file_path);
  if (cache.folder.empty()) cache.folder = artifact::getDefaultCacheFolder();
  cache.maxBytes = state.options.getInt(Option::offline_cache_max_size_of_files);
  cache.cleaningFactor = state.options.getFloat(Option::offline_cache_cleaning_factor);
  for (const auto &[name, policy] : policies)
    if (state.options.getText(Option::offline_cache_cleaning_policy) == name) cache.policy = policy;
  state.cache = std::make_unique<artifact::DiskCache>(std::move(cache));
}

static PyObject *init(PyObject *, PyObject *args, PyObject *kwargs) {
  return guard([&]() -> PyObject * {
    static const char *names[] = {"options", "interpreter", nullptr};
    PyObject *dict, *interpreter = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|O:init", const_cast<char **>(names), &PyDict_Type, &dict, &interpreter))
      return nullptr;
    support::Options options;
    readOptions(options, dict);
    if (PyErr_Occurred()) return nullptr;
    launch::resetState();
    launch::State &state = launch::getState();
    state.options = std::move(options);
    if (!state.device) state.device = cpu::makeDevice();
    applyOptions(state);
    state.interpreter = interpreter == Py_None ? nullptr : Py_NewRef(interpreter);
    state.launches = state.compiled = state.loaded = 0;
    state.isActive = true;
    Py_RETURN_NONE;
  });
}

static PyObject *setOptions(PyObject *, PyObject *dict) {
  return guard([&]() -> PyObject * {
    if (!PyDict_Check(dict)) launch::throwPython(PyExc_TypeError, "set_options takes a dict");
    launch::requireActive();
    launch::State &state = launch::getState();
    support::Options options = state.options;
    readOptions(options, dict);
    state.options = std::move(options);
    applyOptions(state);
    Py_RETURN_NONE;
  });
}

static PyObject *reset(PyObject *, PyObject *) {
  launch::resetState();
  Py_RETURN_NONE;
}

static PyObject *synchronize(PyObject *, PyObject *) {
  return guard([]() -> PyObject * {
    launch::requireActive();
    launch::getState().device->synchronize();
    Py_RETURN_NONE;
  });
}

static PyObject *getStatistics(PyObject *, PyObject *) {
  const launch::State &state = launch::getState();
  auto asLong = [](uint64_t count) { return static_cast<unsigned long long>(count); };
  return Py_BuildValue("{sOsKsKsKsisK}", "active", state.isActive ? Py_True : Py_False, "launches", asLong(state.launches), "compiled",
                       asLong(state.compiled), "loaded", asLong(state.loaded), "threads", runtime::getThreadCount(), "epoch",
                       asLong(state.epoch));
}

static PyObject *writeLog(PyObject *, PyObject *args) {
  return guard([&]() -> PyObject * {
    const char *level, *message, *place = "";
    if (!PyArg_ParseTuple(args, "ss|s:log", &level, &message, &place)) return nullptr;
    support::log(support::parseLogLevel(level), message, place);
    Py_RETURN_NONE;
  });
}

static PyObject *setLogLevel(PyObject *, PyObject *args) {
  return guard([&]() -> PyObject * {
    const char *level;
    if (!PyArg_ParseTuple(args, "s", &level)) return nullptr;
    support::setLogLevel(support::parseLogLevel(level));
    Py_RETURN_NONE;
  });
}

static PyObject *isLogged(PyObject *, PyObject *args) {
  return guard([&]() -> PyObject * {
    const char *level;
    return PyArg_ParseTuple(args, "s", &level) ? PyBool_FromLong(support::isLogged(support::parseLogLevel(level))) : nullptr;
  });
}

static PyObject *getMemoryUse(PyObject *, PyObject *) {
  runtime::MemoryUse use = runtime::getMemoryUse();
  return Py_BuildValue("{sLsL}", "bytes", static_cast<long long>(use.bytes), "blocks", static_cast<long long>(use.blocks));
}

static PyMethodDef functions[] = {
    {"option_table", getOptionTable, METH_NOARGS, "Rows of options.def: (name, kind, default, doc, in cache key, scope)."},
    {"init", launch::withKeywords(init), METH_VARARGS | METH_KEYWORDS,
     "init(options, interpreter=None): start a runtime with these option values; interpreter(kernel, args, kwargs) takes all calls of "
     "kernels."},
    {"set_options", setOptions, METH_O, "Change option values of the running runtime."},
    {"reset", reset, METH_NOARGS, "End the runtime: containers lose their memory (views keep it), kernels their code."},
    {"sync", synchronize, METH_NOARGS, "Wait until everything that was launched is done."},
    {"statistics", getStatistics, METH_NOARGS, "active, launches, compiled, loaded (from disk), threads, epoch."},
    {"log", writeLog, METH_VARARGS, "log(level, message, place=''): one line on stderr when the level is on."},
    {"set_log_level", setLogLevel, METH_VARARGS, "Least severe level that is written."},
    {"is_logged", isLogged, METH_VARARGS, "Whether lines of this level are written."},
    {"memory_use", getMemoryUse, METH_NOARGS, "Bytes and blocks of all buffers that are alive."},
    {}};

static PyModuleDef moduleDefinition = {PyModuleDef_HEAD_INIT,
                                       "quadrants._runtime",
                                       "Containers, kernel launches and the cache: everything but the compiler.",
                                       -1,
                                       functions,
                                       {},
                                       {},
                                       {},
                                       {}};

} // namespace qd::bindings

PyMODINIT_FUNC PyInit__runtime() {
  return qd::launch::guard([]() -> PyObject * {
    qd::launch::prepareForcedUnwinding();
    qd::launch::Ref module = qd::launch::Ref::adopt(PyModule_Create(&qd::bindings::moduleDefinition));
    qd::launch::addDataTypes(module.get());
    qd::launch::addTensorTypes(module.get());
    qd::launch::addKernelType(module.get());
    PyModule_AddStringConstant(module.get(), "OPERATORS", qd::bindings::operators);
    return module.release();
  });
}
