// pipeline.cpp: the passes in their order
//
// In:   the frontend's module, the traits of the target and the options of the kernel.
// Out:  the module that code generation takes: a kernel of tasks.
// Here: the order has reasons, which are given at each pass.
#include "passes/pipeline.h"

#include "ir/attributes.h"
#include "ir/dialect.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"

namespace qd::passes {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/passes.h.inc"

/// The mode of a kernel that will be differentiated ("forward", "reverse", "replay" or "fused"), or an empty string.
static llvm::StringRef findDerivative(mlir::ModuleOp module) {
  for (ir::KernelOp kernel : module.getOps<ir::KernelOp>())
    if (auto mode = kernel->getAttrOfType<mlir::StringAttr>(ir::kDerivative)) return mode.getValue();
  return "";
}

mlir::LogicalResult run(mlir::ModuleOp module, const TargetTraits &traits, const PipelineOptions &options) {
  if (options.checkRaces && traits.hasGrids) return module.emitError("check_races is not possible on this backend: it needs arch=qd.cpu");
  mlir::PassManager pipeline(module.getContext(), mlir::ModuleOp::getOperationName());
  pipeline.enableVerifier(options.verify);

  // First: a derived kernel is compiled like any other.
  llvm::StringRef derivative = findDerivative(module);
  // Parallel loops stay parallel, and need no checkpoints. On a processor, additions to shared gradients would cost more than that saves.
  if (options.specialize && !derivative.empty())
    pipeline.addPass(createMergeNestedLoops({options.reassociate, /*beforeDerivatives=*/true, /*ofOwnElements=*/!traits.hasGrids}));
  if (derivative == "forward") pipeline.addPass(createDifferentiateForward());
  if (!derivative.empty() && derivative != "forward") {
    pipeline.addPass(createNormalizeExits());
    // From here on only `if`, `for` and `while` decide which operations run.
    pipeline.addPass(createDifferentiateReverse());
  }

  // While conditions are those of the source.
  pipeline.addPass(createCheckBarriers({traits.hasGrids ? options.blockSize : 128}));
  // Before tasks: values that only the text of an assertion uses would otherwise cross tasks.
  if (!options.debug) pipeline.addPass(createStripAsserts());
  // Code of inlined functions loads what the caller has loaded.
  pipeline.addPass(createReuseLoads());
  // Before tasks are split and privatized: every write is still an access of its own.
  if (options.specialize && traits.hasGrids) {
    pipeline.addPass(createGatherUpdates({options.reassociate, /*onGrid=*/true}));
    pipeline.addPass(createMergeNestedLoops({options.reassociate}));
    pipeline.addPass(createAssumeUnaliased());
  } else if (options.specialize) {
    // The loops that it makes get lanes like those of the user.
    pipeline.addPass(createGatherUpdates({options.reassociate, /*onGrid=*/false}));
    pipeline.addPass(createWidenSerialLoops({options.reassociate}));
    pipeline.addPass(createSplitUpdates());
  }
  // After loops have become parallel: only the others are marked.
  if (options.compacts && traits.hasCompress() && derivative.empty()) pipeline.addPass(createMarkCompactions({options.reassociate}));
  // After the user's assertions are stripped, before tasks separate loops from their bounds.
  if (options.debug) pipeline.addPass(createCheckArithmetic({options.checkOverflow, options.reportOverflow}));
  if (options.checkNans) pipeline.addPass(createCheckNans());
  pipeline.addPass(createCheckBounds({/*all=*/options.checkBounds}));

  pipeline.addPass(createSplitTasks());
  // From here on the kernel's body contains only tasks, and values cross tasks only through the scratch block.

  // While an atomic update still differs from a store.
  if (options.checkRaces || (options.debug && !traits.hasGrids)) pipeline.addPass(createCheckRaces({/*loops=*/options.checkRaces}));

  // Before reductions: updates that need no atomics need no privatization either.
  pipeline.addPass(createDemoteAtomics());
  // After updates of own elements are loads and stores.
  if (options.specialize && !traits.hasGrids && !options.checkRaces) pipeline.addPass(createHoldElements());
  // Then threads can share iterations: which of them owns an element does not show any more.
  if (options.specialize && traits.hasGrids) pipeline.addPass(createDistributeRows({int64_t(traits.subgroupSize), options.reassociate}));
  if (options.privatize) pipeline.addPass(createPrivatizeReductions());

  return pipeline.run(module);
}

void registerPasses() { registerQuadrantsPasses(); }

} // namespace qd::passes
