// data_type.h: the Python objects qd.f32, qd.i32, …: one per scalar type, compared by identity.
#pragma once

#include "launch/python.h"
#include "layout/tensor_layout.h"
#include "support/scalar_type.h"

namespace qd::launch {

struct DataTypeObject {
  PyObject_HEAD support::ScalarType type;
  PyObject *name; ///< from here on what Python sees
  int size;
  bool isReal, isIntegral, isSigned;
};

extern PyTypeObject *dataTypeType;
/// Makes the type and its twelve objects and adds them to the module.
void addDataTypes(PyObject *module);
/// The object of a scalar type, borrowed.
PyObject *getDataType(support::ScalarType type);
/// Throws PythonError (ValueError 'Invalid data type') when the object is none.
support::ScalarType getScalarType(PyObject *object);

/// A Python number from one scalar in memory. u1 reads as int 0/1 from containers.
PyObject *readScalar(support::ScalarType type, const void *address);
/// Stores a Python number; on the way to integers floats are truncated.
/// Throws PythonError: TypeError for what is not a number, OverflowError for what is out of the type's range.
void writeScalar(support::ScalarType type, void *address, PyObject *value);
/// Whether the object is an integer, or stands for one.
bool isIntegerNumber(PyObject *value);
/// As writeScalar, but for floats arriving at integers, integers out of range and things other than numbers it returns false without
/// an error.
bool tryWriteExact(support::ScalarType type, void *address, PyObject *value);

} // namespace qd::launch
