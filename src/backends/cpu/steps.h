// steps.h: LLVM IR as emitted → shared library, all in memory. What goes wrong here is a bug of ours: a std::runtime_error.
#pragma once

#include "backends/cpu/processor.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/Module.h"

#include <vector>

namespace qd::backends::cpu {

/// Links the routines of the device library that the module calls.
void linkDeviceLibrary(llvm::Module &module);

/// Tells every function what processor it is for. Without this LLVM neither inlines across the device library nor uses wide registers.
void setProcessor(llvm::Module &module, const Processor &processor, llvm::TargetMachine &machine);

/// Makes IR that is worth selecting instructions for.
void optimise(llvm::Module &module, llvm::TargetMachine &machine, int optLevel);

using Object = llvm::SmallVector<char, 0>;

/// Selects instructions, which changes the module.
Object emitObject(llvm::Module &module, llvm::TargetMachine &machine, llvm::CodeGenFileType type);

/// How many parts to compile the module in on up to `threads` threads: 1 where one function is most of it, or all of it is soon done.
unsigned choosePartCount(const llvm::Module &module, unsigned threads);

/// Optimises the module and selects instructions in `count` parts, each on a thread of its own. One object for each part.
std::vector<Object> compileParts(llvm::Module &module, const Processor &processor, int optLevel, unsigned count);

/// One shared library of all objects, which exports `qd_kernel`.
std::vector<uint8_t> linkSharedLibrary(llvm::ArrayRef<Object> objects);

/// What LLVM hands out, or its error as an exception.
template <typename T> T take(llvm::Expected<T> result) {
  if (!result) throw std::runtime_error(llvm::toString(result.takeError()));
  return std::move(*result);
}

} // namespace qd::backends::cpu
