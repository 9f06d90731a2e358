#include "backends/cpu/processor.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/TargetParser/Host.h"

namespace qd::backends::cpu {

template <auto... initialise> static void initialiseOnce() {
  static const bool once = ((initialise(), ...), true);
  (void)once;
}

/// Registers the one code generator that is needed; the other is never touched.
static const llvm::Target *findLlvmTarget(const llvm::Triple &triple) {
  if (triple.isAArch64())
    initialiseOnce<LLVMInitializeAArch64TargetInfo, LLVMInitializeAArch64Target, LLVMInitializeAArch64TargetMC,
                   LLVMInitializeAArch64AsmPrinter>();
  else
    initialiseOnce<LLVMInitializeX86TargetInfo, LLVMInitializeX86Target, LLVMInitializeX86TargetMC, LLVMInitializeX86AsmPrinter>();
  std::string error;
  return llvm::TargetRegistry::lookupTarget(triple, error);
}

/// Traits follow from what LLVM thinks the processor can do.
static passes::TargetTraits describeTraits(const Processor &processor) {
  passes::TargetTraits traits;
  std::unique_ptr<llvm::TargetMachine> machine = makeTargetMachine(processor, 0);
  auto has = [&](llvm::StringRef feature) { return machine->getMCSubtargetInfo()->checkFeatures(("+" + feature).str()); };
  if (processor.triple.isAArch64()) {
    traits.hasFma = true;
    traits.hasF16Arithmetic = has("fullfp16");
    return traits;
  }
  bool avx512 = has("avx512f") && has("avx512vl") && has("avx512bw") && has("avx512dq");
  traits.vectorBytes = avx512 ? 64 : has("avx2") ? 32 : 16;
  traits.hasMaskedStore = has("avx2");
  traits.hasGather = has("avx2");
  traits.hasScatter = avx512;
  traits.hasFma = has("fma");
  traits.hasF16Arithmetic = has("avx512fp16");
  return traits;
}

const Processor &getHost() {
  static const Processor host = [] {
    Processor processor;
    processor.triple = llvm::Triple(llvm::sys::getProcessTriple());
    processor.name = llvm::sys::getHostCPUName().str();
    llvm::SmallVector<std::string> features;
    for (const auto &feature : llvm::sys::getHostCPUFeatures()) features.push_back((feature.second ? "+" : "-") + feature.first().str());
    llvm::sort(features);
    processor.features = llvm::join(features, ",");
    processor.traits = describeTraits(processor);
    return processor;
  }();
  return host;
}

Processor describeProcessor(llvm::StringRef architecture, llvm::StringRef name) {
  Processor processor;
  bool arm = architecture == "arm64";
  processor.triple = llvm::Triple(arm ? "aarch64-unknown-linux-gnu" : "x86_64-unknown-linux-gnu");
  processor.name = name.empty() ? (arm ? "generic" : "x86-64-v2") : name.str();
  processor.traits = describeTraits(processor);
  return processor;
}

std::unique_ptr<llvm::TargetMachine> makeTargetMachine(const Processor &processor, int optLevel) {
  llvm::TargetOptions options;
  // Every fast-math freedom stands on the instructions themselves.
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  options.ExceptionModel = llvm::ExceptionHandling::None;
  options.TrapUnreachable = false;
  auto level = optLevel == 0 ? llvm::CodeGenOptLevel::None : llvm::CodeGenOptLevel::Default;
  return std::unique_ptr<llvm::TargetMachine>(findLlvmTarget(processor.triple)
                                                  ->createTargetMachine(processor.triple, processor.name, processor.features, options,
                                                                        llvm::Reloc::PIC_, llvm::CodeModel::Small, level));
}

} // namespace qd::backends::cpu
