// transfer.h: containers and arrays where the processor does not reach: taking memory, copying, waiting, and what failed meanwhile. Nothing
// here does anything on a device that shares the processor's memory.
#pragma once

#include "artifact/artifact.h"
#include "launch/python.h"
#include "runtime/device.h"

#include <vector>

namespace qd::launch {

/// Zeroed memory for containers of the runtime. Collects garbage and tries again before it gives up.
runtime::BufferRef allocateBuffer(size_t bytes);

/// Waits for a stream of the device (null: the default one), other Python threads running. Ctrl-C ends the wait, not what is waited for:
/// throws PythonError then.
void waitForStream(void *stream);

/// To and from memory of a device; other Python threads run meanwhile when there is much to copy.
void readMemory(runtime::DeviceMemory &memory, void *host, const void *data, size_t bytes);
void writeMemory(runtime::DeviceMemory &memory, void *data, const void *host, size_t bytes);

/// As memcpy between two objects with contiguous memory of one size (the buffer protocol), other Python threads running.
void copyBuffer(PyObject *to, PyObject *from);

/// Waits for all launches, other Python threads running.
void synchronize();

/// The arguments of quadrants._base.format.format_site: (fragments, values); `thread` is the number of the thread that got there.
Ref makeSite(const artifact::Site &site, const uint64_t *values, int thread);
/// The places of a site as a list of frames, outermost first.
Ref listFrames(const artifact::Site &site);
/// Raises the exception of a failed check.
[[noreturn]] void raiseFailure(const artifact::Site &site, const uint64_t *values, int thread);

/// An array of the host in the arguments of a launch.
struct HostArray {
  unsigned char **address; ///< in the argument block
  unsigned char *begin, *end;
  bool isWritten;
};

/// Copies of host arrays on the device, for one launch. Arrays that overlap share a copy, as they share memory.
class Staging {
public:
  explicit Staging(runtime::DeviceMemory &memory) : memory(memory) {}
  /// Copies the arrays to the device and puts the addresses there into the argument block.
  void copyIn(std::vector<HostArray> &arrays);
  /// Copies back what the kernel may have written.
  void copyOut();

private:
  struct Copy {
    unsigned char *begin, *end;
    bool isWritten;
    runtime::BufferRef buffer;
  };
  runtime::DeviceMemory &memory;
  std::vector<Copy> copies;
};

} // namespace qd::launch
