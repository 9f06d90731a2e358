// emit_object.cpp: optimized LLVM IR → object or assembly, by LLVM's code generator for any target
//
// In:   an LLVM module for the machine; it is changed.
// Out:  the bytes of an object file, or assembly as text.
#include "backends/leak_on_cancel.h"
#include "backends/steps.h"

#include "llvm/CodeGen/CodeGenTargetMachineImpl.h"
#include "llvm/CodeGen/MachineModuleInfo.h"
#include "llvm/CodeGen/Passes.h"
#include "llvm/CodeGen/TargetPassConfig.h"
#include "llvm/IR/LegacyPassManager.h"

namespace qd::backends {

/// Modules with at least this many instructions skip passes that compare all hoisted constants with each other: these cost more than they
/// save.
constexpr unsigned kLargeModule = 10000;

Object emitObject(llvm::Module &module, llvm::TargetMachine &machine, llvm::CodeGenFileType type) {
  Object result;
  llvm::raw_svector_ostream output(result);
  LeakOnCancel ownedPipeline(std::make_unique<llvm::legacy::PassManager>());
  llvm::legacy::PassManager &pipeline = *ownedPipeline;
  // The same as addPassesToEmitFile, except for the choice of passes.
  auto *modules = new llvm::MachineModuleInfoWrapperPass(&machine);
  llvm::TargetPassConfig *config = static_cast<llvm::CodeGenTargetMachineImpl &>(machine).createPassConfig(pipeline);
  config->setDisableVerify(true);
  // The supported processors reorder instructions in hardware.
  config->disablePass(&llvm::PostRASchedulerID);
  if (module.getInstructionCount() > kLargeModule) {
    config->disablePass(&llvm::EarlyMachineLICMID);
    config->disablePass(&llvm::MachineCSELegacyID);
  }
  pipeline.add(config);
  pipeline.add(modules);
  if (config->addISelPasses()) throw std::runtime_error("this processor has no code generator");
  config->addMachinePasses();
  config->setInitialized();
  if (machine.addAsmPrinter(pipeline, output, nullptr, type, modules->getMMI().getContext()))
    throw std::runtime_error("this processor has no assembler");
  pipeline.add(llvm::createFreeMachineFunctionPass());
  pipeline.run(module);
  return result;
}

} // namespace qd::backends
