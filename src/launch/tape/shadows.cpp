// shadows.cpp: gradients and tangents of containers; a tape sets all gradients to zero when it begins
//
// In:   containers marked as shadows, and notes of writes from Python.
// Out:  cleared shadows. Every buffer counts the writes through this package, so a gradient that was not written since it was zero needs no
// clearing. A gradient that the last call of a tape will overwrite is marked as lazily zeroed: zeros are stored only if other code reads it
// first.
#include "launch/capture.h"
#include "launch/containers/tensor_object.h"
#include "launch/state.h"
#include "launch/tape/tape_context.h"
#include "runtime/copy.h"

#include <vector>

namespace qd::launch {

using runtime::Buffer;

static uint8_t readKind(PyObject *kind) {
  long value = PyLong_AsLong(kind);
  if (value == -1 && PyErr_Occurred()) throw PythonError{};
  return uint8_t(value);
}

PyObject *markShadow(PyObject *self, PyObject *kind) {
  return guard([&]() -> PyObject * {
    tensorObject(self).shadow = readKind(kind);
    Py_RETURN_NONE;
  });
}

void noteHostWrite(PyObject *container, PyObject *index) {
  getTensor(container).buffer->noteWrite();
  TapeContext::noteWrite(container, index);
}

bool isWriteWatched() { return TapeContext::isAnyActive(); }

bool isZero(const TensorObject &object) {
  if (object.tensor.state == runtime::Tensor::State::LazilyZeroed) return true;
  uint64_t writes = object.tensor.buffer->getWrites();
  return writes == object.clearedAt && writes != Buffer::kUncounted;
}

/// Sets all elements to zero; false when the elements are not packed.
static bool tryClear(TensorObject &object) {
  const runtime::Tensor &tensor = object.tensor;
  auto size = size_t(tensor.range.end - tensor.range.begin);
  if (!isPacked(tensor) && !object.isSparse) return false;
  unsigned char *data = tensor.data + tensor.range.begin;
  auto *block = static_cast<unsigned char *>(tensor.buffer->getData());
  if (runtime::DeviceMemory *memory = tensor.buffer->getMemory())
    memory->fill(data, 0, size);
  else
    for (auto [begin, end] : tensor.buffer->listPresent(size_t(data - block), size_t(data - block) + size))
      runtime::clearMemory(block + begin, end - begin);
  return true;
}

bool isUniqueOwner(const TensorObject &object) {
  const runtime::BufferRef &buffer = object.tensor.buffer;
  return !object.isSubview && buffer->hasOneOwner() && buffer->getWrites() != Buffer::kUncounted && isPacked(object.tensor);
}

/// The containers whose elements are in a buffer.
static std::vector<TensorObject *> listContainers(const runtime::BufferRef &buffer) {
  std::vector<TensorObject *> found;
  for (TensorObject *object = getFirstTensor(); object; object = object->next)
    if (object->tensor.buffer.get() == buffer.get()) found.push_back(object);
  return found;
}

PyObject *giveBack(PyObject *self, PyObject *args) {
  return guard([&]() -> PyObject * {
    unsigned long long used, most;
    if (!PyArg_ParseTuple(args, "KK:_give_back", &used, &most)) return nullptr;
    const runtime::BufferRef buffer = getTensor(self).buffer;
    if (!buffer || buffer->isVacant() || !buffer->isMostlyFree(size_t(used), size_t(most))) Py_RETURN_FALSE;
    if (!buffer->getMemory()) {
      buffer->discard();
      Py_RETURN_TRUE;
    }
    if (TapeContext::isAnyActive()) Py_RETURN_FALSE;
    std::vector<TensorObject *> containers = listContainers(buffer);
    // A tape may have kept what the memory held, and another thread may have a kernel that runs.
    if (buffer->countOwners() != int64_t(containers.size()) + 1) Py_RETURN_FALSE;
    for (TensorObject *container : containers) container->tensor.markLazilyZeroed();
    buffer->vacate();
    Py_RETURN_TRUE;
  });
}

void materializeZeros(TensorObject &object) {
  if (const runtime::BufferRef buffer = object.tensor.buffer; buffer->isVacant()) {
    buffer->provide();
    buffer->noteWrite();
    for (TensorObject *container : listContainers(buffer)) {
      container->tensor.markAlive();
      container->clearedAt = buffer->getWrites();
    }
    return;
  }
  object.tensor.markAlive();
  object.isReplaced = false;
  tryClear(object);
  object.tensor.buffer->noteWrite();
  object.clearedAt = object.tensor.buffer->getWrites();
}

PyObject *clearTensor(PyObject *self, PyObject *) {
  return guard([&]() -> PyObject * {
    Capture::refuse("setting the gradients of a sparse field to zero");
    TensorObject &object = tensorObject(self);
    noteHostWrite(self, Py_None);
    if (object.tensor.state != runtime::Tensor::State::LazilyZeroed) tryClear(object);
    object.clearedAt = object.tensor.buffer->getWrites();
    Py_RETURN_NONE;
  });
}

PyObject *clearShadows(PyObject *, PyObject *kindObject) {
  return guard([&]() -> PyObject * {
    Capture::refuse("entering a tape");
    uint8_t kind = readKind(kindObject);
    std::vector<Ref> scattered; // filled after the walk, because filling may run any Python code
    for (TensorObject *object = getFirstTensor(); object; object = object->next) {
      auto *self = reinterpret_cast<PyObject *>(object);
      if (object->shadow != kind || object->program != &getState() || object->tensor.state != runtime::Tensor::State::Alive ||
          Py_REFCNT(self) == 0 || isZero(*object))
        continue;
      if (object->isReplaced && isUniqueOwner(*object)) {
        object->tensor.markLazilyZeroed();
        continue;
      }
      if (tryClear(*object))
        object->clearedAt = object->tensor.buffer->getWrites();
      else
        scattered.push_back(Ref::borrow(self));
    }
    Ref zero = Ref::adopt(PyLong_FromLong(0));
    for (Ref &container : scattered) {
      Ref::adopt(PyObject_CallMethod(container.get(), "fill", "O", zero.get()));
      TensorObject &object = tensorObject(container.get());
      if (!object.tensor.buffer) continue; // the runtime was reset meanwhile
      object.clearedAt = object.tensor.buffer->getWrites();
    }
    Py_RETURN_NONE;
  });
}

} // namespace qd::launch
