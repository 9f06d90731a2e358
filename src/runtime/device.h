// device.h: the run half of a backend. Backends implement it; the module hands the implementation to the launcher.
#pragma once

#include "runtime/buffer.h"
#include "runtime/kernel_run.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace qd::runtime {

/// Machine code that is ready to run.
class LoadedKernel {
public:
  virtual ~LoadedKernel() = default;
  /// Runs the kernel to its end (an asynchronous device: puts it into its queue). `run` has the arguments, the result and the scratch
  /// block.
  virtual void run(KernelRun &run) = 0;
};

/// Queues of launches beside the default one, which null stands for, and marks in them. Handles are the driver's. What concerns memory
/// happens in the default stream, before and after everything else.
class Streams {
public:
  virtual ~Streams() = default;
  virtual void *makeStream() = 0;
  virtual void destroyStream(void *stream) = 0;
  virtual void synchronizeStream(void *stream) = 0;
  virtual bool isDone(void *stream) = 0;
  /// What is in one stream now comes before what is put into another from here on.
  virtual void order(void *first, void *then) = 0;
  virtual void *makeEvent() = 0;
  virtual void destroyEvent(void *event) = 0;
  virtual void recordEvent(void *event, void *stream) = 0;
  virtual void waitForEvent(void *stream, void *event) = 0;
  virtual void synchronizeEvent(void *event) = 0;
  virtual float computeMilliseconds(void *begin, void *end) = 0;
};

class Device {
public:
  virtual ~Device() = default;
  /// The name that the compiler knows the target by.
  virtual std::string_view getTarget() const = 0;
  /// Which of the target's processors this is, as the compiler knows it: "sm_90". Empty: the one that compiles.
  virtual std::string getArchitecture() const { return ""; }
  /// The processor that code is compiled for, as text: two devices with one description run each other's code.
  virtual std::string describe() const = 0;
  /// What compiled code calls.
  virtual const QdRuntimeApi &getApi() const = 0;
  /// Makes an artifact ready to run. What takes the place of its binary is quicker to load on this device. Throws support::Error.
  virtual std::unique_ptr<LoadedKernel> load(artifact::Artifact &artifact) = 0;
  /// Waits for everything that was launched.
  virtual void synchronize() = 0;
  /// Null where launches have ended when they return.
  virtual Streams *getStreams() { return nullptr; }
  /// Where containers lie; null: in the memory of the processor.
  virtual std::shared_ptr<DeviceMemory> getMemory() { return nullptr; }
};

} // namespace qd::runtime
