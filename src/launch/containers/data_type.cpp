// data_type.cpp: the Python type of qd.f32, qd.i32, …, and the conversion of Python numbers from and to memory
//
// In:   a scalar type, an address and a Python number.
// Out:  the number in memory or in Python; an error, or false, when the type cannot hold it.
#include "launch/containers/data_type.h"

#include "launch/numpy.h"
#include "support/half.h"

#include <cmath>
#include <cstddef>
#include <cstring>
#include <structmember.h>

namespace qd::launch {

using support::ScalarType;

PyTypeObject *dataTypeType;
static PyObject *objects[support::kScalarTypeCount];

static ScalarType typeOf(PyObject *self) { return reinterpret_cast<DataTypeObject *>(self)->type; }
static PyObject *getName(PyObject *self) { return Py_NewRef(reinterpret_cast<DataTypeObject *>(self)->name); }
// Pickling uses it, too: an object that reduces to a string is the global of that name in its class's module.
static PyObject *getNameOf(PyObject *self, PyObject *) { return getName(self); }

/// qd.f32(x) outside of kernels is a cast.
static PyObject *callDataType(PyObject *self, PyObject *args, PyObject *kwargs) {
  return guard([&]() -> PyObject * {
    static const char *names[] = {"value", nullptr};
    PyObject *value;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O", const_cast<char **>(names), &value)) return nullptr;
    return call("quadrants._values.matrix", "cast", "OO", value, self).release();
  });
}

/// `qd.f32 | None` in an annotation, as for the types of Python.
static PyObject *makeUnion(PyObject *left, PyObject *right) {
  return guard([&]() -> PyObject * {
    Ref both = Ref::adopt(PyTuple_Pack(2, left, right));
    return PyObject_GetItem(importAttribute("typing", "Union").get(), both.get());
  });
}

void addDataTypes(PyObject *module) {
  static PyMemberDef members[] = {
      {"name", T_OBJECT_EX, offsetof(DataTypeObject, name), READONLY, "The short name, such as 'f32'."},
      {"size", T_INT, offsetof(DataTypeObject, size), READONLY, "Bytes of one scalar."},
      {"is_real", T_BOOL, offsetof(DataTypeObject, isReal), READONLY, "Whether this is a floating point type."},
      {"is_integral", T_BOOL, offsetof(DataTypeObject, isIntegral), READONLY, "Whether this is an integer type or u1."},
      {"is_signed", T_BOOL, offsetof(DataTypeObject, isSigned), READONLY, "Whether values can be negative."},
      {}};
  static PyMethodDef methods[] = {
      {"to_string", getNameOf, METH_NOARGS, "The short name."}, {"__reduce__", getNameOf, METH_NOARGS, nullptr}, {}};
  PyType_Slot slots[] = {slot(Py_tp_repr, getName),
                         slot(Py_tp_call, callDataType),
                         slot(Py_nb_or, makeUnion),
                         slot(Py_tp_members, members),
                         slot(Py_tp_methods, methods),
                         {Py_tp_doc, const_cast<char *>("A scalar type of the kernel language.")},
                         {}};
  dataTypeType = addType(module, {"quadrants._runtime.DataType", sizeof(DataTypeObject), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE, slots});
  for (int i = 0; i < support::kScalarTypeCount; ++i) {
    auto type = ScalarType(i);
    auto *object = PyObject_New(DataTypeObject, dataTypeType);
    std::string_view name = support::getName(type);
    object->type = type;
    object->name = PyUnicode_InternFromString(name.data());
    object->size = int(getByteSize(type));
    object->isReal = support::isFloat(type);
    object->isIntegral = support::isInteger(type);
    object->isSigned = support::isSigned(type) || object->isReal;
    objects[i] = reinterpret_cast<PyObject *>(object);
    PyModule_AddObjectRef(module, name.data(), objects[i]);
  }
}

PyObject *getDataType(ScalarType type) { return objects[size_t(type)]; }

ScalarType getScalarType(PyObject *object) {
  if (Py_TYPE(object) != dataTypeType) throwPython(PyExc_ValueError, "Invalid data type %R", object);
  return typeOf(object);
}

template <typename T> static T load(const void *address) {
  T value;
  memcpy(&value, address, sizeof value);
  return value;
}

PyObject *readScalar(ScalarType type, const void *address) {
  if (support::isFloat(type)) {
    if (type == ScalarType::BF16) return PyFloat_FromDouble(double(support::bfloatToFloat(load<uint16_t>(address))));
    if (type == ScalarType::F32) return PyFloat_FromDouble(double(load<float>(address)));
    return PyFloat_FromDouble(type == ScalarType::F64 ? load<double>(address) : double(support::halfToFloat(load<uint16_t>(address))));
  }
  // Little endian: the low bytes come first. Shifting up and down again extends the sign.
  size_t unused = 64 - 8 * getByteSize(type);
  uint64_t bits = 0;
  memcpy(&bits, address, getByteSize(type));
  return support::isSigned(type) ? PyLong_FromLongLong(int64_t(bits << unused) >> unused) : PyLong_FromUnsignedLongLong(bits);
}

static void storeInteger(ScalarType type, void *address, uint64_t bits) {
  if (type == ScalarType::U1)
    *static_cast<uint8_t *>(address) = bits != 0;
  else
    memcpy(address, &bits, getByteSize(type)); // little endian: the low bytes come first
}

static void storeFloat(ScalarType type, void *address, double value) {
  if (type == ScalarType::F64) {
    memcpy(address, &value, 8);
  } else if (type == ScalarType::BF16) {
    uint16_t bits = support::floatToBfloat(float(value));
    memcpy(address, &bits, 2);
  } else if (type == ScalarType::F32) {
    auto narrow = float(value);
    memcpy(address, &narrow, 4);
  } else {
    uint16_t half = support::doubleToHalf(value);
    memcpy(address, &half, 2);
  }
}

/// Reads the low bits of a Python integer; false when it is out of the range of the type.
static bool readInteger(ScalarType type, PyObject *number, uint64_t &bits) {
  int overflow;
  int64_t value = PyLong_AsLongLongAndOverflow(number, &overflow);
  if (value == -1 && !overflow && PyErr_Occurred()) throw PythonError{};
  bits = uint64_t(value);
  unsigned unused = unsigned(64 - 8 * getByteSize(type));
  if (!overflow)
    return support::isSigned(type) ? int64_t(bits << unused) >> unused == value : value >= 0 && bits << unused >> unused == bits;
  if (type != ScalarType::U64 || overflow < 0) return false;
  bits = PyLong_AsUnsignedLongLong(number);
  if (bits != uint64_t(-1) || !PyErr_Occurred()) return true;
  PyErr_Clear();
  return false;
}

/// Truncates a float toward zero; false when the result is out of the range of the type.
static bool truncate(ScalarType type, double value, uint64_t &bits) {
  value = std::trunc(value);
  bool isSigned = support::isSigned(type);
  double end = std::ldexp(1.0, int(8 * getByteSize(type)) - isSigned);
  if (!(value >= (isSigned ? -end : 0.0) && value < end)) return false; // false for NaN
  bits = value < 9223372036854775808.0 ? uint64_t(int64_t(value)) : uint64_t(value);
  return true;
}

static bool hasAxes(PyObject *value) { return PyArray_Check(value) && PyArray_NDIM(reinterpret_cast<PyArrayObject *>(value)) > 0; }

/// Whether a value may be a real number: it converts itself to a float, and is neither complex nor an array with axes.
static bool hasFloat(PyObject *value) {
  if (PyArray_IsScalar(value, ComplexFloating) || hasAxes(value)) return false;
  return Py_TYPE(value)->tp_as_number && Py_TYPE(value)->tp_as_number->nb_float;
}

static double readDouble(PyObject *value) {
  double number = PyFloat_AsDouble(value);
  if (number == -1.0 && PyErr_Occurred()) throw PythonError{};
  return number;
}

// NumPy's bool has no `__index__`.
bool isIntegerNumber(PyObject *value) { return (PyIndex_Check(value) && !hasAxes(value)) || PyArray_IsScalar(value, Bool); }

bool tryWriteExact(ScalarType type, void *address, PyObject *value) {
  if (support::isFloat(type)) {
    if (!hasFloat(value) && !isIntegerNumber(value)) return false;
    double number = PyFloat_AsDouble(value);
    if (number == -1.0 && PyErr_Occurred()) {
      for (PyObject *kind : {PyExc_TypeError, PyExc_ValueError, PyExc_OverflowError})
        if (PyErr_ExceptionMatches(kind)) return PyErr_Clear(), false;
      throw PythonError{};
    }
    storeFloat(type, address, number);
    return true;
  }
  if (!isIntegerNumber(value)) return false;
  bool isTruth = !PyIndex_Check(value);
  Ref number = isTruth || PyLong_Check(value) ? Ref::borrow(value) : Ref::adopt(PyNumber_Index(value));
  uint64_t bits;
  if (isTruth || type == ScalarType::U1) { // u1 tests the whole number for zero, not its low bits
    int truth = PyObject_IsTrue(number.get());
    if (truth < 0) throw PythonError{};
    bits = uint64_t(truth);
  } else if (!readInteger(type, number.get(), bits)) {
    return false;
  }
  storeInteger(type, address, bits);
  return true;
}

void writeScalar(ScalarType type, void *address, PyObject *value) {
  if (tryWriteExact(type, address, value)) return;
  if (isIntegerNumber(value)) throwPython(PyExc_OverflowError, "%S is out of the range of %s", value, support::getName(type).data());
  if (!hasFloat(value))
    throwPython(PyExc_TypeError, "a value of type '%s' cannot be stored as %s", Py_TYPE(value)->tp_name, support::getName(type).data());
  double number = readDouble(value);
  uint64_t bits = number != 0;
  if (type != ScalarType::U1 && !truncate(type, number, bits))
    throwPython(PyExc_OverflowError, "%S is out of the range of %s", value, support::getName(type).data());
  storeInteger(type, address, bits);
}

} // namespace qd::launch
