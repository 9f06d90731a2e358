// target_traits.h: what passes and code generation ask of a target, instead of its name
#pragma once

namespace qd::passes {

struct TargetTraits {
  unsigned vectorBytes = 16;   ///< width of the widest vector register worth using: 64 AVX-512, 32 AVX2, 16 SSE and NEON
  bool hasMaskedStore = false; ///< masked vector loads and stores are instructions (AVX2, AVX-512, SVE)
  bool hasGather = false;      ///< gathers are instructions
  bool hasScatter = false;     ///< scatters are instructions
  bool hasFma = false;
  bool hasF16Arithmetic = false; ///< else f16 is computed in f32 and rounded after each operation
  bool hasGrids = false;       ///< tasks are grids of threads that the host launches; else the code runs its own tasks through the runtime
  bool hasEarlyLaunch = false; ///< grids: a task may be launched before the one ahead of it has ended, and wait for it
  bool hasVectorAtomics = false; ///< grids: one instruction adds 2 or 4 neighboring f32
};

} // namespace qd::passes
