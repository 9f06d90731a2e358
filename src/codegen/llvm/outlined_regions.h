// outlined_regions.h: long functions cut into functions of bounded length
//
// LLVM's passes walk a function dozens of times. One that outgrows the caches is slow to compile, parts of the code generator take time
// that grows with the square of it, and only one thread can work on it. So the emitter marks stretches of long code, and when all of it is
// there each becomes a function that its place calls.
#pragma once

#include "llvm/ADT/ArrayRef.h"

namespace llvm {
class BasicBlock;
class Function;
} // namespace llvm

namespace qd::codegen {

/// A stretch of code, entered at its first block only: what stands between `call` and `last` in the order of the function's blocks.
struct OutlinedRegion {
  llvm::BasicBlock *call; ///< jumps to the first block, and does nothing else
  llvm::BasicBlock *last;
};

/// Makes each region a function `i32 (frame)`, whose result says where to go on. What is used on both sides of a border lives in a frame on
/// the stack of `function`. Regions come after those that they contain.
void outlineRegions(llvm::Function &function, llvm::ArrayRef<OutlinedRegion> regions);

} // namespace qd::codegen
