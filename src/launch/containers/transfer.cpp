// transfer.cpp: memory and waiting on devices whose memory the processor does not share
//
// In:   sizes, addresses and streams of the current device; host arrays of a launch.
// Out:  buffers, copies, and Python exceptions for failures that the device reports late.
// Here: launches and containers call this code with the GIL held; it releases the GIL where the device makes it wait.
#include "launch/containers/transfer.h"

#include "launch/containers/data_type.h"
#include "launch/containers/tensor_object.h"
#include "launch/state.h"
#include "runtime/copy.h"
#include "support/error.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace qd::launch {

using support::Error;
using support::ErrorKind;

using Clock = std::chrono::steady_clock;

// Smaller copies end before another thread could have begun.
static constexpr size_t kLargeBytes = 256 << 10;
// Short waits for a device occupy the processor, as the driver's own do; longer ones check for signals at intervals.
static constexpr auto kShortWait = std::chrono::milliseconds(1), kSignalInterval = std::chrono::milliseconds(50);
static constexpr auto kNap = std::chrono::microseconds(50);

namespace {
/// Releases the GIL while this object lives.
class Released {
public:
  explicit Released(bool isWanted) : thread(isWanted ? PyEval_SaveThread() : nullptr) {}
  ~Released() {
    if (thread) takeBackGil(thread);
  }
  /// Handles signals. Throws PythonError when one of them raised.
  void checkSignals() {
    takeBackGil(std::exchange(thread, nullptr));
    if (PyErr_CheckSignals() != 0) throw PythonError{};
    thread = PyEval_SaveThread();
  }

private:
  PyThreadState *thread;
};
} // namespace

runtime::BufferRef allocateBuffer(size_t bytes, bool isReserved) {
  std::shared_ptr<runtime::DeviceMemory> memory = getState().memory; // destructors of garbage may reset the runtime
  if (!memory) return isReserved ? runtime::Buffer::reserve(bytes) : runtime::Buffer::allocate(bytes);
  auto allocate = [&] { return isReserved ? memory->reserve(bytes) : memory->allocate(bytes); };
  try {
    return allocate();
  } catch (const Error &error) {
    if (error.kind != ErrorKind::Memory) throw;
  }
  PyGC_Collect();
  try {
    return allocate();
  } catch (const Error &error) {
    if (error.kind != ErrorKind::Memory) throw;
    Ref report = call("quadrants.memory", "report", nullptr);
    const char *text = PyUnicode_AsUTF8(report.get());
    throw Error(ErrorKind::Memory, std::string(error.what()) + (text ? std::string(":\n") + text : ""));
  }
}

void waitForStream(void *stream) {
  std::shared_ptr<runtime::Device> device = getState().device; // another thread may end the runtime
  runtime::Streams *streams = device->getStreams();
  if (!streams || streams->isDone(stream)) return;
  Released released(true);
  for (Clock::time_point begin = Clock::now(), looked = begin; !streams->isDone(stream);) {
    Clock::time_point now = Clock::now();
    if (now - begin < kShortWait) continue;
    std::this_thread::sleep_for(kNap);
    if (now - looked < kSignalInterval) continue;
    released.checkSignals();
    looked = now;
  }
}

void readMemory(runtime::DeviceMemory &memory, void *host, const void *data, size_t bytes) {
  waitForStream(nullptr);
  Released released(bytes >= kLargeBytes);
  memory.read(host, data, bytes);
}

void writeMemory(runtime::DeviceMemory &memory, void *data, const void *host, size_t bytes) {
  Released released(bytes >= kLargeBytes);
  memory.write(data, host, bytes);
}

void copyBuffer(PyObject *to, PyObject *from) {
  struct View : Py_buffer {
    View(PyObject *object, int flags) {
      if (PyObject_GetBuffer(object, this, flags) < 0) throw PythonError{};
    }
    View(const View &) = delete;
    ~View() { PyBuffer_Release(this); }
  };
  View destination(to, PyBUF_WRITABLE), source(from, PyBUF_SIMPLE);
  if (destination.len != source.len) throw Error(ErrorKind::Value, "a copy needs a source and a destination of the same size");
  Released released(true);
  runtime::copyMemory(destination.buf, source.buf, size_t(source.len));
}

void synchronize() {
  waitForStream(nullptr);
  if (void *stream = getState().externalStream) waitForStream(stream);
  if (std::shared_ptr<runtime::Device> device = getState().device) device->synchronize();
}

//--- Sites ---

Ref makeSite(const artifact::Site &site, const uint64_t *values, int thread) {
  Ref fragments = Ref::adopt(PyList_New(0));
  for (const artifact::Site::Fragment &fragment : site.fragments) {
    const std::string text = fragment.isThread ? std::to_string(thread) : fragment.text;
    append(fragments,
           Ref::adopt(Py_BuildValue("(s#ON)", text.data(), Py_ssize_t(text.size()),
                                    fragment.isOperand ? getDataType(fragment.type.scalar) : Py_None, makeElementShape(fragment.type))));
  }
  return Ref::adopt(Py_BuildValue("(Oy#)", fragments.get(), values, Py_ssize_t(site.countValues() * sizeof *values)));
}

Ref listFrames(const artifact::Site &site) {
  Ref frames = Ref::adopt(PyList_New(0));
  for (const artifact::SourceLocation &place : site.frames)
    append(frames, Ref::adopt(Py_BuildValue("(ssIIII)", place.file.c_str(), place.function.c_str(), place.line, place.column, place.endLine,
                                            place.endColumn)));
  return frames;
}

void raiseFailure(const artifact::Site &site, const uint64_t *values, int thread) {
  using Kind = artifact::Site::Kind;
  Ref text = makeSite(site, values, thread), frames = listFrames(site);
  Ref error = site.kind == Kind::Gradient ? call("quadrants._base.errors", "overwritten_primal_error", "OO", text.get(), frames.get())
                                          : call("quadrants._base.errors", "runtime_error", "OOii", text.get(), frames.get(),
                                                 int(site.kind == Kind::View), int(site.kind == Kind::Recursion));
  PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(error.get())), error.get());
  throw PythonError{};
}

//--- Staging ---

void Staging::copyIn(std::vector<HostArray> &arrays) {
  std::sort(arrays.begin(), arrays.end(), [](const HostArray &a, const HostArray &b) { return a.begin < b.begin; });
  for (const HostArray &array : arrays) {
    if (copies.empty() || array.begin >= copies.back().end) copies.push_back({array.begin, array.end, false, {}});
    copies.back().end = std::max(copies.back().end, array.end);
    copies.back().isWritten |= array.isWritten;
  }
  for (Copy &copy : copies) {
    copy.buffer = allocateBuffer(size_t(copy.end - copy.begin));
    writeMemory(memory, copy.buffer->getData(), copy.begin, size_t(copy.end - copy.begin));
  }
  auto copy = copies.begin();
  for (const HostArray &array : arrays) {
    while (copy->end <= array.begin && std::next(copy) != copies.end()) ++copy;
    *array.address = static_cast<unsigned char *>(copy->buffer->getData()) + (*array.address - copy->begin);
  }
}

void Staging::copyOut() {
  for (const Copy &copy : copies) {
    if (copy.isWritten) readMemory(memory, copy.begin, copy.buffer->getData(), size_t(copy.end - copy.begin));
  }
}

} // namespace qd::launch
