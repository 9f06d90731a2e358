// target.cpp: the target of Metal: lowered IR → text in Metal's shading language
//
// In:   a kernel's tasks.
// Out:  a binary (gpu/device_entries.h) with a source for each task; the stages on the way, which can be dumped and replaced.
// The system compiles the sources when the kernel is loaded.
#include "backends/gpu/device_entries.h"
#include "backends/metal/limits.h"
#include "backends/metal/printer.h"
#include "backends/structured/grid_target.h"
#include "support/error.h"

#include "mlir/IR/BuiltinOps.h"

namespace qd::backends::metal {
namespace {

class MetalTarget final : public Target {
public:
  MetalTarget() {
    traits.hasGrids = traits.hasFma = traits.hasF16Arithmetic = true;
    traits.hasF64 = traits.has64BitAtomics = traits.hasRecursion = traits.hasGridBarriers = false;
    traits.subgroupSize = qd::metal::kSubgroupSize;
    traits.maxBlockThreads = qd::metal::kMaxBlockThreads;
    traits.maxSharedBytes = qd::metal::kMaxSharedBytes;
    traits.maxCopyBytes = qd::metal::kMaxCopyBytes;
    traits.maxParameterBytes = qd::metal::kMaxParameterBytes;
    grid = makeGridTarget(traits.subgroupSize, /*widensReports=*/true);
  }

  const char *getFileSuffix() const override { return ".metal"; }
  bool isText() const override { return true; }
  const passes::TargetTraits &getTraits() const override { return traits; }
  const codegen::GridTarget *getGrid() const override { return grid.get(); }

  mlir::LogicalResult emit(mlir::ModuleOp source, const TargetOptions &given, Stages &stages, artifact::Artifact &artifact) const override {
    TargetOptions options = given;
    if (!options.lanes) options.lanes = 1; // vectors would be taken apart again
    Emission emission(source, *this, options, stages, artifact);
    if (emission.isOver()) return emission.getResult();
    llvm::Module &module = emission.getModule();
    std::vector<std::string> entries;
    for (const artifact::DeviceTask &task : artifact.tasks) entries.push_back(task.entry);
    prepare(module, entries, stages, options.optLevel, traits.hasF64);
    if (!emission.finishOptimizing()) return mlir::success();
    if (emission.getGate().isEnabled()) return mlir::success();
    stages.begin("MSL");
    legalize(module, {.hasRounding64 = false, .hasF32Add = true});
    gpu::Entries binary;
    std::string all;
    ConstructsOf constructs = structurize(module);
    for (const std::string &name : entries) {
      std::string text = addEntry(binary, *module.getFunction(name), constructs);
      if (stages.wantsDumps()) all += text + "\n";
    }
    artifact.binary = binary.write();
    artifact.backend = "metal";
    if (!stages.finish("4_source.metal", [&](llvm::raw_ostream &output) { output << all; })) artifact.binary.clear();
    return mlir::success();
  }

private:
  static std::string addEntry(gpu::Entries &binary, const llvm::Function &function, const ConstructsOf &constructs) {
    gpu::Entries::Entry entry = describeEntry(function);
    std::string text = printEntry(function, constructs, entry.blockSize);
    entry.code.resize((text.size() + 4) / 4); // ends with a zero
    memcpy(entry.code.data(), text.data(), text.size());
    binary.entries.push_back(std::move(entry));
    return text;
  }

  passes::TargetTraits traits;
  std::unique_ptr<codegen::GridTarget> grid;
};

} // namespace

std::unique_ptr<Target> makeTarget(llvm::StringRef device) {
  if (!device.empty()) throw support::Error(support::ErrorKind::Value, "metal: there is one kind of device; use metal");
  return std::make_unique<MetalTarget>();
}

} // namespace qd::backends::metal
