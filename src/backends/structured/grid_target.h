// grid_target.h: what threads of a grid do together, as calls that the writer of a language replaces
#pragma once

#include "backends/gpu/device_entries.h"
#include "codegen/llvm/grid/target.h"

#include <memory>

namespace qd::backends::structured {

/// LLVM's address spaces: memory of the device is 0, without pointers to others. Parameters of an entry are offsets in kParameters where
/// the language has its own access to them.
constexpr unsigned kShared = 3, kConstant = 4, kLocal = 5, kParameters = 6;
/// Functions that emitted code calls, without a body.
constexpr char kThreadCall[] = "grid.thread", kBlockCall[] = "grid.block", kBlockSizeCall[] = "grid.block_size",
               kBlockCountCall[] = "grid.block_count", kLaneCall[] = "grid.lane", kBarrierCall[] = "grid.barrier",
               kSubgroupBarrierCall[] = "grid.subgroup_barrier", kShuffleCall[] = "grid.shuffle", kBallotCall[] = "grid.ballot",
               kCombineCall[] = "grid.combine."; ///< and LLVM's name of an atomic operation

/// The name and the sizes of an entry, without its code.
gpu::Entries::Entry describeEntry(const llvm::Function &entry);

/// Whether an entry should have more registers than as many threads as possible leave.
bool prefersRegisters(const llvm::Function &entry);

std::unique_ptr<codegen::GridTarget> makeGridTarget(unsigned subgroupSize, bool widensReports, unsigned launchSpace = 0,
                                                    bool savesRegisters = false, bool combinesWords = true);

} // namespace qd::backends::structured
