// atomics.cpp: atomic updates of places
//
// Locals and private copies are updated without atomics. If all lanes update one address in memory, the lanes are combined in a fixed order
// and one atomic operation follows; where old values are used, only for sums of integers. Different addresses are updated lane by lane, but
// bits in words are combined if the lanes turn out to have the same word.
#include "codegen/llvm/atomics.h"
#include "codegen/llvm/grid/threads.h"

#include "llvm/IR/Constants.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;

namespace qd::codegen {

/// The instruction of an entry of builtins.def for one class of types; BAD_BINOP: none.
static llvm::AtomicRMWInst::BinOp getInstruction(ir::AtomicKind kind, Type type) {
  using I = llvm::AtomicRMWInst;
  // Floats, signed integers, unsigned integers; in the order of builtins.def.
  static constexpr I::BinOp kInstructions[][3] = {
      /* add */ {I::FAdd, I::Add, I::Add},
      /* sub */ {I::FSub, I::Sub, I::Sub},
      /* mul */ {I::BAD_BINOP, I::BAD_BINOP, I::BAD_BINOP},
      /* min */ {I::FMin, I::Min, I::UMin},
      /* max */ {I::FMax, I::Max, I::UMax},
      /* bit_and */ {I::BAD_BINOP, I::And, I::And},
      /* bit_or */ {I::BAD_BINOP, I::Or, I::Or},
      /* bit_xor */ {I::BAD_BINOP, I::Xor, I::Xor},
      /* exchange */ {I::Xchg, I::Xchg, I::Xchg},
  };
  return kInstructions[size_t(kind)][isa<FloatType>(type) ? 0 : type.isSignedInteger() ? 1 : 2];
}

/// Whether one thread alone updates a place. The threads of a block run in turn on one thread of the processor.
bool Atomics::isPlain(const MemoryPlace &place) const { return place.isPrivate || (place.isShared && !module.traits.hasGrids); }

llvm::Value *Atomics::emitUpdate(const MemoryPlace &place, llvm::function_ref<llvm::Value *()> plain,
                                 llvm::function_ref<llvm::Value *()> atomic) {
  if (isPlain(place)) return plain();
  if (module.traits.hasGrids) return atomic();
  // A locked instruction takes some 20 cycles, even without contention.
  std::pair<llvm::Value *, llvm::BasicBlock *> outcomes[2];
  auto record = [&](int index, llvm::function_ref<llvm::Value *()> emit) {
    llvm::Value *old = emit();
    outcomes[index] = {old, builder.GetInsertBlock()};
  };
  in.emitWhen(launch.isSingleThreaded(), "single_threaded", [&] { record(0, plain); }, [&] { record(1, atomic); });
  llvm::PHINode *old = builder.CreatePHI(outcomes[0].first->getType(), 2);
  for (auto [value, block] : outcomes) old->addIncoming(value, block);
  return old;
}

static bool isOfBits(ir::AtomicKind kind) { return kind == ir::AtomicKind::bit_or || kind == ir::AtomicKind::bit_and; }

llvm::Value *Atomics::emitAtomicAt(ir::AtomicKind kind, Type type, llvm::Value *pointer, llvm::Value *value, const MemoryPlace &place,
                                   bool wantsOld) {
  llvm::Align align(uint64_t(module.getByteSize(type)));
  if (kind == ir::AtomicKind::exchange && !wantsOld && !module.traits.hasGrids) {
    // Needs no locked instruction. Threads that see the new value see what was written before it, as when it opens a lock.
    builder.CreateAlignedStore(memory.toMemory(type, value), pointer, align)->setAtomic(llvm::AtomicOrdering::Release);
    return llvm::PoisonValue::get(module.getType(type));
  }
  return emitUpdate(place, [&] { return updatePlain(kind, type, pointer, value); }, [&] { return emitLocked(kind, type, pointer, value); });
}

llvm::Value *Atomics::updatePlain(ir::AtomicKind kind, Type type, llvm::Value *pointer, llvm::Value *value) {
  llvm::Align align(uint64_t(module.getByteSize(type)));
  llvm::Value *old = memory.fromMemory(type, builder.CreateAlignedLoad(module.getMemoryType(type), pointer, align));
  builder.CreateAlignedStore(memory.toMemory(type, operators.emitAtomicCombine(kind, type, old, value)), pointer, align);
  return old;
}

llvm::Value *Atomics::emitLocked(ir::AtomicKind kind, Type type, llvm::Value *pointer, llvm::Value *value) {
  llvm::Type *memoryType = module.getMemoryType(type);
  llvm::Align align(uint64_t(module.getByteSize(type)));
  llvm::AtomicRMWInst::BinOp instruction = getInstruction(kind, type);
  bool hasInstruction = module.traits.hasFloatAtomics || !isa<FloatType>(type) || kind == ir::AtomicKind::exchange;
  if (hasInstruction && instruction != llvm::AtomicRMWInst::BAD_BINOP && memoryType == module.getType(type))
    return builder.CreateAtomicRMW(instruction, pointer, value, align, llvm::AtomicOrdering::Monotonic, module.getAtomicScope());
  // Compute, and try again if another thread was faster.
  llvm::Type *bits = builder.getIntNTy(unsigned(memoryType->getPrimitiveSizeInBits()));
  llvm::Value *first = builder.CreateAlignedLoad(bits, pointer, align);
  llvm::BasicBlock *before = builder.GetInsertBlock(), *again = in.makeBlock("atomic"), *done = in.makeBlock("atomic.end");
  builder.CreateBr(again);
  in.moveTo(again);
  llvm::PHINode *seen = builder.CreatePHI(bits, 2);
  llvm::Value *old = memory.fromMemory(type, builder.CreateBitCast(seen, memoryType));
  llvm::Value *next = builder.CreateBitCast(memory.toMemory(type, operators.emitAtomicCombine(kind, type, old, value)), bits);
  llvm::Value *pair = builder.CreateAtomicCmpXchg(pointer, seen, next, align, llvm::AtomicOrdering::Monotonic,
                                                  llvm::AtomicOrdering::Monotonic, module.getAtomicScope());
  seen->addIncoming(first, before);
  seen->addIncoming(builder.CreateExtractValue(pair, 0), builder.GetInsertBlock());
  builder.CreateCondBr(builder.CreateExtractValue(pair, 1), done, again);
  in.moveTo(done);
  return old;
}

/// Updates the places of all active lanes, one after the other. Returns the old values if they are used.
Component Atomics::updateLanes(const MemoryPlace &place, Type type, bool wantsOld,
                               llvm::function_ref<llvm::Value *(llvm::Value *pointer, llvm::Value *lane)> update) {
  llvm::Type *resultType = in.widen(module.getType(type));
  llvm::Value *slot = wantsOld ? in.makeSlot(resultType, "old") : nullptr;
  if (slot) builder.CreateStore(llvm::Constant::getNullValue(resultType), slot);
  llvm::Value *offsets = place.findOffsets();
  in.forEachActiveLane([&](llvm::Value *lane) {
    llvm::Value *offset = offsets ? builder.CreateExtractElement(offsets, lane)
                                  : in.getLane({builder.getInt64(0), LaneKind::linear(place.getLaneStride())}, lane);
    llvm::Value *old = update(builder.CreateGEP(builder.getInt8Ty(), place.base, offset), lane);
    if (slot) builder.CreateStore(builder.CreateInsertElement(builder.CreateLoad(resultType, slot), old, lane), slot);
  });
  return in.makeVarying(slot ? builder.CreateLoad(resultType, slot) : static_cast<llvm::Value *>(llvm::PoisonValue::get(resultType)));
}

/// Whether all threads add the same number to one place: a counter that assigns positions.
bool Atomics::canAddOncePerSubgroup(ir::AtomicOp op, Type type) {
  auto loop = op->getParentOfType<ir::ForOp>();
  while (loop && !loop.getParallel()) loop = loop->getParentOfType<ir::ForOp>();
  auto element = op.getRef().getDefiningOp<ir::ElementOp>();
  if (!module.traits.hasGrids || in.lanes > 1 || !loop || !element || !op.isSum() || !type.isInteger() || type.getIntOrFloatBitWidth() < 32)
    return false;
  auto isSame = [&](Value operand) { return ir::findInteger(operand) || !loop.getBody().isAncestor(operand.getParentRegion()); };
  return llvm::all_of(element.getIndices(), isSame) && isSame(element.getTensor()) && isSame(op.getValue());
}

/// One thread of the subgroup adds for all active threads, and each gets the old value as if they had added in the order of their lanes.
llvm::Value *Atomics::addOncePerSubgroup(ir::AtomicKind kind, const MemoryPlace &place, llvm::Value *value) {
  namespace I = llvm::Intrinsic;
  llvm::Type *type = value->getType();
  auto count = [&](llvm::Value *threads) {
    return builder.CreateIntCast(builder.CreateUnaryIntrinsic(I::ctpop, threads), type, /*isSigned=*/false);
  };
  if (kind == ir::AtomicKind::sub) value = builder.CreateNeg(value);
  llvm::Value *activeThreads = module.grid->getActiveThreads(builder);
  llvm::Value *before = builder.CreateAnd(activeThreads, module.grid->getEarlierThreads(builder));
  llvm::Value *first = builder.CreateBinaryIntrinsic(I::cttz, activeThreads, builder.getTrue());
  llvm::Value *slot = in.makeSlot(type, "counted");
  in.emitWhen(builder.CreateIsNull(before), "leader", [&] {
    builder.CreateStore(builder.CreateAtomicRMW(llvm::AtomicRMWInst::Add, place.base, builder.CreateMul(count(activeThreads), value),
                                                llvm::Align(type->getIntegerBitWidth() / 8), llvm::AtomicOrdering::Monotonic,
                                                module.getAtomicScope()),
                        slot);
  });
  llvm::Value *lane = builder.CreateIntCast(first, builder.getInt32Ty(), /*isSigned=*/false);
  llvm::Value *start = GridThreads(in, launch).shuffle(builder.CreateLoad(type, slot), lane, activeThreads);
  return builder.CreateAdd(start, builder.CreateMul(count(before), value));
}

/// Adds the numbers of all lanes to one place in one step, and gives each lane the old value as if they had added one after the other: a
/// counter that assigns positions. Threads that share it wait for each other at each step.
Component Atomics::addLanesTogether(ir::AtomicKind kind, Type type, const MemoryPlace &place, const Component &value) {
  llvm::Value *added = in.toVector(value), *zeros = llvm::Constant::getNullValue(added->getType());
  if (in.mask) added = builder.CreateSelect(in.mask, added, zeros);
  llvm::Value *sums = added; // of the lanes up to each one
  for (unsigned distance = 1; distance < in.lanes; distance *= 2) {
    llvm::SmallVector<int> from;
    for (unsigned lane = 0; lane < in.lanes; ++lane) from.push_back(lane < distance ? int(in.lanes) : int(lane - distance));
    sums = builder.CreateAdd(sums, builder.CreateShuffleVector(sums, zeros, from));
  }
  llvm::Value *old = in.splat(emitAtomicAt(kind, type, place.base, builder.CreateExtractElement(sums, in.lanes - 1), place));
  llvm::Value *before = builder.CreateSub(sums, added);
  return in.makeVarying(kind == ir::AtomicKind::sub ? builder.CreateSub(old, before) : builder.CreateAdd(old, before));
}

Component Atomics::emitAtomicScalar(ir::AtomicOp op, const MemoryPlace &place, Type type, const Component &value) {
  ir::AtomicKind kind = op.getAtomicKind();
  bool wantsOld = !op.getResult().use_empty();
  if (wantsOld && canAddOncePerSubgroup(op, type)) return {addOncePerSubgroup(kind, place, value.value)};
  if (in.lanes == 1) return {emitAtomicAt(kind, type, place.base, value.value, place, wantsOld)};
  if (place.hasOneAddress() && wantsOld && op.isSum() && type.isInteger() && type.getIntOrFloatBitWidth() >= 8)
    return addLanesTogether(kind, type, place, value);
  auto updateEach = [&] {
    return updateLanes(place, type, wantsOld, [&](llvm::Value *pointer, llvm::Value *lane) {
      return emitAtomicAt(kind, type, pointer, in.getLane(value, lane), place, wantsOld);
    });
  };
  llvm::Value *offsets = place.findOffsets();
  if (!wantsOld && isOfBits(kind) && offsets) {
    // Neighbors in a set of bits: a locked instruction for each lane would also wait for the stores before it.
    llvm::Value *offset = builder.CreateExtractElement(offsets, in.getLastLane(in.getMask()));
    llvm::Value *others = builder.CreateAnd(builder.CreateICmpNE(offsets, in.splat(offset)), in.getMask());
    in.emitWhen(
        builder.CreateNot(in.isAny(others)), "one_word",
        [&] { updateTogether(kind, type, builder.CreateGEP(builder.getInt8Ty(), place.base, offset), value, place); },
        [&] { updateEach(); });
    return in.makeVarying(llvm::PoisonValue::get(in.widen(module.getType(type))));
  }
  if (!place.hasOneAddress() || wantsOld) return updateEach();
  updateTogether(kind, type, place.base, value, place);
  return in.makeVarying(llvm::PoisonValue::get(in.widen(module.getType(type))));
}

/// Updates a place of each lane where nobody reads the old values. One choice between plain and locked instructions serves all components
/// and, without a mask, all lanes. Locked ones are in a loop over the lanes: they take so long that its branches do not matter.
void Atomics::scatter(ir::AtomicKind kind, Type type, const MemoryPlace &place, const Components &value) {
  using Update = llvm::Value *(Atomics::*)(ir::AtomicKind, Type, llvm::Value *, llvm::Value *);
  Components parts = value;
  parts.push_back(in.makeVarying(place.findOffsets()));
  auto visitLanes = [&](llvm::function_ref<void(llvm::function_ref<void(Update)> updateLane)> visit) {
    llvm::SmallVector<llvm::Value *, 5> slots; // LLVM would store the vectors in each round of a loop
    for (const Component &part : parts) {
      llvm::Value *vector = in.mask ? in.toVector(part) : nullptr;
      if (vector) builder.CreateStore(vector, slots.emplace_back(in.makeSlot(vector->getType(), "lanes")));
    }
    in.forEachActiveLane([&](llvm::Value *lane) {
      llvm::SmallVector<llvm::Value *, 5> ofLane;
      for (auto [i, part] : llvm::enumerate(parts)) {
        llvm::Type *scalar = part.value->getType()->getScalarType();
        ofLane.push_back(slots.empty() ? in.getLane(part, lane) : builder.CreateLoad(scalar, builder.CreateGEP(scalar, slots[i], lane)));
      }
      llvm::Value *pointer = builder.CreateGEP(builder.getInt8Ty(), place.base, ofLane.back());
      visit([&](Update update) {
        for (size_t i = 0; i < value.size(); ++i)
          (this->*update)(kind, type, in.offsetBy(pointer, int64_t(i) * place.componentStride), ofLane[i]);
      });
    });
  };
  auto choose = [&](llvm::function_ref<void()> plain, llvm::function_ref<void()> locked) {
    isPlain(place) ? plain() : in.emitWhen(launch.isSingleThreaded(), "single_threaded", plain, locked);
  };
  if (in.mask)
    return visitLanes(
        [&](auto updateLane) { choose([&] { updateLane(&Atomics::updatePlain); }, [&] { updateLane(&Atomics::emitLocked); }); });
  auto updateAll = [&](Update update) { visitLanes([&](auto updateLane) { updateLane(update); }); };
  choose([&] { updateAll(&Atomics::updatePlain); },
         [&] {
           llvm::SaveAndRestore rolled(in.mask, in.getMask());
           updateAll(&Atomics::emitLocked);
         });
}

/// Combines the values of the active lanes, and updates their one place with the result.
void Atomics::updateTogether(ir::AtomicKind kind, Type type, llvm::Value *pointer, const Component &value, const MemoryPlace &place) {
  llvm::Value *all = in.toVector(value);
  if (kind == ir::AtomicKind::exchange) {
    all = builder.CreateExtractElement(all, in.getLastLane(in.getMask()));
  } else {
    if (in.mask) all = builder.CreateSelect(in.mask, all, in.splat(operators.getIdentity(kind, type)));
    all = operators.reduceLanes(kind, type, all);
  }
  emitAtomicAt(kind, type, pointer, all, place, /*wantsOld=*/false);
}

/// Whether the device adds the components of a vector in global memory with fewer instructions than components.
bool Atomics::canAddAsVector(ir::AtomicOp op, const MemoryPlace &place) {
  int64_t count = ir::getComponentCount(place.pointee);
  return module.traits.hasVectorAtomics && in.lanes == 1 && op.isSum() && op.getResult().use_empty() &&
         ir::getScalar(place.pointee).isF32() && 2 <= count && count <= 4 && place.componentStride == 4 && !place.isShared &&
         !place.isPrivate;
}

/// Pairs and quadruples must be aligned, which is checked at run time.
Components Atomics::addAsVector(const MemoryPlace &place, Components values, bool isDifference) {
  llvm::Type *type = builder.getFloatTy();
  llvm::Value *base = builder.CreateAddrSpaceCast(place.base, builder.getPtrTy(module.spaces.global));
  for (Component &value : values) value = {isDifference ? builder.CreateFNeg(value.value) : value.value};
  auto addOne = [&](llvm::Value *pointer, llvm::Value *value) {
    builder.CreateAtomicRMW(llvm::AtomicRMWInst::FAdd, pointer, value, llvm::Align(4), llvm::AtomicOrdering::Monotonic,
                            module.getAtomicScope());
  };
  auto addMany = [&](llvm::Value *pointer, ArrayRef<llvm::Value *> parts) { module.grid->addVector(builder, pointer, parts); };
  size_t count = values.size();
  llvm::Value *address = builder.CreatePtrToInt(base, builder.getInt64Ty());
  llvm::Value *isAligned = place.alignment ? builder.getTrue() : builder.CreateIsNull(builder.CreateAnd(address, count == 4 ? 15 : 7));
  if (count == 3) {
    // The aligned pair comes before or after the single component.
    llvm::Value *pair = builder.CreateSelect(isAligned, base, in.offsetBy(base, 4)),
                *odd = builder.CreateSelect(isAligned, in.offsetBy(base, 8), base);
    auto choose = [&](size_t a, size_t b) { return builder.CreateSelect(isAligned, values[a].value, values[b].value); };
    addMany(pair, {choose(0, 1), choose(1, 2)});
    addOne(odd, choose(2, 0));
  } else {
    llvm::SmallVector<llvm::Value *, 4> parts;
    for (const Component &value : values) parts.push_back(value.value);
    in.emitWhen(
        isAligned, "together", [&] { addMany(base, parts); },
        [&] {
          for (auto [i, part] : llvm::enumerate(parts)) addOne(in.offsetBy(base, int64_t(i) * 4), part);
        });
  }
  return Components(count, {llvm::PoisonValue::get(type)});
}

Components Atomics::emit(ir::MemoryAccessOpInterface op) {
  if (auto atomic = dyn_cast<ir::AtomicOp>(op.getOperation())) return emitAtomic(atomic);
  return {emitCompareExchange(cast<ir::CompareExchangeOp>(op.getOperation()))};
}

Components Atomics::emitAtomic(ir::AtomicOp op) {
  const Place target = values.getPlace(op.getRef());
  Components value = values.getValue(op.getValue());
  Type scalar = ir::getScalar(op.getType());
  if (const auto *local = std::get_if<LocalPlace>(&target)) {
    Components old = memory.load(target);
    Type own = ir::getScalar(local->pointee); // accumulators may be wider
    Components next = operators.combineAll(op.getAtomicKind(), own, old, operators.castAll(scalar, own, std::move(value)));
    memory.store(target, next, in.facts->divergent.contains(op));
    return old;
  }
  const auto &place = std::get<MemoryPlace>(target);
  if (canAddAsVector(op, place)) return addAsVector(place, value, op.getAtomicKind() == ir::AtomicKind::sub);
  const bool isUpdate = op.getAtomicKind() != ir::AtomicKind::exchange && !isOfBits(op.getAtomicKind()) && !scalar.isInteger(1);
  if (in.lanes > 1 && op.use_empty() && place.findOffsets() && isUpdate) {
    scatter(op.getAtomicKind(), scalar, place, value);
    return Components(value.size(), in.makeVarying(llvm::PoisonValue::get(in.widen(module.getType(scalar)))));
  }
  auto updateComponents = [&] {
    Components result;
    for (auto [i, component] : llvm::enumerate(value)) {
      MemoryPlace part = place;
      if (i > 0) part.base = in.offsetBy(place.base, int64_t(i) * place.componentStride);
      result.push_back(emitAtomicScalar(op, part, scalar, component));
    }
    return result;
  };
  const bool hasOwnLanes = in.lanes > 1 && op.use_empty() && !place.findOffsets() && place.getLaneStride() != 0;
  if (!hasOwnLanes) return updateComponents();
  // The lanes have different places: one load and one store where no other thread comes in between.
  auto updateLanesAtOnce = [&] {
    memory.store(target, operators.combineAll(op.getAtomicKind(), scalar, memory.load(target), value), in.facts->divergent.contains(op));
  };
  if (place.isPrivate)
    updateLanesAtOnce();
  else
    in.emitWhen(launch.isSingleThreaded(), "single_threaded", updateLanesAtOnce, updateComponents);
  llvm::Value *none = llvm::PoisonValue::get(in.widen(module.getType(scalar)));
  return Components(value.size(), in.makeVarying(none));
}

Component Atomics::emitCompareExchange(ir::CompareExchangeOp op) {
  const Place target = values.getPlace(op.getRef());
  Component expected = values.getScalar(op.getExpected()), value = values.getScalar(op.getValue());
  Type type = op.getType();
  if (std::holds_alternative<LocalPlace>(target)) {
    Component old = memory.load(target)[0];
    memory.store(target, {operators.select(operators.combine(ir::BinaryKind::eq, type, old, expected), value, old)},
                 in.facts->divergent.contains(op));
    return old;
  }
  const auto &place = std::get<MemoryPlace>(target);
  llvm::Type *memoryType = module.getMemoryType(type);
  llvm::Type *bits = builder.getIntNTy(unsigned(memoryType->getPrimitiveSizeInBits()));
  auto exchange = [&](llvm::Value *pointer, llvm::Value *lane) {
    auto toBits = [&](const Component &part) {
      return builder.CreateBitCast(memory.toMemory(type, in.lanes == 1 ? part.value : in.getLane(part, lane)), bits);
    };
    llvm::Value *expectedBits = toBits(expected), *newBits = toBits(value);
    llvm::Align align(uint64_t(module.getByteSize(type)));
    auto plain = [&]() -> llvm::Value * {
      llvm::Value *old = builder.CreateAlignedLoad(bits, pointer, align);
      builder.CreateAlignedStore(builder.CreateSelect(builder.CreateICmpEQ(old, expectedBits), newBits, old), pointer, align);
      return old;
    };
    auto locked = [&] {
      constexpr auto kOrder = llvm::AtomicOrdering::SequentiallyConsistent;
      return builder.CreateExtractValue(
          builder.CreateAtomicCmpXchg(pointer, expectedBits, newBits, align, kOrder, kOrder, module.getAtomicScope()), 0);
    };
    llvm::Value *old = emitUpdate(place, plain, [&]() -> llvm::Value * {
      if (!op.getPart() && module.traits.hasGrids) return locked();
      // Locked instructions take ten times as long as a comparison, which suffices if a part of a word stays the same, and if the word is
      // another one than expected.
      llvm::Value *seen = expectedBits;
      if (!op.getPart()) {
        llvm::LoadInst *load = builder.CreateAlignedLoad(bits, pointer, align);
        load->setAtomic(llvm::AtomicOrdering::SequentiallyConsistent);
        seen = load;
      }
      llvm::BasicBlock *before = builder.GetInsertBlock(), *after = nullptr;
      llvm::Value *found = nullptr;
      in.emitWhen(op.getPart() ? builder.CreateICmpNE(expectedBits, newBits) : builder.CreateICmpEQ(seen, expectedBits), "changes", [&] {
        found = locked();
        after = builder.GetInsertBlock();
      });
      llvm::PHINode *old = builder.CreatePHI(bits, 2);
      old->addIncoming(seen, before);
      old->addIncoming(found, after);
      return old;
    });
    return memory.fromMemory(type, builder.CreateBitCast(old, memoryType));
  };
  if (in.lanes == 1) return {exchange(place.base, nullptr)};
  return updateLanes(place, type, /*wantsOld=*/true, exchange);
}

} // namespace qd::codegen
