// pipeline.cpp: the passes in their order
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

mlir::LogicalResult run(mlir::ModuleOp module, const TargetTraits &, const PipelineOptions &options) {
  for (ir::KernelOp kernel : module.getOps<ir::KernelOp>())
    if (kernel->hasAttr(ir::kDerivative)) return kernel.emitError("automatic differentiation is not supported");
  mlir::PassManager pipeline(module.getContext(), mlir::ModuleOp::getOperationName());
  pipeline.enableVerifier(options.verify);

  // First: what an assertion computes for its text alone would otherwise cross tasks.
  if (!options.debug) pipeline.addPass(createStripAsserts());
  // After the user's assertions are gone, before loops and bounds come apart.
  if (options.debug) pipeline.addPass(createCheckArithmetic({options.checkOverflow, options.reportOverflow}));
  if (options.checkNans) pipeline.addPass(createCheckNans());
  if (options.checkBounds) pipeline.addPass(createCheckBounds());

  pipeline.addPass(createSplitTasks());
  // From here on the kernel's body holds tasks only, and no value crosses them but through the scratch block.

  // Before the reductions: what needs no atomics needs no private stand-in either.
  pipeline.addPass(createDemoteAtomics());
  if (options.privatise) pipeline.addPass(createPrivatiseReductions());

  return pipeline.run(module);
}

void registerPasses() { registerQuadrantsPasses(); }

} // namespace qd::passes
