// device.h: an NVIDIA GPU as a Device
#pragma once

#include "runtime/device.h"

namespace qd::cuda {

struct DeviceOptions {
  std::string library; ///< replaces the system's libcuda if not empty
  int ordinal = 0;
  int64_t stackBytes = 0;   ///< per thread; 0: the driver's choice
  int64_t maxRegisters = 0; ///< per thread; 0: the compiler's choice
  bool usesGraphs = true;
};

/// Why there is no device; empty if there is one. A non-empty `library` replaces the system's libcuda.
std::string findProblem(const std::string &library);

/// Throws support::Error if there is no such device.
std::unique_ptr<runtime::Device> makeDevice(const DeviceOptions &options);

} // namespace qd::cuda
