// steps.h: LLVM IR as emitted → shared library, all in memory; with the steps that targets share (backends/steps.h)
#pragma once

#include "backends/cpu/processor.h"
#include "backends/steps.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/Module.h"

#include <vector>

namespace qd::backends::cpu {

/// Tells every function what processor it is for. Without this LLVM neither inlines across the device library nor uses wide registers.
void setProcessor(llvm::Module &module, const Processor &processor, llvm::TargetMachine &machine);

/// The same for all targets, then what the code generators of processors need to stay fast.
void optimise(llvm::Module &module, llvm::TargetMachine &machine, int optLevel);

/// How many parts to compile the module in on up to `threads` threads: 1 where one function is most of it, or all of it is soon done.
unsigned choosePartCount(const llvm::Module &module, unsigned threads);

/// Optimises the module and selects instructions in `count` parts, each on a thread of its own. One object for each part, none of them of
/// any use once the compile is abandoned.
std::vector<Object> compileParts(llvm::Module &module, const Processor &processor, int optLevel, unsigned count, AbandonGate &gate);

/// One shared library of all objects, which exports `qd_kernel`. `strip`: without symbols and line tables.
std::vector<uint8_t> linkSharedLibrary(llvm::ArrayRef<Object> objects, bool strip);

} // namespace qd::backends::cpu
