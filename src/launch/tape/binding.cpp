// binding.cpp: launches on the objects and numbers of a recorded call
//
// In:   a kernel and the binding of a call of another kernel of the same function; both come from a tape.
// Out:  a launch of the kernel on that binding, or a version that will fit it.
// Here: the gradient of a recorded call must not look up names again, because they may be bound to other objects by now.
#include "launch/tape/binding.h"

#include "launch/kernel.h"
#include "launch/specialize.h"
#include "launch/state.h"
#include "support/error.h"

namespace qd::launch {

static PyTypeObject *bindingType;

namespace {
struct BindingObject {
  PyObject_HEAD Binding *binding;
};
} // namespace

static Binding &getBinding(PyObject *object) {
  if (!PyObject_TypeCheck(object, bindingType)) throwPython(PyExc_TypeError, "a Binding is expected");
  return *reinterpret_cast<BindingObject *>(object)->binding;
}

Ref makeBinding(Binding binding) {
  Ref made = Ref::adopt(bindingType->tp_alloc(bindingType, 0));
  reinterpret_cast<BindingObject *>(made.get())->binding = new Binding(std::move(binding));
  return made;
}

static int traverseBinding(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  if (Binding *binding = reinterpret_cast<BindingObject *>(self)->binding)
    for (const Ref &object : binding->objects) Py_VISIT(object.get());
  return 0;
}

static int clearBinding(PyObject *self) {
  delete std::exchange(reinterpret_cast<BindingObject *>(self)->binding, nullptr);
  return 0;
}

static void deleteBinding(PyObject *self) {
  PyObject_GC_UnTrack(self);
  clearBinding(self);
  PyTypeObject *type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

static PyObject *hasGradient(PyObject *self, void *) {
  return guard([&] { return PyBool_FromLong(getBinding(self).version->hasGradient); });
}

void addBindingType(PyObject *module) {
  static PyGetSetDef properties[] = {
      {"has_gradient", hasGradient, nullptr, "Whether `specialize_bound` was called for the version of the kernel that ran.", nullptr}, {}};
  PyType_Slot slots[] = {slot(Py_tp_dealloc, deleteBinding),
                         slot(Py_tp_traverse, traverseBinding),
                         slot(Py_tp_clear, clearBinding),
                         slot(Py_tp_getset, properties),
                         {Py_tp_doc, const_cast<char *>("The objects and numbers of a recorded call.")},
                         {}};
  bindingType =
      addType(module, {"quadrants._runtime.Binding", sizeof(BindingObject), 0,
                       Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE, slots});
}

//--- Launches ---

static PyObject *const *prepareBound(KernelObject &kernel, PyObject *arguments, PyObject *keywords, Ref &prepared) {
  Ref named = keywords == Py_None ? Ref::adopt(PyDict_New()) : Ref::borrow(keywords);
  Ref bound = call("quadrants._language.parameters", "bind", "OOO", kernel.parameters, arguments, named.get());
  prepared = call("quadrants._session.prepare", "prepare", "OO", &kernel, bound.get());
  return &PyTuple_GET_ITEM(prepared.get(), 0);
}

static const Binding &requireCurrent(PyObject *object) {
  const Binding &binding = getBinding(object);
  if (binding.epoch != getState().epoch)
    throw support::Error(support::ErrorKind::Runtime,
                         "kernel " + binding.version->artifact.kernel + " was recorded before qd.reset(), and has no gradient any more");
  return binding;
}

Ref launchBound(PyObject *object, PyObject *bindingObject, PyObject *arguments, PyObject *keywords) {
  KernelObject &kernel = *reinterpret_cast<KernelObject *>(object);
  const Binding &binding = requireCurrent(bindingObject);
  synchronizeEpoch(kernel);
  PyObject *result;
  if (kernel.specializations->launchBound(kernel, binding, result)) return Ref::adopt(result);
  // A version for the current objects may fit.
  Ref prepared;
  prepareBound(kernel, arguments, keywords, prepared);
  synchronizeEpoch(kernel);
  if (kernel.specializations->launchBound(kernel, binding, result)) return Ref::adopt(result);
  std::shared_ptr<Specialization> made = specialize(kernel, prepared.get());
  synchronizeEpoch(kernel);
  kernel.specializations->add(made);
  if (kernel.specializations->launchBound(kernel, binding, result)) return Ref::adopt(result);
  throw support::Error(support::ErrorKind::Runtime,
                       "the gradient of kernel " + binding.version->artifact.kernel +
                           " is that of another version than the one that was recorded: '" + made->getGuardFailure() +
                           "' has changed since. Compute gradients before it changes, or pass it as an argument");
}

static PrimalReads findPrimalReads(const Specialization &version) {
  const std::vector<artifact::Site> &sites = version.artifact.sites;
  auto isCheck = [](const artifact::Site &site) { return site.kind == artifact::Site::Kind::Gradient; };
  if (!version.artifact.report.assumptions.empty()) return PrimalReads::Assumed;
  return std::any_of(sites.begin(), sites.end(), isCheck) ? PrimalReads::Checked : PrimalReads::Known;
}

PrimalReads specializeBound(PyObject *object, PyObject *bindingObject, PyObject *arguments, PyObject *keywords) {
  KernelObject &kernel = *reinterpret_cast<KernelObject *>(object);
  const Binding &binding = requireCurrent(bindingObject);
  binding.version->hasGradient = true; // if there is none, its launch reports the reason
  synchronizeEpoch(kernel);
  if (auto found = kernel.specializations->findBound(binding)) return findPrimalReads(*found);
  Ref prepared;
  prepareBound(kernel, arguments, keywords, prepared);
  synchronizeEpoch(kernel);
  if (auto found = kernel.specializations->findBound(binding)) return findPrimalReads(*found);
  std::shared_ptr<Specialization> made = specialize(kernel, prepared.get());
  synchronizeEpoch(kernel);
  kernel.specializations->add(made);
  return findPrimalReads(*made);
}

void warnOfAssumptions(PyObject *object, PyObject *bindingObject) {
  KernelObject &kernel = *reinterpret_cast<KernelObject *>(object);
  synchronizeEpoch(kernel);
  if (auto found = kernel.specializations->findBound(requireCurrent(bindingObject))) issueWarnings(found->artifact.report.assumptions);
}

} // namespace qd::launch
