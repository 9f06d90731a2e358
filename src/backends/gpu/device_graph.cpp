// device_graph.cpp: the tasks of a kernel as a graph of the driver
//
// In:   the tasks, their branches and repeats, and the parameters of a launch.
// Out:  a graph, built once per stream, or one for the launches of several kernels; later launches only change parameters. The device
//       itself runs repeated tasks again, as the body of a loop, so the host waits for no round.
#include "backends/gpu/device_launch.h"

namespace qd::gpu {

/// Ends the branches: what follows waits for all of them.
void GpuKernel::GraphPart::join() {
  if (branches.empty()) return;
  before = {{}, true};
  for (auto &[number, last] : branches) {
    before.nodes.push_back(last.nodes[0]);
    before.areTasks &= last.areTasks;
  }
  branches.clear();
}

/// What the next node of a branch waits for: the last one of the branch, or what was there before all branches.
const GpuKernel::GraphPart::Before &GpuKernel::GraphPart::findBefore(const artifact::Branch &branch) {
  if (branch.number == 0 || branch.context != context) join();
  context = branch.context;
  auto last = branches.find(branch.number);
  return last == branches.end() ? before : last->second;
}

/// Branches follow the task before the first of them, and the task after them waits for the last task of each branch.
void GpuKernel::addTask(GraphPart &part, size_t number) const {
  const Api &api = memory->api;
  KernelNode node = makeNode(tasks[number], part.arguments, part.pointers);
  const artifact::Branch &branch = tasks[number].deviceTask.branch;
  const GraphPart::Before &after = part.findBefore(branch);
  bool isEarly = api.addGraphEdges && tasks[number].deviceTask.waits && after.nodes.size() == 1 && after.areTasks;
  GraphNode &made = part.streamState->nodes[number];
  memory->check(api.addKernelNode(&made, part.graph, after.nodes.data(), isEarly ? 0 : after.nodes.size(), &node), "make a graph");
  const GraphEdge edge = GraphEdge::makeEarlyLaunch();
  if (isEarly) memory->check(api.addGraphEdges(part.graph, after.nodes.data(), &made, &edge, 1), "make a graph");
  part.follow(branch, made, true);
}

void GpuKernel::addSetter(GraphPart &part, const ConditionUpdate &update, const artifact::Branch &branch) const {
  void *pointers[] = {const_cast<ConditionUpdate *>(&update)};
  KernelNode node{memory->getConditionSetter(), 1, 1, 1, 1, 1, 1, 0, pointers, nullptr, nullptr, nullptr};
  GraphNode made = nullptr;
  const std::vector<GraphNode> &after = part.findBefore(branch).nodes;
  memory->check(memory->api.addKernelNode(&made, part.graph, after.data(), after.size(), &node), "make a graph");
  part.follow(branch, made, false);
}

void GpuKernel::addRepeat(GraphPart &part, size_t &repeat) const {
  const Api &api = memory->api;
  const artifact::Repeat &own = repeats[repeat++];
  const StreamState &streamState = *part.streamState;
  ConditionUpdate update{0, nullptr, &static_cast<const QdGpuState *>(streamState.state->getData())->failed};
  LoopNode loop{.condition = 0, .context = nullptr};
  memory->check(api.getCurrentContext(&loop.context), "make a graph");
  memory->check(api.createCondition(&update.condition, part.root, loop.context, 1, kSetByLaunch), "make a graph");
  loop.condition = update.condition;
  if (part.graph != part.root) addSetter(part, update, own.branch); // an earlier round of the outer loop has left 0
  GraphNode made = nullptr;
  const std::vector<GraphNode> &after = part.findBefore(own.branch).nodes;
  memory->check(api.addNode(&made, part.graph, after.data(), nullptr, after.size(), &loop), "make a graph");
  part.follow(own.branch, made, false);
  GraphPart body{part.root, loop.bodies[0], part.streamState, part.arguments, part.pointers};
  addTasks(body, own.firstTask, own.endTask, repeat);
  update.flag = static_cast<const unsigned char *>(streamState.scratch->getData()) + own.slot;
  addSetter(body, update, {});
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
  GraphPart whole{streamState.graph, streamState.graph, &streamState, arguments, pointers};
  size_t repeat = 0;
  addTasks(whole, 0, uint32_t(tasks.size()), repeat);
  memory->check(api.instantiateGraph(&streamState.executable, streamState.graph, 0), "make a graph");
}

/// Changes what the tasks in a graph that was made before take.
void GpuKernel::updateNodes(const StreamState &streamState, ExecutableGraph executable, const uint8_t *arguments) const {
  void *pointers[] = {const_cast<unsigned char *>(streamState.parameters.data())};
  for (size_t i = 0; i < tasks.size(); ++i) {
    KernelNode node = makeNode(tasks[i], arguments, pointers);
    memory->check(memory->api.setKernelNode(executable, streamState.nodes[i], &node), "launch a kernel");
  }
}

/// Launches the tasks as a graph. It costs half of a plain launch even for one task, and much less per task.
void GpuKernel::launchGraph(StreamState &streamState, const uint8_t *arguments, bool isChanged) {
  const Api &api = memory->api;
  void *pointers[] = {streamState.parameters.data()};
  if (!streamState.executable) {
    makeGraph(streamState, arguments, pointers);
  } else if (isChanged) {
    updateNodes(streamState, streamState.executable, arguments);
  }
  memory->check(api.launchGraph(streamState.executable, streamState.stream), "launch a kernel");
}

//--- Graphs of several kernels ---

bool GpuKernel::addTo(runtime::LaunchGraph &graph, runtime::KernelRun &run, const std::shared_ptr<const void> &owner) {
  // A launch that reports to the host, or that the host repeats, is one of its own.
  bool reports = timer || resultBytes || hasPrint || streamStates[0]->failure.get();
  if (reports || waitsForGrids || (!repeats.empty() && !memory->getConditionSetter())) return false;
  if (!tasks.empty()) static_cast<GpuGraph &>(graph).add(*this, run, owner);
  return true;
}

void GpuGraph::begin() {
  segment = 0;
  for (Segment &each : segments) each.count = 0;
}

void GpuGraph::add(GpuKernel &kernel, runtime::KernelRun &run, const std::shared_ptr<const void> &owner) {
  Memory::Scope scope(*memory);
  if (segment == segments.size()) segments.emplace_back();
  Segment &own = segments[segment];
  if (own.count == own.entries.size()) own.entries.emplace_back();
  Entry &entry = own.entries[own.count];
  if (entry.kernel != &kernel) {
    own.isStale = true;
    entry = {&kernel, owner, kernel.makeStreamState(nullptr), {}};
  }
  kernel.writeParameters(*entry.state, run);
  entry.arguments.assign(run.context.arguments, run.context.arguments + kernel.argumentBytes);
  // The sizes of the grids may depend on arguments that only the copy contains.
  entry.isChanged = entry.state->parameters != entry.state->launched || entry.state->argumentCopy;
  ++own.count;
}

void GpuGraph::make(Segment &made) {
  release(made);
  const Api &api = memory->api;
  memory->check(api.createGraph(&made.graph, 0), "make a graph");
  GpuKernel::GraphPart whole{made.graph, made.graph};
  for (Entry &entry : made.entries) {
    void *pointers[] = {entry.state->parameters.data()};
    whole.streamState = entry.state.get();
    whole.arguments = entry.arguments.data();
    whole.pointers = pointers;
    whole.join();
    size_t repeat = 0;
    entry.kernel->addTasks(whole, 0, uint32_t(entry.kernel->tasks.size()), repeat);
  }
  memory->check(api.instantiateGraph(&made.executable, made.graph, 0), "make a graph");
  made.isStale = false;
}

void GpuGraph::flush(void *stream) {
  if (segment == segments.size() || segments[segment].count == 0) return;
  Memory::Scope scope(*memory);
  Segment &own = segments[segment++];
  own.isStale |= own.count != own.entries.size();
  own.entries.resize(own.count);
  own.count = 0;
  if (own.isStale)
    make(own);
  else
    for (const Entry &entry : own.entries)
      if (entry.isChanged) entry.kernel->updateNodes(*entry.state, own.executable, entry.arguments.data());
  for (Entry &entry : own.entries) entry.state->launched = entry.state->parameters;
  memory->order.beginLaunch(static_cast<Stream>(stream));
  memory->check(memory->api.launchGraph(own.executable, static_cast<Stream>(stream)), "launch a kernel");
  memory->order.endLaunch(static_cast<Stream>(stream));
}

void GpuGraph::finish(void *stream) {
  flush(stream);
  for (size_t old = segment; old < segments.size(); ++old) release(segments[old]);
  segments.resize(segment);
}

/// A graph that runs still needs its nodes.
void GpuGraph::release(Segment &old) {
  if (!old.graph) return;
  memory->synchronize();
  Memory::Scope scope(*memory);
  if (old.executable) memory->api.destroyExecutableGraph(old.executable);
  memory->api.destroyGraph(old.graph);
  old.executable = nullptr, old.graph = nullptr;
}

GpuGraph::~GpuGraph() {
  try {
    for (Segment &old : segments) release(old);
  } catch (const support::Error &) {
    // After a fault or a fork nothing can be released.
  }
}

} // namespace qd::gpu
