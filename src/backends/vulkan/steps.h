// steps.h: the steps from optimized LLVM IR to SPIR-V
#pragma once

#include "backends/steps.h"
#include "backends/vulkan/limits.h"

#include "llvm/ADT/DenseMap.h"

namespace qd::backends::vulkan {

using qd::vulkan::Features;

/// Says what of a kernel the device, or SPIR-V, cannot do.
[[noreturn]] void refuse(const llvm::Twine &what);

/// Makes one function of each entry, whose calls are all inlined; `entries` are their names.
void inlineEverything(llvm::Module &module, llvm::ArrayRef<std::string> entries);

/// Moves constant tables to their own address space.
void moveTables(llvm::Module &module);

/// Replaces what the writer has no instructions for: intrinsics, vectors, copies of memory, atomic operations that the device lacks.
void legalize(llvm::Module &module, const Features &features);
/// The second half of it: atomic operations (legalize_atomics.cpp).
void legalizeAtomics(llvm::Module &module, const Features &features);

/// SPIR-V's constructs: which blocks begin them, and where they end.
struct Constructs {
  llvm::DenseMap<const llvm::BasicBlock *, llvm::BasicBlock *> merges;    ///< of each header
  llvm::DenseMap<const llvm::BasicBlock *, llvm::BasicBlock *> continues; ///< of each header of a loop
};
/// Changes the control flow of a function so that SPIR-V can express it.
Constructs structurize(llvm::Function &function);

/// The SPIR-V module of an entry (writer.cpp).
std::vector<uint32_t> writeModule(llvm::Function &entry, const Constructs &constructs, const Features &features);

} // namespace qd::backends::vulkan
