// device_api.cpp: the errors of a driver
//
// In:   a status that a function of the driver has returned.
// Out:  its name and text; exceptions that say what was tried.
#include "backends/gpu/device_api.h"

namespace qd::gpu {

std::string Api::describe(Status status) const {
  const char *name = nullptr, *text = nullptr;
  getErrorName(status, &name);
  getErrorString(status, &text);
  return std::string(name ? name : "error " + std::to_string(status)) + (text ? std::string(": ") + text : "");
}

DriverError::DriverError(const Api &api, Status status, const std::string &action)
    : support::Error(status == kOutOfMemory ? support::ErrorKind::Memory : support::ErrorKind::Runtime,
                     "the GPU cannot " + action + " (" + api.describe(status) + ")"),
      status(status) {}

} // namespace qd::gpu
