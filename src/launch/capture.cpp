// capture.cpp: calls of kernels that are recorded, and run again together
//
// In:   the block of a `qd.graph.capture()`, and the list of the calls in it.
// Out:  versions of the kernels while the block runs; later their launches, of which a device may make one.
// Here: a replay calls the kernels like the user did, so each launch checks its guards and reads its inputs. Only its last step differs:
//       the launch is added to a graph (`Specialization::runCaptured`).
#include "launch/capture.h"

#include "launch/kernel.h"
#include "launch/state.h"
#include "launch/tape/tape_context.h"
#include "support/error.h"

namespace qd::launch {

using support::Error;
using support::ErrorKind;

constinit thread_local Capture::Thread Capture::current{};

void Capture::raise(const char *what) {
  throw Error(ErrorKind::Runtime, std::string(what) + " is not possible while qd.graph.capture() records: calls of kernels are kept, not "
                                                      "run. Do it before or after the block, or in a kernel");
}

void Capture::begin(TapeContext &context) {
  requireActive();
  context.enter();
  epoch = getState().epoch;
  current.isRecording = true;
}

void Capture::end(TapeContext &context) {
  current.isRecording = false;
  context.leave();
}

/// Calls a kernel; its launch becomes a part of the graph, or (null) does not run. What runs before it, to prepare it, is ordinary.
Ref Capture::call(PyObject *kernel, PyObject *arguments, PyObject *keywords, runtime::LaunchGraph *to) {
  struct Restored {
    const Thread before = std::exchange(current, {});
    ~Restored() { current = before; }
  } restored;
  current.kernel = kernel;
  current.graph = to;
  return Ref::adopt(PyObject_Call(kernel, arguments, keywords));
}

void Capture::prepare(PyObject *kernel, PyObject *arguments, PyObject *keywords) {
  Ref results = Ref::adopt(PyObject_GetAttrString(kernel, "results")),
      suspends = Ref::adopt(PyObject_GetAttrString(kernel, "has_checkpoints"));
  if (PyObject *stream = PyDict_GetItemString(keywords, "qd_stream"); stream && stream != Py_None)
    throw Error(ErrorKind::Runtime, "qd_stream is not compatible with qd.graph.capture(): give it to the graph, graph(qd_stream=stream)");
  if (results.get() != Py_None || suspends.get() == Py_True)
    throwPython(importAttribute("quadrants._base.errors", "QuadrantsRuntimeError").get(),
                "%R returns a value, and calls in qd.graph.capture() do not run: let it store the value in an ndarray", kernel);
  call(kernel, arguments, keywords, nullptr);
}

void Capture::replay(PyObject *calls, PyObject *stream) {
  const State &state = getState();
  const StreamChoice choice(stream);
  if (!state.isActive || state.epoch != epoch)
    throw Error(ErrorKind::Runtime, "the graph's runtime has ended, or another program is the current one: capture the calls again");
  const bool isAlone = !isReplayed && !TapeContext::findCallHandler() && !TapeContext::isAnyActive() && !state.interpreter;
  if (isAlone && !graph) graph = state.device->makeGraph();
  runtime::LaunchGraph *to = isAlone ? graph.get() : nullptr;
  if (to) to->begin();
  const Raised busy{isReplayed}; // a thread that replays the same calls at this time launches them one by one
  auto finish = [&] {
    if (to && getState().epoch == epoch) to->finish(getStream());
  };
  try {
    for (Py_ssize_t number = 0; number < PyList_GET_SIZE(calls); ++number) {
      Ref item = Ref::borrow(PyList_GET_ITEM(calls, number));
      PyObject *const *parts = &PyTuple_GET_ITEM(item.get(), 0);
      if (to)
        call(parts[0], parts[1], parts[2], to);
      else
        Ref::adopt(PyObject_Call(parts[0], parts[1], parts[2]));
    }
  } catch (const PythonError &) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    finish(); // what stands before the call that failed
    PyErr_Restore(type, value, traceback);
    throw;
  }
  finish();
}

} // namespace qd::launch
