// guard_program.cpp: evaluates the guards of a version at a launch
//
// In:   the arguments of a call, or the objects and numbers of a recorded one (bound_guards.cpp).
// Out:  the objects in the frame's slots, the inputs in its argument block; or the first guard that failed.
// Here: every launch runs this code, so the common cases (the same dictionary version, the same type, the same object) come first and cost
//       one compare.
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

// CPython counts the changes of each dictionary up to and including 3.13; 3.14 has no count. In 3.13 storing an attribute of an object
// changes its dictionary without counting. Without a count, names are looked up at every launch.
static constexpr bool kCountsChanges = PY_VERSION_HEX < 0x030e0000;
static constexpr bool kCountsAttributes = PY_VERSION_HEX < 0x030d0000;
static uint64_t getVersion(PyObject *dict) {
#if PY_VERSION_HEX < 0x030e0000
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wdeprecated-declarations"
  return reinterpret_cast<PyDictObject *>(dict)->ma_version_tag;
#pragma clang diagnostic pop
#else
  (void)dict;
  return 0;
#endif
}

int GuardProgram::traverse(visitproc visit, void *arg) const {
  for (const Guard &guard : guards) {
    Py_VISIT(guard.held.get());
    Py_VISIT(guard.weak.get());
  }
  for (const DictVersion &entry : dictVersions) Py_VISIT(entry.dict.get());
  return 0;
}

void GuardProgram::clearDicts(GuardFrame &frame) const {
  if (usesDicts) memset(frame.dicts, 0, getSlotCount() * sizeof(PyObject *));
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
  ~PythonCode() { owner.clearDicts(frame); }

private:
  GuardProgram &owner;
  GuardFrame &frame;
};

/// Empty when the member is missing.
Ref GuardProgram::fetchAttribute(GuardStep &step, PyObject *object) {
  object = unwrap(object);
  PyTypeObject *type = Py_TYPE(object);
  // The next fetch reads only the dictionary, unless the class has a descriptor for the member.
  step.typeVersion = 0;
  step.inClass = nullptr;
  if (type->tp_getattro == PyObject_GenericGetAttr) {
    PyObject *inClass = _PyType_Lookup(type, step.name.get());
    PyTypeObject *kind = inClass ? Py_TYPE(inClass) : nullptr;
    if (!kind || !kind->tp_descr_set) {
      step.typeVersion = type->tp_version_tag;
      if (kind && (!kind->tp_descr_get || getFunction(inClass))) step.inClass = inClass;
    }
  }
  return takeStep(object, *step.path, step.name.get());
}

Ref GuardProgram::fetch(GuardStep &step, GuardFrame &frame) {
  PyObject *object = frame.slots[step.source];
  bool isCapture = frame.slots == captured.data();
  switch (step.kind) {
  case Kind::Attribute: {
    if (isCapture && PyModule_CheckExact(object)) trackDict(PyModule_GetDict(object));
    if (!step.typeVersion || Py_TYPE(object)->tp_version_tag != step.typeVersion) {
      PythonCode code(*this, frame);
      return fetchAttribute(step, object);
    }
    PyObject *&dict = frame.dicts[step.source], *found = nullptr;
    if (!dict && Py_TYPE(object)->tp_dictoffset != 0) {
      dict = PyObject_GenericGetDict(object, nullptr);
      if (dict)
        Py_DECREF(dict); // the object holds it
      else
        PyErr_Clear();
    }
    if (dict) {
      // Saves 15 ns per member: no look-up while the dictionary is unchanged.
      uint64_t version = getVersion(dict);
      if (!kCountsAttributes || version != step.dictVersion) {
        step.inDict = PyDict_GetItemWithError(dict, step.name.get());
        step.dictVersion = version;
      }
      found = step.inDict;
    }
    if (!found) found = step.inClass;
    if (found) return Ref::borrow(found);
    PythonCode code(*this, frame);
    return fetchAttribute(step, object);
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
      trackDict(PyFunction_GetGlobals(function));
      trackDict(reinterpret_cast<PyFunctionObject *>(function)->func_builtins);
    }
    break;
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
      if (!holds(guard, slots[step.slot], frame)) {
        fail({}, &guard.dependency->path);
        return GuardResult::Failed;
      }
      break;
    }
    default: {
      PyObject *found = fetch(step, frame).release();
      // Held until the launch is over, because a later step may run Python code that drops the object.
      if (found)
        frame.owned[frame.ownedCount++] = found;
      else if (!step.mayBeMissing) {
        fail(step.path->name);
        return GuardResult::Failed;
      }
      slots[step.slot] = found;
    }
    }
  }
  return GuardResult::Passed;
}

void GuardProgram::trackDict(PyObject *dict) {
  if (std::none_of(dictVersions.begin(), dictVersions.end(), [&](const DictVersion &other) { return other.dict.get() == dict; }))
    dictVersions.push_back({Ref::borrow(dict), getVersion(dict)});
}

/// Looks up the names of modules again and records the dictionaries that were read.
bool GuardProgram::refreshCaptures() {
  dictVersions.clear();
  std::vector<PyObject *> memory(3 * getSlotCount());
  GuardFrame frame;
  frame.place(memory.data(), getSlotCount());
  frame.slots = captured.data(); // borrowed: the dictionaries hold the objects
  bool fits = walk(captureSteps, nullptr, frame) == GuardResult::Passed;
  // The objects are borrowed from dictionaries that user code may have changed since.
  if (frame.ranPython) fits = fits && areDictsUnchanged();
  if (!fits || !kCountsChanges) dictVersions.clear();
  return fits;
}

bool GuardProgram::areDictsUnchanged() const {
  bool areCurrent = true;
  for (const DictVersion &entry : dictVersions) areCurrent &= getVersion(entry.dict.get()) == entry.version;
  return areCurrent;
}

GuardResult GuardProgram::run(PyObject *const *arguments, GuardFrame &frame) {
  if (!captureSteps.empty()) {
    bool isCurrent = !dictVersions.empty() && areDictsUnchanged();
    if (!isCurrent && !refreshCaptures()) return GuardResult::Failed;
  }
  writer.refusal.reset();
  clearDicts(frame);
  return walk(steps, arguments, frame);
}

std::vector<Ref> GuardProgram::listObjects(const GuardFrame &frame) const {
  std::vector<Ref> objects;
  objects.reserve(origins.size());
  for (size_t slot = 0; slot < origins.size(); ++slot)
    objects.push_back(Ref::borrow(origins[slot].isCaptured ? captured[slot] : frame.slots[slot]));
  return objects;
}

bool GuardProgram::holds(Guard &guard, PyObject *object, GuardFrame &frame) {
  if (!object) return guard.kind == Dependency::Kind::Absent;
  if (guard.kind == Dependency::Kind::Absent) return false;
  if (guard.weak) return getReferent(guard.weak.get()) == object;
  if (PyObject *held = guard.held.get()) {
    if (object == held) return true;
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
  if (guard.held && guard.kind != Dependency::Kind::Type && isImmutable(object))
    guard.held = Ref::borrow(object); // the next check is a compare
  return true;
}

} // namespace qd::launch
