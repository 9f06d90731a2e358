// subviews.cpp: container[key] with slices, or with fewer integers than axes
//
// In:   a container with memory and a key.
// Out:  the chosen elements as a container on the same memory, with its position in the original one.
#include "launch/containers/tensor_object.h"

#include "support/error.h"

#include <algorithm>
#include <vector>

namespace qd::launch {

using runtime::Tensor;

static PyTypeObject *subviewType;

namespace {

/// The part of a key for one axis.
struct AxisChoice {
  int64_t start = 0, step = 1, count = 0;
  bool isDropped = false; ///< one index: the subview has no such axis
};

/// A bound of a slice, clamped to [lowest, highest]. Without an origin negative bounds count from the end; with one they are indices.
int64_t clampBound(Py_ssize_t bound, int64_t origin, bool hasOrigin, int64_t extent, int64_t lowest, int64_t highest) {
  int64_t place;
  if (!hasOrigin)
    place = bound < 0 ? bound + extent : bound;
  else if (__builtin_sub_overflow(bound, origin, &place))
    place = bound < origin ? INT64_MIN : INT64_MAX;
  return std::clamp(place, lowest, highest);
}

AxisChoice chooseSlice(PyObject *slice, int64_t origin, bool hasOrigin, int64_t extent) {
  Py_ssize_t first, last, step;
  if (PySlice_Unpack(slice, &first, &last, &step) < 0) throw PythonError{};
  auto *bounds = reinterpret_cast<PySliceObject *>(slice);
  bool isBackward = step < 0;
  int64_t lowest = isBackward ? -1 : 0, highest = isBackward ? extent - 1 : extent;
  auto place = [&](PyObject *given, Py_ssize_t bound, int64_t missing) {
    return given == Py_None ? missing : clampBound(bound, origin, hasOrigin, extent, lowest, highest);
  };
  int64_t start = place(bounds->start, first, isBackward ? highest : lowest);
  int64_t stop = place(bounds->stop, last, isBackward ? lowest : highest);
  int64_t distance = isBackward ? start - stop : stop - start;
  AxisChoice choice{.start = std::max<int64_t>(start, 0), .step = step};
  if (distance > 0) choice.count = (distance - 1) / (isBackward ? -step : step) + 1;
  if (choice.count <= 1) choice.step = 1; // the step has no effect, and its product with a stride must not overflow
  return choice;
}

AxisChoice chooseIndex(const TensorObject &object, int axis, PyObject *item, int64_t origin, int64_t extent) {
  int overflow;
  int64_t index = PyLong_AsLongLongAndOverflow(Ref::adopt(PyNumber_Index(item)).get(), &overflow), place;
  if (overflow || __builtin_sub_overflow(index, origin, &place) || uint64_t(place) >= uint64_t(extent)) refuseIndex(object, axis, index);
  return {.start = place, .count = 1, .isDropped = true};
}

std::vector<AxisChoice> chooseAxes(const TensorObject &object, PyObject *key) {
  const layout::TensorLayout &layout = object.tensor.layout;
  // A separate tuple, because converting an index may change the list.
  Ref own = PyList_Check(key) ? Ref::adopt(PyList_AsTuple(key)) : PyTuple_Check(key) ? Ref::borrow(key) : makeTuple(&key, 1);
  PyObject *const *items = PySequence_Fast_ITEMS(own.get());
  Py_ssize_t count = PyTuple_GET_SIZE(own.get()), rank = layout.rank();
  Py_ssize_t ellipses = std::count(items, items + count, Py_Ellipsis);
  if (ellipses > 1 || count - ellipses > rank) refuseRank(object, int(count - ellipses));
  std::vector<AxisChoice> choices;
  auto takeWhole = [&](Py_ssize_t axes) {
    while (axes-- > 0) choices.push_back({.count = layout.extents[choices.size()]});
  };
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject *item = items[i];
    if (item == Py_Ellipsis) {
      takeWhole(rank - (count - 1));
      continue;
    }
    size_t axis = choices.size();
    int64_t origin = layout.origin.empty() ? 0 : layout.origin[axis], extent = layout.extents[axis];
    if (PySlice_Check(item))
      choices.push_back(chooseSlice(item, origin, !layout.origin.empty(), extent));
    else if (PyIndex_Check(item) && !PyBool_Check(item))
      choices.push_back(chooseIndex(object, int(axis), item, origin, extent));
    else
      throwPython(PyExc_TypeError, "Detected illegal element of type: %s. Please be aware that slicing a qd.%s takes integers and slices",
                  Py_TYPE(item)->tp_name, object.tensor.isField ? "field" : "ndarray");
  }
  takeWhole(rank - Py_ssize_t(choices.size()));
  return choices;
}

PyObject *getName(const char *text) { return PyUnicode_InternFromString(text); }

void setAttribute(PyObject *object, PyObject *name, const Ref &value) {
  if (PyObject_SetAttr(object, name, value.get()) < 0) throw PythonError{};
}

} // namespace

static void fillSubview(PyObject *made, PyObject *container, PyObject *key) {
  static PyObject *const kArray = getName("arr"), *const kOffset = getName("offset"), *const kStrides = getName("strides"),
                         *const kParent = getName("_parent"), *const kKey = getName("_key");
  const auto &object = tensorObject(container);
  const Tensor &whole = object.tensor;
  if (whole.data && isQuantized(whole)) throw support::Error(support::ErrorKind::Value, "a quantized field has no views; slice to_numpy()");
  std::vector<AxisChoice> choices = chooseAxes(object, key);
  // Positions refer to the container of which the first subview was made, in row-major order.
  bool isOfSubview = Py_TYPE(container) == subviewType;
  int64_t number = 0;
  std::vector<int64_t> steps(choices.size(), 1);
  if (isOfSubview) {
    number = PyLong_AsLongLong(Ref::adopt(PyObject_GetAttr(container, kOffset)).get());
    steps = readIntegers(Ref::adopt(PyObject_GetAttr(container, kStrides)).get());
  } else {
    for (size_t axis = steps.size(); axis-- > 1;) steps[axis - 1] = steps[axis] * std::max<int64_t>(whole.layout.extents[axis], 1);
  }
  layout::TensorLayout layout;
  layout.element = whole.layout.element;
  layout.componentStride = whole.layout.componentStride;
  std::vector<int64_t> strides, starts;
  for (size_t axis = 0; axis < choices.size(); ++axis) {
    const AxisChoice &choice = choices[axis];
    starts.push_back(choice.start);
    number += choice.start * steps[axis];
    if (choice.isDropped) continue;
    layout.extents.push_back(choice.count);
    layout.strides.push_back(whole.layout.strides[axis] * choice.step);
    strides.push_back(steps[axis] * choice.step);
  }
  if (tensorObject(container).isSparse)
    throw support::Error(support::ErrorKind::Value, "Zero-copy not available: a write through a part of a sparse field would activate no "
                                                    "cell; index its elements, or slice to_numpy()");
  for (const layout::Tiling &tiling : whole.layout.tilings)
    if (!choices[size_t(tiling.axis)].isDropped)
      throw support::Error(support::ErrorKind::Value, "Zero-copy not available: axis " + std::to_string(tiling.axis) +
                                                          " lies in tiles, and a view has one stride for each axis; slice to_numpy()");
  // Methods of indices may run any Python code. From here on, none runs until the subview has its memory.
  provideMemory(container);
  int64_t byteOffset = whole.byteOffset;
  // An empty subview has no elements, so its offset does not matter.
  if (!std::count(layout.extents.begin(), layout.extents.end(), 0)) byteOffset += layout::computeOffset(whole.layout, starts.data());
  auto &subview = tensorObject(made);
  subview.tensor.layout.element = layout.element;
  subview.isSubview = true;
  subview.program = tensorObject(container).program;
  subview.tensor.place(std::move(layout), whole.buffer, byteOffset);
  setAttribute(made, kArray, isOfSubview ? Ref::adopt(PyObject_GetAttr(container, kArray)) : Ref::borrow(container));
  setAttribute(made, kOffset, Ref::adopt(PyLong_FromLongLong(number)));
  setAttribute(made, kStrides, Ref::adopt(makeTuple(strides)));
  setAttribute(made, kParent, Ref::borrow(container));
  setAttribute(made, kKey, Ref::borrow(key));
}

PyObject *makeSubview(PyObject *container, PyObject *key) {
  if (!subviewType) throw support::Error(support::ErrorKind::Runtime, "no class of subviews has been set");
  Ref made = Ref::adopt(ndarrayType->tp_new(subviewType, nullptr, nullptr));
  fillSubview(made.get(), container, key);
  return made.release();
}

static PyObject *setSubviewType(PyObject *, PyObject *type) {
  if (!PyType_Check(type) || !PyType_IsSubtype(reinterpret_cast<PyTypeObject *>(type), ndarrayType)) {
    PyErr_SetString(PyExc_TypeError, "subviews are of a class derived from NdarrayBase");
    return nullptr;
  }
  Py_XSETREF(subviewType, reinterpret_cast<PyTypeObject *>(Py_NewRef(type)));
  Py_RETURN_NONE;
}

static PyObject *initSubview(PyObject *, PyObject *args) {
  return guard([&]() -> PyObject * {
    PyObject *made, *container, *key;
    if (!PyArg_ParseTuple(args, "OOO:init_subview", &made, &container, &key)) return nullptr;
    if (Py_TYPE(made) != subviewType || !isTensor(container)) throwPython(PyExc_TypeError, "init_subview takes a subview and a container");
    if (getTensor(made).state != Tensor::State::Unplaced) throw support::Error(support::ErrorKind::Runtime, "a subview is made once");
    provideMemory(container);
    fillSubview(made, container, key);
    Py_RETURN_NONE;
  });
}

void addSubviews(PyObject *module) {
  static PyMethodDef functions[] = {
      {"set_subview_type", setSubviewType, METH_O, "Set the class of the containers that slices make."},
      {"init_subview", initSubview, METH_VARARGS, "(subview, container, key): the elements that integers and slices choose."},
      {}};
  PyModule_AddFunctions(module, functions);
}

} // namespace qd::launch
