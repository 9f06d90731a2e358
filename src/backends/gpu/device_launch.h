// device_launch.h: a kernel on the GPU: its tasks as a graph, the memory that a launch uses, and its reports
#pragma once

#include "backends/gpu/device_memory.h"
#include "backends/gpu/device_timer.h"
#include "runtime/device.h"

#include <map>
#include <mutex>
#include <vector>

namespace qd::gpu {

class GpuGraph;

class GpuKernel final : public runtime::LoadedKernel {
public:
  /// `timer` is null unless the kernel is timed.
  GpuKernel(std::shared_ptr<Memory> memory, std::shared_ptr<TaskTimer> timer, const artifact::Artifact &artifact);
  ~GpuKernel() override;
  void run(runtime::KernelRun &run) override;
  bool addTo(runtime::LaunchGraph &graph, runtime::KernelRun &run, const std::shared_ptr<const void> &owner) override;

private:
  friend GpuGraph;
  struct Task {
    artifact::DeviceTask deviceTask;
    Function function = nullptr;
    unsigned residentBlocks = 1; ///< maximum number of blocks that run at the same time
  };
  /// State of the launches of one stream, which run one after the other.
  struct StreamState {
    Stream stream = nullptr;
    runtime::BufferRef scratch, state, argumentCopy;
    std::vector<runtime::BufferRef> temporaries; ///< as large as the largest launch needed
    Memory::Shared failure, prints, result;
    std::vector<unsigned char> parameters, launched; ///< QdGpuLaunch and the arguments after it: of this launch, and as stored in the graph
    Graph graph = nullptr;
    ExecutableGraph executable = nullptr;
    std::vector<GraphNode> nodes; ///< one per task
    int launches = 0;
  };
  StreamState &getStreamState(Stream stream);
  std::unique_ptr<StreamState> makeStreamState(Stream stream);
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
  void updateNodes(const StreamState &streamState, ExecutableGraph executable, const uint8_t *arguments) const;
  void addTask(GraphPart &part, size_t number) const;
  void addRepeat(GraphPart &part, size_t &repeat) const;
  void addSetter(GraphPart &part, const ConditionUpdate &update, const artifact::Branch &branch) const;
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

/// A graph, or the body of a loop in one, while the tasks of launches are added to it.
struct GpuKernel::GraphPart {
  Graph root, graph; ///< the whole graph, and the part
  StreamState *streamState = nullptr;
  const uint8_t *arguments = nullptr;
  void **pointers = nullptr;
  /// What a node waits for.
  struct Before {
    std::vector<GraphNode> nodes;
    bool areTasks = false; ///< all of them
  };
  Before before = {};
  std::map<uint32_t, Before> branches = {}; ///< the last node of each
  uint32_t context = 0;                     ///< of the branches

  void join();
  const Before &findBefore(const artifact::Branch &branch);
  void follow(const artifact::Branch &branch, GraphNode node, bool isTask) {
    (branch.number ? branches[branch.number] : before) = {{node}, isTask};
  }
};

/// The launches of several kernels as graphs of the driver, one for each run of launches without one that a graph cannot contain.
class GpuGraph final : public runtime::LaunchGraph {
public:
  explicit GpuGraph(std::shared_ptr<Memory> memory) : memory(std::move(memory)) {}
  ~GpuGraph() override;
  void begin() override;
  void add(GpuKernel &kernel, runtime::KernelRun &run, const std::shared_ptr<const void> &owner);
  void flush(void *stream) override;
  void finish(void *stream) override;

private:
  /// A launch. Its memory is its own, so that one kernel may have several launches with different arguments.
  struct Entry {
    GpuKernel *kernel = nullptr;
    std::shared_ptr<const void> owner; ///< of the kernel
    std::unique_ptr<GpuKernel::StreamState> state;
    std::vector<uint8_t> arguments;
    bool isChanged = true; ///< since the graph was made
  };
  struct Segment {
    std::vector<Entry> entries;
    size_t count = 0; ///< of those that were collected this time
    bool isStale = true;
    Graph graph = nullptr;
    ExecutableGraph executable = nullptr;
  };
  void make(Segment &made);
  void release(Segment &old);

  std::shared_ptr<Memory> memory;
  std::vector<Segment> segments;
  size_t segment = 0; ///< the number of the current one
};

} // namespace qd::gpu
