// optimize.cpp: the pass pipeline that all targets share
//
// In:   LLVM IR as emitted, with the device library linked.
// Out:  IR for instruction selection. Targets add passes of their own (optimize.cpp or target.cpp in their folders).
#include "backends/steps.h"
#include "codegen/llvm/emit.h"

#include "llvm/Analysis/AssumptionCache.h"
#include "llvm/Analysis/BasicAliasAnalysis.h"
#include "llvm/Analysis/BlockFrequencyInfo.h"
#include "llvm/Analysis/BranchProbabilityInfo.h"
#include "llvm/Analysis/CGSCCPassManager.h"
#include "llvm/Analysis/LastRunTrackingAnalysis.h"
#include "llvm/Analysis/MemorySSA.h"
#include "llvm/Analysis/OptimizationRemarkEmitter.h"
#include "llvm/Analysis/PostDominators.h"
#include "llvm/Analysis/ProfileSummaryInfo.h"
#include "llvm/Analysis/ScalarEvolution.h"
#include "llvm/Analysis/ScopedNoAliasAA.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/Analysis/TargetTransformInfo.h"
#include "llvm/IR/Dominators.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/IPO/AlwaysInliner.h"
#include "llvm/Transforms/IPO/GlobalDCE.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/ADCE.h"
#include "llvm/Transforms/Scalar/DeadStoreElimination.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/IndVarSimplify.h"
#include "llvm/Transforms/Scalar/InferAddressSpaces.h"
#include "llvm/Transforms/Scalar/InferAlignment.h"
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/LoopPassManager.h"
#include "llvm/Transforms/Scalar/LoopRotation.h"
#include "llvm/Transforms/Scalar/LoopUnrollPass.h"
#include "llvm/Transforms/Scalar/SROA.h"
#include "llvm/Transforms/Scalar/SimpleLoopUnswitch.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"

namespace qd::backends {

namespace {

/// A pipeline for functions with inner loops; the loop over the iterations of a parallel loop is never unrolled. Skipping it elsewhere
/// saves a sixth of these passes' time.
struct WithInnerLoops : llvm::PassInfoMixin<WithInnerLoops> {
  llvm::FunctionPassManager pipeline;

  llvm::PreservedAnalyses run(llvm::Function &function, llvm::FunctionAnalysisManager &analyses) {
    if (!function.hasFnAttribute(codegen::kHasInnerLoops)) return llvm::PreservedAnalyses::all();
    return pipeline.run(function, analyses);
  }
};

} // namespace

/// The passes over each function, chosen for compile time. Each is linear in practice, and serves a property of emitted code: locals become
/// values (SROA), values that the emitter computes twice are computed once (EarlyCSE), uniform work leaves the loops (LICM), short loops of
/// constant length are unrolled. The emitter has vectorized already.
static llvm::FunctionPassManager buildFunctionPipeline(bool isGpu) {
  llvm::FunctionPassManager pipeline;
  pipeline.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  pipeline.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
  pipeline.addPass(llvm::SimplifyCFGPass());
  pipeline.addPass(llvm::InstCombinePass());

  llvm::LoopPassManager hoisting;
  hoisting.addPass(llvm::LoopRotatePass());
  hoisting.addPass(llvm::LICMPass(llvm::LICMOptions()));
  pipeline.addPass(llvm::createFunctionToLoopPassAdaptor(std::move(hoisting), /*UseMemorySSA=*/true));
  WithInnerLoops inner;
  llvm::LoopPassManager unrolling;
  unrolling.addPass(llvm::IndVarSimplifyPass());
  unrolling.addPass(llvm::LoopFullUnrollPass());
  inner.pipeline.addPass(llvm::createFunctionToLoopPassAdaptor(std::move(unrolling)));
  // A GPU thread has no other work while it waits, and assemblers do not unroll loops.
  if (isGpu) inner.pipeline.addPass(llvm::LoopUnrollPass(llvm::LoopUnrollOptions(/*OptLevel=*/2)));
  // Empty inner loops of unrolled nests are left, and would keep their arrays in memory.
  if (isGpu) inner.pipeline.addPass(llvm::SimplifyCFGPass());
  // After unrolling, component indices are constants, so SROA can turn the remaining arrays into values.
  inner.pipeline.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  inner.pipeline.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
  pipeline.addPass(std::move(inner));

  pipeline.addPass(llvm::InstCombinePass());
  pipeline.addPass(llvm::DSEPass());
  pipeline.addPass(llvm::SimplifyCFGPass());
  pipeline.addPass(llvm::ADCEPass());
  return pipeline;
}

namespace {

/// The analyses that the passes use, by unit of code. llvm::PassBuilder would register more and link all of LLVM's passes. A new pass in
/// the pipeline may need more analyses: `nm -C` of its object lists them as undefined `llvm::…Analysis::Key`.
struct Analyses {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::ModuleAnalysisManager modules;
  llvm::PassInstrumentationCallbacks callbacks;

  Analyses(const llvm::TargetIRAnalysis &costs, llvm::OptPassGate &gate) {
    callbacks.registerShouldRunOptionalPassCallback([&gate](llvm::StringRef, llvm::Any) { return gate.shouldRunPass({}, {}); });
    auto instrumentation = [this] { return llvm::PassInstrumentationAnalysis(&callbacks); };
    modules.registerPass(instrumentation);
    functions.registerPass(instrumentation);
    loops.registerPass(instrumentation);
    registerAnalyses<llvm::ProfileSummaryAnalysis>(modules);
    registerAnalyses<llvm::ShouldRunExtraSimpleLoopUnswitch>(loops);
    registerAnalyses<llvm::AssumptionAnalysis, llvm::BasicAA, llvm::BlockFrequencyAnalysis, llvm::BranchProbabilityAnalysis,
                     llvm::DominatorTreeAnalysis, llvm::LastRunTrackingAnalysis, llvm::LoopAnalysis, llvm::MemorySSAAnalysis,
                     llvm::OptimizationRemarkEmitterAnalysis, llvm::PostDominatorTreeAnalysis, llvm::ScalarEvolutionAnalysis,
                     llvm::ScopedNoAliasAA, llvm::TargetLibraryAnalysis>(functions);
    functions.registerPass([&] { return costs; });
    functions.registerPass([] {
      llvm::AAManager aliases;
      aliases.registerFunctionAnalysis<llvm::BasicAA>();
      aliases.registerFunctionAnalysis<llvm::ScopedNoAliasAA>();
      return aliases;
    });
    modules.registerPass([&] { return llvm::FunctionAnalysisManagerModuleProxy(functions); });
    functions.registerPass([&] { return llvm::ModuleAnalysisManagerFunctionProxy(modules); });
    functions.registerPass([&] { return llvm::LoopAnalysisManagerFunctionProxy(loops); });
    loops.registerPass([&] { return llvm::FunctionAnalysisManagerLoopProxy(functions); });
  }
};

} // namespace

void optimize(llvm::Module &module, llvm::TargetMachine &machine, int optLevel) {
  optimize(module, machine.getTargetIRAnalysis(), machine.getTargetTriple().isGPU(), optLevel);
}

void optimize(llvm::Module &module, const llvm::TargetIRAnalysis &costs, bool isGpu, int optLevel) {
  LeakOnCancel owned(std::make_unique<Analyses>(costs, module.getContext().getOptPassGate()));
  llvm::ModulePassManager pipeline;
  pipeline.addPass(llvm::AlwaysInlinerPass(/*InsertLifetime=*/false));
  pipeline.addPass(llvm::GlobalDCEPass());
  if (optLevel > 0) pipeline.addPass(llvm::createModuleToFunctionPassAdaptor(buildFunctionPipeline(isGpu)));
  pipeline.run(module, owned->modules);
}

/// Runs a pass over each function of a module.
template <typename FunctionPass> static void runAlone(llvm::Module &module, const llvm::TargetIRAnalysis &costs, FunctionPass pass) {
  llvm::FunctionAnalysisManager analyses;
  analyses.registerPass([&] { return costs; });
  registerAnalyses<llvm::AssumptionAnalysis, llvm::DominatorTreeAnalysis, llvm::PassInstrumentationAnalysis>(analyses);
  for (llvm::Function &function : module)
    if (!function.isDeclaration()) pass.run(function, analyses);
}

void inferAddressSpaces(llvm::Module &module, const llvm::TargetIRAnalysis &costs) {
  runAlone(module, costs, llvm::InferAddressSpacesPass(0));
}

void inferAlignments(llvm::Module &module, const llvm::TargetIRAnalysis &costs) { runAlone(module, costs, llvm::InferAlignmentPass()); }

} // namespace qd::backends
