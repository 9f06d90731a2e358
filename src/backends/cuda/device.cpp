// device.cpp: an NVIDIA GPU as a runtime::Device: its options, and PTX → machine code
//
// In:   the options of qd.init, and PTX.
// Out:  the device, which is the shared one of gpu/device.h, and machine code from the driver's assembler.
#include "backends/gpu/device.h"
#include "backends/cuda/api.h"
#include "backends/cuda/limits.h"

#include <array>

namespace qd::cuda {

using support::Error;
using support::ErrorKind;
using support::Option;

namespace {

bool isCubin(const std::vector<uint8_t> &binary) {
  return binary.size() > 4 && binary[0] == 0x7f && binary[1] == 'E' && binary[2] == 'L' && binary[3] == 'F';
}

class CudaDevice final : public gpu::GpuDevice {
public:
  CudaDevice(const CudaApi &api, const support::Options &options)
      : GpuDevice(api, options), api(api), maxRegisters(options.getInt(Option::gpu_max_reg)) {
    architecture = "sm_" + std::to_string(memory->getAttribute(kComputeCapabilityMajor)) +
                   std::to_string(memory->getAttribute(kComputeCapabilityMinor));
    memory->usesGraphs = options.getBool(Option::graph);
    int64_t stackBytes = options.getInt(Option::cuda_stack_limit); // per thread; 0: the driver's choice
    if (stackBytes <= 0) return;
    gpu::Memory::Scope scope(*memory);
    memory->check(api.setContextLimit(kStackBytes, size_t(stackBytes)), "take the option cuda_stack_limit");
  }

  /// The description includes the driver, because machine code of a newer linker may not load with an older driver.
  std::string describe() const override { return architecture + " driver " + std::to_string(api.version); }
  runtime::DeviceLimits getLimits() const override { return {kSubgroupSize, kMaxSharedBytes, /*blocksProgress=*/true}; }

  std::unique_ptr<runtime::LoadedKernel> load(artifact::Artifact &artifact) override {
    if (!isCubin(artifact.binary)) artifact.binary = assemble(artifact);
    return GpuDevice::load(artifact);
  }

private:
  /// Compiles PTX to machine code of this device with the driver.
  std::vector<uint8_t> assemble(const artifact::Artifact &artifact) {
    gpu::Memory::Scope scope(*memory);
    std::array<char, 4096> errors{};
    std::vector<LinkOption> options{kErrorLog, kErrorLogBytes};
    std::vector<void *> values{errors.data(), reinterpret_cast<void *>(errors.size())};
    if (maxRegisters > 0) {
      options.push_back(kMaxRegisters);
      values.push_back(reinterpret_cast<void *>(maxRegisters));
    }
    struct Owner {
      const CudaApi &api;
      Linking linking = nullptr;
      ~Owner() {
        if (linking) api.endLinking(linking);
      }
    } owner{api};
    std::string text(artifact.binary.begin(), artifact.binary.end()); // ends with a null byte
    void *code = nullptr;
    size_t size = 0;
    memory->check(api.beginLinking(unsigned(options.size()), options.data(), values.data(), &owner.linking), "assemble a kernel");
    Status status = api.addToLinking(owner.linking, kPtx, text.data(), text.size() + 1, artifact.kernel.c_str(), 0, nullptr, nullptr);
    if (status == gpu::kSuccess) status = api.completeLinking(owner.linking, &code, &size);
    if (status == kUnsupportedPtx)
      throw Error(ErrorKind::Runtime,
                  "the NVIDIA driver is too old for the code of " + architecture + " (" + api.describe(status) + "): update the driver");
    if (status != gpu::kSuccess) throw gpu::DriverError(api, status, "assemble kernel " + artifact.kernel + ": " + errors.data());
    auto *bytes = static_cast<const uint8_t *>(code);
    return {bytes, bytes + size};
  }

  const CudaApi &api;
  int64_t maxRegisters; // per thread; 0: the compiler's choice
};

} // namespace

std::string findProblem(const support::Options &options) {
  return options.getBool(Option::enable_cuda) ? findDriver(options.getText(Option::cuda_driver)).absence : "enable_cuda is off";
}

std::unique_ptr<runtime::Device> makeDevice(const support::Options &options) {
  const Driver &driver = findDriver(options.getText(Option::cuda_driver)); // instead of the system's library if not empty
  if (!driver.absence.empty()) throw Error(ErrorKind::Runtime, "arch=cuda: " + driver.absence);
  return std::make_unique<CudaDevice>(driver.api, options);
}

} // namespace qd::cuda
