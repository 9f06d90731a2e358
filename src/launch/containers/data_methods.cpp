// data_methods.cpp: fills and copies of containers whose elements need no conversion
//
// In:   a container, and a number, an array or another container.
// Out:  the filled or copied elements, or False or None when Python must convert them.
#include "launch/containers/data_type.h"
#include "launch/containers/external_array.h"
#include "launch/containers/tensor_object.h"
#include "launch/numpy.h"
#include "launch/python.h"
#include "runtime/strided_copy.h"
#include "support/error.h"

#include <algorithm>
#include <cstring>

namespace qd::launch {

using layout::TensorLayout;
using runtime::CopiedAxis;
using runtime::Tensor;

// Smaller copies end before another thread could have taken the GIL.
static constexpr size_t kLargeBytes = 256 << 10;

namespace {

/// Elements in the processor's memory, with the axes of their components.
struct Elements {
  unsigned char *data = nullptr;
  support::ScalarType scalar = support::ScalarType::F32;
  std::vector<int64_t> extents, strides;

  bool matches(const Elements &other) const { return scalar == other.scalar && extents == other.extents; }
};

} // namespace

static Elements getElements(const TensorLayout &layout, unsigned char *data) {
  const layout::ValueType &element = layout.element;
  Elements elements{data, element.scalar, layout.extents, layout.strides};
  const int64_t shape[] = {element.rows, element.columns}, steps[] = {layout.componentStride * element.columns, layout.componentStride};
  elements.extents.insert(elements.extents.end(), shape, shape + element.rank);
  // The components of a vector are `componentStride` apart: a vector has one column.
  elements.strides.insert(elements.strides.end(), steps, steps + element.rank);
  return elements;
}

/// Describes the elements of an array; false when they are not in the processor's memory, or when kernels have no such type.
static bool readElements(PyObject *object, Elements &elements) {
  ExternalArray array;
  if (!readExternal(object, array) || array.device >= 0 || !array.scalar) return false;
  elements = {array.data, *array.scalar, {array.extents, array.extents + array.rank}, {array.strides, array.strides + array.rank}};
  return true;
}

static void copyElements(const Elements &to, const Elements &from) {
  size_t size = getByteSize(to.scalar), bytes = size;
  std::vector<CopiedAxis> axes;
  for (size_t axis = 0; axis < to.extents.size(); ++axis) {
    axes.push_back({to.extents[axis], to.strides[axis], from.strides[axis]});
    bytes *= size_t(to.extents[axis]);
  }
  struct Released {
    PyThreadState *thread;
    ~Released() {
      if (thread) takeBackGil(thread);
    }
  } released{bytes >= kLargeBytes ? PyEval_SaveThread() : nullptr};
  runtime::copyStrided(to.data, from.data, size, std::move(axes));
}

/// Whether two elements share memory, as with a stride of 0.
static bool hasSharedElements(const Elements &elements) {
  for (size_t axis = 0; axis < elements.extents.size(); ++axis)
    if (elements.strides[axis] == 0 && elements.extents[axis] > 1) return true;
  return false;
}

/// Fills the memory of a device with an element of the given bytes; false when its layout or its bytes do not allow that.
static bool fillDevice(PyObject *self, runtime::DeviceMemory &memory, const unsigned char *bytes, size_t count) {
  const Tensor &tensor = getTensor(self);
  auto begin = reinterpret_cast<uintptr_t>(tensor.data + tensor.range.begin);
  if (!isPacked(tensor) || begin % sizeof(uint32_t)) return false;
  noteHostWrite(self, Py_None);
  requireAlive(self); // Python code has observed the write
  auto size = size_t(tensor.range.end - tensor.range.begin);
  uint32_t word = 0;
  for (size_t i = 0; i < sizeof word; ++i) word |= uint32_t(bytes[i % count]) << 8 * i;
  // A pattern of equal bytes fills any number of bytes; other patterns fill whole words only.
  for (size_t i = 0; i < count; ++i)
    if (bytes[i] != uint8_t(word >> i % sizeof word * 8)) return false;
  if (word != (word & 0xff) * 0x01010101u && (size % sizeof word || (count % sizeof word && sizeof word % count))) return false;
  if (size) memory.fill(tensor.data + tensor.range.begin, word, size);
  return true;
}

static bool isNumber(PyObject *value) {
  return PyLong_Check(value) || PyFloat_Check(value) || PyArray_IsScalar(value, Integer) || PyArray_IsScalar(value, Floating) ||
         PyArray_IsScalar(value, Bool);
}

/// _try_fill(value): sets every component to a number, or every element to the single element of a packed array of the same type. On a
/// device it does not wait. Returns False when it cannot do that.
PyObject *tryFill(PyObject *self, PyObject *value) {
  return guard([&]() -> PyObject * {
    requireAlive(self);
    const Tensor &tensor = getTensor(self);
    const layout::ValueType &element = tensor.layout.element;
    uint64_t number = 0;
    Elements source;
    if (isNumber(value)) {
      writeScalar(element.scalar, &number, value);
      source.data = reinterpret_cast<unsigned char *>(&number);
    } else if (PyArray_CheckExact(value)) {
      source.data = static_cast<unsigned char *>(PyArray_DATA(reinterpret_cast<PyArrayObject *>(value)));
    } else {
      Py_RETURN_FALSE;
    }
    size_t size = getByteSize(element.scalar), count = isNumber(value) ? 1 : size_t(element.componentCount());
    if (PyArray_CheckExact(value)) {
      auto *array = reinterpret_cast<PyArrayObject *>(value);
      if (size_t(PyArray_NBYTES(array)) != size * count || !PyArray_IS_C_CONTIGUOUS(array) || size_t(PyArray_ITEMSIZE(array)) != size)
        Py_RETURN_FALSE;
    }
    if (!tensor.buffer->isWritable()) throw support::Error(support::ErrorKind::Value, "the memory of the container is read-only");
    if (runtime::DeviceMemory *memory = tensor.buffer->getMemory())
      return PyBool_FromLong(fillDevice(self, *memory, source.data, size * count));
    noteHostWrite(self, Py_None);
    requireAlive(self);                      // Python code has observed the write
    runtime::BufferRef held = tensor.buffer; // another thread may end the runtime
    TensorLayout split = tensor.layout.tilings.empty() ? tensor.layout : splitTiledAxes(tensor.layout);
    Elements target = getElements(split, tensor.data);
    source.strides.assign(split.extents.size(), 0);
    const int64_t steps[] = {int64_t(size) * element.columns, int64_t(size)};
    for (int axis = 0; axis < element.rank; ++axis) source.strides.push_back(count == 1 ? 0 : steps[axis]);
    copyElements(target, source);
    Py_RETURN_TRUE;
  });
}

/// Copies within a device when both containers have the same layout of elements.
static bool copyOnDevice(PyObject *self, PyObject *other) {
  if (!isTensor(other)) return false;
  requireAlive(other);
  const Tensor &to = getTensor(self), &from = getTensor(other);
  runtime::DeviceMemory *memory = to.buffer->getMemory();
  bool isSame = to.layout.element == from.layout.element && to.layout.extents == from.layout.extents &&
                to.layout.strides == from.layout.strides && to.layout.tilings == from.layout.tilings &&
                to.layout.componentStride == from.layout.componentStride;
  if (memory != from.buffer->getMemory() || !isSame || !isPacked(to)) return false;
  noteHostWrite(self, Py_None);
  requireAlive(self); // Python code has observed the write
  requireAlive(other);
  memory->copy(to.data + to.range.begin, from.data + from.range.begin, size_t(to.range.end - to.range.begin));
  return true;
}

/// _try_copy(other): copies the elements of a container or array of the same shape and type; False when they need a conversion.
PyObject *tryCopy(PyObject *self, PyObject *given) {
  return guard([&]() -> PyObject * {
    requireAlive(self);
    PyObject *other = unwrap(given);
    if (getTensor(self).buffer->getMemory()) return PyBool_FromLong(copyOnDevice(self, other));
    Elements source;
    runtime::BufferRef heldSource;
    if (isTensor(other)) {
      requireAlive(other);
      const Tensor &from = getTensor(other);
      if (from.buffer->getMemory() || !from.layout.tilings.empty()) Py_RETURN_FALSE;
      source = getElements(from.layout, from.data);
      heldSource = from.buffer;
    } else if (!readElements(other, source)) {
      Py_RETURN_FALSE;
    }
    requireAlive(self); // allocating the other field's tree runs Python code
    const Tensor &tensor = getTensor(self);
    Elements target = getElements(tensor.layout, tensor.data);
    if (!tensor.layout.tilings.empty() || !target.matches(source) || hasSharedElements(target) || !tensor.buffer->isWritable() ||
        mayOverlap(self, other))
      Py_RETURN_FALSE;
    noteHostWrite(self, Py_None);
    requireAlive(self);
    runtime::BufferRef held = tensor.buffer;
    copyElements(target, source);
    Py_RETURN_TRUE;
  });
}

/// _copy_out(): the elements as a new NumPy array; None for elements on a device, and for types that NumPy does not have.
PyObject *copyOut(PyObject *self, PyObject *) {
  return guard([&]() -> PyObject * {
    requireAlive(self);
    const Tensor &tensor = getTensor(self);
    const TensorLayout &layout = tensor.layout;
    if (tensor.buffer->getMemory() || layout.element.scalar == support::ScalarType::BF16) Py_RETURN_NONE;
    runtime::BufferRef held = tensor.buffer;
    std::vector<npy_intp> shape(layout.extents.begin(), layout.extents.end());
    shape.insert(shape.end(), {layout.element.rows, layout.element.columns});
    Ref array = Ref::adopt(PyArray_NewFromDescr(&PyArray_Type, makeNumpyType(layout.element.scalar), layout.rank() + layout.element.rank,
                                                shape.data(), nullptr, nullptr, 0, nullptr));
    TensorLayout split = layout.tilings.empty() ? layout : splitTiledAxes(layout);
    TensorLayout packed = split;
    packed.strides = computePackedStrides(split.element, split.extents);
    packed.componentStride = int64_t(getByteSize(split.element.scalar));
    auto *data = static_cast<unsigned char *>(PyArray_DATA(reinterpret_cast<PyArrayObject *>(array.get())));
    copyElements(getElements(packed, data), getElements(split, tensor.data));
    return array.release();
  });
}

} // namespace qd::launch
