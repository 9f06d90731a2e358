// capture.h: calls of kernels that are recorded, and run again together
#pragma once

#include "launch/python.h"
#include "runtime/device.h"

#include <memory>
#include <utility>

namespace qd::launch {

class TapeContext;

/// The recorded calls of one `qd.graph.capture()`, as far as the device knows them.
class Capture {
public:
  /// `context` handles the calls of this thread from now until `end`. In between, the thread reads and writes no container and waits for
  /// nothing: calls that it records have not run.
  void begin(TapeContext &context);
  void end(TapeContext &context);
  /// Compiles a kernel for a call, whose arguments are checked, without running it.
  void prepare(PyObject *kernel, PyObject *arguments, PyObject *keywords);
  /// Runs calls, a list of tuples (kernel, arguments, keywords): as one graph of the device, where it has graphs and the calls fit.
  /// `stream` is a qd.Stream, or None for the current one.
  void replay(PyObject *calls, PyObject *stream);

  /// Throws if this thread records; `what` is what it must not do.
  static void refuse(const char *what) {
    if (current.isRecording) [[unlikely]]
      raise(what);
  }
  static bool isRecording() { return current.isRecording; }
  /// Whether this thread has asked for the next launch of a kernel not to run by itself. The first member of the result says so, the second
  /// one is the graph to which the launch belongs, or null if it does not run.
  static std::pair<bool, runtime::LaunchGraph *> take(const void *kernel) {
    if (current.kernel != kernel) [[likely]]
      return {};
    current.kernel = nullptr;
    return {true, current.graph};
  }

private:
  struct Thread {
    bool isRecording;
    const void *kernel; ///< whose next launch is not an ordinary one
    runtime::LaunchGraph *graph;
  };
  static Ref call(PyObject *kernel, PyObject *arguments, PyObject *keywords, runtime::LaunchGraph *graph);
  [[noreturn]] static void raise(const char *what);

  static constinit thread_local Thread current __attribute__((tls_model("initial-exec")));
  bool isReplayed = false;
  uint64_t epoch = 0; ///< of the program whose kernels are recorded
  std::unique_ptr<runtime::LaunchGraph> graph;
};

} // namespace qd::launch
