// index_arithmetic.h: 64-bit addresses of 32-bit indices in the instructions that PTX has for them
#pragma once

#include "llvm/IR/Module.h"

namespace qd::backends::cuda {

/// Takes constant summands out of indices, so that neighboring elements have one address and offsets from it.
void splitOffsets(llvm::Module &module);
/// Multiplies the 32-bit factors of 64-bit products, such as indices and strides, by one instruction each.
void narrowFactors(llvm::Module &module);

} // namespace qd::backends::cuda
