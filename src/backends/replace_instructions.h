// replace_instructions.h: replaces instructions by values that are computed before them
#pragma once

#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Module.h"

namespace qd::backends {

/// Replaces each instruction of a function for which `make` returns a value. It puts what computes the value before the instruction, and
/// does not see it.
inline void replaceInstructions(llvm::Function &function, llvm::function_ref<llvm::Value *(llvm::Instruction &)> make) {
  for (llvm::Instruction &instruction : llvm::make_early_inc_range(llvm::instructions(function)))
    if (llvm::Value *value = make(instruction)) {
      instruction.replaceAllUsesWith(value);
      instruction.eraseFromParent();
    }
}
inline void replaceInstructions(llvm::Module &module, llvm::function_ref<llvm::Value *(llvm::Instruction &)> make) {
  for (llvm::Function &function : module) replaceInstructions(function, make);
}

} // namespace qd::backends
