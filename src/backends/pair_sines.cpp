// pair_sines.cpp: computes sine and cosine of one angle together
//
// In:   a module as emitted, before the device library is linked.
// Out:  calls of both in one block become one call of a routine that reduces the angle once, with the same bits as results. LLVM cannot
//       merge the branches for large angles once the routines are inlined.
#include "backends/steps.h"

#include "llvm/Analysis/AssumptionCache.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/Analysis/VectorUtils.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/PassInstrumentation.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Utils/Mem2Reg.h"

namespace qd::backends {

/// Makes equal angles of a function one value.
static void mergeAngles(llvm::Function &function) {
  llvm::FunctionAnalysisManager analyses;
  registerAnalyses<llvm::AssumptionAnalysis, llvm::DominatorTreeAnalysis, llvm::PassInstrumentationAnalysis, llvm::TargetIRAnalysis,
                   llvm::TargetLibraryAnalysis>(analyses);
  llvm::FunctionPassManager passes;
  passes.addPass(llvm::PromotePass());
  passes.addPass(llvm::EarlyCSEPass());
  passes.run(function, analyses);
}

static llvm::Value *takeHalf(llvm::IRBuilder<> &builder, llvm::Value *both, llvm::Type *type, unsigned half) {
  auto *vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
  if (!vector) return builder.CreateExtractElement(both, half);
  unsigned lanes = vector->getNumElements();
  return builder.CreateShuffleVector(both, llvm::createSequentialMask(half * lanes, lanes, 0));
}

static void pairInBlock(llvm::BasicBlock &block, const llvm::Function *sine, const llvm::Function *cosine, llvm::FunctionCallee both) {
  llvm::DenseMap<llvm::Value *, llvm::CallInst *> single; // by angle
  for (llvm::Instruction &instruction : llvm::make_early_inc_range(block)) {
    auto *second = llvm::dyn_cast<llvm::CallInst>(&instruction);
    if (!second || (second->getCalledFunction() != sine && second->getCalledFunction() != cosine)) continue;
    llvm::Value *angle = second->getArgOperand(0);
    auto [known, isNew] = single.try_emplace(angle, second);
    llvm::CallInst *first = known->second;
    if (isNew || first->getCalledFunction() == second->getCalledFunction()) continue;
    llvm::IRBuilder<> builder(first);
    llvm::CallInst *pair = builder.CreateCall(both, angle);
    if (first->isNoInline()) pair->setIsNoInline();
    for (llvm::CallInst *call : {first, second})
      call->replaceAllUsesWith(takeHalf(builder, pair, call->getType(), call->getCalledFunction() == cosine));
    first->eraseFromParent();
    second->eraseFromParent();
    single.erase(known);
  }
}

void pairSines(llvm::Module &module) {
  llvm::DenseSet<llvm::Function *> merged;
  for (llvm::Function &sine : llvm::make_early_inc_range(module)) {
    auto [prefix, suffix] = sine.getName().split("sin_f");
    if (suffix.empty() || (prefix != "qd_" && prefix != "qd_fast_")) continue;
    llvm::Function *cosine = module.getFunction((prefix + "cos_f" + suffix).str());
    if (!cosine) continue;
    llvm::SetVector<llvm::Function *> callers, candidates;
    for (llvm::User *user : cosine->users()) candidates.insert(llvm::cast<llvm::Instruction>(user)->getFunction());
    for (llvm::User *user : sine.users())
      if (auto *caller = llvm::cast<llvm::Instruction>(user)->getFunction(); candidates.contains(caller)) callers.insert(caller);
    auto *type = llvm::cast<llvm::Type>(sine.getReturnType());
    auto *vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
    auto *results = llvm::FixedVectorType::get(type->getScalarType(), 2 * (vector ? vector->getNumElements() : 1));
    for (llvm::Function *caller : callers) {
      if (merged.insert(caller).second) mergeAngles(*caller);
      auto both = module.getOrInsertFunction((prefix + "sin_cos_f" + suffix).str(), sine.getAttributes(), results, type);
      for (llvm::BasicBlock &block : *caller) pairInBlock(block, &sine, cosine, both);
    }
  }
}

} // namespace qd::backends
