// device.cpp: a device of Metal as a runtime::Device
//
// In:   the functions of api.h, options; artifacts to load.
// Out:  gpu::SequentialGpu. All else that a launch does is in backends/gpu, shared with CUDA, HIP and Vulkan.
#include "backends/metal/api.h"
#include "backends/metal/limits.h"

namespace qd::metal {

using support::Error;
using support::ErrorKind;
using support::Option;

namespace {

class MetalDevice final : public gpu::SequentialGpu {
public:
  MetalDevice(const MetalApi &api, const support::Options &options)
      : SequentialGpu(api, options), info(api.describeDevice(memory->getOrdinal())) {
    gpu::Memory::Scope scope(*memory);
    auto queue = uint64_t(options.getInt(Option::external_metal_command_queue));
    memory->check(api.setQueue(queue, queue && options.getBool(Option::external_metal_command_queue_is_torch_queue)), "use the queue");
  }

  /// The description includes the system, which only reads its own archives.
  std::string describe() const override { return std::string("metal ") + info.name + " " + info.system; }
  runtime::DeviceLimits getLimits() const override { return {kSubgroupSize, kMaxSharedBytes}; }

private:
  DeviceInfo info;
};

} // namespace

std::string findProblem(const support::Options &options) {
  return options.getBool(Option::enable_metal) ? findDriver(options.getText(Option::metal_driver)).absence : "enable_metal is off";
}

std::unique_ptr<runtime::Device> makeDevice(const support::Options &options) {
  const Driver &driver = findDriver(options.getText(Option::metal_driver));
  if (!driver.absence.empty()) throw Error(ErrorKind::Runtime, "arch=metal: " + driver.absence);
  return std::make_unique<MetalDevice>(driver.api, options);
}

} // namespace qd::metal
