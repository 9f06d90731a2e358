// outlined_regions.h: splits long functions into functions of bounded length
//
// LLVM's passes walk a function dozens of times. A function that exceeds the caches is slow to compile, parts of the code generator take
// quadratic time, and only one thread can work on one function. The emitter therefore marks regions of long code, and after emission each
// region becomes a function that its old position calls.
#pragma once

#include "llvm/ADT/ArrayRef.h"

namespace llvm {
class BasicBlock;
class Function;
} // namespace llvm

namespace qd::codegen {

/// A single-entry region: the blocks after `call` up to and including `last`, in the order of the function's blocks.
struct OutlinedRegion {
  llvm::BasicBlock *call; ///< contains only the jump to the first block
  llvm::BasicBlock *last;
};

/// Turns each region into a function `i32 (frame)`, whose result selects the block to continue at. Values that cross the border of a region
/// are spilled to a frame on the stack of `function`. Nested regions come before the regions that contain them.
void outlineRegions(llvm::Function &function, llvm::ArrayRef<OutlinedRegion> regions);

} // namespace qd::codegen
