// grid_target.h: the instructions of AMD GPUs for grids of threads
#pragma once

#include "codegen/llvm/grid/target.h"

#include <memory>

namespace qd::backends::amdgpu {

/// `reachesWholeSubgroup`: one instruction moves words between any two threads of a subgroup. If not, only within its halves.
std::unique_ptr<codegen::GridTarget> makeGridTarget(bool reachesWholeSubgroup);

} // namespace qd::backends::amdgpu
