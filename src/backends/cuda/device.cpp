// device.cpp: an NVIDIA GPU as a runtime::Device: its options, and PTX → machine code
//
// In:   the options of qd.init, and PTX.
// Out:  the device, which is the shared one of gpu/device.h, and machine code from the driver's assembler.
#include "backends/gpu/device.h"
#include "backends/cuda/api.h"
#include "backends/cuda/device_ptx.h"
#include "backends/cuda/limits.h"
#include "backends/gpu/device_code.h"
#include "runtime/thread_pool.h"

#include <algorithm>
#include <array>
#include <exception>

namespace qd::cuda {

using support::Error;
using support::ErrorKind;
using support::Option;

namespace {

constexpr size_t kMaxParts = 16; ///< of a kernel, assembled at the same time

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
  runtime::DeviceLimits getLimits() const override {
    return {kSubgroupSize, getMaxDynamicBytes(unsigned(std::stoul(architecture.substr(3)))), /*blocksProgress=*/true};
  }

  std::unique_ptr<runtime::LoadedKernel> load(artifact::Artifact &artifact) override {
    if (!isCubin(artifact.binary) && !gpu::hasParts(artifact.binary)) assemble(artifact);
    return GpuDevice::load(artifact);
  }
  bool addsToBinaries() const override { return true; }

private:
  /// Compiles PTX to machine code of this device with the driver: long texts in parts, on the threads of the pool. The driver loads PTX one
  /// text at a time, but links it on many threads.
  void assemble(artifact::Artifact &artifact) {
    struct Work {
      CudaDevice &device;
      const std::string &kernel;
      std::vector<std::string> texts;
      std::vector<gpu::Code> codes;
      std::vector<std::exception_ptr> errors;
    } work{*this, artifact.kernel, {}, {}, {}};
    std::string_view text(reinterpret_cast<const char *>(artifact.binary.data()), artifact.binary.size());
    text = text.substr(0, text.find('\0'));
    work.texts = splitPtx(text, std::min<size_t>(kMaxParts, size_t(std::max(1, runtime::getThreadCount()))));
    work.codes.resize(work.texts.size());
    work.errors.resize(work.texts.size());
    auto assembleOne = [](void *data, int64_t number) {
      auto &own = *static_cast<Work *>(data);
      try {
        own.codes[size_t(number)] = own.device.assembleText(own.texts[size_t(number)], own.kernel);
      } catch (...) { own.errors[size_t(number)] = std::current_exception(); }
    };
    const volatile int32_t stop = 0;
    runtime::runChunks({assembleOne, &work, int64_t(work.texts.size()), &stop, nullptr}, 0);
    for (const std::exception_ptr &error : work.errors)
      if (error) std::rethrow_exception(error);
    artifact.binary = gpu::joinParts(work.codes);
  }

  gpu::Code assembleText(std::string &text, const std::string &kernel) {
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
    void *code = nullptr;
    size_t size = 0;
    memory->check(api.beginLinking(unsigned(options.size()), options.data(), values.data(), &owner.linking), "assemble a kernel");
    Status status = api.addToLinking(owner.linking, kPtx, text.data(), text.size() + 1, kernel.c_str(), 0, nullptr, nullptr);
    if (status == gpu::kSuccess) status = api.completeLinking(owner.linking, &code, &size);
    if (status == kUnsupportedPtx)
      throw Error(ErrorKind::Runtime,
                  "the NVIDIA driver is too old for the code of " + architecture + " (" + api.describe(status) + "): update the driver");
    if (status != gpu::kSuccess) throw gpu::DriverError(api, status, "assemble kernel " + kernel + ": " + errors.data());
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
