// device.h: an NVIDIA GPU as a Device.
#pragma once

#include "runtime/device.h"

namespace qd::cuda {

struct DeviceOptions {
  std::string library; ///< in place of the system's libcuda, where it is not empty
  int ordinal = 0;
  int64_t stackBytes = 0;   ///< of a thread; 0: the driver's choice
  int64_t maxRegisters = 0; ///< of a thread; 0: the compiler's choice
  bool usesGraphs = true;
};

/// Why there is no device here; empty when there is one. `library` takes the place of the system's libcuda where it is not empty.
std::string findProblem(const std::string &library);

/// Throws support::Error when there is no such device.
std::unique_ptr<runtime::Device> makeDevice(const DeviceOptions &options);

} // namespace qd::cuda
