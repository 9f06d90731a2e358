// transfer.h: memory that the processor cannot access: allocation, copies, waiting, and delayed failures. On a device that shares the
// processor's memory these functions do nothing extra.
#pragma once

#include "artifact/artifact.h"
#include "launch/python.h"
#include "runtime/device.h"

#include <vector>

namespace qd::launch {

/// Allocates zeroed memory for containers of the runtime. Collects garbage and retries before it fails.
runtime::BufferRef allocateBuffer(size_t bytes, bool isReserved = false);

/// Waits for a stream of the device (null: the default one) while other Python threads run. Ctrl-C ends the wait but not the work: throws
/// PythonError.
void waitForStream(void *stream);

/// Copy from and to memory of a device; large copies release the GIL.
void readMemory(runtime::DeviceMemory &memory, void *host, const void *data, size_t bytes);
void writeMemory(runtime::DeviceMemory &memory, void *data, const void *host, size_t bytes);

/// Copies between two objects with contiguous memory of one size (the buffer protocol), with the GIL released.
void copyBuffer(PyObject *to, PyObject *from);

/// Waits for all launches, with the GIL released.
void synchronize();

/// The arguments of quadrants._base.format.format_site: (fragments, values); `thread` is the number of the thread that reached the site.
Ref makeSite(const artifact::Site &site, const uint64_t *values, int thread);
/// The source locations of a site as a list of frames, outermost first.
Ref listFrames(const artifact::Site &site);
/// Raises the exception of a failed check.
[[noreturn]] void raiseFailure(const artifact::Site &site, const uint64_t *values, int thread);

/// An array of the host in the arguments of a launch.
struct HostArray {
  unsigned char **address; ///< in the argument block
  unsigned char *begin, *end;
  bool isWritten;
};

/// Copies of host arrays on the device, for one launch. Arrays that overlap share one copy.
class Staging {
public:
  explicit Staging(runtime::DeviceMemory &memory) : memory(memory) {}
  /// Copies the arrays to the device and stores the addresses of the copies in the argument block.
  void copyIn(std::vector<HostArray> &arrays);
  /// Copies back the arrays that the kernel may have written.
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
