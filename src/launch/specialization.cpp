// specialization.cpp: one launch of a version
//
// In:   arguments, or the binding of a recorded call.
// Out:  the result of the kernel, or which guard failed.
// Here: the guards come first; then tapes, streams and host arrays, where the launch involves them; then `run`, which executes the code
//       and keeps Python responsive during a long launch.
#include "launch/specialization.h"

#include "launch/capture.h"
#include "launch/containers/data_type.h"
#include "launch/containers/tensor_object.h"
#include "launch/containers/transfer.h"
#include "launch/kernel.h"
#include "launch/launch_frame.h"
#include "launch/numpy.h"
#include "launch/single_launcher.h"
#include "launch/state.h"
#include "launch/tape/binding.h"
#include "launch/tape/fused_launch.h"
#include "launch/tape/saved_memory.h"
#include "launch/watchdog.h"
#include "runtime/thread_pool.h"
#include "support/error.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <span>
#include <thread>
#include <unistd.h>

namespace qd::launch {

using runtime::KernelRun;

// If the previous launch took longer than this, the next one releases the GIL from its start.
static constexpr uint64_t kLongMicroseconds = 300;
// If it took longer than this, the next one runs on a separate thread while the main thread handles signals. The thread costs about 30 µs.
static constexpr uint64_t kWatchedMicroseconds = 10000;
// Of launches shorter than this only each 16th is timed: to read the clock twice takes 20 ns, a third of a launch of an empty kernel. One
// that becomes long in between is not noticed before the watchdog thread sees it, after 100 ms at most.
static constexpr uint64_t kShortMicroseconds = 30;
static constexpr unsigned kUntimedLaunches = 15;
static constexpr auto kSignalInterval = std::chrono::milliseconds(50);

/// Cheap clock for distinguishing long launches from short ones: about 8 ns, against 25 for the system's clock.
static uint64_t readTicks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return uint64_t(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

static const std::pair<std::chrono::steady_clock::time_point, uint64_t> loadedAt{std::chrono::steady_clock::now(), readTicks()};

static uint64_t getTicksPerMicrosecond() {
  static const uint64_t rate = [] {
    std::chrono::duration<double, std::micro> passed = std::chrono::steady_clock::now() - loadedAt.first;
    return uint64_t(double(readTicks() - loadedAt.second) / passed.count()) + 1;
  }();
  return rate;
}

//--- Long launches ---

/// Releases the GIL during a launch that turns out to be long, and handles signals at intervals.
class Specialization::Observer final : public runtime::RunObserver {
public:
  using Clock = std::chrono::steady_clock;

  Observer(Specialization &owner, Frame &frame) : owner(owner), frame(frame) {}
  ~Observer() override { takeGilBack(); }

  void releaseGil() {
    if (thread) return;
    owner.hold(frame);
    lastSignalCheck = Clock::now();
    thread = PyEval_SaveThread();
  }

  void takeGilBack() {
    if (thread) takeBackGil(std::exchange(thread, nullptr));
  }

  void poll() noexcept override {
    if (isWatched) return;
    if (!thread) {
      try {
        releaseGil();
      } catch (const std::bad_alloc &) {} // other threads wait for the end of the launch
      return;
    }
    if (Clock::now() - lastSignalCheck >= kSignalInterval) reportAndCheckSignals();
  }

  void checkSignals() noexcept override {
    if (!thread) poll();
    if (thread) reportAndCheckSignals();
  }

  /// Runs the kernel on another thread: signals are handled on the main thread only, and serial code does not poll.
  void runWatched(runtime::LoadedKernel &code) {
    releaseGil();
    isWatched = true;
    std::mutex mutex;
    std::condition_variable finished;
    std::atomic<bool> isDone{false};
    WatchedLaunch watched(isDone);
    std::exception_ptr problem;
    std::thread worker;
    try {
      worker = std::thread([&] {
        try {
          code.run(*run);
        } catch (...) { problem = std::current_exception(); }
        std::lock_guard lock(mutex);
        isDone = true;
        finished.notify_one();
      });
    } catch (const std::exception &) {
      // The system has no more threads, or no memory for one.
      isWatched = false;
      isDone = true;
      return code.run(*run);
    }
    std::unique_lock lock(mutex);
    while (!finished.wait_for(lock, kSignalInterval, [&] { return isDone.load(); })) {
      lock.unlock();
      reportAndCheckSignals();
      lock.lock();
    }
    lock.unlock();
    worker.join();
    if (problem) std::rethrow_exception(problem);
  }

  void reportAndCheckSignals() {
    if (wasInterrupted) return;
    takeGilBack();
    if (writePrinted(*run) && PyErr_CheckSignals() == 0) {
      lastSignalCheck = Clock::now();
    } else {
      wasInterrupted = true;
      run->cancel();
    }
    thread = PyEval_SaveThread();
  }

  /// Writes what the kernel has printed so far; false with the Python error set when sys.stdout fails.
  static bool writePrinted(KernelRun &run) {
    return guard(false, [&] {
      std::vector<uint64_t> printed = run.takePrinted();
      if (printed.empty()) return true;
      Ref list = Ref::adopt(PyList_New(0));
      for (size_t at = 0; at < printed.size();) {
        const artifact::Site &site = run.artifact.sites[size_t(printed[at++])];
        bool isError = site.kind == artifact::Site::Kind::PrintError;
        bool isReport = site.kind == artifact::Site::Kind::Overflow;
        Ref frames = isReport ? listFrames(site) : Ref::borrow(Py_None);
        append(list, Ref::adopt(Py_BuildValue("(NOO)", PyBool_FromLong(isError), makeSite(site, &printed[at], 0).get(), frames.get())));
        at += site.countValues();
      }
      call("quadrants._base.format", "write_printed", "O", list.get());
      return true;
    });
  }

  KernelRun *run = nullptr;
  bool wasInterrupted = false; ///< the Python error is set
  bool isWatched = false;      ///< the kernel runs on another thread

private:
  Specialization &owner;
  Frame &frame;
  PyThreadState *thread = nullptr; ///< set while the GIL is released
  Clock::time_point lastSignalCheck;
};

//--- A launch ---

/// Takes references to everything that the launch uses, at its first call.
void Specialization::hold(Frame &frame) {
  if (frame.held) return;
  const std::vector<uint16_t> &slots = guards->getTensorSlots();
  Frame::Held held{shared_from_this(), {}, {}};
  held.objects.reserve(slots.size());
  held.buffers.reserve(slots.size());
  for (uint16_t slot : slots) {
    PyObject *object = frame.guards.slots[slot];
    held.objects.push_back(Ref::borrow(object));
    if (isTensor(object)) held.buffers.push_back(getTensor(object).buffer);
  }
  frame.held = std::move(held);
}

/// The object whose member is at the end of a path; empty for paths without members.
static Ref findOwner(const artifact::Path &path, PyObject *function, PyObject *const *arguments) {
  if (path.steps.empty() || path.steps.back().kind != artifact::PathStep::Kind::Attribute) return Ref();
  PyObject *root = path.root == artifact::Path::Root::Argument ? arguments[path.argument] : function;
  return takeSteps(root, std::span(path.steps).first(path.steps.size() - 1));
}

void Specialization::requireStableMembers(KernelObject &kernel, PyObject *const *arguments) {
  for (const artifact::Path *path : stableMembers)
    if (Ref owner = findOwner(*path, kernel.function, arguments))
      call("quadrants._language.kernel", "require_stable", "Os", owner.get(), path->steps.back().name.c_str());
}

void Specialization::destroy(Specialization &version) { std::default_delete<Specialization>()(&version); }

std::shared_ptr<Specialization> Specialization::make(artifact::Artifact artifact, const Roots &roots, bool isFresh,
                                                     std::string &guardFailure,
                                                     const std::function<void(const artifact::Artifact &)> &beforeLoading) {
  std::shared_ptr<Specialization> made(std::make_unique<Specialization>().release(), [](Specialization *version) {
    version->isDropped = true;
    if (version->uses == 0) destroy(*version);
  });
  made->artifact = std::move(artifact);
  // The compiler records what a kernel refers to. Code that reports source locations also depends on the location of the kernel itself.
  if (isFresh && (!made->artifact.sites.empty() || !made->artifact.report.warnings.empty()))
    made->artifact.dependencies.push_back({artifact::Dependency::Kind::Function, {artifact::Path::Root::Kernel, 0, {}}, {}});
  made->guards = LaunchGuards::build(made->artifact, roots, isFresh, guardFailure);
  if (!made->guards) return nullptr;
  requireActive(); // evaluating the dependencies may have reset the runtime
  beforeLoading(made->artifact);
  made->code = getState().device->load(made->artifact);
  if (getState().options.getBool(support::Option::debug))
    for (const artifact::Input &input : made->artifact.inputs)
      if (Ref owner = findOwner(input.path, roots.function, roots.arguments);
          owner && findAttribute(reinterpret_cast<PyObject *>(Py_TYPE(owner.get())), "_qd_stable_members"))
        made->stableMembers.push_back(&input.path);
  // A kernel that was just compiled may run for any time, and another thread costs little beside the compilation. A version from the disk
  // starts without one.
  made->lastMicroseconds = isFresh ? UINT64_MAX : kWatchedMicroseconds;
  return made;
}

[[gnu::always_inline]] inline void Specialization::place(Frame &frame) {
  size_t slots = guards->getSlotCount();
  unsigned char *memory =
      frame.get(reinterpret_cast<unsigned char *>(frame.pointers), sizeof frame.pointers, 2 * slots * sizeof(PyObject *));
  frame.guards.place(reinterpret_cast<PyObject **>(memory), slots);
  frame.guards.block = frame.get(frame.arguments, Frame::kBlockBytes, artifact.argumentBytes);
}

/// Warns the caller that no container of the kernel has a gradient, so that the launch changes nothing.
static void warnOfMissingGradients(const artifact::Artifact &artifact) {
  const std::string text = artifact.kernel + " has no gradients to compute: no container that it uses, such as " + artifact.ungraded +
                           ", has one; declare them with needs_grad=True";
  if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), /*stack_level=*/1) < 0) throw PythonError{};
}

GuardResult Specialization::launch(KernelObject &kernel, PyObject *const *arguments, PyObject *&result) {
  Frame frame;
  place(frame);
  if (kernel.mode == support::AutodiffMode::Fused) [[unlikely]] {
    frame.guards.fused = TapeContext::findFused();
    if (!frame.guards.fused)
      throw support::Error(support::ErrorKind::Runtime, "a kernel that runs together with its gradient needs a tape");
    frame.guards.fused->begin();
  }
  GuardResult fit = guards->read(arguments, frame.guards);
  if (isDropped) [[unlikely]]
    return GuardResult::Failed; // reading a member has run Python code that evicted this version
  if (!stableMembers.empty()) [[unlikely]]
    requireStableMembers(kernel, arguments);
  if (fit == GuardResult::Passed && kernel.mode == support::AutodiffMode::Reverse && !artifact.ungraded.empty() &&
      !TapeContext::isRunningBackward()) [[unlikely]]
    warnOfMissingGradients(artifact);
  if (fit == GuardResult::Passed && kernel.mode == support::AutodiffMode::Reverse) [[unlikely]]
    requireOwnReads(frame);
  return fit == GuardResult::Passed ? runFrame(kernel, frame, result) : fit;
}

GuardResult Specialization::readBound(const Binding &binding, Frame &frame) {
  place(frame);
  std::erase_if(links, [](const BoundVersion &known) { return known.version.expired(); });
  auto found = std::find_if(links.begin(), links.end(), [&](const auto &known) { return known.version.lock() == binding.version; });
  if (found == links.end())
    found = links.insert(links.end(), {binding.version, guards->link(*binding.version->guards), listForeignWrites(*binding.version)});
  GuardResult fit = guards->readBound(*found->link, binding.objects, binding.block.data(), frame.guards);
  if (fit != GuardResult::Passed || frame.guards.isTrial) return fit;
  for (auto [own, written] : found->foreignWrites)
    if (mayOverlap(frame.guards.slots[own], binding.objects[written].get())) [[unlikely]] {
      std::vector<PyObject *> slots(binding.objects.size());
      std::transform(binding.objects.begin(), binding.objects.end(), slots.begin(), [](const Ref &object) { return object.get(); });
      GuardFrame then;
      then.slots = slots.data();
      requireOwnReads(*binding.version, binding.version->guards->listAccesses(then), binding.block.data(), frame);
    }
  return fit;
}

GuardResult Specialization::launchBound(KernelObject &kernel, const Binding &binding, PyObject *&result) {
  Frame frame;
  GuardResult fit = readBound(binding, frame);
  return fit == GuardResult::Passed ? runFrame(kernel, frame, result) : fit;
}

bool Specialization::fitsBound(const Binding &binding) {
  Frame frame;
  frame.guards.isTrial = true;
  return readBound(binding, frame) != GuardResult::Failed;
}

/// Whether kernels of this mode write only to gradients.
static bool isOfAdjoint(support::AutodiffMode mode) {
  return mode == support::AutodiffMode::Reverse || mode == support::AutodiffMode::Replay;
}

/// Torch tells by version counters whether a tensor that it has saved was overwritten.
[[gnu::always_inline]] inline void Specialization::noteWrites(KernelObject &kernel, Frame &frame) {
  if (hasSavedMemory && !isOfAdjoint(kernel.mode)) [[unlikely]]
    noteSavedWrites(guards->listAccesses(frame.guards));
}

[[gnu::always_inline]] inline GuardResult Specialization::runFrame(KernelObject &kernel, Frame &frame, PyObject *&result) {
  if (auto [isCaptured, graph] = Capture::take(&kernel); isCaptured) [[unlikely]]
    return runCaptured(kernel, frame, result, graph);
  noteWrites(kernel, frame);
  if (TapeContext::isAnyActive() && kernel.mode == support::AutodiffMode::None) [[unlikely]]
    return runRecorded(kernel, frame, result);
  if (frame.guards.fused) return runFused(kernel, frame, result);
  if (kernel.mode == support::AutodiffMode::Replay) return runReplayed(kernel, frame, result);
  return runDirectly(kernel, frame, result);
}

/// Does not run the launch, or adds it to a graph.
GuardResult Specialization::runCaptured(KernelObject &kernel, Frame &frame, PyObject *&result, runtime::LaunchGraph *graph) {
  if (!graph) {
    result = Py_NewRef(Py_None);
    return GuardResult::Passed;
  }
  const bool isPlain = frame.guards.hostArrays.empty() && !frame.guards.stream && !frame.guards.fused && !TapeContext::isAnyActive() &&
                       kernel.mode != support::AutodiffMode::Replay;
  if (!isPlain) {
    graph->flush(getStream());
    return runFrame(kernel, frame, result);
  }
  noteWrites(kernel, frame);
  return run(kernel, frame, result, graph);
}

GuardResult Specialization::runDirectly(KernelObject &kernel, Frame &frame, PyObject *&result) {
  return frame.guards.hostArrays.empty() && !frame.guards.stream ? run(kernel, frame, result) : runWithForeignArrays(kernel, frame, result);
}

/// Runs a launch with copies of host arrays, or ordered with the stream of another library.
GuardResult Specialization::runWithForeignArrays(KernelObject &kernel, Frame &frame, PyObject *&result) {
  State &state = getState();
  hold(frame);
  std::shared_ptr<runtime::DeviceMemory> memory = state.memory;
  Staging staging(*memory);
  staging.copyIn(frame.guards.hostArrays);
  runtime::Streams *streams = state.device->getStreams();
  if (frame.guards.stream) streams->order(frame.guards.stream, getStream());
  run(kernel, frame, result);
  Ref held = result ? Ref::adopt(std::exchange(result, nullptr)) : Ref();
  if (frame.guards.stream && state.memory == memory) streams->order(getStream(), frame.guards.stream);
  if (held) staging.copyOut();
  result = held.release();
  return GuardResult::Passed;
}

GuardResult Specialization::run(KernelObject &kernel, Frame &frame, PyObject *&result, runtime::LaunchGraph *graph) {
  State &state = getState();
  SingleLauncher single;
  if (single.mustWait()) [[unlikely]] {
    const uint64_t epoch = state.epoch;
    hold(frame);
    single.wait();
    if (getState().epoch != epoch)
      throw support::Error(support::ErrorKind::Runtime,
                           "the runtime was reset while kernel " + artifact.kernel + " waited for a launch of another thread");
  }
  Observer observer(*this, frame);
  KernelRun run(artifact, state.device->getApi(), &observer);
  observer.run = &run;
  run.isSingle = single.isSingle();
  run.context.single_threaded = run.isSingle && runtime::getThreadCount() == 1;
  run.context.arguments = frame.guards.block;
  run.context.result = frame.get(frame.result, sizeof frame.result, artifact.resultBytes);
  if (artifact.scratchBytes && artifact.tasks.empty()) {
    run.context.scratch = frame.get(frame.scratch, Frame::kBlockBytes, artifact.scratchBytes);
    memset(run.context.scratch, 0, artifact.scratchBytes);
  }
  run.arguments = frame.guards.block;
  std::vector<runtime::BufferRef> temporaries;
  if (artifact.tasks.empty()) run.placeTemporaries(temporaries, runtime::Buffer::allocate);
  run.context.random_seed = uint64_t(state.options.getInt(support::Option::random_seed));
  run.context.launch_index = artifact.drawsRandom ? state.draws++ : 0;
  lastLaunch = ++state.launches;
  if (state.memory) run.stream = getStream();
  if (graph) [[unlikely]] {
    if (code->addTo(*graph, run, shared_from_this())) {
      result = Py_NewRef(Py_None);
      return GuardResult::Passed;
    }
    graph->flush(getStream());
  }
  bool isTimed = untimedLaunches == 0;
  uint64_t ticks = 0;
  if (lastMicroseconds > kWatchedMicroseconds && Watchdog::isMainThread()) {
    uint64_t begin = readTicks();
    observer.runWatched(*code);
    ticks = readTicks() - begin;
  } else {
    if (lastMicroseconds > kLongMicroseconds) observer.releaseGil();
    Watchdog watchdog(run);
    isTimed |= !watchdog.isWatching() || TapeContext::isAnyActive();
    uint64_t begin = isTimed ? readTicks() : 0;
    code->run(run);
    if (isTimed)
      ticks = readTicks() - begin;
    else if (watchdog.hasSeen())
      ticks = UINT64_MAX;
  }
  observer.takeGilBack();
  // From here on the GIL is held again.
  if (isTimed || ticks) [[unlikely]]
    noteDuration(ticks / getTicksPerMicrosecond());
  else
    --untimedLaunches;
  result = observer.wasInterrupted ? nullptr : finish(kernel, run, run.context.result);
  return GuardResult::Passed;
}

void Specialization::noteDuration(uint64_t microseconds) {
  lastMicroseconds = microseconds;
  untimedLaunches = microseconds < kShortMicroseconds ? kUntimedLaunches : 0;
}

PyObject *Specialization::finish(KernelObject &kernel, KernelRun &run, unsigned char *block) {
  if (artifact.hasPrint && !Observer::writePrinted(run)) return nullptr;
  if (run.isStopped()) raiseFailure(run);
  if (artifact.results.empty()) Py_RETURN_NONE;
  return buildResult(kernel, block);
}

void Specialization::raiseFailure(KernelRun &run) {
  if (run.isOutOfMemory)
    throw support::Error(support::ErrorKind::Memory, "kernel " + artifact.kernel + " ran out of memory for its temporaries");
  if (!run.reason.empty()) throw support::Error(support::ErrorKind::Runtime, "kernel " + artifact.kernel + ": " + run.reason);
  if (run.failedSite < 0 || size_t(run.failedSite) >= artifact.sites.size())
    throw support::Error(support::ErrorKind::Runtime, "kernel " + artifact.kernel + " stopped without a recorded failure");
  launch::raiseFailure(artifact.sites[size_t(run.failedSite)], run.failedValues.data(), run.failedThread);
}

static PyObject *readResult(support::ScalarType type, const unsigned char *address) {
  return type == support::ScalarType::U1 ? PyBool_FromLong(*address) : readScalar(type, address);
}

PyObject *Specialization::buildResult(KernelObject &kernel, const unsigned char *block) {
  static PyObject *hookName = PyUnicode_InternFromString("build_result");
  PyObject *hook = kernel.dict ? PyDict_GetItemWithError(kernel.dict, hookName) : nullptr;
  if (!hook && artifact.results.size() == 1 && artifact.results[0].type.rank == 0)
    return readResult(artifact.results[0].type.scalar, block + artifact.results[0].offset);
  Ref list = Ref::adopt(PyList_New(0));
  for (const artifact::Artifact::Result &result : artifact.results)
    for (int64_t component = 0; component < result.type.componentCount(); ++component)
      append(list, Ref::adopt(readResult(result.type.scalar, block + result.offset + size_t(component) * getByteSize(result.type.scalar))));
  Ref flat = Ref::adopt(PyList_AsTuple(list.get()));
  return hook ? PyObject_CallOneArg(hook, flat.get()) : flat.release();
}

} // namespace qd::launch
