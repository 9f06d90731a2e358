// atomics.cpp: atomic updates of places
//
// Locals and private copies are updated without atomics. If all lanes update one address in memory, the lanes are combined in a fixed order
// and one atomic operation follows (unless the old values are used). Different addresses are updated lane by lane.
#include "codegen/llvm/body.h"

#include "llvm/IR/Constants.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/Transforms/Utils/LoopUtils.h"

using namespace mlir;

namespace qd::codegen {

namespace {

/// LLVM's counterparts of an entry of builtins.def for one class of types: the instruction (BAD_BINOP: none) and the vector reduction.
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
  std::optional<ir::BinaryKind> binary = ir::findKind<ir::BinaryKind>(ir::getOpInfo(kind).name);
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
  // Use infinities, not NaN, as the identities of min and max.
  llvm::FastMathFlags flags;
  flags.setNoNaNs();
  return cast<llvm::Constant>(llvm::getReductionIdentity(getRule(kind, type).reduction, module.getType(type), flags));
}

llvm::Value *BodyEmitter::reduceLanes(ir::AtomicKind kind, Type type, llvm::Value *vector) {
  if (lanes == 1) return vector;
  // The values that lanes subtracted must be added.
  if (kind == ir::AtomicKind::sub) kind = ir::AtomicKind::add;
  for (unsigned width = lanes / 2; width > 0; width /= 2) {
    auto *half = llvm::FixedVectorType::get(module.getType(type), width);
    vector = emitAtomicCombine(kind, type, builder.CreateExtractVector(half, vector, uint64_t(0)),
                               builder.CreateExtractVector(half, vector, uint64_t(width)));
  }
  return builder.CreateExtractElement(vector, uint64_t(0));
}

llvm::Value *BodyEmitter::isSingleThreaded() {
  if (singleThreaded) return singleThreaded;
  llvm::IRBuilder<>::InsertPointGuard guard(builder);
  llvm::BasicBlock &entry = function->getEntryBlock();
  auto *made = dyn_cast<llvm::Instruction>(context);
  builder.SetInsertPoint(&entry, made ? std::next(made->getIterator()) : entry.begin());
  return singleThreaded = builder.CreateIsNotNull(getContextField(kSingleThreaded), "single_threaded");
}

llvm::Value *BodyEmitter::emitUpdate(const Place &place, llvm::function_ref<llvm::Value *()> plain,
                                     llvm::function_ref<llvm::Value *()> atomic) {
  // The threads of a block run in turn on one thread of the processor.
  if (place.isPrivate || (place.isShared && !module.traits.hasGrids)) return plain();
  if (module.traits.hasGrids) return atomic();
  // A locked instruction takes some 20 cycles, even without contention.
  std::pair<llvm::Value *, llvm::BasicBlock *> outcomes[2];
  auto record = [&](int index, llvm::function_ref<llvm::Value *()> emit) {
    llvm::Value *old = emit();
    outcomes[index] = {old, builder.GetInsertBlock()};
  };
  emitWhen(isSingleThreaded(), "single_threaded", [&] { record(0, plain); }, [&] { record(1, atomic); });
  llvm::PHINode *old = builder.CreatePHI(outcomes[0].first->getType(), 2);
  for (auto [value, block] : outcomes) old->addIncoming(value, block);
  return old;
}

llvm::Value *BodyEmitter::emitAtomicAt(ir::AtomicKind kind, Type type, llvm::Value *pointer, llvm::Value *value, const Place &place) {
  llvm::Align align(uint64_t(module.getByteSize(type)));
  auto plain = [&] {
    llvm::Value *old = fromMemory(type, builder.CreateAlignedLoad(module.getMemoryType(type), pointer, align));
    builder.CreateAlignedStore(toMemory(type, emitAtomicCombine(kind, type, old, value)), pointer, align);
    return old;
  };
  return emitUpdate(place, plain, [&] { return emitLocked(kind, type, pointer, value); });
}

llvm::Value *BodyEmitter::emitLocked(ir::AtomicKind kind, Type type, llvm::Value *pointer, llvm::Value *value) {
  llvm::Type *memoryType = module.getMemoryType(type);
  llvm::Align align(uint64_t(module.getByteSize(type)));
  llvm::AtomicRMWInst::BinOp instruction = getRule(kind, type).instruction;
  if (instruction != llvm::AtomicRMWInst::BAD_BINOP && module.getMemoryType(type) == module.getType(type))
    return builder.CreateAtomicRMW(instruction, pointer, value, align, llvm::AtomicOrdering::Monotonic, module.atomicScope);
  // Compute, and try again if another thread was faster.
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

/// Updates the places of all active lanes, one after the other. Returns the old values if they are used.
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

/// Whether all threads add the same number to one place: a counter that assigns positions.
bool BodyEmitter::canAddOncePerWarp(ir::AtomicOp op, Type type) {
  auto loop = op->getParentOfType<ir::ForOp>();
  while (loop && !loop.getParallel()) loop = loop->getParentOfType<ir::ForOp>();
  auto element = op.getRef().getDefiningOp<ir::ElementOp>();
  bool isSum = op.getAtomicKind() == ir::AtomicKind::add || op.getAtomicKind() == ir::AtomicKind::sub;
  if (!module.traits.hasGrids || lanes > 1 || !loop || !element || !isSum || !type.isInteger() || type.getIntOrFloatBitWidth() < 32)
    return false;
  auto isSame = [&](Value operand) { return ir::findInteger(operand) || !loop.getBody().isAncestor(operand.getParentRegion()); };
  return llvm::all_of(element.getIndices(), isSame) && isSame(element.getTensor()) && isSame(op.getValue());
}

/// One thread of the warp adds for all active threads, and each gets the old value as if they had added in the order of their lanes.
llvm::Value *BodyEmitter::addOncePerWarp(ir::AtomicKind kind, const Place &place, llvm::Value *value) {
  namespace I = llvm::Intrinsic;
  llvm::Type *type = value->getType(), *word = builder.getInt32Ty();
  auto count = [&](llvm::Value *threads) {
    return builder.CreateIntCast(builder.CreateUnaryIntrinsic(I::ctpop, threads), type, /*isSigned=*/false);
  };
  if (kind == ir::AtomicKind::sub) value = builder.CreateNeg(value);
  llvm::Value *activeThreads = builder.CreateIntrinsic(word, I::nvvm_activemask, {});
  llvm::Value *before = builder.CreateAnd(activeThreads, builder.CreateIntrinsic(word, I::nvvm_read_ptx_sreg_lanemask_lt, {}));
  llvm::Value *first = builder.CreateBinaryIntrinsic(I::cttz, activeThreads, builder.getTrue());
  llvm::Value *slot = makeSlot(type, "counted");
  emitWhen(builder.CreateIsNull(before), "leader", [&] {
    builder.CreateStore(builder.CreateAtomicRMW(llvm::AtomicRMWInst::Add, place.base, builder.CreateMul(count(activeThreads), value),
                                                llvm::Align(type->getIntegerBitWidth() / 8), llvm::AtomicOrdering::Monotonic,
                                                module.atomicScope),
                        slot);
  });
  llvm::Value *old = builder.CreateLoad(type, slot), *start = llvm::ConstantInt::get(type, 0);
  for (unsigned bit = 0; bit < type->getIntegerBitWidth(); bit += 32) {
    llvm::Value *part = builder.CreateTrunc(builder.CreateLShr(old, bit), word);
    part = builder.CreateIntrinsic(word, I::nvvm_shfl_sync_idx_i32, {activeThreads, part, first, builder.getInt32(31)});
    start = builder.CreateOr(start, builder.CreateShl(builder.CreateZExt(part, type), bit));
  }
  return builder.CreateAdd(start, builder.CreateMul(count(before), value));
}

Component BodyEmitter::emitAtomicScalar(ir::AtomicOp op, const Place &place, Type type, const Component &value) {
  ir::AtomicKind kind = op.getAtomicKind();
  bool wantsOld = !op.getResult().use_empty();
  if (wantsOld && canAddOncePerWarp(op, type)) return {addOncePerWarp(kind, place, value.value)};
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

/// Whether the device adds the components of a vector in global memory with fewer instructions than components.
bool BodyEmitter::canAddAsVector(ir::AtomicOp op, const Place &place) {
  int64_t count = ir::getComponentCount(place.pointee);
  bool isSum = op.getAtomicKind() == ir::AtomicKind::add || op.getAtomicKind() == ir::AtomicKind::sub;
  return module.traits.hasVectorAtomics && lanes == 1 && isSum && op.getResult().use_empty() && ir::getScalar(place.pointee).isF32() &&
         2 <= count && count <= 4 && place.componentStride == 4 && !place.isShared && !place.isPrivate;
}

/// Pairs and quadruples must be aligned, which is checked at run time.
Components BodyEmitter::addAsVector(const Place &place, Components values, bool isDifference) {
  llvm::Type *type = builder.getFloatTy();
  llvm::Value *base = builder.CreateAddrSpaceCast(place.base, builder.getPtrTy(kGlobalMemory));
  for (Component &value : values) value = {isDifference ? builder.CreateFNeg(value.value) : value.value};
  auto addOne = [&](llvm::Value *pointer, llvm::Value *value) {
    builder.CreateAtomicRMW(llvm::AtomicRMWInst::FAdd, pointer, value, llvm::Align(4), llvm::AtomicOrdering::Monotonic, module.atomicScope);
  };
  auto addMany = [&](llvm::Value *pointer, ArrayRef<llvm::Value *> parts) {
    llvm::SmallVector<llvm::Type *, 5> types(parts.size() + 1, type);
    types[0] = pointer->getType();
    bool isPair = parts.size() == 2;
    auto *code = llvm::InlineAsm::get(llvm::FunctionType::get(builder.getVoidTy(), types, false),
                                      isPair ? "red.relaxed.gpu.global.add.v2.f32 [$0], {$1, $2};"
                                             : "red.relaxed.gpu.global.add.v4.f32 [$0], {$1, $2, $3, $4};",
                                      isPair ? "l,f,f,~{memory}" : "l,f,f,f,f,~{memory}", /*hasSideEffects=*/true);
    llvm::SmallVector<llvm::Value *, 5> operands{pointer};
    llvm::append_range(operands, parts);
    builder.CreateCall(code, operands);
  };
  size_t count = values.size();
  llvm::Value *address = builder.CreatePtrToInt(base, builder.getInt64Ty());
  llvm::Value *isAligned = place.alignment ? builder.getTrue() : builder.CreateIsNull(builder.CreateAnd(address, count == 4 ? 15 : 7));
  if (count == 3) {
    // The aligned pair comes before or after the single component.
    llvm::Value *pair = builder.CreateSelect(isAligned, base, offsetBy(base, 4)),
                *odd = builder.CreateSelect(isAligned, offsetBy(base, 8), base);
    auto choose = [&](size_t a, size_t b) { return builder.CreateSelect(isAligned, values[a].value, values[b].value); };
    addMany(pair, {choose(0, 1), choose(1, 2)});
    addOne(odd, choose(2, 0));
  } else {
    llvm::SmallVector<llvm::Value *, 4> parts;
    for (const Component &value : values) parts.push_back(value.value);
    emitWhen(
        isAligned, "together", [&] { addMany(base, parts); },
        [&] {
          for (auto [i, part] : llvm::enumerate(parts)) addOne(offsetBy(base, int64_t(i) * 4), part);
        });
  }
  return Components(count, {llvm::PoisonValue::get(type)});
}

Components BodyEmitter::emitAtomic(ir::AtomicOp op) {
  Place place = getPlace(op.getRef());
  Components value = getValue(op.getValue());
  Type scalar = ir::getScalar(place.pointee);
  if (place.local) {
    Components old = load(place);
    // Accumulators are outside the loop whose lanes the mask distinguishes.
    store(place, combineAll(op.getAtomicKind(), scalar, old, value), place.isPrivate || facts->divergent.contains(op));
    return old;
  }
  if (canAddAsVector(op, place)) return addAsVector(place, value, op.getAtomicKind() == ir::AtomicKind::sub);
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
    llvm::Value *expectedBits = toBits(expected), *newBits = toBits(value);
    llvm::Align align(uint64_t(module.getByteSize(type)));
    auto plain = [&]() -> llvm::Value * {
      llvm::Value *old = builder.CreateAlignedLoad(bits, pointer, align);
      builder.CreateAlignedStore(builder.CreateSelect(builder.CreateICmpEQ(old, expectedBits), newBits, old), pointer, align);
      return old;
    };
    llvm::Value *old = emitUpdate(place, plain, [&] {
      constexpr auto kOrder = llvm::AtomicOrdering::SequentiallyConsistent;
      return builder.CreateExtractValue(
          builder.CreateAtomicCmpXchg(pointer, expectedBits, newBits, align, kOrder, kOrder, module.atomicScope), 0);
    });
    return fromMemory(type, builder.CreateBitCast(old, memoryType));
  };
  if (lanes == 1) return {exchange(place.base, nullptr)};
  return updateLanes(place, type, /*wantsOld=*/true, exchange);
}

} // namespace qd::codegen
