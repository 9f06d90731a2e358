// task.cpp: serial and parallel tasks of a kernel on the processor
//
// A serial task becomes a function `i1 task(context)`, which returns whether the kernel ends with it. The function of a parallel task
// computes the bounds and passes the following function over ranges of flattened iterations to the runtime:
//
//   void loop(context, begin, end, chunk):
//     registers of accumulators = identity
//     for each row (run of the innermost axis) in [begin, end):
//       for full vectors: body, all lanes                       outer indices are uniform, the innermost index is linear
//       the remainder: body under a mask
//     partial results [chunk] = registers, combined over lanes
//
// The function of the loop recomputes values of the task that are free (constants, arguments, addresses). Other values cross through slots
// that the emitter adds to the scratch block.
#include "codegen/llvm/cpu/task.h"
#include "ir/attributes.h"
#include "passes/row_loops.h"
#include "passes/source_locations.h"

#include "llvm/IR/Constants.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;

namespace qd::codegen {

/// Maximum number of chunks of a loop with reductions; it keeps partial results small.
constexpr uint64_t kMaxChunks = 1024;
/// Preferred number of chunks, unless they become too small: enough for threads to finish together.
constexpr uint64_t kWantedChunks = 32;
/// A loop with reductions polls for cancellation after this many chunks of the usual size; no chunk of another loop is longer.
constexpr uint64_t kChunksPerStrip = 16;
/// Chunks of loops that run in lanes are multiples of this, the maximum number of lanes.
constexpr uint64_t kChunkUnit = 16;

llvm::Function *emitTask(ModuleEmitter &module, ir::TaskOp task, int index) {
  llvm::Type *pointer = llvm::PointerType::get(module.ctx, 0);
  llvm::Function *function = module.makeFunction(llvm::Type::getInt1Ty(module.ctx), {pointer}, "qd_task_" + llvm::Twine(index));
  // The code around a parallel loop is short; as functions of their own these would cost more compile time than they save.
  if (task.getParallel()) function->addFnAttr(llvm::Attribute::AlwaysInline);
  BodyEmitter body(module, function, 1, module.uniformity.getScalarFacts());
  llvm::IRBuilder<> &builder = body.builder;
  body.random.task = task;
  body.launch.leaveFailed = [&] { builder.CreateRet(builder.getTrue()); };
  setUpReturns(body, [&] { builder.CreateRet(builder.getTrue()); });
  setUpRandom(body, task.getBody());
  body.blocks.isAlone = true;
  if (task.getParallel())
    ParallelTask(module, body, task, index).emit();
  else
    body.emitBlock(task.getBody().front());
  if (!body.isTerminated()) builder.CreateRet(builder.getFalse());
  return function;
}

//--- Around the loop ---

void ParallelTask::emit() {
  Block &block = task.getBody().front();
  loop = findLoop(module, task);
  if (!loop) return;
  schedule = scheduleLoop(module, loop);
  LaneKinds indices(loop.getRank(), schedule.perLaneIndices ? LaneKind::varying() : LaneKind::uniform());
  std::optional<int64_t> step = findStep(loop, loop.getRank() - 1);
  indices.back() = step && !schedule.perLaneIndices ? LaneKind::linear(*step) : LaneKind::varying();
  if (schedule.rows > 1) indices.back() = indices[indices.size() - 2] = LaneKind::varying();
  facts = schedule.lanes == 1 ? &module.uniformity.getScalarFacts() : &module.uniformity.analyzeLoop(loop, indices);
  drawsRandom = module.calls.contains(loop.getBody(), llvm::IsaPred<ir::RandomOp>);

  for (Operation &op : block) {
    if (&op == loop.getOperation()) break;
    if (!isa<ir::AccumulatorOp, ir::PrivateCopyOp>(op)) body.emitOp(&op);
  }
  collectReductions();
  artifact::LoopReport &report = module.artifact.report.loops.emplace_back();
  passes::collectLocations(loop.getLoc(), report.frames);
  report.lanes = schedule.lanes;
  report.whyScalar = schedule.whyScalar;
  report.chunk = loop.getMaxThreads() == 1 ? 0 : schedule.grain;
  for (const Reduction &reduction : reductions) ++(reduction.isCopy() ? report.copies : report.registers);

  // Emit the loop's functions first: they determine which values cross.
  llvm::Function *plain = nullptr, *copying = nullptr, *rows = nullptr;
  llvm::Value *total = builder.getInt64(1);
  llvm::SmallVector<Axis, 4> axes = getAxes(body, loop);
  if (llvm::Value *tooMany = hasTooManyIterations(body, loop, axes)) body.sites.failWhen(tooMany, "too.many", loop);
  for (const Axis &axis : axes) total = builder.CreateMul(total, axis.extent);
  if (module.isOfBlock(loop)) return emitBlocks(total);
  llvm::Value *worthwhile = builder.getFalse(), *copySlots = nullptr;
  if (llvm::any_of(reductions, [](const Reduction &reduction) { return reduction.isCopy(); })) copySlots = getCopySlots(total, worthwhile);
  auto decided = dyn_cast<llvm::ConstantInt>(worthwhile);
  llvm::Value *longRows = isOtherBetter();
  // Of updates that may go to private copies, those in long rows do, or the loop is as if there were no rows.
  if (copySlots) longRows = builder.CreateAnd(longRows, worthwhile);
  auto areLong = dyn_cast<llvm::ConstantInt>(longRows);
  LoopSchedule rowSchedule;
  if (!areLong || areLong->isOne()) {
    rowSchedule = scheduleRows(module, loop, schedule);
    llvm::SaveAndRestore own(schedule, rowSchedule);
    const bool hasOneLane = schedule.lanes == 1;
    llvm::SaveAndRestore scalar(facts, hasOneLane ? &module.uniformity.getScalarFacts() : facts);
    llvm::SaveAndRestore single(sumCount, hasOneLane ? 1u : sumCount);
    rows = emitLoopFunction(/*privateCopies=*/copySlots);
  }
  const bool isOther = !areLong || areLong->isZero();
  if (isOther && (!decided || decided->isZero())) plain = emitLoopFunction(/*privateCopies=*/false);
  if (isOther && (!decided || decided->isOne())) copying = emitLoopFunction(/*privateCopies=*/true);
  storeCaptures();

  auto divideUp = [&](llvm::Value *value, llvm::Value *by) {
    return builder.CreateUDiv(builder.CreateAdd(value, builder.CreateSub(by, builder.getInt64(1))), by);
  };
  auto run = [&](llvm::Function *function, llvm::Value *chunkSize, bool copies) {
    llvm::Value *chunks = divideUp(total, chunkSize);
    for (const Reduction &reduction : reductions) {
      if (reduction.isCopy() && !copies) continue;
      llvm::Value *bytes = builder.CreateMul(chunks, builder.getInt64(uint64_t(getBytes(reduction.element))));
      if (reduction.isCopy()) bytes = builder.CreateMul(bytes, getElementCount(body, body.values.getTensor(reduction.getTarget())));
      allocate(reduction.slot, bytes);
    }
    callParallelFor(function, total, chunkSize);
    body.launch.leaveIfStopped();
    combineAccumulators(chunks);
    if (copies) mergeCopies(chunks);
  };
  auto runPlain = [&] { run(plain, getChunkSize(total), false); };
  auto runCopying = [&](llvm::Function *function) { run(function, roundChunk(divideUp(total, copySlots)), true); };
  auto runRows = [&] {
    llvm::SaveAndRestore own(schedule, rowSchedule);
    copySlots ? runCopying(rows) : run(rows, getChunkSize(total), false);
  };
  auto runOther = [&] {
    if (plain && copying)
      body.emitWhen(worthwhile, "copies", [&] { runCopying(copying); }, runPlain);
    else
      plain ? runPlain() : runCopying(copying);
  };
  if (isOther && rows)
    body.emitWhen(longRows, "rows", runRows, runOther);
  else
    rows ? runRows() : runOther();
}

/// Whether the other version runs; a constant if that is known.
llvm::Value *ParallelTask::isOtherBetter() {
  const bool hasRows = loop->hasAttr(ir::kRows), mayCopy = llvm::any_of(reductions, [](const Reduction &each) { return each.isCopy(); });
  if ((schedule.lanes == 1 && !schedule.takesShortRows) || module.options.lanes || (mayCopy && !hasRows)) return builder.getFalse();
  if (!schedule.shortRows.empty()) return areAsShort(body, schedule);
  return hasRows ? hasLongRows() : areCongested(body, schedule);
}

/// Whether the loops along rows are long enough for lanes of their own; a constant if that is known.
llvm::Value *ParallelTask::hasLongRows() {
  llvm::Value *areLong = builder.getTrue(), *ofParts = nullptr;
  loop.getBody().walk([&](ir::ForOp row) {
    if (!row->hasAttr(ir::kRows)) return;
    llvm::Value *length = getAxes(body, row)[0].extent;
    if (row->hasAttr(ir::kPartOfRow)) {
      ofParts = ofParts ? builder.CreateAdd(ofParts, length) : length;
      return;
    }
    if (isa<llvm::Constant>(length)) return;
    areLong = builder.CreateAnd(areLong, builder.CreateICmpUGE(length, builder.getInt64(uint64_t(passes::kLongRow))));
    longestRow = longestRow ? getUnsignedMax(builder, longestRow, length) : length;
  });
  if (ofParts) areLong = builder.CreateAnd(areLong, builder.CreateICmpUGE(ofParts, builder.getInt64(uint64_t(passes::kLongRow))));
  return areLong;
}

llvm::Value *ParallelTask::roundChunk(llvm::Value *size) {
  if (schedule.lanes == 1) return getUnsignedMax(builder, size, builder.getInt64(1));
  const uint64_t unit = schedule.wholeAxes > 0 ? uint64_t(schedule.whole) : std::max<uint64_t>(kChunkUnit, schedule.lanes);
  size = builder.CreateAdd(size, builder.getInt64(unit));
  return builder.CreateSub(size, builder.CreateURem(size, builder.getInt64(unit)));
}

llvm::Value *ParallelTask::getChunkSize(llvm::Value *total) {
  // Large enough to be worth its cost, small enough for every thread to get some.
  llvm::Value *grain = builder.getInt64(uint64_t(schedule.grain));
  if (schedule.rowLanes && longestRow) {
    grain = builder.CreateUDiv(builder.getInt64(uint64_t(double(schedule.grain) * kUnknownRounds)), longestRow);
    grain = getUnsignedMax(builder, grain, builder.getInt64(1));
  }
  llvm::Value *share = builder.CreateUDiv(total, builder.getInt64(kWantedChunks));
  llvm::Value *part = builder.CreateUDiv(builder.CreateAdd(grain, builder.getInt64(7)), builder.getInt64(8));
  llvm::Value *size = getUnsignedMin(builder, grain, getUnsignedMax(builder, share, part));
  size = getUnsignedMax(builder, size, builder.CreateUDiv(total, builder.getInt64(kMaxChunks)));
  if (reductions.empty()) size = getUnsignedMin(builder, size, builder.CreateMul(grain, builder.getInt64(kChunksPerStrip)));
  return roundChunk(size);
}

void ParallelTask::callParallelFor(llvm::Function *function, llvm::Value *total, llvm::Value *chunkSize) {
  int threads = module.options.parallel ? int(loop.getMaxThreads().value_or(0)) : 1;
  body.launch.callRuntime(kParallelFor, {function, total, chunkSize, builder.getInt32(uint32_t(threads))});
}

llvm::Value *ParallelTask::getSlotPointer(BodyEmitter &in, uint32_t slot) { return in.offsetBy(in.launch.getField(kScratch), slot); }

/// Lets the function of the loop find values that the task defines.
void ParallelTask::setUpResolve(BodyEmitter &in) {
  in.values.resolve = [this, &in](Value value) {
    Operation *op = value.getDefiningOp();
    if (!op || loop->isAncestor(op) || !task->isAncestor(op)) return false;
    bool isRepeated = isPure(op) && op->getNumRegions() == 0;
    if (!isRepeated && !ir::isValue(value.getType())) return false;
    // Emit into the entry block, which dominates all uses.
    llvm::IRBuilder<>::InsertPointGuard guard(in.builder);
    in.builder.SetInsertPoint(in.function->getEntryBlock().getTerminator());
    llvm::Value *mask = std::exchange(in.mask, nullptr);
    if (isRepeated) {
      in.emitOp(op);
    } else {
      int64_t bytes = getBytes(value.getType());
      auto [capture, isNew] = captures.try_emplace(value, 0);
      if (isNew) capture->second = module.addScratch(uint32_t(bytes));
      in.values.setValue(value, in.memory.loadPacked(value.getType(), getSlotPointer(in, capture->second), /*invariant=*/true));
    }
    in.mask = mask;
    return true;
  };
}

void ParallelTask::storeCaptures() {
  for (auto [value, slot] : captures)
    body.memory.storePacked(value.getType(), Components(body.values.getValue(value)), getSlotPointer(body, slot));
}

//--- The loop ---

/// Creates the emitter of a function over a range of iterations: `void (context, begin, end, chunk)`.
std::unique_ptr<BodyEmitter> ParallelTask::beginFunction(unsigned lanes, const BodyFacts &bodyFacts, const llvm::Twine &suffix) {
  llvm::Type *pointer = llvm::PointerType::get(module.ctx, 0), *i64 = llvm::Type::getInt64Ty(module.ctx);
  llvm::Function *function =
      module.makeFunction(llvm::Type::getVoidTy(module.ctx), {pointer, i64, i64, i64}, "qd_task_" + llvm::Twine(index) + suffix);
  auto in = std::make_unique<BodyEmitter>(module, function, lanes, bodyFacts);
  in->continueAt(in->makeBlock("start"));
  in->random.task = task;
  setUpResolve(*in);
  return in;
}

llvm::Function *ParallelTask::emitLoopFunction(bool privateCopies) {
  std::unique_ptr<BodyEmitter> owned = beginFunction(schedule.lanes, *facts, privateCopies ? "_copies" : schedule.suffix);
  BodyEmitter &in = *owned;
  in.rowLanes = schedule.rowLanes;
  in.takesRowLengths = schedule.takesRowLengths;
  llvm::Function *function = in.function;
  llvm::Value *chunk = function->getArg(3);
  in.launch.leaveFailed = [&] { in.builder.CreateRetVoid(); };
  if (drawsRandom) in.random.makeCounter();
  beginChunk(in, chunk, privateCopies);
  // The runtime polls between chunks. Without a loop around the rows, LLVM takes a fifth less time for a small kernel.
  if (reductions.empty())
    emitRows(in, function->getArg(1), function->getArg(2));
  else
    emitStrips(in, function->getArg(1), function->getArg(2));
  endChunk(in, chunk);
  in.builder.CreateRetVoid();
  return function;
}

/// The index of an iteration from its number along the axis. The index is in range: the no-wrap flags let LLVM compute addresses in 64
/// bits.
static llvm::Value *getIndex(llvm::IRBuilder<> &at, const Axis &axis, llvm::Value *number) {
  bool isSigned = axis.type.isSignedInteger();
  llvm::Value *index = at.CreateTrunc(number, axis.lower.value->getType(), "", /*IsNUW=*/false, isSigned);
  auto *step = dyn_cast<llvm::ConstantInt>(axis.step.value);
  if (!step || !step->isOne()) index = at.CreateMul(index, axis.step.value, "", false, isSigned);
  return at.CreateAdd(axis.lower.value, index, "", false, isSigned);
}

/// Loops with reductions and more iterations than kMaxChunks usual chunks get longer chunks, without a limit. Such a chunk runs in strips
/// and polls for cancellation between them.
void ParallelTask::emitStrips(BodyEmitter &in, llvm::Value *begin, llvm::Value *end) {
  llvm::IRBuilder<> &at = in.builder;
  llvm::Value *slot = in.makeSlot(at.getInt64Ty(), "strip");
  at.CreateStore(begin, slot);
  llvm::BasicBlock *header = in.makeBlock("strips"), *strip = in.makeBlock("strip"), *done = in.makeBlock("strips.end");
  in.continueAt(header);
  llvm::Value *first = at.CreateLoad(at.getInt64Ty(), slot);
  at.CreateCondBr(at.CreateICmpSLT(first, end), strip, done);
  in.moveTo(strip);
  llvm::Value *length = getUnsignedMin(at, at.CreateSub(end, first), at.getInt64(uint64_t(schedule.grain) * kChunksPerStrip));
  llvm::Value *last = at.CreateAdd(first, length);
  emitRows(in, first, last);
  at.CreateStore(last, slot);
  in.launch.leaveIfCanceled();
  in.branchTo(header);
  in.moveTo(done);
}

void ParallelTask::emitRows(BodyEmitter &in, llvm::Value *begin, llvm::Value *end) {
  llvm::IRBuilder<> &at = in.builder;
  llvm::SmallVector<Axis, 4> axes = getAxes(in, loop);
  if (axes.size() == 1 || schedule.perLaneIndices) return emitRow(in, axes, begin, begin, at.CreateSub(end, begin));
  // Go row by row: a run is the intersection of [begin, end) and a row, or all rows of the trailing axes. Only the first run's indices need
  // divisions; the others are incremented.
  const bool isWhole = schedule.wholeAxes > 0;
  const size_t outer = axes.size() - std::max(schedule.wholeAxes, 1u);
  llvm::SmallVector<llvm::Value *, 4> extents, slots;
  for (const Axis &axis : ArrayRef(axes).take_front(isWhole ? outer : axes.size())) {
    extents.push_back(axis.extent);
    slots.push_back(in.makeSlot(at.getInt64Ty(), "index"));
  }
  llvm::Value *slot = in.makeSlot(at.getInt64Ty(), "position");
  at.CreateStore(begin, slot);
  llvm::BasicBlock *start = in.makeBlock("first.row"), *row = in.makeBlock("row"), *done = in.makeBlock("rows.end");
  at.CreateCondBr(at.CreateICmpULT(begin, end), start, done);
  in.moveTo(start);
  llvm::Value *first = at.CreateUDiv(begin, at.getInt64(uint64_t(schedule.whole)));
  for (auto [digit, digitSlot] : llvm::zip(unflatten(at, first, extents), slots)) at.CreateStore(digit, digitSlot);
  in.continueAt(row);
  llvm::Value *position = at.CreateLoad(at.getInt64Ty(), slot);
  for (size_t a = 0; a < outer; ++a)
    in.values.setValue(loop.getBody().getArgument(unsigned(a)), {{getIndex(at, axes[a], at.CreateLoad(at.getInt64Ty(), slots[a]))}});
  llvm::Value *length = at.getInt64(uint64_t(schedule.whole));
  if (isWhole) {
    emitWhole(in, axes, outer, position);
  } else {
    llvm::Value *column = at.CreateLoad(at.getInt64Ty(), slots.back());
    length = at.CreateBinaryIntrinsic(llvm::Intrinsic::umin, at.CreateSub(extents.back(), column), at.CreateSub(end, position));
    emitRow(in, axes, position, column, length);
    at.CreateStore(at.getInt64(0), slots.back());
  }
  llvm::Value *carry = at.getInt64(1);
  for (size_t a = outer; a-- > 0;) {
    llvm::Value *digit = at.CreateAdd(at.CreateLoad(at.getInt64Ty(), slots[a]), carry), *wraps = at.CreateICmpEQ(digit, extents[a]);
    at.CreateStore(at.CreateSelect(wraps, at.getInt64(0), digit), slots[a]);
    carry = at.CreateZExt(wraps, at.getInt64Ty());
  }
  position = at.CreateAdd(position, length);
  at.CreateStore(position, slot);
  at.CreateCondBr(at.CreateICmpULT(position, end), row, done);
  in.moveTo(done);
}

/// All iterations of the axes from `axis` on. Their ends are constants, so LLVM unrolls short rows and hoists what they share.
void ParallelTask::emitWhole(BodyEmitter &in, ArrayRef<Axis> axes, size_t axis, llvm::Value *first) {
  llvm::IRBuilder<> &at = in.builder;
  if (axis + 1 == axes.size()) return emitRow(in, axes, first, at.getInt64(0), axes[axis].extent);
  if (axis + 2 == axes.size() && schedule.rows > 1) return emitRowGroups(in, axes, first);
  in.function->addFnAttr(kHasInnerLoops);
  llvm::Value *slot = in.makeSlot(at.getInt64Ty(), "index"), *size = at.getInt64(1);
  for (const Axis &inner : axes.drop_front(axis + 1)) size = at.CreateMul(size, inner.extent);
  at.CreateStore(at.getInt64(0), slot);
  llvm::BasicBlock *header = in.makeBlock("whole"), *done = in.makeBlock("whole.end");
  in.continueAt(header);
  llvm::Value *number = at.CreateLoad(at.getInt64Ty(), slot);
  in.values.setValue(loop.getBody().getArgument(unsigned(axis)), {{getIndex(at, axes[axis], number)}});
  emitWhole(in, axes, axis + 1, at.CreateAdd(first, at.CreateMul(number, size)));
  number = at.CreateAdd(number, at.getInt64(1));
  at.CreateStore(number, slot);
  llvm::Instruction *back = at.CreateCondBr(at.CreateICmpULT(number, axes[axis].extent), header, done);
  // LLVM's own limit is below eight rows of a stencil under a condition.
  auto rounds = dyn_cast<llvm::ConstantInt>(axes[axis].extent), rows = dyn_cast<llvm::ConstantInt>(axes[axes.size() - 2].extent);
  const bool isLast = axis + (schedule.rows > 1 ? 3 : 2) == axes.size();
  const int64_t vectors = isLast && rounds && rows
                              ? rounds->getSExtValue() * (schedule.rows > 1 ? llvm::divideCeil(rows->getSExtValue(), schedule.rows) : 1)
                              : 0;
  if (vectors > 0 && vectors * module.functions.getSize(loop.getBody()) <= kMaxUnrolledRows)
    in.setUnrolling(back, unsigned(rounds->getZExtValue()));
  in.moveTo(done);
}

/// All iterations of the last two axes, several rows to a vector. The indices of lanes differ by constants, so neighbors in other rows and
/// blocks are reached by wide loads and shuffles.
void ParallelTask::emitRowGroups(BodyEmitter &in, ArrayRef<Axis> axes, llvm::Value *first) {
  llvm::IRBuilder<> &at = in.builder;
  const int64_t length = cast<llvm::ConstantInt>(axes.back().extent)->getSExtValue();
  const int64_t rows = cast<llvm::ConstantInt>(axes[axes.size() - 2].extent)->getSExtValue();
  llvm::SaveAndRestore rowsOfBlock(in.takesRows, true);
  for (int64_t row = 0; row < rows; row += schedule.rows) {
    llvm::Value *column = at.getInt64(uint64_t(row * length));
    emitRow(in, axes, at.CreateAdd(first, column), column, at.getInt64(uint64_t(std::min(schedule.rows, rows - row) * length)));
  }
}

void ParallelTask::emitRow(BodyEmitter &in, ArrayRef<Axis> axes, llvm::Value *first, llvm::Value *column, llvm::Value *length) {
  llvm::IRBuilder<> &at = in.builder;
  llvm::Value *slot = in.makeSlot(at.getInt64Ty(), "i");
  // Emits the iterations from `i` on: a full vector, or `count` iterations under a mask if `count` is set.
  auto emitVector = [&](llvm::Value *i, llvm::Value *count) {
    if (count) {
      llvm::Value *width = at.getInt64(schedule.lanes);
      auto known = dyn_cast<llvm::ConstantInt>(count);
      llvm::Value *clamped = known ? at.getInt32(uint32_t(std::min(known->getZExtValue(), uint64_t(schedule.lanes))))
                                   : at.CreateTrunc(at.CreateBinaryIntrinsic(llvm::Intrinsic::umin, count, width), at.getInt32Ty());
      in.mask = at.CreateICmpULT(in.toVector({at.getInt32(0), LaneKind::linear(1)}), in.splat(clamped));
    }
    in.isPartialVector = count && schedule.separateTail && !isa<llvm::Constant>(count);
    emitIteration(in, axes, at.CreateAdd(first, i), at.CreateAdd(column, i));
    in.isPartialVector = false;
    in.mask = nullptr;
  };
  auto known = dyn_cast<llvm::ConstantInt>(length);
  if (known && known->getZExtValue() <= schedule.lanes) {
    in.usedLanes = unsigned(known->getZExtValue());
    useSums(in, 0);
    emitVector(at.getInt64(0), in.usedLanes < schedule.lanes ? known : nullptr);
    in.usedLanes = in.lanes;
    return;
  }
  // Where a vector is in a short row is a constant, too, so which block a neighbor is in is known when code is made.
  constexpr unsigned kMaxVectors = 4;
  if (known && schedule.wholeAxes > 0 && schedule.isEven && known->getZExtValue() <= kMaxVectors * schedule.lanes) {
    for (unsigned number = 0; number * schedule.lanes < known->getZExtValue(); ++number) {
      useSums(in, number % sumCount);
      emitVector(at.getInt64(number * schedule.lanes), nullptr);
    }
    return useSums(in, 0);
  }
  llvm::Value *peeled = countPeeled(in, axes, column, length);
  if (peeled) in.emitWhen(at.CreateIsNotNull(peeled), "head", [&] { emitVector(at.getInt64(0), peeled); });
  at.CreateStore(peeled ? peeled : at.getInt64(0), slot);
  const bool polls =
      module.functions.getWork(loop.getBody()) * double(schedule.grain * kChunksPerStrip / schedule.lanes) > kMaxWorkWithoutPoll;
  // Each round takes `count` vectors; the last vector of a masked loop may be partial.
  auto emitVectors = [&](unsigned count, bool masked) {
    llvm::BasicBlock *header = in.makeBlock("vectors"), *full = in.makeBlock("vector"), *done = in.makeBlock("vectors.end");
    in.continueAt(header);
    llvm::Value *i = at.CreateLoad(at.getInt64Ty(), slot);
    at.CreateCondBr(at.CreateICmpSGE(at.CreateSub(length, i), at.getInt64(masked ? 1 : count * schedule.lanes)), full, done);
    in.moveTo(full);
    for (unsigned number = 0; number < count; ++number) {
      useSums(in, number);
      llvm::Value *own = at.CreateAdd(i, at.getInt64(number * schedule.lanes));
      emitVector(own, masked ? at.CreateSub(length, own) : nullptr);
    }
    useSums(in, 0);
    at.CreateStore(at.CreateAdd(i, at.getInt64(count * schedule.lanes)), slot);
    if (polls) in.launch.leaveIfCanceled();
    in.branchTo(header);
    in.moveTo(done);
  };
  bool masked = schedule.lanes > 1 && !schedule.separateTail && !schedule.isEven;
  if (sumCount > 1) emitVectors(sumCount, /*masked=*/false);
  emitVectors(1, masked);
  if (schedule.lanes == 1 || masked || schedule.isEven) return;
  llvm::Value *i = at.CreateLoad(at.getInt64Ty(), slot);
  in.emitWhen(at.CreateICmpSLT(i, length), "tail", [&] { emitVector(i, at.CreateSub(length, i)); });
}

/// The first element that each iteration stores at its own index of a packed array, so that consecutive iterations fill its memory.
static ir::ElementOp findContiguousStore(ir::ForOp loop) {
  for (ir::StoreOp store : loop.getBody().getOps<ir::StoreOp>()) {
    auto element = store.getRef().getDefiningOp<ir::ElementOp>();
    auto argument = element ? element.getTensor().getDefiningOp<ir::TensorArgumentOp>() : nullptr;
    if (!argument || argument.getField() || element.getIndices().size() != 1) continue;
    auto type = cast<ir::TensorType>(argument.getType());
    bool isPlain = type.isPacked() && type.getOrigin().empty() && ir::isScalar(type.getElement());
    if (isPlain && element.getIndices().front() == loop.getBody().getArgument(0)) return element;
  }
  return {};
}

/// Number of iterations that are peeled from a run so that the vectors after them store to aligned memory; null if that is unknown or has
/// no effect. Memory of containers is aligned, memory of NumPy to 16 bytes only: every other wide store would span two cache lines (saxpy
/// in cache: 1.2 times the time). The cost is one more masked copy of a short loop. Loops with sums are not peeled: the order of additions
/// must not depend on addresses.
llvm::Value *ParallelTask::countPeeled(BodyEmitter &in, ArrayRef<Axis> axes, llvm::Value *column, llvm::Value *length) {
  constexpr int64_t kAlignedAnyway = 16;
  if (!schedule.separateTail || schedule.isEven || axes.size() != 1 || !reductions.empty() || !loop.getStep().empty()) return nullptr;
  ir::ElementOp element = findContiguousStore(loop);
  if (!element) return nullptr;
  Tensor array = in.values.getTensor(element.getTensor());
  int64_t size = module.getByteSize(array.type.getElement()), vector = size * schedule.lanes;
  if (vector <= kAlignedAnyway || vector > module.traits.vectorBytes) return nullptr;
  llvm::IRBuilder<> &at = in.builder;
  llvm::Value *index = at.CreateAdd(at.CreateIntCast(axes[0].lower.value, at.getInt64Ty(), axes[0].type.isSignedInteger()), column);
  llvm::Value *address = at.CreateAdd(at.CreatePtrToInt(array.data, at.getInt64Ty()), at.CreateMul(index, at.getInt64(uint64_t(size))));
  llvm::Value *missing = at.CreateAnd(at.CreateNeg(address), at.getInt64(uint64_t(vector - 1)));
  return at.CreateBinaryIntrinsic(llvm::Intrinsic::umin, at.CreateUDiv(missing, at.getInt64(uint64_t(size))), length);
}

/// Emits one vector of iterations. `flat` is the number of its first iteration in the whole loop, `column` the number along the innermost
/// axis.
void ParallelTask::emitIteration(BodyEmitter &in, ArrayRef<Axis> axes, llvm::Value *flat, llvm::Value *column) {
  llvm::IRBuilder<> &at = in.builder;
  if (drawsRandom) {
    in.random.iteration = {flat, schedule.lanes == 1 ? LaneKind::uniform() : LaneKind::linear(1)};
    in.random.reset();
  }
  if (schedule.perLaneIndices || schedule.rows > 1) {
    if (schedule.rows > 1) axes = axes.take_back(2), flat = column;
    const unsigned outer = loop.getRank() - unsigned(axes.size());
    // 32 bits suffice for nearly every loop, and are twice as fast.
    uint64_t total = 1;
    for (const Axis &axis : axes) {
      auto extent = dyn_cast<llvm::ConstantInt>(axis.extent);
      total = llvm::SaturatingMultiply(total, extent ? extent->getZExtValue() : UINT64_MAX);
    }
    llvm::Type *counterType = total < (1u << 31) ? at.getInt32Ty() : at.getInt64Ty();
    llvm::SmallVector<llvm::Value *, 4> extents;
    for (const Axis &axis : axes) extents.push_back(in.splat(at.CreateTrunc(getUnsignedMax(at, axis.extent, at.getInt64(1)), counterType)));
    llvm::Value *counters = in.toVector({at.CreateTrunc(flat, counterType), LaneKind::linear(1)});
    for (auto [a, digit] : llvm::enumerate(unflatten(at, counters, extents))) {
      llvm::Value *counter = at.CreateZExtOrTrunc(digit, in.widen(axes[a].lower.value->getType()));
      llvm::Value *value = at.CreateAdd(in.toVector(axes[a].lower), at.CreateMul(counter, in.toVector(axes[a].step)));
      in.values.setValue(loop.getBody().getArgument(outer + unsigned(a)), {in.makeVarying(value)});
    }
  } else {
    const Axis &axis = axes.back();
    auto step = dyn_cast<llvm::ConstantInt>(axis.step.value);
    Component index;
    if (schedule.lanes == 1 || step) {
      index = {getIndex(at, axis, column), schedule.lanes == 1 ? LaneKind::uniform() : LaneKind::linear(step->getSExtValue())};
    } else {
      llvm::Value *counters = in.toVector({at.CreateTrunc(column, axis.lower.value->getType()), LaneKind::linear(1)});
      index = in.makeVarying(at.CreateAdd(in.splat(axis.lower.value), at.CreateMul(counters, in.splat(axis.step.value))));
    }
    in.values.setValue(loop.getBody().getArgument(loop.getRank() - 1), {index});
  }
  llvm::BasicBlock *next = in.makeBlock("iteration.end");
  in.control.emitLoopBody(loop, loop.getBody(), next);
  in.moveTo(next);
}

} // namespace qd::codegen
