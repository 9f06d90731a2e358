// devices.cpp: the table of the backends that run kernels, from backends.def
//
// In:   backends.def.
// Out:  runtime::getBackends. The modules of the run half need no other list of backends.
#include "runtime/device.h"

#include <dlpack/dlpack.h>

#define QD_BACKEND(name, device, shared, managed)                                                                                          \
  namespace qd::name {                                                                                                                     \
  std::unique_ptr<runtime::Device> makeDevice(const support::Options &options);                                                            \
  std::string findProblem(const support::Options &options);                                                                                \
  }
#include "backends/backends.def"

namespace qd::runtime {

std::span<const Backend> getBackends() {
  static constexpr Backend backends[] = {
#define QD_BACKEND(name, device, shared, managed) {#name, qd::name::makeDevice, qd::name::findProblem, device, shared, managed},
#include "backends/backends.def"
  };
  return backends;
}

} // namespace qd::runtime
