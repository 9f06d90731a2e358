#include "codegen/llvm/grid.h"
#include "ir/attributes.h"
#include "passes/accesses.h"
#include "passes/source_places.h"
#include "runtime/kernel_abi.h"

#include "llvm/IR/Constants.h"

using namespace mlir;

namespace qd::codegen {

/// Loops of at most this many iterations are numbered in 32 bits; a stride of the grid beyond them still fits.
constexpr uint64_t kMostShortIterations = uint64_t(1) << 30;
/// Bodies of at most this many operations take several iterations at a time, so that a thread waits for this many bytes at once.
constexpr int64_t kShortBody = 64;
constexpr int64_t kBytesInFlight = 32;
constexpr unsigned kMostLanes = 4;

void emitGridTask(ModuleEmitter &module, ir::TaskOp task, int index, bool isLast) { GridTask(module, task, index).emit(isLast); }

void GridTask::emit(bool isLast) {
  task.getParallel() ? emitParallel() : emitSerial(isLast);
  if (module.containsDeep(task.getBody(), [](Operation *op) {
        auto assertion = dyn_cast<ir::AssertOp>(op);
        return assertion && !assertion.getReports();
      }))
    module.mayHaveFailed = true;
  module.artifact.tasks.push_back(std::move(plan));
}

llvm::Function *GridTask::makeEntry() {
  llvm::LLVMContext &ctx = module.ctx;
  uint64_t bytes = sizeof(QdGpuLaunch) + (module.argumentBytes <= QD_GPU_INLINE_ARGUMENTS ? module.argumentBytes : 0);
  auto *launch = llvm::ArrayType::get(llvm::Type::getInt64Ty(ctx), (bytes + 7) / 8);
  auto *type = llvm::FunctionType::get(llvm::Type::getVoidTy(ctx), {llvm::PointerType::get(ctx, 0)}, false);
  plan.entry = "qd_task_" + std::to_string(index);
  plan.blockSize = blockSize;
  auto *entry = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, plan.entry, *module.module);
  entry->setCallingConv(llvm::CallingConv::PTX_Kernel);
  llvm::AttrBuilder attributes(ctx);
  attributes.addByValAttr(launch);
  attributes.addAlignmentAttr(llvm::Align(8));
  // Read where it lies: nobody changes it.
  attributes.addAttribute("nvvm.grid_constant");
  entry->addParamAttrs(0, attributes);
  entry->addFnAttr("nvvm.maxntid", std::to_string(blockSize));
  return entry;
}

/// Whether an earlier task failed or ended the kernel; null when none can.
llvm::Value *GridTask::hasStopped() {
  llvm::IRBuilder<> &at = body->builder;
  llvm::Value *stopped = nullptr;
  if (module.mayHaveFailed) stopped = at.CreateIsNotNull(body->getContextField(kFailed));
  if (module.endSlot) {
    llvm::Value *slot = body->offsetBy(body->getContextField(kScratch), *module.endSlot);
    llvm::Value *ended = at.CreateIsNotNull(at.CreateAlignedLoad(at.getInt32Ty(), slot, llvm::Align(4)));
    stopped = stopped ? at.CreateOr(stopped, ended) : ended;
  }
  return stopped;
}

//--- Serial tasks: one thread ---

void GridTask::emitSerial(bool isLast) {
  plan.mostBlocks = 1;
  plan.iterations.steps.push_back({artifact::HostNumber::Step::Kind::Constant, support::ScalarType::I64, 1});
  body = std::make_unique<BodyEmitter>(module, makeEntry(), 1, module.uniformity.getScalarFacts());
  llvm::IRBuilder<> &at = body->builder;
  body->task = index;
  llvm::BasicBlock *end = body->makeBlock("end");
  if (llvm::Value *stopped = hasStopped()) {
    llvm::BasicBlock *start = body->makeBlock("start");
    at.CreateCondBr(stopped, end, start);
    body->moveTo(start);
  }
  body->leaveFailed = [&] { at.CreateBr(end); };
  bool mayEnd = !isLast && task.walk([](ir::ReturnOp) { return WalkResult::interrupt(); }).wasInterrupted();
  if (mayEnd && !module.endSlot) module.endSlot = module.addScratch(4);
  auto storeEnd = [&](uint32_t hasEnded) {
    if (!mayEnd) return;
    llvm::Value *slot = body->offsetBy(body->getContextField(kScratch), *module.endSlot);
    at.CreateAlignedStore(at.getInt32(hasEnded), slot, llvm::Align(4));
  };
  // First: whatever way the task is left, the slot says something. An earlier task that ended the kernel has been looked at above.
  storeEnd(0);
  setUpReturns(*body, [&] {
    storeEnd(1);
    at.CreateBr(end);
  });
  setUpRandom(*body, task.getBody());
  body->emitBlock(task.getBody().front());
  body->continueAt(end);
  at.CreateRetVoid();
}

//--- Parallel tasks ---

/// Bytes that an iteration reads from containers.
static int64_t countLoadedBytes(ModuleEmitter &module, ir::ForOp loop) {
  int64_t bytes = 0;
  for (ir::LoadOp load : loop.getBody().getOps<ir::LoadOp>())
    if (passes::findRoot(load.getRef()).kind == passes::Root::Kind::Tensor)
      bytes += ir::getComponentCount(load.getType()) * module.getByteSize(ir::getScalar(load.getType()));
  return bytes;
}

/// Several iterations of a thread side by side, where they are short and straight.
unsigned GridTask::chooseLanes() {
  // What is copied is updated, and merged, one by one.
  if (llvm::any_of(reductions, [](const Reduction &reduction) { return reduction.isCopy(); })) return 1;
  if (module.options.lanes) return unsigned(module.options.lanes);
  auto isStraight = [&](Operation *op) {
    if (auto atomic = dyn_cast<ir::AtomicOp>(op)) {
      Value ref = atomic.getRef();
      while (auto component = ref.getDefiningOp<ir::ComponentOp>()) ref = component.getRef();
      return bool(ref.getDefiningOp<ir::AccumulatorOp>());
    }
    if (op->hasAttr(ir::kVolatile)) return false;
    return !isa<ir::IfOp, ir::ForOp, ir::WhileOp, ir::CallOp, ir::RandomOp, ir::PrintOp, ir::AssertOp, ir::CompareExchangeOp,
                ir::ContinueOp, ir::BreakOp, ir::ExtractAtOp>(op);
  };
  bool allStraight = llvm::all_of(loop.getBody().front(), [&](Operation &op) { return isStraight(&op); });
  if (!allStraight || module.getSize(loop.getBody()) > kShortBody) return 1;
  int64_t wanted = kBytesInFlight / std::max<int64_t>(countLoadedBytes(module, loop), 1);
  return std::clamp(unsigned(llvm::bit_floor(uint64_t(std::max<int64_t>(wanted, 1)))), 1u, kMostLanes);
}

void GridTask::emitParallel() {
  loop = findLoop(module, task);
  if (!loop) return;
  collectReductions();
  bool isOfBlock = module.isOfBlock(loop);
  lanes = isOfBlock ? 1 : chooseLanes();
  blockSize = unsigned(std::clamp<int64_t>(loop.getBlockDim().value_or(uint32_t(module.options.blockSize)), 1, module.options.mostThreads));
  // Warps take part as a whole in what a block combines.
  if (!reductions.empty()) blockSize = (blockSize + GridThreads::kWarp - 1) / GridThreads::kWarp * GridThreads::kWarp;
  plan.iterations = countIterations(loop);
  plan.perThread = lanes;

  LaneKind many = lanes == 1 ? LaneKind::uniform() : LaneKind::varying(), innermost = many;
  std::optional<int64_t> step = loop.getStep().empty() ? std::optional<int64_t>(1) : ir::findInteger(loop.getStep().back());
  if (lanes > 1 && loop.getRank() == 1 && step) innermost = LaneKind::linear(*step * blockSize);
  const BodyFacts &facts = lanes == 1 ? module.uniformity.getScalarFacts() : module.uniformity.analyzeLoop(loop, innermost, many);
  body = std::make_unique<BodyEmitter>(module, makeEntry(), lanes, facts);
  threads.emplace(*body);
  body->isInBlock = true;
  uint32_t sharedBefore = module.sharedBytes;
  llvm::IRBuilder<> &at = body->builder;
  body->task = index;
  artifact::LoopReport &report = module.artifact.loops.emplace_back();
  passes::collectPlaces(loop.getLoc(), report.frames);
  report.lanes = lanes;
  for (const Reduction &reduction : reductions) ++(reduction.isCopy() ? report.copies : report.registers);

  for (Operation &op : task.getBody().front()) {
    if (&op == loop.getOperation()) break;
    if (!isa<ir::AccumulatorOp, ir::PrivateCopyOp>(op)) body->emitOp(&op);
  }
  drawsRandom = setUpRandom(*body, loop.getBody());
  axes = getAxes(*body, loop);
  llvm::Value *count = at.getInt64(1);
  for (const Axis &axis : axes) count = at.CreateMul(count, axis.extent);
  // Threads without iterations still take part in what blocks do together.
  if (llvm::Value *stopped = hasStopped()) count = at.CreateSelect(stopped, at.getInt64(0), count);
  auto constant = dyn_cast<llvm::ConstantInt>(count);
  total = constant && constant->getZExtValue() <= kMostShortIterations ? at.CreateTrunc(count, at.getInt32Ty()) : count;

  beginSums();
  llvm::Value *worthCopying = isWorthCopying(count);
  if (auto decided = dyn_cast<llvm::ConstantInt>(worthCopying))
    emitLoop(decided->isOne());
  else
    body->emitWhen(worthCopying, "copies", [&] { emitLoop(true); }, [&] { emitLoop(false); });
  endSums();
  at.CreateRetVoid();
  constexpr uint32_t kMostSharedBytes = 48 << 10;
  if (uint32_t bytes = module.sharedBytes - sharedBefore; bytes > kMostSharedBytes)
    module.reportError(loop.getLoc()) << "the shared arrays of this loop take " << bytes << " bytes, a block has " << kMostSharedBytes;
}

/// All iterations of this thread: block after block of `blockSize * lanes`, in which each lane is `blockSize` further on.
void GridTask::emitLoop(bool sharedCopies) {
  llvm::IRBuilder<> &at = body->builder;
  beginCopies(sharedCopies);
  llvm::Type *type = total->getType();
  auto number = [&](uint64_t value) { return llvm::ConstantInt::get(type, value); };
  llvm::Value *span = number(blockSize * lanes);
  llvm::Value *first = at.CreateMul(at.CreateZExt(threads->getBlock(), type), span, "", /*HasNUW=*/true);
  llvm::Value *stride = at.CreateMul(at.CreateZExt(threads->getBlockCount(), type), span, "", /*HasNUW=*/true);
  llvm::Value *slot = body->makeSlot(type, "flat");
  at.CreateStore(at.CreateAdd(first, at.CreateZExt(threads->getThread(), type), "", /*HasNUW=*/true), slot);
  llvm::BasicBlock *header = body->makeBlock("strides"), *full = body->makeBlock("stride"), *rest = body->makeBlock("rest"),
                   *done = body->makeBlock("strides.end");
  auto leaveFailed = std::exchange(body->leaveFailed, [&at, done] { at.CreateBr(done); });
  body->continueAt(header);
  llvm::Value *flat = at.CreateLoad(type, slot);
  at.CreateCondBr(at.CreateICmpULT(getLast(flat), total), full, rest);
  body->moveTo(full);
  emitIteration(flat);
  at.CreateStore(at.CreateAdd(flat, stride, "", /*HasNUW=*/true), slot);
  // The body is as long as it should be: `chooseLanes` has seen to that.
  body->setUnrolling(at.CreateBr(header), 1);
  body->moveTo(rest);
  if (lanes > 1) {
    llvm::Value *numbers = body->toVector({flat, LaneKind::linear(blockSize)});
    body->mask = at.CreateICmpULT(numbers, body->splat(total));
    body->emitWhen(at.CreateICmpULT(flat, total), "masked", [&] { emitIteration(flat); });
    body->mask = nullptr;
  }
  body->continueAt(done);
  body->leaveFailed = leaveFailed;
  if (sharedCopies) endCopies();
}

/// The iteration of the last lane.
llvm::Value *GridTask::getLast(llvm::Value *flat) {
  if (lanes == 1) return flat;
  return body->builder.CreateAdd(flat, llvm::ConstantInt::get(flat->getType(), blockSize * (lanes - 1)), "", /*HasNUW=*/true);
}

void GridTask::emitIteration(llvm::Value *flat) {
  llvm::IRBuilder<> &at = body->builder;
  if (drawsRandom) {
    body->iteration = {at.CreateZExt(flat, at.getInt64Ty()), lanes == 1 ? LaneKind::uniform() : LaneKind::linear(blockSize)};
    at.CreateStore(llvm::Constant::getNullValue(body->widen(at.getInt32Ty())), body->randomCalls);
  }
  setIndices(flat);
  llvm::BasicBlock *next = body->makeBlock("iteration.end");
  body->emitLoopBody(loop, loop.getBody(), next);
  body->moveTo(next);
}

void GridTask::setIndices(llvm::Value *flat) {
  llvm::IRBuilder<> &at = body->builder;
  if (axes.size() == 1) {
    const Axis &axis = axes.front();
    llvm::Type *type = axis.lower.value->getType();
    // An iteration's index is in range: saying so lets addresses be computed in 64 bits throughout.
    bool isSigned = axis.type.isSignedInteger();
    llvm::Value *counter = at.CreateZExtOrTrunc(flat, type);
    auto step = dyn_cast<llvm::ConstantInt>(axis.step.value);
    Component index;
    if (lanes == 1 || step) {
      llvm::Value *value = at.CreateAdd(axis.lower.value, at.CreateMul(counter, axis.step.value, "", false, isSigned), "", false, isSigned);
      index = {value, lanes == 1 ? LaneKind::uniform() : LaneKind::linear(step->getSExtValue() * blockSize)};
    } else {
      llvm::Value *counters = body->toVector({counter, LaneKind::linear(blockSize)});
      index = body->makeVarying(at.CreateAdd(body->splat(axis.lower.value), at.CreateMul(counters, body->splat(axis.step.value))));
    }
    body->setValue(loop.getBody().getArgument(0), {index});
    return;
  }
  // Empty loops never come here, but their extents are divided by all the same.
  llvm::SmallVector<llvm::Value *, 4> extents;
  for (const Axis &axis : axes)
    extents.push_back(body->splat(at.CreateTrunc(getLarger(at, axis.extent, at.getInt64(1)), total->getType())));
  llvm::Value *numbers = lanes == 1 ? flat : body->toVector({flat, LaneKind::linear(blockSize)});
  for (auto [a, digit] : llvm::enumerate(unflatten(at, numbers, extents))) {
    llvm::Value *counter = at.CreateZExtOrTrunc(digit, body->widen(axes[a].lower.value->getType()));
    llvm::Value *value = at.CreateAdd(body->toVector(axes[a].lower), at.CreateMul(counter, body->toVector(axes[a].step)));
    body->setValue(loop.getBody().getArgument(unsigned(a)), {body->makeVarying(value)});
  }
}

} // namespace qd::codegen
