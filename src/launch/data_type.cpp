#include "launch/data_type.h"

#include "support/half.h"

#include <cmath>
#include <cstring>

namespace qd::launch {

using support::ScalarType;

PyTypeObject *dataTypeType;
static PyObject *objects[support::kScalarTypeCount];
static PyObject *callHook;

static ScalarType typeOf(PyObject *self) { return reinterpret_cast<DataTypeObject *>(self)->type; }
static PyObject *getName(PyObject *self, void *) { return Py_NewRef(reinterpret_cast<DataTypeObject *>(self)->name); }
static PyObject *toString(PyObject *self, PyObject *) { return getName(self, nullptr); }
static PyObject *getRepr(PyObject *self) { return getName(self, nullptr); }
static PyObject *getSize(PyObject *self, void *) { return PyLong_FromSize_t(getByteSize(typeOf(self))); }
static PyObject *isReal(PyObject *self, void *) { return PyBool_FromLong(support::isFloat(typeOf(self))); }
static PyObject *isIntegral(PyObject *self, void *) { return PyBool_FromLong(support::isInteger(typeOf(self))); }
static PyObject *isSignedType(PyObject *self, void *) {
  return PyBool_FromLong(support::isSigned(typeOf(self)) || support::isFloat(typeOf(self)));
}

static PyObject *call(PyObject *self, PyObject *args, PyObject *kwargs) {
  if (!callHook)
    return PyErr_Format(PyExc_TypeError, "'%U' cannot be called here", reinterpret_cast<DataTypeObject *>(self)->name), nullptr;
  return guard([&] {
    Ref front = Ref::adopt(PyTuple_Pack(1, self));
    Ref all = Ref::adopt(PySequence_Concat(front.get(), args));
    return PyObject_Call(callHook, all.get(), kwargs);
  });
}

// Pickled by name, so that the copy is the same object.
static PyObject *reduce(PyObject *self, PyObject *) {
  return guard([&] {
    Ref function = importAttribute("quadrants._runtime", "data_type");
    return Py_BuildValue("O(O)", function.get(), reinterpret_cast<DataTypeObject *>(self)->name);
  });
}

static PyObject *setCallHook(PyObject *, PyObject *hook) {
  Py_XSETREF(callHook, hook == Py_None ? nullptr : Py_NewRef(hook));
  Py_RETURN_NONE;
}

static PyObject *findByName(PyObject *, PyObject *name) {
  ScalarType type;
  const char *text = PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : nullptr;
  if (!text || !findScalarType(text, type)) {
    PyErr_Clear();
    return PyErr_Format(PyExc_ValueError, "Invalid data type %R", name), nullptr;
  }
  return Py_NewRef(getDataType(type));
}

bool findScalarType(const char *name, ScalarType &type) {
  for (int i = 0; i < support::kScalarTypeCount; ++i)
    if (support::getName(ScalarType(i)) == name) {
      type = ScalarType(i);
      return true;
    }
  return false;
}

void addDataTypes(PyObject *module) {
  static PyGetSetDef properties[] = {{"name", getName, nullptr, "The short name, such as 'f32'.", nullptr},
                                     {"size", getSize, nullptr, "Bytes of one scalar.", nullptr},
                                     {"is_real", isReal, nullptr, "Whether this is a floating point type.", nullptr},
                                     {"is_integral", isIntegral, nullptr, "Whether this is an integer type or u1.", nullptr},
                                     {"is_signed", isSignedType, nullptr, "Whether values can be negative.", nullptr},
                                     {}};
  static PyMethodDef methods[] = {
      {"to_string", toString, METH_NOARGS, "The short name."}, {"__reduce__", reduce, METH_NOARGS, nullptr}, {}};
  PyType_Slot slots[] = {{Py_tp_repr, reinterpret_cast<void *>(getRepr)},
                         {Py_tp_str, reinterpret_cast<void *>(getRepr)},
                         {Py_tp_call, reinterpret_cast<void *>(call)},
                         {Py_tp_getset, properties},
                         {Py_tp_methods, methods},
                         {Py_tp_doc, const_cast<char *>("A scalar type of the kernel language.")},
                         {0, nullptr}};
  PyType_Spec spec = {"quadrants._runtime.DataType", sizeof(DataTypeObject), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE, slots};
  dataTypeType = reinterpret_cast<PyTypeObject *>(Ref::adopt(PyType_FromSpec(&spec)).release());
  PyModule_AddObjectRef(module, "DataType", reinterpret_cast<PyObject *>(dataTypeType));
  for (int i = 0; i < support::kScalarTypeCount; ++i) {
    auto *object = PyObject_New(DataTypeObject, dataTypeType);
    std::string_view name = support::getName(ScalarType(i));
    object->type = ScalarType(i);
    object->name = PyUnicode_InternFromString(name.data());
    objects[i] = reinterpret_cast<PyObject *>(object);
    PyModule_AddObjectRef(module, name.data(), objects[i]);
  }
  static PyMethodDef functions[] = {
      {"data_type", findByName, METH_O, "The data type of a short name."},
      {"set_data_type_call", setCallHook, METH_O, "Set what calling a data type does: hook(data_type, *args)."},
      {}};
  PyModule_AddFunctions(module, functions);
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
  switch (type) {
  case ScalarType::U1:
  case ScalarType::U8: return PyLong_FromLong(load<uint8_t>(address));
  case ScalarType::I8: return PyLong_FromLong(load<int8_t>(address));
  case ScalarType::I16: return PyLong_FromLong(load<int16_t>(address));
  case ScalarType::U16: return PyLong_FromLong(load<uint16_t>(address));
  case ScalarType::I32: return PyLong_FromLong(load<int32_t>(address));
  case ScalarType::U32: return PyLong_FromUnsignedLong(load<uint32_t>(address));
  case ScalarType::I64: return PyLong_FromLongLong(load<int64_t>(address));
  case ScalarType::U64: return PyLong_FromUnsignedLongLong(load<uint64_t>(address));
  case ScalarType::F16: return PyFloat_FromDouble(support::halfToFloat(load<uint16_t>(address)));
  case ScalarType::F32: return PyFloat_FromDouble(load<float>(address));
  case ScalarType::F64: return PyFloat_FromDouble(load<double>(address));
  }
  Py_UNREACHABLE();
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
  } else if (type == ScalarType::F32) {
    auto narrow = float(value);
    memcpy(address, &narrow, 4);
  } else {
    uint16_t half = support::doubleToHalf(value);
    memcpy(address, &half, 2);
  }
}

/// Low 64 bits of any Python int.
static uint64_t getLowBits(PyObject *number) {
  uint64_t bits = PyLong_AsUnsignedLongLongMask(number);
  if (bits == uint64_t(-1) && PyErr_Occurred()) throw PythonError{};
  return bits;
}

static uint64_t truncate(double value) {
  if (std::isnan(value)) return 0;
  value = std::trunc(value);
  if (value >= 9223372036854775808.0) return value >= 18446744073709551616.0 ? UINT64_MAX : uint64_t(value);
  return value <= -9223372036854775808.0 ? uint64_t(INT64_MIN) : uint64_t(int64_t(value));
}

static bool isText(PyObject *value) { return PyUnicode_Check(value) || PyBytes_Check(value) || PyByteArray_Check(value); }

static bool hasFloat(PyObject *value) { return Py_TYPE(value)->tp_as_number && Py_TYPE(value)->tp_as_number->nb_float && !isText(value); }

bool tryWriteExact(ScalarType type, void *address, PyObject *value) {
  if (support::isFloat(type)) {
    if (PyFloat_CheckExact(value)) {
      storeFloat(type, address, PyFloat_AS_DOUBLE(value));
      return true;
    }
    if (!hasFloat(value) && !PyIndex_Check(value)) return false;
    double number = PyFloat_AsDouble(value);
    if (number == -1.0 && PyErr_Occurred()) throw PythonError{};
    storeFloat(type, address, number);
    return true;
  }
  if (PyLong_Check(value)) {
    // u1 asks whether the whole number is zero, not its low bits.
    storeInteger(type, address, type == ScalarType::U1 ? uint64_t(PyObject_IsTrue(value)) : getLowBits(value));
    return true;
  }
  if (!PyIndex_Check(value)) {
    // NumPy's truth value is no index.
    if (strcmp(Py_TYPE(value)->tp_name, "numpy.bool") && strcmp(Py_TYPE(value)->tp_name, "numpy.bool_")) return false;
    storeInteger(type, address, uint64_t(PyObject_IsTrue(value)));
    return true;
  }
  Ref number = Ref::adopt(PyNumber_Index(value));
  return tryWriteExact(type, address, number.get());
}

void writeScalar(ScalarType type, void *address, PyObject *value) {
  if (tryWriteExact(type, address, value)) return;
  if (!hasFloat(value))
    throwPython(PyExc_TypeError, "a value of type '%s' cannot be stored as %s", Py_TYPE(value)->tp_name, support::getName(type).data());
  double number = PyFloat_AsDouble(value);
  if (number == -1.0 && PyErr_Occurred()) throw PythonError{};
  storeInteger(type, address, type == ScalarType::U1 ? uint64_t(number != 0) : truncate(number));
}

} // namespace qd::launch
