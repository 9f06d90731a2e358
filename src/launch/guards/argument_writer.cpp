// argument_writer.cpp: fills the argument block of a launch
//
// In:   the objects that the steps of the guards found.
// Out:  addresses, extents, strides and numbers in the block; or which object does not fit the code.
// Here: every launch runs this code, so containers and exact numbers come first. Whatever may run user code is separate (`isPlain`).
#include "launch/guards/argument_writer.h"

#include "launch/containers/data_type.h"
#include "launch/containers/external_array.h"
#include "launch/containers/tensor_object.h"
#include "launch/guards/referent.h"
#include "launch/numpy.h"
#include "launch/state.h"
#include "launch/tape/fused_launch.h"
#include "support/half.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

namespace qd::launch {

using layout::kDynamic;

size_t ArgumentWriter::addTensor(const artifact::Input &input, uint16_t slot) {
  const layout::TensorLayout &layout = input.layout;
  TensorInput tensor{.input = &input, .offset = input.offset, .rank = layout.rank(), .isWritten = input.isWritten};
  tensor.hasStrides = std::find(layout.strides.begin(), layout.strides.end(), kDynamic) != layout.strides.end();
  tensor.key = input.isField ? layout::computeFieldKey(layout) : layout::computeArrayKey(layout, !tensor.hasStrides);
  tensor.isStatic = std::find(layout.extents.begin(), layout.extents.end(), kDynamic) == layout.extents.end();
  tensor.hasKnownExtents =
      !input.isField && std::any_of(layout.extents.begin(), layout.extents.end(), [](int64_t extent) { return extent != kDynamic; });
  tensor.hasExtentLimits = (input.manyAxes | input.fewAxes) != 0;
  tensors.push_back(std::move(tensor));
  tensorSlots.push_back(slot);
  return tensors.size() - 1;
}

size_t ArgumentWriter::addValue(const artifact::Input &input) {
  values.push_back({.input = &input, .offset = input.offset});
  return values.size() - 1;
}

void ArgumentWriter::markMember(uint16_t ownerSlot) {
  values.back().isMember = true;
  values.back().ownerSlot = ownerSlot;
}

int ArgumentWriter::traverse(visitproc visit, void *arg) const {
  for (const TensorInput &tensor : tensors) Py_VISIT(tensor.type.get());
  return 0;
}

//--- Containers and arrays ---

static QdTensorArgument &getArgument(const TensorInput &input, GuardFrame &frame) {
  return *reinterpret_cast<QdTensorArgument *>(frame.block + input.offset);
}

static bool fitsExtents(const layout::TensorLayout &layout, const int64_t *extents) {
  return std::equal(layout.extents.begin(), layout.extents.end(), extents,
                    [](int64_t known, int64_t extent) { return known == kDynamic || known == extent; });
}

void ArgumentWriter::store(TensorInput &input, QdTensorArgument &argument, void *data, const int64_t *extents, const int64_t *strides) {
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

/// Passes a container that does not lie in the memory of the program's device. A separate function, because others need none of its stack.
[[gnu::noinline]] static void passAsHostArray(const TensorInput &input, const runtime::Tensor &tensor, QdTensorArgument &argument,
                                              GuardFrame &frame) {
  if (runtime::DeviceMemory *own = tensor.buffer->getMemory()) {
    runtime::DeviceMemory *memory = getState().memory.get();
    throw support::Error(support::ErrorKind::Value, "a container that the kernel reads is on " + own->getName() +
                                                        ", and the current program runs on " + (memory ? memory->getName() : "the CPU") +
                                                        ": copy it with copy_from() into one that was made in this program");
  }
  // Memory of the processor, from another program or an array of another library: passed like an array of the host.
  frame.hostArrays.push_back({reinterpret_cast<unsigned char **>(&argument.data), tensor.data + tensor.range.begin,
                              tensor.data + tensor.range.end, input.isWritten});
}

GuardResult ArgumentWriter::writeTensor(TensorInput &input, PyObject *&object, GuardFrame &frame) {
  if (reinterpret_cast<PyObject *>(Py_TYPE(object)) != input.type.get()) {
    object = unwrap(object);
    if (!isTensor(object)) return writeArray(input, object, frame);
    input.type = Ref::borrow(reinterpret_cast<PyObject *>(Py_TYPE(object)));
  }
  const runtime::Tensor &tensor = getTensor(object);
  if (frame.fused && input.isWritten) frame.fused->note(tensorObject(object), *input.input);
  if (tensor.typeKey != input.key) {
    if (tensor.state != runtime::Tensor::State::LazilyZeroed) return GuardResult::Failed;
    if (frame.isTrial) return GuardResult::Passed;
    materializeZeros(tensorObject(object));
    if (tensor.typeKey != input.key) return GuardResult::Failed;
  }
  if (input.isWritten) {
    if (!tensor.buffer->isWritable()) return GuardResult::ReadOnly;
    if (!frame.isTrial) tensor.buffer->noteLaunch(getState().launches + 1);
  }
  if (input.hasKnownExtents && !fitsExtents(input.input->layout, tensor.layout.extents.data())) return GuardResult::Failed;
  if (input.hasExtentLimits && !fitsLimits(*input.input, tensor.layout.extents.data())) return GuardResult::Failed;
  QdTensorArgument &argument = getArgument(input, frame);
  if (tensor.buffer->getMemory() != getState().memory.get()) [[unlikely]]
    passAsHostArray(input, tensor, argument, frame);
  store(input, argument, tensor.data, tensor.layout.extents.data(), tensor.layout.strides.data());
  return GuardResult::Passed;
}

/// Whether a torch tensor requires a gradient and has none. Asking the tensor takes a tenth of a launch, so while none required a gradient,
/// only another object or another address is asked.
static bool findsNoGradient(TensorInput &input, PyObject *object, const ExternalArray &array) {
  bool isSame = std::exchange(input.object, object) == object && input.address == array.data;
  if ((isSame && !input.seesGradients) || !array.mayHaveGradient() || !requiresGradient(object)) return false;
  input.seesGradients = true;
  return lacksGradient(object);
}

/// Reads an array of another library. A separate function, because containers need none of its stack.
[[gnu::noinline]] GuardResult ArgumentWriter::writeArray(TensorInput &input, PyObject *object, GuardFrame &frame) {
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
  if (findsNoGradient(input, object, array)) return GuardResult::Failed; // the gradient is made when arguments are prepared
  QdTensorArgument &argument = getArgument(input, frame);
  if (array.stream) frame.stream = array.stream;
  runtime::DeviceMemory *memory = getState().memory.get();
  if (memory && !layout.hasWideStrides && array.hasWideStrides()) return GuardResult::Failed;
  if (array.device != (memory ? memory->getOrdinal() : -1)) {
    if (!memory || array.device >= 0) return GuardResult::Failed;
    auto [begin, end] = array.getRange();
    frame.hostArrays.push_back({reinterpret_cast<unsigned char **>(&argument.data), begin, end, input.isWritten});
  }
  store(input, argument, array.data, extents, strides);
  // A view may begin at the same address as the last one and be longer.
  if (tracksEnds) {
    const void *end = array.getRange().second;
    hasMoved |= input.end != end;
    input.end = end;
  }
  return GuardResult::Passed;
}

GuardResult ArgumentWriter::rewriteTensors(GuardFrame &frame) {
  frame.hostArrays.clear();
  FusedLaunch *fused = std::exchange(frame.fused, nullptr); // it has noted the gradients
  GuardResult fit = GuardResult::Passed;
  for (size_t i = 0; i < tensors.size() && fit == GuardResult::Passed; ++i)
    fit = writeTensor(tensors[i], frame.slots[tensorSlots[i]], frame);
  frame.fused = fused;
  return fit;
}

//--- Numbers ---

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
  if (isTensor(object)) return false;
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
  // Real numbers convert as in an assignment, but floats not to integers.
  bool areIntegers = PyArray_ISINTEGER(array) || PyArray_ISBOOL(array);
  if (!fits || !(areIntegers || (PyArray_ISFLOAT(array) && !support::isInteger(type.scalar)))) return false;
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

bool ArgumentWriter::isPlain(const ValueInput &input, PyObject *object) {
  return input.input->type.rank == 0 && (PyLong_CheckExact(object) || PyFloat_CheckExact(object) || PyBool_Check(object));
}

bool ArgumentWriter::writeValue(const ValueInput &input, PyObject *object, GuardFrame &frame) {
  const layout::ValueType &type = input.input->type;
  unsigned char *address = frame.block + input.offset;
  return type.rank == 0 ? tryWriteExact(type.scalar, address, object) : readComponents(type, object, address);
}

void ArgumentWriter::noteMember(ValueInput &input, PyObject *owner, bool fits) {
  if (fits && owner == input.lastOwner) return;
  auto known = input.owners.find(owner);
  input.wasReadBefore = known != input.owners.end() && getReferent(known->second.get()) == owner;
  if (!fits) return;
  input.lastOwner = owner;
  if (input.wasReadBefore) return;
  if (size_t count = input.owners.size(); count >= 64 && (count & (count - 1)) == 0) // removes objects that no longer exist
    std::erase_if(input.owners, [](const auto &item) { return !getReferent(item.second.get()); });
  if (PyObject *weak = PyWeakref_NewRef(owner, nullptr)) input.owners[owner] = Ref::adopt(weak);
  PyErr_Clear(); // objects without weak references are not recorded
}

void ArgumentWriter::refuseNumber(const ValueInput &input, PyObject *object) {
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

} // namespace qd::launch
