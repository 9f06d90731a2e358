// device_graph.cpp: the tasks of a kernel as a graph of the driver
//
// In:   the tasks, their branches and repeats, and the parameters of a launch.
// Out:  a graph, built once per stream; later launches only change parameters. The device itself runs repeated tasks again, as the body of
//       a loop, so the host waits for no round.
#include "backends/gpu/device_launch.h"

#include <map>

namespace qd::gpu {

/// A graph, or the body of a loop in one, while tasks are added to it.
struct GpuKernel::GraphPart {
  StreamState &streamState;
  const uint8_t *arguments;
  void **pointers;
  Graph graph;
  std::vector<GraphNode> before = {};          ///< what the next node waits for
  bool isAfterTask = false;                    ///< whether that are tasks, and no other nodes
  std::map<uint32_t, GraphNode> branches = {}; ///< the last task of each

  /// Ends the branches: what follows waits for all of them.
  void join() {
    if (branches.empty()) return;
    before.clear();
    for (auto &[number, last] : branches) before.push_back(last);
    branches.clear();
    isAfterTask = true;
  }
  void follow(GraphNode node, bool isTask) {
    before = {node};
    isAfterTask = isTask;
  }
};

/// Branches follow the task before the first of them, and the task after them waits for the last task of each branch.
void GpuKernel::addTask(GraphPart &part, size_t number) const {
  const Api &api = memory->api;
  KernelNode node = makeNode(tasks[number], part.arguments, part.pointers);
  uint32_t branch = tasks[number].deviceTask.branch;
  if (branch == 0) part.join();
  auto last = part.branches.find(branch);
  std::vector<GraphNode> after = last == part.branches.end() ? part.before : std::vector{last->second};
  bool isAfterTask = part.isAfterTask || last != part.branches.end();
  bool isEarly = api.addGraphEdges && tasks[number].deviceTask.waits && after.size() == 1 && isAfterTask;
  GraphNode &made = part.streamState.nodes[number];
  memory->check(api.addKernelNode(&made, part.graph, after.data(), isEarly ? 0 : after.size(), &node), "make a graph");
  const GraphEdge edge = GraphEdge::makeEarlyLaunch();
  if (isEarly) memory->check(api.addGraphEdges(part.graph, after.data(), &made, &edge, 1), "make a graph");
  if (branch)
    part.branches[branch] = made;
  else
    part.follow(made, true);
}

void GpuKernel::addSetter(GraphPart &part, const ConditionUpdate &update) const {
  void *pointers[] = {const_cast<ConditionUpdate *>(&update)};
  KernelNode node{memory->getConditionSetter(), 1, 1, 1, 1, 1, 1, 0, pointers, nullptr, nullptr, nullptr};
  GraphNode made = nullptr;
  memory->check(memory->api.addKernelNode(&made, part.graph, part.before.data(), part.before.size(), &node), "make a graph");
  part.follow(made, false);
}

void GpuKernel::addRepeat(GraphPart &part, size_t &repeat) const {
  const Api &api = memory->api;
  const artifact::Repeat &own = repeats[repeat++];
  const StreamState &streamState = part.streamState;
  ConditionUpdate update{0, nullptr, &static_cast<const QdGpuState *>(streamState.state->getData())->failed};
  LoopNode loop{.condition = 0, .context = nullptr};
  part.join();
  memory->check(api.getCurrentContext(&loop.context), "make a graph");
  memory->check(api.createCondition(&update.condition, streamState.graph, loop.context, 1, kSetByLaunch), "make a graph");
  loop.condition = update.condition;
  if (part.graph != streamState.graph) addSetter(part, update); // an earlier round of the outer loop has left 0
  GraphNode made = nullptr;
  memory->check(api.addNode(&made, part.graph, part.before.data(), nullptr, part.before.size(), &loop), "make a graph");
  part.follow(made, false);
  GraphPart body{part.streamState, part.arguments, part.pointers, loop.bodies[0]};
  addTasks(body, own.firstTask, own.endTask, repeat);
  body.join();
  update.flag = static_cast<const unsigned char *>(streamState.scratch->getData()) + own.slot;
  addSetter(body, update);
}

void GpuKernel::addTasks(GraphPart &part, uint32_t first, uint32_t end, size_t &repeat) const {
  while (first < end) {
    if (repeat == repeats.size() || repeats[repeat].firstTask != first) {
      addTask(part, first++);
      continue;
    }
    first = repeats[repeat].endTask;
    addRepeat(part, repeat);
  }
}

void GpuKernel::makeGraph(StreamState &streamState, const uint8_t *arguments, void **pointers) {
  const Api &api = memory->api;
  memory->check(api.createGraph(&streamState.graph, 0), "make a graph");
  GraphPart whole{streamState, arguments, pointers, streamState.graph};
  size_t repeat = 0;
  addTasks(whole, 0, uint32_t(tasks.size()), repeat);
  memory->check(api.instantiateGraph(&streamState.executable, streamState.graph, 0), "make a graph");
}

/// Launches the tasks as a graph. It costs half of a plain launch even for one task, and much less per task.
void GpuKernel::launchGraph(StreamState &streamState, const uint8_t *arguments, bool isChanged) {
  const Api &api = memory->api;
  void *pointers[] = {streamState.parameters.data()};
  if (!streamState.executable) {
    makeGraph(streamState, arguments, pointers);
  } else if (isChanged) {
    for (size_t i = 0; i < tasks.size(); ++i) {
      KernelNode node = makeNode(tasks[i], arguments, pointers);
      memory->check(api.setKernelNode(streamState.executable, streamState.nodes[i], &node), "launch a kernel");
    }
  }
  memory->check(api.launchGraph(streamState.executable, streamState.stream), "launch a kernel");
}

} // namespace qd::gpu
