// device_launch.h: a kernel on the GPU: its tasks as a graph, the blocks that a launch works in, and what it reports.
#pragma once

#include "backends/cuda/device_memory.h"
#include "runtime/device.h"

#include <mutex>
#include <vector>

namespace qd::cuda {

class GpuKernel;

/// The kernels that were launched without waiting for what their checks say.
class Unchecked {
public:
  void add(GpuKernel &kernel);
  /// The kernel goes: what it has reported stays.
  void remove(GpuKernel &kernel);
  std::optional<runtime::Failure> take();

private:
  std::mutex mutex;
  std::vector<GpuKernel *> kernels; ///< in the order of their launches
  std::optional<runtime::Failure> left;
};

class GpuKernel final : public runtime::LoadedKernel {
public:
  GpuKernel(std::shared_ptr<Memory> memory, std::shared_ptr<Unchecked> unchecked, const artifact::Artifact &artifact);
  ~GpuKernel() override;
  void run(runtime::KernelRun &run) override;

  /// The first failed check since the last call. The launches have been waited for.
  std::optional<runtime::Failure> takeFailure();
  bool isUnchecked = false; ///< is in the list

private:
  struct Task {
    artifact::DeviceTask plan;
    Function function = nullptr;
    unsigned residentBlocks = 1; ///< as many as run at a time
    GraphNode node = nullptr;
  };
  KernelNode makeNode(const Task &task, const uint8_t *arguments, void **parameters) const;
  void writeParameters(runtime::KernelRun &run);
  void launchTasks(const uint8_t *arguments);
  void launchGraph(const uint8_t *arguments, bool isChanged);
  void waitAndReport(runtime::KernelRun &run);
  void takePrints(runtime::KernelRun &run);
  bool readFailure(int32_t &site, std::vector<uint64_t> &values);

  std::shared_ptr<Memory> memory;
  std::shared_ptr<Unchecked> unchecked;
  std::mutex mutex; ///< one launch at a time: all share the blocks below
  std::string name;
  std::vector<artifact::Site> sites;
  bool hasPrint = false;
  size_t argumentBytes, resultBytes;
  Module module = nullptr;
  std::vector<Task> tasks;
  runtime::BufferRef scratch, state, argumentCopy;
  Memory::Shared failure, prints, result;
  std::vector<unsigned char> parameters, launched; ///< QdGpuLaunch and what follows: of this launch, and those in the graph
  Graph graph = nullptr;
  ExecutableGraph executable = nullptr;
  int launches = 0;
};

} // namespace qd::cuda
