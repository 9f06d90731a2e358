// device.cpp: a GPU as a runtime::Device: its memory and streams, and machine code → loaded kernel
//
// In:   requests of the runtime.
// Out:  calls of the driver's functions; the details are in the device_*.cpp files beside this one.
#include "backends/gpu/device.h"
#include "backends/gpu/device_launch.h"
#include "backends/gpu/device_streams.h"

namespace qd::gpu {

GpuDevice::GpuDevice(const Api &api, const support::Options &options, bool mayPool)
    : memory(Memory::open(api, int(options.getInt(support::Option::device_id)), mayPool)), streams(makeStreams(memory)) {}

GpuDevice::~GpuDevice() {
  try {
    memory->trim();
  } catch (const support::Error &) {
    // After a fault there is nothing to release.
  }
}

/// Compiled code calls no function of the runtime.
const QdRuntimeApi &GpuDevice::getApi() const {
  static const QdRuntimeApi none{};
  return none;
}

std::unique_ptr<runtime::LaunchGraph> GpuDevice::makeGraph() {
  return memory->usesGraphs && memory->api.hasGraphs() ? std::make_unique<GpuGraph>(memory) : nullptr;
}

void GpuDevice::collectTimes() {
  if (!timer) return;
  Memory::Scope scope(*memory);
  timer->collect();
}

std::unique_ptr<runtime::LoadedKernel> GpuDevice::load(artifact::Artifact &artifact) {
  if (artifact.taskNames.empty()) return std::make_unique<GpuKernel>(memory, nullptr, artifact);
  if (!timer) timer = std::make_shared<TaskTimer>(memory);
  return std::make_unique<GpuKernel>(memory, timer, artifact);
}

} // namespace qd::gpu
