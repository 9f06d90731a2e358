// gpu_machine.cpp: LLVM's code generators for GPUs, and the modules that they compile
//
// In:   an LLVM target, the name and the features of a device.
// Out:  a machine; modules with its data layout, whose functions are for that device.
#include "backends/steps.h"

#include "llvm/MC/TargetRegistry.h"

namespace qd::backends {

std::unique_ptr<llvm::TargetMachine> makeGpuMachine(const llvm::Triple &triple, llvm::StringRef device, llvm::StringRef features,
                                                    int optLevel) {
  std::string error;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target) throw std::runtime_error(error);
  llvm::TargetOptions options;
  // Instructions carry all fast-math flags themselves.
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  options.ExceptionModel = llvm::ExceptionHandling::None;
  options.TrapUnreachable = false;
  auto level = optLevel == 0 ? llvm::CodeGenOptLevel::None : llvm::CodeGenOptLevel::Default;
  return std::unique_ptr<llvm::TargetMachine>(
      target->createTargetMachine(triple, device, features, options, llvm::Reloc::PIC_, llvm::CodeModel::Small, level));
}

void setMachine(llvm::Module &module, const llvm::TargetMachine &machine) {
  module.setTargetTriple(machine.getTargetTriple());
  module.setDataLayout(machine.createDataLayout());
  for (llvm::Function &function : module) {
    if (function.isIntrinsic()) continue;
    function.addFnAttr("target-cpu", machine.getTargetCPU());
    function.addFnAttr("target-features", machine.getTargetFeatureString());
    function.setDoesNotThrow();
  }
}

} // namespace qd::backends
