// unused_targets.cpp: empty functions in place of parts of LLVM that we do not link
//
// lld registers every target that the distribution's LLVM was built with, though linking machine code needs none of them. These empty
// functions keep 20 code generators out of `_compiler`. Remove a target from this list when we generate code for it.
//
// lld never gets bitcode objects from us. Without its bitcode optimizer `_compiler` is a fifth smaller and loads faster.
#include "llvm/LTO/LTO.h"

namespace lld::elf {
struct Ctx;
class BitcodeFile;
/// Replaces lld's class of this name, which is never used.
class BitcodeCompiler {
public:
  BitcodeCompiler(Ctx &);
  ~BitcodeCompiler();
  void add(BitcodeFile &);
  llvm::SmallVector<void *, 0> compile(); ///< lld's version points to its own files
};
BitcodeCompiler::BitcodeCompiler(Ctx &) {}
BitcodeCompiler::~BitcodeCompiler() = default;
void BitcodeCompiler::add(BitcodeFile &) {}
llvm::SmallVector<void *, 0> BitcodeCompiler::compile() { return {}; }
} // namespace lld::elf

namespace llvm::lto {
InputFile::~InputFile() = default;
Expected<std::unique_ptr<InputFile>> InputFile::create(MemoryBufferRef) {
  return createStringError(inconvertibleErrorCode(), "bitcode cannot be linked");
}
SmallVector<const char *> LTO::getRuntimeLibcallSymbols(const Triple &) { return {}; }
} // namespace llvm::lto

#define QD_UNUSED_TARGET(name)                                                                                                             \
  extern "C" void LLVMInitialize##name##TargetInfo() {}                                                                                    \
  extern "C" void LLVMInitialize##name##Target() {}                                                                                        \
  extern "C" void LLVMInitialize##name##TargetMC() {}                                                                                      \
  extern "C" void LLVMInitialize##name##AsmPrinter() {}                                                                                    \
  extern "C" void LLVMInitialize##name##AsmParser() {}

// lld registers assemblers too, and our code has no inline assembly for this target.
extern "C" void LLVMInitializeAMDGPUAsmParser() {}

// clang-format off
QD_UNUSED_TARGET(ARM) QD_UNUSED_TARGET(AVR) QD_UNUSED_TARGET(BPF) QD_UNUSED_TARGET(Hexagon)
QD_UNUSED_TARGET(Lanai) QD_UNUSED_TARGET(LoongArch) QD_UNUSED_TARGET(M68k) QD_UNUSED_TARGET(MSP430) QD_UNUSED_TARGET(Mips)
QD_UNUSED_TARGET(PowerPC) QD_UNUSED_TARGET(RISCV) QD_UNUSED_TARGET(SPIRV) QD_UNUSED_TARGET(Sparc)
QD_UNUSED_TARGET(SystemZ) QD_UNUSED_TARGET(VE) QD_UNUSED_TARGET(WebAssembly) QD_UNUSED_TARGET(XCore) QD_UNUSED_TARGET(Xtensa)
    // clang-format on
