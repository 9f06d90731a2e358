// staged_stores.h: neighboring elements of several words are written by a subgroup together
#pragma once

#include "codegen/llvm/grid/target.h"

namespace llvm {
class Module;
} // namespace llvm
namespace qd::artifact {
struct Artifact;
} // namespace qd::artifact
namespace qd::passes {
struct TargetTraits;
} // namespace qd::passes

namespace qd::codegen {

/// Rewrites the stores of whole elements in the optimized entries of a kernel's tasks.
void stageStores(llvm::Module &module, const artifact::Artifact &artifact, const GridTarget &grid, const passes::TargetTraits &traits);

} // namespace qd::codegen
