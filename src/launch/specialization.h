// specialization.h: compiled code for one combination of what a kernel looked at, and how to launch it.
#pragma once

#include "artifact/artifact.h"
#include "launch/guards.h"
#include "runtime/device.h"

#include <memory>

namespace qd::launch {

struct Binding;
struct KernelObject;

class Specialization : public std::enable_shared_from_this<Specialization> {
public:
  /// Makes an artifact runnable. With `isFresh` the digests of its dependencies are filled in; otherwise they are compared with the objects
  /// there are now, and the result is empty when one differs, which `guardFailure` then names.
  static std::shared_ptr<Specialization> make(artifact::Artifact artifact, const Roots &roots, bool isFresh, std::string &guardFailure);

  int traverse(visitproc visit, void *arg) const { return guards->traverse(visit, arg); }

  /// Launches if the arguments fit; `result` is then a new reference, or null with the Python error set.
  GuardResult launch(KernelObject &kernel, PyObject *const *arguments, PyObject *&result);
  /// The same on what a call of another kernel of the same function was called with.
  GuardResult launchBound(KernelObject &kernel, const Binding &binding, PyObject *&result);
  /// Whether it would launch.
  bool fitsBound(const Binding &binding);

  /// Includes the binary until the code is loaded.
  artifact::Artifact artifact;
  size_t position = 0;      ///< in the kernel's list
  uint64_t lastLaunch = 0;  ///< number of its latest one; when it was made, where there was none yet
  bool hasGradient = false; ///< of a kernel under tapes: a version of its gradient was asked for
  Ref report;               ///< quadrants._session.reports.Version: what is told about it; texts and numbers only
  std::string getGuardFailure() const { return guards->getGuardFailure(); }
  const std::optional<support::Error> &getRefusal() const { return guards->getRefusal(); }

private:
  struct Frame;
  class Observer;
  void place(Frame &frame);
  GuardResult readBound(const Binding &binding, Frame &frame);
  GuardResult runRead(KernelObject &kernel, Frame &frame, PyObject *&result);
  void noteBinding(const Frame &frame);
  void hold(Frame &frame);
  GuardResult run(KernelObject &kernel, Frame &frame, PyObject *&result);
  GuardResult runPlainly(KernelObject &kernel, Frame &frame, PyObject *&result);
  GuardResult runReplayed(KernelObject &kernel, Frame &frame, PyObject *&result);
  GuardResult runNoted(KernelObject &kernel, Frame &frame, PyObject *&result);
  GuardResult runFused(KernelObject &kernel, Frame &frame, PyObject *&result);
  PyObject *findSum(const std::vector<LaunchGuards::Access> &accesses) const;
  GuardResult runAmongOthers(KernelObject &kernel, Frame &frame, PyObject *&result);
  PyObject *finish(KernelObject &kernel, runtime::KernelRun &run, unsigned char *resultBlock);
  PyObject *buildResult(KernelObject &kernel, const unsigned char *block);
  [[noreturn]] void raiseFailure(runtime::KernelRun &run);

  std::unique_ptr<LaunchGuards> guards;
  std::vector<std::pair<std::weak_ptr<Specialization>, std::unique_ptr<LaunchGuards::Link>>>
      links; ///< to versions of other kernels of the function
  std::unique_ptr<runtime::LoadedKernel> code;
  uint64_t lastMicroseconds = 0; ///< how long the launch before took
};

} // namespace qd::launch
