// reductions.cpp: reductions of a parallel loop on the processor
//
// qd.accumulator: registers, one per lane. At the end of a chunk the lanes are combined and stored under the chunk's number; at the end of
// the loop the chunks are combined in order. qd.private_copy: one copy per chunk, merged element by element in order, if that is less work
// than atomics; otherwise the container itself, with atomics.
#include "codegen/llvm/cpu/task.h"

#include "llvm/IR/Constants.h"

using namespace mlir;

namespace qd::codegen {

/// Maximum total size of private copies.
constexpr uint64_t kMaxCopyBytes = uint64_t(16) << 20;
/// Total number of scalars above which fewer copies are made, and the minimum and maximum number of copies.
constexpr uint64_t kCopiedScalars = uint64_t(1) << 20, kFewestCopies = 8, kMaxCopies = 64;
/// Scalars of copies that are zeroed and merged in the time of one atomic update.
constexpr uint64_t kUpdateCost = 4;
/// In one chunk, which needs no atomics, fewer updates than this take less time than to begin with copies.
constexpr uint64_t kFewestUpdates = 2048;
/// Registers per accumulator, for loops up to this size whose accumulators have at most that many registers together. Loops with random
/// numbers or functions do not wait for additions, and are long code.
constexpr unsigned kMaxSums = 4;
constexpr int64_t kRepeatedSize = 40, kMaxRegisters = 8;
/// Elements per chunk of the merge.
constexpr uint64_t kMergeChunk = 8192;

void ParallelTask::collectReductions() {
  for (Operation &op : task.getBody().front()) {
    auto accumulator = dyn_cast<ir::AccumulatorOp>(op);
    auto copy = dyn_cast<ir::PrivateCopyOp>(op);
    if (accumulator)
      reductions.push_back({&op,
                            accumulator.getAtomicKind(),
                            getSumType(accumulator.getAtomicKind(), cast<ir::RefType>(accumulator.getType()).getPointee()),
                            {},
                            module.addScratch(8)});
    else if (copy)
      reductions.push_back({&op, copy.getAtomicKind(), cast<ir::TensorType>(copy.getType()).getElement(), {}, module.addScratch(8)});
  }
  copiesSlot = module.addScratch(8);
  int64_t registers = 0;
  for (const Reduction &reduction : reductions) registers += reduction.isCopy() ? 0 : ir::getComponentCount(reduction.element);
  bool isShort = schedule.separateTail && module.functions.getSize(loop.getBody()) <= kRepeatedSize &&
                 !module.calls.contains(loop.getBody(), [](Operation *op) { return isa<ir::RandomOp>(op) || ir::isLongFunction(op); });
  if (isShort && registers > 0 && registers * kMaxSums <= kMaxRegisters) sumCount = kMaxSums;
}

void ParallelTask::allocate(uint32_t slot, llvm::Value *bytes) {
  llvm::Value *memory = body.launch.callRuntime(kAllocateTemporary, {bytes});
  body.emitWhen(builder.CreateIsNull(memory), "no.memory", body.launch.leaveFailed);
  builder.CreateAlignedStore(memory, getSlotPointer(body, slot), llvm::Align(8));
}

//--- Inside the loop ---

/// The private copy with this number.
Tensor ParallelTask::getCopy(BodyEmitter &in, const Reduction &copy, llvm::Value *number) {
  Tensor target = in.values.getTensor(copy.getTarget());
  llvm::IRBuilder<> &at = in.builder;
  llvm::Value *bytes = at.CreateMul(getElementCount(in, target), at.getInt64(uint64_t(getBytes(copy.element))));
  llvm::Value *first = in.loadInvariant(at.getPtrTy(), getSlotPointer(in, copy.slot));
  Tensor result = makePacked(in, target, at.CreateGEP(at.getInt8Ty(), first, at.CreateMul(bytes, number)));
  result.isPrivate = true;
  return result;
}

void ParallelTask::beginChunk(BodyEmitter &in, llvm::Value *chunk, bool privateCopies) {
  llvm::IRBuilder<> &at = in.builder;
  for (Reduction &reduction : reductions) {
    Type scalar = ir::getScalar(reduction.element);
    llvm::Constant *identity = in.operators.getIdentity(reduction.kind, scalar);
    if (!reduction.isCopy()) {
      reduction.sums.clear();
      for (unsigned i = 0; i < sumCount; ++i) {
        LocalPlace &place = reduction.sums.emplace_back(makeSum(in, reduction.element, in.manyLanes, identity));
        // Accumulators are outside of the loop whose lanes the mask distinguishes.
        place.isAccumulator = place.isReference = true;
      }
      continue;
    }
    Tensor copy = privateCopies ? getCopy(in, reduction, chunk) : in.values.getTensor(reduction.getTarget());
    in.values.setTensor(reduction.op->getResult(0), copy);
    // The memory is already zeroed.
    if (!privateCopies || identity->isNullValue() || (isa<FloatType>(scalar) && reduction.kind == ir::AtomicKind::add)) continue;
    llvm::Value *count = at.CreateMul(getElementCount(in, copy), at.getInt64(uint64_t(ir::getComponentCount(reduction.element))));
    in.emitCountedLoop(count, [&](llvm::Value *i) {
      in.memory.storePacked(scalar, {{identity}}, at.CreateGEP(module.getMemoryType(scalar), copy.data, i));
    });
  }
}

/// Selects the accumulators for the next vector of iterations.
void ParallelTask::useSums(BodyEmitter &in, unsigned number) {
  for (const Reduction &reduction : reductions)
    if (!reduction.isCopy()) in.values.setPlace(reduction.op->getResult(0), reduction.sums[number]);
}

/// Address of a chunk's partial result.
llvm::Value *ParallelTask::getPartial(BodyEmitter &in, const Reduction &reduction, llvm::Value *chunk) {
  llvm::IRBuilder<> &at = in.builder;
  llvm::Value *partials = at.CreateAlignedLoad(at.getPtrTy(), getSlotPointer(in, reduction.slot), llvm::Align(8));
  return at.CreateGEP(at.getInt8Ty(), partials, at.CreateMul(chunk, at.getInt64(uint64_t(getBytes(reduction.element)))));
}

void ParallelTask::endChunk(BodyEmitter &in, llvm::Value *chunk) {
  for (const Reduction &reduction : reductions) {
    if (reduction.isCopy()) continue;
    for (const LocalPlace &more : llvm::drop_begin(reduction.sums))
      combineInto(in, reduction.kind, reduction.sums[0], reduction.element, in.memory.load(more));
    Components all = in.memory.load(reduction.sums[0]);
    for (Component &component : all)
      component = {in.operators.reduceLanes(reduction.kind, ir::getScalar(reduction.element), in.toVector(component))};
    in.memory.storePacked(reduction.element, all, getPartial(in, reduction, chunk));
  }
}

//--- After the loop ---

void ParallelTask::combineAccumulators(llvm::Value *chunks) {
  for (const Reduction &reduction : reductions) {
    if (reduction.isCopy()) continue;
    llvm::Constant *identity = body.operators.getIdentity(reduction.kind, ir::getScalar(reduction.element));
    LocalPlace sum = makeSum(body, reduction.element, LaneKind::uniform(), identity);
    body.emitCountedLoop(chunks, [&](llvm::Value *chunk) {
      llvm::Value *partial = getPartial(body, reduction, chunk);
      combineInto(body, reduction.kind, sum, reduction.element, body.memory.loadPacked(reduction.element, partial, /*invariant=*/false));
    });
    combineInto(body, reduction.kind, body.values.getPlace(reduction.getTarget()), reduction.element, body.memory.load(sum));
  }
}

/// How often an iteration of the loop gets to an operation; loops inside whose ends the iteration itself computes count once.
llvm::Value *ParallelTask::countRounds(Operation *op) {
  llvm::Value *rounds = builder.getInt64(1);
  for (auto around = op->getParentOfType<ir::ForOp>(); around != loop; around = around->getParentOfType<ir::ForOp>()) {
    auto isOutside = [&](Value bound) { return !loop.getBody().isAncestor(bound.getParentRegion()); };
    if (std::optional<double> known = ir::findIterations(around))
      rounds = builder.CreateMul(rounds, builder.getInt64(uint64_t(std::min(*known, double(kCopiedScalars)))));
    else if (llvm::all_of(around->getOperands(), isOutside))
      for (const Axis &axis : getAxes(body, around)) rounds = builder.CreateMul(rounds, axis.extent);
  }
  return rounds;
}

/// Number of private copies, and whether they are less work than atomics. Both depend on the problem only.
llvm::Value *ParallelTask::getCopySlots(llvm::Value *total, llvm::Value *&worthwhile) {
  llvm::Value *scalars = builder.getInt64(0), *bytes = builder.getInt64(0);
  llvm::Value *updates = builder.getInt64(0);
  for (const Reduction &reduction : reductions) {
    if (!reduction.isCopy()) continue;
    llvm::Value *count = getElementCount(body, body.values.getTensor(reduction.getTarget()));
    uint64_t components = uint64_t(ir::getComponentCount(reduction.element));
    for (Operation *element : reduction.op->getUsers())
      for (Operation *update : element->getUsers())
        updates = builder.CreateAdd(updates, builder.CreateMul(countRounds(update), builder.getInt64(components)));
    scalars = builder.CreateAdd(scalars, builder.CreateMul(count, builder.getInt64(components)));
    bytes = builder.CreateAdd(bytes, builder.CreateMul(count, builder.getInt64(uint64_t(getBytes(reduction.element)))));
  }
  auto clamp = [&](llvm::Value *value, uint64_t low, uint64_t high) {
    return getUnsignedMin(builder, getUnsignedMax(builder, value, builder.getInt64(low)), builder.getInt64(high));
  };
  // More copies let more threads run, but take no more than half of the time that they save.
  llvm::Value *saved =
      builder.CreateMul(total, builder.CreateMul(getUnsignedMax(builder, updates, builder.getInt64(1)), builder.getInt64(kUpdateCost)));
  llvm::Value *most = getUnsignedMin(builder, builder.CreateLShr(saved, 1), builder.getInt64(kCopiedScalars));
  llvm::Value *slots = clamp(builder.CreateUDiv(most, clamp(scalars, 1, UINT64_MAX)), kFewestCopies, kMaxCopies);
  llvm::Value *isShort = builder.CreateAnd(builder.CreateICmpULE(total, getChunkSize(total)),
                                           builder.CreateICmpULT(saved, builder.getInt64(kFewestUpdates * kUpdateCost)));
  worthwhile = builder.CreateAnd(builder.CreateICmpULE(builder.CreateMul(scalars, slots), saved), builder.CreateNot(isShort));
  worthwhile = builder.CreateAnd(worthwhile, builder.CreateICmpULE(builder.CreateMul(bytes, slots), builder.getInt64(kMaxCopyBytes)));
  return slots;
}

void ParallelTask::mergeCopies(llvm::Value *chunks) {
  builder.CreateAlignedStore(chunks, getSlotPointer(body, copiesSlot), llvm::Align(8));
  for (const Reduction &reduction : reductions) {
    if (!reduction.isCopy()) continue;
    llvm::Function *merge = emitMerge(reduction);
    llvm::Value *count = getElementCount(body, body.values.getTensor(reduction.getTarget()));
    callParallelFor(merge, count, builder.getInt64(kMergeChunk));
  }
}

llvm::Function *ParallelTask::emitMerge(const Reduction &reduction) {
  int64_t size = module.getByteSize(ir::getScalar(reduction.element));
  unsigned lanes =
      schedule.lanes == 1 && !module.options.lanes ? std::clamp(unsigned(module.traits.vectorBytes / size), 1u, 16u) : schedule.lanes;
  std::unique_ptr<BodyEmitter> owned = beginFunction(lanes, module.uniformity.getScalarFacts(), "_merge");
  BodyEmitter &in = *owned;
  llvm::IRBuilder<> &at = in.builder;
  Tensor target = in.values.getTensor(reduction.getTarget()), firstCopy = getCopy(in, reduction, at.getInt64(0));
  llvm::Value *copies = in.loadInvariant(at.getInt64Ty(), getSlotPointer(in, copiesSlot));
  llvm::Value *copyBytes = at.CreateMul(getElementCount(in, target), at.getInt64(uint64_t(getBytes(reduction.element))));
  llvm::Value *begin = in.function->getArg(1), *end = in.function->getArg(2);
  llvm::Value *rounds = at.CreateUDiv(at.CreateAdd(at.CreateSub(end, begin), at.getInt64(lanes - 1)), at.getInt64(lanes));
  LaneKind step = lanes == 1 ? LaneKind::uniform() : LaneKind::linear(1);

  in.emitCountedLoop(rounds, [&](llvm::Value *round) {
    Component element = {at.CreateAdd(begin, at.CreateMul(round, at.getInt64(lanes))), step};
    if (lanes > 1) in.mask = at.CreateICmpSLT(in.toVector(element), in.splat(end));
    MemoryPlace place = getElementAt(in, target, element);
    Type sumType = getSumType(reduction.kind, reduction.element), scalar = ir::getScalar(sumType),
         stored = ir::getScalar(reduction.element);
    LocalPlace sum = makeSum(in, sumType, in.manyLanes, in.operators.getIdentity(reduction.kind, scalar));
    in.memory.store(sum, in.operators.castAll(stored, scalar, in.memory.load(place)), /*masked=*/false);
    MemoryPlace own = getElementAt(in, firstCopy, element);
    in.emitCountedLoop(copies, [&](llvm::Value *copy) {
      MemoryPlace from = own;
      from.base = at.CreateGEP(at.getInt8Ty(), own.base, at.CreateMul(copy, copyBytes));
      combineInto(in, reduction.kind, sum, reduction.element, in.memory.load(from));
    });
    in.memory.store(place, in.operators.castAll(scalar, stored, in.memory.load(sum)), /*masked=*/false);
  });
  at.CreateRetVoid();
  return in.function;
}

} // namespace qd::codegen
