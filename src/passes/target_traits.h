// target_traits.h: the properties of a target that passes and code generation depend on
#pragma once

namespace qd::passes {

struct TargetTraits {
  unsigned vectorBytes = 16;   ///< width of the widest vector register worth using: 64 AVX-512, 32 AVX2, 16 SSE and NEON
  bool hasMaskedStore = false; ///< masked vector loads and stores are instructions (AVX2, AVX-512, SVE)
  bool hasGather = false;      ///< gathers are instructions
  bool hasScatter = false;     ///< scatters are instructions
  bool hasFma = false;
  bool hasF16Arithmetic = false; ///< if not, f16 is computed in f32 and rounded after each operation
  bool hasGrids = false;         ///< tasks are grids that the host launches; if not, the code runs its tasks through the runtime
  bool hasEarlyLaunch = false;   ///< grids: a task may be launched before its predecessor has ended, and wait for it
  bool hasVectorAtomics = false; ///< grids: one instruction adds 2 or 4 neighboring f32
};

} // namespace qd::passes
