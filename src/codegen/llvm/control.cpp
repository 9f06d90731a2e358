// control.cpp: structured control flow, uniform or under masks
//
// Uniform control flow becomes branches. Where lanes differ, both sides of an `if` run in turn, each under its mask, and a loop runs until
// no lane wants more. Lanes that leave a scope early (break, continue, return) are struck from the `live` masks of the scopes that they
// leave; after the construct in which that happened the mask is narrowed to the live lanes of the innermost scope (narrowAfter).
#include "codegen/llvm/body.h"

#include "llvm/IR/Constants.h"

using namespace mlir;

namespace qd::codegen {

/// Components that a region may compute under an empty mask before it is cheaper to jump over it.
constexpr int64_t kCheapComponents = 12;

//--- Masks ---

llvm::BasicBlock *BodyEmitter::makeBlock(const llvm::Twine &name) { return llvm::BasicBlock::Create(module.ctx, name, function); }

void BodyEmitter::branchTo(llvm::BasicBlock *target) {
  if (!isTerminated()) builder.CreateBr(target);
}

llvm::Value *BodyEmitter::getMask() { return mask ? mask : llvm::Constant::getAllOnesValue(widen(builder.getInt1Ty())); }

llvm::Value *BodyEmitter::isAny(llvm::Value *lanesMask) {
  if (lanes == 1) return lanesMask;
  return builder.CreateIsNotNull(builder.CreateBitCast(lanesMask, builder.getIntNTy(lanes)));
}

llvm::Value *BodyEmitter::getFirstLane(llvm::Value *lanesMask) {
  llvm::Value *bits = builder.CreateBitCast(lanesMask, builder.getIntNTy(lanes));
  llvm::Value *lane =
      builder.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, builder.CreateZExt(bits, builder.getInt32Ty()), builder.getFalse());
  // Within bounds even for an empty mask, whose result nobody uses.
  return builder.CreateAnd(lane, builder.getInt32(lanes - 1));
}

llvm::Value *BodyEmitter::getLastLane(llvm::Value *lanesMask) {
  llvm::Value *bits = builder.CreateZExt(builder.CreateBitCast(lanesMask, builder.getIntNTy(lanes)), builder.getInt32Ty());
  llvm::Value *zeros = builder.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, bits, builder.getFalse());
  return builder.CreateAnd(builder.CreateSub(builder.getInt32(31), zeros), builder.getInt32(lanes - 1));
}

void BodyEmitter::forEachActiveLane(llvm::function_ref<void(llvm::Value *)> body) {
  for (unsigned lane = 0; lane < lanes; ++lane) {
    llvm::BasicBlock *next = nullptr;
    if (mask) {
      llvm::BasicBlock *active = makeBlock("lane");
      next = makeBlock("lane.next");
      builder.CreateCondBr(builder.CreateExtractElement(mask, uint64_t(lane)), active, next);
      moveTo(active);
    }
    body(builder.getInt32(lane));
    if (next) {
      branchTo(next);
      moveTo(next);
    }
  }
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
      llvm::Value *live = builder.CreateLoad(widen(builder.getInt1Ty()), scope.live);
      mask = before ? builder.CreateAnd(before, live) : live;
      return;
    }
    if (scope.kind == Scope::Kind::Function) return;
  }
}

//--- Ifs ---

/// Whether the region can run with no active lane: only arithmetic and locals, and little of that.
bool BodyEmitter::isCheap(Region &region) {
  if (region.empty()) return true;
  int64_t cost = 0;
  for (Operation &op : region.front()) {
    if (auto unary = dyn_cast<ir::UnaryOp>(op)) {
      using K = ir::UnaryKind;
      if (!llvm::is_contained({K::neg, K::abs, K::bit_not, K::logical_not, K::floor, K::ceil, K::isnan, K::isinf}, unary.getUnaryKind()))
        return false;
    } else if (auto binary = dyn_cast<ir::BinaryOp>(op)) {
      using K = ir::BinaryKind;
      if (llvm::is_contained({K::div, K::floor_div, K::mod, K::raw_div, K::raw_mod, K::pow, K::atan2}, binary.getBinaryKind()))
        return false;
    } else if (isa<ir::LoadOp, ir::StoreOp>(op)) {
      Value ref = op.getOperand(op.getNumOperands() - 1);
      auto place = places.find(ref);
      if (place == places.end() || !place->second.local || place->second.chosen.value) return false;
    } else if (!isa<ir::ConstantOp, ir::CastOp, ir::BitCastOp, ir::SelectOp, ir::VectorOp, ir::BroadcastOp, ir::ExtractOp, ir::YieldOp,
                    ir::BreakOp, ir::ContinueOp>(op)) {
      return false;
    }
    if (op.getNumResults() && !isa<ir::ConstantOp, ir::VectorOp, ir::ExtractOp, ir::BroadcastOp, ir::LoadOp>(op))
      cost += ir::getComponentCount(op.getResult(0).getType());
  }
  return cost <= kCheapComponents;
}

LogicalResult BodyEmitter::emitMasked(llvm::Value *condition, Region &region) {
  if (region.empty() || region.front().empty() || isa<ir::YieldOp>(region.front().front())) return success();
  llvm::Value *before = mask;
  mask = before ? builder.CreateAnd(before, condition) : condition;
  llvm::BasicBlock *join = nullptr;
  if (!isCheap(region)) {
    llvm::BasicBlock *body = makeBlock("masked");
    join = makeBlock("masked.end");
    builder.CreateCondBr(isAny(mask), body, join);
    moveTo(body);
  }
  if (failed(emitBlock(region.front()))) return failure();
  if (join) {
    branchTo(join);
    moveTo(join);
  }
  mask = before;
  return success();
}

LogicalResult BodyEmitter::emitIf(ir::IfOp op) {
  Component condition = getScalar(op.getCondition());
  llvm::Value *before = mask;
  if (lanes > 1 && facts->divergent.contains(op)) {
    llvm::Value *chooser = toVector(condition);
    if (failed(emitMasked(chooser, op.getThenRegion())) || failed(emitMasked(builder.CreateNot(chooser), op.getElseRegion())))
      return failure();
    narrowAfter(op, before);
    return success();
  }
  if (condition.kind.isVarying())
    return op.emitError(
        "the LLVM emitter found a condition that varies where the analysis says that it does not; this is a bug of the compiler");
  llvm::BasicBlock *thenBlock = makeBlock("then"), *join = makeBlock("if.end");
  llvm::BasicBlock *elseBlock = op.getElseRegion().empty() ? join : makeBlock("else");
  builder.CreateCondBr(condition.value, thenBlock, elseBlock);
  moveTo(thenBlock);
  if (failed(emitBlock(op.getThenRegion().front()))) return failure();
  branchTo(join);
  if (elseBlock != join) {
    mask = before;
    moveTo(elseBlock);
    if (failed(emitBlock(op.getElseRegion().front()))) return failure();
    branchTo(join);
  }
  moveTo(join);
  narrowAfter(op, before);
  return success();
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

LogicalResult BodyEmitter::emitLoopBody(Operation *op, Region &body, llvm::BasicBlock *next) {
  scopes.push_back({Scope::Kind::Iteration, next});
  if (lanes > 1 && facts->divergentContinue.contains(op)) scopes.back().live = makeLive("live.iteration");
  if (failed(emitBlock(body.front()))) return failure();
  scopes.pop_back();
  branchTo(next);
  return success();
}

LogicalResult BodyEmitter::emitFor(ir::ForOp op) {
  llvm::Value *before = mask;
  llvm::BasicBlock *exit = makeBlock("for.end");
  scopes.push_back({Scope::Kind::Loop, exit});
  if (lanes > 1 && facts->divergent.contains(op)) scopes.back().live = makeLive("live.loop");
  if (failed(emitForAxis(op, 0, exit))) return failure();
  scopes.pop_back();
  moveTo(exit);
  narrowAfter(op, before);
  return success();
}

LogicalResult BodyEmitter::emitForAxis(ir::ForOp op, unsigned axis, llvm::BasicBlock *done) {
  Type type = op.getLower()[axis].getType();
  llvm::Type *llvmType = module.getType(type);
  Component lower = getScalar(op.getLower()[axis]), upper = getScalar(op.getUpper()[axis]);
  Component step = op.getStep().empty() ? Component{llvm::ConstantInt::get(llvmType, 1)} : getScalar(op.getStep()[axis]);
  LaneKind kind = step.kind.isUniform() ? lower.kind : LaneKind::varying();
  bool uniformTest = lower.kind.isUniform() && upper.kind.isUniform() && step.kind.isUniform();
  auto asKind = [&](const Component &component) { return kind.isVarying() ? toVector(component) : component.value; };
  llvm::Type *slotType = kind.isVarying() ? widen(llvmType) : llvmType;
  llvm::Value *slot = makeSlot(slotType, "index");
  builder.CreateStore(asKind(lower), slot);
  llvm::Value *live = scopes.back().live, *before = mask;

  llvm::BasicBlock *header = makeBlock("for"), *body = makeBlock("for.body"), *latch = makeBlock("for.next");
  builder.CreateBr(header);
  moveTo(header);
  Component index = {builder.CreateLoad(slotType, slot), kind};
  if (live) {
    llvm::Value *alive = builder.CreateLoad(widen(builder.getInt1Ty()), live);
    mask = axis > 0 && before ? builder.CreateAnd(before, alive) : alive;
  }
  // A step that is no constant may go either way.
  auto constantStep = dyn_cast<llvm::ConstantInt>(step.value);
  auto test = [&](llvm::Value *at, llvm::Value *end, llvm::Value *by) {
    llvm::Value *isBelow = emitBinary(ir::BinaryKind::lt, type, type, at, end);
    if (constantStep && (type.isUnsignedInteger() || !constantStep->isNegative())) return isBelow;
    llvm::Value *isAbove = emitBinary(ir::BinaryKind::gt, type, type, at, end);
    if (constantStep) return isAbove;
    return builder.CreateSelect(builder.CreateICmpSLT(by, llvm::Constant::getNullValue(by->getType())), isAbove, isBelow);
  };
  if (uniformTest) {
    llvm::Value *goesOn = test(index.value, upper.value, step.value);
    builder.CreateCondBr(live ? builder.CreateAnd(goesOn, isAny(mask)) : goesOn, body, done);
  } else {
    mask = builder.CreateAnd(getMask(), test(toVector(index), toVector(upper), toVector(step)));
    builder.CreateCondBr(isAny(mask), body, done);
  }
  moveTo(body);
  setValue(op.getBody().getArgument(axis), {index});
  // Serial code may run long, and someone may press Ctrl-C.
  if (lanes == 1 && axis == 0 && scopes.size() == 1) leaveIfFailed();
  if (axis + 1 == op.getRank()) {
    if (failed(emitLoopBody(op, op.getBody(), latch))) return failure();
  } else if (failed(emitForAxis(op, axis + 1, latch))) {
    return failure();
  }
  moveTo(latch);
  llvm::Value *by = asKind(step), *next = builder.CreateAdd(index.value, by);
  // With a longer step the next index may not be representable: then the loop ends at its bound.
  if (!(constantStep && (constantStep->isOne() || constantStep->isMinusOne())) && (uniformTest || kind.isVarying())) {
    llvm::Value *end = asKind(upper);
    llvm::Value *isDown = builder.CreateICmpSLT(by, llvm::Constant::getNullValue(by->getType()));
    if (type.isUnsignedInteger()) isDown = llvm::Constant::getNullValue(isDown->getType());
    llvm::Value *distance = builder.CreateSelect(isDown, builder.CreateSub(index.value, end), builder.CreateSub(end, index.value));
    llvm::Value *length = builder.CreateSelect(isDown, builder.CreateNeg(by), by);
    next = builder.CreateSelect(builder.CreateICmpULE(distance, length), end, next);
  }
  builder.CreateStore(next, slot);
  builder.CreateBr(header);
  mask = before;
  return success();
}

LogicalResult BodyEmitter::emitWhile(ir::WhileOp op) {
  llvm::Value *before = mask;
  bool divergent = lanes > 1 && facts->divergent.contains(op);
  llvm::BasicBlock *header = makeBlock("while"), *body = makeBlock("while.body"), *exit = makeBlock("while.end");
  scopes.push_back({Scope::Kind::Loop, exit});
  if (divergent) scopes.back().live = makeLive("live.loop");
  llvm::Value *live = scopes.back().live;
  builder.CreateBr(header);
  moveTo(header);
  if (divergent) {
    // All lanes may have left: then the condition must not be computed again.
    mask = builder.CreateLoad(widen(builder.getInt1Ty()), live);
    llvm::BasicBlock *test = makeBlock("while.test");
    builder.CreateCondBr(isAny(mask), test, exit);
    moveTo(test);
  }
  if (failed(emitBlock(op.getConditionRegion().front()))) return failure();
  Component condition = getScalar(cast<ir::ConditionOp>(op.getConditionRegion().front().getTerminator()).getCondition());
  if (condition.kind.isUniform()) {
    builder.CreateCondBr(condition.value, body, exit);
  } else if (!divergent) {
    return op.emitError(
        "the LLVM emitter found a condition that varies where the analysis says that it does not; this is a bug of the compiler");
  } else {
    mask = builder.CreateAnd(mask, toVector(condition));
    builder.CreateStore(mask, live);
    builder.CreateCondBr(isAny(mask), body, exit);
  }
  moveTo(body);
  // It may never end by itself.
  leaveIfFailed();
  if (failed(emitLoopBody(op, op.getBody(), header))) return failure();
  scopes.pop_back();
  moveTo(exit);
  narrowAfter(op, before);
  return success();
}

void BodyEmitter::leaveIfFailed() {
  llvm::BasicBlock *stop = makeBlock("failed"), *next = makeBlock("passed");
  builder.CreateCondBr(builder.CreateIsNotNull(getContextField(kFailed)), stop, next);
  moveTo(stop);
  leaveFailed();
  moveTo(next);
}

void BodyEmitter::emitDeparture(Operation *op, Scope::Kind target) {
  bool divergent = lanes > 1 && facts->divergent.contains(op);
  for (Scope &scope : llvm::reverse(scopes)) {
    if (divergent && scope.live) {
      llvm::Value *live = builder.CreateLoad(widen(builder.getInt1Ty()), scope.live);
      builder.CreateStore(builder.CreateAnd(live, builder.CreateNot(getMask())), scope.live);
    }
    if (scope.kind != target) continue;
    if (!divergent) builder.CreateBr(scope.exit);
    return;
  }
  op->emitError("stands outside of what it leaves");
  module.hasFailed = true;
}

} // namespace qd::codegen
