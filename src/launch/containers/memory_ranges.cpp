// memory_ranges.cpp: which containers and arrays share memory
//
// In:   containers, and arrays of other libraries.
// Out:  whether elements of two of them may be the same. Compares the bounds of their memory, and for two containers also their layouts.
#include "launch/containers/external_array.h"
#include "launch/containers/tensor_object.h"
#include "launch/numpy.h"

#include <algorithm>
#include <set>
#include <vector>

namespace qd::launch {

using runtime::Tensor;

MemoryRange getMemoryRange(PyObject *object) {
  if (isTensor(object)) {
    const Tensor &tensor = getTensor(object);
    if (!tensor.data) return {}; // its program has ended
    return {tensor.data + tensor.range.begin, tensor.data + tensor.range.end};
  }
  ExternalArray array;
  return readExternal(object, array) ? array.getRange() : std::pair<unsigned char *, unsigned char *>();
}

bool mayOverlap(PyObject *a, PyObject *b) {
  auto first = getMemoryRange(a), second = getMemoryRange(b);
  if (first.first >= second.second || second.first >= first.second) return false;
  return !isTensor(a) || !isTensor(b) || mayOverlap(getTensor(a), getTensor(b));
}

static PyObject *overlap(PyObject *, PyObject *args) {
  return guard([&]() -> PyObject * {
    PyObject *objects[2];
    if (!PyArg_ParseTuple(args, "OO:may_overlap", &objects[0], &objects[1])) return nullptr;
    Ref arrays[2];
    for (int i = 0; i < 2; ++i) {
      if (isTensor(objects[i]) && !getTensor(objects[i]).data) Py_RETURN_FALSE;
      ExternalArray array;
      bool isSeen = isTensor(objects[i]) || readExternal(objects[i], array);
      arrays[i] = isSeen ? Ref::borrow(objects[i]) : Ref::adopt(PyArray_FROM_O(objects[i]));
    }
    return PyBool_FromLong(mayOverlap(arrays[0].get(), arrays[1].get()));
  });
}

static PyObject *listShared(PyObject *, PyObject *sequence) {
  return guard([&]() -> PyObject * {
    Ref objects = Ref::adopt(PySequence_Fast(sequence, "list_shared takes a list"));
    struct Entry {
      MemoryRange range;
      PyObject *object;
      Py_ssize_t number;
    };
    std::vector<Entry> entries;
    std::set<Py_ssize_t> shared;
    if (!objects) return nullptr;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(objects.get()); ++i) {
      PyObject *object = PySequence_Fast_GET_ITEM(objects.get(), i);
      ExternalArray array;
      if (isTensor(object) && !getTensor(object).data) continue;
      if (isTensor(object) || readExternal(object, array))
        entries.push_back({getMemoryRange(object), object, i});
      else
        shared.insert(i); // its memory is not allocated yet
    }
    std::sort(entries.begin(), entries.end(), [](const Entry &a, const Entry &b) { return a.range < b.range; });
    for (size_t i = 0; i < entries.size(); ++i)
      for (size_t k = i + 1; k < entries.size() && entries[k].range.first < entries[i].range.second; ++k)
        if (mayOverlap(entries[i].object, entries[k].object)) shared.insert({entries[i].number, entries[k].number});
    Ref numbers = Ref::adopt(PyList_New(0));
    for (Py_ssize_t number : shared) {
      Ref value = Ref::adopt(PyLong_FromSsize_t(number));
      if (PyList_Append(numbers.get(), value.get()) != 0) return nullptr;
    }
    return numbers.release();
  });
}

void addMemoryRanges(PyObject *module) {
  static PyMethodDef functions[] = {
      {"may_overlap", overlap, METH_VARARGS, "Whether elements of two containers or arrays may share memory."},
      {"list_shared", listShared, METH_O, "Indices of the containers and arrays of a list that may share memory with another one in it."},
      {}};
  PyModule_AddFunctions(module, functions);
}

} // namespace qd::launch
