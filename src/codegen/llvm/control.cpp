// control.cpp: structured control flow, uniform or under masks
//
// Uniform control flow becomes branches. Under divergence both sides of an `if` run in turn, each under its mask, and a loop runs until no
// lane needs another iteration. Lanes that leave a scope early (break, continue, return) are removed from the `live` masks of the scopes
// that they leave. After the operation in which lanes left, the mask is narrowed to the live lanes of the innermost scope (narrowAfter).
#include "codegen/llvm/body.h"

#include "llvm/IR/Constants.h"
#include "llvm/IR/MDBuilder.h"

using namespace mlir;

namespace qd::codegen {

/// A region with more component operations than this is skipped with a branch if its mask is empty.
constexpr int64_t kCheapComponents = 12;

//--- Masks ---

void BodyEmitter::branchTo(llvm::BasicBlock *target) {
  if (!isTerminated()) builder.CreateBr(target);
}

void BodyEmitter::continueAt(llvm::BasicBlock *target) {
  branchTo(target);
  moveTo(target);
}

void BodyEmitter::emitWhen(llvm::Value *condition, const llvm::Twine &name, llvm::function_ref<void()> body,
                           llvm::function_ref<void()> otherwise, llvm::MDNode *weights) {
  llvm::BasicBlock *yes = makeBlock(name), *join = makeBlock(name + ".end"), *no = otherwise ? makeBlock(name + ".else") : join;
  builder.CreateCondBr(condition, yes, no, weights);
  moveTo(yes);
  body();
  branchTo(join);
  if (otherwise) {
    moveTo(no);
    otherwise();
    branchTo(join);
  }
  moveTo(join);
}

llvm::Value *BodyEmitter::getMask() { return mask ? mask : llvm::Constant::getAllOnesValue(widen(builder.getInt1Ty())); }

llvm::Value *BodyEmitter::isAny(llvm::Value *lanesMask) {
  if (lanes == 1) return lanesMask;
  return builder.CreateIsNotNull(builder.CreateBitCast(lanesMask, builder.getIntNTy(lanes)));
}

/// The mask as the low bits of an i32.
static llvm::Value *getBits(llvm::IRBuilder<> &builder, llvm::Value *lanesMask, unsigned lanes) {
  return builder.CreateZExt(builder.CreateBitCast(lanesMask, builder.getIntNTy(lanes)), builder.getInt32Ty());
}

// The lane is within bounds even for an empty mask, whose result is unused.
llvm::Value *BodyEmitter::getFirstLane(llvm::Value *lanesMask) {
  llvm::Value *lane = builder.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, getBits(builder, lanesMask, lanes), builder.getFalse());
  return builder.CreateAnd(lane, builder.getInt32(lanes - 1));
}

llvm::Value *BodyEmitter::getLastLane(llvm::Value *lanesMask) {
  llvm::Value *zeros = builder.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, getBits(builder, lanesMask, lanes), builder.getFalse());
  return builder.CreateAnd(builder.CreateSub(builder.getInt32(31), zeros), builder.getInt32(lanes - 1));
}

void BodyEmitter::forEachActiveLane(llvm::function_ref<void(llvm::Value *)> body) {
  if (!mask) {
    for (unsigned lane = 0; lane < lanes; ++lane) body(builder.getInt32(lane));
    return;
  }
  // Loop over the set bits: smaller code than one branch per lane.
  llvm::Value *bits = getBits(builder, mask, lanes);
  llvm::BasicBlock *before = builder.GetInsertBlock(), *loop = makeBlock("lanes"), *done = makeBlock("lanes.end");
  builder.CreateCondBr(builder.CreateIsNotNull(bits), loop, done);
  moveTo(loop);
  llvm::PHINode *rest = builder.CreatePHI(bits->getType(), 2);
  rest->addIncoming(bits, before);
  llvm::Value *lane = builder.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, rest, builder.getFalse());
  body(builder.CreateAnd(lane, builder.getInt32(lanes - 1)));
  llvm::Value *next = builder.CreateAnd(rest, builder.CreateSub(rest, builder.getInt32(1)));
  rest->addIncoming(next, builder.GetInsertBlock());
  builder.CreateCondBr(builder.CreateIsNotNull(next), loop, done);
  moveTo(done);
}

llvm::Value *BodyEmitter::makeLive(llvm::StringRef name) {
  llvm::Value *live = makeSlot(widen(builder.getInt1Ty()), name);
  builder.CreateStore(getMask(), live);
  return live;
}

void BodyEmitter::narrowAfter(Operation *op, llvm::Value *before) {
  mask = before;
  if (lanes == 1 || !facts->loseLanes.contains(op)) return;
  for (const Scope &scope : llvm::reverse(scopes)) {
    if (scope.live) {
      llvm::Value *live = loadMask(scope.live);
      mask = before ? builder.CreateAnd(before, live) : live;
      return;
    }
    if (scope.kind == Scope::Kind::Function) return;
  }
}

bool BodyEmitter::expectUniform(Operation *op, const Component &condition) {
  if (!condition.kind.isVarying()) return true;
  module.reportError(op->getLoc()) << "the LLVM emitter found a condition that varies where the analysis says that it does not; this is "
                                      "a bug of the compiler";
  return false;
}

//--- Ifs ---

/// Whether the region can run without active lanes: it is short, and has only arithmetic and locals.
bool BodyEmitter::isCheap(Region &region) {
  if (region.empty()) return true;
  int64_t cost = 0;
  for (Operation &op : region.front()) {
    if (auto unary = dyn_cast<ir::UnaryOp>(op)) {
      if (ir::getOpInfo(unary.getUnaryKind()).cost > 1) return false;
    } else if (auto binary = dyn_cast<ir::BinaryOp>(op)) {
      if (ir::getOpInfo(binary.getBinaryKind()).cost > 1) return false;
    } else if (isa<ir::LoadOp, ir::StoreOp>(op)) {
      auto place = places.find(op.getOperand(op.getNumOperands() - 1));
      if (place == places.end() || !place->second.local || place->second.chosen.value) return false;
    } else if (!isa<ir::ConstantOp, ir::CastOp, ir::BitCastOp, ir::FmaOp, ir::SelectOp, ir::VectorOp, ir::BroadcastOp, ir::ExtractOp,
                    ir::YieldOp, ir::BreakOp, ir::ContinueOp>(op)) {
      return false;
    }
    if (isa<ir::UnaryOp, ir::BinaryOp, ir::CastOp, ir::BitCastOp, ir::FmaOp, ir::SelectOp>(op))
      cost += ir::getComponentCount(op.getResult(0).getType());
  }
  return cost <= kCheapComponents;
}

void BodyEmitter::emitMasked(llvm::Value *condition, Region &region) {
  if (region.empty() || region.front().empty() || isa<ir::YieldOp>(region.front().front())) return;
  llvm::Value *before = mask;
  mask = before ? builder.CreateAnd(before, condition) : condition;
  auto emit = [&] { emitBlock(region.front()); };
  isCheap(region) ? emit() : emitWhen(isAny(mask), "masked", emit);
  mask = before;
}

void BodyEmitter::emitIf(ir::IfOp op) {
  Component condition = getScalar(op.getCondition());
  llvm::Value *before = mask;
  if (isDivergent(op)) {
    llvm::Value *chooser = toVector(condition);
    emitMasked(chooser, op.getThenRegion());
    emitMasked(builder.CreateNot(chooser), op.getElseRegion());
  } else if (expectUniform(op, condition)) {
    auto otherwise = [&] {
      mask = before;
      emitBlock(op.getElseRegion().front());
    };
    llvm::function_ref<void()> none = nullptr;
    emitWhen(condition.value, "if", [&] { emitBlock(op.getThenRegion().front()); }, op.getElseRegion().empty() ? none : otherwise);
  }
  narrowAfter(op, before);
}

//--- Loops ---

void BodyEmitter::emitCountedLoop(llvm::Value *count, llvm::function_ref<void(llvm::Value *i)> emitRound) {
  llvm::BasicBlock *before = builder.GetInsertBlock(), *header = makeBlock("count"), *round = makeBlock("round"),
                   *done = makeBlock("count.end");
  builder.CreateBr(header);
  moveTo(header);
  llvm::PHINode *i = builder.CreatePHI(count->getType(), 2);
  i->addIncoming(llvm::ConstantInt::get(count->getType(), 0), before);
  builder.CreateCondBr(builder.CreateICmpULT(i, count), round, done);
  moveTo(round);
  emitRound(i);
  i->addIncoming(builder.CreateAdd(i, llvm::ConstantInt::get(count->getType(), 1)), builder.GetInsertBlock());
  builder.CreateBr(header);
  moveTo(done);
}

void BodyEmitter::emitLoopBody(Operation *op, Region &body, llvm::BasicBlock *next) {
  scopes.push_back({Scope::Kind::Iteration, next});
  if (lanes > 1 && facts->divergentContinue.contains(op)) scopes.back().live = makeLive("live.iteration");
  emitBlock(body.front());
  scopes.pop_back();
  branchTo(next);
}

void BodyEmitter::emitWhile(ir::WhileOp op) {
  llvm::Value *before = mask;
  function->addFnAttr(kHasInnerLoops);
  bool divergent = isDivergent(op);
  llvm::BasicBlock *header = makeBlock("while"), *body = makeBlock("while.body"), *exit = makeBlock("while.end");
  scopes.push_back({Scope::Kind::Loop, exit});
  if (divergent) scopes.back().live = makeLive("live.loop");
  llvm::Value *live = scopes.back().live;
  continueAt(header);
  if (divergent) {
    // All lanes may have left: the condition must not be evaluated then.
    mask = loadMask(live);
    llvm::BasicBlock *test = makeBlock("while.test");
    builder.CreateCondBr(isAny(mask), test, exit);
    moveTo(test);
  }
  emitBlock(op.getConditionRegion().front());
  Component condition = getScalar(cast<ir::ConditionOp>(op.getConditionRegion().front().getTerminator()).getCondition());
  llvm::Value *isContinued = condition.value;
  if (divergent && condition.kind.isVarying()) {
    mask = builder.CreateAnd(mask, condition.value);
    builder.CreateStore(mask, live);
    isContinued = isAny(mask);
  } else if (!expectUniform(op, condition)) {
    isContinued = builder.getFalse();
  }
  builder.CreateCondBr(isContinued, body, exit);
  moveTo(body);
  // The loop may be endless.
  leaveIfCanceled();
  emitLoopBody(op, op.getBody(), header);
  scopes.pop_back();
  moveTo(exit);
  narrowAfter(op, before);
}

void BodyEmitter::leaveIfCanceled() {
  if (!module.traits.hasGrids) leaveIfFailed();
}

void BodyEmitter::leaveIfFailed() {
  auto leave = [&] {
    if (module.traits.hasGrids) return leaveFailed();
    llvm::CallInst *stops = callRuntime(kMustStop, {});
    // The call changes no memory that the kernel reads, so values loaded before a loop stay known in it.
    stops->setMemoryEffects(llvm::MemoryEffects::inaccessibleMemOnly());
    stops->addFnAttr(llvm::Attribute::Cold);
    emitWhen(builder.CreateIsNotNull(stops), "stop", leaveFailed);
  };
  emitWhen(builder.CreateIsNotNull(getContextField(kFailed)), "failed", leave, nullptr,
           llvm::MDBuilder(module.ctx).createUnlikelyBranchWeights());
}

void BodyEmitter::emitDeparture(Operation *op, Scope::Kind target) {
  bool divergent = isDivergent(op);
  for (Scope &scope : llvm::reverse(scopes)) {
    if (divergent && scope.live) builder.CreateStore(builder.CreateAnd(loadMask(scope.live), builder.CreateNot(getMask())), scope.live);
    if (scope.kind != target) continue;
    if (!divergent) builder.CreateBr(scope.exit);
    return;
  }
  module.reportError(op->getLoc()) << "stands outside of what it leaves";
}

} // namespace qd::codegen
