// atomics.cpp: atomic updates of places
//
// Locals and private copies are updated plainly. One address in memory for all lanes takes one atomic operation, after the lanes are
// combined in a fixed order (unless somebody wants the old values); different addresses are updated lane by lane.
#include "codegen/llvm/body.h"

#include "llvm/IR/Constants.h"

using namespace mlir;

namespace qd::codegen {

llvm::Value *BodyEmitter::emitAtomicCombine(ir::AtomicKind kind, Type type, llvm::Value *old, llvm::Value *value) {
  using A = ir::AtomicKind;
  using B = ir::BinaryKind;
  switch (kind) {
  case A::add: return emitBinary(B::add, type, type, old, value);
  case A::sub: return emitBinary(B::sub, type, type, old, value);
  case A::mul: return emitBinary(B::mul, type, type, old, value);
  case A::min: return emitBinary(B::min, type, type, old, value);
  case A::max: return emitBinary(B::max, type, type, old, value);
  case A::bit_and: return emitBinary(B::bit_and, type, type, old, value);
  case A::bit_or: return emitBinary(B::bit_or, type, type, old, value);
  case A::bit_xor: return emitBinary(B::bit_xor, type, type, old, value);
  case A::exchange: return value;
  }
  llvm_unreachable("all rows of builtins.def are listed");
}

llvm::Constant *BodyEmitter::getIdentity(ir::AtomicKind kind, Type type) {
  llvm::Type *llvmType = module.getType(type);
  bool isFloat = isa<FloatType>(type), isSigned = type.isSignedInteger();
  unsigned bits = type.getIntOrFloatBitWidth();
  switch (kind) {
  case ir::AtomicKind::mul: return isFloat ? llvm::ConstantFP::get(llvmType, 1.0) : llvm::ConstantInt::get(llvmType, 1);
  case ir::AtomicKind::min:
    if (isFloat) return llvm::ConstantFP::getInfinity(llvmType);
    return llvm::ConstantInt::get(llvmType, isSigned ? llvm::APInt::getSignedMaxValue(bits) : llvm::APInt::getMaxValue(bits));
  case ir::AtomicKind::max:
    if (isFloat) return llvm::ConstantFP::getInfinity(llvmType, /*Negative=*/true);
    return llvm::ConstantInt::get(llvmType, isSigned ? llvm::APInt::getSignedMinValue(bits) : llvm::APInt::getMinValue(bits));
  case ir::AtomicKind::bit_and: return llvm::Constant::getAllOnesValue(llvmType);
  case ir::AtomicKind::add:
    // -0 and not 0: -0 + -0 is -0.
    return isFloat ? llvm::ConstantFP::getNegativeZero(llvmType) : llvm::Constant::getNullValue(llvmType);
  default: return llvm::Constant::getNullValue(llvmType);
  }
}

llvm::Value *BodyEmitter::reduceLanes(ir::AtomicKind kind, Type type, llvm::Value *vector) {
  if (lanes == 1) return vector;
  // What was subtracted lane by lane is added up.
  if (kind == ir::AtomicKind::sub) kind = ir::AtomicKind::add;
  for (unsigned width = lanes / 2; width > 0; width /= 2) {
    llvm::SmallVector<int, 16> low, high;
    for (unsigned i = 0; i < width; ++i) {
      low.push_back(int(i));
      high.push_back(int(i + width));
    }
    vector = emitAtomicCombine(kind, type, builder.CreateShuffleVector(vector, low), builder.CreateShuffleVector(vector, high));
  }
  return builder.CreateExtractElement(vector, uint64_t(0));
}

/// What LLVM's own instruction does; BAD_BINOP where it has none.
static llvm::AtomicRMWInst::BinOp getInstruction(ir::AtomicKind kind, Type type) {
  using I = llvm::AtomicRMWInst;
  bool isFloat = isa<FloatType>(type), isSigned = type.isSignedInteger();
  if (type.isInteger(1)) return I::BAD_BINOP;
  switch (kind) {
  case ir::AtomicKind::add: return isFloat ? I::FAdd : I::Add;
  case ir::AtomicKind::sub: return isFloat ? I::FSub : I::Sub;
  case ir::AtomicKind::min: return isFloat ? I::FMin : isSigned ? I::Min : I::UMin;
  case ir::AtomicKind::max: return isFloat ? I::FMax : isSigned ? I::Max : I::UMax;
  case ir::AtomicKind::bit_and: return I::And;
  case ir::AtomicKind::bit_or: return I::Or;
  case ir::AtomicKind::bit_xor: return I::Xor;
  case ir::AtomicKind::exchange: return I::Xchg;
  default: return I::BAD_BINOP;
  }
}

llvm::Value *BodyEmitter::emitAtomicAt(ir::AtomicKind kind, Type type, llvm::Value *pointer, llvm::Value *value, const Place &place) {
  llvm::Type *memoryType = module.getMemoryType(type);
  llvm::Align align(uint64_t(module.getByteSize(type)));
  if (place.isPrivate) {
    llvm::Value *old = fromMemory(type, builder.CreateAlignedLoad(memoryType, pointer, align));
    builder.CreateAlignedStore(toMemory(type, emitAtomicCombine(kind, type, old, value)), pointer, align);
    return old;
  }
  llvm::AtomicRMWInst::BinOp instruction = getInstruction(kind, type);
  if (instruction != llvm::AtomicRMWInst::BAD_BINOP)
    return builder.CreateAtomicRMW(instruction, pointer, value, align, llvm::AtomicOrdering::Monotonic);
  // Compute, and try again when somebody else was faster.
  llvm::Type *bits = builder.getIntNTy(unsigned(memoryType->getPrimitiveSizeInBits()));
  llvm::Value *first = builder.CreateAlignedLoad(bits, pointer, align);
  llvm::BasicBlock *before = builder.GetInsertBlock(), *again = makeBlock("atomic"), *done = makeBlock("atomic.end");
  builder.CreateBr(again);
  moveTo(again);
  llvm::PHINode *seen = builder.CreatePHI(bits, 2);
  llvm::Value *old = fromMemory(type, builder.CreateBitCast(seen, memoryType));
  llvm::Value *next = builder.CreateBitCast(toMemory(type, emitAtomicCombine(kind, type, old, value)), bits);
  llvm::Value *pair =
      builder.CreateAtomicCmpXchg(pointer, seen, next, align, llvm::AtomicOrdering::Monotonic, llvm::AtomicOrdering::Monotonic);
  seen->addIncoming(first, before);
  seen->addIncoming(builder.CreateExtractValue(pair, 0), builder.GetInsertBlock());
  builder.CreateCondBr(builder.CreateExtractValue(pair, 1), done, again);
  moveTo(done);
  return old;
}

Component BodyEmitter::emitAtomicScalar(ir::AtomicOp op, const Place &place, Type type, const Component &value) {
  ir::AtomicKind kind = op.getAtomicKind();
  bool wantsOld = !op.getResult().use_empty();
  if (lanes == 1) return {emitAtomicAt(kind, type, place.base, value.value, place)};
  if (place.lanes.isUniform() && !wantsOld) {
    llvm::Value *all = toVector(value);
    if (kind == ir::AtomicKind::exchange) {
      all = builder.CreateExtractElement(all, getLastLane(getMask()));
    } else {
      if (mask) all = builder.CreateSelect(mask, all, splat(getIdentity(kind == ir::AtomicKind::sub ? ir::AtomicKind::add : kind, type)));
      all = reduceLanes(kind, type, all);
    }
    emitAtomicAt(kind, type, place.base, all, place);
    return {llvm::PoisonValue::get(widen(module.getType(type))), LaneKind::varying()};
  }
  llvm::Type *resultType = widen(module.getType(type));
  llvm::Value *slot = wantsOld ? makeSlot(resultType, "old") : nullptr;
  if (slot) builder.CreateStore(llvm::Constant::getNullValue(resultType), slot);
  llvm::Value *offsets = place.lanes.isVarying() ? place.offsets : nullptr;
  auto updateLane = [&](llvm::Value *lane) {
    llvm::Value *offset =
        offsets ? builder.CreateExtractElement(offsets, lane)
                : builder.CreateMul(builder.CreateZExt(lane, builder.getInt64Ty()), builder.getInt64(uint64_t(place.lanes.getStride())));
    llvm::Value *pointer = builder.CreateGEP(builder.getInt8Ty(), place.base, offset);
    llvm::Value *old = emitAtomicAt(kind, type, pointer, getLane(value, lane), place);
    if (slot) builder.CreateStore(builder.CreateInsertElement(builder.CreateLoad(resultType, slot), old, lane), slot);
  };
  if (!mask)
    forEachActiveLane(updateLane);
  else
    forEachSetLane(mask, updateLane);
  if (!slot) return {llvm::PoisonValue::get(resultType), LaneKind::varying()};
  return {builder.CreateLoad(resultType, slot), LaneKind::varying()};
}

/// A loop over the lanes of a mask: smaller than one branch for each lane.
void BodyEmitter::forEachSetLane(llvm::Value *lanesMask, llvm::function_ref<void(llvm::Value *)> body) {
  llvm::Type *bitsType = builder.getInt32Ty();
  llvm::Value *bits = builder.CreateZExt(builder.CreateBitCast(lanesMask, builder.getIntNTy(lanes)), bitsType);
  llvm::BasicBlock *before = builder.GetInsertBlock(), *loop = makeBlock("lanes"), *done = makeBlock("lanes.end");
  builder.CreateCondBr(builder.CreateIsNotNull(bits), loop, done);
  moveTo(loop);
  llvm::PHINode *rest = builder.CreatePHI(bitsType, 2);
  rest->addIncoming(bits, before);
  llvm::Value *lane = builder.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, rest, builder.getFalse());
  body(builder.CreateAnd(lane, builder.getInt32(lanes - 1)));
  llvm::Value *next = builder.CreateAnd(rest, builder.CreateSub(rest, builder.getInt32(1)));
  rest->addIncoming(next, builder.GetInsertBlock());
  builder.CreateCondBr(builder.CreateIsNotNull(next), loop, done);
  moveTo(done);
}

Components BodyEmitter::emitAtomic(ir::AtomicOp op) {
  Place place = getPlace(op.getRef());
  Components value = getValue(op.getValue());
  Type scalar = ir::getScalar(place.pointee);
  Components result;
  if (place.local) {
    Components old = load(place), next;
    for (auto [a, b] : llvm::zip(old, value)) {
      if (a.kind.isUniform() && b.kind.isUniform())
        next.push_back({emitAtomicCombine(op.getAtomicKind(), scalar, a.value, b.value)});
      else
        next.push_back(makeVarying(emitAtomicCombine(op.getAtomicKind(), scalar, toVector(a), toVector(b))));
    }
    // Accumulators stand outside of the loop whose lanes the mask tells apart.
    store(place, next, place.isPrivate || facts->divergent.contains(op));
    return old;
  }
  for (auto [i, component] : llvm::enumerate(value)) {
    Place part = place;
    if (i > 0) part.base = builder.CreateConstGEP1_64(builder.getInt8Ty(), place.base, uint64_t(int64_t(i) * place.componentStride));
    result.push_back(emitAtomicScalar(op, part, scalar, component));
  }
  return result;
}

Component BodyEmitter::emitCompareExchange(ir::CompareExchangeOp op) {
  Place place = getPlace(op.getRef());
  Component expected = getScalar(op.getExpected()), value = getScalar(op.getValue());
  Type type = op.getType();
  if (place.local) {
    Component old = load(place)[0];
    bool uniform = old.kind.isUniform() && expected.kind.isUniform() && value.kind.isUniform();
    auto as = [&](const Component &component) { return uniform ? component.value : toVector(component); };
    llvm::Value *isSame = emitBinary(ir::BinaryKind::eq, type, type, as(old), as(expected));
    llvm::Value *next = builder.CreateSelect(isSame, as(value), as(old));
    store(place, {{next, uniform ? LaneKind::uniform() : LaneKind::varying()}}, facts->divergent.contains(op));
    return uniform ? old : makeVarying(toVector(old));
  }
  llvm::Type *memoryType = module.getMemoryType(type);
  llvm::Type *bits = builder.getIntNTy(unsigned(memoryType->getPrimitiveSizeInBits()));
  llvm::Align align(uint64_t(module.getByteSize(type)));
  auto exchange = [&](llvm::Value *pointer, llvm::Value *wanted, llvm::Value *stored) {
    llvm::Value *pair = builder.CreateAtomicCmpXchg(
        pointer, builder.CreateBitCast(toMemory(type, wanted), bits), builder.CreateBitCast(toMemory(type, stored), bits), align,
        llvm::AtomicOrdering::SequentiallyConsistent, llvm::AtomicOrdering::SequentiallyConsistent);
    return fromMemory(type, builder.CreateBitCast(builder.CreateExtractValue(pair, 0), memoryType));
  };
  if (lanes == 1) return {exchange(place.base, expected.value, value.value)};
  llvm::Type *resultType = widen(module.getType(type));
  llvm::Value *slot = makeSlot(resultType, "old");
  builder.CreateStore(llvm::Constant::getNullValue(resultType), slot);
  llvm::Value *pointers = getPointers(place, 0);
  forEachActiveLane([&](llvm::Value *lane) {
    llvm::Value *old = exchange(builder.CreateExtractElement(pointers, lane), getLane(expected, lane), getLane(value, lane));
    builder.CreateStore(builder.CreateInsertElement(builder.CreateLoad(resultType, slot), old, lane), slot);
  });
  return {builder.CreateLoad(resultType, slot), LaneKind::varying()};
}

} // namespace qd::codegen
