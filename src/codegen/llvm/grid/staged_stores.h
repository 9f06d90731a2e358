// staged_stores.h: neighboring elements of several words are written by a subgroup together
#pragma once

#include "codegen/llvm/grid/target.h"

namespace llvm {
class Function;
} // namespace llvm

namespace qd::codegen {

/// Rewrites the stores of whole elements in an optimized entry whose blocks have `blockSize` threads. `subgroupSize` is 32 or 64;
/// `maxSharedBytes` limits what the entry's blocks share in all.
void stageStores(llvm::Function &entry, const GridTarget &grid, unsigned blockSize, unsigned subgroupSize, uint64_t maxSharedBytes);

} // namespace qd::codegen
