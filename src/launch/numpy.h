// numpy.h: NumPy's C API for this module. Only the module set-up in tensor_object.cpp imports it.
#pragma once

#include "launch/python.h"

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_1_23_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL qd_launch_numpy
#ifndef QD_IMPORT_NUMPY
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>

#include "support/scalar_type.h"

namespace qd::launch {

/// NumPy's type number for a scalar type. NumPy has no bf16: its elements are opaque two-byte items there.
inline int getNumpyNumber(support::ScalarType type) {
  constexpr int kTypes[support::kScalarTypeCount] = {NPY_BOOL,   NPY_INT8,   NPY_INT16, NPY_INT32,   NPY_INT64,   NPY_UINT8, NPY_UINT16,
                                                     NPY_UINT32, NPY_UINT64, NPY_HALF,  NPY_FLOAT32, NPY_FLOAT64, NPY_VOID};
  return kTypes[size_t(type)];
}

/// The NumPy type of elements of a scalar type; a new reference.
inline PyArray_Descr *makeNumpyType(support::ScalarType type) {
  PyArray_Descr *descr = PyArray_DescrNewFromType(getNumpyNumber(type));
  if (descr && type == support::ScalarType::BF16) PyDataType_SET_ELSIZE(descr, 2);
  return descr;
}

} // namespace qd::launch
