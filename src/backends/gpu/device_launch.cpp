// device_launch.cpp: launches a kernel on a GPU: sizes of grids, parameters, graphs, and the reports of checks and prints
//
// In:   the artifact's DeviceTasks, and the argument block of each launch.
// Out:  tasks in a stream, launched one by one or as a graph; failures and prints, if the kernel has any, after a wait.
#include "backends/gpu/device_launch.h"

#include "backends/gpu/device_code.h"
#include "runtime/profiler.h"
#include "support/log.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace qd::gpu {

using artifact::Site;
using support::Error;
using support::ErrorKind;

// Size of a launch's print buffer in words; further prints are dropped.
static constexpr uint32_t kPrintWords = 128 << 10;
/// Maximum number of blocks with private copies of containers: each of them costs a merge, and more blocks never run at a time.
static constexpr int64_t kMaxCopies = 2048;
/// Blocks of one subgroup start slowly compared with what they do. Where each would be replaced many times, fewer blocks take many
/// iterations one after another: 98,304 blocks took 65 µs on an H100, 8,448 took 50.
static constexpr int64_t kManyReplacements = 8, kFewReplacements = 2;
/// An H200 starts 1.6 blocks in a nanosecond, so tasks that copy 4 bytes per thread took twice as long with a block for each 128 of them.
/// Where blocks would be replaced more often than this, they take iterations several times instead.
static constexpr int64_t kMostReplacements = 16;

/// Larger dynamic memory needs this attribute of the function.
static constexpr uint32_t kStaticBytes = 48 << 10;
static constexpr int kDynamicBytesAttribute = 8;

//--- What failed ---

void GpuKernel::takeFailure(StreamState &streamState, runtime::KernelRun &run) {
  auto *report = reinterpret_cast<QdGpuFailure *>(streamState.failure.get());
  if (!report || !__atomic_load_n(&report->failed, __ATOMIC_ACQUIRE)) return;
  std::vector<uint64_t> values(std::begin(report->values), std::end(report->values));
  if (size_t(report->site) < sites.size()) values.resize(std::max(values.size(), sites[size_t(report->site)].countValues()));
  run.fail(report->site, values.data());
  report->failed = report->claimed = 0;
  streamState.failure.send(streamState.stream, sizeof *report);
  memory->fill(streamState.state->getData(), 0, sizeof(QdGpuState));
}

//--- Loading ---

static bool hasChecks(const std::vector<Site> &sites) {
  return std::any_of(sites.begin(), sites.end(),
                     [](const Site &site) { return site.kind != Site::Kind::Print && site.kind != Site::Kind::PrintError; });
}

GpuKernel::GpuKernel(std::shared_ptr<Memory> owner, std::shared_ptr<TaskTimer> taskTimer, const artifact::Artifact &artifact)
    : memory(std::move(owner)), timer(std::move(taskTimer)), name(artifact.kernel), sites(artifact.sites), repeats(artifact.repeats),
      hasPrint(artifact.hasPrint), drawsRandom(artifact.drawsRandom), argumentBytes(artifact.argumentBytes),
      resultBytes(artifact.results.empty() ? 0 : artifact.resultBytes), scratchBytes(artifact.scratchBytes) {
  Memory::Scope scope(*memory);
  const Api &api = memory->api;
  for (const uint8_t *part : findParts(artifact.binary))
    memory->check(api.loadModule(&modules.emplace_back(), part), "load a compiled kernel");
  unsigned processors = unsigned(memory->getAttribute(api.attributes.multiprocessorCount));
  for (const artifact::DeviceTask &deviceTask : artifact.tasks) {
    Task task{deviceTask};
    Status status = kSuccess;
    for (Module module : modules)
      if (!task.function && (status = api.getFunction(&task.function, module, deviceTask.entry.c_str())) != kSuccess)
        task.function = nullptr;
    if (!task.function) memory->check(status, "find a task of a compiled kernel");
    int blocks = 1;
    if (deviceTask.arrayBytes > kStaticBytes)
      memory->check(api.setFunctionAttribute(task.function, kDynamicBytesAttribute, int(deviceTask.arrayBytes)), "get shared memory");
    memory->check(api.getOccupancy(&blocks, task.function, int(deviceTask.blockSize), deviceTask.arrayBytes),
                  "compute the occupancy of a task");
    task.residentBlocks = std::max(1u, unsigned(blocks) * processors);
    waitsForGrids |= deviceTask.isTogether;
    tasks.push_back(std::move(task));
  }
  if (timer) firstEntry = runtime::Profiler::get().addKernel(artifact);
  getStreamState(nullptr);
}

GpuKernel::StreamState &GpuKernel::getStreamState(Stream stream) {
  for (std::unique_ptr<StreamState> &streamState : streamStates)
    if (streamState->stream == stream) return *streamState;
  return *streamStates.emplace_back(makeStreamState(stream));
}

std::unique_ptr<GpuKernel::StreamState> GpuKernel::makeStreamState(Stream stream) {
  auto streamState = std::make_unique<StreamState>();
  streamState->stream = stream;
  streamState->state = memory->allocate(sizeof(QdGpuState));
  if (scratchBytes) streamState->scratch = memory->allocate(scratchBytes);
  if (sizeof(QdGpuLaunch) + argumentBytes > memory->api.maxParameterBytes) streamState->argumentCopy = memory->allocate(argumentBytes);
  if (resultBytes) streamState->result = Memory::Shared(*memory, resultBytes);
  if (hasChecks(sites)) streamState->failure = Memory::Shared(*memory, sizeof(QdGpuFailure));
  if (hasPrint) {
    streamState->prints = Memory::Shared(*memory, sizeof(QdGpuPrints) + kPrintWords * sizeof(uint64_t));
    auto *printed = reinterpret_cast<QdGpuPrints *>(streamState->prints.get());
    printed->capacity = kPrintWords;
    memset(printed->words, 0xff, kPrintWords * sizeof(uint64_t)); // no site
    memory->order.beginLaunch(stream);
    streamState->prints.send(stream, sizeof(QdGpuPrints) + kPrintWords * sizeof(uint64_t));
  }
  streamState->parameters.resize(sizeof(QdGpuLaunch) + (streamState->argumentCopy ? 0 : argumentBytes));
  streamState->nodes.resize(tasks.size());
  return streamState;
}

GpuKernel::~GpuKernel() {
  try {
    // Running kernels still need their code.
    memory->synchronize();
    Memory::Scope scope(*memory);
    for (const std::unique_ptr<StreamState> &streamState : streamStates) {
      if (streamState->executable) memory->api.destroyExecutableGraph(streamState->executable);
      if (streamState->graph) memory->api.destroyGraph(streamState->graph);
    }
    for (Module module : modules) memory->api.unloadModule(module);
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
  int64_t sharedBytes = deviceTask.sharedBytes.isKnown() ? deviceTask.sharedBytes.evaluate(arguments) : 0;
  if (sharedBytes < 0 || sharedBytes > memory->api.maxCopyBytes) sharedBytes = 0;
  if (deviceTask.blockSize <= deviceTask.kTinyBlock && !deviceTask.isTogether && blocks > kManyReplacements * task.residentBlocks)
    blocks = kFewReplacements * task.residentBlocks;
  if (const int64_t most = kMostReplacements * int64_t(task.residentBlocks); blocks > most)
    blocks = deviceTask.takesRounds ? most : blocks;
  else if (deviceTask.isLight)
    blocks = std::min<int64_t>(blocks, task.residentBlocks);
  if (deviceTask.isPersistent) blocks = std::min<int64_t>(blocks, task.residentBlocks);
  if (deviceTask.maxBlocks) blocks = std::min<int64_t>(blocks, deviceTask.maxBlocks);
  if (sharedBytes) blocks = std::min(blocks, kMaxCopies);
  sharedBytes += deviceTask.arrayBytes;
  return {task.function,    unsigned(blocks), 1,       1,      deviceTask.blockSize, 1, 1, unsigned(sharedBytes),
          kernelParameters, nullptr,          nullptr, nullptr};
}

void GpuKernel::writeParameters(StreamState &streamState, runtime::KernelRun &run) {
  run.placeTemporaries(streamState.temporaries, [&](size_t bytes) { return memory->allocate(bytes); });
  auto *head = reinterpret_cast<QdGpuLaunch *>(streamState.parameters.data());
  auto getAddress = [](const runtime::BufferRef &buffer) { return static_cast<unsigned char *>(buffer ? buffer->getData() : nullptr); };
  head->arguments = getAddress(streamState.argumentCopy);
  head->result = streamState.result.getOnDevice();
  head->scratch = getAddress(streamState.scratch);
  head->state = reinterpret_cast<QdGpuState *>(getAddress(streamState.state));
  head->failure = reinterpret_cast<QdGpuFailure *>(streamState.failure.getOnDevice());
  head->prints = reinterpret_cast<QdGpuPrints *>(streamState.prints.getOnDevice());
  // Members that the code does not read keep their values, so that graphs need no new parameters.
  head->random_seed = drawsRandom ? run.context.random_seed : 0;
  head->launch_index = drawsRandom ? run.context.launch_index : 0;
  if (streamState.argumentCopy)
    memory->write(streamState.argumentCopy->getData(), run.context.arguments, argumentBytes);
  else
    memcpy(streamState.parameters.data() + sizeof *head, run.context.arguments, argumentBytes);
}

void GpuKernel::checkTogether(const Task &task, unsigned blocks, const uint8_t *arguments) const {
  int64_t iterations = task.deviceTask.iterations.evaluate(arguments), size = task.deviceTask.blockSize;
  std::string what = "kernel " + name + ": qd.simt.grid.sync() waits for " + std::to_string(iterations) + " threads, ";
  if (iterations % size != 0)
    throw Error(ErrorKind::Runtime, what + "which are no whole blocks of " + std::to_string(size) + ": make them a multiple of block_dim");
  if (blocks < uint64_t(iterations / size))
    throw Error(ErrorKind::Runtime, what + std::to_string(iterations / size) + " blocks, and the loop runs " + std::to_string(blocks) +
                                        " at a time: make grid_dim larger or the loop shorter");
  if (blocks > task.residentBlocks)
    throw Error(ErrorKind::Runtime, what + std::to_string(blocks) + " blocks; " + std::to_string(task.residentBlocks) +
                                        " of them can run at the same time on this device: let each thread do more");
}

void GpuKernel::launchTask(StreamState &streamState, const Task &task, const uint8_t *arguments) {
  void *pointers[] = {streamState.parameters.data()};
  KernelNode node = makeNode(task, arguments, pointers);
  const Api &api = memory->api;
  if (task.deviceTask.isTogether && task.deviceTask.iterations.evaluate(arguments) <= 0) return;
  if (task.deviceTask.isTogether) checkTogether(task, node.gridX, arguments);
  if (task.deviceTask.isTogether && !api.launchTogether)
    throw Error(ErrorKind::Runtime, "kernel " + name + ": the driver is too old for qd.simt.grid.sync(): update it");
  memory->check(
      task.deviceTask.isTogether
          ? api.launchTogether(node.function, node.gridX, 1, 1, node.blockX, 1, 1, node.sharedBytes, streamState.stream, pointers)
          : api.launch(node.function, node.gridX, 1, 1, node.blockX, 1, 1, node.sharedBytes, streamState.stream, pointers, nullptr),
      "launch a kernel");
}

void GpuKernel::launchTasks(StreamState &streamState, const uint8_t *arguments, uint32_t first, uint32_t end, size_t &repeat) {
  while (first < end) {
    if (repeat == repeats.size() || repeats[repeat].firstTask != first) {
      launchTask(streamState, tasks[first], arguments);
      if (timed) timed->finishTask(first);
      ++first;
      continue;
    }
    const artifact::Repeat &own = repeats[repeat];
    size_t inner;
    do {
      inner = repeat + 1;
      launchTasks(streamState, arguments, own.firstTask, own.endTask, inner);
    } while (isRepeated(streamState, own));
    repeat = inner;
    first = own.endTask;
  }
}

/// Whether to repeat the tasks. The host reads the condition, a byte, after each round.
bool GpuKernel::isRepeated(StreamState &streamState, const artifact::Repeat &repeat) {
  if (streamState.failure.get()) streamState.failure.fetch(streamState.stream, sizeof(QdGpuFailure));
  memory->check(memory->api.synchronizeStream(streamState.stream), "finish what was launched");
  auto *report = reinterpret_cast<QdGpuFailure *>(streamState.failure.get());
  if (report && __atomic_load_n(&report->failed, __ATOMIC_ACQUIRE)) return false; // tasks after a failure have no effect
  uint8_t condition;
  memory->read(&condition, static_cast<const uint8_t *>(streamState.scratch->getData()) + repeat.slot, 1);
  return condition != 0;
}

/// Whether to launch a graph. Building one pays from the second launch on, or if the device then repeats tasks without the host.
bool GpuKernel::isGraph(StreamState &streamState) const {
  if (timed || tasks.empty() || waitsForGrids || !memory->usesGraphs || !memory->api.hasGraphs()) return false;
  return repeats.empty() ? ++streamState.launches > 1 : memory->getConditionSetter() != nullptr;
}

void GpuKernel::run(runtime::KernelRun &run) {
  std::unique_lock lock(mutex, std::try_to_lock);
  if (!lock.owns_lock()) {
    run.observer->poll(); // the owner of the lock may need the GIL
    lock.lock();
  }
  Memory::Scope scope(*memory);
  StreamState &streamState = getStreamState(static_cast<Stream>(run.stream));
  writeParameters(streamState, run);
  memory->order.beginLaunch(streamState.stream);
  std::optional<TaskTimer::Launch> timedLaunch;
  if (timer) {
    timedLaunch.emplace(*timer, streamState.stream, firstEntry);
    run.beginTasks(firstEntry);
  }
  timed = timedLaunch ? &*timedLaunch : nullptr;
  if (!isGraph(streamState)) {
    size_t repeat = 0;
    launchTasks(streamState, run.context.arguments, 0, uint32_t(tasks.size()), repeat);
  } else {
    bool isChanged = streamState.parameters != streamState.launched;
    if (isChanged) streamState.launched = streamState.parameters;
    // The sizes of the grids may depend on arguments that only the copy contains.
    launchGraph(streamState, run.context.arguments, isChanged || streamState.argumentCopy);
  }
  timed = nullptr;
  if (timer) run.endTasks();
  timedLaunch.reset();
  memory->order.endLaunch(streamState.stream);
  // Checks exist in debug mode only, where each launch reports its failure.
  if (resultBytes || hasPrint || streamState.failure.get()) waitAndReport(streamState, run);
}

void GpuKernel::waitAndReport(StreamState &streamState, runtime::KernelRun &run) {
  if (resultBytes) streamState.result.fetch(streamState.stream, resultBytes);
  if (hasPrint) streamState.prints.fetch(streamState.stream, sizeof(QdGpuPrints));
  if (streamState.failure.get()) streamState.failure.fetch(streamState.stream, sizeof(QdGpuFailure));
  // If the observer cancels the run, the wait ends but the kernel continues: a grid cannot be stopped.
  if (!memory->waitFor(streamState.stream, [&] { return run.observer->poll(), !run.mustStop(); })) return;
  if (resultBytes) memcpy(run.context.result, streamState.result.get(), resultBytes);
  if (hasPrint) takePrints(streamState, run);
  takeFailure(streamState, run);
}

void GpuKernel::takePrints(StreamState &streamState, runtime::KernelRun &run) {
  auto *printed = reinterpret_cast<QdGpuPrints *>(streamState.prints.get());
  if (printed->used > printed->capacity)
    support::log(support::LogLevel::Warn, "kernel " + name + " printed more in one launch than the buffer holds; the rest is dropped");
  uint32_t used = std::min(printed->used, printed->capacity);
  if (used && streamState.prints.isCopied()) {
    streamState.prints.fetch(streamState.stream, sizeof *printed + used * sizeof(uint64_t));
    memory->check(memory->api.synchronizeStream(streamState.stream), "finish what was launched");
  }
  for (uint32_t at = 0; at < used;) {
    uint64_t site = printed->words[at];
    if (site >= sites.size() || at + 1 + sites[size_t(site)].countValues() > used) break; // a record that did not fit is not written
    run.print(int32_t(site), printed->words + at + 1);
    at += uint32_t(1 + sites[size_t(site)].countValues());
  }
  memset(printed->words, 0xff, used * sizeof(uint64_t));
  printed->used = 0;
  if (used) streamState.prints.send(streamState.stream, sizeof *printed + used * sizeof(uint64_t));
}

} // namespace qd::gpu
