// device_launch.h: a kernel on the GPU: its tasks as a graph, the memory that a launch uses, and its reports
#pragma once

#include "backends/gpu/device_memory.h"
#include "backends/gpu/device_timer.h"
#include "runtime/device.h"

#include <mutex>
#include <vector>

namespace qd::gpu {

class GpuKernel final : public runtime::LoadedKernel {
public:
  /// `timer` is null unless the kernel is timed.
  GpuKernel(std::shared_ptr<Memory> memory, std::shared_ptr<TaskTimer> timer, const artifact::Artifact &artifact);
  ~GpuKernel() override;
  void run(runtime::KernelRun &run) override;

private:
  struct Task {
    artifact::DeviceTask deviceTask;
    Function function = nullptr;
    unsigned residentBlocks = 1; ///< maximum number of blocks that run at the same time
  };
  /// State of the launches of one stream, which run one after the other.
  struct StreamState {
    Stream stream = nullptr;
    runtime::BufferRef scratch, state, argumentCopy;
    Memory::Shared failure, prints, result;
    std::vector<unsigned char> parameters, launched; ///< QdGpuLaunch and the arguments after it: of this launch, and as stored in the graph
    Graph graph = nullptr;
    ExecutableGraph executable = nullptr;
    std::vector<GraphNode> nodes; ///< one per task
    int launches = 0;
  };
  StreamState &getStreamState(Stream stream);
  KernelNode makeNode(const Task &task, const uint8_t *arguments, void **parameters) const;
  void writeParameters(StreamState &streamState, runtime::KernelRun &run);
  void launchTask(StreamState &streamState, const Task &task, const uint8_t *arguments);
  /// Throws unless all blocks of a task can run at the same time, each with an iteration for each thread.
  void checkTogether(const Task &task, unsigned blocks, const uint8_t *arguments) const;
  /// Launches tasks in their order; `repeat` counts the repeats launched so far.
  void launchTasks(StreamState &streamState, const uint8_t *arguments, uint32_t first, uint32_t end, size_t &repeat);
  bool isRepeated(StreamState &streamState, const artifact::Repeat &repeat);
  bool isGraph(StreamState &streamState) const;
  // device_graph.cpp
  struct GraphPart;
  void addTask(GraphPart &part, size_t number) const;
  void addRepeat(GraphPart &part, size_t &repeat) const;
  void addSetter(GraphPart &part, const ConditionUpdate &update) const;
  void addTasks(GraphPart &part, uint32_t first, uint32_t end, size_t &repeat) const;
  void makeGraph(StreamState &streamState, const uint8_t *arguments, void **pointers);
  void launchGraph(StreamState &streamState, const uint8_t *arguments, bool isChanged);
  void waitAndReport(StreamState &streamState, runtime::KernelRun &run);
  void takePrints(StreamState &streamState, runtime::KernelRun &run);
  void takeFailure(StreamState &streamState, runtime::KernelRun &run);

  std::shared_ptr<Memory> memory;
  std::shared_ptr<TaskTimer> timer;
  TaskTimer::Launch *timed = nullptr; ///< the launch that runs now
  uint32_t firstEntry = 0;            ///< of the profiler
  std::mutex mutex;                   ///< one launch at a time: launches of a stream share its StreamState
  std::string name;
  std::vector<artifact::Site> sites;
  std::vector<artifact::Repeat> repeats;
  bool hasPrint = false, drawsRandom = false;
  bool waitsForGrids = false; ///< a task has blocks that wait for each other, which graphs do not support
  size_t argumentBytes, resultBytes, scratchBytes;
  std::vector<Module> modules; ///< each has some of the tasks
  std::vector<Task> tasks;
  std::vector<std::unique_ptr<StreamState>> streamStates; ///< the first one belongs to the default stream
};

} // namespace qd::gpu
