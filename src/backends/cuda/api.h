// api.h: NVIDIA's driver, loaded at run time from libcuda. The declarations follow the driver API reference
// (docs.nvidia.com/cuda/cuda-driver-api), so neither building nor running needs a toolkit. Only functions in use are declared.
#pragma once

#include "backends/gpu/device_api.h"
#include "backends/gpu/drivers.h"

namespace qd::cuda {

using gpu::Status;
using Linking = struct LinkingHandle *;

constexpr Status kUnsupportedPtx = 222;

enum Attribute : int {
  kClockKilohertz = 13,
  kMultiprocessorCount = 16,
  kComputeCapabilityMajor = 75,
  kComputeCapabilityMinor = 76,
  kConcurrentManagedAccess = 89,
  kMemoryPoolsSupported = 115
};
enum ContextLimit : int { kStackBytes = 0 };
enum LinkInput : int { kCubin = 0, kPtx = 1 };
enum LinkOption : int { kMaxRegisters = 0, kErrorLog = 5, kErrorLogBytes = 6, kTargetFromContext = 8 };

/// The functions of this driver: those of all drivers, and its own.
struct CudaApi : gpu::Api {
  Status (*setContextLimit)(ContextLimit, size_t) = nullptr;
  Status (*beginLinking)(unsigned, LinkOption *, void **, Linking *) = nullptr;
  Status (*addToLinking)(Linking, LinkInput, void *, size_t, const char *, unsigned, LinkOption *, void **) = nullptr;
  Status (*completeLinking)(Linking, void **, size_t *) = nullptr;
  Status (*endLinking)(Linking) = nullptr;
};

using Driver = gpu::Driver<CudaApi>;
/// The driver, initialized. A non-empty `library` replaces the system's libcuda; each library is loaded once per process.
const Driver &findDriver(const std::string &library);

} // namespace qd::cuda
