// target.cpp: the target of AMD GPUs: lowered IR → LLVM IR → code object, linked by lld inside the process
//
// In:   a lowered module, and the name of a GPU.
// Out:  the binary of the artifact; errors for what LLVM's backend would end the process on.
#include "backends/amdgpu/grid_target.h"
#include "backends/amdgpu/limits.h"
#include "backends/amdgpu/steps.h"
#include "support/error.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/IR/DiagnosticHandler.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/TargetParser/TargetParser.h"
#include "llvm/Transforms/Utils/Cloning.h"

#include <filesystem>
#include <fstream>

namespace qd::backends::amdgpu {
namespace {

/// Version 5 of the format of code objects, which drivers from ROCm 5.5 on load.
constexpr unsigned kCodeObjectVersion = 500;

/// LLVM 22 adds products of 24 bits to sums of 64 bits by v_mad_u64_u32, which multiplies all 32 bits, and these may be anything: no such
/// products, until the fix of llvm-project#198729 is in the LLVM that we use.
void leaveOutProductsOf24Bits() {
  auto &options = llvm::cl::getRegisteredOptions();
  auto option = options.find("amdgpu-codegenprepare-mul24");
  if (option == options.end()) return;
  static_cast<llvm::cl::opt<bool> *>(option->second)->setInitialValue(false); // lld gives options their initial values
}

/// The code generator for a device of this name.
CodeGenerator makeCodeGenerator(llvm::StringRef device, llvm::StringRef features, int optLevel) {
  static const bool isRegistered = [] {
    LLVMInitializeAMDGPUTargetInfo();
    LLVMInitializeAMDGPUTarget();
    LLVMInitializeAMDGPUTargetMC();
    LLVMInitializeAMDGPUAsmPrinter();
    leaveOutProductsOf24Bits();
    return true;
  }();
  (void)isRegistered;
  return CodeGenerator(llvm::Triple("amdgcn-amd-amdhsa"), device, features, optLevel);
}

/// The processor of the first GPU that the kernel's driver lists: "gfx942" for version 90402.
std::string findNativeProcessor() {
  std::error_code problem;
  for (const auto &node : std::filesystem::directory_iterator("/sys/class/kfd/kfd/topology/nodes", problem)) {
    std::ifstream properties(node.path() / "properties");
    unsigned long number;
    for (std::string name; properties >> name >> number;)
      if (name == "gfx_target_version" && number > 0)
        return "gfx" + std::to_string(number / 10000) + llvm::utohexstr(number / 100 % 100, true) + llvm::utohexstr(number % 100, true);
  }
  throw support::Error(support::ErrorKind::Runtime, "amdgpu:native: this machine has no AMD GPU");
}

/// Keeps the first error that LLVM reports while it selects instructions, which would end the process otherwise.
struct ErrorCollector final : llvm::DiagnosticHandler {
  std::string &error;
  explicit ErrorCollector(std::string &error) : error(error) {}
  bool handleDiagnostics(const llvm::DiagnosticInfo &info) override {
    if (info.getSeverity() != llvm::DS_Error) return true;
    std::string text;
    llvm::raw_string_ostream stream(text);
    llvm::DiagnosticPrinterRawOStream printer(stream);
    info.print(printer);
    if (error.empty()) error = text;
    return true;
  }
};

class AmdTarget final : public Target {
public:
  /// `name` as drivers give it: "gfx942:sramecc+:xnack-".
  explicit AmdTarget(llvm::StringRef name) {
    auto [own, settings] = name.split(':');
    processor = own == "native" ? findNativeProcessor() : own.str();
    auto kind = llvm::AMDGPU::parseArchAMDGCN(processor);
    bool isSupported =
        llvm::StringRef(processor).starts_with("gfx") && kind >= llvm::AMDGPU::GK_GFX906 && kind < llvm::AMDGPU::GK_AMDGCN_GENERIC_FIRST;
    if (!isSupported)
      throw support::Error(support::ErrorKind::Value, "amdgpu: there is no GPU '" + processor +
                                                          "', or no code can be generated for it: names are gfx906 to gfx1201, or native");
    // Both, so that the families whose subgroups have 32 threads by default run pairs of them.
    // Without products of four bytes: LLVM 22 takes a + (b * b << 1) for a + b * b + 1 (llvm-project#198412).
    // Without names for halves of registers (gfx11): LLVM 22 loses elements of vectors of f16 that a loop leaves unchanged.
    features = "+wavefrontsize64,-wavefrontsize32,-dot7-insts,-real-true16";
    for (; !settings.empty(); settings = settings.split(':').second) {
      llvm::StringRef setting = settings.split(':').first;
      if (setting.size() > 1) features += "," + setting.take_back().str() + setting.drop_back().str();
    }
    traits.hasGrids = traits.hasFma = traits.hasF16Arithmetic = true;
    traits.hasCycleCounter = qd::amdgpu::hasCycleCounter(processor);
    traits.subgroupSize = qd::amdgpu::kSubgroupSize;
    traits.maxBlockThreads = qd::amdgpu::kMaxBlockThreads;
    traits.maxSharedBytes = qd::amdgpu::kMaxSharedBytes;
    traits.maxCopyBytes = qd::amdgpu::kMaxCopyBytes;
    traits.maxParameterBytes = qd::amdgpu::kMaxParameterBytes;
    // gfx9 has units of 64 threads, later families have units of 32.
    grid = makeGridTarget(/*reachesWholeSubgroup=*/kind < llvm::AMDGPU::GK_GFX1010);
  }

  const char *getFileSuffix() const override { return ".hsaco"; }
  const passes::TargetTraits &getTraits() const override { return traits; }
  const codegen::GridTarget *getGrid() const override { return grid.get(); }

  mlir::LogicalResult emit(mlir::ModuleOp source, const TargetOptions &options, Stages &stages,
                           artifact::Artifact &artifact) const override {
    std::string error;
    Emission emission(source, *this, options, stages, artifact, std::make_unique<ErrorCollector>(error));
    if (emission.isOver()) return emission.getResult();
    llvm::Module &module = emission.getModule();
    CodeGenerator machine = makeCodeGenerator(processor, features, options.optLevel);
    module.addModuleFlag(llvm::Module::Error, "amdhsa_code_object_version", kCodeObjectVersion);
    setMachine(module, *machine);
    linkDeviceLibrary(module, qd::amdgpu::kPrivate);
    inlineRareParts(module);
    setMachine(module, *machine);
    describeAtomics(module, options.fastMath);
    stages.finish("device library");
    stages.begin("optimizing");
    optimize(module, *machine, options.optLevel);
    inferAddressSpaces(module, machine->getTargetIRAnalysis());
    inferAlignments(module, machine->getTargetIRAnalysis());
    boundQuotients(module);
    if (!emission.finishOptimizing()) return mlir::success();
    keepSignsOfProducts(module);
    checkSelectable(module);
    stages.begin("machine code");
    if (stages.wants("asm")) {
      Object assembly =
          makeCodeGenerator(processor, features, options.optLevel).emit(*llvm::CloneModule(module), llvm::CodeGenFileType::AssemblyFile);
      if (!stages.finish("4_asm.s", [&](llvm::raw_ostream &output) { output << llvm::StringRef(assembly.data(), assembly.size()); }))
        return mlir::success();
    }
    std::vector<Object> objects{machine.emit(module, llvm::CodeGenFileType::ObjectFile)};
    if (!error.empty()) throw support::Error(support::ErrorKind::Runtime, "kernel " + artifact.kernel + " on " + processor + ": " + error);
    (void)stages.finish("4_object.o", [&](llvm::raw_ostream &output) { output << llvm::StringRef(objects[0].data(), objects[0].size()); });
    if (stages.isStopped() || emission.getGate().isEnabled()) return mlir::success();
    stages.begin("linking");
    artifact.binary = linkSharedLibrary(objects, {"--strip-all"});
    artifact.backend = "amdgpu";
    stages.finish("lld");
    return mlir::success();
  }

private:
  std::string processor, features;
  passes::TargetTraits traits;
  std::unique_ptr<codegen::GridTarget> grid;
};

} // namespace

/// Code objects for the GPU of this name: "gfx942", with settings as drivers give them, or "native".
std::unique_ptr<Target> makeTarget(llvm::StringRef processor) {
  return std::make_unique<AmdTarget>(processor.empty() ? "gfx942" : processor);
}

} // namespace qd::backends::amdgpu
