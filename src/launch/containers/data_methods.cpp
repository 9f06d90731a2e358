// data_methods.cpp: fills and copies of containers whose elements need no conversion
//
// In:   a container, and a number, an array or another container.
// Out:  the filled or copied elements, or False or None when Python must convert them.
#include "launch/containers/data_type.h"
#include "launch/containers/external_array.h"
#include "launch/containers/tensor_object.h"
#include "launch/containers/transfer.h"
#include "launch/numpy.h"
#include "launch/python.h"
#include "launch/state.h"
#include "runtime/copy.h"
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
// The C library reuses smaller blocks, which then need no page faults; larger ones it maps anew, and not aligned to huge pages.
static constexpr size_t kMappedBytes = size_t(32) << 20;

namespace {

/// Elements in the processor's memory, with the axes of their components.
struct Elements {
  unsigned char *data = nullptr;
  support::ScalarType scalar = support::ScalarType::F32;
  std::vector<int64_t> extents, strides;

  bool matches(const Elements &other) const { return scalar == other.scalar && extents == other.extents; }
};

/// Releases the GIL as long as it lives, for work on so many bytes that another thread could use it.
class LongWork {
public:
  explicit LongWork(size_t bytes) : thread(bytes >= kLargeBytes ? PyEval_SaveThread() : nullptr) {}
  ~LongWork() {
    if (thread) takeBackGil(thread);
  }
  LongWork(const LongWork &) = delete;
  LongWork &operator=(const LongWork &) = delete;

private:
  PyThreadState *thread;
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

static Elements getElements(const ExternalArray &array) {
  return {array.data, *array.scalar, {array.extents, array.extents + array.rank}, {array.strides, array.strides + array.rank}};
}

static void copyElements(const Elements &to, const Elements &from) {
  size_t size = getByteSize(to.scalar), bytes = size;
  std::vector<CopiedAxis> axes;
  for (size_t axis = 0; axis < to.extents.size(); ++axis) {
    axes.push_back({to.extents[axis], to.strides[axis], from.strides[axis]});
    bytes *= size_t(to.extents[axis]);
  }
  const LongWork work(bytes);
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
  // Components that differ are next to each other only in elements that are.
  const auto scalar = size_t(getByteSize(tensor.layout.element.scalar));
  if (tensor.layout.componentStride != int64_t(scalar))
    for (size_t i = scalar; i < count; ++i)
      if (bytes[i] != bytes[i - scalar]) return false;
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

/// Writes an element to every element: `count` components row by row, or one number for all components.
static bool fillElements(PyObject *self, const unsigned char *bytes, size_t count) {
  const Tensor &tensor = getTensor(self);
  const layout::ValueType &element = tensor.layout.element;
  auto size = int64_t(getByteSize(element.scalar));
  if (!tensor.buffer->isWritable()) throw support::Error(support::ErrorKind::Value, "the memory of the container is read-only");
  if (runtime::DeviceMemory *memory = tensor.buffer->getMemory()) return fillDevice(self, *memory, bytes, size_t(size) * count);
  noteHostWrite(self, Py_None);
  requireAlive(self);                      // Python code has observed the write
  runtime::BufferRef held = tensor.buffer; // another thread may end the runtime
  if (count == 1 && isPacked(tensor)) {
    const auto total = size_t(tensor.range.end - tensor.range.begin);
    const LongWork work(total);
    runtime::fillMemory(tensor.data + tensor.range.begin, bytes, size_t(size), total);
    return true;
  }
  TensorLayout split = tensor.layout.tilings.empty() ? tensor.layout : splitTiledAxes(tensor.layout);
  Elements target = getElements(split, tensor.data);
  Elements source{const_cast<unsigned char *>(bytes), element.scalar, target.extents, std::vector<int64_t>(split.extents.size())};
  const int64_t steps[] = {size * element.columns, size};
  for (int axis = 0; axis < element.rank; ++axis) source.strides.push_back(count == 1 ? 0 : steps[axis]);
  copyElements(target, source);
  return true;
}

bool fillWithNumber(PyObject *self, PyObject *value) {
  if (!isNumber(value)) return false;
  requireAlive(self);
  // Only active cells are filled.
  if (tensorObject(self).isSparse || isQuantized(getTensor(self))) return false;
  uint64_t number = 0;
  writeScalar(getTensor(self).layout.element.scalar, &number, value);
  return fillElements(self, reinterpret_cast<unsigned char *>(&number), 1);
}

/// _try_fill(value): sets every component to a number, or every element to the single element of a packed array of the same type. On a
/// device it does not wait. Returns False when it cannot do that.
PyObject *tryFill(PyObject *self, PyObject *value) {
  return guard([&]() -> PyObject * {
    if (isNumber(value)) return PyBool_FromLong(fillWithNumber(self, value));
    if (!PyArray_CheckExact(value)) Py_RETURN_FALSE;
    requireAlive(self);
    if (tensorObject(self).isSparse || isQuantized(getTensor(self))) Py_RETURN_FALSE;
    const layout::ValueType &element = getTensor(self).layout.element;
    size_t size = getByteSize(element.scalar), count = size_t(element.componentCount());
    auto *array = reinterpret_cast<PyArrayObject *>(value);
    if (size_t(PyArray_NBYTES(array)) != size * count || !PyArray_IS_C_CONTIGUOUS(array) || size_t(PyArray_ITEMSIZE(array)) != size)
      Py_RETURN_FALSE;
    return PyBool_FromLong(fillElements(self, static_cast<unsigned char *>(PyArray_DATA(array)), count));
  });
}

bool copyPlainContainer(PyObject *self, PyObject *other) {
  if (!isTensor(other)) return false;
  for (PyObject *container : {self, other}) requireAlive(container); // from then on a field is known to be sparse
  for (PyObject *container : {self, other})
    if (tensorObject(container).isSparse || isQuantized(getTensor(container))) return false;
  const Tensor &to = getTensor(self), &from = getTensor(other);
  runtime::DeviceMemory *memory = to.buffer->getMemory();
  bool isSame = to.layout.element == from.layout.element && to.layout.extents == from.layout.extents &&
                to.layout.strides == from.layout.strides && to.layout.tilings == from.layout.tilings &&
                to.layout.componentStride == from.layout.componentStride;
  if (memory != from.buffer->getMemory() || !isSame || !isPacked(to)) return false;
  if (!to.buffer->isWritable() || mayOverlap(self, other)) return false;
  noteHostWrite(self, Py_None);
  requireAlive(self); // Python code has observed the write
  requireAlive(other);
  const auto bytes = size_t(to.range.end - to.range.begin);
  unsigned char *target = to.data + to.range.begin, *source = from.data + from.range.begin;
  if (memory) {
    memory->copy(target, source, bytes);
    return true;
  }
  const runtime::BufferRef held[] = {to.buffer, from.buffer}; // another thread may end the runtime
  const LongWork work(bytes);
  if (bytes) runtime::copyMemory(target, source, bytes);
  return true;
}

/// Whether the elements and their components follow each other row by row without gaps.
static bool isRowMajor(const TensorLayout &layout) {
  auto size = int64_t(getByteSize(layout.element.scalar));
  if (!layout.tilings.empty() || (layout.componentStride != size && layout.element.componentCount() != 1)) return false;
  int64_t expected = size * layout.element.componentCount();
  for (size_t axis = layout.extents.size(); axis-- > 0; expected *= layout.extents[axis])
    if (layout.strides[axis] != expected && layout.extents[axis] != 1) return false;
  return true;
}

/// Whether the bytes of an array, one after the other, are those of the container.
static bool hasBytesOf(const Tensor &tensor, const ExternalArray &array) {
  const TensorLayout &layout = tensor.layout;
  const layout::ValueType &element = layout.element;
  const auto rank = int(layout.extents.size());
  const int64_t shape[] = {element.rows, element.columns};
  return array.isPacked && array.scalar == element.scalar && array.rank == rank + element.rank &&
         std::equal(layout.extents.begin(), layout.extents.end(), array.extents) &&
         std::equal(shape, shape + element.rank, array.extents + rank) && isRowMajor(layout);
}

/// Copies bytes on the device, ordered with the stream in which the library of an array queues its accesses.
static void copyOnDevice(runtime::DeviceMemory &memory, const ExternalArray &array, void *to, const void *from, size_t bytes) {
  const std::shared_ptr<runtime::Device> device = getState().device;
  if (array.stream) device->getStreams()->order(array.stream, nullptr);
  memory.copy(to, from, bytes);
  if (array.stream) device->getStreams()->order(nullptr, array.stream);
}

/// Copies an array whose bytes are those of the container; false for any other. Saves 0.1 us for each small array, as much as its copy
/// takes.
static bool copyBytes(PyObject *self, const ExternalArray &array) {
  const Tensor &tensor = getTensor(self);
  const auto bytes = size_t(tensor.range.end - tensor.range.begin);
  unsigned char *target = tensor.data + tensor.range.begin;
  const bool isSeparate = array.data >= target + bytes || target >= array.data + bytes;
  runtime::DeviceMemory *memory = tensor.buffer->getMemory();
  if (!tensor.buffer->isWritable() || !hasBytesOf(tensor, array) || !isSeparate ||
      (array.device >= 0 && !(memory && memory->getOrdinal() == array.device)))
    return false;
  noteHostWrite(self, Py_None);
  requireAlive(self); // Python code has observed the write
  const runtime::BufferRef held = tensor.buffer;
  if (!bytes) return true;
  if (array.device >= 0) {
    copyOnDevice(*memory, array, target, array.data, bytes);
  } else if (memory) {
    writeMemory(*memory, target, array.data, bytes);
  } else {
    const LongWork work(bytes);
    runtime::copyMemory(target, array.data, bytes);
  }
  return true;
}

bool copyUnconverted(PyObject *self, PyObject *given) {
  requireAlive(self);
  PyObject *other = unwrap(given);
  if (tensorObject(self).isSparse || isQuantized(getTensor(self)) || (isTensor(other) && isQuantized(getTensor(other)))) return false;
  const bool isOnDevice = getTensor(self).buffer->getMemory() != nullptr;
  if (isOnDevice && isTensor(other)) return copyPlainContainer(self, other);
  Elements source;
  runtime::BufferRef heldSource;
  if (isTensor(other)) {
    requireAlive(other);
    const Tensor &from = getTensor(other);
    if (from.buffer->getMemory() || !from.layout.tilings.empty()) return false;
    source = getElements(from.layout, from.data);
    heldSource = from.buffer;
    requireAlive(self); // allocating the other field's tree runs Python code
  } else {
    ExternalArray array;
    if (!readExternal(other, array) || !array.scalar) return false;
    requireAlive(self); // so may reading the array
    if (copyBytes(self, array)) return true;
    if (isOnDevice || array.device >= 0) return false;
    source = getElements(array);
  }
  const Tensor &tensor = getTensor(self);
  Elements target = getElements(tensor.layout, tensor.data);
  if (!tensor.layout.tilings.empty() || !target.matches(source) || hasSharedElements(target) || !tensor.buffer->isWritable() ||
      mayOverlap(self, other))
    return false;
  noteHostWrite(self, Py_None);
  requireAlive(self);
  runtime::BufferRef held = tensor.buffer;
  copyElements(target, source);
  return true;
}

/// _try_copy(other): as `copyUnconverted`.
PyObject *tryCopy(PyObject *self, PyObject *other) {
  return guard([&] { return PyBool_FromLong(copyUnconverted(self, other)); });
}

/// A new array, whose elements are not initialized.
static Ref makeArray(const layout::ValueType &element, std::vector<npy_intp> extents) {
  const int rank = int(extents.size()) + element.rank; // NumPy reports too many axes
  size_t bytes = getByteSize(element.scalar);
  extents.insert(extents.end(), {element.rows, element.columns});
  for (int axis = 0; axis < rank; ++axis) bytes *= size_t(extents[size_t(axis)]);
  auto make = [&](void *data) {
    return Ref::adopt(PyArray_NewFromDescr(&PyArray_Type, makeNumpyType(element.scalar), rank, extents.data(), nullptr, data,
                                           data ? NPY_ARRAY_CARRAY : 0, nullptr));
  };
  if (bytes < kMappedBytes) return make(nullptr);
  runtime::BufferRef memory = runtime::Buffer::allocate(bytes);
  Ref owner = Ref::adopt(wrapBuffer(memory)), array = make(memory->getData());
  if (PyArray_SetBaseObject(reinterpret_cast<PyArrayObject *>(array.get()), owner.release()) < 0) throw PythonError{};
  return array;
}

Ref copyToNumpy(PyObject *self) {
  requireAlive(self);
  const Tensor &tensor = getTensor(self);
  const TensorLayout &layout = tensor.layout;
  const layout::ValueType &element = layout.element;
  runtime::DeviceMemory *memory = tensor.buffer->getMemory();
  if (element.scalar == support::ScalarType::BF16 || isQuantized(tensor)) return Ref();
  if (memory && (tensorObject(self).isSparse || !isRowMajor(layout))) return Ref();
  runtime::BufferRef held = tensor.buffer;
  std::vector<npy_intp> extents;
  extents.reserve(layout.extents.size() + 2);
  extents.assign(layout.extents.begin(), layout.extents.end());
  Ref array = makeArray(element, std::move(extents));
  auto *data = static_cast<unsigned char *>(PyArray_DATA(reinterpret_cast<PyArrayObject *>(array.get())));
  if (isRowMajor(layout)) {
    const auto total = size_t(PyArray_NBYTES(reinterpret_cast<PyArrayObject *>(array.get())));
    if (memory) {
      if (total) readMemory(*memory, data, tensor.data, total);
      return array;
    }
    const LongWork work(total);
    if (total) runtime::copyMemory(data, tensor.data, total, /*isNew=*/true);
    return array;
  }
  TensorLayout split = layout.tilings.empty() ? layout : splitTiledAxes(layout);
  TensorLayout packed = split;
  packed.strides = computePackedStrides(element, split.extents);
  packed.componentStride = int64_t(getByteSize(element.scalar));
  copyElements(getElements(packed, data), getElements(split, tensor.data));
  return array;
}

/// _copy_to(array): copies the bytes of the elements to an array of another library on the same device; False if they are not the same.
PyObject *copyTo(PyObject *self, PyObject *given) {
  return guard([&] {
    requireAlive(self);
    ExternalArray array;
    runtime::DeviceMemory *memory = getTensor(self).buffer->getMemory();
    if (!memory || tensorObject(self).isSparse || isQuantized(getTensor(self)) || !readExternal(given, array)) return Py_NewRef(Py_False);
    requireAlive(self);
    const Tensor &tensor = getTensor(self);
    if (array.device != memory->getOrdinal() || !hasBytesOf(tensor, array)) return Py_NewRef(Py_False);
    const runtime::BufferRef held = tensor.buffer;
    const auto bytes = size_t(tensor.range.end - tensor.range.begin);
    if (bytes) copyOnDevice(*memory, array, array.data, tensor.data + tensor.range.begin, bytes);
    return Py_NewRef(Py_True);
  });
}

/// _copy_out(): as `copyToNumpy`; None instead of nothing.
PyObject *copyOut(PyObject *self, PyObject *) {
  return guard([&] {
    Ref array = copyToNumpy(self);
    return array ? array.release() : Py_NewRef(Py_None);
  });
}

} // namespace qd::launch
