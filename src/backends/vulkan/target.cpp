// target.cpp: the target of Vulkan: lowered IR → SPIR-V
//
// In:   a kernel's tasks, and the text that says what the device can do (limits.h).
// Out:  a binary (gpu/device_entries.h) with a module of SPIR-V for each task; the stages on the way, which can be dumped and replaced.
// The device's driver compiles the modules when the kernel is loaded.
#include "backends/gpu/device_entries.h"
#include "backends/structured/grid_target.h"
#include "backends/vulkan/steps.h"
#include "codegen/llvm/grid/staged_stores.h"
#include "support/error.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Analysis/TargetTransformInfo.h"

namespace qd::backends::vulkan {
namespace {

/// Smaller subgroups do not fill the sectors of memory with whole elements.
constexpr unsigned kStagingSubgroup = 32;

class VulkanTarget final : public Target {
public:
  explicit VulkanTarget(llvm::StringRef device) {
    if (!features.read({device.data(), device.size()}))
      throw support::Error(support::ErrorKind::Value, "vulkan: '" + device.str() +
                                                          "' does not describe a device; use vulkan, or words such as " +
                                                          "vulkan:subgroup=32,threads=1024,shared=32768,f64");
    traits.hasGrids = true;
    traits.hasFma = features.hasFma;
    traits.hasF16Arithmetic = features.hasF16;
    traits.hasF64 = features.hasF64;
    traits.has64BitAtomics = features.hasI64Atomics;
    traits.hasRecursion = traits.hasGridBarriers = false;
    traits.subgroupSize = features.subgroupSize;
    traits.maxBlockThreads = features.maxBlockThreads;
    traits.maxSharedBytes = features.maxSharedBytes;
    traits.maxCopyBytes = qd::vulkan::kMaxCopyBytes;
    traits.maxParameterBytes = qd::vulkan::kMaxParameterBytes;
    grid = makeGridTarget(features.subgroupSize, /*widensReports=*/!features.hasF64, kParameters, features.savesRegisters,
                          features.combinesWords);
  }

  const char *getFileSuffix() const override { return ".spv"; }
  const passes::TargetTraits &getTraits() const override { return traits; }
  const codegen::GridTarget *getGrid() const override { return grid.get(); }

  mlir::LogicalResult emit(mlir::ModuleOp source, const TargetOptions &options, Stages &stages,
                           artifact::Artifact &artifact) const override {
    Emission emission(source, *this, options, stages, artifact);
    if (emission.isOver()) return emission.getResult();
    llvm::Module &module = emission.getModule();
    std::vector<std::string> entries;
    for (const artifact::DeviceTask &task : artifact.tasks) entries.push_back(task.entry);
    prepare(module, entries, stages, options.optLevel, features.hasF64, features.hasExactQuotients);
    if (features.subgroupSize >= kStagingSubgroup) codegen::stageStores(module, artifact, *grid, traits);
    if (!emission.finishOptimizing()) return mlir::success();
    if (emission.getGate().isEnabled()) return mlir::success();
    stages.begin("SPIR-V");
    legalize(module, {.hasF64 = features.hasF64,
                      .hasFma = features.hasFma,
                      .hasRounding64 = features.hasRounding64,
                      .roundsHalves = features.roundsHalves,
                      .hasF32Add = features.hasF32Add,
                      .hasSharedF32Add = features.hasSharedF32Add});
    gpu::Entries binary;
    ConstructsOf constructs = structurize(module);
    for (const std::string &name : entries) binary.entries.push_back(writeEntry(*module.getFunction(name), constructs));
    artifact.binary = binary.write();
    artifact.backend = "vulkan";
    if (!stages.finish("4_spirv.bin", [&](llvm::raw_ostream &output) {
          output << llvm::StringRef(reinterpret_cast<const char *>(artifact.binary.data()), artifact.binary.size());
        }))
      artifact.binary.clear();
    return mlir::success();
  }

private:
  gpu::Entries::Entry writeEntry(const llvm::Function &function, const ConstructsOf &constructs) const {
    gpu::Entries::Entry entry = describeEntry(function);
    entry.code = writeModule(function, constructs, features);
    return entry;
  }

  Features features;
  passes::TargetTraits traits;
  std::unique_ptr<codegen::GridTarget> grid;
};

} // namespace

/// SPIR-V for a device with these features (limits.h); an empty text is one that has all.
std::unique_ptr<Target> makeTarget(llvm::StringRef device) { return std::make_unique<VulkanTarget>(device); }

} // namespace qd::backends::vulkan
