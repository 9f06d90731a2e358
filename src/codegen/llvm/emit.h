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

class GridTarget;

/// Attribute of functions that contain loops of the user inside the loop over the iterations of a parallel loop.
inline constexpr char kHasInnerLoops[] = "qd-inner-loops";

struct EmitOptions {
  bool fastMath = true;       ///< reassociation, contraction, reciprocals, approximate functions; NaN, infinities and -0 stay
  bool parallel = true;       ///< false: parallel loops run on the calling thread
  int lanes = 0;              ///< lanes of every parallel loop (1, 2, 4, 8, 16); 0: chosen for each loop
  int blockSize = 128;        ///< threads per block if the loop sets no size; targets with grids
  int maxThreads = INT32_MAX; ///< per block, if the target allows more
  int64_t pieceSize =
      0; ///< functions with at least twice as many operations are outlined into functions of this many; 0: never. Not on targets with grids
  bool lineTables = false; ///< emit the lines of the user's source
  bool timed = false;      ///< report the end of each task; the artifact names the tasks
  int64_t stackBytes = 0;  ///< of each thread, which recursive calls check; 0: they do not. Targets with grids
};

/// Lays out the results: each starts at a multiple of 8 bytes, its components packed. Returns the size of the block.
uint32_t layoutResults(mlir::TypeRange types, std::vector<artifact::Artifact::Result> &results);

/// Emits the kernel of `module`, which split_tasks has cut into tasks, in one walk: `void qd_kernel(QdKernelContext *)` and internal
/// functions, or (targets with grids) one entry per task, listed in the artifact's tasks. Sets sites, loops, results, hasPrint and
/// scratchBytes of the artifact; scratchBytes is the kernel's scratch block plus the slots that the emitter adds (captured values, pointers
/// to partial results). `grid` is null exactly on targets without grids. The caller sets triple and data layout before it optimizes; the
/// emitter depends on neither. Errors are MLIR diagnostics, and the result is then null.
std::unique_ptr<llvm::Module> emitModule(mlir::ModuleOp module, llvm::LLVMContext &ctx, const passes::TargetTraits &traits,
                                         const GridTarget *grid, const EmitOptions &options, artifact::Artifact &artifact);

} // namespace qd::codegen
