// tensor_object.h: memory as Python objects: Buffer, and FieldBase and NdarrayBase, the base classes of the package's containers.
#pragma once

#include "launch/python.h"
#include "runtime/tensor.h"

#include <span>

namespace qd::launch {

struct State;

struct BufferObject {
  PyObject_HEAD runtime::BufferRef buffer;
  Py_ssize_t size, address;
};

/// A container. Launches read `tensor` without a call: its address is fixed for the life of the object.
struct TensorObject {
  PyObject_HEAD runtime::Tensor tensor;
  PyObject *shape;               ///< the extents as a tuple, made on request
  PyObject *code;                ///< user function that allocated the memory, null when unknown
  int line;                      ///< line of the allocation
  bool isSparse;                 ///< a write of an element activates a cell
  bool isSubview;                ///< a subview; another container owns the memory
  uint8_t shadow;                ///< 1: the gradient of another container, 2: its tangent
  bool isReplaced;               ///< a gradient that the last call of a tape overwrote without reading it
  uint64_t clearedAt;            ///< write count of its buffer when all elements were zero
  const State *program;          ///< program in which it was made; its reset ends the container
  TensorObject *previous, *next; ///< list of all containers, for reset
};

/// A `qd.Tensor`: accepted wherever its container is.
struct WrapperObject {
  PyObject_HEAD PyObject *impl;
};

extern PyTypeObject *bufferType, *fieldType, *ndarrayType, *wrapperType;

/// The container of a `qd.Tensor`, borrowed from it; any other object unchanged.
inline PyObject *unwrap(PyObject *object) {
  PyObject *impl = PyType_IsSubtype(Py_TYPE(object), wrapperType) ? reinterpret_cast<WrapperObject *>(object)->impl : nullptr;
  return impl ? impl : object;
}

inline bool isTensor(PyObject *object) {
  return PyType_IsSubtype(Py_TYPE(object), ndarrayType) || PyType_IsSubtype(Py_TYPE(object), fieldType);
}
/// Whether the elements are parts of words of another container: no memory has this layout (`_quantized/fields.py`).
inline bool isQuantized(const runtime::Tensor &tensor) { return tensor.layout.componentStride == 0; }
inline TensorObject &tensorObject(PyObject *object) { return *reinterpret_cast<TensorObject *>(object); }
inline runtime::Tensor &getTensor(PyObject *object) { return tensorObject(object).tensor; }

/// A Python object for a block of memory; a new reference.
PyObject *wrapBuffer(const runtime::BufferRef &buffer);
void addBufferType(PyObject *module);

/// Range from the first byte of the elements of a container or array to the end of the last; empty for other objects.
using MemoryRange = std::pair<const unsigned char *, const unsigned char *>;
MemoryRange getMemoryRange(PyObject *object);
/// The shape of an element as a tuple; a new reference.
PyObject *makeElementShape(const layout::ValueType &element);
/// Whether elements of two containers or NumPy arrays may share memory. Compares bounds, and for two containers also layouts.
bool mayOverlap(PyObject *a, PyObject *b);
void addMemoryRanges(PyObject *module);

/// The first of all containers, which are linked by `next`.
TensorObject *getFirstTensor();

// shadows.cpp: methods of containers and functions of the module about gradients and tangents.
/// Must be called before Python writes to the element at `index`; Py_None: to any element.
void noteHostWrite(PyObject *container, PyObject *index);
/// Whether any observer uses the index that is passed to `noteHostWrite`.
bool isWriteWatched();
PyObject *markShadow(PyObject *self, PyObject *kind);
/// Sets all elements of a sparse container to zero, those of inactive cells, too.
PyObject *clearTensor(PyObject *self, PyObject *);
PyObject *clearShadows(PyObject *module, PyObject *kind);
/// Whether the elements were set to zero and not written since.
bool isZero(const TensorObject &object);
/// Gives the memory of a container whose elements are all zero back if it is mostly free, as Buffer::isMostlyFree says; returns whether. On
/// a device only containers may use the memory. They are lazily zeroed, and have other memory after that.
PyObject *giveBack(PyObject *self, PyObject *args);
/// Fills a lazily zeroed container with zeros.
void materializeZeros(TensorObject &object);
/// Whether only this container refers to its memory, so that it may be lazily zeroed.
bool isUniqueOwner(const TensorObject &object);

// array_views.cpp
PyObject *makeView(PyObject *self, PyObject *);
PyObject *fetchElements(PyObject *self, PyObject *arguments);
PyObject *flushElements(PyObject *self, PyObject *arguments);
int exportBuffer(PyObject *self, Py_buffer *out, int flags);
/// Whether every byte between the first element and the last belongs to an element.
bool isPacked(const runtime::Tensor &tensor);

// data_methods.cpp
PyObject *tryFill(PyObject *self, PyObject *value);
PyObject *tryCopy(PyObject *self, PyObject *other);
PyObject *copyTo(PyObject *self, PyObject *array);
PyObject *copyOut(PyObject *self, PyObject *);
/// Sets every component to a number; false when `value` is no number, or when the memory of a device does not allow it.
bool fillWithNumber(PyObject *self, PyObject *value);
/// Copies the elements of a container whose packed elements have the same layout; false when `other` is none.
bool copyPlainContainer(PyObject *self, PyObject *other);
/// Copies the elements of a container or array of the same shape and type; false when they need a conversion.
bool copyUnconverted(PyObject *self, PyObject *other);
/// The elements as a new NumPy array; empty for elements on a device, and for types that NumPy does not have.
Ref copyToNumpy(PyObject *self);

void addFastMethods(PyObject *module);

void addTensorTypes(PyObject *module);
/// Removes the memory of every container of the current program; views keep theirs. Destroying the result may run any Python code, because
/// memory of other libraries has owners.
std::vector<runtime::BufferRef> releaseAllTensors();

std::vector<int64_t> readIntegers(PyObject *sequence);
PyObject *makeTuple(std::span<const int64_t> values);

/// A subview with the elements that integers, slices and an ellipsis choose, as an object of the class that the package registered. Its
/// attributes name the container and the position of these elements in it. A new reference.
PyObject *makeSubview(PyObject *container, PyObject *key);
void addSubviews(PyObject *module);
[[noreturn]] void refuseRank(const TensorObject &object, int count);
[[noreturn]] void refuseIndex(const TensorObject &object, int axis, int64_t index);

// Slots of element_access.cpp.
PyObject *getElement(PyObject *self, PyObject *key);
int setElement(PyObject *self, PyObject *key, PyObject *value);
/// Allocates the memory of a field whose tree of nodes is allocated on first use; for other containers without memory, throws an error with
/// the reason.
void provideMemory(PyObject *container);
/// Does the same before the host reads or writes elements.
void requireAlive(PyObject *container);

} // namespace qd::launch
