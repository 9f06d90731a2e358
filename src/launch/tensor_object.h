// tensor_object.h: the Python side of memory: Buffer, and FieldBase and NdarrayBase, from which the package derives its containers.
#pragma once

#include "launch/python.h"
#include "runtime/tensor.h"

namespace qd::launch {

struct State;

struct BufferObject {
  PyObject_HEAD runtime::BufferRef buffer;
  Py_ssize_t size, address;
};

/// A container. `tensor` is read by launches without a call: its address is fixed for the life of the object.
struct TensorObject {
  PyObject_HEAD runtime::Tensor tensor;
  PyObject *shape;               ///< the extents as a tuple, made when first asked for
  PyObject *code;                ///< function of the user's that allocated the memory, null when unknown,
  int line;                      ///< and the line
  bool isSubview;                ///< of a container that has the memory
  uint8_t shadow;                ///< 1: the gradient of another container, 2: its tangent
  bool isReplaced;               ///< a gradient that the last call of a tape wrote without a look at what it was
  uint64_t clearedAt;            ///< count of its buffer's writes when all elements were zero
  const State *program;          ///< that it was made in, whose reset ends it
  TensorObject *previous, *next; ///< all containers, so that reset reaches them
};

/// A `qd.Tensor`: stands for its container wherever one is expected.
struct WrapperObject {
  PyObject_HEAD PyObject *impl;
};

extern PyTypeObject *bufferType, *fieldType, *ndarrayType, *wrapperType;

/// The container behind a `qd.Tensor`, borrowed from it; any other object as it is.
inline PyObject *unwrap(PyObject *object) {
  PyObject *impl = PyType_IsSubtype(Py_TYPE(object), wrapperType) ? reinterpret_cast<WrapperObject *>(object)->impl : nullptr;
  return impl ? impl : object;
}

inline bool isTensor(PyObject *object) {
  return PyType_IsSubtype(Py_TYPE(object), ndarrayType) || PyType_IsSubtype(Py_TYPE(object), fieldType);
}
inline runtime::Tensor &getTensor(PyObject *object) { return reinterpret_cast<TensorObject *>(object)->tensor; }

/// A block of memory as Python has it; a new reference.
PyObject *wrapBuffer(const runtime::BufferRef &buffer);
void addBufferType(PyObject *module);

/// From the first byte of the elements of a container or an array to the end of the last; empty for other objects.
using MemoryRange = std::pair<const unsigned char *, const unsigned char *>;
MemoryRange getMemoryRange(PyObject *object);
/// The shape of an element as a tuple; a new reference.
PyObject *makeElementShape(const layout::ValueType &element);
/// Whether elements of two containers or NumPy arrays may share memory: by their bounds, of two containers by their layouts, too.
bool mayOverlap(PyObject *a, PyObject *b);

/// All containers, one linked to the next.
TensorObject *getFirstTensor();
/// Whether every byte between the first element and the last belongs to one.
bool isPacked(const runtime::Tensor &tensor);

// shadows.cpp: methods of containers and functions of the module about gradients and tangents.
/// To be called before Python writes to the container, or to the element at `index`; Py_None: anywhere.
void noteHostWrite(PyObject *container, PyObject *index);
/// Whether something looks at the index that `noteHostWrite` is given.
bool isWriteWatched();
PyObject *markShadow(PyObject *self, PyObject *kind);
PyObject *clearShadows(PyObject *module, PyObject *kind);
/// Whether the elements have been set to zero and nothing has written to them since.
bool isZero(const TensorObject &object);
/// Makes the zeros of a stale container true.
void materializeZeros(TensorObject &object);
/// Whether nobody but the container reaches its memory, so that it may be stale.
bool isUniqueOwner(const TensorObject &object);

// data_methods.cpp
PyObject *tryFill(PyObject *self, PyObject *value);
PyObject *tryCopy(PyObject *self, PyObject *other);
PyObject *copyOut(PyObject *self, PyObject *);

void addTensorTypes(PyObject *module);
/// Takes the memory of every container of the current program away; views keep theirs. What it returns may run anything when it goes: the
/// memory of other libraries has owners.
std::vector<runtime::BufferRef> releaseAllTensors();

std::vector<int64_t> readIntegers(PyObject *sequence);
PyObject *makeTuple(const std::vector<int64_t> &values);

/// The elements of a container with memory that integers, slices and an ellipsis choose, as an object of the class that the package has
/// set; its attributes say of which array it is a part, and which elements these are in it. A new reference.
PyObject *makeSubview(PyObject *container, PyObject *key);
void addSubviews(PyObject *module);
[[noreturn]] void refuseRank(const TensorObject &object, int count);
[[noreturn]] void refuseIndex(const TensorObject &object, int axis, int64_t index);

// Slots of element_access.cpp.
PyObject *getElement(PyObject *self, PyObject *key);
int setElement(PyObject *self, PyObject *key, PyObject *value);
/// Gives a field its memory when its tree of nodes waits for the first use; throws what says why another container has none.
void requireAlive(PyObject *container);

} // namespace qd::launch
