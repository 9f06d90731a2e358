// tensor_object.cpp: the Python types FieldBase, NdarrayBase and the wrapper of qd.Tensor
//
// In:   shapes, element types and buffers from the package's containers.
// Out:  containers with memory that launches read without a call, and NumPy views or copies of their elements.
#include "launch/containers/tensor_object.h"

#include "launch/tape/tape_context.h"

#include "launch/capture.h"
#include "launch/containers/data_type.h"
#define QD_IMPORT_NUMPY
#include "launch/containers/transfer.h"
#include "launch/numpy.h"
#include "launch/state.h"

#include "support/error.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <frameobject.h>
#include <new>
#include <string>
#include <structmember.h>

namespace qd::launch {

using layout::TensorLayout;
using runtime::Tensor;
using support::Error;
using support::ErrorKind;

PyTypeObject *fieldType, *ndarrayType, *wrapperType;
static LiveList<TensorObject> allTensors;

//--- Containers ---

static PyObject *newTensor(PyTypeObject *type, PyObject *, PyObject *) {
  PyObject *self = type->tp_alloc(type, 0);
  if (!self) return nullptr;
  TensorObject &object = tensorObject(self);
  new (&object.tensor) Tensor;
  object.tensor.isField = PyType_IsSubtype(type, fieldType);
  object.program = &getState();
  allTensors.add(object);
  return self;
}

static void deleteTensor(PyObject *self) {
  TensorObject &object = tensorObject(self);
  allTensors.remove(object);
  object.tensor.~Tensor();
  Py_XDECREF(object.shape);
  Py_XDECREF(object.code);
  PyTypeObject *type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

std::vector<runtime::BufferRef> releaseAllTensors() {
  std::vector<runtime::BufferRef> released;
  auto forAll = [](auto &&visit) {
    for (TensorObject *object = allTensors.first; object; object = object->next)
      if (object->program == &getState() && object->tensor.buffer) visit(object->tensor);
  };
  size_t count = 0;
  forAll([&](Tensor &) { ++count; });
  released.reserve(count); // the only step that can fail comes before any change
  forAll([&](Tensor &tensor) { released.push_back(tensor.release()); });
  return released;
}

TensorObject *getFirstTensor() { return allTensors.first; }

std::vector<int64_t> readIntegers(PyObject *sequence) {
  Ref items = Ref::adopt(PySequence_Fast(sequence, "expected a tuple of integers"));
  std::vector<int64_t> result;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
    Ref item = Ref::borrow(PySequence_Fast_GET_ITEM(items.get(), i)); // its conversion may change the list
    Ref number = Ref::adopt(PyNumber_Index(item.get()));
    int overflow;
    result.push_back(PyLong_AsLongLongAndOverflow(number.get(), &overflow));
    if (overflow) throw Error(ErrorKind::Memory, "a container of this shape does not fit into memory");
  }
  return result;
}

PyObject *makeTuple(std::span<const int64_t> values) {
  Ref tuple = Ref::adopt(PyTuple_New(Py_ssize_t(values.size())));
  for (size_t i = 0; i < values.size(); ++i)
    PyTuple_SET_ITEM(tuple.get(), Py_ssize_t(i), Ref::adopt(PyLong_FromLongLong(values[i])).release());
  return tuple.release();
}

static layout::ValueType readElement(PyObject *dtype, PyObject *elementShape) {
  layout::ValueType element;
  element.scalar = getScalarType(dtype);
  std::vector<int64_t> shape = readIntegers(elementShape);
  if (shape.size() > 2) throw Error(ErrorKind::Value, "an element has at most two axes");
  for (int64_t extent : shape)
    if (extent < 1 || extent > 0xffff) throw Error(ErrorKind::Value, "an element cannot have an axis of length " + std::to_string(extent));
  element.rank = uint8_t(shape.size());
  element.rows = shape.empty() ? 1 : uint16_t(shape[0]);
  element.columns = shape.size() < 2 ? 1 : uint16_t(shape[1]);
  return element;
}

/// Records the innermost function outside of the package, which reports of memory name as the allocating one.
static void recordAllocation(TensorObject &object) {
  Ref frame = Ref::borrow(reinterpret_cast<PyObject *>(PyEval_GetFrame()));
  while (frame) {
    auto *current = reinterpret_cast<PyFrameObject *>(frame.get());
#if PY_VERSION_HEX < 0x030b0000
    Ref globals = Ref::adopt(PyObject_GetAttrString(frame.get(), "f_globals"));
#else
    Ref globals = Ref::adopt(PyFrame_GetGlobals(current));
#endif
    PyObject *name = PyDict_GetItemString(globals.get(), "__name__");
    const char *text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : nullptr;
    if (!text || strncmp(text, "quadrants", strlen("quadrants")) != 0) {
      object.code = reinterpret_cast<PyObject *>(PyFrame_GetCode(current));
      object.line = PyFrame_GetLineNumber(current);
      return;
    }
    PyFrameObject *caller = PyFrame_GetBack(current);
    frame = caller ? Ref::adopt(reinterpret_cast<PyObject *>(caller)) : Ref();
  }
}

/// Reads (axis, length, jump) of each tiling from a flat sequence.
static std::vector<layout::Tiling> readTilings(PyObject *numbers, const TensorLayout &layout) {
  std::vector<int64_t> flat = readIntegers(numbers);
  std::vector<layout::Tiling> tilings;
  for (size_t i = 0; i + 3 <= flat.size(); i += 3) {
    const layout::Tiling &tiling = tilings.emplace_back(layout::Tiling{flat[i], flat[i + 1], flat[i + 2]});
    if (uint64_t(tiling.axis) >= uint64_t(layout.rank()) || tiling.length < 1 || layout.extents[size_t(tiling.axis)] % tiling.length ||
        tiling.jump < 0)
      throw Error(ErrorKind::Value, "an axis is cut into whole tiles that follow each other");
  }
  return tilings;
}

/// _place(shape, strides=None, component_stride=None, buffer=None, byte_offset=0, offset=None, tilings=())
static PyObject *placeTensor(PyObject *self, PyObject *args, PyObject *kwargs) {
  return guard([&]() -> PyObject * {
    static const char *names[] = {"shape", "strides", "component_stride", "buffer", "byte_offset", "offset", "tilings", nullptr};
    PyObject *shape, *strides = Py_None, *componentStride = Py_None, *buffer = Py_None, *offset = Py_None, *tilings = nullptr;
    long long byteOffset = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|OOOLOO:_place", const_cast<char **>(names), &shape, &strides, &componentStride,
                                     &buffer, &byteOffset, &offset, &tilings))
      return nullptr;
    TensorObject &object = tensorObject(self);
    if (object.tensor.state != Tensor::State::Unplaced) throw Error(ErrorKind::Runtime, "a container is placed once");
    TensorLayout layout;
    layout.element = object.tensor.layout.element;
    layout.extents = readIntegers(shape);
    if (std::any_of(layout.extents.begin(), layout.extents.end(), [](int64_t extent) { return extent < 0; }))
      throw Error(ErrorKind::Value, "a container cannot have a negative extent");
    layout.strides = strides == Py_None ? layout::computePackedStrides(layout.element, layout.extents) : readIntegers(strides);
    if (layout.strides.size() != layout.extents.size()) throw Error(ErrorKind::Value, "shape and strides must have the same length");
    layout.componentStride = int64_t(getByteSize(layout.element.scalar));
    if (componentStride != Py_None && (layout.componentStride = PyLong_AsLongLong(componentStride)) == -1 && PyErr_Occurred())
      throw PythonError{};
    if (offset != Py_None) layout.origin = readIntegers(offset);
    if (!layout.origin.empty() && layout.origin.size() != layout.extents.size())
      throw Error(ErrorKind::Value, "the dimensionality of shape and offset must be the same");
    if (std::all_of(layout.origin.begin(), layout.origin.end(), [](int64_t first) { return first == 0; })) layout.origin.clear();
    if (tilings) layout.tilings = readTilings(tilings, layout);
    if (buffer != Py_None && Py_TYPE(buffer) != bufferType)
      throwPython(PyExc_TypeError, "buffer must be a Buffer, not %s", Py_TYPE(buffer)->tp_name);
    int64_t end = buffer == Py_None ? byteOffset + layout::computeByteRange(layout).end : 0;
    object.tensor.place(std::move(layout),
                        buffer == Py_None ? allocateBuffer(size_t(end)) : reinterpret_cast<BufferObject *>(buffer)->buffer, byteOffset);
    recordAllocation(object);
    Py_RETURN_NONE;
  });
}

/// __init__(dtype, element_shape, shape, …): the arguments after the element type as for _place; without memory when the shape is None.
static int initTensor(PyObject *self, PyObject *args, PyObject *kwargs) {
  return guard(-1, [&] {
    PyObject *dtype, *elementShape;
    Ref head = Ref::adopt(PyTuple_GetSlice(args, 0, 2)), rest = Ref::adopt(PyTuple_GetSlice(args, 2, PyTuple_GET_SIZE(args)));
    if (!PyArg_ParseTuple(head.get(), "OO", &dtype, &elementShape)) return -1;
    TensorObject &object = tensorObject(self);
    if (object.tensor.state != Tensor::State::Unplaced) throw Error(ErrorKind::Runtime, "a container is initialized once");
    object.tensor.layout.element = readElement(dtype, elementShape);
    if (PyTuple_GET_SIZE(rest.get()) == 0 || PyTuple_GET_ITEM(rest.get(), 0) != Py_None) Ref::adopt(placeTensor(self, rest.get(), kwargs));
    return 0;
  });
}

void provideMemory(PyObject *self) {
  if (getTensor(self).state == Tensor::State::Alive) return;
  if (getTensor(self).state == Tensor::State::LazilyZeroed) return materializeZeros(tensorObject(self));
  // Allocates the tree of nodes that contains the field, or raises an error with the reason why there is no memory.
  Ref hook = importAttribute("quadrants._containers.unfinished_trees", "require_memory");
  Ref::adopt(PyObject_CallOneArg(hook.get(), self));
  if (getTensor(self).state != Tensor::State::Alive)
    throw Error(ErrorKind::Runtime, "the runtime was reset by another thread while the container got its memory");
}

void requireAlive(PyObject *self) {
  Capture::refuse("reading or writing a container from Python");
  provideMemory(self);
}

static PyObject *markSparse(PyObject *self, PyObject *) {
  tensorObject(self).isSparse = true;
  Py_RETURN_NONE;
}

static PyObject *releaseTensor(PyObject *self, PyObject *) {
  getTensor(self).release();
  Py_RETURN_NONE;
}

PyObject *makeElementShape(const layout::ValueType &element) {
  const int64_t shape[] = {element.rows, element.columns};
  return makeTuple({shape, element.rank});
}

enum class Need { Nothing, Memory };

/// A property of containers, with the condition under which it is known.
template <Need need, auto read> PyObject *getProperty(PyObject *self, void *) {
  return guard([&]() -> PyObject * {
    TensorObject &object = tensorObject(self);
    if (need == Need::Memory) provideMemory(self);
    return read(object);
  });
}

static PyObject *getExtents(TensorObject &object) {
  if (object.tensor.state == Tensor::State::Unplaced)
    return PyObject_CallMethod(reinterpret_cast<PyObject *>(&object), "_unplaced_shape", nullptr);
  if (!object.shape) object.shape = makeTuple(object.tensor.layout.extents);
  return Py_NewRef(object.shape);
}

/// Programs recognize an ndarray of an earlier runtime by a shape or type of None; fields and views keep theirs.
static bool isPast(const TensorObject &object) {
  return object.tensor.state == Tensor::State::Dead && !object.tensor.isField && !object.isSubview;
}

static PyObject *getShape(TensorObject &object) { return isPast(object) ? Py_NewRef(Py_None) : getExtents(object); }

static PyObject *getOwnDtype(TensorObject &object) { return Py_NewRef(getDataType(object.tensor.layout.element.scalar)); }

static PyObject *getDtype(TensorObject &object) { return isPast(object) ? Py_NewRef(Py_None) : getOwnDtype(object); }

static PyObject *getLiveShape(TensorObject &object) {
  if (isPast(object)) provideMemory(reinterpret_cast<PyObject *>(&object));
  return getExtents(object);
}

static PyObject *getAddress(TensorObject &object) {
  Capture::refuse("taking the address of a container");
  TapeContext::noteView(reinterpret_cast<PyObject *>(&object));
  object.tensor.buffer->noteView();
  return PyLong_FromVoidPtr(object.tensor.data);
}

static PyObject *getLayout(TensorObject &object) {
  const TensorLayout &layout = object.tensor.layout;
  std::vector<int64_t> tilings;
  for (const layout::Tiling &tiling : layout.tilings) tilings.insert(tilings.end(), {tiling.axis, tiling.length, tiling.jump});
  static constinit KnownAttribute type("quadrants._containers.layout", "ContainerLayout");
  return PyObject_CallFunction(type.get(), "sNNNLNN", support::getName(layout.element.scalar).data(), makeElementShape(layout.element),
                               makeTuple(layout.extents), makeTuple(layout.strides), static_cast<long long>(layout.componentStride),
                               makeTuple(layout.origin), makeTuple(tilings));
}

static PyObject *getOffset(TensorObject &object) {
  if (object.tensor.layout.origin.empty()) Py_RETURN_NONE;
  return makeTuple(object.tensor.layout.origin);
}

static PyObject *hasView(TensorObject &object) {
  return PyBool_FromLong(!object.tensor.buffer->getMemory() && object.tensor.layout.tilings.empty() && !object.isSparse &&
                         !isQuantized(object.tensor));
}

static PyObject *getDeviceNumber(TensorObject &object) {
  runtime::DeviceMemory *memory = object.tensor.buffer->getMemory();
  if (!memory) Py_RETURN_NONE;
  return PyLong_FromLong(memory->getOrdinal());
}

static PyObject *getStateName(TensorObject &object) {
  static const char *names[] = {"unplaced", "alive", "dead", "alive"};
  return PyUnicode_InternFromString(names[size_t(object.tensor.state)]);
}

static PyObject *countTensors(PyObject *, PyObject *) {
  long fields = 0, ndarrays = 0;
  for (TensorObject *object = allTensors.first; object; object = object->next)
    if (object->tensor.hasMemory() && !object->isSubview) ++(object->tensor.isField ? fields : ndarrays);
  return Py_BuildValue("{slsl}", "fields", fields, "ndarrays", ndarrays);
}

static int initWrapper(PyObject *self, PyObject *args, PyObject *) {
  PyObject *impl;
  if (!PyArg_ParseTuple(args, "O:TensorBase", &impl)) return -1;
  Py_XSETREF(reinterpret_cast<WrapperObject *>(self)->impl, Py_NewRef(impl));
  return 0;
}

static void deleteWrapper(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  Py_CLEAR(reinterpret_cast<WrapperObject *>(self)->impl);
  type->tp_free(self);
  Py_DECREF(type);
}

/// A list of (container, address of its memory, size in bytes, file or None, line) of each container with memory of its own; subviews have
/// none.
static PyObject *listTensors(PyObject *, PyObject *) {
  return guard([&] {
    std::vector<Ref> containers; // making objects may collect garbage, which changes the list of containers
    for (TensorObject *object = allTensors.first; object; object = object->next) {
      auto *self = reinterpret_cast<PyObject *>(object);
      // An object without references is being deleted.
      if (object->tensor.hasMemory() && !object->isSubview && Py_REFCNT(self) != 0) containers.push_back(Ref::borrow(self));
    }
    Ref list = Ref::adopt(PyList_New(0));
    for (const Ref &container : containers) {
      const TensorObject &object = tensorObject(container.get());
      const runtime::BufferRef buffer = object.tensor.buffer;
      PyObject *file = object.code ? reinterpret_cast<PyCodeObject *>(object.code)->co_filename : Py_None;
      if (buffer && !buffer->isVacant())
        append(list, Ref::adopt(Py_BuildValue("(OnnOi)", container.get(), Py_ssize_t(buffer->getData()), Py_ssize_t(buffer->countPresent()),
                                              file, object.line)));
    }
    return list.release();
  });
}

void addTensorTypes(PyObject *module) {
  if (PyArray_ImportNumPyAPI() < 0) throw PythonError{};
  addBufferType(module);
  static PyGetSetDef properties[] = {
      {"shape", getProperty<Need::Nothing, getShape>, nullptr, "Extents; None for an ndarray after `qd.reset()`.", nullptr},
      {"_live_shape", getProperty<Need::Nothing, getLiveShape>, nullptr, "Extents; raises for an ndarray after `qd.reset()`.", nullptr},
      {"element_shape", getProperty<Need::Nothing, [](TensorObject &object) { return makeElementShape(object.tensor.layout.element); }>,
       nullptr, "Shape of one element: (), (n,) or (n, m).", nullptr},
      {"dtype", getProperty<Need::Nothing, getDtype>, nullptr, "Scalar type of the elements; None for an ndarray after `qd.reset()`.",
       nullptr},
      {"_dtype", getProperty<Need::Nothing, getOwnDtype>, nullptr, "The same, also after `qd.reset()`.", nullptr},
      {"_qd_layout", getProperty<Need::Memory, getLayout>, nullptr, "Where the elements are in memory, as a `ContainerLayout`.", nullptr},
      {"_offset", getProperty<Need::Nothing, getOffset>, nullptr, "Lowest index of each axis, or None.", nullptr},
      {"_is_writable", getProperty<Need::Memory, [](TensorObject &object) { return PyBool_FromLong(object.tensor.buffer->isWritable()); }>,
       nullptr, "Whether its memory may be written to.", nullptr},
      {"_buffer", getProperty<Need::Memory, [](TensorObject &object) { return wrapBuffer(object.tensor.buffer); }>, nullptr,
       "The memory that contains the elements.", nullptr},
      {"_byte_offset", getProperty<Need::Nothing, [](TensorObject &object) { return PyLong_FromLongLong(object.tensor.byteOffset); }>,
       nullptr, "Offset of the first element in the buffer.", nullptr},
      {"_device", getProperty<Need::Memory, getDeviceNumber>, nullptr, "Number of the GPU with the memory, or None.", nullptr},
      {"_has_view", getProperty<Need::Memory, hasView>, nullptr, "Whether NumPy can access the elements in place.", nullptr},
      {"_address", getProperty<Need::Memory, getAddress>, nullptr, "Address of the first element.", nullptr},
      {"_last_launch",
       getProperty<Need::Memory, [](TensorObject &object) { return PyLong_FromUnsignedLongLong(object.tensor.buffer->getLastLaunch()); }>,
       nullptr, "Number of the last launch that may have written to its memory; 0: none.", nullptr},
      {"_state", getProperty<Need::Nothing, getStateName>, nullptr, "'unplaced', 'alive' or 'dead' (after a reset).", nullptr},
      {}};
  static PyMethodDef methods[] = {
      {"view", makeView, METH_NOARGS, "A NumPy array of the same memory, which keeps the memory alive."},
      {"_fetch", fetchElements, METH_VARARGS, "A view, or a copy of memory on a device; of one element, or of all."},
      {"_flush", flushElements, METH_VARARGS, "Write the result of `_fetch` back to a device."},
      {"_try_fill", tryFill, METH_O, "Fill with a number or an element in memory; False when that needs a conversion."},
      {"_try_copy", tryCopy, METH_O, "Copy from a container or array of the same shape and type; False when that needs a conversion."},
      {"_copy_to", copyTo, METH_O, "Copy the bytes to an array of another library on the same device; False if they differ in kind."},
      {"_copy_out", copyOut, METH_NOARGS, "The elements as a new NumPy array; None when that needs a conversion."},
      {"_place", withKeywords(placeTensor), METH_VARARGS | METH_KEYWORDS, "Place a container that was made without a shape in memory."},
      {"_mark_shadow", markShadow, METH_O, "Mark the container as a shadow of another one: 1 its gradient, 2 its tangent."},
      {"_mark_sparse", markSparse, METH_NOARGS, "Let writes of an element call `_activate`, which activates its cell."},
      {"_release", releaseTensor, METH_NOARGS, "Release the memory; views keep theirs."},
      {"_clear", clearTensor, METH_NOARGS, "Set all elements of a sparse field to zero, those of inactive cells, too."},
      {"_give_back", giveBack, METH_VARARGS, "Give memory that holds zeros back if it is mostly free; returns whether it was."},
      {}};
  PyType_Slot slots[] = {
      slot(Py_tp_new, newTensor),
      slot(Py_tp_init, initTensor),
      slot(Py_tp_dealloc, deleteTensor),
      slot(Py_tp_getset, properties),
      slot(Py_tp_methods, methods),
      slot(Py_bf_getbuffer, exportBuffer),
      slot(Py_mp_subscript, getElement),
      slot(Py_mp_ass_subscript, setElement),
      {Py_tp_doc, const_cast<char *>("(dtype, element_shape, shape, strides=None, component_stride=None, buffer=None, "
                                     "byte_offset=0, offset=None, tilings=()): elements in memory. Strides are in bytes.")},
      {}};
  unsigned flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
  fieldType = addType(module, {"quadrants._runtime.FieldBase", sizeof(TensorObject), 0, flags, slots});
  ndarrayType = addType(module, {"quadrants._runtime.NdarrayBase", sizeof(TensorObject), 0, flags, slots});
  static PyMemberDef members[] = {{"_impl", T_OBJECT_EX, offsetof(WrapperObject, impl), READONLY, "The container."}, {}};
  PyType_Slot wrapperSlots[] = {slot(Py_tp_init, initWrapper), slot(Py_tp_dealloc, deleteWrapper), slot(Py_tp_members, members), {}};
  wrapperType =
      addType(module, {"quadrants._runtime.TensorBase", sizeof(WrapperObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, wrapperSlots});
  static PyMethodDef functions[] = {
      {"clear_shadows", clearShadows, METH_O, "Set all gradients (1) or tangents (2) to zero; skip those that are zero."},
      {"list_containers", listTensors, METH_NOARGS, "(container, address, bytes, file or None, line) of each container with memory."},
      {"count_containers", countTensors, METH_NOARGS, "Number of fields and ndarrays with memory."},
      {}};
  PyModule_AddFunctions(module, functions);
  addMemoryRanges(module);
  addSubviews(module);
  addFastMethods(module);
}

} // namespace qd::launch
