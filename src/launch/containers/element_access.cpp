// element_access.cpp: container[index] from Python
//
// Complete indices of scalar containers are read and written here, always checked against the shape. Elements that are vectors are passed
// to the subclass's `_element(index)` / `_set_element(index, value)`. Other keys make subviews; `_assign(value)` of a subview writes
// through it.
//
// Indices and values may be objects whose methods run any code, including qd.reset(). Therefore all of them are converted to numbers before
// the memory is read, and no Python code runs until the access is done.
#include "launch/capture.h"
#include "launch/containers/data_type.h"
#include "launch/containers/tensor_object.h"
#include "launch/containers/transfer.h"

#include "support/error.h"

#include <cstring>
#include <string>

namespace qd::launch {

static constexpr int kMaxRank = 64;

namespace {
struct Key {
  int rank = 0;
  int64_t index[kMaxRank];
};

/// Appends a Python int or an object with `__index__`; false for anything else.
bool addIndex(Key &key, PyObject *item) {
  if (key.rank == kMaxRank || PyBool_Check(item) || !PyIndex_Check(item)) return false;
  Ref number = PyLong_Check(item) ? Ref::borrow(item) : Ref::adopt(PyNumber_Index(item));
  int overflow;
  int64_t index = PyLong_AsLongLongAndOverflow(number.get(), &overflow);
  key.index[key.rank++] = overflow ? (overflow < 0 ? INT64_MIN : INT64_MAX) : index;
  return true;
}

/// Whether the key is a plain index.
bool readKey(Key &key, PyObject *object) {
  if (object == Py_None) return true;
  if (!PyTuple_Check(object) && !PyList_Check(object)) return addIndex(key, object);
  // Converting an index may change the list.
  Ref items = PyTuple_Check(object) ? Ref::borrow(object) : Ref::adopt(PyList_AsTuple(object));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i)
    if (!addIndex(key, PyTuple_GET_ITEM(items.get(), i))) return false;
  return true;
}
} // namespace

[[noreturn]] static void refuseKey(const TensorObject &object, const std::string &text) {
  if (!object.tensor.isField) throwPython(importAttribute("quadrants._base.errors", "QuadrantsIndexError").get(), "%s", text.c_str());
  // Programs search messages for the words in brackets.
  bool hasAxes = object.tensor.layout.rank() > 0;
  throw support::Error(support::ErrorKind::Bounds, hasAxes ? text + " (Slicing is not supported on qd.field in this way)" : text);
}

void refuseRank(const TensorObject &object, int count) {
  int rank = object.tensor.layout.rank();
  std::string text =
      std::to_string(rank) + "d " + (object.tensor.isField ? "field" : "ndarray") + " indexed with " + std::to_string(count) + "d indices";
  refuseKey(object, rank ? text : text + "; its one element is [None]");
}

static std::string joinNumbers(const int64_t *values, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text.append(i ? ", " : "").append(std::to_string(values[i]));
  return text;
}

/// Refuses to assign to an index that leaves axes open: that needs slices.
[[noreturn]] static void refusePart(const TensorObject &object, const Key &key) {
  std::string row = joinNumbers(key.index, key.rank);
  for (int axis = key.rank; axis < object.tensor.layout.rank(); ++axis) row += ", :";
  refuseKey(object, "index [" + joinNumbers(key.index, key.rank) + "] leaves axes open; one value for all elements there is written to [" +
                        row + "]");
}

[[noreturn]] static void refuseBounds(const TensorObject &object, const Key &key) {
  const std::vector<int64_t> &extents = object.tensor.layout.extents;
  std::string comma = extents.size() == 1 ? "," : "";
  std::string shape = joinNumbers(extents.data(), int(extents.size())), index = joinNumbers(key.index, key.rank);
  std::string offset;
  const std::vector<int64_t> &origin = object.tensor.layout.origin;
  if (!origin.empty()) offset = " offset (" + joinNumbers(origin.data(), int(origin.size())) + comma + ")";
  if (object.tensor.isField)
    throw support::Error(support::ErrorKind::Bounds, "Accessing field of size (" + shape + ")" + offset + " with indices (" + index +
                                                         "): index [" + index + "] out of range for shape (" + shape + comma + ")");
  throw support::Error(support::ErrorKind::Bounds, "index [" + index + "] out of range for shape (" + shape + comma + ")");
}

void refuseIndex(const TensorObject &object, int axis, int64_t index) {
  int64_t extent = object.tensor.layout.extents[size_t(axis)];
  throw support::Error(support::ErrorKind::Bounds, "index " + std::to_string(index) + " is out of range for axis " + std::to_string(axis) +
                                                       " with " + std::to_string(extent) + " elements");
}

/// Address of the element; throws for a wrong number of indices, or indices out of range.
static unsigned char *findElement(const TensorObject &object, const Key &key) {
  const runtime::Tensor &tensor = object.tensor;
  if (key.rank != tensor.layout.rank()) refuseRank(object, key.rank);
  int64_t place[kMaxRank];
  for (int axis = 0; axis < key.rank; ++axis) {
    place[axis] = key.index[axis];
    if (!tensor.layout.origin.empty() && __builtin_sub_overflow(place[axis], tensor.layout.origin[size_t(axis)], &place[axis]))
      refuseBounds(object, key);
    if (uint64_t(place[axis]) >= uint64_t(tensor.layout.extents[size_t(axis)])) refuseBounds(object, key);
  }
  return tensor.data + layout::computeOffset(tensor.layout, place);
}

/// Does the same for the most frequent keys, None and one Python int; null for all that need more than a comparison, errors included.
static unsigned char *findPlain(const runtime::Tensor &tensor, PyObject *key) {
  const layout::TensorLayout &layout = tensor.layout;
  if (key == Py_None) return layout.extents.empty() ? tensor.data : nullptr;
  if (!PyLong_CheckExact(key) || layout.extents.size() != 1 || !layout.origin.empty() || !layout.tilings.empty()) return nullptr;
  int overflow;
  int64_t index = PyLong_AsLongLongAndOverflow(key, &overflow);
  return !overflow && uint64_t(index) < uint64_t(layout.extents[0]) ? tensor.data + index * layout.strides[0] : nullptr;
}

/// The indices as plain integers, whose conversion runs no Python code.
static Ref makeKey(const Key &key) { return Ref::adopt(makeTuple({key.index, size_t(key.rank)})); }

/// The index of the element in the array that `view` returns.
static Ref makeIndex(const TensorObject &object, const Key &key) {
  Key own = key;
  for (size_t axis = 0; axis < object.tensor.layout.origin.size(); ++axis) own.index[axis] -= object.tensor.layout.origin[axis];
  return makeKey(own);
}

/// Whether an index leaves axes open.
static bool isPart(const TensorObject &object, const Key &key) { return key.rank > 0 && key.rank < object.tensor.layout.rank(); }

PyObject *getElement(PyObject *self, PyObject *keyObject) {
  return guard([&]() -> PyObject * {
    const auto &object = tensorObject(self);
    if (!object.tensor.data) {
      provideMemory(self);
    } else if (!Capture::isRecording() && object.tensor.layout.element.rank == 0 && !isQuantized(object.tensor) &&
               !object.tensor.buffer->getMemory()) {
      if (unsigned char *address = findPlain(object.tensor, keyObject)) return readScalar(object.tensor.layout.element.scalar, address);
    }
    Key key;
    if (!readKey(key, keyObject) || isPart(object, key)) return makeSubview(self, keyObject);
    if (!object.tensor.data || Capture::isRecording()) requireAlive(self);
    unsigned char *address = findElement(object, key);
    if (object.tensor.layout.element.rank == 0 && !isQuantized(object.tensor)) {
      support::ScalarType type = object.tensor.layout.element.scalar;
      runtime::DeviceMemory *memory = object.tensor.buffer->getMemory();
      if (!memory) return readScalar(type, address);
      uint64_t value;
      readMemory(*memory, &value, address, getByteSize(type));
      return readScalar(type, &value);
    }
    return PyObject_CallMethod(self, "_element", "(O)", makeIndex(object, key).get());
  });
}

int setElement(PyObject *self, PyObject *keyObject, PyObject *value) {
  return guard(-1, [&] {
    const auto &object = tensorObject(self);
    if (!value) throwPython(PyExc_TypeError, "elements of a container cannot be deleted");
    if (!object.tensor.data || Capture::isRecording()) requireAlive(self);
    if (!object.tensor.buffer->isWritable()) throw support::Error(support::ErrorKind::Value, "the memory of the container is read-only");
    Key key;
    bool isIndex = readKey(key, keyObject);
    if (!isIndex || isPart(object, key)) {
      Ref subview = Ref::adopt(makeSubview(self, keyObject));
      Ref isTaken = Ref::adopt(PyObject_CallMethod(subview.get(), isIndex ? "_assign_row" : "_assign", "O", value));
      if (isTaken.get() == Py_False) refusePart(object, key);
      return 0;
    }
    bool isScalar = object.tensor.layout.element.rank == 0 && !isQuantized(object.tensor);
    uint64_t converted;
    if (!object.tensor.data) requireAlive(self);
    unsigned char *address = findElement(object, key); // a wrong index is reported before a wrong value
    if (object.isSparse) {
      Ref::adopt(PyObject_CallMethod(self, "_activate", "(O)", makeKey(key).get()));
      if (!object.tensor.data) requireAlive(self);
      address = findElement(object, key);
    }
    runtime::DeviceMemory *memory = object.tensor.buffer->getMemory();
    bool runsNothing = !isWriteWatched() && (PyFloat_CheckExact(value) || PyLong_CheckExact(value) || PyBool_Check(value));
    if (isScalar && runsNothing && !memory) {
      writeScalar(object.tensor.layout.element.scalar, address, value);
      object.tensor.buffer->noteWrite();
      return 0;
    }
    if (isScalar) writeScalar(object.tensor.layout.element.scalar, &converted, value);
    if (!object.tensor.data) requireAlive(self);
    noteHostWrite(self, !isWriteWatched() || PyLong_CheckExact(keyObject) ? keyObject : makeKey(key).get());
    if (!isScalar) {
      Ref::adopt(PyObject_CallMethod(self, "_set_element", "OO", makeIndex(object, key).get(), value));
      return 0;
    }
    if (!object.tensor.data) requireAlive(self); // Python code has observed the write
    address = findElement(object, key), memory = object.tensor.buffer->getMemory();
    size_t bytes = getByteSize(object.tensor.layout.element.scalar);
    if (memory)
      writeMemory(*memory, address, &converted, bytes);
    else
      memcpy(address, &converted, bytes);
    return 0;
  });
}

} // namespace qd::launch
