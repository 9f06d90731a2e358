// external_array.h: arrays of other libraries: NumPy's, and those of libraries that offer DLPack's C functions, such as torch.
#pragma once

#include "launch/python.h"
#include "layout/tensor_layout.h"
#include "support/scalar_type.h"

#include <cstdint>
#include <optional>
#include <utility>

namespace qd::launch {

/// Valid while the Python object lives.
struct ExternalArray {
  static constexpr int kMaxRank = 64;
  unsigned char *data = nullptr;
  int rank = 0;
  int device = -1;                           ///< number of the GPU that holds the data; -1: memory of the processor
  std::optional<support::ScalarType> scalar; ///< empty: kernels have no such type, or the byte order is not native
  void *stream = nullptr;                    ///< stream in which the library queues its accesses; null: the default one
  bool isWritable = false, isAligned = false, isPacked = false;
  const int64_t *extents = nullptr, *strides = nullptr; ///< in bytes
  int64_t ownStrides[kMaxRank];

  /// All bytes from the first element to the last one.
  std::pair<unsigned char *, unsigned char *> getRange() const;
  /// Whether two elements share bytes: an axis of stride 0, or subviews that overlap.
  bool hasSharedElements() const;
  bool hasWideStrides() const { return layout::needsWideStrides(extents, strides, size_t(rank)); }
  /// Whether it is a tensor of real numbers, not an array of NumPy.
  bool mayHaveGradient() const { return strides == ownStrides && scalar && support::isFloat(*scalar); }
};

/// Whether the object is a tensor of torch, or of a library with the same C functions.
bool isTorchTensor(PyObject *object);
/// Whether such a tensor requires a gradient.
bool requiresGradient(PyObject *object);
/// Whether a tensor that requires a gradient has none, although torch stores one in it.
bool lacksGradient(PyObject *object);
/// Fills in `array`; false when the object is no array in the memory of the processor or of a GPU.
bool readExternal(PyObject *object, ExternalArray &array);

} // namespace qd::launch
