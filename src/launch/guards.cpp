// guards.cpp: evaluates the guards of a version at a launch
//
// In:   the arguments of a call, or the objects and numbers of a recorded one (guards_bound.cpp).
// Out:  a filled argument block, or the first guard that failed.
// Here: every launch runs this code, so the common cases (the same dictionary version, the same type, the same object) come first and cost
//       one compare.
#include "launch/guards.h"

#include "launch/data_type.h"
#include "launch/external_array.h"
#include "launch/fused_launch.h"
#include "launch/guards_parts.h"
#include "launch/state.h"
#include "launch/tensor_object.h"
#include "runtime/kernel_abi.h"
#include "support/half.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

namespace qd::launch {

using artifact::Dependency;
using layout::kDynamic;
using support::Digest;

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

LaunchGuards::~LaunchGuards() = default;

int LaunchGuards::traverse(visitproc visit, void *arg) const {
  for (const TensorInput &tensor : tensors) Py_VISIT(tensor.type.get());
  for (const Guard &guard : guards) {
    Py_VISIT(guard.held.get());
    Py_VISIT(guard.weak.get());
  }
  for (const DictVersion &entry : dictVersions) Py_VISIT(entry.dict.get());
  return 0;
}

/// Encloses code of a walk that may run user code, which may rebind captured names and replace dictionaries that the walk has borrowed.
class LaunchGuards::PythonCode {
public:
  PythonCode(LaunchGuards &owner, GuardFrame &frame) : owner(owner), frame(frame) {
    if (std::exchange(frame.ranPython, true)) return;
    const State &state = getState();
    frame.state = &state, frame.epoch = state.epoch, frame.launches = state.launches;
    if (frame.slots == owner.captured.data()) return;
    for (const Step &step : owner.steps)
      if (PyObject *object = step.kind == StepKind::Captured ? owner.captured[step.slot] : nullptr)
        frame.owned[frame.ownedCount++] = Py_NewRef(frame.slots[step.slot] = object);
  }
  ~PythonCode() {
    if (owner.usesDicts) memset(frame.dicts, 0, owner.slotCount * sizeof(PyObject *));
  }

private:
  LaunchGuards &owner;
  GuardFrame &frame;
};

/// Empty when the member is missing.
Ref LaunchGuards::fetchAttribute(Step &step, PyObject *object) {
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

Ref LaunchGuards::fetch(Step &step, GuardFrame &frame) {
  PyObject *object = frame.slots[step.source];
  bool isCapture = frame.slots == captured.data();
  switch (step.kind) {
  case StepKind::Attribute: {
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
  case StepKind::Item: {
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
  case StepKind::Global:
    if (PyObject *function = isCapture ? getFunction(object) : nullptr) {
      trackDict(PyFunction_GetGlobals(function));
      trackDict(reinterpret_cast<PyFunctionObject *>(function)->func_builtins);
    }
    break;
  case StepKind::Cell: return Ref::borrow(readCell(getFunction(object), step.index));
  default: break;
  }
  return takeStep(object, *step.path, step.name.get());
}

GuardResult LaunchGuards::walk(std::vector<Step> &list, PyObject *const *arguments, GuardFrame &frame) {
  PyObject **slots = frame.slots;
  for (Step &step : list) {
    switch (step.kind) {
    case StepKind::Argument: slots[step.slot] = arguments[step.index]; break;
    case StepKind::Captured:
      if (!frame.ranPython) slots[step.slot] = captured[step.slot];
      break;
    case StepKind::Tensor: {
      TensorInput &input = tensors[size_t(step.index)];
      if (GuardResult fit = readTensor(input, slots[step.slot], frame); fit != GuardResult::Passed) {
        guardFailure = {input.input->name, nullptr};
        return fit;
      }
      break;
    }
    case StepKind::Value: {
      ValueInput &input = values[size_t(step.index)];
      bool isRead = input.isMember ? readMember(input, slots[step.slot], frame) : readValue(input, slots[step.slot], frame);
      if (!isRead) {
        refuseNumber(input, slots[step.slot]);
        guardFailure = {input.input->name, nullptr};
        return GuardResult::Failed;
      }
      break;
    }
    case StepKind::Guard: {
      Guard &guard = guards[size_t(step.index)];
      if (!holds(guard, slots[step.slot], frame)) {
        guardFailure = {{}, &guard.dependency->path};
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
        guardFailure = {step.path->name, nullptr};
        return GuardResult::Failed;
      }
      slots[step.slot] = found;
    }
    }
  }
  return GuardResult::Passed;
}

void LaunchGuards::trackDict(PyObject *dict) {
  if (std::none_of(dictVersions.begin(), dictVersions.end(), [&](const DictVersion &other) { return other.dict.get() == dict; }))
    dictVersions.push_back({Ref::borrow(dict), getVersion(dict)});
}

/// Looks up the names of modules again and records the dictionaries that were read.
bool LaunchGuards::refreshCaptures() {
  dictVersions.clear();
  std::vector<PyObject *> memory(3 * slotCount);
  GuardFrame frame;
  frame.place(memory.data(), slotCount);
  frame.slots = captured.data(); // borrowed: the dictionaries hold the objects
  bool fits = walk(captureSteps, nullptr, frame) == GuardResult::Passed;
  // The objects are borrowed from dictionaries that user code may have changed since.
  if (frame.ranPython) fits = fits && areDictsUnchanged();
  if (!fits || !kCountsChanges) dictVersions.clear();
  return fits;
}

bool LaunchGuards::areDictsUnchanged() const {
  bool areCurrent = true;
  for (const DictVersion &entry : dictVersions) areCurrent &= getVersion(entry.dict.get()) == entry.version;
  return areCurrent;
}

/// Whether all memory is still where the walk found it.
bool LaunchGuards::isMemoryUnchanged(const GuardFrame &frame) const {
  for (size_t i = 0; i < tensors.size(); ++i) {
    PyObject *object = frame.slots[tensorSlots[i]];
    ExternalArray array;
    if (!isTensor(object) && !readExternal(object, array)) continue; // a wrapper, whose container is held
    const void *data = isTensor(object) ? getTensor(object).data : array.data;
    if (data != tensors[i].address) return false;
  }
  return true;
}

GuardResult LaunchGuards::read(PyObject *const *arguments, GuardFrame &frame) {
  if (!captureSteps.empty()) {
    bool isCurrent = !dictVersions.empty() && areDictsUnchanged();
    if (!isCurrent && !refreshCaptures()) return GuardResult::Failed;
  }
  refusal.reset();
  if (usesDicts) memset(frame.dicts, 0, slotCount * sizeof(PyObject *));
  if (GuardResult fit = walk(steps, arguments, frame); fit != GuardResult::Passed) return fit;
  if (frame.ranPython) [[unlikely]] {
    const State &state = getState();
    if (&state != frame.state || state.epoch != frame.epoch || !isMemoryUnchanged(frame)) return GuardResult::Failed;
    hasMoved |= state.launches != frame.launches; // it may have launched this kernel
  }
  if (hasMoved && hasExclusive && findOverlap(frame.slots)) return GuardResult::Failed;
  hasMoved = false;
  return GuardResult::Passed;
}

/// Whether an input that the code assumes to be unaliased shares memory with another input of this launch: a field with any input, an
/// updated array with another updated one.
bool LaunchGuards::findOverlap(PyObject *const *slots) {
  // Nearly always each input has memory of its own. Sorted ranges show that without comparing pairs (30 arrays: saves 6 µs per launch).
  std::vector<MemoryRange> ranges;
  ranges.reserve(tensors.size());
  for (uint16_t slot : tensorSlots) ranges.push_back(getMemoryRange(slots[slot]));
  std::sort(ranges.begin(), ranges.end());
  const unsigned char *end = nullptr;
  bool areApart = true;
  for (auto [first, last] : ranges) {
    areApart &= first >= end;
    end = std::max(end, last);
  }
  if (areApart) return false;
  auto excludes = [](const TensorInput &one, const TensorInput &other) {
    return one.isExclusive && (one.input->isField || one.input->isUnaliased || other.input->isUpdated);
  };
  for (size_t i = 0; i < tensors.size(); ++i)
    for (size_t k = i + 1; k < tensors.size(); ++k) {
      bool matters = excludes(tensors[i], tensors[k]) || excludes(tensors[k], tensors[i]);
      if (!matters || !mayOverlap(slots[tensorSlots[i]], slots[tensorSlots[k]])) continue;
      guardFailure = {tensors[i].input->name, nullptr};
      return true;
    }
  return false;
}

std::vector<LaunchGuards::Access> LaunchGuards::listAccesses(const GuardFrame &frame) const {
  std::vector<Access> accesses;
  for (size_t i = 0; i < tensors.size(); ++i) accesses.push_back({frame.slots[tensorSlots[i]], tensors[i].input});
  return accesses;
}

QdTensorArgument &LaunchGuards::getArgument(const TensorInput &input, GuardFrame &frame) {
  return *reinterpret_cast<QdTensorArgument *>(frame.block + input.offset);
}

static bool fitsExtents(const layout::TensorLayout &layout, const int64_t *extents) {
  return std::equal(layout.extents.begin(), layout.extents.end(), extents,
                    [](int64_t known, int64_t extent) { return known == kDynamic || known == extent; });
}

void LaunchGuards::store(TensorInput &input, QdTensorArgument &argument, void *data, const int64_t *extents, const int64_t *strides) {
  hasMoved |= input.address != data;
  input.address = argument.data = data;
  int64_t *out = argument.extents_and_strides;
  if (!input.isStatic) {
    const int64_t *known = input.input->layout.extents.data();
    for (int axis = 0; axis < input.rank; ++axis)
      if (known[axis] == kDynamic) *out++ = extents[axis];
  }
  if (input.hasStrides) memcpy(out, strides, size_t(input.rank) * sizeof(int64_t));
}

/// Whether the extents along the axes match the many or few elements that the code is specialized for.
static bool fitsLimits(const artifact::Input &input, const int64_t *extents) {
  for (uint32_t axis = 0, axes = input.manyAxes | input.fewAxes; axes >> axis; ++axis)
    if (axes >> axis & 1 && (input.manyAxes >> axis & 1) != (extents[axis] >= artifact::kManyElements)) return false;
  return true;
}

GuardResult LaunchGuards::readTensor(TensorInput &input, PyObject *&object, GuardFrame &frame) {
  if (reinterpret_cast<PyObject *>(Py_TYPE(object)) != input.type.get()) {
    object = unwrap(object);
    if (!isTensor(object)) return readArray(input, object, frame);
    input.type = Ref::borrow(reinterpret_cast<PyObject *>(Py_TYPE(object)));
  }
  const runtime::Tensor &tensor = getTensor(object);
  if (frame.fused && input.isWritten) frame.fused->note(*reinterpret_cast<TensorObject *>(object), *input.input);
  if (tensor.typeKey != input.key) {
    if (tensor.state != runtime::Tensor::State::LazilyZeroed) return GuardResult::Failed;
    if (frame.isTrial) return GuardResult::Passed;
    materializeZeros(*reinterpret_cast<TensorObject *>(object));
    if (tensor.typeKey != input.key) return GuardResult::Failed;
  }
  if (input.isWritten) {
    if (!tensor.buffer->isWritable()) return GuardResult::ReadOnly;
    if (!frame.isTrial) tensor.buffer->noteLaunch(getState().launches + 1);
  }
  if (input.hasKnownExtents && !fitsExtents(input.input->layout, tensor.layout.extents.data())) return GuardResult::Failed;
  if (input.hasExtentLimits && !fitsLimits(*input.input, tensor.layout.extents.data())) return GuardResult::Failed;
  QdTensorArgument &argument = getArgument(input, frame);
  runtime::DeviceMemory *memory = getState().memory.get();
  if (tensor.buffer->getMemory() != memory) [[unlikely]] {
    if (runtime::DeviceMemory *own = tensor.buffer->getMemory())
      throw support::Error(support::ErrorKind::Value, "a container that the kernel reads is on cuda:" + std::to_string(own->getOrdinal()) +
                                                          ", and the current program runs on " +
                                                          (memory ? "cuda:" + std::to_string(memory->getOrdinal()) : "the CPU") +
                                                          ": copy it with copy_from() into one that was made in this program");
    // Memory of the processor, from another program or an array of another library: passed like an array of the host.
    frame.hostArrays.push_back({reinterpret_cast<unsigned char **>(&argument.data), tensor.data + tensor.range.begin,
                                tensor.data + tensor.range.end, input.isWritten});
  }
  store(input, argument, tensor.data, tensor.layout.extents.data(), tensor.layout.strides.data());
  return GuardResult::Passed;
}

/// Reads an array of another library. A separate function, because containers need none of its stack.
[[gnu::noinline]] GuardResult LaunchGuards::readArray(TensorInput &input, PyObject *object, GuardFrame &frame) {
  const layout::TensorLayout &layout = input.input->layout;
  ExternalArray array;
  if (input.input->isField || !layout.origin.empty() || !readExternal(object, array)) return GuardResult::Failed;
  const layout::ValueType &element = layout.element;
  const int64_t *extents = array.extents, *strides = array.strides;
  if (array.rank != input.rank + element.rank || array.scalar != element.scalar || !array.isAligned || input.hasStrides == array.isPacked)
    return GuardResult::Failed;
  // The components of an element must be packed.
  if (element.rank && (extents[array.rank - 1] != (element.rank == 1 ? element.rows : element.columns) ||
                       (input.hasStrides && strides[array.rank - 1] != layout.componentStride)))
    return GuardResult::Failed;
  if (element.rank == 2 &&
      (extents[input.rank] != element.rows || (input.hasStrides && strides[input.rank] != layout.componentStride * element.columns)))
    return GuardResult::Failed;
  if (!fitsExtents(layout, extents) || (input.hasExtentLimits && !fitsLimits(*input.input, extents))) return GuardResult::Failed;
  // With strides of another library, several indices may mean the same element.
  if (input.input->isUnaliased && input.hasStrides) return GuardResult::Failed;
  if (input.isWritten && !array.isWritable) return GuardResult::ReadOnly;
  if (input.input->isSpread && input.hasStrides && array.hasSharedElements()) return GuardResult::Shared;
  if (input.seesGradients && lacksGradient(object)) return GuardResult::Failed; // the gradient is made when arguments are prepared
  QdTensorArgument &argument = getArgument(input, frame);
  if (array.stream) frame.stream = array.stream;
  runtime::DeviceMemory *memory = getState().memory.get();
  if (array.device != (memory ? memory->getOrdinal() : -1)) {
    if (!memory || array.device >= 0) return GuardResult::Failed;
    auto [begin, end] = array.getRange();
    frame.hostArrays.push_back({reinterpret_cast<unsigned char **>(&argument.data), begin, end, input.isWritten});
  }
  store(input, argument, array.data, extents, strides);
  // A view may begin at the same address as the last one and be longer.
  if (hasExclusive) {
    const void *end = array.getRange().second;
    hasMoved |= input.end != end;
    input.end = end;
  }
  return GuardResult::Passed;
}

/// Whether integers are unchanged by the conversion.
static bool holdsSame(PyArrayObject *given, PyArrayObject *converted) {
  if (PyArray_DESCR(given)->type_num == PyArray_DESCR(converted)->type_num || PyArray_ISBOOL(converted)) return true;
  Ref same = Ref::adopt(PyObject_RichCompare(reinterpret_cast<PyObject *>(given), reinterpret_cast<PyObject *>(converted), Py_EQ));
  Ref all = Ref::adopt(PyObject_CallMethod(same.get(), "all", nullptr));
  return PyObject_IsTrue(all.get()) == 1;
}

template <typename To, typename From> static bool narrow(unsigned char *address, PyArrayObject *array) {
  auto *from = static_cast<const From *>(PyArray_DATA(array));
  for (npy_intp i = 0; i < PyArray_SIZE(array); ++i) {
    To value = To(from[i]);
    bool isInexact = std::is_integral_v<To> ? From(value) != from[i] : std::isinf(double(value)) && !std::isinf(double(from[i]));
    if (isInexact) return false;
    memcpy(address + size_t(i) * sizeof value, &value, sizeof value);
  }
  return true;
}

/// Copies components of the same type, and the 64-bit components of host vectors, without NumPy; false when NumPy must convert them or
/// report an error.
static bool copyComponents(support::ScalarType type, PyArrayObject *array, unsigned char *address) {
  if (type == support::ScalarType::BF16 || !PyArray_ISCARRAY_RO(array)) return false;
  if (PyArray_TYPE(array) == getNumpyNumber(type)) {
    memcpy(address, PyArray_DATA(array), size_t(PyArray_NBYTES(array)));
    return true;
  }
  if (type == support::ScalarType::F32 && PyArray_TYPE(array) == NPY_FLOAT64) return narrow<float, double>(address, array);
  return type == support::ScalarType::I32 && PyArray_TYPE(array) == NPY_INT64 && narrow<int32_t, int64_t>(address, array);
}

/// Reads a vector or matrix from a host vector, an array or nested sequences.
static bool readComponents(const layout::ValueType &type, PyObject *object, unsigned char *address, bool *isOutOfRange = nullptr) {
  Ref inner = PyArray_Check(object) ? Ref() : findAttribute(object, "_array");
  PyObject *from = PyArray_FROM_O(inner ? inner.get() : object);
  if (!from) {
    PyErr_Clear();
    return false;
  }
  Ref source = Ref::adopt(from);
  auto *array = reinterpret_cast<PyArrayObject *>(from);
  bool fits =
      PyArray_NDIM(array) == type.rank && PyArray_DIM(array, 0) == type.rows && (type.rank == 1 || PyArray_DIM(array, 1) == type.columns);
  // Floats are not converted to integers implicitly; everything else converts as in an assignment.
  if (!fits || PyArray_DESCR(array)->type_num == NPY_OBJECT ||
      (support::isInteger(type.scalar) && !PyArray_ISINTEGER(array) && !PyArray_ISBOOL(array)))
    return false;
  if (copyComponents(type.scalar, array, address)) return true;
  bool isNarrow = type.scalar == support::ScalarType::BF16;
  npy_intp shape[2] = {type.rows, type.columns};
  std::vector<float> wide(isNarrow ? size_t(type.componentCount()) : 0);
  Ref target =
      Ref::adopt(PyArray_NewFromDescr(&PyArray_Type, makeNumpyType(isNarrow ? support::ScalarType::F32 : type.scalar), type.rank, shape,
                                      nullptr, isNarrow ? static_cast<void *>(wide.data()) : address, NPY_ARRAY_CARRAY, nullptr));
  if (PyArray_CopyInto(reinterpret_cast<PyArrayObject *>(target.get()), array) < 0) throw PythonError{};
  if (support::isInteger(type.scalar) && !holdsSame(array, reinterpret_cast<PyArrayObject *>(target.get()))) {
    if (isOutOfRange) *isOutOfRange = true;
    return false;
  }
  for (size_t i = 0; i < wide.size(); ++i) {
    uint16_t bits = support::floatToBfloat(wide[i]);
    memcpy(address + 2 * i, &bits, sizeof bits);
  }
  return true;
}

bool LaunchGuards::readValue(ValueInput &input, PyObject *object, GuardFrame &frame) {
  const layout::ValueType &type = input.input->type;
  unsigned char *address = frame.block + input.offset;
  if (type.rank == 0 && (PyLong_CheckExact(object) || PyFloat_CheckExact(object) || PyBool_Check(object)))
    return tryWriteExact(type.scalar, address, object);
  PythonCode code(*this, frame);
  return type.rank == 0 ? tryWriteExact(type.scalar, address, object) : readComponents(type, object, address);
}

/// Borrowed, for comparisons only. Null when the object no longer exists.
static PyObject *getReferent(PyObject *weak) {
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

/// Records the object whose member was read. Costs a compare while it is the same object.
bool LaunchGuards::readMember(ValueInput &input, PyObject *object, GuardFrame &frame) {
  PyObject *owner = frame.slots[input.ownerSlot];
  bool fits = readValue(input, object, frame);
  if (fits && owner == input.lastOwner) return true;
  auto known = input.owners.find(owner);
  input.wasReadBefore = known != input.owners.end() && getReferent(known->second.get()) == owner;
  if (!fits) return false;
  input.lastOwner = owner;
  if (input.wasReadBefore) return true;
  if (size_t count = input.owners.size(); count >= 64 && (count & (count - 1)) == 0) // removes objects that no longer exist
    std::erase_if(input.owners, [](const auto &item) { return !getReferent(item.second.get()); });
  if (PyObject *weak = PyWeakref_NewRef(owner, nullptr)) input.owners[owner] = Ref::adopt(weak);
  PyErr_Clear(); // objects without weak references are not recorded
  return true;
}

void LaunchGuards::refuseNumber(const ValueInput &input, PyObject *object) {
  const layout::ValueType &type = input.input->type;
  if (!support::isInteger(type.scalar)) return;
  const std::string &name = input.input->name;
  if (type.rank != 0) {
    bool isOutOfRange = false;
    std::vector<unsigned char> spare(size_t(type.componentCount()) * getByteSize(type.scalar));
    readComponents(type, object, spare.data(), &isOutOfRange);
    if (isOutOfRange)
      refusal.emplace(support::ErrorKind::RuntimeType,
                      "Argument '" + name + "': a component is out of the range of " + std::string(support::getName(type.scalar)));
    return;
  }
  if (isIntegerNumber(object)) {
    const char *text = PyUnicode_AsUTF8(Ref::adopt(PyObject_Str(object)).get());
    refusal.emplace(support::ErrorKind::RuntimeType, "Argument '" + name + "' = " + (text ? text : "") + " is out of the range of " +
                                                         std::string(support::getName(type.scalar)));
    return;
  }
  if (!PyFloat_Check(object)) return;
  if (!input.isMember)
    refusal.emplace(support::ErrorKind::RuntimeType, "Argument " + name +
                                                         " (type=<class 'float'>) cannot be converted into required type " +
                                                         std::string(support::getName(type.scalar)));
  else if (input.wasReadBefore)
    refusal.emplace(support::ErrorKind::Type,
                    "'" + name +
                        "' of a data_oriented(template_primitives=False) object was an integer when it was launched first and is a "
                        "float now: to coerce it would truncate. Keep the type of the member, or use the default "
                        "template_primitives=True");
}

bool LaunchGuards::holds(Guard &guard, PyObject *object, GuardFrame &frame) {
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
  std::optional<Digest> digest = fingerprintDependency(guard.kind, object, getPlacement(*guard.artifact));
  if (!digest || *digest != guard.digest) return false;
  if (guard.held && guard.kind != Dependency::Kind::Type && isImmutable(object))
    guard.held = Ref::borrow(object); // the next check is a compare
  return true;
}

} // namespace qd::launch
