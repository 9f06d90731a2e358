// atomics.cpp: atomic updates of places
//
// Locals and private copies are updated plainly. One address in memory for all lanes takes one atomic operation, after the lanes are
// combined in a fixed order (unless somebody wants the old values); different addresses are updated lane by lane.
#include "codegen/llvm/body.h"

#include "llvm/IR/Constants.h"
#include "llvm/Transforms/Utils/LoopUtils.h"

using namespace mlir;

namespace qd::codegen {

namespace {

/// What LLVM has for a row of builtins.def, for one class of types: its own instruction (BAD_BINOP: none), and the reduction of a vector.
struct AtomicRule {
  llvm::AtomicRMWInst::BinOp instruction = llvm::AtomicRMWInst::BAD_BINOP;
  llvm::Intrinsic::ID reduction = llvm::Intrinsic::not_intrinsic;
};

AtomicRule getRule(ir::AtomicKind kind, Type type) {
  using I = llvm::AtomicRMWInst;
  namespace R = llvm::Intrinsic;
  // Floats, signed integers, unsigned integers; in the order of builtins.def.
  static constexpr AtomicRule kRules[][3] = {
      /* add */ {{I::FAdd, R::vector_reduce_fadd}, {I::Add, R::vector_reduce_add}, {I::Add, R::vector_reduce_add}},
      /* sub */ {{I::FSub, R::vector_reduce_fadd}, {I::Sub, R::vector_reduce_add}, {I::Sub, R::vector_reduce_add}},
      /* mul */ {{I::BAD_BINOP, R::vector_reduce_fmul}, {I::BAD_BINOP, R::vector_reduce_mul}, {I::BAD_BINOP, R::vector_reduce_mul}},
      /* min */ {{I::FMin, R::vector_reduce_fmin}, {I::Min, R::vector_reduce_smin}, {I::UMin, R::vector_reduce_umin}},
      /* max */ {{I::FMax, R::vector_reduce_fmax}, {I::Max, R::vector_reduce_smax}, {I::UMax, R::vector_reduce_umax}},
      /* bit_and */ {{}, {I::And, R::vector_reduce_and}, {I::And, R::vector_reduce_and}},
      /* bit_or */ {{}, {I::Or, R::vector_reduce_or}, {I::Or, R::vector_reduce_or}},
      /* bit_xor */ {{}, {I::Xor, R::vector_reduce_xor}, {I::Xor, R::vector_reduce_xor}},
      /* exchange */ {{I::Xchg}, {I::Xchg}, {I::Xchg}},
  };
  return kRules[size_t(kind)][isa<FloatType>(type) ? 0 : type.isSignedInteger() ? 1 : 2];
}

} // namespace

llvm::Value *BodyEmitter::emitAtomicCombine(ir::AtomicKind kind, Type type, llvm::Value *old, llvm::Value *value) {
  std::optional<ir::BinaryKind> binary = ir::findKind<ir::BinaryKind>(ir::getRow(kind).name);
  return binary ? emitBinary(*binary, type, type, old, value) : value;
}

Components BodyEmitter::combineAll(ir::AtomicKind kind, Type type, const Components &old, const Components &value) {
  Components next;
  for (auto [a, b] : llvm::zip(old, value)) {
    if (a.kind.isUniform() && b.kind.isUniform())
      next.push_back({emitAtomicCombine(kind, type, a.value, b.value)});
    else
      next.push_back(makeVarying(emitAtomicCombine(kind, type, toVector(a), toVector(b))));
  }
  return next;
}

llvm::Constant *BodyEmitter::getIdentity(ir::AtomicKind kind, Type type) {
  // Infinities and no NaN for min and max.
  llvm::FastMathFlags flags;
  flags.setNoNaNs();
  return cast<llvm::Constant>(llvm::getReductionIdentity(getRule(kind, type).reduction, module.getType(type), flags));
}

llvm::Value *BodyEmitter::reduceLanes(ir::AtomicKind kind, Type type, llvm::Value *vector) {
  if (lanes == 1) return vector;
  // What was subtracted lane by lane is added up.
  if (kind == ir::AtomicKind::sub) kind = ir::AtomicKind::add;
  for (unsigned width = lanes / 2; width > 0; width /= 2) {
    auto *half = llvm::FixedVectorType::get(module.getType(type), width);
    vector = emitAtomicCombine(kind, type, builder.CreateExtractVector(half, vector, uint64_t(0)),
                               builder.CreateExtractVector(half, vector, uint64_t(width)));
  }
  return builder.CreateExtractElement(vector, uint64_t(0));
}

llvm::Value *BodyEmitter::emitAtomicAt(ir::AtomicKind kind, Type type, llvm::Value *pointer, llvm::Value *value, const Place &place) {
  llvm::Type *memoryType = module.getMemoryType(type);
  llvm::Align align(uint64_t(module.getByteSize(type)));
  if (place.isPrivate) {
    llvm::Value *old = fromMemory(type, builder.CreateAlignedLoad(memoryType, pointer, align));
    builder.CreateAlignedStore(toMemory(type, emitAtomicCombine(kind, type, old, value)), pointer, align);
    return old;
  }
  llvm::AtomicRMWInst::BinOp instruction = getRule(kind, type).instruction;
  if (instruction != llvm::AtomicRMWInst::BAD_BINOP && module.getMemoryType(type) == module.getType(type))
    return builder.CreateAtomicRMW(instruction, pointer, value, align, llvm::AtomicOrdering::Monotonic, module.atomicScope);
  // Compute, and try again when somebody else was faster.
  llvm::Type *bits = builder.getIntNTy(unsigned(memoryType->getPrimitiveSizeInBits()));
  llvm::Value *first = builder.CreateAlignedLoad(bits, pointer, align);
  llvm::BasicBlock *before = builder.GetInsertBlock(), *again = makeBlock("atomic"), *done = makeBlock("atomic.end");
  builder.CreateBr(again);
  moveTo(again);
  llvm::PHINode *seen = builder.CreatePHI(bits, 2);
  llvm::Value *old = fromMemory(type, builder.CreateBitCast(seen, memoryType));
  llvm::Value *next = builder.CreateBitCast(toMemory(type, emitAtomicCombine(kind, type, old, value)), bits);
  llvm::Value *pair = builder.CreateAtomicCmpXchg(pointer, seen, next, align, llvm::AtomicOrdering::Monotonic,
                                                  llvm::AtomicOrdering::Monotonic, module.atomicScope);
  seen->addIncoming(first, before);
  seen->addIncoming(builder.CreateExtractValue(pair, 0), builder.GetInsertBlock());
  builder.CreateCondBr(builder.CreateExtractValue(pair, 1), done, again);
  moveTo(done);
  return old;
}

/// Updates the places of all active lanes, one after the other. Gives the old values, where somebody wants them.
Component BodyEmitter::updateLanes(const Place &place, Type type, bool wantsOld,
                                   llvm::function_ref<llvm::Value *(llvm::Value *pointer, llvm::Value *lane)> update) {
  llvm::Type *resultType = widen(module.getType(type));
  llvm::Value *slot = wantsOld ? makeSlot(resultType, "old") : nullptr;
  if (slot) builder.CreateStore(llvm::Constant::getNullValue(resultType), slot);
  llvm::Value *offsets = place.lanes.isVarying() ? place.offsets : nullptr;
  forEachActiveLane([&](llvm::Value *lane) {
    llvm::Value *offset = offsets ? builder.CreateExtractElement(offsets, lane) : getLane({builder.getInt64(0), place.lanes}, lane);
    llvm::Value *old = update(builder.CreateGEP(builder.getInt8Ty(), place.base, offset), lane);
    if (slot) builder.CreateStore(builder.CreateInsertElement(builder.CreateLoad(resultType, slot), old, lane), slot);
  });
  return makeVarying(slot ? builder.CreateLoad(resultType, slot) : static_cast<llvm::Value *>(llvm::PoisonValue::get(resultType)));
}

Component BodyEmitter::emitAtomicScalar(ir::AtomicOp op, const Place &place, Type type, const Component &value) {
  ir::AtomicKind kind = op.getAtomicKind();
  bool wantsOld = !op.getResult().use_empty();
  if (lanes == 1) return {emitAtomicAt(kind, type, place.base, value.value, place)};
  if (!place.lanes.isUniform() || wantsOld)
    return updateLanes(place, type, wantsOld, [&](llvm::Value *pointer, llvm::Value *lane) {
      return emitAtomicAt(kind, type, pointer, getLane(value, lane), place);
    });
  llvm::Value *all = toVector(value);
  if (kind == ir::AtomicKind::exchange) {
    all = builder.CreateExtractElement(all, getLastLane(getMask()));
  } else {
    if (mask) all = builder.CreateSelect(mask, all, splat(getIdentity(kind, type)));
    all = reduceLanes(kind, type, all);
  }
  emitAtomicAt(kind, type, place.base, all, place);
  return makeVarying(llvm::PoisonValue::get(widen(module.getType(type))));
}

Components BodyEmitter::emitAtomic(ir::AtomicOp op) {
  Place place = getPlace(op.getRef());
  Components value = getValue(op.getValue());
  Type scalar = ir::getScalar(place.pointee);
  if (place.local) {
    Components old = load(place);
    // Accumulators stand outside of the loop whose lanes the mask tells apart.
    store(place, combineAll(op.getAtomicKind(), scalar, old, value), place.isPrivate || facts->divergent.contains(op));
    return old;
  }
  Components result;
  for (auto [i, component] : llvm::enumerate(value)) {
    Place part = place;
    if (i > 0) part.base = offsetBy(place.base, int64_t(i) * place.componentStride);
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
    store(place, {select(combine(ir::BinaryKind::eq, type, old, expected), value, old)}, facts->divergent.contains(op));
    return old;
  }
  llvm::Type *memoryType = module.getMemoryType(type);
  llvm::Type *bits = builder.getIntNTy(unsigned(memoryType->getPrimitiveSizeInBits()));
  auto exchange = [&](llvm::Value *pointer, llvm::Value *lane) {
    auto toBits = [&](const Component &part) {
      return builder.CreateBitCast(toMemory(type, lanes == 1 ? part.value : getLane(part, lane)), bits);
    };
    llvm::Value *wanted = toBits(expected), *stored = toBits(value);
    llvm::Value *pair = builder.CreateAtomicCmpXchg(pointer, wanted, stored, llvm::Align(uint64_t(module.getByteSize(type))),
                                                    llvm::AtomicOrdering::SequentiallyConsistent,
                                                    llvm::AtomicOrdering::SequentiallyConsistent, module.atomicScope);
    return fromMemory(type, builder.CreateBitCast(builder.CreateExtractValue(pair, 0), memoryType));
  };
  if (lanes == 1) return {exchange(place.base, nullptr)};
  return updateLanes(place, type, /*wantsOld=*/true, exchange);
}

} // namespace qd::codegen
