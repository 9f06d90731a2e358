// device.cpp: a Vulkan device as a runtime::Device
//
// In:   the functions of api.h, options; artifacts to load.
// Out:  gpu::SequentialGpu, with the words that describe the device to the compiler. All else that a launch does is in backends/gpu.
#include "backends/vulkan/api.h"
#include "support/log.h"

namespace qd::vulkan {

using support::Error;
using support::ErrorKind;
using support::Option;

namespace {

class VulkanDevice final : public gpu::SequentialGpu {
public:
  VulkanDevice(const VulkanApi &api, const support::Options &options)
      : SequentialGpu(api, options), physical(api.devices[size_t(memory->getOrdinal())]) {
    architecture = physical.features.write();
    if (physical.isProcessor())
      support::log(support::LogLevel::Warn, std::string("arch=qd.vulkan: the device ") + physical.properties.deviceName +
                                                " is the processor, on which arch=qd.cpu is faster; Mesa's driver may end loops "
                                                "silently after 65,535 rounds in one iteration, and ignores "
                                                "conditions, also those of checks, inside of 80 others");
  }

  /// The description includes the driver, which only reads its own cache.
  std::string describe() const override {
    return architecture + " " + physical.properties.deviceName + " driver " + std::to_string(physical.properties.driverVersion);
  }
  runtime::DeviceLimits getLimits() const override { return {physical.features.subgroupSize, physical.features.maxSharedBytes}; }

private:
  const PhysicalDevice &physical;
};

} // namespace

std::string findProblem(const support::Options &options) {
  if (!options.getBool(Option::enable_vulkan)) return "enable_vulkan is off";
  const Driver &driver = findDriver(options.getText(Option::vulkan_driver));
  // Of several kinds of GPUs, a driver that runs on the processor is none.
  bool isForAnyGpu = options.getText(Option::arch) == "gpu";
  if (isForAnyGpu && driver.absence.empty() && driver.api.devices[0].isProcessor()) return "its only device is the processor";
  return driver.absence;
}

std::unique_ptr<runtime::Device> makeDevice(const support::Options &options) {
  const Driver &driver = findDriver(options.getText(Option::vulkan_driver)); // instead of the system's loader if not empty
  if (!driver.absence.empty()) throw Error(ErrorKind::Runtime, "arch=vulkan: " + driver.absence);
  return std::make_unique<VulkanDevice>(driver.api, options);
}

} // namespace qd::vulkan
