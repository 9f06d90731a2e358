// processor.cpp: describes the processor to compile for: LLVM's name and features, the traits that follow, and its code generator
//
// In:   the name of an architecture and of a processor; without them, the processor that runs the compiler.
// Out:  a description that is part of the key of the disk cache, and LLVM's code generator for it.
#include "backends/cpu/processor.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/TargetParser/Host.h"

namespace qd::backends::cpu {

template <auto... initialize> static void initializeOnce() {
  static const bool once = ((initialize(), ...), true);
  (void)once;
}

/// Registers the one code generator that is needed; the other stays unused.
static const llvm::Target *findLlvmTarget(const llvm::Triple &triple) {
  if (triple.isAArch64())
    initializeOnce<LLVMInitializeAArch64TargetInfo, LLVMInitializeAArch64Target, LLVMInitializeAArch64TargetMC,
                   LLVMInitializeAArch64AsmPrinter>();
  else
    initializeOnce<LLVMInitializeX86TargetInfo, LLVMInitializeX86Target, LLVMInitializeX86TargetMC, LLVMInitializeX86AsmPrinter>();
  std::string error;
  return llvm::TargetRegistry::lookupTarget(triple, error);
}

/// Derives the traits from LLVM's list of features for the processor. `detected` overrides the features that the name implies; only the
/// differences are listed, because LLVM parses the list often.
static Processor describe(llvm::Triple triple, std::string name, const llvm::StringMap<bool> &detected) {
  Processor processor{std::move(triple), std::move(name), {}, {}};
  const llvm::Target *target = findLlvmTarget(processor.triple);
  std::unique_ptr<llvm::MCSubtargetInfo> implied(target->createMCSubtargetInfo(processor.triple, processor.name, ""));
  llvm::StringMap<bool> has;
  for (const llvm::SubtargetFeatureKV &feature : implied->getEnabledProcessorFeatures()) has[feature.Key] = true;
  llvm::SmallVector<std::string> features;
  for (const auto &feature : detected) {
    if (feature.second == has.lookup(feature.first())) continue;
    has[feature.first()] = feature.second;
    features.push_back((feature.second ? "+" : "-") + feature.first().str());
  }
  llvm::sort(features);
  processor.features = llvm::join(features, ",");
  passes::TargetTraits &traits = processor.traits;
  if (processor.triple.isAArch64()) {
    traits.hasFma = true;
    traits.hasF16Arithmetic = has.lookup("fullfp16");
    return processor;
  }
  bool avx2 = has.lookup("avx2");
  bool avx512 = has.lookup("avx512f") && has.lookup("avx512vl") && has.lookup("avx512bw") && has.lookup("avx512dq");
  traits.vectorBytes = avx512 ? 64 : avx2 ? 32 : 16;
  traits.hasShortCompress = avx512 && has.lookup("avx512vbmi2");
  traits.hasFma = has.lookup("fma");
  traits.hasF16Arithmetic = has.lookup("avx512fp16");
  return processor;
}

const Processor &getHost() {
  static const Processor host =
      describe(llvm::Triple(llvm::sys::getProcessTriple()), llvm::sys::getHostCPUName().str(), llvm::sys::getHostCPUFeatures());
  return host;
}

Processor describeProcessor(llvm::StringRef architecture, llvm::StringRef name) {
  bool arm = architecture == "arm64";
  return describe(llvm::Triple(arm ? "aarch64-unknown-linux-gnu" : "x86_64-unknown-linux-gnu"),
                  name.empty() ? (arm ? "generic" : "x86-64-v2") : name.str(), {});
}

CodeGenerator makeCodeGenerator(const Processor &processor, int optLevel) {
  return CodeGenerator(processor.triple, processor.name, processor.features, optLevel);
}

} // namespace qd::backends::cpu
