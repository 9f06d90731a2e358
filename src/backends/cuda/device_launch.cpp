// device_launch.cpp: launches a kernel on a GPU: sizes of grids, parameters, graphs, and the reports of checks and prints
//
// In:   the artifact's DeviceTasks, and the argument block of each launch.
// Out:  tasks in a stream, launched one by one or as a graph; failures and prints, if the kernel has any, after a wait.
#include "backends/cuda/device_launch.h"

#include "support/log.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace qd::cuda {

using artifact::Site;
using support::Error;
using support::ErrorKind;

// Size of a launch's print buffer in words; further prints are dropped.
static constexpr size_t kPrintWords = 128 << 10;

//--- What failed ---

void GpuKernel::takeFailure(Lane &lane, runtime::KernelRun &run) {
  auto *report = reinterpret_cast<QdGpuFailure *>(lane.failure.get());
  if (!report || !__atomic_load_n(&report->failed, __ATOMIC_ACQUIRE)) return;
  std::vector<uint64_t> values(std::begin(report->values), std::end(report->values));
  if (size_t(report->site) < sites.size()) values.resize(std::max(values.size(), sites[size_t(report->site)].countValues()));
  run.fail(report->site, values.data());
  report->failed = report->claimed = 0;
  memory->fill(lane.state->getData(), 0, sizeof(QdGpuState));
}

//--- Loading ---

static bool hasChecks(const std::vector<Site> &sites) {
  return std::any_of(sites.begin(), sites.end(),
                     [](const Site &site) { return site.kind != Site::Kind::Print && site.kind != Site::Kind::PrintError; });
}

GpuKernel::GpuKernel(std::shared_ptr<Memory> owner, const artifact::Artifact &artifact)
    : memory(std::move(owner)), name(artifact.kernel), sites(artifact.sites), repeats(artifact.repeats), hasPrint(artifact.hasPrint),
      drawsRandom(artifact.drawsRandom), argumentBytes(artifact.argumentBytes),
      resultBytes(artifact.results.empty() ? 0 : artifact.resultBytes), scratchBytes(artifact.scratchBytes) {
  Memory::Scope scope(*memory);
  const Api &api = memory->api;
  memory->check(api.loadModule(&module, artifact.binary.data()), "load a compiled kernel");
  unsigned processors = unsigned(memory->getAttribute(kMultiprocessorCount));
  for (const artifact::DeviceTask &deviceTask : artifact.tasks) {
    Task task{deviceTask};
    memory->check(api.getFunction(&task.function, module, deviceTask.entry.c_str()), "find a task of a compiled kernel");
    int blocks = 1;
    memory->check(api.getOccupancy(&blocks, task.function, int(deviceTask.blockSize), 0), "say how many blocks run at a time");
    task.residentBlocks = std::max(1u, unsigned(blocks) * processors);
    waitsForGrids |= deviceTask.isTogether;
    tasks.push_back(std::move(task));
  }
  getLane(nullptr);
}

GpuKernel::Lane &GpuKernel::getLane(Stream stream) {
  for (std::unique_ptr<Lane> &lane : lanes)
    if (lane->stream == stream) return *lane;
  auto lane = std::make_unique<Lane>();
  lane->stream = stream;
  lane->state = memory->allocate(sizeof(QdGpuState));
  if (scratchBytes) lane->scratch = memory->allocate(scratchBytes);
  if (argumentBytes > QD_GPU_INLINE_ARGUMENTS) lane->argumentCopy = memory->allocate(argumentBytes);
  if (resultBytes) lane->result = Memory::Shared(*memory, resultBytes);
  if (hasChecks(sites)) lane->failure = Memory::Shared(*memory, sizeof(QdGpuFailure));
  if (hasPrint) {
    lane->prints = Memory::Shared(*memory, sizeof(QdGpuPrints) + kPrintWords * sizeof(uint64_t));
    auto *printed = reinterpret_cast<QdGpuPrints *>(lane->prints.get());
    printed->capacity = kPrintWords;
    memset(printed->words, 0xff, kPrintWords * sizeof(uint64_t)); // no site
  }
  lane->parameters.resize(sizeof(QdGpuLaunch) + (lane->argumentCopy ? 0 : argumentBytes));
  lane->nodes.resize(tasks.size());
  return *lanes.emplace_back(std::move(lane));
}

GpuKernel::~GpuKernel() {
  try {
    // Running kernels still need their code.
    memory->synchronize();
    Memory::Scope scope(*memory);
    for (const std::unique_ptr<Lane> &lane : lanes) {
      if (lane->executable) memory->api.destroyExecutableGraph(lane->executable);
      if (lane->graph) memory->api.destroyGraph(lane->graph);
    }
    memory->api.unloadModule(module);
  } catch (const Error &) {
    // After a fault or a fork nothing can be released.
  }
}

//--- A launch ---

KernelNode GpuKernel::makeNode(const Task &task, const uint8_t *arguments, void **kernelParameters) const {
  const artifact::DeviceTask &deviceTask = task.deviceTask;
  int64_t blocks = task.residentBlocks;
  if (deviceTask.iterations.isKnown()) {
    int64_t iterations = deviceTask.iterations.evaluate(arguments);
    if (iterations == INT64_MAX) throw Error(ErrorKind::Runtime, "kernel " + name + ": " + artifact::kTooManyIterations);
    int64_t inBlock = int64_t(deviceTask.blockSize) * deviceTask.perThread;
    blocks = std::clamp<int64_t>(iterations <= 0 ? 1 : (iterations - 1) / inBlock + 1, 1, INT32_MAX);
  }
  if (deviceTask.maxBlocks) blocks = std::min<int64_t>(blocks, deviceTask.maxBlocks);
  int64_t sharedBytes = deviceTask.sharedBytes.isKnown() ? deviceTask.sharedBytes.evaluate(arguments) : 0;
  if (sharedBytes < 0 || sharedBytes > artifact::DeviceTask::kMaxSharedBytes) sharedBytes = 0;
  return {task.function,    unsigned(blocks), 1,       1,      deviceTask.blockSize, 1, 1, unsigned(sharedBytes),
          kernelParameters, nullptr,          nullptr, nullptr};
}

void GpuKernel::writeParameters(Lane &lane, runtime::KernelRun &run) {
  auto *head = reinterpret_cast<QdGpuLaunch *>(lane.parameters.data());
  auto getAddress = [](const runtime::BufferRef &buffer) { return static_cast<unsigned char *>(buffer ? buffer->getData() : nullptr); };
  head->arguments = getAddress(lane.argumentCopy);
  head->result = lane.result.get();
  head->scratch = getAddress(lane.scratch);
  head->state = reinterpret_cast<QdGpuState *>(getAddress(lane.state));
  head->failure = reinterpret_cast<QdGpuFailure *>(lane.failure.get());
  head->prints = reinterpret_cast<QdGpuPrints *>(lane.prints.get());
  // Members that the code does not read keep their values, so that graphs need no new parameters.
  head->random_seed = drawsRandom ? run.context.random_seed : 0;
  head->launch_index = drawsRandom ? run.context.launch_index : 0;
  if (lane.argumentCopy)
    memory->write(lane.argumentCopy->getData(), run.context.arguments, argumentBytes);
  else
    memcpy(lane.parameters.data() + sizeof *head, run.context.arguments, argumentBytes);
}

void GpuKernel::checkTogether(const Task &task, unsigned blocks, const uint8_t *arguments) const {
  int64_t iterations = task.deviceTask.iterations.evaluate(arguments), size = task.deviceTask.blockSize;
  std::string what = "kernel " + name + ": qd.simt.grid.sync() waits for " + std::to_string(iterations) + " threads, ";
  if (iterations % size != 0)
    throw Error(ErrorKind::Runtime, what + "which are no whole blocks of " + std::to_string(size) + ": make them a multiple of block_dim");
  if (blocks > task.residentBlocks)
    throw Error(ErrorKind::Runtime, what + std::to_string(blocks) + " blocks; " + std::to_string(task.residentBlocks) +
                                        " of them can run at the same time on this device: let each thread do more");
}

void GpuKernel::launchTask(Lane &lane, const Task &task, const uint8_t *arguments) {
  void *pointers[] = {lane.parameters.data()};
  KernelNode node = makeNode(task, arguments, pointers);
  const Api &api = memory->api;
  if (task.deviceTask.isTogether && task.deviceTask.iterations.evaluate(arguments) <= 0) return;
  if (task.deviceTask.isTogether) checkTogether(task, node.gridX, arguments);
  memory->check(task.deviceTask.isTogether
                    ? api.launchTogether(node.function, node.gridX, 1, 1, node.blockX, 1, 1, node.sharedBytes, lane.stream, pointers)
                    : api.launch(node.function, node.gridX, 1, 1, node.blockX, 1, 1, node.sharedBytes, lane.stream, pointers, nullptr),
                "launch a kernel");
}

void GpuKernel::launchTasks(Lane &lane, const uint8_t *arguments, uint32_t first, uint32_t end, size_t &repeat) {
  while (first < end) {
    if (repeat == repeats.size() || repeats[repeat].firstTask != first) {
      launchTask(lane, tasks[first++], arguments);
      continue;
    }
    const artifact::Repeat &own = repeats[repeat];
    size_t inner;
    do {
      inner = repeat + 1;
      launchTasks(lane, arguments, own.firstTask, own.endTask, inner);
    } while (isRepeated(lane, own));
    repeat = inner;
    first = own.endTask;
  }
}

/// Whether to repeat the tasks. The host reads the condition, a byte, after each round; the alternative in device code needs NVIDIA's own
/// libraries.
bool GpuKernel::isRepeated(Lane &lane, const artifact::Repeat &repeat) {
  memory->check(memory->api.synchronizeStream(lane.stream), "finish what was launched");
  auto *report = reinterpret_cast<QdGpuFailure *>(lane.failure.get());
  if (report && __atomic_load_n(&report->failed, __ATOMIC_ACQUIRE)) return false; // tasks after a failure have no effect
  uint8_t condition;
  memory->read(&condition, static_cast<const uint8_t *>(lane.scratch->getData()) + repeat.slot, 1);
  return condition != 0;
}

/// Builds the graph of the tasks. Branches follow the task before the first of them, and the task after them waits for the last task of
/// each branch.
void GpuKernel::makeGraph(Lane &lane, const uint8_t *arguments, void **pointers) {
  const Api &api = memory->api;
  memory->check(api.createGraph(&lane.graph, 0), "make a graph");
  std::vector<GraphNode> before;
  std::map<uint32_t, GraphNode> branches; // the last task of each
  for (size_t i = 0; i < tasks.size(); ++i) {
    KernelNode node = makeNode(tasks[i], arguments, pointers);
    uint32_t branch = tasks[i].deviceTask.branch;
    if (branch == 0 && !branches.empty()) {
      before.clear();
      for (auto &[number, last] : branches) before.push_back(last);
      branches.clear();
    }
    auto last = branches.find(branch);
    std::vector<GraphNode> after = last == branches.end() ? before : std::vector{last->second};
    bool isEarly = api.addGraphEdges && tasks[i].deviceTask.waits && after.size() == 1;
    memory->check(api.addKernelNode(&lane.nodes[i], lane.graph, after.data(), isEarly ? 0 : after.size(), &node), "make a graph");
    const GraphEdge edge = GraphEdge::makeEarly();
    if (isEarly) memory->check(api.addGraphEdges(lane.graph, after.data(), &lane.nodes[i], &edge, 1), "make a graph");
    if (branch)
      branches[branch] = lane.nodes[i];
    else
      before = {lane.nodes[i]};
  }
  memory->check(api.instantiateGraph(&lane.executable, lane.graph, 0), "make a graph");
}

/// Launches the tasks as a graph. It costs half of a plain launch even for one task, and much less per task.
void GpuKernel::launchGraph(Lane &lane, const uint8_t *arguments, bool isChanged) {
  const Api &api = memory->api;
  void *pointers[] = {lane.parameters.data()};
  if (!lane.executable) {
    makeGraph(lane, arguments, pointers);
  } else if (isChanged) {
    for (size_t i = 0; i < tasks.size(); ++i) {
      KernelNode node = makeNode(tasks[i], arguments, pointers);
      memory->check(api.setKernelNode(lane.executable, lane.nodes[i], &node), "launch a kernel");
    }
  }
  memory->check(api.launchGraph(lane.executable, lane.stream), "launch a kernel");
}

void GpuKernel::run(runtime::KernelRun &run) {
  std::unique_lock lock(mutex, std::try_to_lock);
  if (!lock.owns_lock()) {
    run.observer->poll(); // the owner of the lock may need the GIL
    lock.lock();
  }
  Memory::Scope scope(*memory);
  Lane &lane = getLane(static_cast<Stream>(run.stream));
  writeParameters(lane, run);
  memory->order.beginLaunch(lane.stream);
  // Building a graph pays from the second launch on.
  if (tasks.empty() || !repeats.empty() || waitsForGrids || !memory->usesGraphs || !memory->api.hasGraphs() || ++lane.launches == 1) {
    size_t repeat = 0;
    launchTasks(lane, run.context.arguments, 0, uint32_t(tasks.size()), repeat);
  } else {
    bool isChanged = lane.parameters != lane.launched;
    if (isChanged) lane.launched = lane.parameters;
    // The sizes of the grids may depend on arguments that only the copy contains.
    launchGraph(lane, run.context.arguments, isChanged || lane.argumentCopy);
  }
  memory->order.endLaunch(lane.stream);
  // Checks exist in debug mode only, where each launch reports its failure.
  if (resultBytes || hasPrint || lane.failure.get()) waitAndReport(lane, run);
}

void GpuKernel::waitAndReport(Lane &lane, runtime::KernelRun &run) {
  // If the observer cancels the run, the wait ends but the kernel continues: a grid cannot be stopped.
  if (!memory->waitFor(lane.stream, [&] { return run.observer->poll(), !run.context.failed; })) return;
  if (resultBytes) memcpy(run.context.result, lane.result.get(), resultBytes);
  if (hasPrint) takePrints(lane, run);
  takeFailure(lane, run);
}

void GpuKernel::takePrints(Lane &lane, runtime::KernelRun &run) {
  auto *printed = reinterpret_cast<QdGpuPrints *>(lane.prints.get());
  if (printed->used > printed->capacity)
    support::log(support::LogLevel::Warn, "kernel " + name + " printed more in one launch than there is room for; the rest is left out");
  uint64_t used = std::min(printed->used, printed->capacity);
  for (uint64_t at = 0; at < used;) {
    uint64_t site = printed->words[at];
    if (site >= sites.size() || at + 1 + sites[size_t(site)].countValues() > used) break; // a record that did not fit is not written
    run.print(int32_t(site), printed->words + at + 1);
    at += 1 + sites[size_t(site)].countValues();
  }
  memset(printed->words, 0xff, used * sizeof(uint64_t));
  printed->used = 0;
}

} // namespace qd::cuda
