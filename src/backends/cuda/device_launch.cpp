#include "backends/cuda/device_launch.h"

#include "support/log.h"

#include <algorithm>
#include <cstring>

namespace qd::cuda {

using artifact::Site;
using runtime::Failure;
using support::Error;
using support::ErrorKind;

// Words of one launch's prints; what does not fit is left out.
static constexpr size_t kPrintWords = 128 << 10;

//--- What failed ---

void Unchecked::add(GpuKernel &kernel) {
  std::lock_guard lock(mutex);
  if (!std::exchange(kernel.isUnchecked, true)) kernels.push_back(&kernel);
}

void Unchecked::remove(GpuKernel &kernel) {
  std::lock_guard lock(mutex);
  if (!kernel.isUnchecked) return;
  std::erase(kernels, &kernel);
  if (!left) left = kernel.takeFailure();
}

std::optional<Failure> Unchecked::take() {
  std::lock_guard lock(mutex);
  std::optional<Failure> first = std::exchange(left, std::nullopt);
  for (GpuKernel *kernel : kernels) {
    kernel->isUnchecked = false;
    std::optional<Failure> failure = kernel->takeFailure();
    if (!first) first = std::move(failure);
  }
  kernels.clear();
  return first;
}

bool GpuKernel::readFailure(int32_t &site, std::vector<uint64_t> &values) {
  auto *report = reinterpret_cast<QdGpuFailure *>(failure.get());
  if (!report || !__atomic_load_n(&report->failed, __ATOMIC_ACQUIRE)) return false;
  site = report->site;
  values.assign(report->values, report->values + std::size(report->values));
  if (size_t(site) < sites.size()) values.resize(std::max(values.size(), sites[size_t(site)].countValues()));
  report->failed = report->claimed = 0;
  memory->fill(state->getData(), 0, sizeof(QdGpuState));
  return true;
}

std::optional<Failure> GpuKernel::takeFailure() {
  Failure found{name, {}, {}};
  int32_t site;
  if (!readFailure(site, found.values)) return std::nullopt;
  if (size_t(site) < sites.size()) found.site = sites[size_t(site)];
  return found;
}

//--- Loading ---

static bool hasChecks(const std::vector<Site> &sites) {
  return std::any_of(sites.begin(), sites.end(),
                     [](const Site &site) { return site.kind != Site::Kind::Print && site.kind != Site::Kind::PrintError; });
}

GpuKernel::GpuKernel(std::shared_ptr<Memory> owner, std::shared_ptr<Unchecked> list, const artifact::Artifact &artifact)
    : memory(std::move(owner)), unchecked(std::move(list)), name(artifact.kernel), sites(artifact.sites), hasPrint(artifact.hasPrint),
      argumentBytes(artifact.argumentBytes), resultBytes(artifact.results.empty() ? 0 : artifact.resultBytes) {
  Memory::Scope scope(*memory);
  const Api &api = memory->api;
  memory->check(api.loadModule(&module, artifact.binary.data()), "load a compiled kernel");
  unsigned processors = unsigned(memory->getAttribute(kMultiprocessorCount));
  for (const artifact::DeviceTask &plan : artifact.tasks) {
    Task task{plan};
    memory->check(api.getFunction(&task.function, module, plan.entry.c_str()), "find a task of a compiled kernel");
    int blocks = 1;
    memory->check(api.getOccupancy(&blocks, task.function, int(plan.blockSize), 0), "say how many blocks run at a time");
    task.residentBlocks = std::max(1u, unsigned(blocks) * processors);
    tasks.push_back(std::move(task));
  }
  state = memory->allocate(sizeof(QdGpuState));
  if (artifact.scratchBytes) scratch = memory->allocate(artifact.scratchBytes);
  if (argumentBytes > QD_GPU_INLINE_ARGUMENTS) argumentCopy = memory->allocate(argumentBytes);
  if (resultBytes) result = Memory::Shared(*memory, resultBytes);
  if (hasChecks(sites)) failure = Memory::Shared(*memory, sizeof(QdGpuFailure));
  if (hasPrint) {
    prints = Memory::Shared(*memory, sizeof(QdGpuPrints) + kPrintWords * sizeof(uint64_t));
    auto *printed = reinterpret_cast<QdGpuPrints *>(prints.get());
    printed->capacity = kPrintWords;
    memset(printed->words, 0xff, kPrintWords * sizeof(uint64_t)); // no site
  }
  parameters.resize(sizeof(QdGpuLaunch) + (argumentCopy ? 0 : argumentBytes));
}

GpuKernel::~GpuKernel() {
  unchecked->remove(*this);
  try {
    // The code of kernels that run must stay.
    memory->synchronize();
    Memory::Scope scope(*memory);
    if (executable) memory->api.destroyExecutableGraph(executable);
    if (graph) memory->api.destroyGraph(graph);
    memory->api.unloadModule(module);
  } catch (const Error &) {
    // After a fault or a fork there is nothing left to give back.
  }
}

//--- A launch ---

KernelNode GpuKernel::makeNode(const Task &task, const uint8_t *arguments, void **kernelParameters) const {
  const artifact::DeviceTask &plan = task.plan;
  int64_t blocks = task.residentBlocks;
  if (plan.iterations.isKnown()) {
    int64_t iterations = plan.iterations.evaluate(arguments), inBlock = int64_t(plan.blockSize) * plan.perThread;
    blocks = std::clamp<int64_t>(iterations <= 0 ? 1 : (iterations - 1) / inBlock + 1, 1, INT32_MAX);
  }
  if (plan.mostBlocks) blocks = std::min<int64_t>(blocks, plan.mostBlocks);
  int64_t sharedBytes = plan.sharedBytes.isKnown() ? plan.sharedBytes.evaluate(arguments) : 0;
  if (sharedBytes < 0 || sharedBytes > artifact::DeviceTask::kMostSharedBytes) sharedBytes = 0;
  return {task.function, unsigned(blocks), 1, 1, plan.blockSize, 1, 1, unsigned(sharedBytes), kernelParameters, nullptr, nullptr, nullptr};
}

void GpuKernel::writeParameters(runtime::KernelRun &run) {
  auto *head = reinterpret_cast<QdGpuLaunch *>(parameters.data());
  auto getAddress = [](const runtime::BufferRef &buffer) { return static_cast<unsigned char *>(buffer ? buffer->getData() : nullptr); };
  head->arguments = getAddress(argumentCopy);
  head->result = result.get();
  head->scratch = getAddress(scratch);
  head->state = reinterpret_cast<QdGpuState *>(getAddress(state));
  head->failure = reinterpret_cast<QdGpuFailure *>(failure.get());
  head->prints = reinterpret_cast<QdGpuPrints *>(prints.get());
  head->random_seed = run.context.random_seed;
  head->launch_index = run.context.launch_index;
  if (argumentCopy)
    memory->write(argumentCopy->getData(), run.context.arguments, argumentBytes);
  else
    memcpy(parameters.data() + sizeof *head, run.context.arguments, argumentBytes);
}

void GpuKernel::launchTasks(const uint8_t *arguments) {
  void *pointers[] = {parameters.data()};
  for (const Task &task : tasks) {
    KernelNode node = makeNode(task, arguments, pointers);
    memory->check(memory->api.launch(node.function, node.gridX, 1, 1, node.blockX, 1, 1, node.sharedBytes, nullptr, pointers, nullptr),
                  "launch a kernel");
  }
}

/// A graph costs half of a plain launch, even of one task, and much less per task.
void GpuKernel::launchGraph(const uint8_t *arguments, bool isChanged) {
  const Api &api = memory->api;
  void *pointers[] = {parameters.data()};
  if (!executable) {
    memory->check(api.createGraph(&graph, 0), "make a graph");
    for (size_t i = 0; i < tasks.size(); ++i) {
      KernelNode node = makeNode(tasks[i], arguments, pointers);
      memory->check(api.addKernelNode(&tasks[i].node, graph, i ? &tasks[i - 1].node : nullptr, i ? 1 : 0, &node), "make a graph");
    }
    memory->check(api.instantiateGraph(&executable, graph, 0), "make a graph");
  } else if (isChanged) {
    for (const Task &task : tasks) {
      KernelNode node = makeNode(task, arguments, pointers);
      memory->check(api.setKernelNode(executable, task.node, &node), "launch a kernel");
    }
  }
  memory->check(api.launchGraph(executable, nullptr), "launch a kernel");
}

void GpuKernel::run(runtime::KernelRun &run) {
  std::lock_guard lock(mutex);
  Memory::Scope scope(*memory);
  writeParameters(run);
  // A graph is worth its making from the second launch on.
  if (tasks.empty() || !memory->api.hasGraphs() || ++launches == 1) {
    launchTasks(run.context.arguments);
  } else {
    bool isChanged = parameters != launched;
    if (isChanged) launched = parameters;
    // How large the grids are may say the copy of the arguments alone.
    launchGraph(run.context.arguments, isChanged || argumentCopy);
  }
  if (resultBytes || hasPrint)
    waitAndReport(run);
  else if (failure.get())
    unchecked->add(*this);
}

void GpuKernel::waitAndReport(runtime::KernelRun &run) {
  memory->check(memory->api.synchronizeStream(nullptr), "finish what was launched");
  if (resultBytes) memcpy(run.context.result, result.get(), resultBytes);
  if (hasPrint) takePrints(run);
  int32_t site;
  std::vector<uint64_t> values;
  if (readFailure(site, values)) run.fail(site, values.data());
}

void GpuKernel::takePrints(runtime::KernelRun &run) {
  auto *printed = reinterpret_cast<QdGpuPrints *>(prints.get());
  if (printed->used > printed->capacity)
    support::log(support::LogLevel::Warn, "kernel " + name + " printed more in one launch than there is room for; the rest is left out");
  uint64_t used = std::min(printed->used, printed->capacity);
  for (uint64_t at = 0; at < used;) {
    uint64_t site = printed->words[at];
    if (site >= sites.size() || at + 1 + sites[size_t(site)].countValues() > used) break; // of the one that did not fit nothing is there
    run.print(int32_t(site), printed->words + at + 1);
    at += 1 + sites[size_t(site)].countValues();
  }
  memset(printed->words, 0xff, used * sizeof(uint64_t));
  printed->used = 0;
}

} // namespace qd::cuda
