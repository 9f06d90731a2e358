// array_views.cpp: containers as NumPy arrays
//
// In:   a container, or an index in it.
// Out:  an array on its memory where strides describe the elements and the host reaches them, else a copy that `_flush` writes back.
#include "launch/containers/data_type.h"
#include "launch/containers/external_array.h"
#include "launch/containers/tensor_object.h"
#include "launch/containers/transfer.h"
#include "launch/numpy.h"
#include "launch/tape/tape_context.h"

#include "support/error.h"

#include <string>

namespace qd::launch {

using layout::TensorLayout;
using runtime::Tensor;
using support::Error;
using support::ErrorKind;

/// The array with the axes of the layout and of its elements; a copy when a view is not possible.
static PyObject *reshape(PyObject *array, const TensorLayout &layout) {
  std::vector<npy_intp> shape(layout.extents.begin(), layout.extents.end());
  shape.insert(shape.end(), {layout.element.rows, layout.element.columns});
  PyArray_Dims dims{shape.data(), layout.rank() + layout.element.rank};
  return Ref::adopt(PyArray_Newshape(reinterpret_cast<PyArrayObject *>(array), &dims, NPY_CORDER)).release();
}

/// A NumPy array of the elements at `data`, which have the container's layout and lie in memory of `owner`.
static PyObject *makePlainArray(const TensorLayout &layout, unsigned char *data, const runtime::BufferRef &owner) {
  const layout::ValueType &element = layout.element;
  std::vector<npy_intp> shape(layout.extents.begin(), layout.extents.end());
  std::vector<npy_intp> strides(layout.strides.begin(), layout.strides.end());
  shape.insert(shape.end(), {element.rows, element.columns});
  strides.insert(strides.end(), {layout.componentStride * element.columns, layout.componentStride});
  int rank = layout.rank() + element.rank; // NumPy reports too many axes
  PyArray_Descr *type = makeNumpyType(element.scalar);
  Ref array = Ref::adopt(PyArray_NewFromDescr(&PyArray_Type, type, rank, shape.data(), strides.data(), data,
                                              owner->isWritable() ? NPY_ARRAY_WRITEABLE : 0, nullptr));
  Ref base = Ref::adopt(wrapBuffer(owner));
  if (PyArray_SetBaseObject(reinterpret_cast<PyArrayObject *>(array.get()), base.release()) < 0) return nullptr;
  PyArray_UpdateFlags(reinterpret_cast<PyArrayObject *>(array.get()), NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_F_CONTIGUOUS | NPY_ARRAY_ALIGNED);
  return array.release();
}

/// A NumPy array of the elements: a view, or a copy of tiled elements, which no strides describe.
static PyObject *makeArray(const TensorLayout &layout, unsigned char *data, const runtime::BufferRef &owner) {
  if (layout.tilings.empty()) return makePlainArray(layout, data, owner);
  Ref split = Ref::adopt(makePlainArray(splitTiledAxes(layout), data, owner));
  return reshape(split.get(), layout);
}

PyObject *makeView(PyObject *self, PyObject *) {
  return guard([&]() -> PyObject * {
    requireAlive(self);
    const Tensor tensor = getTensor(self); // making objects may collect garbage, whose destructors run any code
    if (tensor.buffer->getMemory())
      throw Error(ErrorKind::Value, std::string("Zero-copy not available: the ") + (tensor.isField ? "field" : "ndarray") +
                                        " is in the memory of the GPU, where NumPy does not reach; take a copy with to_numpy()");
    if (isQuantized(tensor)) throw Error(ErrorKind::Value, "Zero-copy not available: the elements of a quantized field are parts of words");
    if (tensorObject(self).isSparse)
      throw Error(ErrorKind::Value, "Zero-copy not available: a write through the array would activate no cell of the sparse field");
    if (!tensor.layout.tilings.empty())
      throw Error(ErrorKind::Value, "Zero-copy not available: the field lies in tiles, along which there is no stride");
    TapeContext::noteView(self);
    tensor.buffer->noteView();
    return makeArray(tensor.layout, tensor.data, tensor.buffer);
  });
}

bool isPacked(const Tensor &tensor) {
  return tensor.range.end - tensor.range.begin ==
         layout::countElements(tensor.layout) * tensor.layout.element.componentCount() * int64_t(getByteSize(tensor.layout.element.scalar));
}

/// The container, or its element at an index that was checked.
static Tensor getPart(const Tensor &tensor, PyObject *index) {
  Tensor part = tensor;
  if (index == Py_None) return part;
  part.data += layout::computeOffset(tensor.layout, readIntegers(index).data());
  part.layout.extents = {};
  part.layout.strides = {};
  part.layout.tilings = {};
  part.range = layout::computeByteRange(part.layout);
  return part;
}

/// _fetch(index=None, overwrites=False): a view if possible, else a copy of the elements, which `_flush` writes back. The copy is
/// uninitialized when all of it will be overwritten.
PyObject *fetchElements(PyObject *self, PyObject *args) {
  return guard([&]() -> PyObject * {
    PyObject *index = Py_None;
    int overwrites = 0;
    if (!PyArg_ParseTuple(args, "|Op:_fetch", &index, &overwrites)) return nullptr;
    requireAlive(self);
    Tensor part = getPart(getTensor(self), index);
    if (overwrites)
      noteHostWrite(self, index);
    else if (index != Py_None) { // the user may store the element
      TapeContext::noteView(self);
      part.buffer->noteView();
    }
    runtime::DeviceMemory *memory = part.buffer->getMemory();
    if (!memory) return makeArray(part.layout, part.data, part.buffer);
    auto bytes = size_t(part.range.end - part.range.begin);
    runtime::BufferRef copy = runtime::Buffer::allocate(bytes);
    if (!overwrites || !isPacked(part)) readMemory(*memory, copy->getData(), part.data + part.range.begin, bytes);
    return makeArray(part.layout, static_cast<unsigned char *>(copy->getData()) - part.range.begin, copy);
  });
}

/// Writes the elements of an array that `_fetch` made of tiles back to their addresses.
static void writeTiles(const Tensor &part, PyObject *array, unsigned char *data, const runtime::BufferRef &owner) {
  const TensorLayout split = splitTiledAxes(part.layout);
  Ref places = Ref::adopt(makePlainArray(split, data, owner)), elements = Ref::adopt(reshape(array, split));
  auto *to = reinterpret_cast<PyArrayObject *>(places.get()), *from = reinterpret_cast<PyArrayObject *>(elements.get());
  if (PyArray_CopyInto(to, from) < 0) throw PythonError{};
}

/// _flush(array, index=None): writes the result of `_fetch` back when it is a copy.
PyObject *flushElements(PyObject *self, PyObject *args) {
  return guard([&]() -> PyObject * {
    PyObject *array, *index = Py_None;
    if (!PyArg_ParseTuple(args, "O!|O:_flush", &PyArray_Type, &array, &index)) return nullptr;
    requireAlive(self);
    Tensor part = getPart(getTensor(self), index);
    runtime::DeviceMemory *memory = part.buffer->getMemory();
    bool isTiled = !part.layout.tilings.empty();
    if (memory) noteHostWrite(self, index);
    if (isTiled && !memory) writeTiles(part, array, part.data, part.buffer);
    if (!memory) Py_RETURN_NONE;
    auto bytes = size_t(part.range.end - part.range.begin);
    auto *data = static_cast<unsigned char *>(PyArray_DATA(reinterpret_cast<PyArrayObject *>(array))) + part.range.begin;
    runtime::BufferRef tiles;
    if (isTiled) {
      tiles = runtime::Buffer::allocate(bytes);
      data = static_cast<unsigned char *>(tiles->getData());
      if (!isPacked(part)) readMemory(*memory, data, part.data + part.range.begin, bytes);
      writeTiles(part, array, data - part.range.begin, tiles);
    }
    writeMemory(*memory, part.data + part.range.begin, data, bytes);
    Py_RETURN_NONE;
  });
}

/// Implements the buffer protocol with a NumPy view, which keeps the memory alive while the consumer uses the buffer. Its formats do not
/// have bf16, whose bytes NumPy would take for a struct without members: without a buffer, it asks for `__array__`.
int exportBuffer(PyObject *self, Py_buffer *out, int flags) {
  return guard(-1, [&] {
    out->obj = nullptr;
    requireAlive(self);
    if (getTensor(self).layout.element.scalar == support::ScalarType::BF16)
      throw Error(ErrorKind::Value, "Zero-copy not available: buffers of Python have no type bf16; take a copy with to_numpy()");
    return PyObject_GetBuffer(Ref::adopt(makeView(self, nullptr)).get(), out, flags);
  });
}

} // namespace qd::launch
