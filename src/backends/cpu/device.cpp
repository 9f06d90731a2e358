// device.cpp: runs kernels as shared libraries in this process, and defines the functions that they call
//
// In:   artifacts, and the calls of running kernels.
// Out:  loaded kernels; parallel loops on the thread pool, failed checks, prints, temporary memory.
#include "runtime/device.h"

#include "backends/cpu/device_library.h"
#include "runtime/block_threads.h"
#include "runtime/fault_note.h"
#include "runtime/profiler.h"
#include "runtime/stack_limit.h"
#include "runtime/thread_pool.h"
#include "support/error.h"
#include "support/file.h"
#include "support/hash.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <optional>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace qd::cpu {

using runtime::KernelRun;
using support::Error;
using support::ErrorKind;

//--- Parallel loops ---

namespace {

// Duration of a chunk of each task in its last launch. A loop that ends before a sleeping thread could start runs on the calling thread
// only. This saves 2-5 µs of system calls per small loop; a lost or mixed-up entry only costs time.
struct ChunkCost {
  std::atomic<QdTaskFunction> task{nullptr};
  std::atomic<float> nanoseconds{0};
};
std::array<ChunkCost, 512> chunkCosts;
constexpr float kMinParallelNanoseconds = 8000; // nanoseconds

ChunkCost &getChunkCost(QdTaskFunction task) {
  auto bits = reinterpret_cast<uintptr_t>(task);
  return chunkCosts[(bits >> 4 ^ bits >> 13) % chunkCosts.size()];
}

struct Loop {
  QdKernelContext *context;
  QdTaskFunction task;
  int64_t iterations, chunkSize;

  void run(int64_t chunk) {
    int64_t begin = chunk * chunkSize;
    runtime::InKernel inKernel(KernelRun::from(context).artifact); // chunks also run on threads that did not launch the kernel
    task(context, begin, std::min(iterations - begin, chunkSize) + begin, chunk);
  }
};

/// Sets `single_threaded` in the context while only the launching thread runs, so that compiled code can skip atomics.
class SingleThreaded {
public:
  SingleThreaded(QdKernelContext *context, bool isSingleThreaded) : context(context), before(context->single_threaded) {
    if (isSingleThreaded && KernelRun::from(context).isSingle) context->single_threaded = 1;
  }
  ~SingleThreaded() { context->single_threaded = before; }

private:
  QdKernelContext *context;
  int32_t before;
};

void runLoop(QdKernelContext *context, QdTaskFunction task, int64_t iterations, int64_t chunkSize, int32_t maxThreads) {
  if (iterations <= 0) return;
  Loop loop{context, task, iterations, chunkSize > 0 ? chunkSize : iterations};
  int64_t chunks = (iterations - 1) / loop.chunkSize + 1;
  if (chunks == 1) {
    SingleThreaded scope(context, true);
    return loop.run(0);
  }
  ChunkCost &cost = getChunkCost(task);
  bool isKnown = cost.task.load(std::memory_order_relaxed) == task;
  if (isKnown && cost.nanoseconds.load(std::memory_order_relaxed) * float(chunks) < kMinParallelNanoseconds) maxThreads = 1;
  SingleThreaded scope(context, maxThreads == 1);
  runtime::ChunkedWork work;
  work.run = [](void *data, int64_t chunk) { static_cast<Loop *>(data)->run(chunk); };
  work.data = &loop;
  work.chunks = chunks;
  work.stop = &context->failed;
  work.poll = [](void *data) {
    if (runtime::RunObserver *observer = KernelRun::from(static_cast<Loop *>(data)->context).observer) observer->poll();
  };
  auto begin = std::chrono::steady_clock::now();
  runtime::runChunks(work, maxThreads);
  std::chrono::duration<float, std::nano> time = std::chrono::steady_clock::now() - begin;
  int threads = maxThreads == 1 ? 1 : runtime::getThreadCount();
  cost.nanoseconds.store(time.count() * float(std::min<int64_t>(threads, chunks)) / float(chunks), std::memory_order_relaxed);
  cost.task.store(task, std::memory_order_relaxed);
}

void runParallel(QdKernelContext *context, QdTaskFunction task, int64_t iterations, int64_t chunkSize, int32_t maxThreads) {
  runLoop(context, task, iterations, chunkSize, maxThreads);
  if (__atomic_load_n(&context->failed, __ATOMIC_RELAXED))
    (void)KernelRun::from(context).mustStop(); // the code after the loop tests QD_STOP only
}

void finishRound(QdKernelContext *context, int32_t isInSection) {
  KernelRun &run = KernelRun::from(context);
  run.finishRound(isInSection);
  (void)run.mustStop();
  thread_local std::chrono::steady_clock::time_point polled;
  if (auto now = std::chrono::steady_clock::now(); run.observer && now - polled > std::chrono::milliseconds(5)) {
    run.observer->poll();
    polled = now;
  }
}

/// Calls of a loop that waits, after which it lets the launching thread look around: some milliseconds, when it sleeps.
constexpr int32_t kCallsPerPoll = 64;

void waitBriefly(QdKernelContext *context, int32_t calls) {
  // The awaited thread may run Python, and this one may have the GIL.
  runtime::RunObserver *observer = KernelRun::from(context).observer;
  if (observer && calls % kCallsPerPoll == 0 && runtime::getThreadNumber() == 0) observer->poll();
  runtime::waitBriefly(calls);
}

const QdRuntimeApi kApi = {
    runParallel,
    [](QdKernelContext *context, int32_t site, const uint64_t *values) { KernelRun::from(context).fail(site, values); },
    [](QdKernelContext *context, int32_t site, const uint64_t *values) { KernelRun::from(context).print(site, values); },
    [](QdKernelContext *context, int64_t bytes) { return KernelRun::from(context).allocateTemporary(bytes); },
    [](QdKernelContext *context, int32_t site, const uint64_t *values, uint64_t address, int32_t loop, uint64_t iteration) {
      if (!KernelRun::from(context).claim(address, loop, iteration)) KernelRun::from(context).fail(site, values);
    },
    finishRound,
    runtime::runBlocks,
    runtime::synchronizeThreads,
    runtime::shuffle,
    runtime::ballot,
    runtime::getActiveThreads,
    [](QdKernelContext *) { return int32_t(runtime::getThreadNumber()); },
    [](QdKernelContext *) { return runtime::getStackLimit(); },
    runtime::mustStop,
    [](QdKernelContext *context, int32_t task) { KernelRun::from(context).finishTask(task); },
    waitBriefly};

//--- Machine code ---

struct Library : runtime::LoadedKernel {
  QdKernelFunction entry;
  void *handle = nullptr;                ///< of a library loaded from a file
  std::unique_ptr<MappedLibrary> mapped; ///< otherwise
  std::optional<uint32_t> firstEntry;    ///< of the profiler, in kernels that are timed

  explicit Library(void *handle) : entry(reinterpret_cast<QdKernelFunction>(dlsym(handle, "qd_kernel"))), handle(handle) {}
  explicit Library(std::unique_ptr<MappedLibrary> library)
      : entry(reinterpret_cast<QdKernelFunction>(library->find("qd_kernel"))), mapped(std::move(library)) {}
  ~Library() override {
    if (handle) dlclose(handle);
  }
  void run(KernelRun &run) override {
    runtime::InKernel inKernel(run.artifact);
    if (firstEntry) run.beginTasks(*firstEntry);
    entry(&run.context);
    if (firstEntry) run.endTasks();
  }
};

/// A path to the file that was never used before: the loader identifies libraries by path, and descriptor numbers are reused. The slashes
/// encode a counter: each bit is `//` or `/.`.
std::string makeUniquePath(const support::File &file) {
  static std::atomic<uint64_t> counter{0};
  std::string path = "/proc/self/fd";
  for (uint64_t bits = ++counter; bits; bits >>= 1) path += bits & 1 ? "/." : "//";
  return path + "/" + std::to_string(file.get());
}

/// Writes the library to a folder where debuggers and profilers find it, also later. Returns its path.
std::string writeLibrary(const artifact::Artifact &artifact) {
  std::error_code error;
  std::filesystem::create_directories(artifact.libraryFolder, error); // opening the file reports an error
  std::string digest = support::toHex(support::computeDigest(artifact.binary.data(), artifact.binary.size())).substr(0, 16);
  std::string name = artifact.kernel.substr(artifact.kernel.rfind('.') + 1) + "-" + digest + ".so";
  std::string path = std::filesystem::absolute(artifact.libraryFolder, error) / name;
  // Another process may have the file mapped, so replace it instead of overwriting it.
  std::string unfinished = path + "." + std::to_string(getpid());
  support::File file(open(unfinished.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700));
  if (!file || !file.write(artifact.binary.data(), artifact.binary.size()) || rename(unfinished.c_str(), path.c_str()) != 0)
    throw Error(ErrorKind::Runtime, "line_tables: " + path + " cannot be written: " + strerror(errno));
  return path;
}

class CpuDevice : public runtime::Device {
public:
  std::string_view getTarget() const override { return "cpu"; }
  const QdRuntimeApi &getApi() const override { return kApi; }
  std::string describe() const override;
  void synchronize() override {}
  double getClockFrequency() const override;
  runtime::DeviceLimits getLimits() const override { return {unsigned(runtime::getSubgroupSize())}; }

  std::unique_ptr<runtime::LoadedKernel> load(artifact::Artifact &artifact) override {
    std::unique_ptr<Library> library = artifact.libraryFolder.empty() ? loadCopy(artifact.binary) : openLibrary(writeLibrary(artifact));
    if (!artifact.taskNames.empty()) library->firstEntry = runtime::Profiler::get().addKernel(artifact);
    return library;
  }

private:
  /// Loads a copy in memory: if a file were truncated later, the process would die of a bus error. The system's loader, which needs a file
  /// in memory for it, takes 35 µs more for a kernel of 50 KB and 15 µs more to free it: it is for processes in which memory that was
  /// written cannot become code.
  static std::unique_ptr<Library> loadCopy(const std::vector<uint8_t> &binary) {
    if (std::unique_ptr<MappedLibrary> mapped = MappedLibrary::map(binary)) return check(std::make_unique<Library>(std::move(mapped)));
    const int error = errno;
    if (support::File file = support::makeMemoryFile(binary.data(), binary.size())) return openLibrary(makeUniquePath(file));
    throw Error(ErrorKind::Memory, std::string("no memory for a compiled kernel: ") + strerror(error));
  }

  static std::unique_ptr<Library> check(std::unique_ptr<Library> library) {
    if (!library->entry) throw Error(ErrorKind::Format, "a compiled kernel has no entry");
    return library;
  }

  static std::unique_ptr<Library> openLibrary(const std::string &path) {
    void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
      const char *text = dlerror();
      std::string why = text ? text : "out of memory";
      // An open file can be opened again, unless memory runs out.
      constexpr std::string_view kMemoryMessages[] = {"cannot open shared object file", "cannot create shared object descriptor",
                                                      "annot allocate memory", "out of memory", "failed to map"};
      bool isOutOfMemory = std::any_of(std::begin(kMemoryMessages), std::end(kMemoryMessages),
                                       [&](std::string_view part) { return why.find(part) != std::string::npos; });
      throw Error(isOutOfMemory ? ErrorKind::Memory : ErrorKind::Format, "a compiled kernel cannot be mapped: " + why);
    }
    return check(std::make_unique<Library>(handle));
  }
};

std::string describeProcessor() {
  std::string text;
#if defined(__x86_64__)
  // Family, model and every feature word, as the processor reports them. Leaf 1's EBX is excluded, because it contains the number of the
  // current core. Not __get_cpuid, which asks for the number of leaves each time.
  unsigned a, b, c, d, leaves = 1;
  auto add = [&](unsigned leaf, unsigned subleaf, bool withEbx) {
    a = b = c = d = 0;
    if (leaf <= leaves || leaf >= 0x80000000u) __cpuid_count(leaf, subleaf, a, b, c, d);
    for (unsigned word : {a, withEbx ? b : 0u, c, d}) text.append(std::to_string(word)).append(" ");
  };
  text = "x86_64 ";
  add(0, 0, true);
  leaves = a;
  for (unsigned leaf : {7u, 0x80000001u}) add(leaf, 0, true);
  add(7, 1, true);
  add(1, 0, false);
  if (c & bit_OSXSAVE) {
    // The registers that the system saves.
    asm volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    text.append(std::to_string(a));
  }
#elif defined(__aarch64__)
  text = "aarch64 " + std::to_string(getauxval(AT_HWCAP)) + " " + std::to_string(getauxval(AT_HWCAP2));
  std::ifstream model("/sys/devices/system/cpu/cpu0/regs/identification/midr_el1");
  std::string word;
  model >> word;
  text.append(" ").append(word);
#endif
  return text;
}

std::string CpuDevice::describe() const {
  // Computed once: under a hypervisor each cpuid leaves the virtual machine, which takes 20 to 70 µs.
  static const auto *text = new std::string(describeProcessor());
  return *text;
}

#if defined(__x86_64__)
/// The rate of the time stamp counter against the system's clock.
double measureClockFrequency() {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  const uint64_t beginTicks = __builtin_ia32_rdtsc();
  constexpr auto kLeast = std::chrono::milliseconds(20);
  Clock::time_point end;
  while ((end = Clock::now()) - begin < kLeast) {}
  return double(__builtin_ia32_rdtsc() - beginTicks) / std::chrono::duration<double>(end - begin).count();
}
#elif defined(__aarch64__)
double measureClockFrequency() {
  uint64_t frequency;
  asm("mrs %0, cntfrq_el0" : "=r"(frequency));
  return double(frequency);
}
#endif

double CpuDevice::getClockFrequency() const {
  static const double frequency = measureClockFrequency();
  return frequency;
}

} // namespace

std::string findProblem(const support::Options &) { return ""; }

std::unique_ptr<runtime::Device> makeDevice(const support::Options &) {
  runtime::noteFaults();
  return std::make_unique<CpuDevice>();
}

} // namespace qd::cpu
