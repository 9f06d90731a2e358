// grid_target.h: the instructions of NVPTX for grids of threads
#pragma once

#include "codegen/llvm/grid/target.h"

#include <memory>

namespace qd::backends::cuda {

std::unique_ptr<codegen::GridTarget> makeGridTarget(unsigned capability);

} // namespace qd::backends::cuda
