#include "launch/specialisation.h"

#include "launch/data_type.h"
#include "launch/kernel.h"
#include "launch/numpy.h"
#include "launch/state.h"
#include "launch/tensor_object.h"
#include "runtime/format.h"
#include "support/error.h"
#include "support/half.h"

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <thread>
#include <unistd.h>

namespace qd::launch {

using runtime::KernelRun;

// A launch that took longer than this gives the GIL away from its start the next time,
static constexpr uint64_t kLongMicroseconds = 300;
// and one that took longer than this runs on a thread of its own while the main thread looks for signals. The thread costs some 30 µs.
static constexpr uint64_t kWatchedMicroseconds = 10000;
static constexpr auto kSignalInterval = std::chrono::milliseconds(50);

/// Cheap clock for telling long launches from short ones: about 8 ns against 25 for the system's.
static uint64_t readTicks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  uint64_t ticks;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  return uint64_t(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

static uint64_t getTicksPerMicrosecond() {
#if defined(__x86_64__)
  return 2500; // near enough for every processor that there is
#elif defined(__aarch64__)
  uint64_t frequency;
  asm volatile("mrs %0, cntfrq_el0" : "=r"(frequency));
  return frequency / 1000000 + 1;
#else
  return 1000;
#endif
}

//--- Memory of a launch ---

/// Blocks of one launch. Small ones, that is nearly all, lie on the stack.
struct Specialisation::Frame {
  static constexpr size_t kBlockBytes = 1024, kSlots = 96;
  alignas(64) unsigned char arguments[kBlockBytes];
  alignas(64) unsigned char scratch[kBlockBytes];
  alignas(64) unsigned char result[256];
  PyObject *pointers[3 * kSlots];
  void *spilled[4] = {};
  size_t spilledCount = 0;
  PlanFrame plan;

  ~Frame() {
    for (size_t i = 0; i < plan.ownedCount; ++i) Py_DECREF(plan.owned[i]);
    for (size_t i = 0; i < spilledCount; ++i) free(spilled[i]);
  }
  unsigned char *get(unsigned char *inPlace, size_t capacity, size_t bytes) {
    if (bytes <= capacity) return inPlace;
    void *block = aligned_alloc(64, (bytes + 63) & ~size_t(63));
    if (!block) throw std::bad_alloc();
    return static_cast<unsigned char *>(spilled[spilledCount++] = block);
  }
};

//--- Long launches ---

/// Gives the GIL away in the course of a launch that turns out to be long, and looks for signals now and then.
class Specialisation::Observer final : public runtime::RunObserver {
public:
  using Clock = std::chrono::steady_clock;

  Observer(Specialisation &owner, PlanFrame &frame) : owner(owner), frame(frame) {}
  ~Observer() override { comeBack(); }

  void letOthersIn() {
    if (thread) return;
    // From here on other Python threads may rebind, drop and reset what the kernel works on.
    held = owner.shared_from_this();
    for (uint16_t slot : owner.plan->getTensorSlots()) {
      PyObject *object = frame.slots[slot];
      objects.push_back(Ref::borrow(object));
      if (!PyArray_Check(object)) buffers.push_back(getTensor(object).buffer);
    }
    lookedForSignals = Clock::now();
    thread = PyEval_SaveThread();
  }

  void comeBack() {
    if (thread) takeBackGil(std::exchange(thread, nullptr));
  }

  void poll() override {
    if (isWatched) return;
    if (!thread) return letOthersIn();
    if (Clock::now() - lookedForSignals >= kSignalInterval) lookForSignals();
  }

  /// Runs the kernel on another thread: signals are handled on the main thread only, and serial code never polls.
  void runWatched(runtime::LoadedKernel &code) {
    letOthersIn();
    isWatched = true;
    std::mutex mutex;
    std::condition_variable finished;
    bool isDone = false;
    std::thread worker;
    try {
      worker = std::thread([&] {
        code.run(*run);
        std::lock_guard lock(mutex);
        isDone = true;
        finished.notify_one();
      });
    } catch (const std::system_error &) {
      // The system has no more threads.
      isWatched = false;
      return code.run(*run);
    }
    std::unique_lock lock(mutex);
    while (!finished.wait_for(lock, kSignalInterval, [&] { return isDone; })) {
      lock.unlock();
      lookForSignals();
      lock.lock();
    }
    lock.unlock();
    worker.join();
  }

  void lookForSignals() {
    if (wasInterrupted) return;
    comeBack();
    if (writePrinted(*run) && PyErr_CheckSignals() == 0) {
      lookedForSignals = Clock::now();
    } else {
      wasInterrupted = true;
      run->cancel();
    }
    thread = PyEval_SaveThread();
  }

  /// Writes what the kernel has printed so far; false with the Python error set when sys.stdout refuses it.
  static bool writePrinted(KernelRun &run) {
    if (!run.artifact.hasPrint) return true;
    std::string text = run.takePrinted();
    if (text.empty()) return true;
    PyObject *out = PySys_GetObject("stdout");
    if (!out || out == Py_None) return true;
    Ref decoded = Ref::adopt(PyUnicode_DecodeUTF8(text.data(), Py_ssize_t(text.size()), "replace"));
    PyObject *written = PyObject_CallMethod(out, "write", "O", decoded.get());
    Py_XDECREF(written);
    return written;
  }

  KernelRun *run = nullptr;
  bool wasInterrupted = false; ///< the Python error is set
  bool isWatched = false;      ///< the kernel runs on another thread

private:
  Specialisation &owner;
  PlanFrame &frame;
  PyThreadState *thread = nullptr; ///< set while the GIL is given away
  Clock::time_point lookedForSignals;
  std::shared_ptr<Specialisation> held;
  std::vector<Ref> objects;
  std::vector<runtime::BufferRef> buffers;
};

//--- A launch ---

std::shared_ptr<Specialisation> Specialisation::make(artifact::Artifact artifact, const Roots &roots, bool isFresh) {
  auto made = std::make_shared<Specialisation>();
  made->artifact = std::move(artifact);
  // The compiler records what a kernel refers to. Code that reports places depends on where the kernel itself stands, too.
  if (isFresh && !made->artifact.sites.empty())
    made->artifact.dependencies.push_back({artifact::Dependency::Kind::Function, {artifact::Path::Root::Kernel, 0, {}}, {}});
  made->plan = Plan::build(made->artifact, roots, isFresh);
  if (!made->plan) return nullptr;
  made->code = getState().device->load(made->artifact.binary);
  // A kernel that was just compiled may do anything, and a thread more does not count; a warm start is not slowed down by one.
  made->lastMicroseconds = isFresh ? UINT64_MAX : kWatchedMicroseconds;
  return made;
}

Fit Specialisation::launch(KernelObject &kernel, PyObject *const *arguments, PyObject *&result) {
  Frame frame;
  size_t slots = plan->getSlotCount();
  frame.plan.slots = frame.pointers;
  if (slots > Frame::kSlots) frame.plan.slots = reinterpret_cast<PyObject **>(frame.get(nullptr, 0, 3 * slots * sizeof(PyObject *)));
  frame.plan.dicts = frame.plan.slots + slots;
  frame.plan.owned = frame.plan.slots + 2 * slots;
  frame.plan.block = frame.get(frame.arguments, Frame::kBlockBytes, artifact.argumentBytes);
  Fit fit = plan->read(arguments, frame.plan);
  return fit == Fit::Yes ? run(kernel, arguments, frame, result) : fit;
}

Fit Specialisation::run(KernelObject &kernel, PyObject *const *, Frame &frame, PyObject *&result) {
  State &state = getState();
  Observer observer(*this, frame.plan);
  KernelRun run(artifact, state.device->getApi(), &observer);
  observer.run = &run;
  run.context.arguments = frame.plan.block;
  run.context.result = frame.get(frame.result, sizeof frame.result, artifact.resultBytes);
  if (artifact.scratchBytes) {
    run.context.scratch = frame.get(frame.scratch, Frame::kBlockBytes, artifact.scratchBytes);
    memset(run.context.scratch, 0, artifact.scratchBytes);
  }
  run.context.random_seed = uint64_t(state.options.getInt(support::Option::random_seed));
  run.context.launch_index = state.launches++;
  uint64_t begin = readTicks();
  if (lastMicroseconds > kWatchedMicroseconds && gettid() == getpid()) {
    observer.runWatched(*code);
  } else {
    if (lastMicroseconds > kLongMicroseconds) observer.letOthersIn();
    code->run(run);
  }
  uint64_t ticks = readTicks() - begin;
  observer.comeBack();
  // From here on the GIL is held again.
  lastMicroseconds = ticks / getTicksPerMicrosecond();
  if (observer.wasInterrupted)
    result = nullptr;
  else
    result = finish(kernel, run, run.context.result);
  return Fit::Yes;
}

PyObject *Specialisation::finish(KernelObject &kernel, KernelRun &run, unsigned char *block) {
  if (artifact.hasPrint && !Observer::writePrinted(run)) return nullptr;
  if (run.context.failed) raiseFailure(run);
  if (artifact.results.empty()) Py_RETURN_NONE;
  return buildResult(kernel, block);
}

void Specialisation::raiseFailure(KernelRun &run) {
  if (run.isOutOfMemory)
    throw support::Error(support::ErrorKind::Memory, "kernel " + artifact.kernel + " ran out of memory for its temporaries");
  if (run.failedSite < 0 || size_t(run.failedSite) >= artifact.sites.size())
    throw support::Error(support::ErrorKind::Runtime, "kernel " + artifact.kernel + " stopped without saying why");
  static const char *kinds[] = {"print", "assert", "bounds", "overflow", "division_by_zero"};
  const artifact::Site &site = artifact.sites[size_t(run.failedSite)];
  std::string message = runtime::formatSite(site, run.failedValues.data());
  Ref frames = Ref::adopt(PyList_New(0));
  for (const artifact::SourcePlace &place : site.frames) {
    Ref frame = Ref::adopt(
        Py_BuildValue("(ssIIII)", place.file.c_str(), place.function.c_str(), place.line, place.column, place.endLine, place.endColumn));
    PyList_Append(frames.get(), frame.get());
  }
  Ref hook = importAttribute("quadrants._errors", "runtime_error");
  Ref error = Ref::adopt(PyObject_CallFunction(hook.get(), "ssO", kinds[size_t(site.kind)], message.c_str(), frames.get()));
  PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(error.get())), error.get());
  throw PythonError{};
}

static PyObject *readResult(support::ScalarType type, const unsigned char *address) {
  return type == support::ScalarType::U1 ? PyBool_FromLong(*address) : readScalar(type, address);
}

PyObject *Specialisation::buildResult(KernelObject &kernel, const unsigned char *block) {
  static PyObject *hookName = PyUnicode_InternFromString("build_result");
  PyObject *hook = kernel.dict ? PyDict_GetItemWithError(kernel.dict, hookName) : nullptr;
  if (!hook && artifact.results.size() == 1 && artifact.results[0].type.rank == 0)
    return readResult(artifact.results[0].type.scalar, block + artifact.results[0].offset);
  Py_ssize_t count = 0;
  for (const artifact::Artifact::Result &result : artifact.results) count += Py_ssize_t(result.type.componentCount());
  Ref flat = Ref::adopt(PyTuple_New(count));
  Py_ssize_t position = 0;
  for (const artifact::Artifact::Result &result : artifact.results)
    for (int64_t component = 0; component < result.type.componentCount(); ++component) {
      const unsigned char *address = block + result.offset + size_t(component) * getByteSize(result.type.scalar);
      PyTuple_SET_ITEM(flat.get(), position++, Ref::adopt(readResult(result.type.scalar, address)).release());
    }
  return hook ? PyObject_CallOneArg(hook, flat.get()) : flat.release();
}

} // namespace qd::launch
