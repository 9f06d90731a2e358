// device.cpp: an AMD GPU as a runtime::Device: its options
//
// In:   the options of qd.init.
// Out:  the device, which is the shared one of gpu/device.h with HIP's functions.
#include "backends/gpu/device.h"
#include "backends/amdgpu/api.h"
#include "backends/amdgpu/limits.h"

namespace qd::amdgpu {

using support::Option;

namespace {

/// On gfx90c the driver advertises pools of memory, and allocation from them never returns.
bool hasPools(const HipApi &api, const support::Options &options) {
  return options.getBool(Option::enable_hip_mempool) && !api.getProcessor(int(options.getInt(Option::device_id))).starts_with("gfx90c");
}

class AmdDevice final : public gpu::GpuDevice {
public:
  AmdDevice(const HipApi &api, const support::Options &options)
      : GpuDevice(api, options, /*mayPool=*/hasPools(api, options)), version(api.version) {
    architecture = api.getProcessor(memory->getOrdinal());
    memory->usesGraphs = options.getBool(Option::hip_graph);
  }

  /// The description includes the driver, which may refuse code objects of another one's time.
  std::string describe() const override { return architecture + " driver " + std::to_string(version); }
  runtime::DeviceLimits getLimits() const override { return {kSubgroupSize, kMaxSharedBytes}; }
  double getClockFrequency() const override { return hasCycleCounter(architecture) ? GpuDevice::getClockFrequency() : kSteadyHertz; }

private:
  int version;
};

} // namespace

std::string findProblem(const support::Options &options) {
  return options.getBool(Option::enable_amdgpu) ? findDriver(options.getText(Option::amdgpu_driver)).absence : "enable_amdgpu is off";
}

std::unique_ptr<runtime::Device> makeDevice(const support::Options &options) {
  const Driver &driver = findDriver(options.getText(Option::amdgpu_driver)); // instead of the system's library if not empty
  if (!driver.absence.empty()) throw support::Error(support::ErrorKind::Runtime, "arch=amdgpu: " + driver.absence);
  return std::make_unique<AmdDevice>(driver.api, options);
}

} // namespace qd::amdgpu
