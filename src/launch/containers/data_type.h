// data_type.h: the Python objects qd.f32, qd.i32, …: one per scalar type, compared by identity.
#pragma once

#include "launch/python.h"
#include "layout/tensor_layout.h"
#include "support/scalar_type.h"

namespace qd::launch {

struct DataTypeObject {
  PyObject_HEAD support::ScalarType type;
  PyObject *name; ///< this and the following are attributes in Python
  int size;
  bool isReal, isIntegral, isSigned;
};

extern PyTypeObject *dataTypeType;
/// Makes the type and its objects and adds them to the module.
void addDataTypes(PyObject *module);
/// The Python object of a scalar type, borrowed.
PyObject *getDataType(support::ScalarType type);
/// The scalar type of a Python object. Throws PythonError (ValueError 'Invalid data type') for other objects.
support::ScalarType getScalarType(PyObject *object);

/// Reads one scalar from memory as a Python number. u1 reads as int 0/1 from containers.
PyObject *readScalar(support::ScalarType type, const void *address);
/// Stores a Python number; floats are truncated for integer types.
/// Throws PythonError: TypeError for objects that are not numbers, OverflowError for numbers out of the type's range.
void writeScalar(support::ScalarType type, void *address, PyObject *value);
/// Whether the object is an integer or implements `__index__`.
bool isIntegerNumber(PyObject *value);
/// As writeScalar, but returns false without an error for a float into an integer type, an integer out of range, and objects that are not
/// numbers.
bool tryWriteExact(support::ScalarType type, void *address, PyObject *value);

} // namespace qd::launch
