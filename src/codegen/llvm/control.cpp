// control.cpp: structured control flow, uniform or under masks
//
// Uniform control flow becomes branches. Under divergence both sides of an `if` run in turn, each under its mask, and a loop runs until no
// lane needs another iteration. Lanes that leave a scope early (break, continue, return) are removed from the `live` masks of the scopes
// that they leave. After the operation in which lanes left, the mask is narrowed to the live lanes of the innermost scope (narrowAfter).
#include "codegen/llvm/body.h"
#include "ir/attributes.h"
#include "ir/memory.h"

#include "llvm/IR/Constants.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;

namespace qd::codegen {

/// A region with more component operations than this is skipped with a branch if its mask is empty.
constexpr int64_t kCheapComponents = 12;
/// Regions up to this size may be emitted a second time for vectors whose lanes are all active.
constexpr int64_t kTwiceSize = 256;
/// A loop that waits for another thread calls the runtime once in so many rounds; a wait for a thread that runs is shorter.
constexpr uint32_t kRoundsPerPause = 64;

ControlFlow::ControlFlow(BodyEmitter &body)
    : EmitterPart(body), body(body), launch(body.launch), values(body.values), operators(body.operators) {}

//--- Masks ---

llvm::Value *ControlFlow::makeLive(llvm::StringRef name) {
  llvm::Value *live = in.makeSlot(in.widen(builder.getInt1Ty()), name);
  builder.CreateStore(in.getMask(), live);
  return live;
}

void ControlFlow::narrowAfter(Operation *op, llvm::Value *before) {
  in.mask = before;
  if (in.lanes == 1 || !in.facts->loseLanes.contains(op)) return;
  for (const Scope &scope : llvm::reverse(scopes)) {
    if (scope.live) {
      llvm::Value *live = loadMask(scope.live);
      in.mask = before ? builder.CreateAnd(before, live) : live;
      return;
    }
    if (scope.kind == Scope::Kind::Function) return;
  }
}

bool ControlFlow::expectUniform(Operation *op, const Component &condition) {
  if (!condition.kind.isVarying()) return true;
  module.reportError(op->getLoc()) << "the LLVM emitter found a condition that varies where the analysis says that it does not; this is "
                                      "a bug of the compiler";
  return false;
}

//--- Ifs ---

/// Whether the operations can run without active lanes: they are few, and only arithmetic and accesses of locals.
bool ControlFlow::isCheap(llvm::iterator_range<Block::iterator> ops) {
  int64_t cost = 0;
  for (Operation &op : ops) {
    if (isa<ir::UnaryOp, ir::BinaryOp>(op)) {
      if (ir::getOperatorCost(&op) > 1) return false;
    } else if (body.compacts && op.hasAttr(ir::kCompacts)) {
      ++cost; // lanes that are not active store nothing
    } else if (isa<ir::LoadOp, ir::StoreOp>(op)) {
      const Place *place = values.findPlace(op.getOperand(op.getNumOperands() - 1));
      const auto *local = place ? std::get_if<LocalPlace>(place) : nullptr;
      if (!local || local->findIndex()) return false;
    } else if (body.compacts && isa<ir::ElementOp>(op)) {
      cost += 2;
    } else if (!isa<ir::ConstantOp, ir::CastOp, ir::BitCastOp, ir::FmaOp, ir::SelectOp, ir::VectorOp, ir::BroadcastOp, ir::ExtractOp,
                    ir::YieldOp, ir::ConditionOp, ir::BreakOp, ir::ContinueOp>(op)) {
      return false;
    }
    if (isa<ir::UnaryOp, ir::BinaryOp, ir::CastOp, ir::BitCastOp, ir::FmaOp, ir::SelectOp>(op))
      cost += ir::getComponentCount(op.getResult(0).getType());
  }
  return cost <= kCheapComponents;
}

/// Whether the region is short and reads elements of tiled containers. Neighbors are in two tiles at most; without a mask, two loads and a
/// selection by a constant reach them.
bool ControlFlow::readsTiles(Region &region) {
  if (module.traits.hasGrids || module.functions.getSize(region) > kTwiceSize) return false;
  auto isKept = llvm::IsaPred<ir::ForOp, ir::WhileOp, ir::CallOp, ir::BreakOp, ir::ContinueOp, ir::ReturnOp, ir::AssertOp, ir::PrintOp>;
  bool isTiled = false, isPlain = true;
  region.walk([&](Operation *op) {
    isPlain &= !isKept(op);
    if (auto element = dyn_cast<ir::ElementOp>(op)) isTiled |= !ir::getTilings(cast<ir::TensorType>(element.getTensor().getType())).empty();
  });
  return isTiled && isPlain;
}

void ControlFlow::emitMasked(llvm::Value *condition, Region &region) {
  if (region.empty() || region.front().empty() || isa<ir::YieldOp>(region.front().front())) return;
  llvm::Value *before = in.mask, *own = before ? builder.CreateAnd(before, condition) : condition;
  llvm::SaveAndRestore innermost(in.condition, condition);
  in.mask = own;
  auto emit = [&] { body.emitBlock(region.front()); };
  auto emitSome = [&] {
    in.mask = own;
    in.emitWhen(in.isAny(in.mask), "masked", emit);
  };
  auto emitAll = [&] {
    in.mask = before;
    emit();
  };
  if (isCheap(region.front()))
    emit();
  else if ((!before || isa<llvm::Constant>(before)) && readsTiles(region))
    in.emitWhen(in.isAll(before ? builder.CreateOr(condition, builder.CreateNot(before)) : condition), "all", emitAll, emitSome);
  else
    emitSome();
  in.mask = before;
}

void ControlFlow::emitIf(ir::IfOp op) {
  Component condition = values.getScalar(op.getCondition());
  llvm::Value *before = in.mask;
  if (in.isDivergent(op)) {
    llvm::Value *chooser = in.toVector(condition);
    emitMasked(chooser, op.getThenRegion());
    emitMasked(builder.CreateNot(chooser), op.getElseRegion());
  } else if (expectUniform(op, condition)) {
    auto otherwise = [&] {
      in.mask = before;
      body.emitBlock(op.getElseRegion().front());
    };
    llvm::function_ref<void()> none = nullptr;
    in.emitWhen(condition.value, "if", [&] { body.emitBlock(op.getThenRegion().front()); }, op.getElseRegion().empty() ? none : otherwise);
  }
  narrowAfter(op, before);
}

//--- Loops ---

void ControlFlow::emitLoopBody(Operation *op, Region &region, llvm::BasicBlock *next) {
  scopes.push_back({Scope::Kind::Iteration, next});
  if (in.lanes > 1 && in.facts->divergentContinue.contains(op)) scopes.back().live = makeLive("live.iteration");
  if (auto loop = dyn_cast<ir::ForOp>(op); loop && loop.getParallel()) body.beginIteration();
  body.emitBlock(region.front());
  scopes.pop_back();
  in.branchTo(next);
}

/// Whether a loop only waits until another thread changes memory: it looks at places, the same in each round, or tries to exchange them,
/// and changes variables.
bool ControlFlow::isWait(ir::WhileOp op) {
  if (module.traits.hasGrids || in.lanes > 1) return false;
  llvm::SmallVector<Value, 2> seen;
  llvm::DenseSet<Value> changed;
  auto isWork = [&](Operation *inner) {
    auto exchange = dyn_cast<ir::CompareExchangeOp>(inner);
    bool looks = op->isAncestor(inner) && (inner->hasAttr(ir::kVolatile) || (exchange && !exchange.getPart()));
    if (looks) seen.push_back(cast<ir::MemoryAccessOpInterface>(inner).getRef());
    for (Value place : ir::listWrittenPlaces(inner)) changed.insert(ir::findBase(place));
    return isa<ir::ForOp, ir::WhileOp>(inner) || (ir::writesContainer(inner) && !looks);
  };
  for (Region &region : op->getRegions())
    if (module.calls.contains(region, isWork)) return false;
  llvm::DenseSet<Operation *> visited;
  std::function<bool(Value)> isSame = [&](Value value) {
    Operation *from = value.getDefiningOp();
    if (!from || !op->isAncestor(from) || !visited.insert(from).second) return true;
    auto read = [&](Value place) { return !changed.contains(ir::findBase(place)); };
    return llvm::all_of(ir::listReadPlaces(from), read) && llvm::all_of(from->getOperands(), isSame);
  };
  return !seen.empty() && llvm::all_of(seen, isSame);
}

/// Calls the runtime in some rounds of a loop that waits; `slot` counts them.
void ControlFlow::emitPause(llvm::Value *slot) {
  llvm::Value *rounds = builder.CreateAdd(builder.CreateLoad(builder.getInt32Ty(), slot), builder.getInt32(1));
  builder.CreateStore(rounds, slot);
  llvm::Value *isDue = builder.CreateICmpEQ(builder.CreateURem(rounds, builder.getInt32(kRoundsPerPause)), builder.getInt32(0));
  auto pause = [&] { launch.callRuntime(kWaitBriefly, {builder.CreateUDiv(rounds, builder.getInt32(kRoundsPerPause))}); };
  in.emitWhen(isDue, "pause", pause, nullptr, llvm::MDBuilder(module.ctx).createUnlikelyBranchWeights());
}

void ControlFlow::emitWhile(ir::WhileOp op) {
  llvm::Value *before = in.mask;
  in.function->addFnAttr(kHasInnerLoops);
  bool divergent = in.isDivergent(op);
  llvm::Value *rounds = isWait(op) ? in.makeSlot(builder.getInt32Ty(), "rounds") : nullptr;
  if (rounds) builder.CreateStore(builder.getInt32(0), rounds);
  llvm::BasicBlock *header = in.makeBlock("while"), *round = in.makeBlock("while.body"), *exit = in.makeBlock("while.end");
  scopes.push_back({Scope::Kind::Loop, exit});
  if (divergent) scopes.back().live = makeLive("live.loop");
  llvm::Value *live = scopes.back().live;
  in.continueAt(header);
  if (divergent) {
    // All lanes may have left: the condition must not be evaluated then.
    in.mask = loadMask(live);
    llvm::BasicBlock *test = in.makeBlock("while.test");
    builder.CreateCondBr(in.isAny(in.mask), test, exit);
    in.moveTo(test);
  }
  body.emitBlock(op.getConditionRegion().front());
  Component condition = values.getScalar(cast<ir::ConditionOp>(op.getConditionRegion().front().getTerminator()).getCondition());
  llvm::Value *isContinued = condition.value;
  if (divergent && condition.kind.isVarying()) {
    in.mask = builder.CreateAnd(in.mask, condition.value);
    builder.CreateStore(in.mask, live);
    isContinued = in.isAny(in.mask);
  } else if (!expectUniform(op, condition)) {
    isContinued = builder.getFalse();
  }
  builder.CreateCondBr(isContinued, round, exit);
  in.moveTo(round);
  // The loop may be endless.
  launch.leaveIfCanceled();
  if (rounds) emitPause(rounds);
  emitLoopBody(op, op.getBody(), header);
  scopes.pop_back();
  in.moveTo(exit);
  narrowAfter(op, before);
}

//--- Functions ---

bool ControlFlow::isInFunction() const {
  return llvm::any_of(scopes, [](const Scope &scope) { return scope.kind == Scope::Kind::Function; });
}

void ControlFlow::emitFunction(Block &block, llvm::BasicBlock *exit) {
  llvm::Value *before = in.mask;
  scopes.push_back({Scope::Kind::Function, exit});
  if (in.lanes > 1 && in.facts->divergentReturn) scopes.back().live = makeLive("live.function");
  body.emitBlock(block);
  scopes.pop_back();
  in.continueAt(exit);
  in.mask = before;
}

void ControlFlow::emitDeparture(Operation *op, Scope::Kind target) {
  bool divergent = in.isDivergent(op);
  for (Scope &scope : llvm::reverse(scopes)) {
    if (divergent && scope.live) builder.CreateStore(builder.CreateAnd(loadMask(scope.live), builder.CreateNot(in.getMask())), scope.live);
    if (scope.kind != target) continue;
    if (!divergent) builder.CreateBr(scope.exit);
    return;
  }
  module.reportError(op->getLoc()) << "stands outside of what it leaves";
}

} // namespace qd::codegen
