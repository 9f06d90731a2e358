// object.h: LLVM IR → object file → shared library, all in memory
#pragma once

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <vector>

namespace llvm {
class Module;
class TargetMachine;
} // namespace llvm

namespace qd::backends::cpu {

enum class OutputKind { Object, Assembly };

/// Selects instructions.
llvm::Expected<llvm::SmallVector<char, 0>> emitObject(llvm::Module &module, llvm::TargetMachine &machine, OutputKind kind);

/// A shared library that exports `qd_kernel`.
llvm::Expected<std::vector<uint8_t>> linkSharedLibrary(llvm::StringRef object);

} // namespace qd::backends::cpu
