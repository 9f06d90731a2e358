// structure.cpp: control flow → SPIR-V's constructs
//
// In:   any control flow graph.
// Out:  one that LLVM's passes for GPUs have made structured, with blocks added so that SPIR-V can name its constructs by two rules:
//       1. A loop has a header of phis only, a continue block that is the only one that leaves it, and a merge block after that.
//       2. Any other block with two successors has a merge block of its own: the immediate postdominator, split off for the paths that come
//          from that block.
// A merge block is unique by construction, so no case is looked at. Dominators are updated, not computed anew: the time is linear.
#include "backends/vulkan/steps.h"

#include "llvm/ADT/PostOrderIterator.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Analysis/AssumptionCache.h"
#include "llvm/Analysis/CycleAnalysis.h"
#include "llvm/Analysis/DomTreeUpdater.h"
#include "llvm/Analysis/DominanceFrontier.h"
#include "llvm/Analysis/LazyValueInfo.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/PostDominators.h"
#include "llvm/Analysis/RegionInfo.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/Analysis/TargetTransformInfo.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/PassInstrumentation.h"
#include "llvm/Transforms/Scalar/StructurizeCFG.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/FixIrreducible.h"
#include "llvm/Transforms/Utils/LoopSimplify.h"
#include "llvm/Transforms/Utils/LowerSwitch.h"
#include "llvm/Transforms/Utils/UnifyFunctionExitNodes.h"
#include "llvm/Transforms/Utils/UnifyLoopExits.h"

namespace qd::backends::vulkan {
namespace {

void runPasses(llvm::Function &function) {
  llvm::FunctionAnalysisManager analyses;
  analyses.registerPass([] { return llvm::TargetIRAnalysis(); });
  analyses.registerPass([] { return llvm::TargetLibraryAnalysis(); });
  analyses.registerPass([] { return llvm::AssumptionAnalysis(); });
  analyses.registerPass([] { return llvm::DominatorTreeAnalysis(); });
  analyses.registerPass([] { return llvm::PostDominatorTreeAnalysis(); });
  analyses.registerPass([] { return llvm::DominanceFrontierAnalysis(); });
  analyses.registerPass([] { return llvm::RegionInfoAnalysis(); });
  analyses.registerPass([] { return llvm::LoopAnalysis(); });
  analyses.registerPass([] { return llvm::CycleAnalysis(); });
  analyses.registerPass([] { return llvm::LazyValueAnalysis(); });
  analyses.registerPass([] { return llvm::PassInstrumentationAnalysis(); });
  llvm::FunctionPassManager passes;
  passes.addPass(llvm::LowerSwitchPass());
  passes.addPass(llvm::UnifyFunctionExitNodesPass());
  passes.addPass(llvm::FixIrreduciblePass());
  passes.addPass(llvm::UnifyLoopExitsPass());
  passes.addPass(llvm::StructurizeCFGPass());
  passes.addPass(llvm::LoopSimplifyPass());
  passes.run(function, analyses);
}

/// Gives loops without an exit one that is never taken, and removes blocks that are never reached.
void addExits(llvm::Function &function) {
  for (llvm::BasicBlock &block : function)
    if (auto *end = llvm::dyn_cast<llvm::UnreachableInst>(block.getTerminator())) {
      llvm::ReturnInst::Create(function.getContext(), nullptr, end->getIterator());
      end->eraseFromParent();
    }
  llvm::EliminateUnreachableBlocks(function);
  llvm::DominatorTree dominators(function);
  llvm::LoopInfo loops(dominators);
  llvm::SmallVector<llvm::BasicBlock *> endless;
  for (llvm::Loop *loop : loops.getLoopsInPreorder())
    if (loop->hasNoExitBlocks()) endless.push_back(loop->getHeader());
  for (llvm::BasicBlock *header : endless) {
    llvm::BasicBlock *rest = header->splitBasicBlock(header->getFirstInsertionPt());
    llvm::BasicBlock *exit = llvm::BasicBlock::Create(function.getContext(), "never", &function);
    llvm::ReturnInst::Create(function.getContext(), exit);
    llvm::Instruction *jump = header->getTerminator();
    llvm::IRBuilder<> at(jump);
    // The launch is never at address 0, which nothing after this knows.
    at.CreateCondBr(at.CreateIsNull(function.getArg(0)), exit, rest);
    jump->eraseFromParent();
  }
}

} // namespace

Constructs structurize(llvm::Function &function) {
  addExits(function);
  runPasses(function);
  llvm::EliminateUnreachableBlocks(function);
  Constructs result;
  llvm::DominatorTree dominators(function);
  llvm::PostDominatorTree postdominators(function);
  llvm::LoopInfo loops(dominators);
  llvm::DomTreeUpdater trees(dominators, postdominators, llvm::DomTreeUpdater::UpdateStrategy::Eager);
  llvm::SmallPtrSet<llvm::BasicBlock *, 16> continues;
  for (llvm::Loop *loop : loops.getLoopsInPreorder()) {
    llvm::BasicBlock *header = loop->getHeader(), *latch = loop->getLoopLatch(), *exit = loop->getUniqueExitBlock();
    if (!latch || !exit || loop->getExitingBlock() != latch)
      throw std::runtime_error("a loop of " + function.getName().str() + " is not structured");
    llvm::SplitBlock(header, header->getFirstNonPHIIt(), &trees, &loops);
    latch = loop->getLoopLatch();
    llvm::BasicBlock *next = llvm::SplitBlock(latch, latch->getTerminator()->getIterator(), &trees, &loops);
    continues.insert(next);
    result.continues[header] = next;
    result.merges[header] = llvm::SplitBlockPredecessors(exit, {next}, ".merge", &trees, &loops);
  }
  llvm::SmallVector<llvm::BasicBlock *> headers;
  for (llvm::BasicBlock *block : llvm::post_order(&function))
    if (block->getTerminator()->getNumSuccessors() == 2 && !continues.contains(block)) headers.push_back(block);
  for (llvm::BasicBlock *header : headers) {
    llvm::BasicBlock *merge = postdominators.getNode(header)->getIDom()->getBlock();
    if (!merge) throw std::runtime_error("a branch of " + function.getName().str() + " has no end");
    llvm::SmallVector<llvm::BasicBlock *> inside;
    for (llvm::BasicBlock *before : llvm::predecessors(merge))
      if (dominators.dominates(header, before) && !llvm::is_contained(inside, before)) inside.push_back(before);
    result.merges[header] = llvm::SplitBlockPredecessors(merge, inside, ".merge", &trees, &loops);
  }
  return result;
}

} // namespace qd::backends::vulkan
