// dlpack.h: memory that other libraries take from us and give to us in capsules of DLPack (https://dmlc.github.io/dlpack), here and on a
// GPU.
#pragma once

#include "launch/python.h"

#include <cstdint>

namespace qd::launch {

struct DlTensor {
  void *data;
  int32_t deviceType, deviceId;
  int32_t rank;
  uint8_t typeCode, typeBits;
  uint16_t typeLanes;
  int64_t *extents;
  int64_t *strides; ///< in elements; null: packed
  uint64_t byteOffset;
};
/// Types of devices. What the processor reads are Cpu and CudaHost.
enum DlDevice : int32_t { kDlCpu = 1, kDlCuda = 2, kDlCudaHost = 3, kDlCudaManaged = 13 };

/// The functions `export_dlpack` and `import_dlpack` of the module.
void addDlpack(PyObject *module);

} // namespace qd::launch
