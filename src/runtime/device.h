// device.h: the run-time half of a backend. Backends implement it; the module passes the implementation to the launcher.
#pragma once

#include "runtime/buffer.h"
#include "runtime/kernel_run.h"
#include "support/options.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace qd::runtime {

/// Launches of several kernels that a device runs as one, any number of times. It keeps what it needs of the last time, so that equal
/// launches cost little.
class LaunchGraph {
public:
  virtual ~LaunchGraph() = default;
  /// Begins to collect launches.
  virtual void begin() = 0;
  /// Launches what was collected since the last call, before a launch that the graph cannot contain.
  virtual void flush(void *stream) = 0;
  /// Launches the rest.
  virtual void finish(void *stream) = 0;
};

/// Machine code that is ready to run.
class LoadedKernel {
public:
  virtual ~LoadedKernel() = default;
  /// Runs the kernel to its end (an asynchronous device: queues it). `run` supplies the arguments, the result and the scratch block.
  virtual void run(KernelRun &run) = 0;
  /// Adds the launch to a graph of the same device, which then keeps `owner`, the owner of this object. False if the launch must be one of
  /// its own.
  virtual bool addTo(LaunchGraph &, KernelRun &, const std::shared_ptr<const void> & /*owner*/) { return false; }
};

/// Streams besides the default one, which null stands for, and events in them. Handles are the driver's. Memory operations run in the
/// default stream, ordered with all others.
class Streams {
public:
  virtual ~Streams() = default;
  virtual void *makeStream() = 0;
  virtual void destroyStream(void *stream) = 0;
  virtual void synchronizeStream(void *stream) = 0;
  virtual bool isDone(void *stream) = 0;
  /// Orders all work that is in the first stream now before later work of the other.
  virtual void order(void *first, void *then) = 0;
  virtual void *makeEvent() = 0;
  virtual void destroyEvent(void *event) = 0;
  virtual void recordEvent(void *event, void *stream) = 0;
  virtual void waitForEvent(void *stream, void *event) = 0;
  virtual void synchronizeEvent(void *event) = 0;
  virtual float computeMilliseconds(void *begin, void *end) = 0;
};

/// Numbers of a device that programs see.
struct DeviceLimits {
  unsigned subgroupSize = QD_SUBGROUP_SIZE;
  unsigned sharedBytes = 0;    ///< memory that the threads of a block share; 0: no limit
  bool blocksProgress = false; ///< a block of a grid that has started goes on while other blocks wait for it
};

class Device {
public:
  virtual ~Device() = default;
  /// The compiler's name of the target.
  virtual std::string_view getTarget() const = 0;
  /// The processor within the target, in the compiler's spelling: "sm_90". Empty: the processor that compiles.
  virtual std::string getArchitecture() const { return ""; }
  /// The processor for which code is compiled, as text: devices with equal descriptions can run each other's code.
  virtual std::string describe() const = 0;
  /// The functions that compiled code calls.
  virtual const QdRuntimeApi &getApi() const = 0;
  /// Makes an artifact ready to run. May replace its binary by one that loads faster on this device. Throws support::Error.
  virtual std::unique_ptr<LoadedKernel> load(artifact::Artifact &artifact) = 0;
  /// Whether `load` does: then the disk cache stores artifacts again after they are loaded.
  virtual bool addsToBinaries() const { return false; }
  /// Null if the device has no graphs.
  virtual std::unique_ptr<LaunchGraph> makeGraph() { return nullptr; }
  /// Waits for everything that was launched.
  virtual void synchronize() = 0;
  /// Passes the times of tasks that have ended to the profiler.
  virtual void collectTimes() {}
  /// Null when launches are synchronous.
  virtual Streams *getStreams() { return nullptr; }
  virtual DeviceLimits getLimits() const { return {}; }
  /// Nominal ticks per second of the counter that qd.clock_counter() reads.
  virtual double getClockFrequency() const = 0;
  /// Memory of containers; null: memory of the processor.
  virtual std::shared_ptr<DeviceMemory> getMemory() { return nullptr; }
};

/// A backend that runs kernels: a row of backends/backends.def.
struct Backend {
  std::string_view name; ///< qd.init(arch=name)
  std::unique_ptr<Device> (*makeDevice)(const support::Options &options);
  /// Why there is no such device; empty if there is one.
  std::string (*findProblem)(const support::Options &options);
  /// DLPack's types of memory: of the device, of the host where the device reads it, and of memory that moves between both.
  int deviceMemory, sharedMemory, managedMemory;
};

/// The processor comes first.
std::span<const Backend> getBackends();

} // namespace qd::runtime
