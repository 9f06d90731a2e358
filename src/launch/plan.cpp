#include "launch/plan.h"

#include "launch/data_type.h"
#include "launch/plan_parts.h"
#include "launch/tensor_object.h"
#include "runtime/kernel_abi.h"

#include <algorithm>
#include <cstring>

namespace qd::launch {

using artifact::Dependency;
using layout::kDynamic;
using support::Digest;

static uint64_t getVersion(PyObject *dict) {
#if PY_VERSION_HEX < 0x030c0000
  return reinterpret_cast<PyDictObject *>(dict)->ma_version_tag;
#else
  (void)dict;
  return 0;
#endif
}
// Without version numbers names are looked up at every launch.
static constexpr bool kHasVersions = PY_VERSION_HEX < 0x030c0000;

int Plan::traverse(visitproc visit, void *arg) const {
  for (const TensorInput &tensor : tensors) Py_VISIT(tensor.type);
  for (const Check &check : checks) {
    Py_VISIT(check.held);
    Py_VISIT(check.weak);
  }
  for (const Watch &watch : watches) Py_VISIT(watch.dict);
  return 0;
}

Plan::~Plan() {
  for (std::vector<Step> *list : {&steps, &captureSteps})
    for (Step &step : *list) Py_XDECREF(step.name);
  for (TensorInput &tensor : tensors) {
    Py_XDECREF(tensor.type);
    Py_DECREF(tensor.descr);
  }
  for (Check &check : checks) {
    Py_XDECREF(check.held);
    Py_XDECREF(check.weak);
  }
  for (Watch &watch : watches) Py_DECREF(watch.dict);
}

/// A new reference; null with the error cleared when there is no such member.
PyObject *Plan::fetchAttribute(Step &step, PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  // Next time the dictionary is enough, unless the class has a say about the member.
  step.typeVersion = 0;
  step.inClass = nullptr;
  if (type->tp_getattro == PyObject_GenericGetAttr) {
    PyObject *inClass = _PyType_Lookup(type, step.name);
    PyTypeObject *kind = inClass ? Py_TYPE(inClass) : nullptr;
    if (!kind || !kind->tp_descr_set) {
      step.typeVersion = type->tp_version_tag;
      if (kind && (!kind->tp_descr_get || getFunction(inClass))) step.inClass = inClass;
    }
  }
  PyObject *found = PyObject_GetAttr(object, step.name);
  if (!found) {
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) throw PythonError{};
    PyErr_Clear();
    return nullptr;
  }
  return unbind(Ref::adopt(found)).release();
}

bool Plan::walk(const std::vector<Step> &list, PyObject *const *arguments, PlanFrame &frame, Fit &fit) {
  PyObject **slots = frame.slots;
  for (const Step &constStep : list) {
    auto &step = const_cast<Step &>(constStep);
    PyObject *found = nullptr;
    switch (step.kind) {
    case StepKind::Argument: slots[step.slot] = arguments[step.index]; continue;
    case StepKind::Captured: slots[step.slot] = captured[step.slot]; continue;
    case StepKind::Tensor:
      if (!readTensor(tensors[step.index], slots[step.slot], frame.block, fit)) return false;
      continue;
    case StepKind::Value:
      if (!readValue(values[step.index], slots[step.slot], frame.block)) {
        misfit = values[step.index].input->name;
        return false;
      }
      continue;
    case StepKind::Check:
      if (!holds(checks[step.index], slots[step.slot])) {
        misfit = describe(checks[step.index].dependency->path);
        return false;
      }
      continue;
    case StepKind::Attribute: {
      PyObject *object = slots[step.source];
      if (step.typeVersion && Py_TYPE(object)->tp_version_tag == step.typeVersion) {
        PyObject *&dict = frame.dicts[step.source];
        if (!dict && Py_TYPE(object)->tp_dictoffset != 0) {
          dict = PyObject_GenericGetDict(object, nullptr);
          if (dict)
            Py_DECREF(dict); // the object holds it
          else
            PyErr_Clear();
        }
        if (dict) {
          // Saves 15 ns per member: no look-up while the dictionary is as it was.
          uint64_t version = getVersion(dict);
          if (!kHasVersions || version != step.dictVersion) {
            step.inDict = PyDict_GetItemWithError(dict, step.name);
            step.dictVersion = version;
          }
          found = step.inDict;
        }
        found = Py_XNewRef(found ? found : step.inClass);
      }
      if (!found) found = fetchAttribute(step, object);
      break;
    }
    case StepKind::Item: {
      PyObject *object = slots[step.source];
      if (PyTuple_CheckExact(object) && !step.name)
        found = step.path->index < PyTuple_GET_SIZE(object) ? Py_NewRef(PyTuple_GET_ITEM(object, step.path->index)) : nullptr;
      else if (PyList_CheckExact(object) && !step.name)
        found = step.path->index < PyList_GET_SIZE(object) ? Py_NewRef(PyList_GET_ITEM(object, step.path->index)) : nullptr;
      else if (PyDict_CheckExact(object) && step.name)
        found = Py_XNewRef(PyDict_GetItemWithError(object, step.name));
      else
        found = takeStep(object, *step.path).release();
      break;
    }
    case StepKind::Global: {
      PyObject *from = getFunction(slots[step.source]);
      if (!from) return false;
      found = PyDict_GetItemWithError(PyFunction_GetGlobals(from), step.name);
      if (!found) found = PyDict_GetItemWithError(reinterpret_cast<PyFunctionObject *>(from)->func_builtins, step.name);
      Py_XINCREF(found);
      break;
    }
    case StepKind::Cell: {
      PyObject *from = getFunction(slots[step.source]);
      PyObject *closure = from ? PyFunction_GetClosure(from) : nullptr;
      if (closure && step.index < size_t(PyTuple_GET_SIZE(closure))) found = Py_XNewRef(PyCell_GET(PyTuple_GET_ITEM(closure, step.index)));
      break;
    }
    }
    // Held until the launch is over: a later step may run Python code that drops it.
    if (found)
      frame.owned[frame.ownedCount++] = found;
    else if (!step.mayBeMissing) {
      misfit = step.path->name;
      return false;
    }
    slots[step.slot] = found;
  }
  return true;
}

/// Looks up the names of modules again and notes which dictionaries were looked at.
bool Plan::refreshCaptures() {
  for (Watch &watch : watches) Py_DECREF(watch.dict);
  watches.clear();
  std::vector<Watch> seen;
  auto watch = [&](PyObject *dict) {
    if (std::none_of(seen.begin(), seen.end(), [&](const Watch &other) { return other.dict == dict; }))
      seen.push_back({Py_NewRef(dict), getVersion(dict)});
  };
  bool fits = true;
  for (const Step &step : captureSteps) {
    if (step.kind == StepKind::Check) {
      if (!(fits = holds(checks[step.index], captured[step.slot]))) {
        misfit = describe(checks[step.index].dependency->path);
        break;
      }
      continue;
    }
    PyObject *source = captured[step.source], *found = nullptr;
    if (step.kind == StepKind::Global) {
      PyObject *from = source ? getFunction(source) : nullptr;
      if (!from) {
        fits = false;
        break;
      }
      watch(PyFunction_GetGlobals(from));
      found = PyDict_GetItemWithError(PyFunction_GetGlobals(from), step.name);
      if (!found) {
        PyObject *builtins = reinterpret_cast<PyFunctionObject *>(from)->func_builtins;
        watch(builtins);
        found = PyDict_GetItemWithError(builtins, step.name);
      }
    } else if (source && PyModule_CheckExact(source)) {
      watch(PyModule_GetDict(source));
      found = PyDict_GetItemWithError(PyModule_GetDict(source), step.name);
    }
    if (!found && !step.mayBeMissing) {
      misfit = step.path->name;
      fits = false;
      break;
    }
    captured[step.slot] = found;
  }
  if (fits && kHasVersions) {
    watches = std::move(seen);
  } else {
    for (Watch &item : seen) Py_DECREF(item.dict);
  }
  return fits;
}

Fit Plan::read(PyObject *const *arguments, PlanFrame &frame) {
  if (!captureSteps.empty()) {
    bool isCurrent = !watches.empty();
    for (const Watch &watch : watches) isCurrent &= getVersion(watch.dict) == watch.version;
    if (!isCurrent && !refreshCaptures()) return Fit::No;
  }
  if (usesDicts) memset(frame.dicts, 0, slotCount * sizeof(PyObject *));
  Fit fit = Fit::No;
  if (!walk(steps, arguments, frame, fit)) return fit;
  if (hasMoved && hasExclusiveFields && findOverlap(frame.slots)) return Fit::No;
  hasMoved = false;
  return Fit::Yes;
}

/// Whether a field that the code takes to be alone in its memory shares some with another input of this launch.
bool Plan::findOverlap(PyObject *const *slots) {
  auto getRange = [](PyObject *object) {
    if (PyArray_Check(object)) {
      auto *array = reinterpret_cast<PyArrayObject *>(object);
      const char *begin = PyArray_BYTES(array), *end = begin + PyArray_ITEMSIZE(array);
      for (int axis = 0; axis < PyArray_NDIM(array); ++axis) {
        int64_t reach = PyArray_STRIDE(array, axis) * (PyArray_DIM(array, axis) - 1);
        (reach < 0 ? begin : end) += reach;
      }
      return std::make_pair(begin, PyArray_SIZE(array) ? end : begin);
    }
    const runtime::Tensor &tensor = getTensor(object);
    const char *data = reinterpret_cast<const char *>(tensor.data);
    return std::make_pair(data + tensor.range.begin, data + tensor.range.end);
  };
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].isExclusive) continue;
    PyObject *field = slots[tensorSlots[i]];
    auto range = getRange(field);
    for (size_t k = 0; k < tensors.size(); ++k) {
      if (k == i || (tensors[k].isExclusive && k < i)) continue;
      PyObject *other = slots[tensorSlots[k]];
      auto otherRange = getRange(other);
      if (range.first >= otherRange.second || otherRange.first >= range.second) continue;
      if (PyArray_Check(other) || mayOverlap(getTensor(field), getTensor(other))) {
        misfit = tensors[i].input->name;
        return true;
      }
    }
  }
  return false;
}

static bool matchesDescr(PyArray_Descr *have, PyArray_Descr *want) {
  return have == want || (PyArray_EquivTypenums(have->type_num, want->type_num) && PyArray_ISNBO(have->byteorder));
}

bool Plan::readTensor(TensorInput &input, PyObject *object, unsigned char *block, Fit &fit) {
  auto *argument = reinterpret_cast<QdTensorArgument *>(block + input.offset);
  int64_t *out = argument->extents_and_strides;
  const layout::TensorLayout &layout = input.input->layout;
  if (Py_TYPE(object) != input.type && isTensor(object)) {
    Py_XSETREF(input.type, reinterpret_cast<PyTypeObject *>(Py_NewRef(Py_TYPE(object))));
  }
  if (Py_TYPE(object) == input.type) {
    const runtime::Tensor &tensor = getTensor(object);
    if (tensor.typeKey != input.key && tensor.typeKey != input.stridedKey) {
      misfit = input.input->name;
      return false;
    }
    argument->data = tensor.data;
    hasMoved |= input.address != tensor.data;
    input.address = tensor.data;
    if (input.isStatic && !input.hasStrides) return true;
    for (int axis = 0; axis < input.rank; ++axis)
      if (layout.extents[size_t(axis)] == kDynamic) *out++ = tensor.layout.extents[size_t(axis)];
    if (input.hasStrides) memcpy(out, tensor.layout.strides.data(), size_t(input.rank) * sizeof(int64_t));
    return true;
  }
  if (!PyArray_Check(object) || input.input->isField) {
    misfit = input.input->name;
    return false;
  }
  auto *array = reinterpret_cast<PyArrayObject *>(object);
  const layout::ValueType &element = layout.element;
  int flags = PyArray_FLAGS(array);
  bool fits = PyArray_NDIM(array) == input.rank + element.rank && matchesDescr(PyArray_DESCR(array), input.descr) &&
              (flags & NPY_ARRAY_ALIGNED) && input.hasStrides != bool(flags & NPY_ARRAY_C_CONTIGUOUS);
  const npy_intp *extents = PyArray_DIMS(array);
  if (fits && element.rank)
    fits = extents[input.rank] == element.rows && (element.rank == 1 || extents[input.rank + 1] == element.columns) &&
           (!input.hasStrides || PyArray_STRIDE(array, PyArray_NDIM(array) - 1) == layout.componentStride);
  for (int axis = 0; fits && axis < input.rank; ++axis) {
    if (layout.extents[size_t(axis)] == kDynamic)
      *out++ = extents[axis];
    else
      fits = layout.extents[size_t(axis)] == extents[axis];
  }
  if (!fits) {
    misfit = input.input->name;
    return false;
  }
  if (input.input->isWritten && !(flags & NPY_ARRAY_WRITEABLE)) {
    misfit = input.input->name;
    fit = Fit::ReadOnly;
    return false;
  }
  argument->data = PyArray_DATA(array);
  hasMoved |= input.address != argument->data;
  input.address = argument->data;
  if (input.hasStrides) memcpy(out, PyArray_STRIDES(array), size_t(input.rank) * sizeof(int64_t));
  return true;
}

/// A vector or matrix from a host vector, an array or nested sequences.
static bool readComponents(const layout::ValueType &type, PyObject *object, unsigned char *address) {
  static PyObject *arrayName = PyUnicode_InternFromString("_array");
  Ref inner(Ref::borrow(nullptr));
  if (!PyArray_Check(object)) {
    if (PyObject *found = PyObject_GetAttr(object, arrayName)) inner = Ref::adopt(found);
    PyErr_Clear();
  }
  PyObject *from = PyArray_FROM_O(inner ? inner.get() : object);
  if (!from) {
    PyErr_Clear();
    return false;
  }
  Ref source = Ref::adopt(from);
  auto *array = reinterpret_cast<PyArrayObject *>(source.get());
  PyArray_Descr *wanted = PyArray_DescrFromType(getNumpyType(type.scalar));
  Ref wantedRef = Ref::adopt(reinterpret_cast<PyObject *>(wanted));
  bool fits =
      PyArray_NDIM(array) == type.rank && PyArray_DIM(array, 0) == type.rows && (type.rank == 1 || PyArray_DIM(array, 1) == type.columns);
  // Floats do not become integers without being asked; everything else converts as an assignment does.
  if (!fits || PyArray_DESCR(array)->type_num == NPY_OBJECT ||
      (support::isInteger(type.scalar) && !PyArray_ISINTEGER(array) && !PyArray_ISBOOL(array)))
    return false;
  Py_INCREF(wanted);
  Ref packed = Ref::adopt(PyArray_FromArray(array, wanted, NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED | NPY_ARRAY_FORCECAST));
  memcpy(address, PyArray_DATA(reinterpret_cast<PyArrayObject *>(packed.get())), size_t(type.componentCount()) * getByteSize(type.scalar));
  return true;
}

bool Plan::readValue(ValueInput &input, PyObject *object, unsigned char *block) {
  const layout::ValueType &type = input.input->type;
  if (type.rank == 0) return tryWriteExact(type.scalar, block + input.offset, object);
  return readComponents(type, object, block + input.offset);
}

bool Plan::holds(Check &check, PyObject *object) {
  if (!object) return check.kind == Dependency::Kind::Absent;
  if (check.kind == Dependency::Kind::Absent) return false;
  if (check.weak) return PyWeakref_GetObject(check.weak) == object;
  if (PyObject *held = check.held) {
    if (object == held) return true;
    if (check.kind == Dependency::Kind::Type && !PyType_Check(object) && reinterpret_cast<PyObject *>(Py_TYPE(object)) == held) return true;
    // Equal small values, without the way over a description.
    if (Py_TYPE(object) == Py_TYPE(held) && check.kind == Dependency::Kind::Value) {
      if (PyLong_CheckExact(object) || PyUnicode_CheckExact(object)) return PyObject_RichCompareBool(object, held, Py_EQ) == 1;
      if (PyFloat_CheckExact(object)) {
        double a = PyFloat_AS_DOUBLE(object), b = PyFloat_AS_DOUBLE(held);
        return memcmp(&a, &b, sizeof a) == 0;
      }
    }
  }
  if (!check.hasDigest) return false;
  std::optional<Digest> digest = describeDependency(check.kind, object, getPlacement(*check.artifact));
  if (!digest || *digest != check.digest) return false;
  if (check.held && check.kind != Dependency::Kind::Type && isImmutable(object))
    Py_SETREF(check.held, Py_NewRef(object)); // found faster next time
  return true;
}

} // namespace qd::launch
