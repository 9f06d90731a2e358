// task.cpp: tasks of a kernel
//
// A serial task is a function `i1 task(context)`, which says whether the kernel ends with it. A parallel one computes its bounds there and
// hands a function over ranges of flattened iterations to the runtime:
//
//   void loop(context, begin, end, chunk):
//     registers of accumulators = identity
//     for each row (run of the innermost axis) in [begin, end):
//       for full vectors: body, all lanes                       outer indices are uniform, the innermost one is linear
//       the rest: body under a mask
//     partial results [chunk] = registers, combined over lanes
//
// What the loop needs from the task is computed again where that is free (constants, arguments, addresses); the rest crosses through slots
// that the emitter adds to the scratch block.
#include "codegen/llvm/task.h"

#include "llvm/IR/Constants.h"

using namespace mlir;

namespace qd::codegen {

/// Chunks of which there are at most this many, so that partial results stay small.
constexpr uint64_t kMostChunks = 1024;
/// Chunks of which there should be this many when they are not too small then, so that threads finish together.
constexpr uint64_t kWantedChunks = 32;
/// Chunks are multiples of this, the largest number of lanes.
constexpr uint64_t kChunkUnit = 16;

static llvm::Function *makeFunction(ModuleEmitter &module, llvm::Type *result, ArrayRef<llvm::Type *> parameters, const llvm::Twine &name) {
  return llvm::Function::Create(llvm::FunctionType::get(result, parameters, false), llvm::GlobalValue::InternalLinkage, name,
                                *module.module);
}

llvm::Function *emitTask(ModuleEmitter &module, ir::TaskOp task, int index) {
  llvm::Type *pointer = llvm::PointerType::get(module.ctx, 0);
  llvm::Function *function = makeFunction(module, llvm::Type::getInt1Ty(module.ctx), {pointer}, "qd_task_" + llvm::Twine(index));
  // What surrounds a parallel loop is short; functions of their own would cost more time to compile than it does.
  if (task.getParallel()) function->addFnAttr(llvm::Attribute::AlwaysInline);
  BodyEmitter body(module, function, 1, module.uniformity.getScalarFacts());
  llvm::IRBuilder<> &builder = body.builder;
  body.task = index;
  body.leaveFailed = [&] { builder.CreateRet(builder.getTrue()); };
  body.leaveKernel = [&](ir::ReturnOp op) {
    llvm::Value *block = body.getContextField(kResult);
    for (auto [i, value] : llvm::enumerate(op.getValues())) {
      if (i >= module.artifact.results.size()) break;
      Type scalar = ir::getScalar(value.getType());
      for (auto [j, component] : llvm::enumerate(Components(body.getValue(value)))) {
        uint64_t offset = module.artifact.results[i].offset + j * uint64_t(module.getByteSize(scalar));
        body.storePlain(scalar, component.value, builder.CreateConstGEP1_64(builder.getInt8Ty(), block, offset));
      }
    }
    builder.CreateRet(builder.getTrue());
  };
  if (module.containsDeep(task.getBody(), [](Operation *op) { return isa<ir::RandomOp>(op); })) {
    body.randomCalls = body.makeSlot(builder.getInt32Ty(), "random.calls");
    builder.CreateStore(builder.getInt32(0), body.randomCalls);
  }
  LogicalResult result = task.getParallel() ? ParallelTask(module, body, task, index).emit() : body.emitBlock(task.getBody().front());
  if (failed(result)) return nullptr;
  if (!body.isTerminated()) builder.CreateRet(builder.getFalse());
  return function;
}

//--- Around the loop ---

LogicalResult ParallelTask::emit() {
  Block &block = task.getBody().front();
  for (Operation &op : block)
    if (auto found = dyn_cast<ir::ForOp>(op); found && found.getParallel()) loop = found;
  if (!loop) return task.emitError("is parallel but has no parallel loop");
  plan = planLoop(module, loop);
  LaneKind many = plan.lanes == 1 ? LaneKind::uniform() : LaneKind::varying();
  LaneKind innermost = many;
  Value step = loop.getStep().empty() ? Value() : loop.getStep().back();
  auto constantStep = step ? step.getDefiningOp<ir::ConstantOp>() : ir::ConstantOp();
  if (plan.lanes > 1 && !plan.perLaneIndices && (!step || constantStep))
    innermost = LaneKind::linear(step ? cast<IntegerAttr>(constantStep.getValue()).getValue().getSExtValue() : 1);
  facts = plan.lanes == 1 ? &module.uniformity.getScalarFacts()
                          : &module.uniformity.analyzeLoop(loop, innermost, plan.perLaneIndices ? many : LaneKind::uniform());
  drawsRandom = module.containsDeep(loop.getBody(), [](Operation *op) { return isa<ir::RandomOp>(op); });

  for (Operation &op : block) {
    if (&op == loop.getOperation()) break;
    if (!isa<ir::AccumulatorOp, ir::PrivateCopyOp>(op) && failed(body.emitOp(&op))) return failure();
  }
  collectReductions();

  // The loop's functions come first: they find out what crosses.
  llvm::Function *plain = nullptr, *copying = nullptr;
  bool hasCopies = llvm::any_of(reductions, [](const Reduction &reduction) { return reduction.isCopy(); });
  llvm::Value *total = builder.getInt64(1);
  for (const Axis &axis : getAxes(body)) total = builder.CreateMul(total, axis.extent);
  llvm::Value *worthwhile = builder.getFalse(), *copySlots = nullptr;
  if (hasCopies) copySlots = getCopySlots(total, worthwhile);
  auto decided = dyn_cast<llvm::ConstantInt>(worthwhile);
  if (!decided || decided->isZero()) plain = emitLoopFunction(/*privateCopies=*/false);
  if (!decided || decided->isOne()) copying = emitLoopFunction(/*privateCopies=*/true);
  if (module.hasFailed || (!plain && !copying)) return failure();
  storeCaptures();

  auto run = [&](llvm::Function *function, llvm::Value *chunkSize, bool copies) {
    llvm::Value *chunks = builder.CreateUDiv(builder.CreateAdd(total, builder.CreateSub(chunkSize, builder.getInt64(1))), chunkSize);
    for (const Reduction &reduction : reductions) {
      llvm::Value *bytes = builder.CreateMul(chunks, builder.getInt64(uint64_t(getBytes(reduction.element))));
      if (reduction.isCopy())
        bytes = builder.CreateMul(bytes, getElementCount(body, body.getTensor(cast<ir::PrivateCopyOp>(reduction.op).getTarget())));
      if (!reduction.isCopy() || copies) allocate(reduction.slot, bytes);
    }
    callParallelFor(function, total, chunkSize);
    llvm::BasicBlock *stop = body.makeBlock("failed"), *next = body.makeBlock("finished");
    builder.CreateCondBr(builder.CreateIsNotNull(body.getContextField(kFailed)), stop, next);
    body.moveTo(stop);
    builder.CreateRet(builder.getTrue());
    body.moveTo(next);
    combineAccumulators(chunks);
    if (copies) mergeCopies(chunks);
  };
  auto runPlain = [&] { run(plain, getChunkSize(total), false); };
  auto runCopying = [&] {
    llvm::Value *size = builder.CreateUDiv(builder.CreateAdd(total, builder.CreateSub(copySlots, builder.getInt64(1))), copySlots);
    size = builder.CreateAnd(builder.CreateAdd(size, builder.getInt64(kChunkUnit)), builder.getInt64(~(kChunkUnit - 1)));
    run(copying, size, true);
  };
  if (decided) {
    plain ? runPlain() : runCopying();
    return success();
  }
  llvm::BasicBlock *few = body.makeBlock("plain"), *copied = body.makeBlock("copies"), *join = body.makeBlock("loop.end");
  builder.CreateCondBr(worthwhile, copied, few);
  body.moveTo(few);
  runPlain();
  builder.CreateBr(join);
  body.moveTo(copied);
  runCopying();
  builder.CreateBr(join);
  body.moveTo(join);
  return success();
}

llvm::SmallVector<ParallelTask::Axis, 4> ParallelTask::getAxes(BodyEmitter &in) {
  llvm::SmallVector<Axis, 4> axes;
  llvm::IRBuilder<> &at = in.builder;
  for (unsigned a = 0; a < loop.getRank(); ++a) {
    Axis axis;
    axis.type = loop.getLower()[a].getType();
    axis.lower = in.getScalar(loop.getLower()[a]);
    llvm::Value *upper = in.getUniform(loop.getUpper()[a]);
    llvm::Type *type = axis.lower.value->getType();
    axis.step = loop.getStep().empty() ? Component{llvm::ConstantInt::get(type, 1)} : in.getScalar(loop.getStep()[a]);
    bool isSigned = axis.type.isSignedInteger();
    auto wide = [&](llvm::Value *value) { return at.CreateIntCast(value, at.getInt64Ty(), isSigned); };
    llvm::Value *low = wide(axis.lower.value), *high = wide(upper), *step = wide(axis.step.value);
    llvm::Value *zero = at.getInt64(0), *one = at.getInt64(1);
    llvm::Value *isDown = isSigned ? at.CreateICmpSLT(step, zero) : at.getFalse();
    llvm::Value *distance = at.CreateSelect(isDown, at.CreateSub(low, high), at.CreateSub(high, low));
    llvm::Value *isEmpty = at.CreateSelect(isDown, isSigned ? at.CreateICmpSLE(low, high) : at.CreateICmpULE(low, high),
                                           isSigned ? at.CreateICmpSGE(low, high) : at.CreateICmpUGE(low, high));
    llvm::Value *length = at.CreateSelect(isDown, at.CreateNeg(step), step);
    length = at.CreateSelect(at.CreateICmpEQ(length, zero), one, length);
    llvm::Value *rounds = distance;
    auto constant = dyn_cast<llvm::ConstantInt>(length);
    if (!constant || !constant->isOne()) rounds = at.CreateUDiv(at.CreateAdd(distance, at.CreateSub(length, one)), length);
    axis.extent = at.CreateSelect(isEmpty, zero, rounds);
    axes.push_back(axis);
  }
  return axes;
}

llvm::Value *ParallelTask::getChunkSize(llvm::Value *total) {
  // Large enough to be worth it, small enough for every thread to get some.
  auto atLeast = [&](llvm::Value *a, llvm::Value *b) { return getLarger(builder, a, b); };
  llvm::Value *grain = builder.getInt64(uint64_t(plan.grain));
  llvm::Value *even = atLeast(builder.CreateUDiv(total, builder.getInt64(kWantedChunks)), builder.getInt64(uint64_t(plan.grain + 7) / 8));
  llvm::Value *size = getSmaller(builder, grain, even);
  size = atLeast(size, builder.CreateUDiv(total, builder.getInt64(kMostChunks)));
  return builder.CreateAnd(builder.CreateAdd(size, builder.getInt64(kChunkUnit)), builder.getInt64(~(kChunkUnit - 1)));
}

void ParallelTask::callParallelFor(llvm::Function *function, llvm::Value *total, llvm::Value *chunkSize) {
  llvm::Value *member = builder.CreateConstGEP1_64(builder.getPtrTy(), body.getContextField(kApi), kParallelFor);
  llvm::Value *routine = builder.CreateAlignedLoad(builder.getPtrTy(), member, llvm::Align(8));
  int threads = module.options.parallel ? int(loop.getMaxThreads().value_or(0)) : 1;
  builder.CreateCall(module.getApiType(kParallelFor), routine,
                     {body.context, function, total, chunkSize, builder.getInt32(uint32_t(threads))});
}

llvm::Value *ParallelTask::getSlotPointer(BodyEmitter &in, uint32_t slot) {
  return in.builder.CreateConstGEP1_64(in.builder.getInt8Ty(), in.getContextField(kScratch), slot);
}

/// Lets the loop's function find what the task defines.
void ParallelTask::setUpResolve(BodyEmitter &in) {
  in.resolve = [this, &in](Value value) -> LogicalResult {
    Operation *op = value.getDefiningOp();
    if (!op || loop->isAncestor(op) || !task->isAncestor(op)) return failure();
    // Into the entry block, which dominates all uses.
    llvm::IRBuilder<>::InsertPointGuard guard(in.builder);
    in.builder.SetInsertPoint(in.function->getEntryBlock().getTerminator());
    llvm::Value *mask = std::exchange(in.mask, nullptr);
    LogicalResult result = failure();
    if (isPure(op) && op->getNumRegions() == 0) {
      result = in.emitOp(op);
    } else if (ir::isValue(value.getType())) {
      auto found = llvm::find_if(captures, [&](const auto &capture) { return capture.first == value; });
      Type scalar = ir::getScalar(value.getType());
      int64_t count = ir::getComponentCount(value.getType()), size = module.getByteSize(scalar);
      if (found == captures.end()) found = captures.insert(captures.end(), {value, module.addScratch(uint32_t(count * size))});
      Components components;
      for (int64_t i = 0; i < count; ++i)
        components.push_back({in.loadPlain(scalar, getSlotPointer(in, found->second + uint32_t(i * size)), /*invariant=*/true)});
      in.setValue(value, std::move(components));
      result = success();
    }
    in.mask = mask;
    return result;
  };
}

void ParallelTask::storeCaptures() {
  for (auto [value, slot] : captures) {
    Type scalar = ir::getScalar(value.getType());
    for (auto [i, component] : llvm::enumerate(Components(body.getValue(value))))
      body.storePlain(scalar, component.value, getSlotPointer(body, slot + uint32_t(int64_t(i) * module.getByteSize(scalar))));
  }
}

//--- The loop ---

llvm::Function *ParallelTask::emitLoopFunction(bool privateCopies) {
  llvm::Type *pointer = llvm::PointerType::get(module.ctx, 0), *i64 = llvm::Type::getInt64Ty(module.ctx);
  llvm::Function *function = makeFunction(module, llvm::Type::getVoidTy(module.ctx), {pointer, i64, i64, i64},
                                          "qd_task_" + llvm::Twine(index) + (privateCopies ? "_copies" : "_loop"));
  BodyEmitter in(module, function, plan.lanes, *facts);
  llvm::BasicBlock *start = in.makeBlock("start");
  in.builder.CreateBr(start);
  in.moveTo(start);
  in.task = index;
  llvm::Value *chunk = function->getArg(3);
  in.leaveFailed = [&] { in.builder.CreateRetVoid(); };
  if (drawsRandom) in.randomCalls = in.makeSlot(in.widen(in.builder.getInt32Ty()), "random.calls");
  setUpResolve(in);
  beginChunk(in, chunk, privateCopies);
  if (failed(emitRuns(in, function->getArg(1), function->getArg(2)))) {
    module.hasFailed = true;
    return nullptr;
  }
  endChunk(in, chunk);
  in.builder.CreateRetVoid();
  return function;
}

LogicalResult ParallelTask::emitRuns(BodyEmitter &in, llvm::Value *begin, llvm::Value *end) {
  llvm::IRBuilder<> &at = in.builder;
  llvm::SmallVector<Axis, 4> axes = getAxes(in);
  if (axes.size() == 1 || plan.perLaneIndices) return emitRun(in, axes, begin, begin, at.CreateSub(end, begin));
  // Row by row: one run is what [begin, end) and a row have in common.
  llvm::Value *slot = in.makeSlot(at.getInt64Ty(), "position");
  at.CreateStore(begin, slot);
  llvm::BasicBlock *header = in.makeBlock("rows"), *row = in.makeBlock("row"), *done = in.makeBlock("rows.end");
  at.CreateBr(header);
  in.moveTo(header);
  llvm::Value *position = at.CreateLoad(at.getInt64Ty(), slot);
  at.CreateCondBr(at.CreateICmpULT(position, end), row, done);
  in.moveTo(row);
  llvm::Value *rest = position, *width = axes.back().extent;
  llvm::Value *column = at.CreateURem(rest, width);
  rest = at.CreateUDiv(rest, width);
  for (size_t a = axes.size() - 1; a-- > 0;) {
    llvm::Value *digit = a == 0 ? rest : at.CreateURem(rest, axes[a].extent);
    if (a > 0) rest = at.CreateUDiv(rest, axes[a].extent);
    llvm::Value *counter = at.CreateTrunc(digit, axes[a].lower.value->getType());
    llvm::Value *value = at.CreateAdd(axes[a].lower.value, at.CreateMul(counter, axes[a].step.value));
    in.setValue(loop.getBody().getArgument(unsigned(a)), {{value}});
  }
  llvm::Value *length = at.CreateBinaryIntrinsic(llvm::Intrinsic::umin, at.CreateSub(width, column), at.CreateSub(end, position));
  if (failed(emitRun(in, axes, position, column, length))) return failure();
  at.CreateStore(at.CreateAdd(position, length), slot);
  at.CreateBr(header);
  in.moveTo(done);
  return success();
}

LogicalResult ParallelTask::emitRun(BodyEmitter &in, ArrayRef<Axis> axes, llvm::Value *first, llvm::Value *column, llvm::Value *length) {
  llvm::IRBuilder<> &at = in.builder;
  llvm::Value *width = at.getInt64(plan.lanes);
  llvm::Value *slot = in.makeSlot(at.getInt64Ty(), "i");
  at.CreateStore(at.getInt64(0), slot);
  llvm::BasicBlock *header = in.makeBlock("vectors"), *full = in.makeBlock("vector"), *next = in.makeBlock("vectors.next");
  llvm::BasicBlock *done = in.makeBlock("vectors.end");
  at.CreateBr(header);
  in.moveTo(header);
  llvm::Value *i = at.CreateLoad(at.getInt64Ty(), slot);
  llvm::Value *rest = at.CreateSub(length, i);
  bool masked = plan.lanes > 1 && !plan.separateTail && !plan.isEven;
  at.CreateCondBr(masked || plan.lanes == 1 ? at.CreateICmpSGT(rest, at.getInt64(0)) : at.CreateICmpSGE(rest, width), full, done);
  in.moveTo(full);
  auto makeMask = [&](llvm::Value *left) {
    llvm::Value *clamped = at.CreateTrunc(at.CreateBinaryIntrinsic(llvm::Intrinsic::umin, left, width), at.getInt32Ty());
    return at.CreateICmpULT(in.toVector({at.getInt32(0), LaneKind::linear(1)}), in.splat(clamped));
  };
  in.mask = masked ? makeMask(rest) : nullptr;
  if (failed(emitIteration(in, axes, at.CreateAdd(first, i), at.CreateAdd(column, i)))) return failure();
  in.branchTo(next);
  in.moveTo(next);
  at.CreateStore(at.CreateAdd(i, width), slot);
  at.CreateBr(header);
  in.moveTo(done);
  in.mask = nullptr;
  if (plan.lanes == 1 || masked || plan.isEven) return success();

  llvm::BasicBlock *tail = in.makeBlock("tail"), *end = in.makeBlock("tail.end");
  at.CreateCondBr(at.CreateICmpSGT(rest, at.getInt64(0)), tail, end);
  in.moveTo(tail);
  in.mask = makeMask(rest);
  if (failed(emitIteration(in, axes, at.CreateAdd(first, i), at.CreateAdd(column, i)))) return failure();
  in.branchTo(end);
  in.moveTo(end);
  in.mask = nullptr;
  return success();
}

/// One vector of iterations: `flat` numbers the first of them in the whole loop, `column` on the innermost axis.
LogicalResult ParallelTask::emitIteration(BodyEmitter &in, ArrayRef<Axis> axes, llvm::Value *flat, llvm::Value *column) {
  llvm::IRBuilder<> &at = in.builder;
  if (drawsRandom) {
    in.iteration = {flat, plan.lanes == 1 ? LaneKind::uniform() : LaneKind::linear(1)};
    at.CreateStore(llvm::Constant::getNullValue(in.widen(at.getInt32Ty())), in.randomCalls);
  }
  if (plan.perLaneIndices) {
    // 32 bits are enough for nearly every loop, and twice as fast.
    std::optional<uint64_t> total = 1;
    for (const Axis &axis : axes) {
      auto extent = dyn_cast<llvm::ConstantInt>(axis.extent);
      total = total && extent && extent->getZExtValue() < (1u << 31) && *total < (1u << 31) ? std::optional(*total * extent->getZExtValue())
                                                                                            : std::nullopt;
    }
    llvm::Type *counterType = total && *total < (1u << 31) ? at.getInt32Ty() : at.getInt64Ty();
    llvm::Value *rest = in.toVector({at.CreateTrunc(flat, counterType), LaneKind::linear(1)});
    for (size_t a = axes.size(); a-- > 0;) {
      llvm::Value *extent = getLarger(at, axes[a].extent, at.getInt64(1));
      extent = in.splat(at.CreateTrunc(extent, counterType));
      llvm::Value *digit = a == 0 ? rest : at.CreateURem(rest, extent);
      if (a > 0) rest = at.CreateUDiv(rest, extent);
      llvm::Value *counter = at.CreateZExtOrTrunc(digit, in.widen(axes[a].lower.value->getType()));
      llvm::Value *value = at.CreateAdd(in.toVector(axes[a].lower), at.CreateMul(counter, in.toVector(axes[a].step)));
      in.setValue(loop.getBody().getArgument(unsigned(a)), {in.makeVarying(value)});
    }
  } else {
    const Axis &axis = axes.back();
    // Lane 0 is an iteration, so its index is in range: saying so lets addresses be computed in 64 bits throughout.
    bool isSigned = axis.type.isSignedInteger();
    llvm::Value *counter = at.CreateTrunc(column, axis.lower.value->getType(), "", /*IsNUW=*/false, isSigned);
    auto step = dyn_cast<llvm::ConstantInt>(axis.step.value);
    Component index;
    if (plan.lanes == 1 || step) {
      llvm::Value *value = at.CreateMul(counter, axis.step.value, "", false, isSigned);
      value = at.CreateAdd(axis.lower.value, value, "", false, isSigned);
      index = {value, plan.lanes == 1 ? LaneKind::uniform() : LaneKind::linear(step->getSExtValue())};
    } else {
      llvm::Value *counters = in.toVector({counter, LaneKind::linear(1)});
      index = in.makeVarying(at.CreateAdd(in.splat(axis.lower.value), at.CreateMul(counters, in.splat(axis.step.value))));
    }
    in.setValue(loop.getBody().getArgument(loop.getRank() - 1), {index});
  }
  llvm::BasicBlock *next = in.makeBlock("iteration.end");
  if (failed(in.emitLoopBody(loop, loop.getBody(), next))) return failure();
  in.moveTo(next);
  return success();
}

} // namespace qd::codegen
