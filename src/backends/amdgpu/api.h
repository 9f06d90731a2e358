// api.h: AMD's driver interface HIP, loaded at run time from libamdhip64, of version 5 or later
#pragma once

#include "backends/gpu/device_api.h"
#include "backends/gpu/drivers.h"

namespace qd::amdgpu {

/// HIP's numbers of attributes of a device.
enum Attribute : int { kClockKilohertz = 5, kMultiprocessorCount = 63, kMemoryPoolsSupported = 88 };

/// Functions with other arguments than CUDA's, which functions of the table call.
struct AdaptedFunctions {
  gpu::Status (*setDevice)(int);
  gpu::Status (*getCurrentDevice)(int *);
  gpu::Status (*resetDevice)();
  const char *(*getErrorName)(gpu::Status);
  const char *(*getErrorString)(gpu::Status);
  gpu::Status (*addKernelNode)(gpu::GraphNode *, gpu::Graph, const gpu::GraphNode *, size_t, const struct HipKernelNode *);
  gpu::Status (*setKernelNode)(gpu::ExecutableGraph, gpu::GraphNode, const struct HipKernelNode *);
};

/// The functions of this driver: those of all drivers, and its own.
struct HipApi : gpu::Api {
  /// Fills in a structure of which version 6 has another layout, under another name.
  gpu::Status (*getProperties)(void *, int) = nullptr, (*getOldProperties)(void *, int) = nullptr;
  AdaptedFunctions adapted{};

  /// The processor of a device as the driver names it: "gfx942:sramecc+:xnack-".
  std::string getProcessor(int ordinal) const;
};

using Driver = gpu::Driver<HipApi>;
/// The driver, initialized. A non-empty `library` replaces the system's libamdhip64; each library is loaded once per process.
const Driver &findDriver(const std::string &library);

} // namespace qd::amdgpu
