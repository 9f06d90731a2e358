// emit.h: lowered qd IR → LLVM IR
#pragma once

#include "artifact/artifact.h"
#include "passes/target_traits.h"

#include <memory>
#include <vector>

namespace llvm {
class LLVMContext;
class Module;
} // namespace llvm
namespace mlir {
class ModuleOp;
class TypeRange;
} // namespace mlir

namespace qd::codegen {

/// The attribute of functions with loops of the user's, besides those over the iterations of a parallel loop.
inline constexpr char kHasInnerLoops[] = "qd-inner-loops";

struct EmitOptions {
  bool fastMath = true;    ///< reassociation, contraction, reciprocals, approximate functions; NaN, infinities and -0 stay
  bool parallel = true;    ///< false: parallel loops run on the calling thread
  int lanes = 0;           ///< lanes of every parallel loop (1, 2, 4, 8, 16); 0: chosen for each loop
  int blockSize = 128;     ///< threads of a block where the loop does not say; targets with grids
  int maxThreads = 1024;   ///< of a block
  int64_t pieceSize = 0;   ///< code of twice as many operations is cut into functions of this many; 0: none is. Not on targets with grids
  bool lineTables = false; ///< the lines of the user's source are in the code
};

/// Each result starts at a multiple of 8 bytes, its components packed. Returns the size of the block.
uint32_t layoutResults(mlir::TypeRange types, std::vector<artifact::Artifact::Result> &results);

/// Emits the kernel of `module`, which split_tasks has cut into tasks, in one walk: `void qd_kernel(QdKernelContext *)` and internal
/// functions, or (targets with grids) an entry for each task, listed in the artifact's tasks. Fills in sites, loops, results, hasPrint and
/// scratchBytes (the kernel's and what the emitter adds: captured values, pointers to partial results) of the artifact. The caller sets
/// triple and data layout before it optimizes; the emitter relies on neither. Errors are reported through MLIR's diagnostics and give null.
std::unique_ptr<llvm::Module> emitModule(mlir::ModuleOp module, llvm::LLVMContext &ctx, const passes::TargetTraits &traits,
                                         const EmitOptions &options, artifact::Artifact &artifact);

} // namespace qd::codegen
