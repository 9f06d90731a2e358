// target_traits.h: the properties of a target that passes and code generation depend on
#pragma once

namespace qd::passes {

struct TargetTraits {
  unsigned vectorBytes = 16;     ///< width of the widest vector register worth using: 64 AVX-512, 32 AVX2, 16 SSE and NEON
  bool hasShortCompress = false; ///< like hasCompress, for elements of one or two bytes
  bool hasFma = false;
  bool hasF16Arithmetic = false; ///< if not, f16 is computed in f32 and rounded after each operation
  bool hasF64 = true;
  bool has64BitAtomics = true; ///< atomic operations on 8 bytes
  bool hasFloatAtomics = true; ///< atomic operations on floats are instructions; if not, they are loops of compare-exchange
  bool hasCycleCounter = true; ///< user code may read the counter of cycles; if not, that of a steady clock
  bool hasRecursion = true;    ///< functions may call themselves
  bool hasGrids = false;       ///< tasks are grids that the host launches; if not, the code runs its tasks through the runtime

  //--- Grids ---
  bool hasEarlyLaunch = false;   ///< a task may be launched before its predecessor has ended, and wait for it
  bool hasVectorAtomics = false; ///< one instruction adds 2 or 4 neighboring f32
  bool hasGridBarriers = true;   ///< a block that has started goes on while other blocks wait for it
  unsigned subgroupSize = 32;    ///< threads that run in lockstep; a power of two
  unsigned maxBlockThreads = 1024;
  unsigned maxSharedBytes = 16 << 10; ///< of a block, for arrays of the user and what reductions need
  unsigned maxCopyBytes = 0;          ///< of a block, for private copies; the host ignores launch expressions with larger values
  unsigned maxParameterBytes = 128;   ///< of an entry; larger argument blocks are in device memory

  /// Whether an instruction moves the elements of a vector that a mask chooses side by side.
  bool hasCompress() const { return vectorBytes == 64; }
};

} // namespace qd::passes
