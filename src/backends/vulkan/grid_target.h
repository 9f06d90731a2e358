// grid_target.h: what threads of a grid do together, as calls that the SPIR-V writer replaces
#pragma once

#include "codegen/llvm/grid/target.h"

#include <memory>

namespace qd::backends::vulkan {

/// LLVM's address spaces: memory of the device is 0, without pointers to others.
constexpr unsigned kShared = 3, kConstant = 4, kLocal = 5;
/// Attributes of entries.
constexpr char kBlockSize[] = "block-size", kParameterBytes[] = "parameter-bytes";
/// Functions that emitted code calls, without a body.
constexpr char kThreadCall[] = "vulkan.thread", kBlockCall[] = "vulkan.block", kBlockSizeCall[] = "vulkan.block_size",
               kBlockCountCall[] = "vulkan.block_count", kLaneCall[] = "vulkan.lane", kBarrierCall[] = "vulkan.barrier",
               kSubgroupBarrierCall[] = "vulkan.subgroup_barrier", kShuffleCall[] = "vulkan.shuffle", kBallotCall[] = "vulkan.ballot";

std::unique_ptr<codegen::GridTarget> makeGridTarget(unsigned subgroupSize);

} // namespace qd::backends::vulkan
