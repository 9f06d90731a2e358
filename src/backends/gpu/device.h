// device.h: a GPU as a runtime::Device; a backend adds what its code and its driver need
#pragma once

#include "backends/gpu/device_memory.h"
#include "backends/gpu/device_timer.h"
#include "runtime/device.h"

namespace qd::gpu {

class GpuDevice : public runtime::Device {
public:
  /// `mayPool`: whether to allocate from the driver's pool, if the device has one.
  GpuDevice(const Api &api, const support::Options &options, bool mayPool = true);
  /// Returns the pool's unused memory, which belongs to the ending runtime.
  ~GpuDevice() override;

  std::string_view getTarget() const override { return memory->api.backend; }
  std::string getArchitecture() const override { return architecture; }
  const QdRuntimeApi &getApi() const override;
  std::unique_ptr<runtime::LaunchGraph> makeGraph() override;
  void synchronize() override { memory->synchronize(); }
  void collectTimes() override;
  std::shared_ptr<runtime::DeviceMemory> getMemory() override { return memory; }
  runtime::Streams *getStreams() override { return streams.get(); }
  double getClockFrequency() const override { return 1e3 * memory->getAttribute(memory->api.attributes.clockKilohertz); }
  std::unique_ptr<runtime::LoadedKernel> load(artifact::Artifact &artifact) override;

protected:
  std::shared_ptr<Memory> memory;
  std::string architecture;

private:
  std::unique_ptr<runtime::Streams> streams;
  std::shared_ptr<TaskTimer> timer; ///< of the kernels that are timed
};

} // namespace qd::gpu
