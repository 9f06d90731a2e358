// code_generator.cpp: LLVM's code generators for processors and GPUs, and the modules that they compile
//
// In:   a triple whose LLVM target is registered, the name and the features of a processor or device; optimized modules.
// Out:  a code generator, which makes the bytes of an object file, or assembly as text. It changes the module.
// Here: code generators are kept for later compiles, because making one with its tables and passes takes a millisecond.
#include "backends/leak_on_cancel.h"
#include "backends/steps.h"

#include "llvm/CodeGen/CodeGenTargetMachineImpl.h"
#include "llvm/CodeGen/MachineModuleInfo.h"
#include "llvm/CodeGen/Passes.h"
#include "llvm/CodeGen/TargetPassConfig.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/MC/TargetRegistry.h"

#include <map>
#include <mutex>

namespace qd::backends {

/// Modules with at least this many instructions skip passes that compare all hoisted constants with each other: these cost more than they
/// save.
constexpr unsigned kLargeModule = 10000;

static std::unique_ptr<llvm::TargetMachine> makeMachine(const llvm::Triple &triple, llvm::StringRef device, llvm::StringRef features,
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

/// The passes from optimized IR to one kind of file.
class CodeGenerator::Passes {
public:
  Passes(llvm::TargetMachine &machine, llvm::CodeGenFileType type, bool isLarge) {
    // The same as addPassesToEmitFile, except for the choice of passes.
    auto *modules = new llvm::MachineModuleInfoWrapperPass(&machine);
    llvm::TargetPassConfig *config = static_cast<llvm::CodeGenTargetMachineImpl &>(machine).createPassConfig(manager);
    config->setDisableVerify(true);
    // The supported processors reorder instructions in hardware.
    config->disablePass(&llvm::PostRASchedulerID);
    if (isLarge) {
      config->disablePass(&llvm::EarlyMachineLICMID);
      config->disablePass(&llvm::MachineCSELegacyID);
    }
    manager.add(config);
    manager.add(modules);
    if (config->addISelPasses()) throw std::runtime_error("this processor has no code generator");
    config->addMachinePasses();
    config->setInitialized();
    if (machine.addAsmPrinter(manager, output, nullptr, type, modules->getMMI().getContext()))
      throw std::runtime_error("this processor has no assembler");
    manager.add(llvm::createFreeMachineFunctionPass());
  }

  Object run(llvm::Module &module) {
    manager.run(module);
    return std::exchange(result, {});
  }

private:
  Object result;
  llvm::raw_svector_ostream output{result};
  llvm::legacy::PassManager manager;
};

struct CodeGenerator::Parts {
  std::unique_ptr<llvm::TargetMachine> machine;
  std::unique_ptr<Passes> passes; ///< to objects; null until they are needed
};

struct CodeGenerator::Kept {
  std::mutex mutex;
  std::map<std::string, std::vector<std::unique_ptr<Parts>>> unused; ///< by everything that they are made from

  /// Is never destroyed: an abandoned compile may give its code generator back at any time.
  static Kept &get() {
    static Kept &kept = *std::make_unique<Kept>().release();
    return kept;
  }

  std::unique_ptr<Parts> take(const std::string &key) {
    std::lock_guard lock(mutex);
    auto found = unused.find(key);
    if (found == unused.end() || found->second.empty()) return nullptr;
    std::unique_ptr<Parts> parts = std::move(found->second.back());
    found->second.pop_back();
    return parts;
  }

  void give(const std::string &key, std::unique_ptr<Parts> parts) {
    std::lock_guard lock(mutex);
    unused[key].push_back(std::move(parts));
  }
};

CodeGenerator::CodeGenerator(const llvm::Triple &triple, llvm::StringRef device, llvm::StringRef features, int optLevel)
    : key((triple.str() + " " + device + " " + features + " " + llvm::Twine(optLevel == 0)).str()), parts(Kept::get().take(key)) {
  if (!parts) parts = std::make_unique<Parts>(makeMachine(triple, device, features, optLevel), nullptr);
}

CodeGenerator::~CodeGenerator() {
  if (std::uncaught_exceptions() > exceptions)
    (void)parts.release();   // leaked, as LeakOnCancel leaks
  else if (!memory.ranOut()) // else it may have taken memory from the emergency pool
    Kept::get().give(key, std::move(parts));
}

llvm::TargetMachine &CodeGenerator::operator*() const { return *parts->machine; }

Object CodeGenerator::emit(llvm::Module &module, llvm::CodeGenFileType type) {
  llvm::TargetMachine &machine = *parts->machine;
  const bool isLarge = module.getInstructionCount() > kLargeModule;
  // The printers of GPUs print one module.
  if (type != llvm::CodeGenFileType::ObjectFile || machine.getTargetTriple().isGPU() || isLarge)
    return LeakOnCancel(std::make_unique<Passes>(machine, type, isLarge))->run(module);
  if (!parts->passes) parts->passes = std::make_unique<Passes>(machine, type, isLarge);
  return parts->passes->run(module);
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
