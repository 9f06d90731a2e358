// lane_builder.cpp: values of several lanes, masks, blocks and stack slots
//
// Everything that the emitters of operations share, and that knows nothing of the operations.
#include "codegen/llvm/lane_builder.h"

#include "llvm/IR/Constants.h"

using namespace mlir;

namespace qd::codegen {

LaneBuilder::LaneBuilder(ModuleEmitter &module, llvm::Function *function, unsigned lanes, const BodyFacts &facts)
    : module(module), function(function), lanes(lanes), manyLanes(lanes == 1 ? LaneKind::uniform() : LaneKind::varying()), facts(&facts),
      builder(module.ctx) {
  llvm::FastMathFlags flags;
  if (module.options.fastMath) {
    flags.setAllowReassoc();
    flags.setAllowContract();
    flags.setAllowReciprocal();
    flags.setApproxFunc();
  }
  builder.setFastMathFlags(flags);
  builder.SetInsertPoint(makeBlock("entry"));
}

//--- Lanes ---

void LaneBuilder::setLanes(unsigned count, const BodyFacts &of) {
  lanes = usedLanes = count;
  manyLanes = count == 1 ? LaneKind::uniform() : LaneKind::varying();
  facts = &of;
}

llvm::Type *LaneBuilder::widen(llvm::Type *scalar) const { return lanes == 1 ? scalar : llvm::FixedVectorType::get(scalar, lanes); }

llvm::Value *LaneBuilder::splat(llvm::Value *scalar) { return lanes == 1 ? scalar : builder.CreateVectorSplat(lanes, scalar); }

llvm::Value *LaneBuilder::toVector(const Component &component) {
  if (component.kind.isVarying()) return component.value;
  llvm::Value *vector = splat(component.value);
  if (component.kind.isUniform()) return vector;
  llvm::SmallVector<llvm::Constant *, 16> steps;
  for (unsigned lane = 0; lane < lanes; ++lane)
    steps.push_back(llvm::ConstantInt::get(component.value->getType(), uint64_t(component.kind.getStride()) * lane, /*IsSigned=*/true,
                                           /*ImplicitTrunc=*/true));
  return builder.CreateAdd(vector, llvm::ConstantVector::get(steps));
}

llvm::Value *LaneBuilder::getLane(const Component &component, llvm::Value *lane) {
  if (component.kind.isUniform()) return component.value;
  if (component.kind.isVarying()) return builder.CreateExtractElement(component.value, lane);
  llvm::Type *type = component.value->getType();
  llvm::Value *step = llvm::ConstantInt::get(type, uint64_t(component.kind.getStride()), true, true);
  return builder.CreateAdd(component.value, builder.CreateMul(builder.CreateIntCast(lane, type, false), step));
}

Component LaneBuilder::castIndex(const Component &component, Type from, llvm::Type *to) {
  bool isSigned = !from.isUnsignedInteger() && !from.isInteger(1);
  unsigned fromBits = from.getIntOrFloatBitWidth(), toBits = to->getIntegerBitWidth();
  // An unsigned index may wrap between lanes (i - 1); a wider base would not.
  if (component.kind.isVarying() || (!component.kind.isUniform() && !isSigned && toBits > fromBits))
    return {builder.CreateIntCast(toVector(component), widen(to), isSigned), LaneKind::varying()};
  return {builder.CreateIntCast(component.value, to, isSigned), component.kind};
}

//--- Masks ---

llvm::Value *LaneBuilder::getMask() { return mask ? mask : llvm::Constant::getAllOnesValue(widen(builder.getInt1Ty())); }

llvm::Value *LaneBuilder::isAny(llvm::Value *lanesMask) {
  if (lanes == 1) return lanesMask;
  return builder.CreateIsNotNull(builder.CreateBitCast(lanesMask, builder.getIntNTy(lanes)));
}

llvm::Value *LaneBuilder::isAll(llvm::Value *lanesMask) {
  llvm::Type *bits = builder.getIntNTy(lanes);
  return builder.CreateICmpEQ(builder.CreateBitCast(lanesMask, bits), llvm::Constant::getAllOnesValue(bits));
}

/// The mask as the low bits of an i32.
static llvm::Value *getBits(llvm::IRBuilder<> &builder, llvm::Value *lanesMask, unsigned lanes) {
  return builder.CreateZExt(builder.CreateBitCast(lanesMask, builder.getIntNTy(lanes)), builder.getInt32Ty());
}

// The lane is within bounds even for an empty mask, whose result is unused.
llvm::Value *LaneBuilder::getFirstLane(llvm::Value *lanesMask) {
  llvm::Value *lane = builder.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, getBits(builder, lanesMask, lanes), builder.getFalse());
  return builder.CreateAnd(lane, builder.getInt32(lanes - 1));
}

llvm::Value *LaneBuilder::getLastLane(llvm::Value *lanesMask) {
  llvm::Value *zeros = builder.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, getBits(builder, lanesMask, lanes), builder.getFalse());
  return builder.CreateAnd(builder.CreateSub(builder.getInt32(31), zeros), builder.getInt32(lanes - 1));
}

llvm::Value *LaneBuilder::countActive(llvm::Value *lanesMask, unsigned count) {
  return builder.CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, getBits(builder, lanesMask, count));
}

void LaneBuilder::forEachActiveLane(llvm::function_ref<void(llvm::Value *)> body) {
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

//--- Blocks ---

void LaneBuilder::branchTo(llvm::BasicBlock *target) {
  if (!isTerminated()) builder.CreateBr(target);
}

void LaneBuilder::continueAt(llvm::BasicBlock *target) {
  branchTo(target);
  moveTo(target);
}

void LaneBuilder::emitWhen(llvm::Value *condition, const llvm::Twine &name, llvm::function_ref<void()> body,
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

llvm::Instruction *LaneBuilder::emitCountedLoop(llvm::Value *count, llvm::function_ref<void(llvm::Value *i)> emitRound) {
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
  llvm::Instruction *back = builder.CreateBr(header);
  moveTo(done);
  return back;
}

void LaneBuilder::setUnrolling(llvm::Instruction *back, unsigned rounds) {
  auto name = [&](llvm::StringRef text) { return llvm::MDString::get(module.ctx, text); };
  llvm::MDNode *hint =
      rounds == 1 || rounds == kAllRounds
          ? llvm::MDNode::get(module.ctx, name(rounds == 1 ? "llvm.loop.unroll.disable" : "llvm.loop.unroll.full"))
          : llvm::MDNode::get(module.ctx, {name("llvm.loop.unroll.count"), llvm::ConstantAsMetadata::get(builder.getInt32(rounds))});
  llvm::MDNode *hints = llvm::MDNode::getDistinct(module.ctx, {nullptr, hint});
  hints->replaceOperandWith(0, hints);
  back->setMetadata(llvm::LLVMContext::MD_loop, hints);
}

//--- Memory ---

llvm::AllocaInst *LaneBuilder::makeSlot(llvm::Type *type, llvm::StringRef name) {
  llvm::IRBuilder<>::InsertPointGuard guard(builder);
  llvm::BasicBlock &entry = function->getEntryBlock();
  builder.SetInsertPoint(&entry, entry.begin());
  return builder.CreateAlloca(type, module.spaces.local, nullptr, name);
}

llvm::LoadInst *LaneBuilder::loadInvariant(llvm::Type *type, llvm::Value *pointer, llvm::Align align) {
  llvm::LoadInst *load = builder.CreateAlignedLoad(type, pointer, align);
  load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(module.ctx, {}));
  return load;
}

} // namespace qd::codegen
