// runtime_module.cpp: the extension module `_runtime`, which `import quadrants` loads
//
// In:   options, containers and calls of kernels from Python.
// Out:  the runtime half of the package: everything but the compiler. Types that take part in a launch use CPython's API directly: a slot
// adds no cost, while the dispatch of a binding layer costs as much as a whole launch may take.
#include "backends/cpu/device.h"
#include "backends/cuda/device.h"
#include "bindings/read_options.h"
#include "launch/binding.h"
#include "launch/data_type.h"
#include "launch/dlpack.h"
#include "launch/kernel.h"
#include "launch/python.h"
#include "launch/saved_memory.h"
#include "launch/specialize.h"
#include "launch/state.h"
#include "launch/tensor_object.h"
#include "launch/transfer.h"
#include "launch/undo_log.h"
#include "runtime/buffer.h"
#include "runtime/thread_pool.h"
#include "support/log.h"

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
  support::setLogLevel(support::parseLogLevel(state.options.getText(Option::log_level)));
  state.cache.reset();
  if (!state.options.getBool(Option::offline_cache)) return;
  state.cache = std::make_shared<artifact::DiskCache>(artifact::readCacheOptions(state.options));
}

std::unique_ptr<runtime::Device> makeDevice(const support::Options &options) {
  using support::Option;
  if (options.getText(Option::arch) != "cuda") return cpu::makeDevice();
  cuda::DeviceOptions wanted;
  wanted.library = options.getText(Option::cuda_driver);
  wanted.ordinal = int(options.getInt(Option::device_id));
  wanted.stackBytes = options.getInt(Option::cuda_stack_limit);
  wanted.maxRegisters = options.getInt(Option::gpu_max_reg);
  wanted.usesGraphs = options.getBool(Option::graph);
  return cuda::makeDevice(wanted);
}

/// "cpu", or the target with its processor: "cuda:sm_90".
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
  applyOptions(state);
  state.interpreter = interpreter.is_none() ? nullptr : interpreter.release().ptr();
  state.launches = state.seededAt = state.compiled = state.loaded = 0;
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
  state.seededAt = state.launches;
}

void synchronize() {
  launch::requireActive();
  launch::synchronize();
}

nb::object exchange(PyObject *&slot, nb::object next) {
  PyObject *before = std::exchange(slot, next.is_none() ? nullptr : next.release().ptr());
  return before ? nb::steal(before) : nb::none();
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
    if (!find()) return;
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
    if (find()) find()->recordEvent(toPointer(event), toPointer(stream));
  });
  m.def("wait_for_event", [=](Handle stream, Handle event) {
    if (find()) find()->waitForEvent(toPointer(stream), toPointer(event));
  });
  m.def("synchronize_event", [=](Handle event) {
    if (runtime::Streams *streams = find()) wait([&] { streams->synchronizeEvent(toPointer(event)); });
  });
  m.def("elapsed_milliseconds",
        [=](Handle begin, Handle end) { return find() ? find()->computeMilliseconds(toPointer(begin), toPointer(end)) : 0.0f; });
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
  m.def("find_cuda_problem", cuda::findProblem, "library"_a, "Why there is no CUDA device; empty when there is one.");
  nb::class_<launch::UndoLog>(m, "UndoLog", "The contents of memory before it was overwritten, for tapes (launch/undo_log.h).")
      .def(nb::init<bool>(), "keeps_all"_a = false)
      .def("enter", &launch::UndoLog::enter)
      .def("leave", &launch::UndoLog::leave)
      .def("close", &launch::UndoLog::close)
      .def("hide", &launch::UndoLog::deferReads)
      .def("show", &launch::UndoLog::recordDeferredReads)
      .def("mark", &launch::UndoLog::getPosition)
      .def("undo", &launch::UndoLog::undo, "mark"_a)
      .def("begin_replay", &launch::UndoLog::beginReplay, "before"_a, "after"_a)
      .def("end_replay", &launch::UndoLog::endReplay)
      .def("redo", &launch::UndoLog::redo)
      .def("take_binding",
           [](launch::UndoLog &undoLog) -> nb::object {
             launch::Ref binding = undoLog.takeBinding();
             return binding ? nb::steal(binding.release()) : nb::none();
           })
      .def(
          "added_only_to",
          [](const launch::UndoLog &undoLog, nb::handle container, uint64_t minMicroseconds) {
            return undoLog.addedOnlyTo(container.ptr(), minMicroseconds);
          },
          "container"_a, "min_microseconds"_a)
      .def(
          "launch_fused",
          [](launch::UndoLog &undoLog, nb::handle kernel, nb::handle arguments, nb::handle loss) {
            return undoLog.launchFused(kernel.ptr(), arguments.ptr(), loss.ptr());
          },
          "kernel"_a, "arguments"_a, "loss"_a)
      .def("accept", &launch::UndoLog::commit);
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
        return launch::specializeBound(kernel.ptr(), binding.ptr(), arguments.ptr(), keywords.ptr());
      },
      "kernel"_a, "binding"_a, "arguments"_a, "keywords"_a.none(),
      "Make the version of a kernel that `launch_bound` would launch, if there is none. Returns whether that version checks that values "
      "that it reads were not overwritten.");
  m.def(
      "note_saved", [](nb::handle tensor) { launch::noteSaved(tensor.ptr()); }, "tensor"_a,
      "Make launches that write to the memory of this torch tensor increase its version counter.");
  m.def("has_saved", [] { return launch::hasSavedMemory; }, "Whether any such tensor may exist.");
  m.def(
      "note_saved_write", [](nb::handle object) { launch::noteSavedWrite(object.ptr()); }, "object"_a,
      "Increase the version counter of such tensors that share memory with this container or array.");
  m.def("launch_count", [] { return launch::getState().launches; }, "Number of the last launch since init.");
  m.def(
      "set_write_watcher", [](nb::object watcher) { return bindings::exchange(launch::writeWatcher, std::move(watcher)); },
      "watcher"_a.none(),
      "Set the function that is called before this thread writes to containers from Python, as watcher(container, index or None); returns "
      "the previous one.");
  m.def(
      "set_watcher", [](nb::object watcher) { return bindings::exchange(launch::watcher, std::move(watcher)); }, "watcher"_a.none(),
      "Set the function that is called instead of the kernels that this thread calls, as watcher(kernel, arguments, keywords); returns the "
      "previous one.");
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
  m.def("memory_use", bindings::getMemoryUse, "Bytes and blocks of all live buffers.");
}
