// steps.h: the steps from emitted LLVM IR to machine code that only AMD GPUs need
#pragma once

#include "backends/steps.h"

namespace qd::backends::amdgpu {

/// Tells LLVM what is true of the memory that atomic operations change, which lets it use the device's own instructions.
void describeAtomics(llvm::Module &module, bool fastMath);

/// Keeps approximate quotients within 2.5 ulp for all operands.
void boundQuotients(llvm::Module &module);

/// Keeps the sign of products that are 0 where they are rounded to f16.
void keepSignsOfProducts(llvm::Module &module);

/// Throws if the module contains an operation that LLVM cannot select for this device: it would end the process.
void checkSelectable(const llvm::Module &module);

} // namespace qd::backends::amdgpu
