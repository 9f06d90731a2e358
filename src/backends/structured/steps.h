// steps.h: the steps from optimized LLVM IR to scalars with structured control flow, for languages of GPUs that LLVM does not write
#pragma once

#include "backends/steps.h"

#include "llvm/ADT/DenseMap.h"

namespace qd::backends::structured {

/// LLVM's data layout: pointers to memory of threads and blocks are offsets of 32 bits.
constexpr char kDataLayout[] = "e-p3:32:32-p4:32:32-p5:32:32-p6:32:32-i64:64-n8:16:32:64-A5";

/// What decides how operations are made legal.
struct Abilities {
  bool hasF64 = false;
  bool hasFma = true;           ///< rounded once
  bool hasRounding64 = true;    ///< f64 can be rounded to integers
  bool roundsHalves = true;     ///< where a number is narrowed to f16 and widened again
  bool hasF32Add = false;       ///< atomic additions of f32 to memory of the device
  bool hasSharedF32Add = false; ///< and of a block
};

/// Says what of a kernel the device, or its language, cannot do.
[[noreturn]] void refuse(const llvm::Twine &what);

/// How the names of routines for f64 begin: functions of numbers, which call no others.
constexpr llvm::StringLiteral kDoubleRoutine = "qd_double_";

/// Makes one function of each entry, whose calls are all inlined but those of routines for f64; `entries` are their names.
void inlineEverything(llvm::Module &module, llvm::ArrayRef<std::string> entries);

/// Moves constant tables to their own address space.
void moveTables(llvm::Module &module);

/// Replaces what writers have no instructions for: intrinsics, vectors, copies of memory, atomic operations that the device lacks.
void legalize(llvm::Module &module, const Abilities &device);
/// The second half of it: atomic operations (legalize_atomics.cpp).
void legalizeAtomics(llvm::Module &module, const Abilities &device);

/// Replaces f64 by its bits, in integers. False: there is none.
bool softenDoubles(llvm::Module &module);

/// What each entry goes through, up to optimized code without generic pointers, and without f64 if the device has none. The stage
/// "optimizing" is open afterwards.
void prepare(llvm::Module &module, llvm::ArrayRef<std::string> entries, Stages &stages, int optLevel, bool hasF64,
             bool hasExactQuotients = true);

/// Constructs of structured control flow: which blocks begin them, and where they end.
struct Constructs {
  llvm::DenseMap<const llvm::BasicBlock *, llvm::BasicBlock *> merges;    ///< of each header
  llvm::DenseMap<const llvm::BasicBlock *, llvm::BasicBlock *> continues; ///< of each header of a loop
};
/// Changes the control flow of a function so that a structured language can express it.
Constructs structurize(llvm::Function &function);
using ConstructsOf = llvm::DenseMap<const llvm::Function *, Constructs>;
/// The same for all functions of a module.
ConstructsOf structurize(llvm::Module &module);

/// The functions that a function calls, once each.
llvm::SmallVector<const llvm::Function *> findRoutines(const llvm::Function &function);

/// Bits of the integer type that holds integers of some width: 8, 16, 32 or 64.
unsigned getContainerBits(unsigned bits);

} // namespace qd::backends::structured
