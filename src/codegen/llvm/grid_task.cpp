// grid_task.cpp: the entry of one task on a grid
//
// In:   a qd.task; reductions, columns and thread intrinsics are in the grid_*.cpp files beside this one.
// Out:  one kernel entry, and its DeviceTask: block size, expressions for the sizes of a launch, shared memory.
// A thread takes several iterations at a time (lanes: neighboring rows, or one block's width apart) to wait for many loads at once.
#include "codegen/llvm/grid.h"
#include "ir/attributes.h"
#include "passes/accesses.h"
#include "passes/source_locations.h"
#include "runtime/kernel_abi.h"

#include "llvm/IR/Constants.h"
#include "llvm/IR/InlineAsm.h"

using namespace mlir;

namespace qd::codegen {

/// Loops with at most this many iterations have 32-bit flattened indices; adding a stride of the grid then does not overflow.
constexpr uint64_t kMaxShortIterations = uint64_t(1) << 30;
/// Bodies up to this size take several iterations at a time, so that a thread has this many bytes of loads in flight.
constexpr int64_t kShortBody = 64;
constexpr int64_t kBytesInFlight = 32;
constexpr unsigned kMaxLanes = 4;
/// Bytes that a thread loads for its rows; neighboring rows read much of the same data.
constexpr int64_t kBytesOfRows = 128;
/// Number of threads that fill a large device; shorter loops are better spread over more threads.
constexpr int64_t kFullGrid = 1 << 17;
/// Rows with at least this many iterations start at a cache line, with a new warp.
constexpr int64_t kLongRow = 256;
constexpr unsigned kMaxRows = 8;
/// Maximum number of rows if a thread also takes several columns.
constexpr unsigned kRowsOfColumns = 4;
/// Bodies up to this size are emitted twice: for aligned elements, and for others.
constexpr int64_t kVersionedBody = 1024;
/// Threads per multiprocessor that suffice if each has much work: they then get at least 64 registers.
constexpr unsigned kThreadsWithRegisters = 1024;

void emitGridTask(ModuleEmitter &module, ir::TaskOp task, int index, bool isLast) { GridTask(module, task, index).emit(isLast); }

void GridTask::emit(bool isLast) {
  module.needsManyRegisters = false;
  // More blocks than branches share branches in turn.
  if (auto number = task->getAttrOfType<IntegerAttr>(ir::kStreamBlock))
    deviceTask.branch = uint32_t(number.getInt() - 1) % artifact::DeviceTask::kMaxBranches + 1;
  task.getParallel() ? emitParallel() : emitSerial(isLast);
  // The assembler limits registers for a full multiprocessor, unless this attribute allows fewer threads.
  if (module.needsManyRegisters)
    body->function->addFnAttr("nvvm.minctasm", std::to_string(std::max(1u, kThreadsWithRegisters / blockSize)));
  if (module.containsDeep(task.getBody(), [](Operation *op) {
        auto assertion = dyn_cast<ir::AssertOp>(op);
        return assertion && !assertion.getReports();
      }))
    module.mayHaveFailed = true;
  module.artifact.tasks.push_back(std::move(deviceTask));
}

llvm::Function *GridTask::makeEntry() {
  llvm::LLVMContext &ctx = module.ctx;
  uint64_t bytes = sizeof(QdGpuLaunch) + (module.argumentBytes <= QD_GPU_INLINE_ARGUMENTS ? module.argumentBytes : 0);
  auto *launch = llvm::ArrayType::get(llvm::Type::getInt64Ty(ctx), (bytes + 7) / 8);
  auto *type = llvm::FunctionType::get(llvm::Type::getVoidTy(ctx), {llvm::PointerType::get(ctx, 0)}, false);
  deviceTask.entry = "qd_task_" + std::to_string(index);
  deviceTask.blockSize = blockSize;
  auto *entry = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, deviceTask.entry, *module.module);
  entry->setCallingConv(llvm::CallingConv::PTX_Kernel);
  llvm::AttrBuilder attributes(ctx);
  attributes.addByValAttr(launch);
  attributes.addAlignmentAttr(llvm::Align(8));
  // The parameter is constant: read it in place.
  attributes.addAttribute("nvvm.grid_constant");
  entry->addParamAttrs(0, attributes);
  entry->addFnAttr("nvvm.maxntid", std::to_string(blockSize));
  return entry;
}

/// Number of iterations, or infinity if unknown.
double GridTask::countKnownIterations() {
  double count = 1;
  for (unsigned axis = 0; axis < loop.getRank(); ++axis) count *= double(findRounds(loop, axis).value_or(INT64_MAX));
  return count;
}

/// Begins the entry. For short tasks, the next task may be launched once all blocks have arrived here; it then waits for this task's end
/// itself. That hides the launch latency, but costs each block time: copies with many blocks were 24 % slower.
void GridTask::beginEntry(const BodyFacts &facts) {
  body = std::make_unique<BodyEmitter>(module, makeEntry(), lanes, facts);
  body->task = index;
  body->branch = deviceTask.branch;
  deviceTask.waits = module.traits.hasEarlyLaunch && (!loop || countKnownIterations() <= double(kFullGrid));
  if (!deviceTask.waits) return;
  llvm::IRBuilder<> &at = body->builder;
  auto *type = llvm::FunctionType::get(at.getVoidTy(), false);
  for (const char *code : {"griddepcontrol.launch_dependents;", "griddepcontrol.wait;"})
    at.CreateCall(llvm::InlineAsm::get(type, code, "~{memory}", /*hasSideEffects=*/true));
}

/// Whether an earlier task failed or ended the kernel; null if none can.
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
  deviceTask.maxBlocks = 1;
  deviceTask.iterations.steps.push_back({artifact::LaunchExpr::Step::Kind::Constant, support::ScalarType::I64, 1});
  beginEntry(module.uniformity.getScalarFacts());
  llvm::IRBuilder<> &at = body->builder;
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
  // Store this first, so that the slot is set however the task ends. The slot's old value was checked above.
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

/// Bytes that an iteration loads from containers.
static int64_t countLoadedBytes(ModuleEmitter &module, ir::ForOp loop) {
  int64_t bytes = 0;
  for (ir::LoadOp load : loop.getBody().getOps<ir::LoadOp>())
    if (passes::findRoot(load.getRef()).kind == passes::Root::Kind::Tensor)
      bytes += ir::getComponentCount(load.getType()) * module.getByteSize(ir::getScalar(load.getType()));
  return bytes;
}

/// Chooses several lanes per thread for short bodies without control flow.
void GridTask::chooseLanes() {
  // Private copies are updated and merged one iteration at a time.
  if (llvm::any_of(reductions, [](const Reduction &reduction) { return reduction.isCopy(); })) return;
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
  bool isShort = allStraight && module.getSize(loop.getBody()) <= kShortBody;
  auto choose = [&](int64_t wantedBytes, unsigned maxLanes) {
    if (module.options.lanes) return unsigned(module.options.lanes);
    int64_t fitting = wantedBytes / std::max<int64_t>(countLoadedBytes(module, loop), 1);
    return isShort ? std::clamp(unsigned(llvm::bit_floor(uint64_t(std::max<int64_t>(fitting, 1)))), 1u, maxLanes) : 1;
  };
  bool drawsNumbers = module.containsDeep(loop.getBody(), llvm::IsaPred<ir::RandomOp>);
  if (loop.getRank() >= 2 && !drawsNumbers && findStep(loop, loop.getRank() - 2)) {
    rowAxis = loop.getRank() - 2;
    lanes = choose(kBytesOfRows, kMaxRows);
    auto isTooMany = [&] {
      return findRounds(loop, *rowAxis).value_or(lanes) < lanes ||
             (!module.options.lanes && countKnownIterations() < double(kFullGrid) * lanes);
    };
    while (lanes > 1 && isTooMany()) lanes /= 2;
    columns = lanes > 1 ? countColumns() : 1;
    if (columns > 1) lanes = std::min(lanes, kRowsOfColumns);
  } else {
    lanes = choose(kBytesInFlight, kMaxLanes);
  }
  if (lanes == 1) rowAxis.reset();
}

/// Kinds of the loop's indices between lanes.
LaneKinds GridTask::getIndexKinds() {
  LaneKinds kinds(loop.getRank(), rowAxis ? LaneKind::uniform() : LaneKind::varying());
  std::optional<int64_t> step = findStep(loop, rowAxis.value_or(loop.getRank() - 1));
  if (rowAxis)
    kinds[*rowAxis] = LaneKind::linear(*step);
  else if (loop.getRank() == 1 && step)
    kinds[0] = LaneKind::linear(*step * blockSize);
  return kinds;
}

void GridTask::emitParallel() {
  loop = findLoop(module, task);
  if (!loop) return;
  collectReductions();
  bool isOfBlock = module.isOfBlock(loop);
  if (!isOfBlock) chooseLanes();
  blockSize = unsigned(std::clamp<int64_t>(loop.getBlockDim().value_or(uint32_t(module.options.blockSize)), 1, module.options.maxThreads));
  // Reductions of a block need whole warps.
  if (!reductions.empty()) blockSize = (blockSize + GridThreads::kWarp - 1) / GridThreads::kWarp * GridThreads::kWarp;
  deviceTask.iterations = countIterations(loop, rowAxis, lanes, columns);
  deviceTask.perThread = rowAxis ? 1 : lanes;
  deviceTask.isTogether = isOfBlock && module.containsDeep(loop.getBody(), ir::isGridBarrier);
  if (deviceTask.isTogether && !deviceTask.iterations.isKnown())
    module.reportError(loop.getLoc()) << "qd.simt.grid.sync() needs a loop whose number of iterations is known before the launch";

  const BodyFacts &facts = lanes == 1 ? module.uniformity.getScalarFacts() : module.uniformity.analyzeLoop(loop, getIndexKinds());
  beginEntry(facts);
  threads.emplace(*body);
  body->isInBlock = true;
  uint32_t sharedBefore = module.sharedBytes;
  llvm::IRBuilder<> &at = body->builder;
  artifact::LoopReport &report = module.artifact.loops.emplace_back();
  passes::collectLocations(loop.getLoc(), report.frames);
  report.lanes = lanes * columns;
  for (const Reduction &reduction : reductions) ++(reduction.isCopy() ? report.copies : report.registers);

  for (Operation &op : task.getBody().front()) {
    if (&op == loop.getOperation()) break;
    if (!isa<ir::AccumulatorOp, ir::PrivateCopyOp>(op)) body->emitOp(&op);
  }
  drawsRandom = setUpRandom(*body, loop.getBody());
  axes = getAxes(*body, loop);
  // A failing check on the device would make every launch wait for it; the host rejects such launches if it can compute the bounds.
  llvm::Value *tooMany = hasTooManyIterations(*body, loop, axes);
  alignRows();
  llvm::Value *count = countSteps();
  if (tooMany) count = at.CreateSelect(tooMany, at.getInt64(INT64_MAX), count);
  // Threads without iterations still take part in the block's barriers.
  if (llvm::Value *stopped = hasStopped()) count = at.CreateSelect(stopped, at.getInt64(0), count);
  auto constant = dyn_cast<llvm::ConstantInt>(count);
  total = constant && constant->getZExtValue() <= kMaxShortIterations ? at.CreateTrunc(count, at.getInt32Ty()) : count;

  isAligned = findAlignedElements();
  beginSums();
  llvm::Value *worthCopying = isWorthCopying(count);
  if (auto decided = dyn_cast<llvm::ConstantInt>(worthCopying))
    emitVersions(decided->isOne());
  else
    body->emitWhen(worthCopying, "copies", [&] { emitVersions(true); }, [&] { emitVersions(false); });
  endSums();
  at.CreateRetVoid();
  constexpr uint32_t kMaxSharedBytes = 48 << 10;
  if (uint32_t bytes = module.sharedBytes - sharedBefore; bytes > kMaxSharedBytes)
    module.reportError(loop.getLoc()) << "the shared arrays of this loop take " << bytes << " bytes, a block has " << kMaxSharedBytes;
}

/// Starts rows at a multiple of the warp size: if the lower bound is no such multiple, idle threads take the columns before it. The other
/// threads then access whole cache lines, if the container's rows start at one.
void GridTask::alignRows() {
  if (!rowAxis || findRounds(loop, loop.getRank() - 1).value_or(kLongRow) < kLongRow) return;
  Axis &axis = axes.back();
  auto *lower = dyn_cast<llvm::ConstantInt>(axis.lower.value);
  if (!lower || findStep(loop, loop.getRank() - 1) != 1) return;
  idleColumns = uint64_t(lower->getSExtValue()) % (GridThreads::kWarp * columns);
  axis.lower.value = llvm::ConstantInt::get(lower->getType(), uint64_t(lower->getSExtValue()) - idleColumns);
  axis.extent = body->builder.CreateAdd(axis.extent, body->builder.getInt64(idleColumns));
}

/// Number of steps that threads take in turn: iterations, or groups of rows and columns.
llvm::Value *GridTask::countSteps() {
  llvm::IRBuilder<> &at = body->builder;
  llvm::Value *count = at.getInt64(1);
  for (unsigned axis = 0; axis < axes.size(); ++axis) count = at.CreateMul(count, getGroups(axis));
  return count;
}

/// Number of groups of iterations along an axis that a thread takes at a time.
llvm::Value *GridTask::getGroups(unsigned axis) {
  llvm::IRBuilder<> &at = body->builder;
  unsigned size = axis == rowAxis ? lanes : axis + 1 == axes.size() ? columns : 1;
  llvm::Value *extent = axes[axis].extent;
  return size == 1 ? extent : at.CreateUDiv(at.CreateAdd(extent, at.getInt64(size - 1)), at.getInt64(size));
}

/// Bytes of an element that one access can load: vectors of two or four components. 0: other elements.
static int64_t getWideAccessBytes(ModuleEmitter &module, ir::TensorType type) {
  Type scalar = ir::getScalar(type.getElement());
  int64_t count = ir::getComponentCount(type.getElement()), size = module.getByteSize(scalar), bytes = count * size;
  auto isMultiple = [&](int64_t stride) { return stride != layout::kDynamic && stride % bytes == 0; };
  bool isWhole = (count == 2 || count == 4) && bytes <= 16 && !scalar.isInteger(1) && type.getComponentStride() == size;
  isWhole &= llvm::all_of(ir::getTilings(type), [&](const layout::Tiling &tiling) { return isMultiple(tiling.jump); });
  return isWhole && (type.isPacked() || llvm::all_of(type.getStrides(), isMultiple)) ? bytes : 0;
}

/// Whether all containers with elements wider than a scalar access are aligned; arrays of other libraries may not be. Null: there are no
/// such containers.
llvm::Value *GridTask::findAlignedElements() {
  llvm::IRBuilder<> &at = body->builder;
  // Shared arrays would be allocated twice.
  if (module.isOfBlock(loop) || module.getSize(loop.getBody()) > kVersionedBody) return nullptr;
  llvm::Value *misaligned = nullptr;
  if (columns > 1) findAlignedRows(misaligned);
  loop.getBody().walk([&](ir::ElementOp element) {
    Value container = element.getTensor();
    if (auto copy = container.getDefiningOp<ir::PrivateCopyOp>()) container = copy->getOperand(0);
    int64_t bytes =
        container.getDefiningOp<ir::TensorArgumentOp>() ? getWideAccessBytes(module, cast<ir::TensorType>(container.getType())) : 0;
    if (!bytes || alignedTensors.contains(container)) return;
    Tensor tensor = body->getTensor(container);
    llvm::Value *low = at.CreateAnd(at.CreatePtrToInt(tensor.data, at.getInt64Ty()), at.getInt64(uint64_t(bytes - 1)));
    misaligned = misaligned ? at.CreateOr(misaligned, low) : low;
    tensor.alignment = bytes;
    alignedTensors[container] = tensor;
  });
  return misaligned ? at.CreateIsNull(misaligned) : nullptr;
}

/// Emits the loop, in two versions if aligned containers allow accesses to whole elements or to several.
void GridTask::emitVersions(bool sharedCopies) {
  if (!isAligned) return emitLoop(sharedCopies);
  auto emitAligned = [&] {
    for (auto &[container, tensor] : alignedTensors) body->setTensor(container, tensor);
    hasAligned = true;
    emitLoop(sharedCopies);
    hasAligned = false;
    for (auto &[container, tensor] : alignedTensors) {
      Tensor plain = tensor;
      plain.alignment = plain.rowAlignment = 0;
      body->setTensor(container, plain);
    }
  };
  body->emitWhen(isAligned, "aligned", emitAligned, [&] { emitLoop(sharedCopies); });
}

/// Emits all iterations of this thread: in strides of `blockSize * lanes` per block, where consecutive lanes are `blockSize` apart.
void GridTask::emitLoop(bool sharedCopies) {
  llvm::IRBuilder<> &at = body->builder;
  beginCopies(sharedCopies);
  llvm::Type *type = total->getType();
  auto number = [&](uint64_t value) { return llvm::ConstantInt::get(type, value); };
  llvm::Value *span = number(blockSize * deviceTask.perThread);
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
  // Only here: LLVM could move invariant loads before the wait at the entry.
  module.hasReadOnlyLoads = true;
  rowAxis ? emitRows(flat) : emitIteration(flat);
  module.hasReadOnlyLoads = false;
  at.CreateStore(at.CreateAdd(flat, stride, "", /*HasNUW=*/true), slot);
  // Do not unroll: `chooseLanes` chooses the number of iterations per round.
  body->setUnrolling(at.CreateBr(header), 1);
  body->moveTo(rest);
  if (deviceTask.perThread > 1) {
    llvm::Value *numbers = body->toVector({flat, LaneKind::linear(blockSize)});
    body->mask = at.CreateICmpULT(numbers, body->splat(total));
    body->emitWhen(at.CreateICmpULT(flat, total), "masked", [&] { emitIteration(flat); });
    body->mask = nullptr;
  }
  body->continueAt(done);
  body->leaveFailed = leaveFailed;
  if (sharedCopies) endCopies();
}

/// Flattened index of the last lane's iteration.
llvm::Value *GridTask::getLast(llvm::Value *flat) {
  if (deviceTask.perThread == 1) return flat;
  return body->builder.CreateAdd(flat, llvm::ConstantInt::get(flat->getType(), blockSize * (lanes - 1)), "", /*HasNUW=*/true);
}

void GridTask::emitIteration(llvm::Value *flat) {
  llvm::IRBuilder<> &at = body->builder;
  if (drawsRandom) {
    body->iteration = {at.CreateZExt(flat, at.getInt64Ty()), lanes == 1 ? LaneKind::uniform() : LaneKind::linear(blockSize)};
    at.CreateStore(llvm::Constant::getNullValue(body->widen(at.getInt32Ty())), body->randomCalls);
  }
  setIndices(flat);
  emitBody();
}

/// Emits the iterations of neighboring rows. The last group may have fewer rows.
void GridTask::emitRows(llvm::Value *flat) {
  llvm::IRBuilder<> &at = body->builder;
  llvm::SmallVector<llvm::Value *, 4> digits = getDigits(flat);
  auto number = [&](uint64_t value) { return llvm::ConstantInt::get(flat->getType(), value); };
  llvm::Value *first = digits[*rowAxis] = at.CreateMul(digits[*rowAxis], number(lanes), "", /*HasNUW=*/true);
  llvm::Value *rows = at.CreateTrunc(axes[*rowAxis].extent, flat->getType());
  LaneKinds kinds = getIndexKinds();
  for (unsigned axis = 0; axis < axes.size(); ++axis)
    if (columns == 1 || axis + 1 < axes.size()) setIndex(axis, digits[axis], kinds[axis]);
  auto emitSome = [&] {
    body->mask = at.CreateICmpULT(body->toVector({first, LaneKind::linear(1)}), body->splat(rows));
    emitBody();
    body->mask = nullptr;
  };
  auto constant = dyn_cast<llvm::ConstantInt>(rows);
  bool isEven = constant && constant->getZExtValue() % lanes == 0;
  llvm::Value *allRows = isEven ? at.getTrue() : at.CreateICmpULE(at.CreateAdd(first, number(lanes), "", /*HasNUW=*/true), rows);
  if (columns > 1) return emitColumns(digits.back(), allRows, emitSome);
  auto emitAll = [&] { isEven ? emitBody() : body->emitWhen(allRows, "rows", [&] { emitBody(); }, emitSome); };
  idleColumns ? body->emitWhen(at.CreateICmpUGE(digits.back(), number(idleColumns)), "column", emitAll) : emitAll();
}

void GridTask::emitBody() {
  llvm::BasicBlock *next = body->makeBlock("iteration.end");
  body->emitLoopBody(loop, loop.getBody(), next);
  body->moveTo(next);
}

llvm::SmallVector<llvm::Value *, 4> GridTask::getDigits(llvm::Value *numbers) {
  llvm::IRBuilder<> &at = body->builder;
  llvm::SmallVector<llvm::Value *, 4> extents;
  for (unsigned axis = 0; axis < axes.size(); ++axis) {
    // Empty loops never run this, but a division by a constant extent of 0 would be undefined.
    llvm::Value *extent = at.CreateTrunc(getUnsignedMax(at, getGroups(axis), at.getInt64(1)), total->getType());
    extents.push_back(numbers->getType()->isVectorTy() ? body->splat(extent) : extent);
  }
  return unflatten(at, numbers, extents);
}

/// The index is in range: the no-wrap flags let LLVM compute addresses in 64 bits.
void GridTask::setIndex(unsigned axis, llvm::Value *counter, LaneKind kind) {
  llvm::IRBuilder<> &at = body->builder;
  const auto &[lower, step, extent, type] = axes[axis];
  bool isSigned = type.isSignedInteger();
  llvm::Value *offset = at.CreateMul(at.CreateZExtOrTrunc(counter, lower.value->getType()), step.value, "", false, isSigned);
  body->setValue(loop.getBody().getArgument(axis), {{at.CreateAdd(lower.value, offset, "", false, isSigned), kind}});
}

void GridTask::setIndices(llvm::Value *flat) {
  llvm::IRBuilder<> &at = body->builder;
  LaneKinds kinds = getIndexKinds();
  if (lanes == 1) {
    for (auto [axis, digit] : llvm::enumerate(getDigits(flat))) setIndex(unsigned(axis), digit, LaneKind::uniform());
    return;
  }
  if (kinds[0].isScalar()) return setIndex(0, flat, kinds[0]);
  llvm::Value *numbers = body->toVector({flat, LaneKind::linear(blockSize)});
  for (auto [a, digit] : llvm::enumerate(getDigits(numbers))) {
    llvm::Value *counter = at.CreateZExtOrTrunc(digit, body->widen(axes[a].lower.value->getType()));
    llvm::Value *value = at.CreateAdd(body->toVector(axes[a].lower), at.CreateMul(counter, body->toVector(axes[a].step)));
    body->setValue(loop.getBody().getArgument(unsigned(a)), {body->makeVarying(value)});
  }
}

} // namespace qd::codegen
