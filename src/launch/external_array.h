// external_array.h: arrays that are not ours: NumPy's, and those of libraries that offer DLPack's C functions, such as torch.
#pragma once

#include "launch/python.h"
#include "support/scalar_type.h"

#include <cstdint>
#include <optional>
#include <utility>

namespace qd::launch {

/// Valid while the object is.
struct ExternalArray {
  static constexpr int kMaxRank = 64;
  unsigned char *data = nullptr;
  int rank = 0;
  int device = -1;                           ///< number of the GPU that the data is on; -1: the processor reads it
  std::optional<support::ScalarType> scalar; ///< empty: kernels have no such type, or its byte order is another one
  void *stream = nullptr;                    ///< of the library, where it queues what touches the array; null: the default one
  bool isWritable = false, isAligned = false, isPacked = false;
  const int64_t *extents = nullptr, *strides = nullptr; ///< in bytes
  int64_t ownStrides[kMaxRank];

  /// All bytes from the first element's to the last one's.
  std::pair<unsigned char *, unsigned char *> getRange() const;
  /// Whether two elements have bytes in common: an axis of stride 0, or subviews that overlap.
  bool hasSharedElements() const;
};

/// Whether it is a tensor of torch, or of a library with the same C functions.
bool isTorchTensor(PyObject *object);
/// Whether such a tensor is to have a gradient, and has none.
bool lacksGradient(PyObject *object);
/// False when the object is no array in the memory of the processor or of a CUDA device.
bool readExternal(PyObject *object, ExternalArray &array);

} // namespace qd::launch
