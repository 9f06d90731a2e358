// api.h: Metal behind the functions that the run half of GPUs calls (gpu/device_api.h)
#pragma once

#include "backends/gpu/device_sequential.h"
#include "backends/gpu/drivers.h"
#include "backends/metal/driver.h"

#include <vector>

namespace qd::metal {

struct MetalApi : gpu::Api {
  const DriverFunctions *functions = nullptr;
  std::vector<int> devices; ///< the driver's numbers of those that can be used
  DeviceInfo describeDevice(int ordinal) const;
  std::unique_ptr<gpu::SequentialDevice> open(gpu::Ordinal ordinal) const;
  int getAttribute(int attribute, gpu::Ordinal ordinal) const;
};

using Driver = gpu::Driver<MetalApi>;
/// The driver. A non-empty `library` takes the place of Metal; each library is loaded once per process.
const Driver &findDriver(const std::string &library);

} // namespace qd::metal
