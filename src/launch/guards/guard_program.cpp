// guard_program.cpp: evaluates the guards of a version at a launch
//
// In:   the arguments of a call, or the objects and numbers of a recorded one (bound_guards.cpp).
// Out:  the objects in the frame's slots, the inputs in its argument block; or the first guard that failed.
// Here: every launch runs this code, so the common cases (an unchanged class and dictionary, the same type, the same object) come first and
//       cost one compare.
#include "launch/guards/guard_program.h"

#include "launch/containers/tensor_object.h"
#include "launch/guards/referent.h"
#include "launch/state.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace qd::launch {

using artifact::Dependency;
using support::Digest;
using Kind = GuardStep::Kind;

int GuardProgram::traverse(visitproc visit, void *arg) const {
  for (const Guard &guard : guards) {
    Py_VISIT(guard.held.get());
    Py_VISIT(guard.weak.get());
    Py_VISIT(guard.defaults.get());
    Py_VISIT(guard.namedDefaults.get());
  }
  for (const CapturedDict &entry : capturedDicts) Py_VISIT(entry.dict.get());
  for (const Ref &object : kept) Py_VISIT(object.get());
  for (const MemberSource &source : sources)
    if (int stop = source.typeWatch.traverse(visit, arg)) return stop;
  return 0;
}

/// Encloses code of a walk that may run user code, which may rebind captured names and replace dictionaries that the walk has borrowed.
class GuardProgram::PythonCode {
public:
  PythonCode(GuardProgram &owner, GuardFrame &frame) : owner(owner), frame(frame) {
    if (std::exchange(frame.ranPython, true)) return;
    const State &state = getState();
    frame.state = &state, frame.epoch = state.epoch, frame.launches = state.launches;
    if (frame.slots == owner.captured.data()) return;
    for (const GuardStep &step : owner.steps)
      if (PyObject *object = step.kind == Kind::Captured ? owner.captured[step.slot] : nullptr)
        frame.owned[frame.ownedCount++] = Py_NewRef(frame.slots[step.slot] = object);
  }
  ~PythonCode() { owner.beginTime(frame); }

private:
  GuardProgram &owner;
  GuardFrame &frame;
};

/// The dictionary of an object, borrowed. CPython's public function returns a new reference, and a reference that is dropped at once
/// stalls: its count is loaded in 64 bits after a store of 32.
static PyObject *getDict(PyObject *object) {
  PyObject **dict = _PyObject_GetDictPtr(object);
  if (dict && *dict) [[likely]]
    return *dict;
  PyObject *made = PyObject_GenericGetDict(object, nullptr);
  if (made)
    Py_DECREF(made); // the object holds it
  else
    PyErr_Clear();
  return made;
}

/// Finds out whether the members of an object may have changed since its source was checked last.
void GuardProgram::check(MemberSource &source, PyObject *object) {
  source.checkedAt = time;
  PyTypeObject *type = Py_TYPE(object);
  if (!source.typeWatch.isCurrent(type)) {
    source.typeChangedAt = source.changedAt = time;
    if (type->tp_getattro == PyObject_GenericGetAttr) source.typeWatch.begin(type);
    return;
  }
  source.dict = nullptr;
  if (!type->tp_dictoffset) return;
  source.dict = getDict(object);
  if (!source.dict) {
    source.typeChangedAt = source.changedAt = time;
    return;
  }
  if (source.dictWatch.isCurrent(source.dict)) return;
  source.changedAt = time;
  source.dictWatch.consider(source.dict);
}

/// Fetches a member of an object as Python does; null when it is missing.
[[gnu::noinline]] PyObject *GuardProgram::fetchAttribute(GuardStep &step, PyObject *object, GuardFrame &frame) {
  PythonCode code(*this, frame);
  step.classReadAt = 0;
  step.inClass = nullptr;
  // The next fetch reads only the dictionary, unless the class has a descriptor for the member.
  if (Py_TYPE(object)->tp_getattro == PyObject_GenericGetAttr && unwrap(object) == object) {
    PyObject *inClass = findInClass(Py_TYPE(object), step.name.get());
    PyTypeObject *kind = inClass ? Py_TYPE(inClass) : nullptr;
    if (!kind || !kind->tp_descr_set) {
      step.classReadAt = step.members->checkedAt;
      if (kind && (!kind->tp_descr_get || getFunction(inClass))) step.inClass = inClass;
    }
  }
  return takeStep(object, *step.path, step.name.get()).release();
}

/// A new reference to a member of an object; null when it is missing.
PyObject *GuardProgram::fetchMember(GuardStep &step, GuardFrame &frame) {
  PyObject *object = frame.slots[step.source];
  MemberSource &source = *step.members;
  while (source.checkedAt != frame.time) { // again if dropping the previous class has run user code
    if (frame.time != time) beginTime(frame);
    check(source, object);
  }
  if (step.readAt >= source.changedAt) return Py_NewRef(step.found);
  if (step.classReadAt < source.typeChangedAt) return fetchAttribute(step, object, frame);
  PyObject *found = source.dict ? PyDict_GetItemWithError(source.dict, step.name.get()) : nullptr;
  if (!found) found = step.inClass;
  if (!found) return fetchAttribute(step, object, frame);
  Ref plain = unbind(Ref::borrow(found), object);
  if (plain.get() != found) return plain.release(); // only the bound object holds it
  step.readAt = time;
  step.found = found;
  return plain.release();
}

Ref GuardProgram::fetch(GuardStep &step, GuardFrame &frame) {
  PyObject *object = frame.slots[step.source];
  bool isCapture = frame.slots == captured.data();
  switch (step.kind) {
  case Kind::ModuleMember: {
    if (PyModule_CheckExact(object))
      trackDict(PyModule_GetDict(object), step.name.get(), frame);
    else
      frame.isComplete = false; // something else took the place of a module
    PythonCode code(*this, frame);
    return takeStep(object, *step.path, step.name.get());
  }
  case Kind::Item: {
    bool isIndex = !step.name;
    Py_ssize_t index = step.path->index;
    if (isIndex && index >= 0 && PyTuple_CheckExact(object))
      return Ref::borrow(index < PyTuple_GET_SIZE(object) ? PyTuple_GET_ITEM(object, index) : nullptr);
    if (isIndex && index >= 0 && PyList_CheckExact(object))
      return Ref::borrow(index < PyList_GET_SIZE(object) ? PyList_GET_ITEM(object, index) : nullptr);
    if (!isIndex && PyDict_CheckExact(object)) return Ref::borrow(PyDict_GetItemWithError(object, step.name.get()));
    PythonCode code(*this, frame);
    return takeStep(object, *step.path, step.name.get());
  }
  case Kind::Global:
    if (PyObject *function = isCapture ? getFunction(object) : nullptr) {
      trackDict(PyFunction_GetGlobals(function), step.name.get(), frame);
      trackDict(reinterpret_cast<PyFunctionObject *>(function)->func_builtins, step.name.get(), frame);
    }
    break;
  case Kind::Entry: {
    PythonCode code(*this, frame); // the text of another key
    return takeStep(object, *step.path, step.name.get());
  }
  case Kind::Cell: return Ref::borrow(readCell(getFunction(object), step.index));
  default: break;
  }
  return takeStep(object, *step.path, step.name.get());
}

bool GuardProgram::fillValue(ValueInput &input, PyObject *object, GuardFrame &frame) {
  bool fits;
  if (ArgumentWriter::isPlain(input, object)) {
    fits = writer.writeValue(input, object, frame);
  } else {
    PythonCode code(*this, frame);
    fits = writer.writeValue(input, object, frame);
  }
  if (input.isMember) writer.noteMember(input, frame.slots[input.ownerSlot], fits);
  return fits;
}

/// Fills the step's slot with an object, whose reference it takes over; false when a required one is missing.
[[gnu::always_inline]] inline bool GuardProgram::place(const GuardStep &step, PyObject *found, GuardFrame &frame) {
  frame.slots[step.slot] = found;
  if (!found) {
    if (!step.mayBeMissing) fail(step.path->name);
    return step.mayBeMissing;
  }
  // Held until the launch is over, because a later step may run Python code that drops the object.
  frame.owned[frame.ownedCount++] = found;
  return true;
}

GuardResult GuardProgram::walk(Steps &list, PyObject *const *arguments, GuardFrame &frame) {
  PyObject **slots = frame.slots;
  for (GuardStep &step : list) {
    switch (step.kind) {
    case Kind::Argument: slots[step.slot] = arguments[step.index]; break;
    case Kind::Captured:
      if (!frame.ranPython) slots[step.slot] = captured[step.slot];
      break;
    case Kind::Tensor: {
      TensorInput &input = writer.tensors[size_t(step.index)];
      if (GuardResult fit = writer.writeTensor(input, slots[step.slot], frame); fit != GuardResult::Passed) {
        fail(input.input->name);
        return fit;
      }
      break;
    }
    case Kind::Value: {
      ValueInput &input = writer.values[size_t(step.index)];
      if (!fillValue(input, slots[step.slot], frame)) {
        writer.refuseNumber(input, slots[step.slot]);
        fail(input.input->name);
        return GuardResult::Failed;
      }
      break;
    }
    case Kind::Guard: {
      Guard &guard = guards[size_t(step.index)];
      if (guard.namedDefaults && slots == captured.data()) trackDefaults(slots[step.slot], frame);
      if (!holds(guard, slots[step.slot], frame)) {
        fail({}, &guard.dependency->path);
        return GuardResult::Failed;
      }
      break;
    }
    case Kind::Attribute: {
      bool isUnchanged = step.members->checkedAt == frame.time && step.readAt >= step.members->changedAt;
      if (!place(step, isUnchanged ? Py_NewRef(step.found) : fetchMember(step, frame), frame)) return GuardResult::Failed;
      break;
    }
    default:
      if (!place(step, fetch(step, frame).release(), frame)) return GuardResult::Failed;
    }
  }
  return GuardResult::Passed;
}

void GuardProgram::trackDict(PyObject *dict, PyObject *name, GuardFrame &frame) {
  auto known =
      std::find_if(capturedDicts.begin(), capturedDicts.end(), [&](const CapturedDict &other) { return other.dict.get() == dict; });
  if (known == capturedDicts.end()) known = capturedDicts.insert(known, {Ref::borrow(dict)});
  known->watch.begin(dict, name, std::exchange(known->isUsed, true));
  frame.isComplete &= known->watch.isActive();
}

/// Watches the dictionary of a captured function's named defaults.
void GuardProgram::trackDefaults(PyObject *object, GuardFrame &frame) {
  PyObject *dict = PyFunction_Check(object) ? PyFunction_GetKwDefaults(object) : nullptr, *name, *value;
  for (Py_ssize_t at = 0; dict && PyDict_Next(dict, &at, &name, &value);) trackDict(dict, name, frame);
}

/// Looks up the names of modules again and records the dictionaries that were read.
bool GuardProgram::refreshCaptures() {
  hasCaptures = false;
  for (CapturedDict &entry : capturedDicts) entry.isUsed = false;
  std::vector<PyObject *> memory(2 * getSlotCount());
  GuardFrame frame;
  beginTime(frame);
  frame.place(memory.data(), getSlotCount());
  frame.slots = captured.data(); // borrowed: the dictionaries hold the objects
  bool fits = walk(captureSteps, nullptr, frame) == GuardResult::Passed;
  // The objects are borrowed from dictionaries that user code may have changed since.
  if (frame.isComplete && frame.ranPython) fits = fits && areDictsUnchanged();
  hasCaptures = fits && frame.isComplete;
  std::vector<Ref> objects;
  std::vector<CapturedDict> unused;
  if (fits) {
    for (PyObject *object : captured)
      if (!frame.isComplete) objects.push_back(Ref::borrow(object));
    kept.swap(objects);
    auto end = std::partition(capturedDicts.begin(), capturedDicts.end(), [](const CapturedDict &entry) { return entry.isUsed; });
    unused.assign(std::make_move_iterator(end), std::make_move_iterator(capturedDicts.end()));
    capturedDicts.erase(end, capturedDicts.end());
  }
  return fits; // the last step drops references, which may run user code
}

bool GuardProgram::areDictsUnchanged() const {
  bool areCurrent = true;
  for (const CapturedDict &entry : capturedDicts) areCurrent &= entry.watch.isCurrent(entry.dict.get());
  for (size_t number : capturedFunctions) areCurrent &= guards[number].isUnchanged();
  return areCurrent;
}

GuardResult GuardProgram::run(PyObject *const *arguments, GuardFrame &frame) {
  if (!captureSteps.empty()) {
    if (!(hasCaptures && areDictsUnchanged()) && !refreshCaptures()) return GuardResult::Failed;
  }
  writer.refusal.reset();
  beginTime(frame);
  return walk(steps, arguments, frame);
}

std::vector<Ref> GuardProgram::listObjects(const GuardFrame &frame) const {
  std::vector<Ref> objects;
  objects.reserve(origins.size());
  for (size_t slot = 0; slot < origins.size(); ++slot)
    objects.push_back(Ref::borrow(origins[slot].isCaptured ? captured[slot] : frame.slots[slot]));
  return objects;
}

void Guard::hold(PyObject *object) {
  held = Ref::borrow(object);
  if (kind != Dependency::Kind::Function || !PyFunction_Check(object)) return;
  auto *function = reinterpret_cast<PyFunctionObject *>(object);
  code = Ref::borrow(function->func_code);
  defaults = Ref::borrow(function->func_defaults);
  namedDefaults = Ref::borrow(function->func_kwdefaults);
}

bool GuardProgram::holds(Guard &guard, PyObject *object, GuardFrame &frame) {
  if (!object) return guard.kind == Dependency::Kind::Absent;
  if (guard.kind == Dependency::Kind::Absent) return false;
  if (guard.weak) return getReferent(guard.weak.get()) == object;
  if (PyObject *held = guard.held.get()) {
    // A dictionary of defaults may have other entries.
    if (object == held && guard.isUnchanged() && !guard.namedDefaults) return true;
    if (guard.kind == Dependency::Kind::Type && !PyType_Check(object) && reinterpret_cast<PyObject *>(Py_TYPE(object)) == held) return true;
    // Compares small values without their fingerprints.
    if (Py_TYPE(object) == Py_TYPE(held) && guard.kind == Dependency::Kind::Value) {
      if (PyLong_CheckExact(object) || PyUnicode_CheckExact(object)) return PyObject_RichCompareBool(object, held, Py_EQ) == 1;
      if (PyFloat_CheckExact(object)) {
        double a = PyFloat_AS_DOUBLE(object), b = PyFloat_AS_DOUBLE(held);
        return memcmp(&a, &b, sizeof a) == 0;
      }
    }
  }
  if (!guard.hasDigest) return false;
  PythonCode code(*this, frame);
  std::optional<Digest> digest = fingerprintDependency(guard.kind, object, placement);
  if (!digest || *digest != guard.digest) return false;
  if (guard.held && guard.kind != Dependency::Kind::Type && (guard.code || isImmutable(object)))
    guard.hold(object); // the next check is a compare
  return true;
}

} // namespace qd::launch
