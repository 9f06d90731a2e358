// runtime_module.cpp: the extension module `_runtime`, which `import quadrants` loads
//
// In:   options, containers and calls of kernels from Python.
// Out:  the runtime half of the package: everything but the compiler. Types that take part in a launch use CPython's API directly: a slot
// adds no cost, while the dispatch of a binding layer costs as much as a whole launch may take.
#include "bindings/read_options.h"
#include "bindings/runtime_profiler.h"
#define QD_DEVLIB_LANES 1 // one number at a time
#include "devlib/random.h"
#include "launch/capture.h"
#include "launch/containers/data_type.h"
#include "launch/containers/dlpack.h"
#include "launch/containers/tensor_object.h"
#include "launch/containers/transfer.h"
#include "launch/kernel.h"
#include "launch/python.h"
#include "launch/specialize.h"
#include "launch/state.h"
#include "launch/tape/binding.h"
#include "launch/tape/saved_memory.h"
#include "launch/tape/tape_context.h"
#include "runtime/block_threads.h"
#include "runtime/buffer.h"
#include "runtime/device.h"
#include "runtime/stack_limit.h"
#include "runtime/thread_pool.h"
#include "support/log.h"

#include <algorithm>

namespace nb = nanobind;

namespace qd::bindings {
namespace {

// The operators of the language: one line per row of the table, with columns separated by tabs.
const char *operators =
#define QD_UNARY(name, operand, result, numpy, cost, doc) "unary\t" #name "\t" #operand "\t" #result "\t" numpy "\t" doc "\n"
#define QD_BINARY(name, operand, result, numpy, cost, doc) "binary\t" #name "\t" #operand "\t" #result "\t" numpy "\t" doc "\n"
#define QD_ATOMIC(name, operand, numpy, doc) "atomic\t" #name "\t" #operand "\tSame\t" numpy "\t" doc "\n"
#include "ir/builtins.def"
    ;

nb::list getOptionTable() {
  static const char *keys[] = {"no_key", "key", "accepted"}, *scopes[] = {"everywhere", "keyword_only", "no_config"};
  nb::list table;
  for (const support::OptionRow &row : support::getOptionRows())
    table.append(nb::make_tuple(row.name, nb::str(row.kind.data(), row.kind.size()), row.defaultValue, row.doc, keys[size_t(row.key)],
                                scopes[size_t(row.scope)]));
  return table;
}

void applyOptions(launch::State &state) {
  using support::Option;
  runtime::setThreadCount(int(state.options.getInt(Option::cpu_max_num_threads)));
  runtime::setSubgroupSize(int(state.options.getInt(Option::cpu_subgroup_size)));
  support::setLogLevel(support::parseLogLevel(state.options.getText(Option::log_level)));
  state.cache.reset();
  if (!state.options.getBool(Option::offline_cache)) return;
  state.cache = std::make_shared<artifact::DiskCache>(artifact::readCacheOptions(state.options));
}

const runtime::Backend *findBackend(std::string_view name) {
  std::span<const runtime::Backend> backends = runtime::getBackends();
  auto found = std::ranges::find(backends, name, &runtime::Backend::name);
  return found == backends.end() ? nullptr : &*found;
}

std::string findProblem(nb::str name, nb::dict given) {
  const runtime::Backend *backend = findBackend(readText(name));
  return backend ? backend->findProblem(readOptions({}, given)) : "there is no such backend";
}

std::unique_ptr<runtime::Device> makeDevice(const support::Options &options) {
  // The processor has several names.
  const runtime::Backend *backend = findBackend(options.getText(support::Option::arch));
  return (backend ? *backend : runtime::getBackends().front()).makeDevice(options);
}

nb::tuple getDeviceLimits() {
  launch::requireActive();
  runtime::DeviceLimits limits = launch::getState().device->getLimits();
  return nb::make_tuple(limits.subgroupSize, limits.sharedBytes, limits.blocksProgress);
}

/// The name of the target, with its processor after a colon.
std::string getTarget() {
  const launch::State &state = launch::getState();
  launch::requireActive();
  std::string architecture = state.device->getArchitecture();
  return std::string(state.device->getTarget()) + (architecture.empty() ? "" : ":" + architecture);
}

void init(nb::dict given, nb::object interpreter) {
  support::Options options = readOptions({}, given);
  launch::State &state = launch::getState();
  do launch::resetState();
  while (state.isActive); // destructors of released objects may have started a runtime
  state.options = std::move(options);
  state.device = nullptr; // releases its memory before the next device allocates
  state.device = makeDevice(state.options);
  state.memory = state.device->getMemory();
  int64_t stream = state.memory ? state.options.getInt(support::Option::external_stream) : 0;
  state.externalStream = reinterpret_cast<void *>(stream);
  applyOptions(state);
  state.interpreter = interpreter.is_none() ? nullptr : interpreter.release().ptr();
  state.launches = state.draws = state.compiled = state.loaded = 0;
  state.isActive = true;
}

/// A program besides that of the process.
struct ProgramHandle {
  launch::State &state = launch::takeState();
  ProgramHandle() = default;
  ProgramHandle(const ProgramHandle &) = delete;
  ~ProgramHandle() {
    bool isEnded = launch::guard(false, [&] {
      launch::giveBackState(state);
      return true;
    });
    if (!isEnded) PyErr_WriteUnraisable(nullptr);
  }
};

void setOptions(nb::dict given) {
  launch::requireActive();
  launch::State &state = launch::getState();
  state.options = readOptions(state.options, given);
  applyOptions(state);
}

void setRandomSeed(int64_t seed) {
  launch::requireActive();
  launch::State &state = launch::getState();
  state.options.set(int(support::Option::random_seed), seed);
  state.draws = 0;
}

nb::tuple drawRandom(uint64_t iteration, uint32_t call, uint64_t seed, uint64_t launch, uint32_t task) {
  const devlib::Block block = devlib::drawBlock(iteration, call, seed, launch, task);
  return nb::make_tuple(devlib::toU64(block), devlib::toF32(block), devlib::toF64(block));
}

void synchronize() {
  launch::requireActive();
  launch::Capture::refuse("waiting for launches");
  launch::synchronize();
}

nb::dict getStatistics() {
  const launch::State &state = launch::getState();
  nb::dict result;
  result["active"] = state.isActive;
  result["launches"] = state.launches;
  result["compiled"] = state.compiled;
  result["loaded"] = state.loaded;
  result["threads"] = runtime::getThreadCount();
  result["epoch"] = state.epoch;
  return result;
}

nb::dict getMemoryUse() {
  runtime::MemoryUse use = runtime::getMemoryUse();
  nb::dict result;
  result["bytes"] = use.bytes;
  result["blocks"] = use.blocks;
  return result;
}

/// Converts errors of the runtime half to Python exceptions, in one place for slots and functions.
void translateError(const std::exception_ptr &error, void *) {
  try {
    std::rethrow_exception(error);
  } catch (const nb::builtin_exception &) { throw; } catch (const nb::python_error &) {
    throw;
  } catch (...) { launch::setPythonError(); }
}

/// Functions on streams for Python: handles are numbers, 0 the default stream. On devices with synchronous launches they do nothing.
void addStreams(nb::module_ &m) {
  using namespace nb::literals;
  using Handle = uintptr_t;
  auto find = [] {
    launch::requireActive();
    return launch::getState().device->getStreams();
  };
  auto use = [=] {
    launch::Capture::refuse("using a stream or an event");
    return find();
  };
  auto toPointer = [](Handle handle) { return reinterpret_cast<void *>(handle); };
  auto wait = [](auto &&body) {
    nb::gil_scoped_release released;
    body();
  };
  m.def("make_stream", [=] { return find() ? Handle(find()->makeStream()) : 0; });
  m.def("destroy_stream", [=](Handle stream) {
    if (find()) find()->destroyStream(toPointer(stream));
  });
  m.def("synchronize_stream", [=](Handle stream) {
    if (!use()) return;
    launch::waitForStream(toPointer(stream));
    find()->synchronizeStream(toPointer(stream));
  });
  m.def("is_stream_done", [=](Handle stream) { return !find() || find()->isDone(toPointer(stream)); });
  m.def("order_streams", [=](Handle first, Handle then) {
    if (find()) find()->order(toPointer(first), toPointer(then));
  });
  m.def("make_event", [=] { return find() ? Handle(find()->makeEvent()) : 0; });
  m.def("destroy_event", [=](Handle event) {
    if (find()) find()->destroyEvent(toPointer(event));
  });
  m.def("record_event", [=](Handle event, Handle stream) {
    if (use()) find()->recordEvent(toPointer(event), toPointer(stream));
  });
  m.def("wait_for_event", [=](Handle stream, Handle event) {
    if (use()) find()->waitForEvent(toPointer(stream), toPointer(event));
  });
  m.def("synchronize_event", [=](Handle event) {
    if (runtime::Streams *streams = use()) wait([&] { streams->synchronizeEvent(toPointer(event)); });
  });
  m.def("elapsed_milliseconds",
        [=](Handle begin, Handle end) { return find() ? find()->computeMilliseconds(toPointer(begin), toPointer(end)) : 0.0f; });
  m.def("current_stream", [] { return Handle(launch::getStream()); }, "The stream for launches of this thread; 0: the default one.");
  m.def(
      "set_stream", [=](Handle stream) { return Handle(std::exchange(launch::currentStream, toPointer(stream))); },
      "Set the stream for launches of this thread; returns the previous one.");
}

} // namespace
} // namespace qd::bindings

NB_MODULE(_runtime, m) {
  using namespace nb::literals;
  using namespace qd;
  m.doc() = "Containers, kernel launches and the cache: everything but the compiler.";
  launch::prepareForcedUnwinding();
  nb::register_exception_translator(bindings::translateError);
  bool isMade = launch::guard(false, [&] {
    launch::addDataTypes(m.ptr());
    launch::addTensorTypes(m.ptr());
    launch::addKernelType(m.ptr());
    launch::addBindingType(m.ptr());
    launch::addDlpack(m.ptr());
    return true;
  });
  if (!isMade) throw nb::python_error();
  m.attr("OPERATORS") = bindings::operators;
  m.def("option_table", bindings::getOptionTable, "Rows of options.def: (name, kind, default, doc, key, scope).");
  m.def("init", bindings::init, "options"_a, "interpreter"_a.none() = nb::none(),
        "Start a runtime with these option values; interpreter(kernel, args, kwargs) handles all calls of kernels.");
  nb::class_<bindings::ProgramHandle>(m, "ProgramHandle", "A program besides the one of the process.").def(nb::init<>());
  m.def(
      "switch_program",
      [own = &launch::getState()](const bindings::ProgramHandle *next) { launch::switchState(next ? next->state : *own); },
      "program"_a.none(), "Make a program the current one for all threads; None: the one of the process.");
  m.def("set_options", bindings::setOptions, "options"_a, "Change option values of the running runtime.");
  m.def("set_random_seed", bindings::setRandomSeed, "seed"_a, "Restart the random numbers.");
  m.def("reset", launch::resetState, "End the runtime: containers lose their memory (views keep it), kernels their code.");
  m.def("sync", bindings::synchronize, "Wait until everything that was launched is done.");
  bindings::addStreams(m);
  m.def("target", bindings::getTarget, "The target of compilation, as _compiler.compile accepts it.");
  m.def("find_problem", bindings::findProblem, "arch"_a, "options"_a, "Why there is no device of this name; empty when there is one.");
  m.def("device_limits", bindings::getDeviceLimits,
        "Of the current device: (lanes of a subgroup, bytes that a block shares or 0, whether blocks that others wait for progress).");
  using launch::TapeContext;
  auto own = [](launch::Ref &&found) { return found ? nb::steal(found.release()) : nb::none(); };
  nb::class_<TapeContext>(m, "TapeContext", "The state of a tape or a forward mode (docs/design/tapes.md).")
      .def(
          "__init__",
          [](TapeContext *made, nb::handle owner, bool recordsMemory, bool recordsAll) {
            new (made) TapeContext(owner.ptr(), recordsMemory, recordsAll);
          },
          "owner"_a, "records_memory"_a, "records_all"_a = false)
      .def("enter", [=](TapeContext &tape) { return own(launch::Ref::borrow(tape.enter())); })
      .def("close", &TapeContext::close)
      .def("begin_backward", &TapeContext::beginBackward)
      .def("leave", &TapeContext::leave)
      .def("hide", &TapeContext::hide)
      .def("show", &TapeContext::show)
      .def_prop_ro("position", &TapeContext::getPosition)
      .def("undo", &TapeContext::undo, "position"_a)
      .def("redo", &TapeContext::redo)
      .def("begin_replay", &TapeContext::beginReplay, "begin"_a, "end"_a)
      .def("end_replay", &TapeContext::endReplay)
      .def("take_binding", [=](TapeContext &tape) { return own(tape.takeBinding()); })
      .def(
          "added_only_to",
          [](const TapeContext &tape, nb::handle container, uint64_t minMicroseconds) {
            return tape.addedOnlyTo(container.ptr(), minMicroseconds);
          },
          "container"_a, "min_microseconds"_a)
      .def(
          "launch_fused",
          [](TapeContext &tape, nb::handle kernel, nb::handle arguments, nb::handle loss) {
            return tape.launchFused(kernel.ptr(), arguments.ptr(), loss.ptr());
          },
          "kernel"_a, "arguments"_a, "loss"_a)
      .def("commit", &TapeContext::commit);
  m.def(
      "current_tape", [=] { return own(launch::Ref::borrow(TapeContext::getCallHandler())); },
      "The tape or forward mode that handles the calls of this thread, or None.");
  using launch::Capture;
  nb::class_<Capture>(m, "Capture", "The calls that a `qd.graph.capture()` records, as far as the device knows them.")
      .def(nb::init<>())
      .def("begin", &Capture::begin, "Refuse what cannot be recorded in this thread, until `end`.")
      .def("end", &Capture::end)
      .def(
          "prepare",
          [](Capture &capture, nb::handle kernel, nb::handle arguments, nb::handle keywords) {
            capture.prepare(kernel.ptr(), arguments.ptr(), keywords.ptr());
          },
          "kernel"_a, "arguments"_a, "keywords"_a, "Compile a kernel for a call, without running it.")
      .def(
          "replay", [](Capture &capture, nb::list calls, nb::handle stream) { capture.replay(calls.ptr(), stream.ptr()); }, "calls"_a,
          "stream"_a.none(), "Run calls, a list of tuples (kernel, arguments, keywords), in a stream, or (None) in the current one.");
  m.def(
      "takes_launch", [](nb::handle kernel) { return Capture::take(kernel.ptr()).first; }, "kernel"_a,
      "For the interpreter: whether the next launch of the kernel does not run.");
  m.def(
      "launch_bound",
      [](nb::handle kernel, nb::handle binding, nb::handle arguments, nb::handle keywords) {
        return nb::steal(launch::launchBound(kernel.ptr(), binding.ptr(), arguments.ptr(), keywords.ptr()).release());
      },
      "kernel"_a, "binding"_a, "arguments"_a, "keywords"_a.none(),
      "Launch a kernel of the function whose call was recorded, on the binding of that call.");
  m.def(
      "specialize_bound",
      [](nb::handle kernel, nb::handle binding, nb::handle arguments, nb::handle keywords) {
        return int(launch::specializeBound(kernel.ptr(), binding.ptr(), arguments.ptr(), keywords.ptr()));
      },
      "kernel"_a, "binding"_a, "arguments"_a, "keywords"_a.none(),
      "Make the version of a kernel that `launch_bound` would launch, if there is none. Returns 0 if the values that it reads were not "
      "overwritten, 1 if it checks that, 2 if it assumes so of elements that indices do not tell apart.");
  m.def(
      "warn_of_assumptions", [](nb::handle kernel, nb::handle binding) { launch::warnOfAssumptions(kernel.ptr(), binding.ptr()); },
      "kernel"_a, "binding"_a, "Issue a warning for elements that the gradient of a recorded call assumes to be different.");
  m.def(
      "note_saved", [](nb::handle tensor) { launch::noteSaved(tensor.ptr()); }, "tensor"_a,
      "Make launches that write to the memory of this torch tensor increase its version counter.");
  m.def("has_saved", [] { return launch::hasSavedMemory; }, "Whether any such tensor may exist.");
  m.def(
      "note_saved_write", [](nb::handle object) { launch::noteSavedWrite(object.ptr()); }, "object"_a,
      "Increase the version counter of such tensors that share memory with this container or array.");
  bindings::addProfiler(m);
  m.def(
      "clock_frequency", [] { return launch::requireActive(), launch::getState().device->getClockFrequency(); },
      "Nominal ticks per second of the counter that qd.clock_counter() reads.");
  m.def("draw_random", bindings::drawRandom, "iteration"_a, "call"_a, "seed"_a, "launch"_a, "task"_a,
        "A random number of an interpreted kernel: as 64 bits, as f32 and as f64.");
  m.def("launch_count", [] { return launch::getState().launches; }, "Number of the last launch since init.");
  m.def("cache_scope", launch::makeCacheScope,
        "The part of cache keys that does not depend on the kernel, as text; empty when the disk cache is disabled.");
  m.def("statistics", bindings::getStatistics, "active, launches, compiled, loaded (from disk), threads, epoch.");
  m.def(
      "log",
      [](nb::str level, nb::str text, nb::str place) {
        support::log(support::parseLogLevel(bindings::readText(level)), bindings::readText(text), bindings::readText(place));
      },
      "level"_a, "message"_a, "place"_a = "", "Write one line to stderr when the level is enabled.");
  m.def(
      "set_log_level", [](nb::str level) { support::setLogLevel(support::parseLogLevel(bindings::readText(level))); },
      "Least severe level that is written.");
  m.def(
      "is_logged", [](nb::str level) { return support::isLogged(support::parseLogLevel(bindings::readText(level))); },
      "Whether lines of this level are written.");
  m.def(
      "copy", [](nb::handle to, nb::handle from) { launch::copyBuffer(to.ptr(), from.ptr()); },
      "Copy between contiguous buffers of one size, on all threads when they are large.");
  m.def(
      "has_stack", [] { return reinterpret_cast<uint64_t>(__builtin_frame_address(0)) > runtime::getStackLimit(); },
      "Whether the stack of this thread has room for further calls.");
  m.def("memory_use", bindings::getMemoryUse, "Bytes and blocks of all live buffers.");
}
