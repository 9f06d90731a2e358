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
/// Stores a Python number, converted as an assignment in a kernel converts it: floats are truncated, integers wrap.
/// Throws PythonError (TypeError) for what is not a number.
void writeScalar(support::ScalarType type, void *address, PyObject *value);
/// As writeScalar, but for floats arriving at integers and for things other than numbers it returns false without an error.
bool tryWriteExact(support::ScalarType type, void *address, PyObject *value);

} // namespace qd::launch
