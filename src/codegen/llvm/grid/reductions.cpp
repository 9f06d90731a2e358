// reductions.cpp: reductions of a parallel loop on a grid
//
// qd.accumulator: combined in registers, then over the subgroup by shuffles, then over the block through shared memory. Each block stores
// its result in the scratch block. The last block to do so combines the results, each thread every `blockSize`-th one, so that the order
// depends on the grid only.
// qd.private_copy: a copy in the shared memory of each block, added to the container by atomics; plain atomics if the copy does not fit.
#include "codegen/llvm/grid/task.h"
#include "runtime/kernel_abi.h"

#include "llvm/IR/Constants.h"

using namespace mlir;

namespace qd::codegen {

/// Maximum number of blocks with partial results; more blocks never run at a time.
constexpr uint32_t kMaxBlocks = 2048;

void GridTask::collectReductions() {
  llvm::SmallVector<Value, 2> copies;
  for (Operation &op : task.getBody().front()) {
    if (auto accumulator = dyn_cast<ir::AccumulatorOp>(op)) {
      Type element = getSumType(accumulator.getAtomicKind(), cast<ir::RefType>(accumulator.getType()).getPointee());
      int64_t bytes = ir::getComponentCount(element) * module.getByteSize(ir::getScalar(element));
      reductions.push_back({&op, accumulator.getAtomicKind(), element, {}, module.addScratch(uint32_t(bytes) * kMaxBlocks)});
    } else if (auto copy = dyn_cast<ir::PrivateCopyOp>(op)) {
      reductions.push_back({&op, copy.getAtomicKind(), cast<ir::TensorType>(copy.getType()).getElement(), {}, 0});
      copies.push_back(copy.getTarget());
    }
  }
  deviceTask.sharedBytes = countBytes(copies, module);
  // For private copies the host limits the blocks, if the launch has any.
  if (copies.size() < reductions.size()) deviceTask.maxBlocks = kMaxBlocks;
}

//--- Accumulators ---

void GridTask::beginSums() {
  for (Reduction &reduction : reductions) {
    if (reduction.isCopy()) continue;
    llvm::Constant *identity = body->operators.getIdentity(reduction.kind, ir::getScalar(reduction.element));
    LocalPlace &sum = reduction.sums.emplace_back(makeSum(*body, reduction.element, body->manyLanes, identity));
    sum.isAccumulator = sum.isReference = true;
    body->values.setPlace(reduction.op->getResult(0), sum);
  }
}

/// Combines the values of all threads of the subgroup; the first thread gets the result.
llvm::Value *GridTask::combineSubgroup(ir::AtomicKind kind, Type type, llvm::Value *value) {
  if (llvm::Value *all = threads->combine(kind, type, value)) return all;
  for (unsigned distance = module.traits.subgroupSize / 2; distance > 0; distance /= 2)
    value = body->operators.emitAtomicCombine(kind, type, value, threads->shuffleDown(value, distance));
  return value;
}

/// Combines the values of all threads of the block; the first thread gets the result.
Components GridTask::combineBlock(const Reduction &reduction, Components values) {
  llvm::IRBuilder<> &at = body->builder;
  Type scalar = ir::getScalar(reduction.element);
  for (Component &component : values) component = {combineSubgroup(reduction.kind, scalar, component.value)};
  unsigned size = module.traits.subgroupSize, subgroups = shape.blockSize / size;
  if (subgroups == 1) return values;
  llvm::Value *thread = threads->getThread(), *lane = at.CreateAnd(thread, uint64_t(size - 1));
  llvm::Type *row = llvm::ArrayType::get(values[0].value->getType(), subgroups);
  llvm::Value *shared = threads->makeShared(llvm::ArrayType::get(row, values.size()), "qd_subgroups");
  auto getCell = [&](size_t component, llvm::Value *subgroup) {
    return at.CreateGEP(row, at.CreateConstGEP1_64(row, shared, component), {at.getInt32(0), subgroup});
  };
  body->emitWhen(at.CreateIsNull(lane), "subgroup.leader", [&] {
    for (auto [i, component] : llvm::enumerate(values))
      at.CreateStore(component.value, getCell(i, at.CreateLShr(thread, llvm::Log2_32(size))));
  });
  threads->synchronize();
  llvm::Constant *identity = body->operators.getIdentity(reduction.kind, scalar);
  llvm::SmallVector<std::pair<llvm::Value *, llvm::Value *>, 2> cells; // whether the cell exists, its number
  for (unsigned first = 0; first < subgroups; first += size) {
    llvm::Value *number = first ? at.CreateAdd(lane, at.getInt32(first)) : lane, *exists = at.CreateICmpULT(number, at.getInt32(subgroups));
    cells.push_back({exists, at.CreateSelect(exists, number, at.getInt32(0))});
  }
  // Every subgroup computes this, because all threads must take part in the shuffles; the result of the first one is used.
  for (auto [i, component] : llvm::enumerate(values)) {
    llvm::Value *value = nullptr;
    for (auto [exists, cell] : cells) {
      llvm::Value *part = at.CreateSelect(exists, at.CreateLoad(component.value->getType(), getCell(i, cell)), identity);
      value = value ? body->operators.emitAtomicCombine(reduction.kind, scalar, value, part) : part;
    }
    component = {combineSubgroup(reduction.kind, scalar, value)};
  }
  return values;
}

void GridTask::endSums() {
  llvm::SmallVector<const Reduction *, 4> sums;
  for (const Reduction &reduction : reductions)
    if (!reduction.isCopy()) sums.push_back(&reduction);
  if (sums.empty()) return;
  llvm::IRBuilder<> &at = body->builder;
  llvm::Value *isFirst = at.CreateIsNull(threads->getThread()), *block = threads->getBlock(), *blocks = threads->getBlockCount();
  auto getPartial = [&](const Reduction &reduction, llvm::Value *number) {
    int64_t bytes = ir::getComponentCount(reduction.element) * module.getByteSize(ir::getScalar(reduction.element));
    llvm::Value *partials = body->offsetBy(body->launch.getField(kScratch), reduction.slot);
    return at.CreateGEP(at.getInt8Ty(), partials, at.CreateMul(at.CreateZExt(number, at.getInt64Ty()), at.getInt64(uint64_t(bytes))));
  };
  for (const Reduction *reduction : sums) {
    Components values = body->memory.load(reduction->sums[0]);
    Type scalar = ir::getScalar(reduction->element);
    for (Component &component : values) component = {body->operators.reduceLanes(reduction->kind, scalar, body->toVector(component))};
    values = combineBlock(*reduction, std::move(values));
    body->emitWhen(isFirst, "partial", [&] { body->memory.storePacked(reduction->element, values, getPartial(*reduction, block)); });
  }
  // The block that increments the counter last reads the results of all blocks.
  llvm::Value *isLastShared = threads->makeShared(at.getInt32Ty(), "qd_is_last");
  llvm::Value *state = body->launch.loadAddress(body->offsetBy(body->launch.context, offsetof(QdGpuLaunch, state)));
  llvm::Value *counter =
      body->offsetBy(state, int64_t(offsetof(QdGpuState, finished_blocks) + sizeof(uint32_t) * deviceTask.branch.number));
  body->emitWhen(isFirst, "count", [&] {
    // LLVM emits a relaxed instruction for any ordering here, so fences order the stores.
    at.CreateFence(llvm::AtomicOrdering::AcquireRelease, module.getAtomicScope());
    llvm::Value *before = at.CreateAtomicRMW(llvm::AtomicRMWInst::Add, counter, at.getInt32(1), llvm::Align(4),
                                             llvm::AtomicOrdering::Monotonic, module.getAtomicScope());
    llvm::Value *isLast = at.CreateICmpEQ(before, at.CreateSub(blocks, at.getInt32(1)));
    at.CreateStore(at.CreateZExt(isLast, at.getInt32Ty()), isLastShared);
  });
  threads->synchronize();
  llvm::BasicBlock *last = body->makeBlock("last"), *end = body->makeBlock("last.end");
  at.CreateCondBr(at.CreateIsNotNull(at.CreateLoad(at.getInt32Ty(), isLastShared)), last, end);
  body->moveTo(last);
  at.CreateFence(llvm::AtomicOrdering::AcquireRelease, module.getAtomicScope());
  for (const Reduction *reduction : sums) {
    Type scalar = ir::getScalar(reduction->element);
    llvm::Constant *identity = body->operators.getIdentity(reduction->kind, scalar);
    LocalPlace sum = makeSum(*body, reduction->element, LaneKind::uniform(), identity);
    llvm::Value *thread = threads->getThread(), *missing = at.CreateSub(at.CreateAdd(blocks, at.getInt32(shape.blockSize - 1)), thread);
    body->emitCountedLoop(at.CreateUDiv(missing, at.getInt32(shape.blockSize)), [&](llvm::Value *round) {
      llvm::Value *number = at.CreateAdd(thread, at.CreateMul(round, at.getInt32(shape.blockSize)));
      combineInto(*body, reduction->kind, sum, reduction->element,
                  body->memory.loadPacked(reduction->element, getPartial(*reduction, number), /*invariant=*/false));
    });
    Components values = combineBlock(*reduction, body->memory.load(sum));
    body->emitWhen(isFirst, "combine", [&] {
      combineInto(*body, reduction->kind, body->values.getPlace(reduction->op->getOperand(0)), reduction->element, values);
    });
  }
  body->emitWhen(isFirst, "reset", [&] { at.CreateAlignedStore(at.getInt32(0), counter, llvm::Align(4)); });
  body->continueAt(end);
}

//--- Copies in shared memory ---

/// Bytes of the copy in shared memory.
static llvm::Value *getSharedBytes(BodyEmitter &in, const Reduction &copy) {
  llvm::IRBuilder<> &at = in.builder;
  int64_t size = ir::getComponentCount(copy.element) * in.module.getByteSize(ir::getScalar(copy.element));
  llvm::Value *bytes = at.CreateMul(getElementCount(in, in.values.getTensor(copy.getTarget())), at.getInt64(uint64_t(size)));
  return at.CreateAnd(at.CreateAdd(bytes, at.getInt64(7)), at.getInt64(~uint64_t(7)));
}

/// Number of scalars of the container that one iteration updates, without rounds of loops in it.
static uint64_t countUpdates(const Reduction &copy) {
  uint64_t updates = 0;
  for (Operation *element : copy.op->getUsers()) updates += uint64_t(std::distance(element->getUsers().begin(), element->getUsers().end()));
  return updates * uint64_t(ir::getComponentCount(copy.element));
}

/// Whether the copies fit, and have no more scalars than there are updates.
llvm::Value *GridTask::isWorthCopying(llvm::Value *iterations) {
  llvm::IRBuilder<> &at = body->builder;
  llvm::Value *bytes = at.getInt64(0), *scalars = at.getInt64(0);
  uint64_t updates = 0;
  for (const Reduction &reduction : reductions) {
    if (!reduction.isCopy()) continue;
    bytes = at.CreateAdd(bytes, getSharedBytes(*body, reduction));
    llvm::Value *count = getElementCount(*body, body->values.getTensor(reduction.getTarget()));
    scalars = at.CreateAdd(scalars, at.CreateMul(count, at.getInt64(uint64_t(ir::getComponentCount(reduction.element)))));
    updates += countUpdates(reduction);
  }
  if (updates == 0 || !deviceTask.sharedBytes.isKnown()) return at.getFalse();
  return at.CreateAnd(at.CreateICmpULE(bytes, at.getInt64(module.traits.maxCopyBytes)),
                      at.CreateICmpULE(scalars, at.CreateMul(iterations, at.getInt64(updates))));
}

/// Calls `visit` for every scalar of the copy, each on one thread of the block, with the element's number and the address in the copy.
static void forEachScalar(BodyEmitter &in, GridThreads &threads, unsigned blockSize, const Reduction &copy, const Tensor &tensor,
                          llvm::function_ref<void(llvm::Value *element, unsigned component, llvm::Value *pointer)> visit) {
  llvm::IRBuilder<> &at = in.builder;
  llvm::Value *count = getElementCount(in, tensor), *thread = at.CreateZExt(threads.getThread(), at.getInt64Ty());
  llvm::Value *missing = at.CreateSub(at.CreateAdd(count, at.getInt64(blockSize - 1)), thread);
  int64_t size = in.module.getByteSize(ir::getScalar(copy.element)), components = ir::getComponentCount(copy.element);
  in.emitCountedLoop(at.CreateUDiv(missing, at.getInt64(blockSize)), [&](llvm::Value *round) {
    llvm::Value *element = at.CreateAdd(thread, at.CreateMul(round, at.getInt64(blockSize)));
    llvm::Value *first = at.CreateGEP(at.getInt8Ty(), tensor.data, at.CreateMul(element, at.getInt64(uint64_t(size * components))));
    for (int64_t i = 0; i < components; ++i) visit(element, unsigned(i), in.offsetBy(first, i * size));
  });
}

void GridTask::beginCopies(bool isShared) {
  llvm::IRBuilder<> &at = body->builder;
  llvm::Value *next = nullptr;
  for (const Reduction &reduction : reductions) {
    if (!reduction.isCopy()) continue;
    Tensor target = body->values.getTensor(reduction.getTarget());
    if (!isShared) {
      body->values.setTensor(reduction.op->getResult(0), target);
      continue;
    }
    if (!next) next = threads->getDynamicShared();
    Tensor copy = makePacked(*body, target, next);
    copy.isShared = true;
    copy.alignment = 0;
    next = at.CreateGEP(at.getInt8Ty(), next, getSharedBytes(*body, reduction));
    body->values.setTensor(reduction.op->getResult(0), copy);
    Type scalar = ir::getScalar(reduction.element);
    llvm::Constant *identity = body->operators.getIdentity(reduction.kind, scalar);
    forEachScalar(*body, *threads, shape.blockSize, reduction, copy,
                  [&](llvm::Value *, unsigned, llvm::Value *pointer) { body->memory.storePacked(scalar, {{identity}}, pointer); });
  }
  if (next) threads->synchronize();
}

void GridTask::endCopies() {
  llvm::IRBuilder<> &at = body->builder;
  threads->synchronize();
  for (const Reduction &reduction : reductions) {
    if (!reduction.isCopy()) continue;
    Type scalar = ir::getScalar(reduction.element);
    llvm::Constant *identity = body->operators.getIdentity(reduction.kind, scalar);
    Tensor target = body->values.getTensor(reduction.getTarget()), copy = body->values.getTensor(reduction.op->getResult(0));
    forEachScalar(*body, *threads, shape.blockSize, reduction, copy, [&](llvm::Value *element, unsigned component, llvm::Value *pointer) {
      llvm::Value *value = body->memory.loadPacked(scalar, pointer, /*invariant=*/false)[0].value;
      llvm::Value *isIdentity = identity->isNaN()                       ? at.CreateFCmpUNO(value, value)
                                : value->getType()->isFloatingPointTy() ? at.CreateFCmpOEQ(value, identity)
                                                                        : at.CreateICmpEQ(value, identity);
      body->emitWhen(at.CreateNot(isIdentity), "merge", [&] {
        MemoryPlace place = getElementAt(*body, target, {element});
        llvm::Value *to = body->offsetBy(place.base, int64_t(component) * place.componentStride);
        body->atomics.emitAtomicAt(reduction.kind, scalar, to, value, place);
      });
    });
  }
}

} // namespace qd::codegen
