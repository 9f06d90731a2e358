// target.cpp: the CPU target: lowered IR → LLVM IR → shared library
//
// In:   a lowered module.
// Out:  the binary of the artifact. Long kernels are compiled in partitions (partitions.cpp).
#include "backends/cpu/steps.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Transforms/Utils/Cloning.h"

namespace qd::backends::cpu {
namespace {

class CpuTarget : public Target {
public:
  explicit CpuTarget(Processor processor) : processor(std::move(processor)) {}

  const passes::TargetTraits &getTraits() const override { return processor.traits; }

  mlir::LogicalResult emit(mlir::ModuleOp source, const TargetOptions &options, Stages &stages,
                           artifact::Artifact &artifact) const override {
    Emission emission(source, *this, options, stages, artifact);
    if (emission.isOver()) return emission.getResult();
    llvm::Module &module = emission.getModule();
    CodeGenerator machine = makeCodeGenerator(processor, options.optLevel);
    setProcessor(module, processor, *machine);
    linkDeviceLibrary(module);
    setProcessor(module, processor, *machine);
    stages.finish("device library");
    // Dumped stages show the module as a whole.
    Partitions partitions;
    if (!stages.wantsDumps()) partitions = choosePartitions(module, options);
    bool isWhole = partitions.count < 2;
    stages.begin(isWhole ? "optimizing" : "machine code");
    std::vector<Object> objects = isWhole ? compileWhole(emission, machine, options, stages)
                                          : compilePartitions(module, processor, options, partitions, emission.getGate());
    if (stages.isStopped() || emission.getGate().isEnabled()) return mlir::success();
    if (partitions.areStored)
      stages.finish(llvm::formatv("{0} partitions, {1} of them compiled before", partitions.count, partitions.found).str());
    else if (!isWhole)
      stages.finish("partitions");
    stages.begin("linking");
    std::vector<std::string> flags{"-z", "norelro", "-z", "noseparate-code", "--no-rosegment"};
    if (!options.symbol.empty()) flags.push_back("--defsym=" + options.symbol + "=qd_kernel");
    if (!options.lineTables) flags.push_back("--strip-all");
    artifact.binary = linkSharedLibrary(objects, flags);
    artifact.backend = "cpu";
    stages.finish("lld");
    return mlir::success();
  }

private:
  /// Compiles the module as a whole to one object and dumps all stages. Empty if the stages stop.
  std::vector<Object> compileWhole(Emission &emission, CodeGenerator &machine, const TargetOptions &options, Stages &stages) const {
    llvm::Module &module = emission.getModule();
    optimize(module, *machine, options.optLevel);
    if (!emission.finishOptimizing()) return {};
    stages.begin("machine code");
    if (stages.wants("asm")) {
      Object assembly =
          makeCodeGenerator(processor, options.optLevel).emit(*llvm::CloneModule(module), llvm::CodeGenFileType::AssemblyFile);
      if (!stages.finish("4_asm.s", [&](llvm::raw_ostream &output) { output << llvm::StringRef(assembly.data(), assembly.size()); }))
        return {};
    }
    Object object = machine.emit(module, llvm::CodeGenFileType::ObjectFile);
    (void)stages.finish("4_object.o", [&](llvm::raw_ostream &output) { output << llvm::StringRef(object.data(), object.size()); });
    return {std::move(object)};
  }

  Processor processor;
};

} // namespace

std::unique_ptr<Target> makeTarget(llvm::StringRef /*processor*/) { return makeTarget(getHost()); }

std::unique_ptr<Target> makeTarget(Processor processor) { return std::make_unique<CpuTarget>(std::move(processor)); }

} // namespace qd::backends::cpu
