// device.h: the run half of a backend. Backends implement it; the module hands the implementation to the launcher.
#pragma once

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

class Device {
public:
  virtual ~Device() = default;
  /// The name that the compiler knows the target by.
  virtual std::string_view getTarget() const = 0;
  /// The processor that code is compiled for, as text: two devices with one description run each other's code.
  virtual std::string describe() const = 0;
  /// What compiled code calls.
  virtual const QdRuntimeApi &getApi() const = 0;
  /// Makes the binary of an artifact ready to run. Throws support::Error.
  virtual std::unique_ptr<LoadedKernel> load(const std::vector<uint8_t> &binary) = 0;
  /// Waits for everything that was launched.
  virtual void synchronize() = 0;
};

} // namespace qd::runtime
