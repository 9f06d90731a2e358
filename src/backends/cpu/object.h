// object.h: LLVM IR → object file → shared library, all in memory
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

#include <vector>

namespace llvm {
class Module;
class TargetMachine;
} // namespace llvm

namespace qd::backends::cpu {

using Object = llvm::SmallVector<char, 0>;

enum class OutputKind { Object, Assembly };

/// Selects instructions.
llvm::Expected<Object> emitObject(llvm::Module &module, llvm::TargetMachine &machine, OutputKind kind);

/// One shared library of all objects, which exports `qd_kernel`.
llvm::Expected<std::vector<uint8_t>> linkSharedLibrary(llvm::ArrayRef<Object> objects);

} // namespace qd::backends::cpu
