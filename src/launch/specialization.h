// specialization.h: a version: compiled code for one combination of arguments and dependencies, and how to launch it.
#pragma once

#include "artifact/artifact.h"
#include "launch/guards/launch_guards.h"
#include "runtime/device.h"

#include <functional>
#include <memory>

namespace qd::launch {

struct Binding;
struct KernelObject;

class Specialization : public std::enable_shared_from_this<Specialization> {
public:
  /// Keeps a version from its end while it lives, although Python code that a launch runs may drop it. Created and destroyed with the GIL
  /// held, so it counts without the two atomic operations of a shared pointer, which take 4 ns.
  class Use {
  public:
    explicit Use(Specialization &used) : used(used) { ++used.uses; }
    ~Use() {
      if (--used.uses == 0 && used.isDropped) [[unlikely]]
        destroy(used);
    }
    Use(const Use &) = delete;
    Use &operator=(const Use &) = delete;

  private:
    Specialization &used;
  };

  /// Makes an artifact runnable. With `isFresh` the digests of its dependencies are filled in. Otherwise they are compared with the current
  /// objects; when one differs, the result is empty and `guardFailure` names it. `beforeLoading` gets the complete artifact: the device
  /// may load it only after its kernels have ended, which may wait for another process.
  static std::shared_ptr<Specialization> make(artifact::Artifact artifact, const Roots &roots, bool isFresh, std::string &guardFailure,
                                              const std::function<void(const artifact::Artifact &)> &beforeLoading);

  int traverse(visitproc visit, void *arg) const { return guards->traverse(visit, arg); }

  /// Launches if the guards hold; `result` is then a new reference, or null with the Python error set.
  GuardResult launch(KernelObject &kernel, PyObject *const *arguments, PyObject *&result);
  /// Does the same on the binding of a recorded call of another kernel of the same function.
  GuardResult launchBound(KernelObject &kernel, const Binding &binding, PyObject *&result);
  /// Whether `launchBound` would launch.
  bool fitsBound(const Binding &binding);

  /// Contains the binary until the code is loaded.
  artifact::Artifact artifact;
  size_t position = 0;      ///< in the kernel's list
  uint64_t lastLaunch = 0;  ///< number of its last launch; before the first one, of the launch for which it was made
  bool hasGradient = false; ///< for kernels under tapes: a version of its gradient was requested
  Ref reads;                ///< dictionary of its dependencies by name, with their values as texts
  std::string getGuardFailure() const { return guards->getGuardFailure(); }
  const std::optional<support::Error> &getRefusal() const { return guards->getRefusal(); }

private:
  struct Frame;
  class Observer;
  static void destroy(Specialization &version);
  void place(Frame &frame);
  void requireStableMembers(KernelObject &kernel, PyObject *const *arguments);
  GuardResult readBound(const Binding &binding, Frame &frame);
  GuardResult runFrame(KernelObject &kernel, Frame &frame, PyObject *&result);
  void noteBinding(const Frame &frame);
  std::vector<std::pair<size_t, size_t>> listForeignWrites(const Specialization &recorded) const;
  void requireOwnReads(const Specialization &recorded, const std::vector<LaunchGuards::Access> &accesses, const unsigned char *block,
                       const Frame &frame) const;
  void requireOwnReads(const Frame &frame);
  void hold(Frame &frame);
  GuardResult run(KernelObject &kernel, Frame &frame, PyObject *&result, runtime::LaunchGraph *graph = nullptr);
  void noteWrites(KernelObject &kernel, Frame &frame);
  GuardResult runCaptured(KernelObject &kernel, Frame &frame, PyObject *&result, runtime::LaunchGraph *graph);
  GuardResult runDirectly(KernelObject &kernel, Frame &frame, PyObject *&result);
  void noteDuration(uint64_t microseconds);
  GuardResult runReplayed(KernelObject &kernel, Frame &frame, PyObject *&result);
  GuardResult runRecorded(KernelObject &kernel, Frame &frame, PyObject *&result);
  GuardResult runFused(KernelObject &kernel, Frame &frame, PyObject *&result);
  PyObject *findSum(const std::vector<LaunchGuards::Access> &accesses) const;
  GuardResult runWithForeignArrays(KernelObject &kernel, Frame &frame, PyObject *&result);
  PyObject *finish(KernelObject &kernel, runtime::KernelRun &run, unsigned char *resultBlock);
  PyObject *buildResult(KernelObject &kernel, const unsigned char *block);
  [[noreturn]] void raiseFailure(runtime::KernelRun &run);

  std::unique_ptr<LaunchGuards> guards;
  /// Matched guards of another kernel's version, and the slots of each container that this one loads and that one writes as another input.
  struct BoundVersion {
    std::weak_ptr<Specialization> version;
    std::unique_ptr<LaunchGuards::Link> link;
    std::vector<std::pair<size_t, size_t>> foreignWrites;
  };
  std::vector<BoundVersion> links;
  std::optional<std::vector<std::pair<size_t, size_t>>> ownForeignWrites; ///< the same for the call that a gradient belongs to
  std::unique_ptr<runtime::LoadedKernel> code;
  std::vector<const artifact::Path *> stableMembers; ///< with debug=True: containers in objects of classes with stable_members=True
  uint64_t lastMicroseconds = 0;                     ///< duration of the previous launch that was timed
  unsigned uses = 0;                                 ///< number of `Use` objects
  bool isDropped = false;                            ///< no reference is left, and the last use destroys it
  unsigned untimedLaunches = 0;                      ///< number of the next launches that need not be timed
};

} // namespace qd::launch
