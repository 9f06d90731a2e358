// task.cpp: the entry of one task on a grid
//
// In:   a qd.task; reductions, columns and thread intrinsics are in the files beside this one.
// Out:  one kernel entry, and its DeviceTask: block size, expressions for the sizes of a launch, shared memory.
// shape.cpp chooses how threads divide the iterations; emission follows it.
#include "codegen/llvm/grid/task.h"
#include "ir/attributes.h"
#include "ir/gates.h"
#include "passes/source_locations.h"
#include "runtime/kernel_abi.h"

#include "llvm/IR/Constants.h"

using namespace mlir;

namespace qd::codegen {

/// Loops with at most this many iterations have 32-bit flattened indices; adding a stride of the grid then does not overflow.
constexpr uint64_t kMaxShortIterations = uint64_t(1) << 30;
/// Rows with at least this many iterations start at a cache line, with a new subgroup.
constexpr int64_t kLongRow = 256;
/// Bodies up to this size are repeated for each of a thread's iterations that follow each other.
constexpr int64_t kUnrolledBody = 256;
/// Bodies up to this size are emitted twice: for aligned elements, and for others.
constexpr int64_t kVersionedBody = 1024;

/// Threads per multiprocessor that hide latency if each has many loads in flight: 64 registers each. A task with more operations has 128:
/// with 64 it would spill, with 255 too few threads would run. On an H100, steps of a rigid-body simulator took 1.2 times as long. Where
/// threads wait at barriers for a few others, more blocks are worth spills: with 64 registers its task of that kind takes 0.7 times as
/// long.
constexpr unsigned kManyThreads = 1024, kFewThreads = 512;
/// Operations of a task that has many loops, and of one to which the assembler gives more than 128 registers unless it is told otherwise.
constexpr int64_t kLongTask = 256, kHugeTask = 1024;
/// Of a large device.
constexpr double kMultiprocessors = 128;
/// Operations that take less time than the start of a block.
constexpr int64_t kLightBody = 32;

void emitGridTask(ModuleEmitter &module, ir::TaskOp task, int index, bool isLast) { GridTask(module, task, index).emit(isLast); }

artifact::Branch findBranch(Operation *op) {
  auto number = op->getAttrOfType<IntegerAttr>(ir::kStreamBlock);
  if (!number) return {};
  // More blocks than branches share branches in turn.
  return {uint32_t(uint32_t(number.getInt()) - 1) % artifact::DeviceTask::kMaxBranches + 1, uint32_t(number.getInt() >> 32)};
}

void GridTask::emit(bool isLast) {
  module.grids.needsManyRegisters = false;
  module.grids.isLongTask = module.functions.getSize(task.getBody()) > kLongTask;
  deviceTask.branch = findBranch(task);
  task.getParallel() ? emitParallel() : emitSerial(isLast);
  if (auto registers = loop ? loop->getAttrOfType<IntegerAttr>(ir::kMaxRegisters) : IntegerAttr())
    module.grid->limitRegisters(*body->function, unsigned(registers.getInt()));
  if (unsigned threads = countUsefulThreads()) module.grid->preferRegisters(*body->function, shape.blockSize, threads);
  if (module.calls.contains(task.getBody(), [](Operation *op) {
        auto assertion = dyn_cast<ir::AssertOp>(op);
        return assertion && !assertion.getReports();
      }))
    module.grids.mayHaveFailed = true;
  module.artifact.tasks.push_back(std::move(deviceTask));
}

static bool isBarrier(Operation *op) { return isa<ir::BarrierOp>(op); }

/// Operations under conditions that enclose no barrier, with those of called functions: threads of a block may wait while others run them.
static int64_t countConditional(ModuleEmitter &module, Region &region, llvm::DenseSet<Operation *> &seen) {
  int64_t count = 0;
  for (Operation &op : region.getOps()) {
    ir::FuncOp callee = module.calls.lookup(&op);
    if (callee && seen.insert(callee).second) count += countConditional(module, callee.getBody(), seen);
    for (Region &inner : op.getRegions()) {
      bool isWhole = isa<ir::IfOp, ir::WhileOp>(op) && !module.calls.contains(inner, isBarrier);
      count += isWhole ? module.functions.getSize(inner) : countConditional(module, inner, seen);
    }
  }
  return count;
}

/// Whether subgroups of a block wait for each other, and most of the work is that of some threads.
bool GridTask::waitsAtBarriers() {
  if (shape.blockSize <= module.traits.subgroupSize || !module.calls.contains(task.getBody(), isBarrier)) return false;
  llvm::DenseSet<Operation *> seen;
  return 2 * countConditional(module, task.getBody(), seen) > module.functions.getSize(task.getBody());
}

/// Threads that a multiprocessor should have room for: as many as the loop asks for, or fewer if more registers would help each of them.
/// Long bodies need more registers than many threads leave, and a short grid has no more threads. 0: the assembler decides.
unsigned GridTask::countUsefulThreads() {
  auto blocks = loop ? loop->getAttrOfType<IntegerAttr>(ir::kResidentBlocks) : IntegerAttr();
  if (blocks) return unsigned(blocks.getInt()) * shape.blockSize;
  bool isHuge = module.functions.getSize(task.getBody()) > kHugeTask;
  bool isSmall = module.grid->savesRegisters() && shape.isBrief;
  if (!module.grids.needsManyRegisters && !isHuge && !isSmall) return 0;
  unsigned threads = module.grids.isLongTask && !waitsAtBarriers() ? kFewThreads : kManyThreads;
  return unsigned(std::min(double(threads), std::max(shape.iterations / kMultiprocessors, 1.0)));
}

/// Blocks that take several rounds reach elements far apart at the same time: the planes of a stencil would leave the cache before the next
/// ones need them (1.20 instead of 0.68 ms for 512³ f64). Neighbors in rows stay there.
void GridTask::chooseRounds() {
  llvm::DenseMap<Value, ir::ElementOp> reached;
  bool isAtOnePlace = true;
  loop.getBody().walk([&](ir::ElementOp element) {
    auto [first, isNew] = reached.try_emplace(element.getTensor(), element);
    isAtOnePlace &= isNew || first->second->getOperands() == element->getOperands();
  });
  deviceTask.takesRounds = isAtOnePlace || loop.getRank() == 2;
  deviceTask.isLight = module.functions.getEmittedSize(loop.getBody()) <= kLightBody &&
                       !module.calls.contains(loop.getBody(), llvm::IsaPred<ir::ForOp, ir::WhileOp>);
}

llvm::Function *GridTask::makeEntry() {
  llvm::LLVMContext &ctx = module.ctx;
  uint64_t bytes = sizeof(QdGpuLaunch) + (module.hasInlineArguments() ? module.argumentBytes : 0);
  auto *type = llvm::FunctionType::get(llvm::Type::getVoidTy(ctx), {llvm::PointerType::get(ctx, module.spaces.launch)}, false);
  deviceTask.entry = "qd_task_" + std::to_string(index);
  deviceTask.blockSize = shape.blockSize;
  auto *entry = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, deviceTask.entry, *module.module);
  module.grid->markEntry(*entry, bytes);
  module.grid->setBlockSize(*entry, shape.blockSize);
  return entry;
}

/// Begins the entry. For short tasks, the next task may be launched once all blocks have arrived here; it then waits for this task's end
/// itself. That hides the launch latency, but costs each block time: copies with many blocks were 24 % slower.
void GridTask::beginEntry(const BodyFacts &facts) {
  body = std::make_unique<BodyEmitter>(module, makeEntry(), shape.lanes, facts);
  body->random.task = task;
  body->blocks.branch = deviceTask.branch.number;
  deviceTask.waits = module.traits.hasEarlyLaunch && shape.isBrief;
  if (deviceTask.waits) module.grid->launchEarly(body->builder);
}

/// Whether an earlier task failed or ended the kernel, or the task's gate is closed; null if none of that is possible.
llvm::Value *GridTask::hasStopped() {
  llvm::IRBuilder<> &at = body->builder;
  llvm::Value *stopped = nullptr;
  if (auto gate = task->getAttrOfType<IntegerAttr>(ir::kGate)) {
    llvm::Value *slot = body->offsetBy(body->launch.getField(kScratch), ir::getPositionSlot(task));
    stopped = at.CreateICmpSGT(at.CreateAlignedLoad(at.getInt32Ty(), slot, llvm::Align(4)), at.getInt32(unsigned(gate.getInt())));
  }
  if (module.grids.mayHaveFailed) {
    llvm::Value *failed = at.CreateIsNotNull(body->launch.getField(kFailed));
    stopped = stopped ? at.CreateOr(stopped, failed) : failed;
  }
  if (module.grids.endSlot) {
    llvm::Value *slot = body->offsetBy(body->launch.getField(kScratch), *module.grids.endSlot);
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
  body->launch.leaveFailed = [&] { at.CreateBr(end); };
  bool mayEnd = !isLast && ir::containsOp(task, llvm::IsaPred<ir::ReturnOp>);
  if (mayEnd && !module.grids.endSlot) module.grids.endSlot = module.addScratch(4);
  auto storeEnd = [&](uint32_t hasEnded) {
    if (!mayEnd) return;
    llvm::Value *slot = body->offsetBy(body->launch.getField(kScratch), *module.grids.endSlot);
    at.CreateAlignedStore(at.getInt32(hasEnded), slot, llvm::Align(4));
  };
  // Store this first, so that the slot is set however the task ends. The slot's old value was checked above.
  storeEnd(0);
  body->blocks.isAlone = true;
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

/// Chooses where the shared arrays of a task are: in static memory, or, if that is too small, in memory for which the launch asks.
/// Functions with arrays serve several tasks, so the arrays then stay where they are.
static void placeArrays(ModuleEmitter &module, ir::TaskOp task) {
  if (!module.grid->getMaxDynamicBytes()) return;
  std::map<uint32_t, uint64_t> sizes;
  llvm::SetVector<Operation *> regions;
  regions.insert(task);
  for (size_t i = 0; i < regions.size(); ++i)
    regions[i]->walk([&](Operation *op) {
      if (auto array = dyn_cast<ir::SharedOp>(op))
        sizes[array.getNumber()] = uint64_t(getPackedBytes(module, cast<ir::TensorType>(array.getType())));
      if (ir::FuncOp callee = module.calls.lookup(op)) regions.insert(callee);
    });
  uint64_t sum = 0;
  for (auto [number, bytes] : sizes) sum += llvm::alignTo(bytes, 16);
  bool isFixed = !module.calls.findFunctions(llvm::IsaPred<ir::SharedOp>).empty();
  module.shared.isDynamic = sum > module.traits.maxSharedBytes || (isFixed && module.shared.isDynamic);
  if (!module.shared.isDynamic || isFixed) return;
  module.shared.bytes = 0;
  module.shared.offsets.clear();
}

void GridTask::emitParallel() {
  loop = findLoop(module, task);
  if (!loop) return;
  collectReductions();
  shape = chooseShape(module, loop, reductions);
  deviceTask.iterations = countIterations(loop, shape);
  deviceTask.perThread = shape.getPerThread();
  deviceTask.isPersistent = loop->hasAttr(ir::kPersistent);
  if (shape.lanes == 1 && !module.isOfBlock(loop)) chooseRounds();
  if (auto size = loop->getAttrOfType<IntegerAttr>(ir::kGridSize))
    deviceTask.maxBlocks = std::min(uint32_t(size.getInt()), deviceTask.maxBlocks ? deviceTask.maxBlocks : UINT32_MAX);
  shape.isBrief |= !deviceTask.iterations.isKnown(); // the grid has as many blocks as run at a time, however little they do
  if (module.isOfBlock(loop) && loop.getBlockDim().value_or(0) > shape.blockSize)
    module.reportError(loop.getLoc()) << "block_dim is " << *loop.getBlockDim() << ", a block of this device has at most "
                                      << shape.blockSize << " threads";
  deviceTask.isTogether = module.isOfBlock(loop) && module.calls.contains(loop.getBody(), ir::isGridBarrier);
  if (deviceTask.isTogether && !deviceTask.iterations.isKnown())
    module.reportError(loop.getLoc()) << "qd.simt.grid.sync() needs a loop whose number of iterations is known before the launch";

  const BodyFacts &facts =
      shape.lanes == 1 ? module.uniformity.getScalarFacts() : module.uniformity.analyzeLoop(loop, shape.getIndexKinds(loop));
  beginEntry(facts);
  threads.emplace(*body, body->launch);
  body->blocks.isInBlock = true;
  placeArrays(module, task);
  uint32_t sharedBefore = module.shared.isDynamic ? 0 : module.shared.bytes;
  llvm::IRBuilder<> &at = body->builder;
  artifact::LoopReport &report = module.artifact.report.loops.emplace_back();
  passes::collectLocations(loop.getLoc(), report.frames);
  report.lanes = shape.lanes * shape.columns;
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
  auto most = loop->getAttrOfType<IntegerAttr>(ir::kMostIterations);
  bool isShort = constant ? constant->getZExtValue() <= kMaxShortIterations : most && uint64_t(most.getInt()) <= kMaxShortIterations;
  total = isShort && !tooMany ? at.CreateTrunc(count, at.getInt32Ty()) : count;

  isAligned = findAlignedElements();
  beginSums();
  llvm::Value *worthCopying = isWorthCopying(count);
  if (auto decided = dyn_cast<llvm::ConstantInt>(worthCopying))
    emitVersions(decided->isOne());
  else
    body->emitWhen(worthCopying, "copies", [&] { emitVersions(true); }, [&] { emitVersions(false); });
  endSums();
  at.CreateRetVoid();
  if (module.shared.isDynamic && module.isOfBlock(loop)) deviceTask.arrayBytes = module.shared.bytes;
  uint32_t room = module.shared.isDynamic ? module.grid->getMaxDynamicBytes() : module.traits.maxSharedBytes;
  if (uint32_t bytes = module.shared.bytes - sharedBefore; bytes > room)
    module.reportError(loop.getLoc()) << "the shared arrays of this loop take " << bytes << " bytes, a block has " << room;
}

/// Starts rows at a multiple of the subgroup size: if the lower bound is no such multiple, idle threads take the columns before it. The
/// other threads then access whole cache lines, if the container's rows start at one.
void GridTask::alignRows() {
  if (!shape.rowAxis || findRounds(loop, loop.getRank() - 1).value_or(kLongRow) < kLongRow) return;
  Axis &axis = axes.back();
  auto *lower = dyn_cast<llvm::ConstantInt>(axis.lower.value);
  if (!lower || findStep(loop, loop.getRank() - 1) != 1) return;
  idleColumns = uint64_t(lower->getSExtValue()) % (module.traits.subgroupSize * shape.columns);
  axis.lower.value = llvm::ConstantInt::get(lower->getType(), uint64_t(lower->getSExtValue()) - idleColumns);
  axis.extent = body->builder.CreateAdd(axis.extent, body->builder.getInt64(idleColumns));
}

/// Number of steps that threads take in turn: iterations, or groups of rows and columns.
llvm::Value *GridTask::countSteps() {
  llvm::IRBuilder<> &at = body->builder;
  llvm::Value *count = at.getInt64(1);
  for (unsigned axis = 0; axis < axes.size(); ++axis)
    count = at.CreateMul(count, at.CreateMul(getTiles(axis), at.getInt64(shape.getTile(axis, unsigned(axes.size())))));
  return count;
}

static llvm::Value *divideUp(llvm::IRBuilder<> &at, llvm::Value *count, unsigned size) {
  return size == 1 ? count : at.CreateUDiv(at.CreateAdd(count, at.getInt64(size - 1)), at.getInt64(size));
}

/// Number of groups of iterations along an axis that a thread takes at a time.
llvm::Value *GridTask::getGroups(unsigned axis) {
  llvm::IRBuilder<> &at = body->builder;
  return divideUp(at, axes[axis].extent, shape.getGroup(axis, unsigned(axes.size())));
}

/// Number of tiles along an axis that blocks take at a time; without tiles, the number of groups.
llvm::Value *GridTask::getTiles(unsigned axis) {
  return divideUp(body->builder, getGroups(axis), shape.getTile(axis, unsigned(axes.size())));
}

/// Bytes of the accesses that load an element several components at a time: four or two. 0: elements that are accessed one by one.
static int64_t getWideAccessBytes(ModuleEmitter &module, ir::TensorType type) {
  Type scalar = ir::getScalar(type.getElement());
  int64_t count = ir::getComponentCount(type.getElement()), size = module.getByteSize(scalar);
  int64_t group = count % 4 == 0 && 4 * size <= kBytesOfAccess ? 4 : count % 2 == 0 && 2 * size <= kBytesOfAccess ? 2 : 0;
  if (!group) return 0;
  int64_t bytes = group * size;
  auto isMultiple = [&](int64_t stride) { return stride != layout::kDynamic && stride % bytes == 0; };
  bool isWhole = !scalar.isInteger(1) && type.getComponentStride() == size;
  isWhole &= llvm::all_of(ir::getTilings(type), [&](const layout::Tiling &tiling) { return isMultiple(tiling.jump); });
  return isWhole && (type.isPacked() || llvm::all_of(type.getStrides(), isMultiple)) ? bytes : 0;
}

/// Whether all containers with elements wider than a scalar access are aligned; arrays of other libraries may not be. Null: there are no
/// such containers.
llvm::Value *GridTask::findAlignedElements() {
  llvm::IRBuilder<> &at = body->builder;
  // Shared arrays would be allocated twice.
  if (module.isOfBlock(loop) || module.functions.getSize(loop.getBody()) > kVersionedBody) return nullptr;
  llvm::Value *misaligned = nullptr;
  if (shape.columns > 1) findAlignedRows(misaligned);
  loop.getBody().walk([&](ir::ElementOp element) {
    Value container = element.getTensor();
    if (auto copy = container.getDefiningOp<ir::PrivateCopyOp>()) container = copy->getOperand(0);
    int64_t bytes =
        container.getDefiningOp<ir::TensorArgumentOp>() ? getWideAccessBytes(module, cast<ir::TensorType>(container.getType())) : 0;
    bool isInParts = llvm::all_of(element->getUsers(), llvm::IsaPred<ir::ComponentOp>);
    if (!bytes || isInParts || alignedTensors.contains(container)) return;
    Tensor tensor = body->values.getTensor(container);
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
    for (auto &[container, tensor] : alignedTensors) body->values.setTensor(container, tensor);
    hasAligned = true;
    emitLoop(sharedCopies);
    hasAligned = false;
    for (auto &[container, tensor] : alignedTensors) {
      Tensor plain = tensor;
      plain.alignment = plain.rowAlignment = 0;
      body->values.setTensor(container, plain);
    }
  };
  body->emitWhen(isAligned, "aligned", emitAligned, [&] { emitLoop(sharedCopies); });
}

static bool usesSharedArray(Operation *op) {
  return llvm::any_of(op->getOperands(), [](Value operand) { return operand.getDefiningOp<ir::SharedOp>() != nullptr; });
}

/// Emits all iterations of this thread: in strides of `blockSize * lanes` per block, where consecutive lanes are `blockSize` apart.
void GridTask::emitLoop(bool sharedCopies) {
  llvm::IRBuilder<> &at = body->builder;
  beginCopies(sharedCopies);
  llvm::Type *type = total->getType();
  auto number = [&](uint64_t value) { return llvm::ConstantInt::get(type, value); };
  llvm::Value *span = number(shape.blockSize * deviceTask.perThread);
  llvm::Value *first = at.CreateMul(at.CreateZExt(threads->getBlock(), type), span, "", /*HasNUW=*/true);
  llvm::Value *stride = at.CreateMul(at.CreateZExt(threads->getBlockCount(), type), span, "", /*HasNUW=*/true);
  bool hasOneRound = deviceTask.iterations.isKnown() && !deviceTask.maxBlocks && !deviceTask.isPersistent && !sharedCopies &&
                     shape.blockSize > deviceTask.kTinyBlock;
  // A block that takes several rounds is several of the loop's blocks, unless the loop says how many there are.
  bool hasOwnShape = deviceTask.isPersistent || loop->hasAttr(ir::kGridSize);
  bool countsBlocks = module.isOfBlock(loop) && deviceTask.perThread == 1 && !hasOneRound && !hasOwnShape;
  if (countsBlocks) {
    llvm::Value *blocks = at.CreateUDiv(at.CreateAdd(total, number(shape.blockSize - 1)), span);
    body->blocks.blockCount = at.CreateTrunc(blocks, at.getInt32Ty());
  }
  llvm::Value *slot = body->makeSlot(type, "flat");
  at.CreateStore(at.CreateAdd(first, at.CreateZExt(threads->getThread(), type), "", /*HasNUW=*/true), slot);
  llvm::BasicBlock *header = body->makeBlock("strides"), *full = body->makeBlock("stride"), *rest = body->makeBlock("rest"),
                   *done = body->makeBlock("strides.end");
  auto leaveFailed = std::exchange(body->launch.leaveFailed, [&at, done] { at.CreateBr(done); });
  body->continueAt(header);
  llvm::Value *flat = at.CreateLoad(type, slot);
  at.CreateCondBr(at.CreateICmpULT(getLast(flat), total), full, rest);
  body->moveTo(full);
  // Only here: LLVM could move invariant loads before the wait at the entry.
  module.aliases.hasReadOnlyLoads = true;
  if (countsBlocks) body->blocks.blockIndex = at.CreateTrunc(at.CreateUDiv(flat, span), at.getInt32Ty());
  shape.rowAxis ? emitRows(flat) : emitIteration(flat);
  body->blocks.blockIndex = body->blocks.blockCount = nullptr;
  module.aliases.hasReadOnlyLoads = false;
  // A block that takes more than one round must not write to its shared arrays while some of its threads read what they held.
  if (!hasOneRound && module.calls.contains(loop.getBody(), usesSharedArray)) threads->synchronize();
  at.CreateStore(at.CreateAdd(flat, stride, "", /*HasNUW=*/true), slot);
  // Do not unroll: `chooseLanes` chooses the number of iterations per round.
  body->setUnrolling(at.CreateBr(header), 1);
  body->moveTo(rest);
  if (deviceTask.perThread > 1) {
    llvm::Value *numbers = body->toVector({flat, LaneKind::linear(shape.blockSize)});
    body->mask = at.CreateICmpULT(numbers, body->splat(total));
    body->emitWhen(at.CreateICmpULT(flat, total), "masked", [&] { emitIteration(flat); });
    body->mask = nullptr;
  }
  body->continueAt(done);
  body->launch.leaveFailed = leaveFailed;
  if (sharedCopies) endCopies();
}

/// Flattened index of the last lane's iteration.
llvm::Value *GridTask::getLast(llvm::Value *flat) {
  if (deviceTask.perThread == 1) return flat;
  return body->builder.CreateAdd(flat, llvm::ConstantInt::get(flat->getType(), shape.blockSize * (shape.lanes - 1)), "", /*HasNUW=*/true);
}

void GridTask::emitIteration(llvm::Value *flat) {
  llvm::IRBuilder<> &at = body->builder;
  if (drawsRandom) {
    body->random.iteration = {at.CreateZExt(flat, at.getInt64Ty()),
                              shape.lanes == 1 ? LaneKind::uniform() : LaneKind::linear(shape.blockSize)};
    body->random.reset();
  }
  setIndices(flat);
  if (!shape.serialAxis) return emitBody();
  llvm::Value *first = at.CreateMul(getDigits(flat)[*shape.serialAxis], llvm::ConstantInt::get(flat->getType(), shape.rounds));
  llvm::Instruction *back = body->emitCountedLoop(llvm::ConstantInt::get(flat->getType(), shape.rounds), [&](llvm::Value *round) {
    setIndex(*shape.serialAxis, at.CreateAdd(first, round, "", /*HasNUW=*/true), LaneKind::uniform());
    emitBody();
  });
  if (module.functions.getSize(loop.getBody()) > kUnrolledBody) return;
  body->setUnrolling(back, shape.rounds);
  body->function->addFnAttr(kHasInnerLoops);
}

/// Emits the iterations of neighboring rows. The last group may have fewer rows.
void GridTask::emitRows(llvm::Value *flat) {
  llvm::IRBuilder<> &at = body->builder;
  llvm::SmallVector<llvm::Value *, 4> digits = shape.tileRows ? getDigitsInTiles(flat) : getDigits(flat);
  auto number = [&](uint64_t value) { return llvm::ConstantInt::get(flat->getType(), value); };
  llvm::Value *first = digits[*shape.rowAxis] = at.CreateMul(digits[*shape.rowAxis], number(shape.lanes), "", /*HasNUW=*/true);
  llvm::Value *rows = at.CreateTrunc(axes[*shape.rowAxis].extent, flat->getType());
  LaneKinds kinds = shape.getIndexKinds(loop);
  for (unsigned axis = 0; axis < axes.size(); ++axis)
    if (shape.columns == 1 || axis + 1 < axes.size()) setIndex(axis, digits[axis], kinds[axis]);
  auto emitSome = [&] {
    body->mask = at.CreateICmpULT(body->toVector({first, LaneKind::linear(1)}), body->splat(rows));
    emitBody();
    body->mask = nullptr;
  };
  auto constant = dyn_cast<llvm::ConstantInt>(rows);
  bool isEven = constant && constant->getZExtValue() % shape.lanes == 0;
  llvm::Value *allRows = isEven ? at.getTrue() : at.CreateICmpULE(at.CreateAdd(first, number(shape.lanes), "", /*HasNUW=*/true), rows);
  if (shape.columns > 1) return emitColumns(digits.back(), allRows, emitSome);
  auto emitAll = [&] { isEven ? emitBody() : body->emitWhen(allRows, "rows", [&] { emitBody(); }, emitSome); };
  llvm::Value *isInside = at.CreateICmpUGE(digits.back(), number(idleColumns));
  if (shape.tileRows) {
    llvm::Value *columns = at.CreateTrunc(axes.back().extent, flat->getType());
    isInside = at.CreateAnd(isInside, at.CreateAnd(at.CreateICmpULT(first, rows), at.CreateICmpULT(digits.back(), columns)));
  }
  idleColumns || shape.tileRows ? body->emitWhen(isInside, "inside", emitAll) : emitAll();
}

void GridTask::emitBody() {
  llvm::BasicBlock *next = body->makeBlock("iteration.end");
  body->control.emitLoopBody(loop, loop.getBody(), next);
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

/// The digits of a step if blocks take tiles. A subgroup has `kTileColumns` columns of all the tile's rows, and the next subgroup the next
/// columns, so that a subgroup reaches whole sectors of memory along both axes.
llvm::SmallVector<llvm::Value *, 4> GridTask::getDigitsInTiles(llvm::Value *flat) {
  llvm::IRBuilder<> &at = body->builder;
  auto number = [&](uint64_t value) { return llvm::ConstantInt::get(flat->getType(), value); };
  llvm::SmallVector<llvm::Value *, 4> tiles;
  for (unsigned axis = 0; axis < axes.size(); ++axis)
    tiles.push_back(at.CreateTrunc(getUnsignedMax(at, getTiles(axis), at.getInt64(1)), flat->getType()));
  llvm::SmallVector<llvm::Value *, 4> digits = unflatten(at, at.CreateUDiv(flat, number(shape.blockSize)), tiles);
  llvm::Value *thread = at.CreateURem(flat, number(shape.blockSize)), *lane = at.CreateURem(thread, number(module.traits.subgroupSize));
  llvm::Value *subgroup = at.CreateUDiv(thread, number(module.traits.subgroupSize));
  auto move = [&](llvm::Value *&digit, unsigned size, llvm::Value *shift) {
    digit = at.CreateAdd(at.CreateMul(digit, number(size), "", /*HasNUW=*/true), shift, "", /*HasNUW=*/true);
  };
  move(digits[*shape.rowAxis], shape.tileRows, at.CreateUDiv(lane, number(kTileColumns)));
  llvm::Value *column = at.CreateAdd(at.CreateMul(subgroup, number(kTileColumns)), at.CreateURem(lane, number(kTileColumns)));
  move(digits.back(), shape.tileColumns, column);
  return digits;
}

/// The index is in range: the no-wrap flags let LLVM compute addresses in 64 bits.
void GridTask::setIndex(unsigned axis, llvm::Value *counter, LaneKind kind) {
  llvm::IRBuilder<> &at = body->builder;
  const auto &[lower, step, extent, type] = axes[axis];
  bool isSigned = type.isSignedInteger();
  llvm::Value *offset = at.CreateMul(at.CreateZExtOrTrunc(counter, lower.value->getType()), step.value, "", false, isSigned);
  body->values.setValue(loop.getBody().getArgument(axis), {{at.CreateAdd(lower.value, offset, "", false, isSigned), kind}});
}

void GridTask::setIndices(llvm::Value *flat) {
  llvm::IRBuilder<> &at = body->builder;
  LaneKinds kinds = shape.getIndexKinds(loop);
  if (shape.lanes == 1) {
    for (auto [axis, digit] : llvm::enumerate(getDigits(flat))) setIndex(unsigned(axis), digit, LaneKind::uniform());
    return;
  }
  if (kinds[0].isScalar()) return setIndex(0, flat, kinds[0]);
  llvm::Value *numbers = body->toVector({flat, LaneKind::linear(shape.blockSize)});
  for (auto [a, digit] : llvm::enumerate(getDigits(numbers))) {
    llvm::Value *counter = at.CreateZExtOrTrunc(digit, body->widen(axes[a].lower.value->getType()));
    llvm::Value *value = at.CreateAdd(body->toVector(axes[a].lower), at.CreateMul(counter, body->toVector(axes[a].step)));
    body->values.setValue(loop.getBody().getArgument(unsigned(a)), {body->makeVarying(value)});
  }
}

} // namespace qd::codegen
