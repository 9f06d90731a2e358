// optimise.h: LLVM IR as emitted → LLVM IR worth selecting instructions for
#pragma once

#include "backends/cpu/processor.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

namespace llvm {
class Module;
}

namespace qd::backends::cpu {

/// Links the routines of the device library that the module calls, for the numbers of lanes that it uses.
llvm::Error linkDeviceLibrary(llvm::Module &module, llvm::ArrayRef<int> lanes);

/// Tells every function what processor it is for. Without this LLVM neither inlines across the device library nor uses wide registers.
void setProcessor(llvm::Module &module, const Processor &processor, llvm::TargetMachine &machine);

void optimise(llvm::Module &module, llvm::TargetMachine &machine, int optLevel);

} // namespace qd::backends::cpu
