// unused_targets.cpp: empty entries for the parts of LLVM that we do not carry
//
// lld registers every target that the distribution's LLVM was built with, though linking machine code needs none of them. Empty functions
// in their place keep 20 code generators out of `_compiler`. A target that we start to generate code for leaves this list.
#include "llvm/Plugins/PassPlugin.h"

#define QD_UNUSED_TARGET(name)                                                                                                             \
  extern "C" void LLVMInitialize##name##TargetInfo() {}                                                                                    \
  extern "C" void LLVMInitialize##name##Target() {}                                                                                        \
  extern "C" void LLVMInitialize##name##TargetMC() {}                                                                                      \
  extern "C" void LLVMInitialize##name##AsmPrinter() {}                                                                                    \
  extern "C" void LLVMInitialize##name##AsmParser() {}

// clang-format off
QD_UNUSED_TARGET(AMDGPU) QD_UNUSED_TARGET(ARM) QD_UNUSED_TARGET(AVR) QD_UNUSED_TARGET(BPF) QD_UNUSED_TARGET(Hexagon)
QD_UNUSED_TARGET(Lanai) QD_UNUSED_TARGET(LoongArch) QD_UNUSED_TARGET(M68k) QD_UNUSED_TARGET(MSP430) QD_UNUSED_TARGET(Mips)
QD_UNUSED_TARGET(PowerPC) QD_UNUSED_TARGET(RISCV) QD_UNUSED_TARGET(SPIRV) QD_UNUSED_TARGET(Sparc)
QD_UNUSED_TARGET(SystemZ) QD_UNUSED_TARGET(VE) QD_UNUSED_TARGET(WebAssembly) QD_UNUSED_TARGET(XCore) QD_UNUSED_TARGET(Xtensa)
    // clang-format on

    // The link-time optimiser, which lld refers to, would register Polly, of which the distribution has no static library.
    llvm::PassPluginLibraryInfo getPollyPluginInfo();
llvm::PassPluginLibraryInfo getPollyPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "none", "", [](llvm::PassBuilder &) {}};
}
