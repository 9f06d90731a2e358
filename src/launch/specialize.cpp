// specialize.cpp: makes a version for a call that no version in memory fits
//
// In:   a kernel and its arguments, prepared by Python.
// Out:  a loaded version, and its entry in reports.
// Here: the disk cache comes first; then the compiler, under a lock, so that processes that need the same kernel compile it once.
#include "launch/specialize.h"

#include "launch/containers/data_type.h"
#include "launch/containers/tensor_object.h"
#include "launch/fingerprint.h"
#include "launch/numpy.h"
#include "launch/state.h"
#include "launch/version_report.h"
#include "support/error.h"
#include "support/log.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace qd::launch {

using support::Digest;
using support::Option;

// How long a launch waits for another process that compiles the same kernel before it compiles itself.
static constexpr auto kMaxWait = std::chrono::seconds(60);

//--- Identity of the package ---

/// Appends what identifies the state of a file: its size and modification time.
static void appendState(std::string &out, const struct stat &status) {
  out += std::to_string(status.st_size) + " " + std::to_string(status.st_mtim.tv_sec) + " " + std::to_string(status.st_mtim.tv_nsec) + "\n";
}

/// Appends the states of the package's Python files that take part in compilations: about 80, 0.2 ms. Folders of other packages, and files
/// that are not there, add nothing.
static void appendSources(std::string &out, const std::string &package) {
  std::vector<std::string> files;
  for (const char *name : {"_base", "_language", "_library", "_quantized", "_session", "_sparse", "_values", "algorithms", "simt"}) {
    std::unique_ptr<DIR, int (*)(DIR *)> folder(opendir((package + name).c_str()), closedir);
    while (const dirent *entry = folder ? readdir(folder.get()) : nullptr) {
      struct stat status{};
      if (!std::string_view(entry->d_name).ends_with(".py") || fstatat(dirfd(folder.get()), entry->d_name, &status, 0) != 0) continue;
      appendState(files.emplace_back(entry->d_name), status);
    }
  }
  std::sort(files.begin(), files.end()); // folders have no order
  for (const std::string &file : files) out += file;
}

/// The states of both modules, which lie in one folder with the same suffix, and of Python files: they identify a build or an installation.
static const std::string &getBuildIdentity() {
  static const auto *identity = [] {
    Dl_info info{};
    dladdr(reinterpret_cast<void *>(&getBuildIdentity), &info);
    std::string own = info.dli_fname ? info.dli_fname : "", compiler = own;
    if (size_t at = own.rfind("_runtime"); at != std::string::npos) compiler.replace(at, strlen("_runtime"), "_compiler");
    auto *text = new std::string;
    for (const std::string &path : {own, compiler}) {
      struct stat status{};
      stat(path.c_str(), &status);
      appendState(*text, status);
    }
    appendSources(*text, own.substr(0, own.rfind('/') + 1));
    return text;
  }();
  return *identity;
}

//--- The key ---

/// Appends the properties of an argument that are known without the compiler. The dependencies of the variants under a key cover the rest.
static void describeArgument(std::string &out, PyObject *argument) {
  if (isTensor(argument)) {
    const runtime::Tensor &tensor = getTensor(argument);
    out += tensor.isField ? "field " : "ndarray ";
    out += layout::describe(tensor.layout.element) + " " + std::to_string(tensor.layout.rank());
    return;
  }
  if (PyArray_Check(argument)) {
    auto *array = reinterpret_cast<PyArrayObject *>(argument);
    out += "array " + std::to_string(PyArray_DESCR(array)->kind) + std::to_string(PyArray_ITEMSIZE(array)) + " " +
           std::to_string(PyArray_NDIM(array));
    return;
  }
  // Small values are part of the key, so that the variants of a key stay few.
  std::string value;
  if (isImmutable(argument) && fingerprintValue(value, argument))
    out += value;
  else
    fingerprintType(out, argument);
}

/// False when stages are dumped or replaced: such a kernel is compiled in this process.
static bool mayUseDisk(const State &state) {
  return state.cache && state.options.getText(Option::dump).empty() && state.options.getText(Option::replay).empty() &&
         state.options.getText(Option::stop_after).empty() && !state.options.getBool(Option::print_ir);
}

std::string makeCacheScope() {
  State &state = getState();
  if (!mayUseDisk(state)) return "";
  return getBuildIdentity() + PY_VERSION + "\n" + std::string(state.device->getTarget()) + "\n" + state.device->describe() + "\n" +
         state.options.describeKey();
}

/// Empty when an object has no fingerprint; such kernels are not stored on disk.
static std::optional<Digest> computeKey(KernelObject &kernel, PyObject *arguments) {
  std::string text = makeCacheScope();
  if (!fingerprintFunction(text, kernel.function, Placement::Ignored) || !fingerprintValue(text, kernel.parameters) ||
      !fingerprintValue(text, kernel.results))
    return std::nullopt;
  text += "\nmode " + std::to_string(int(kernel.mode));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arguments); ++i) {
    Ref parameter = Ref::adopt(PySequence_GetItem(kernel.parameters, i));
    Ref kind = Ref::adopt(PyObject_GetAttrString(parameter.get(), "kind"));
    text += "\n";
    if (PyUnicode_CompareWithASCIIString(kind.get(), "scalar") != 0) describeArgument(text, PyTuple_GET_ITEM(arguments, i));
  }
  return support::computeDigest(text);
}

//--- From the disk or from the compiler ---

/// A version from the disk cache; empty, with the reason in `miss`, when none fits. Gives the lock back once one does.
static std::shared_ptr<Specialization> findOnDisk(artifact::DiskCache &cache, const Digest &key, const Roots &roots, std::string &miss,
                                                  std::optional<artifact::CompileLock> &lock) {
  std::shared_ptr<Specialization> found;
  miss = "nothing is on disk under its key";
  cache.find(key, [&](artifact::Artifact &&candidate) {
    std::string guardFailure = "the system";
    try {
      found = Specialization::make(std::move(candidate), roots, false, guardFailure, [&](const auto &) { lock.reset(); });
    } catch (const support::Error &error) {
      // The artifact is intact, but the loader of this system refuses it.
      support::log(support::LogLevel::Warn, std::string(error.what()) + "; it is compiled again");
    }
    miss = "what is on disk was made for another value of '" + guardFailure + "'";
    return bool(found);
  });
  return found;
}

void issueWarnings(const std::vector<artifact::Warning> &warnings) {
  for (const artifact::Warning &warning : warnings) {
    PyObject *category = PyDict_GetItemString(PyEval_GetBuiltins(), warning.category.c_str());
    if (PyErr_WarnExplicit(category, warning.text.c_str(), warning.file.c_str(), int(warning.line), "quadrants", nullptr) < 0)
      throw PythonError{};
  }
}

/// Waits, with the GIL released, until this process may compile the key or another one has compiled it; `mayGoOn` throws when there is
/// nothing left to wait for.
template <typename MayGoOn>
static std::optional<artifact::CompileLock> waitForLock(artifact::DiskCache &cache, const Digest &key, const MayGoOn &mayGoOn) {
  auto begin = std::chrono::steady_clock::now();
  auto pause = std::chrono::milliseconds(1);
  for (;;) {
    if (std::optional<artifact::CompileLock> lock = cache.tryLock(key)) return lock;
    if (std::chrono::steady_clock::now() - begin > kMaxWait) return std::nullopt;
    PyThreadState *thread = PyEval_SaveThread();
    std::this_thread::sleep_for(pause);
    takeBackGil(thread);
    pause = std::min(pause * 2, std::chrono::milliseconds(20));
    if (PyErr_CheckSignals() != 0) throw PythonError{};
    mayGoOn();
  }
}

/// Calls the compiler. `stages` becomes a list of (name, seconds).
static artifact::Artifact compile(KernelObject &kernel, PyObject *arguments, Ref &stages) {
  Ref both = call("quadrants._session.prepare", "compile_kernel", "OO", &kernel, arguments);
  PyObject *bytes, *times;
  if (!PyArg_ParseTuple(both.get(), "SO", &bytes, &times)) throw PythonError{};
  stages = Ref::borrow(times);
  ++getState().compiled;
  return artifact::deserialize(reinterpret_cast<const uint8_t *>(PyBytes_AS_STRING(bytes)), size_t(PyBytes_GET_SIZE(bytes)));
}

std::shared_ptr<Specialization> specialize(KernelObject &kernel, PyObject *arguments) {
  State &state = getState();
  const uint64_t epoch = state.epoch;
  // Python code of this and other threads runs in between.
  auto requireEpoch = [&] {
    if (getState().epoch == epoch) return;
    const char *name = PyUnicode_AsUTF8(kernel.name);
    throw support::Error(support::ErrorKind::Runtime,
                         "the runtime was reset while kernel " + std::string(name ? name : "") + " was compiled");
  };
  auto begin = std::chrono::steady_clock::now();
  Roots roots{kernel.function, &PyTuple_GET_ITEM(arguments, 0), size_t(PyTuple_GET_SIZE(arguments))};
  std::optional<Digest> key;
  std::optional<artifact::CompileLock> lock;
  std::string miss = state.cache ? "its stages are dumped or replaced" : "the disk cache is off", guardFailure;
  std::shared_ptr<Specialization> made;
  std::shared_ptr<artifact::DiskCache> cache = mayUseDisk(state) ? state.cache : nullptr; // held, because a reset clears it in the state
  if (cache) {
    miss = "something that it reads has no description";
    if ((key = computeKey(kernel, arguments))) {
      requireEpoch();
      made = findOnDisk(*cache, *key, roots, miss, lock);
      if (!made) {
        lock = waitForLock(*cache, *key, requireEpoch);
        // The previous holder of the lock may have compiled the kernel.
        made = findOnDisk(*cache, *key, roots, miss, lock);
      }
    }
  }
  requireEpoch();
  Ref stages;
  if (made) {
    ++state.loaded;
    issueWarnings(made->artifact.report.warnings);
    requireEpoch();
  } else {
    artifact::Artifact artifact = compile(kernel, arguments, stages);
    requireEpoch();
    std::string stored;
    const bool isStored = key && artifact.cacheable;
    made = Specialization::make(std::move(artifact), roots, true, guardFailure, [&](const artifact::Artifact &complete) {
      if (isStored) stored = cache->publish(*key, complete);
      lock.reset();
    });
    requireEpoch();
    if (isStored && state.device->addsToBinaries()) cache->publish(*key, made->artifact, stored);
  }
  std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
  made->reads = reportVersion(kernel, made->artifact, roots, {stages.get(), miss, passed.count()});
  requireEpoch();
  made->artifact.binary = {};
  made->lastLaunch = state.launches;
  return made;
}

} // namespace qd::launch
