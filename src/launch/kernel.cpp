// kernel.cpp: a call of a kernel
//
// callKernel      the arguments are in order and the version used last fits: nothing else happens
// callGeneral     puts keywords and defaults in order; tries every version
// launchPrepared  Python checks the arguments (and raises errors); then memory, disk cache and compiler supply a version, in this order
#include "launch/kernel.h"

#include "launch/containers/tensor_object.h"
#include "launch/specialize.h"
#include "launch/state.h"
#include "launch/tape/tape_context.h"
#include "support/error.h"

#include <array>
#include <cstddef>
#include <structmember.h>

namespace qd::launch {

PyTypeObject *kernelType;
static LiveList<KernelObject> allKernels;

PyObject *getKernelFunction(PyObject *kernel) { return reinterpret_cast<KernelObject *>(kernel)->function; }

static KernelObject &kernelObject(PyObject *self) { return *reinterpret_cast<KernelObject *>(self); }

//--- Calls ---

void synchronizeEpoch(KernelObject &kernel) {
  if (kernel.epoch == getState().epoch) return;
  kernel.specializations = &(*kernel.ofPrograms)[&getState()];
  kernel.epoch = getState().epoch;
}

static PyObject *launchPrepared(KernelObject &kernel, PyObject *arguments) {
  Ref prepared = call("quadrants._session.prepare", "prepare", "OO", &kernel, arguments);
  if (!PyTuple_Check(prepared.get()) || PyTuple_GET_SIZE(prepared.get()) != kernel.parameterCount)
    throwPython(PyExc_TypeError, "prepare returned something else than a tuple of the arguments");
  PyObject *const *items = &PyTuple_GET_ITEM(prepared.get(), 0);
  for (Py_ssize_t i = 0; i < kernel.parameterCount; ++i)
    if (isTensor(items[i])) provideMemory(items[i]);
  PyObject *result;
  synchronizeEpoch(kernel);
  if (kernel.specializations->launch(kernel, items, result)) return result;
  kernel.specializations->raiseRefusal();
  std::shared_ptr<Specialization> made = specialize(kernel, prepared.get());
  synchronizeEpoch(kernel);
  kernel.specializations->add(made);
  if (getState().options.getBool(support::Option::debug)) issueWarnings(made->artifact.report.assumptions);
  if (kernel.specializations->launch(kernel, items, result)) return result;
  kernel.specializations->raiseRefusal();
  throw support::Error(support::ErrorKind::Runtime, "kernel " + made->artifact.kernel +
                                                        " was compiled for other arguments than it was called with: '" +
                                                        made->getGuardFailure() + "' does not fit");
}

static Ref makeKeywords(PyObject *const *arguments, Py_ssize_t count, PyObject *names, bool keepsStream = false) {
  Ref keywords = Ref::adopt(PyDict_New());
  for (Py_ssize_t k = 0; names && k < PyTuple_GET_SIZE(names); ++k) {
    PyObject *name = PyTuple_GET_ITEM(names, k);
    if (!keepsStream && PyUnicode_CompareWithASCIIString(name, "qd_stream") == 0) continue;
    if (PyDict_SetItem(keywords.get(), name, arguments[count + k]) < 0) throw PythonError{};
  }
  return keywords;
}

/// The arguments as a tuple in the order of the parameters. Python fills in defaults and reports all errors of a call at once.
static Ref bindArguments(KernelObject &kernel, PyObject *const *arguments, Py_ssize_t count, PyObject *names) {
  Ref positional = makeTuple(arguments, count);
  if (!names && count == kernel.plainCount)
    return kernel.defaults ? Ref::adopt(PySequence_Concat(positional.get(), kernel.defaults)) : std::move(positional);
  Ref keywords = makeKeywords(arguments, count, names);
  return call("quadrants._language.parameters", "bind", "OOO", kernel.parameters, positional.get(), keywords.get());
}

StreamChoice::StreamChoice(PyObject *stream) : before(currentStream) {
  if (stream == Py_None) return;
  Ref handle = call("quadrants._session.streams", "get_handle", "O", stream);
  currentStream = PyLong_AsVoidPtr(handle.get());
}

StreamChoice::~StreamChoice() { currentStream = before; }

/// The stream that a call names, or None; borrowed.
static PyObject *findStream(PyObject *const *more, PyObject *names) {
  for (Py_ssize_t k = 0; names && k < PyTuple_GET_SIZE(names); ++k)
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, k), "qd_stream") == 0) return more[k];
  return Py_None;
}

static PyObject *callGeneral(PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *names) {
  KernelObject &kernel = kernelObject(self);
  State &state = getState();
  if (state.interpreter) {
    Ref positional = makeTuple(arguments, count), keywords = makeKeywords(arguments, count, names);
    return PyObject_CallFunctionObjArgs(state.interpreter, self, positional.get(), keywords.get(), nullptr);
  }
  requireActive();
  if (kernel.mode == support::AutodiffMode::Second) {
    Ref positional = makeTuple(arguments, count), keywords = makeKeywords(arguments, count, names);
    return call("quadrants.interpreter", "run", "OOO", self, positional.get(), keywords.get()).release();
  }
  const StreamChoice choice(findStream(arguments + count, names));
  synchronizeEpoch(kernel);
  Ref bound = bindArguments(kernel, arguments, count, names);
  PyObject *result;
  if (kernel.specializations->launch(kernel, &PyTuple_GET_ITEM(bound.get(), 0), result)) return result;
  return launchPrepared(kernel, bound.get());
}

/// Removes the frames of this package below the call from the traceback of an error, because only the user's lines help the user.
static void hideOwnFrames() noexcept {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  bool isDone = guard(false, [&] {
    Ref shown = call("quadrants._base.errors", "finish_call_error", "OO", value, traceback ? traceback : Py_None);
    Py_XSETREF(traceback, shown.get() == Py_None ? nullptr : shown.release());
    return true;
  });
  if (!isDone) PyErr_Clear();
  PyErr_Restore(type, value, traceback);
}

/// A call under a tape or a forward mode.
static PyObject *callTaped(TapeContext &tape, PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *names) {
  Ref positional = makeTuple(arguments, count);
  Ref keywords = names ? makeKeywords(arguments, count, names, true) : Ref::borrow(Py_None);
  return tape.handleCall(self, positional.get(), keywords.get());
}

static PyObject *callKernel(PyObject *self, PyObject *const *arguments, size_t countAndFlag, PyObject *names) {
  PyObject *result = guard([&]() -> PyObject * {
    KernelObject &kernel = kernelObject(self);
    Py_ssize_t count = PyVectorcall_NARGS(countAndFlag);
    if (TapeContext *tape = TapeContext::findCallHandler()) return callTaped(*tape, self, arguments, count, names);
    if (!names && count == kernel.plainCount && kernel.epoch == getState().epoch && !kernel.specializations->empty()) {
      Specialization &latest = *kernel.specializations->latest();
      Specialization::Use use(latest); // reading a member may run Python code that resets the runtime
      PyObject *result;
      Ref all = kernel.defaults ? bindArguments(kernel, arguments, count, names) : Ref();
      PyObject *const *items = all ? &PyTuple_GET_ITEM(all.get(), 0) : arguments;
      if (latest.launch(kernel, items, result) == GuardResult::Passed) return result;
    }
    return callGeneral(self, arguments, count, names);
  });
  if (!result && !getState().options.getBool(support::Option::print_full_traceback)) hideOwnFrames();
  return result;
}

//--- The type ---

/// Sets `plainCount` and `defaults`: keyword-only parameters may be omitted if all of them have defaults.
static void readParameters(KernelObject &kernel) {
  kernel.parameterCount = kernel.plainCount = PyList_GET_SIZE(kernel.parameters);
  Ref defaults = Ref::adopt(PyList_New(0));
  bool mayOmitAll = true;
  for (Py_ssize_t i = 0; i < kernel.parameterCount; ++i) {
    PyObject *parameter = PyList_GET_ITEM(kernel.parameters, i);
    Ref named = findAttribute(parameter, "is_named");
    if (!named || PyObject_IsTrue(named.get()) != 1) continue;
    Ref hasDefault = findAttribute(parameter, "has_default");
    mayOmitAll &= hasDefault && PyObject_IsTrue(hasDefault.get()) == 1;
    append(defaults, Ref::adopt(PyObject_GetAttrString(parameter, "default")));
  }
  Py_ssize_t count = PyList_GET_SIZE(defaults.get());
  if (count == 0) return;
  kernel.plainCount = mayOmitAll ? kernel.parameterCount - count : -1;
  if (mayOmitAll) kernel.defaults = Ref::adopt(PyList_AsTuple(defaults.get())).release();
}

static PyObject *newKernel(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  return guard([&]() -> PyObject * {
    static const char *names[] = {"function", "parameters", "results", "name", "mode", nullptr};
    int mode = 0;
    PyObject *function, *parameters, *results = Py_None, *name = nullptr;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O|OUi:Kernel", const_cast<char **>(names), &PyFunction_Type, &function, &parameters,
                                     &results, &name, &mode))
      return nullptr;
    Ref list = Ref::adopt(PySequence_List(parameters));
    Ref self = Ref::adopt(type->tp_alloc(type, 0));
    KernelObject &kernel = kernelObject(self.get());
    kernel.ofPrograms = new std::map<const State *, Specializations>;
    allKernels.add(kernel); // only together with `ofPrograms`: `deleteKernel` then removes it
    kernel.specializations = &(*kernel.ofPrograms)[&getState()];
    kernel.vectorcall = callKernel;
    kernel.function = Py_NewRef(function);
    kernel.parameters = list.release();
    readParameters(kernel);
    kernel.results = Py_NewRef(results);
    kernel.name = Py_NewRef(name ? name : reinterpret_cast<PyFunctionObject *>(function)->func_qualname);
    kernel.mode = support::AutodiffMode(mode);
    kernel.modeObject = call("quadrants._base.autodiff_mode", "AutodiffMode", "i", mode).release();
    kernel.epoch = getState().epoch;
    return self.release();
  });
}

/// The objects of a kernel that may refer to it. The function and the name are kept until its end.
static std::array<PyObject **, 9> listReferences(KernelObject &kernel) {
  DerivedKernels &derived = kernel.derived;
  return {&kernel.dict,     &kernel.parameters, &kernel.defaults, &kernel.results,   &derived.reverse,
          &derived.forward, &derived.replay,    &derived.fused,   &derived.endsTapes};
}

static int traverseKernel(PyObject *self, visitproc visit, void *arg) {
  KernelObject &kernel = kernelObject(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(kernel.function);
  for (PyObject **reference : listReferences(kernel)) Py_VISIT(*reference);
  if (!kernel.ofPrograms) return 0;
  for (const auto &[program, specializations] : *kernel.ofPrograms)
    for (const std::shared_ptr<Specialization> &specialization : specializations)
      if (int stop = specialization->traverse(visit, arg)) return stop;
  return 0;
}

std::vector<Specializations> releaseAllKernels() {
  std::vector<Specializations> released;
  size_t count = 0;
  for (KernelObject *kernel = allKernels.first; kernel; kernel = kernel->next) ++count;
  released.reserve(count); // the only step that can fail comes before any change
  for (KernelObject *kernel = allKernels.first; kernel; kernel = kernel->next)
    if (auto found = kernel->ofPrograms->find(&getState()); found != kernel->ofPrograms->end())
      released.push_back(std::exchange(found->second, {}));
  return released;
}

static int clearKernel(PyObject *self) {
  KernelObject &kernel = kernelObject(self);
  if (kernel.ofPrograms)
    for (auto &[program, specializations] : *kernel.ofPrograms) specializations.clear();
  for (PyObject **reference : listReferences(kernel)) Py_CLEAR(*reference);
  return 0;
}

static void deleteKernel(PyObject *self) {
  PyObject_GC_UnTrack(self);
  KernelObject &kernel = kernelObject(self);
  if (kernel.weakReferences) PyObject_ClearWeakRefs(self);
  clearKernel(self);
  if (kernel.ofPrograms) {
    allKernels.remove(kernel);
    delete kernel.ofPrograms;
  }
  Py_CLEAR(kernel.function);
  Py_CLEAR(kernel.name);
  Py_CLEAR(kernel.modeObject);
  PyTypeObject *type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

static PyObject *bindKernel(PyObject *self, PyObject *instance, PyObject *) {
  static constinit KnownAttribute make("quadrants._language.kernel", "BoundKernel");
  if (!instance || instance == Py_None) return Py_NewRef(self);
  return guard([&] { return PyObject_CallFunctionObjArgs(make.get(), self, instance, nullptr); });
}

static PyObject *describeKernel(PyObject *self) { return PyUnicode_FromFormat("<qd.kernel %U>", kernelObject(self).name); }

static PyObject *resumeKernel(PyObject *self, PyObject *arguments, PyObject *keywords) {
  return guard(
      [&] { return call("quadrants._language.checkpoints", "resume", "OOO", self, arguments, keywords ? keywords : Py_None).release(); });
}

static PyObject *exportKernel(PyObject *self, PyObject *arguments, PyObject *keywords) {
  return guard([&] {
    Ref module = Ref::adopt(PyImport_ImportModule("quadrants._compiler"));
    Ref function = Ref::adopt(PyObject_GetAttrString(module.get(), "export_kernel")), own = Ref::adopt(PyTuple_Pack(1, self));
    Ref all = Ref::adopt(PySequence_Concat(own.get(), arguments));
    return PyObject_Call(function.get(), all.get(), keywords);
  });
}

/// A fact about the kernel that only programs for the reference implementation ask for.
static PyObject *describeKernelPart(PyObject *self, void *name) {
  return guard([&] { return call("quadrants.lang._primal", "describe", "Os", self, static_cast<const char *>(name)).release(); });
}

static PyObject *countSpecializations(PyObject *self, void *) {
  KernelObject &kernel = kernelObject(self);
  return PyLong_FromSize_t(kernel.epoch == getState().epoch ? kernel.specializations->size() : 0);
}

// Names that programs for the reference implementation read.
static PyObject *getFunction(PyObject *self, void *) { return Py_NewRef(kernelObject(self).function); }
static PyObject *getSelf(PyObject *self, void *) { return Py_NewRef(self); }
static PyObject *getTrue(PyObject *, void *) { Py_RETURN_TRUE; }

/// The derived kernel of the given mode, which Python makes on first use.
static PyObject *derive(PyObject *self, PyObject *DerivedKernels::*slot, support::AutodiffMode mode) {
  return guard([&]() -> PyObject * {
    PyObject *&derived = kernelObject(self).derived.*slot;
    if (!derived) {
      Ref made = call("quadrants._language.kernel", "derive", "Oi", self, int(mode));
      if (!derived) derived = made.release();
    }
    return Py_NewRef(derived);
  });
}

static PyObject *getReverse(PyObject *self, void *) { return derive(self, &DerivedKernels::reverse, support::AutodiffMode::Reverse); }
static PyObject *getReplay(PyObject *self, void *) { return derive(self, &DerivedKernels::replay, support::AutodiffMode::Replay); }
static PyObject *getForward(PyObject *self, void *) { return derive(self, &DerivedKernels::forward, support::AutodiffMode::Forward); }
static PyObject *getFused(PyObject *self, void *) { return derive(self, &DerivedKernels::fused, support::AutodiffMode::Fused); }

static PyObject *listSpecializations(PyObject *self, PyObject *) {
  return guard([&]() -> PyObject * {
    KernelObject &kernel = kernelObject(self);
    synchronizeEpoch(kernel);
    if (getState().interpreter) return call("quadrants.interpreter", "list_versions", "O", self).release();
    Ref list = Ref::adopt(PyList_New(0));
    for (const std::shared_ptr<Specialization> &specialization : *kernel.specializations)
      append(list, Ref::borrow(specialization->reads.get()));
    return list.release();
  });
}

void addKernelType(PyObject *module) {
  static PyMethodDef methods[] = {
      {"specializations", listSpecializations, METH_NOARGS,
       "specializations()\n--\n\nThe compiled versions, a dictionary for each: what the kernel read "
       "while it was compiled, by name, and the value it had. Names of captured values begin with \"global\"."},
      {"resume", withKeywords(resumeKernel), METH_VARARGS | METH_KEYWORDS,
       "resume(*arguments, from_checkpoint)\n--\n\nRun a kernel with checkpoints from one of them on: as a call, "
       "without the statements before the checkpoint with the label `from_checkpoint`. Return a GraphStatus."},
      {"export", withKeywords(exportKernel), METH_VARARGS | METH_KEYWORDS,
       "export(path, *arg_types, arch=None)\n--\n\nWrite the compiled kernel for programs without Python: its code (a shared library, or "
       "what the driver of a GPU takes), a manifest in JSON and a C header, `path` with other suffixes.\n\n"
       "Args:\n    path: folder and name of the files; the name is the function of the library, too.\n"
       "    arg_types: for each parameter its type, such as qd.f32 or qd.types.ndarray(qd.f32, 1), or a value like those of calls: "
       "compile-time values are part of the code. What annotations say completely can be left out at the end.\n"
       "    arch: a processor, or a text with its kind, such as \"x64:x86-64-v3\"; the current one by default.\n"
       "Returns:\n    The paths of the files.\n"
       "Raises:\n    QuadrantsCompilationError: what a call would raise.\n    TypeError: a type does not suit its parameter.\n"
       "    ValueError: there is no such processor, or the kernel has checkpoints."},
      {}};
  static PyGetSetDef properties[] = {
      {"specialization_count", countSpecializations, nullptr, "Number of compiled versions.", nullptr},
      {"grad", getReverse, nullptr,
       "The kernel that adds to the gradients of the containers that this one reads, from those that it writes.", nullptr},
      {"_adjoint", getReverse, nullptr, "The same as `grad`.", nullptr},
      {"_replayed", getReplay, nullptr, "The same as `grad`, for tapes, which restore what the kernel overwrites.", nullptr},
      {"_fused", getFused, nullptr, "The kernel together with its gradient, for the last call of a tape.", nullptr},
      {"_tangent", getForward, nullptr, "The kernel that computes the results of this one and their tangents (`.dual`).", nullptr},
      {"fn", getFunction, nullptr, "The Python function.", nullptr},
      {"wrapper", getSelf, nullptr, "The kernel itself.", nullptr},
      {"_primal", getSelf, nullptr, "The kernel itself.", nullptr},
      {"graph_do_while_arg", describeKernelPart, nullptr, "The flag of the first do_while, as written; None without one.",
       const_cast<char *>("graph_do_while_arg")},
      {"graph_do_while_levels", describeKernelPart, nullptr,
       "The do_while loops in the order of the source: flag, its position among the parameters, outer loop.",
       const_cast<char *>("graph_do_while_levels")},
      {"checkpoint_user_labels_by_cp_id", describeKernelPart, nullptr,
       "The label of each checkpoint; None for loops outside of checkpoints, which count, too.",
       const_cast<char *>("checkpoint_user_labels_by_cp_id")},
      {"checkpoint_yield_on_args", describeKernelPart, nullptr, "The flag of each checkpoint, as written.",
       const_cast<char *>("checkpoint_yield_on_args")},
      {"checkpoint_yield_on_cpp_arg_ids", describeKernelPart, nullptr,
       "The position of each checkpoint's flag among the parameters, or -1.", const_cast<char *>("checkpoint_yield_on_cpp_arg_ids")},
      {"src_ll_cache_observations", describeKernelPart, nullptr, "What the disk cache did for the version launched last.",
       const_cast<char *>("src_ll_cache_observations")},
      {"_is_wrapped_kernel", getTrue, nullptr, "Distinguishes kernels from other callables.", nullptr},
      {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
      {}};
  static PyMemberDef members[] = {
      {"function", T_OBJECT_EX, offsetof(KernelObject, function), READONLY, "The Python function."},
      {"parameters", T_OBJECT_EX, offsetof(KernelObject, parameters), READONLY, "One Parameter for each argument."},
      {"results", T_OBJECT_EX, offsetof(KernelObject, results), READONLY, "Annotations of the returned values, or None."},
      {"mode", T_OBJECT_EX, offsetof(KernelObject, modeObject), READONLY, "The AutodiffMode: how it is derived from the function."},
      {"_ends_tapes", T_OBJECT, offsetof(KernelObject, derived.endsTapes), 0,
       "Whether it may be fused with its gradient as the last call of a tape; None while that is not known."},
      {"_needs_overwritten", T_BOOL, offsetof(KernelObject, derived.needsOverwritten), 0,
       "Whether its gradient under a tape is `_replayed`."},
      {"name", T_OBJECT_EX, offsetof(KernelObject, name), READONLY, "Qualified name."},
      {"__vectorcalloffset__", T_PYSSIZET, offsetof(KernelObject, vectorcall), READONLY, nullptr},
      {"__dictoffset__", T_PYSSIZET, offsetof(KernelObject, dict), READONLY, nullptr},
      {"__weaklistoffset__", T_PYSSIZET, offsetof(KernelObject, weakReferences), READONLY, nullptr},
      {}};
  PyType_Slot slots[] = {
      slot(Py_tp_new, newKernel),
      slot(Py_tp_dealloc, deleteKernel),
      slot(Py_tp_traverse, traverseKernel),
      slot(Py_tp_clear, clearKernel),
      slot(Py_tp_call, PyVectorcall_Call),
      slot(Py_tp_descr_get, bindKernel),
      slot(Py_tp_repr, describeKernel),
      slot(Py_tp_getset, properties),
      slot(Py_tp_members, members),
      slot(Py_tp_methods, methods),
      {Py_tp_doc, const_cast<char *>("(function, parameters, results=None, name=None): a function that is compiled when it is called.")},
      {}};
  // A method descriptor: CPython calls `object.kernel(…)` without making a bound object.
  kernelType = addType(
      module,
      {"quadrants._runtime.Kernel", sizeof(KernelObject), 0,
       Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR, slots});
}

} // namespace qd::launch
