// buffer_object.cpp: blocks of memory as Python objects
//
// In:   a size, an array of another library, or an address on a device.
// Out:  a `quadrants._runtime.Buffer` that owns or borrows the memory; containers are placed in it.
#include "launch/containers/external_array.h"
#include "launch/containers/tensor_object.h"
#include "launch/containers/transfer.h"
#include "launch/numpy.h"
#include "launch/state.h"

#include "support/error.h"

#include <cstddef>
#include <new>
#include <structmember.h>

namespace qd::launch {

using support::Error;
using support::ErrorKind;

PyTypeObject *bufferType;

PyObject *wrapBuffer(const runtime::BufferRef &buffer) {
  auto *object = PyObject_New(BufferObject, bufferType);
  if (!object) throw PythonError{};
  new (&object->buffer) runtime::BufferRef(buffer);
  object->size = Py_ssize_t(buffer->getSize());
  object->address = Py_ssize_t(buffer->getData());
  return reinterpret_cast<PyObject *>(object);
}

static PyObject *newBuffer(PyTypeObject *, PyObject *args, PyObject *) {
  return guard([&]() -> PyObject * {
    Py_ssize_t bytes;
    int isHost = 0, isReserved = 0;
    if (!PyArg_ParseTuple(args, "n|pp:Buffer", &bytes, &isHost, &isReserved)) return nullptr;
    if (bytes < 0) throw Error(ErrorKind::Value, "a buffer cannot have a negative size");
    return wrapBuffer(isHost ? runtime::Buffer::allocate(size_t(bytes)) : allocateBuffer(size_t(bytes), isReserved));
  });
}

/// Buffer.borrow(array): returns (the memory of a NumPy array as a buffer that keeps the array alive, offset of the array's first element
/// in it).
static PyObject *borrowBuffer(PyObject *, PyObject *object) {
  return guard([&]() -> PyObject * {
    ExternalArray array;
    if (!PyArray_Check(object) || !readExternal(object, array)) throwPython(PyExc_TypeError, "borrow takes a NumPy array");
    int64_t begin = 0, end = int64_t(PyArray_ITEMSIZE(reinterpret_cast<PyArrayObject *>(object)));
    for (int axis = 0; axis < array.rank; ++axis)
      if (array.extents[axis] > 0) (array.strides[axis] < 0 ? begin : end) += array.strides[axis] * (array.extents[axis] - 1);
    auto giveBack = [](void *owner) { Py_DECREF(static_cast<PyObject *>(owner)); };
    // Kernels assume that elements of different indices that they write do not share memory.
    bool isWritable = array.isWritable && !array.hasSharedElements();
    runtime::BufferRef buffer = runtime::Buffer::borrow(array.data + begin, size_t(end - begin), isWritable, Py_NewRef(object), giveBack);
    return Py_BuildValue("(NL)", wrapBuffer(buffer), static_cast<long long>(-begin));
  });
}

/// Buffer.borrow_device(address, bytes, owner, writable): memory on the runtime's device that `owner` owns.
static PyObject *borrowDevice(PyObject *, PyObject *args) {
  return guard([&]() -> PyObject * {
    unsigned long long address;
    Py_ssize_t bytes;
    PyObject *owner;
    int isWritable;
    if (!PyArg_ParseTuple(args, "KnOp:borrow_device", &address, &bytes, &owner, &isWritable)) return nullptr;
    std::shared_ptr<runtime::DeviceMemory> memory = getState().memory;
    if (!memory) throw Error(ErrorKind::Value, "the runtime has no device with separate memory");
    auto giveBack = [](void *object) { Py_DECREF(static_cast<PyObject *>(object)); };
    return wrapBuffer(
        runtime::Buffer::borrow(reinterpret_cast<void *>(address), size_t(bytes), isWritable, Py_NewRef(owner), giveBack, memory));
  });
}

static runtime::Buffer &getBuffer(PyObject *self) { return *reinterpret_cast<BufferObject *>(self)->buffer.get(); }

static PyObject *countPresent(PyObject *self, PyObject *) {
  return guard([&] { return PyLong_FromSize_t(getBuffer(self).countPresent()); });
}

static PyObject *isReserved(PyObject *self, PyObject *) { return PyBool_FromLong(getBuffer(self).isReserved()); }

static void deleteBuffer(PyObject *self) {
  reinterpret_cast<BufferObject *>(self)->buffer.~BufferRef();
  PyTypeObject *type = Py_TYPE(self);
  PyObject_Free(self);
  Py_DECREF(type);
}

void addBufferType(PyObject *module) {
  static PyMemberDef bufferMembers[] = {{"nbytes", T_PYSSIZET, offsetof(BufferObject, size), READONLY, "Size in bytes."},
                                        {"address", T_PYSSIZET, offsetof(BufferObject, address), READONLY, "Address of the first byte."},
                                        {}};
  static PyMethodDef bufferMethods[] = {
      {"borrow", borrowBuffer, METH_O | METH_STATIC, "Memory of a NumPy array, and the offset of the first element in it."},
      {"count_present", countPresent, METH_NOARGS, "Number of bytes that the system has provided."},
      {"is_reserved", isReserved, METH_NOARGS, "Whether the system provides the memory at the first access."},
      {"borrow_device", borrowDevice, METH_VARARGS | METH_STATIC, "Memory on the GPU: address, bytes, the object that owns it, writable."},
      {}};
  PyType_Slot bufferSlots[] = {
      slot(Py_tp_new, newBuffer),
      slot(Py_tp_methods, bufferMethods),
      slot(Py_tp_dealloc, deleteBuffer),
      slot(Py_tp_members, bufferMembers),
      {Py_tp_doc, const_cast<char *>("(bytes, host=False, reserved=False): zeroed, aligned memory that several containers and views may "
                                     "share; reserved memory is provided at the first access.")},
      {}};
  bufferType = addType(module, {"quadrants._runtime.Buffer", sizeof(BufferObject), 0, Py_TPFLAGS_DEFAULT, bufferSlots});
}

} // namespace qd::launch
