// structure.cpp: control flow → constructs of structured languages
//
// In:   any control flow graph.
// Out:  one that LLVM's passes for GPUs have made structured, with blocks added so that constructs can be named by two rules:
//       1. A loop has a header of phis only, a continue block that is the only one that leaves it, and a merge block after that.
//       2. Any other block with two successors has a merge block of its own: the immediate postdominator, split off for the paths that come
//          from that block.
// A merge block is unique by construction, so no case is looked at. Trees of dominators are computed once for each rule: the time is
// linear.
#include "backends/structured/steps.h"

#include "llvm/ADT/PostOrderIterator.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Analysis/AssumptionCache.h"
#include "llvm/Analysis/CycleAnalysis.h"
#include "llvm/Analysis/DominanceFrontier.h"
#include "llvm/Analysis/LazyValueInfo.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/PostDominators.h"
#include "llvm/Analysis/RegionInfo.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/Analysis/TargetTransformInfo.h"
#include "llvm/Analysis/TargetTransformInfoImpl.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/PassInstrumentation.h"
#include "llvm/Transforms/Scalar/StructurizeCFG.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/FixIrreducible.h"
#include "llvm/Transforms/Utils/LoopSimplify.h"
#include "llvm/Transforms/Utils/LowerSwitch.h"
#include "llvm/Transforms/Utils/UnifyFunctionExitNodes.h"
#include "llvm/Transforms/Utils/UnifyLoopExits.h"

namespace qd::backends::structured {
namespace {

/// No instruction is free. `structurizecfg` (LLVM 22) moves free ones that only a phi reads to before the branch, and then takes their
/// value for that of the phi on another path that leads to the same block.
class Costs : public llvm::TargetTransformInfoImplCRTPBase<Costs> {
public:
  explicit Costs(const llvm::DataLayout &layout) : TargetTransformInfoImplCRTPBase(layout) {}
  llvm::InstructionCost getInstructionCost(const llvm::User *, llvm::ArrayRef<const llvm::Value *>,
                                           llvm::TargetTransformInfo::TargetCostKind) const override {
    return 1;
  }
};

void runPasses(llvm::Function &function) {
  llvm::FunctionAnalysisManager analyses;
  auto getCosts = [](const llvm::Function &of) { return llvm::TargetTransformInfo(std::make_unique<Costs>(of.getDataLayout())); };
  analyses.registerPass([&] { return llvm::TargetIRAnalysis(getCosts); });
  registerAnalyses<llvm::TargetLibraryAnalysis, llvm::AssumptionAnalysis, llvm::DominatorTreeAnalysis, llvm::PostDominatorTreeAnalysis,
                   llvm::DominanceFrontierAnalysis, llvm::RegionInfoAnalysis, llvm::LoopAnalysis, llvm::CycleAnalysis,
                   llvm::LazyValueAnalysis, llvm::PassInstrumentationAnalysis>(analyses);
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

/// Rule 1. Loops are found once; blocks that are split off join the loop of the block that they leave.
void makeLoops(llvm::Function &function, Constructs &result, llvm::SmallPtrSetImpl<llvm::BasicBlock *> &continues) {
  llvm::DominatorTree dominators(function);
  llvm::LoopInfo loops(dominators);
  auto split = [&](llvm::BasicBlock *block, llvm::BasicBlock::iterator at) {
    return llvm::SplitBlock(block, at, static_cast<llvm::DominatorTree *>(nullptr), &loops);
  };
  for (llvm::Loop *loop : loops.getLoopsInPreorder()) {
    llvm::BasicBlock *header = loop->getHeader(), *latch = loop->getLoopLatch(), *exit = loop->getUniqueExitBlock();
    if (!latch || !exit || loop->getExitingBlock() != latch)
      throw std::runtime_error("a loop of " + function.getName().str() + " is not structured");
    split(header, header->getFirstNonPHIIt());
    latch = loop->getLoopLatch();
    llvm::BasicBlock *next = split(latch, latch->getTerminator()->getIterator());
    continues.insert(next);
    result.continues[header] = next;
    llvm::BasicBlock *merge = llvm::SplitBlockPredecessors(exit, {next}, ".merge");
    if (llvm::Loop *outer = loops.getLoopFor(exit)) outer->addBasicBlockToLoop(merge, loops);
    result.merges[header] = merge;
  }
}

} // namespace

ConstructsOf structurize(llvm::Module &module) {
  ConstructsOf result;
  for (llvm::Function &function : module)
    if (!function.isDeclaration()) result.try_emplace(&function, structurize(function));
  return result;
}

llvm::SmallVector<const llvm::Function *> findRoutines(const llvm::Function &function) {
  llvm::SetVector<const llvm::Function *, llvm::SmallVector<const llvm::Function *>> result;
  for (const llvm::Instruction &instruction : llvm::instructions(function))
    if (auto *call = llvm::dyn_cast<llvm::CallInst>(&instruction);
        call && call->getCalledFunction() && !call->getCalledFunction()->isDeclaration())
      result.insert(call->getCalledFunction());
  return result.takeVector();
}

Constructs structurize(llvm::Function &function) {
  addExits(function);
  runPasses(function);
  llvm::EliminateUnreachableBlocks(function);
  Constructs result;
  llvm::SmallPtrSet<llvm::BasicBlock *, 16> continues;
  makeLoops(function, result, continues);
  // Rule 2. The trees are those of the graph before it. A merge block that it adds is dominated by its header, and by no other header that
  // is still to come unless that one dominates this one; it is nobody's immediate postdominator but of what is inside. So its header stands
  // for it, and the trees need no updates, each of which would walk over all that follows.
  llvm::DominatorTree dominators(function);
  dominators.updateDFSNumbers();
  llvm::PostDominatorTree postdominators(function);
  llvm::SmallVector<llvm::BasicBlock *> headers;
  for (llvm::BasicBlock *block : llvm::post_order(&function))
    if (block->getTerminator()->getNumSuccessors() == 2 && !continues.contains(block)) headers.push_back(block);
  llvm::DenseMap<const llvm::BasicBlock *, llvm::BasicBlock *> headerOf;
  for (llvm::BasicBlock *header : headers) {
    llvm::BasicBlock *merge = postdominators.getNode(header)->getIDom()->getBlock();
    if (!merge) throw std::runtime_error("a branch of " + function.getName().str() + " has no end");
    llvm::SmallSetVector<llvm::BasicBlock *, 4> inside;
    for (llvm::BasicBlock *before : llvm::predecessors(merge)) {
      llvm::BasicBlock *own = headerOf.lookup(before);
      if (dominators.dominates(header, own ? own : before)) inside.insert(before);
    }
    llvm::BasicBlock *added = llvm::SplitBlockPredecessors(merge, inside.getArrayRef(), ".merge");
    result.merges[header] = added;
    headerOf[added] = header;
  }
  return result;
}

} // namespace qd::backends::structured
