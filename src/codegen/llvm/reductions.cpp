// reductions.cpp: what all iterations of a loop combine into
//
// qd.accumulator: registers, one per lane; at the end of a chunk the lanes are combined and stored at the chunk's number, at the end of the
// loop the chunks are combined in order. qd.private_copy: as many copies as chunks, merged element by element in order, when that is less
// work than atomics; the container itself and atomics otherwise.
#include "codegen/llvm/task.h"

#include "llvm/IR/Constants.h"

using namespace mlir;

namespace qd::codegen {

/// Private copies may take this much memory together.
constexpr uint64_t kMostCopyBytes = uint64_t(64) << 20;
/// Scalars that copies may have together before fewer of them are made, and how many there are at least and at most.
constexpr uint64_t kCopiedScalars = uint64_t(1) << 20, kFewestCopies = 8, kMostCopies = 64;
/// Elements that one chunk of the merge takes.
constexpr uint64_t kMergeChunk = 8192;

/// Partial results of a subtraction are added up.
static ir::AtomicKind getMergeKind(ir::AtomicKind kind) { return kind == ir::AtomicKind::sub ? ir::AtomicKind::add : kind; }

void ParallelTask::collectReductions() {
  for (Operation &op : task.getBody().front()) {
    Reduction reduction;
    if (auto accumulator = dyn_cast<ir::AccumulatorOp>(op)) {
      reduction.kind = accumulator.getAtomicKind();
      reduction.element = cast<ir::RefType>(accumulator.getType()).getPointee();
    } else if (auto copy = dyn_cast<ir::PrivateCopyOp>(op)) {
      reduction.kind = copy.getAtomicKind();
      reduction.element = cast<ir::TensorType>(copy.getType()).getElement();
    } else {
      continue;
    }
    reduction.op = &op;
    reduction.slot = module.addScratch(8);
    reductions.push_back(reduction);
  }
  copiesSlot = module.addScratch(8);
}

void ParallelTask::allocate(uint32_t slot, llvm::Value *bytes) {
  llvm::Value *member = builder.CreateConstGEP1_64(builder.getPtrTy(), body.getContextField(kApi), kAllocateTemporary);
  llvm::Value *routine = builder.CreateAlignedLoad(builder.getPtrTy(), member, llvm::Align(8));
  llvm::Value *memory = builder.CreateCall(module.getApiType(kAllocateTemporary), routine, {body.context, bytes});
  llvm::BasicBlock *stop = body.makeBlock("no.memory"), *next = body.makeBlock("memory");
  builder.CreateCondBr(builder.CreateIsNull(memory), stop, next);
  body.moveTo(stop);
  builder.CreateRet(builder.getTrue());
  body.moveTo(next);
  builder.CreateAlignedStore(memory, getSlotPointer(body, slot), llvm::Align(8));
}

//--- Inside the loop ---

static llvm::Value *loadSlot(BodyEmitter &in, llvm::Type *type, llvm::Value *pointer) {
  llvm::LoadInst *load = in.builder.CreateAlignedLoad(type, pointer, llvm::Align(8));
  load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(in.module.ctx, {}));
  return load;
}

llvm::Value *ParallelTask::getElementCount(BodyEmitter &in, const Tensor &target) {
  llvm::Value *count = in.builder.getInt64(1);
  for (int64_t axis = 0; axis < target.type.getRank(); ++axis) count = in.builder.CreateMul(count, in.getExtent(target, axis));
  return count;
}

/// Private copy number `number`: packed, whatever the layout of the container.
Tensor ParallelTask::getCopy(BodyEmitter &in, const Reduction &copy, llvm::Value *number) {
  Tensor target = in.getTensor(cast<ir::PrivateCopyOp>(copy.op).getTarget());
  llvm::IRBuilder<> &at = in.builder;
  llvm::Value *bytes = at.CreateMul(getElementCount(in, target), at.getInt64(uint64_t(getBytes(copy.element))));
  llvm::Value *first = loadSlot(in, at.getPtrTy(), getSlotPointer(in, copy.slot));
  Tensor result = target;
  result.type = ir::TensorType::get(module.source.getContext(), copy.element, target.type.getExtents(), {},
                                    module.getByteSize(ir::getScalar(copy.element)));
  result.data = at.CreateGEP(at.getInt8Ty(), first, at.CreateMul(bytes, number));
  result.scope = -1;
  result.isPrivate = true;
  return result;
}

void ParallelTask::beginChunk(BodyEmitter &in, llvm::Value *chunk, bool privateCopies) {
  llvm::IRBuilder<> &at = in.builder;
  for (Reduction &reduction : reductions) {
    Type scalar = ir::getScalar(reduction.element);
    llvm::Constant *identity = in.getIdentity(reduction.kind, scalar);
    if (!reduction.isCopy()) {
      LaneKinds kinds(size_t(ir::getComponentCount(reduction.element)), plan.lanes == 1 ? LaneKind::uniform() : LaneKind::varying());
      reduction.registers = in.makeLocal(reduction.element, kinds, "accumulator");
      Place place;
      place.pointee = reduction.element;
      place.local = reduction.registers;
      place.isPrivate = true;
      in.store(place, Components(kinds.size(), {identity, LaneKind::uniform()}), /*masked=*/false);
      place.isReference = true;
      in.setPlace(reduction.op->getResult(0), place);
      continue;
    }
    if (!privateCopies) {
      in.setTensor(reduction.op->getResult(0), in.getTensor(cast<ir::PrivateCopyOp>(reduction.op).getTarget()));
      continue;
    }
    Tensor copy = getCopy(in, reduction, chunk);
    in.setTensor(reduction.op->getResult(0), copy);
    // The memory comes zeroed.
    if (identity->isNullValue() || (isa<FloatType>(scalar) && reduction.kind == ir::AtomicKind::add)) continue;
    llvm::Value *count = at.CreateMul(getElementCount(in, copy), at.getInt64(uint64_t(ir::getComponentCount(reduction.element))));
    in.emitCountedLoop(count,
                       [&](llvm::Value *i) { in.storePlain(scalar, identity, at.CreateGEP(module.getMemoryType(scalar), copy.data, i)); });
  }
}

void ParallelTask::endChunk(BodyEmitter &in, llvm::Value *chunk) {
  llvm::IRBuilder<> &at = in.builder;
  for (const Reduction &reduction : reductions) {
    if (reduction.isCopy()) continue;
    Type scalar = ir::getScalar(reduction.element);
    llvm::Value *partials = loadSlot(in, at.getPtrTy(), getSlotPointer(in, reduction.slot));
    llvm::Value *own = at.CreateGEP(at.getInt8Ty(), partials, at.CreateMul(chunk, at.getInt64(uint64_t(getBytes(reduction.element)))));
    Components all = in.load(in.getPlace(reduction.op->getResult(0)));
    for (auto [i, component] : llvm::enumerate(all)) {
      llvm::Value *sum = in.reduceLanes(reduction.kind, scalar, in.toVector(component));
      in.storePlain(scalar, sum, at.CreateConstGEP1_64(module.getMemoryType(scalar), own, i));
    }
  }
}

//--- After the loop ---

void ParallelTask::combineAccumulators(llvm::Value *chunks) {
  for (const Reduction &reduction : reductions) {
    if (reduction.isCopy()) continue;
    Type scalar = ir::getScalar(reduction.element);
    ir::AtomicKind kind = getMergeKind(reduction.kind);
    int64_t count = ir::getComponentCount(reduction.element);
    llvm::Value *partials = builder.CreateAlignedLoad(builder.getPtrTy(), getSlotPointer(body, reduction.slot), llvm::Align(8));
    LocalStorage *sums = body.makeLocal(reduction.element, {}, "sum");
    Place place;
    place.pointee = reduction.element;
    place.local = sums;
    body.store(place, Components(size_t(count), {body.getIdentity(kind, scalar), LaneKind::uniform()}), /*masked=*/false);
    auto combineInto = [&](Place into, const Components &more) {
      Components old = body.load(into);
      for (auto [a, b] : llvm::zip(old, more)) a.value = body.emitAtomicCombine(kind, scalar, a.value, b.value);
      body.store(into, old, /*masked=*/false);
    };
    body.emitCountedLoop(chunks, [&](llvm::Value *chunk) {
      llvm::Value *own = builder.CreateGEP(builder.getInt8Ty(), partials,
                                           builder.CreateMul(chunk, builder.getInt64(uint64_t(getBytes(reduction.element)))));
      Components partial;
      for (int64_t i = 0; i < count; ++i)
        partial.push_back({body.loadPlain(scalar, builder.CreateConstGEP1_64(module.getMemoryType(scalar), own, uint64_t(i)), false)});
      combineInto(place, partial);
    });
    combineInto(body.getPlace(cast<ir::AccumulatorOp>(reduction.op).getTarget()), body.load(place));
  }
}

/// The number of private copies, and whether they are less work than atomics. Both follow from the problem only.
llvm::Value *ParallelTask::getCopySlots(llvm::Value *total, llvm::Value *&worthwhile) {
  llvm::Value *scalars = builder.getInt64(0), *bytes = builder.getInt64(0);
  uint64_t updates = 0;
  for (const Reduction &reduction : reductions) {
    if (!reduction.isCopy()) continue;
    llvm::Value *count = getElementCount(body, body.getTensor(cast<ir::PrivateCopyOp>(reduction.op).getTarget()));
    uint64_t components = uint64_t(ir::getComponentCount(reduction.element));
    scalars = builder.CreateAdd(scalars, builder.CreateMul(count, builder.getInt64(components)));
    bytes = builder.CreateAdd(bytes, builder.CreateMul(count, builder.getInt64(uint64_t(getBytes(reduction.element)))));
    for (Operation *element : reduction.op->getUsers())
      updates += components * uint64_t(std::distance(element->getUsers().begin(), element->getUsers().end()));
  }
  auto clamp = [&](llvm::Value *value, uint64_t low, uint64_t high) {
    return getSmaller(builder, getLarger(builder, value, builder.getInt64(low)), builder.getInt64(high));
  };
  llvm::Value *slots =
      clamp(builder.CreateUDiv(builder.getInt64(kCopiedScalars), clamp(scalars, 1, UINT64_MAX)), kFewestCopies, kMostCopies);
  llvm::Value *work = builder.CreateMul(scalars, slots),
              *saved = builder.CreateMul(total, builder.getInt64(std::max<uint64_t>(updates, 1)));
  worthwhile = builder.CreateAnd(builder.CreateICmpULE(work, saved),
                                 builder.CreateICmpULE(builder.CreateMul(bytes, slots), builder.getInt64(kMostCopyBytes)));
  return slots;
}

void ParallelTask::mergeCopies(llvm::Value *chunks) {
  builder.CreateAlignedStore(chunks, getSlotPointer(body, copiesSlot), llvm::Align(8));
  for (const Reduction &reduction : reductions) {
    if (!reduction.isCopy()) continue;
    llvm::Function *merge = emitMerge(reduction);
    llvm::Value *count = getElementCount(body, body.getTensor(cast<ir::PrivateCopyOp>(reduction.op).getTarget()));
    callParallelFor(merge, count, builder.getInt64(kMergeChunk));
  }
}

/// The container as one row, when its elements lie that way.
static std::optional<ir::TensorType> getFlatType(ir::TensorType type) {
  int64_t count = 1;
  for (int64_t axis = type.getRank() - 1; axis >= 0; --axis) {
    int64_t extent = type.getExtents()[size_t(axis)];
    if (!type.isPacked() && (extent == layout::kDynamic || type.getStrides()[size_t(axis)] == layout::kDynamic ||
                             type.getStrides()[size_t(axis)] != type.getStrides().back() * count))
      return std::nullopt;
    count = extent == layout::kDynamic || count == layout::kDynamic ? layout::kDynamic : count * extent;
  }
  llvm::SmallVector<int64_t, 1> strides;
  if (!type.isPacked()) strides.push_back(type.getStrides().back());
  return ir::TensorType::get(type.getContext(), type.getElement(), {count}, strides, type.getComponentStride());
}

llvm::Function *ParallelTask::emitMerge(const Reduction &reduction) {
  llvm::Type *pointer = llvm::PointerType::get(module.ctx, 0), *i64 = llvm::Type::getInt64Ty(module.ctx);
  llvm::Function *function =
      llvm::Function::Create(llvm::FunctionType::get(llvm::Type::getVoidTy(module.ctx), {pointer, i64, i64, i64}, false),
                             llvm::GlobalValue::InternalLinkage, "qd_task_" + llvm::Twine(index) + "_merge", *module.module);
  Type scalar = ir::getScalar(reduction.element);
  int64_t size = module.getByteSize(scalar);
  unsigned lanes = plan.lanes == 1 && !module.options.lanes ? std::clamp(unsigned(module.traits.vectorBytes / size), 1u, 16u) : plan.lanes;
  BodyEmitter in(module, function, lanes, module.uniformity.getScalarFacts());
  llvm::BasicBlock *start = in.makeBlock("start");
  in.builder.CreateBr(start);
  in.moveTo(start);
  setUpResolve(in);
  llvm::IRBuilder<> &at = in.builder;
  Tensor target = in.getTensor(cast<ir::PrivateCopyOp>(reduction.op).getTarget());
  Tensor firstCopy = getCopy(in, reduction, at.getInt64(0));
  llvm::Value *copies = loadSlot(in, i64, getSlotPointer(in, copiesSlot));
  llvm::Value *copyBytes = at.CreateMul(getElementCount(in, target), at.getInt64(uint64_t(getBytes(reduction.element))));
  llvm::Value *begin = function->getArg(1), *end = function->getArg(2);
  llvm::Value *rounds = at.CreateUDiv(at.CreateAdd(at.CreateSub(end, begin), at.getInt64(lanes - 1)), at.getInt64(lanes));
  Type indexType = IntegerType::get(module.source.getContext(), 64, IntegerType::Signed);
  LaneKind step = lanes == 1 ? LaneKind::uniform() : LaneKind::linear(1);

  in.emitCountedLoop(rounds, [&](llvm::Value *round) {
    Component element = {at.CreateAdd(begin, at.CreateMul(round, at.getInt64(lanes))), step};
    if (lanes > 1) in.mask = at.CreateICmpSLT(in.toVector(element), in.splat(end));
    Place place;
    if (std::optional<ir::TensorType> flat = getFlatType(target.type)) {
      Tensor row = target;
      row.type = *flat;
      place = in.getElement(row, {element}, {indexType});
    } else {
      llvm::SmallVector<Component, 4> indices(size_t(target.type.getRank()));
      llvm::SmallVector<Type, 4> types(indices.size(), indexType);
      llvm::Value *rest = in.toVector(element);
      for (size_t axis = indices.size(); axis-- > 0;) {
        llvm::Value *extent = in.splat(in.getExtent(target, int64_t(axis)));
        indices[axis] = in.makeVarying(at.CreateURem(rest, extent));
        rest = at.CreateUDiv(rest, extent);
      }
      place = in.getElement(target, indices, types);
    }
    Components sum = in.load(place);
    LaneKinds kinds;
    for (const Component &component : sum) kinds.push_back(component.kind);
    Place running;
    running.pointee = reduction.element;
    running.local = in.makeLocal(reduction.element, kinds, "sum");
    in.store(running, sum, /*masked=*/false);
    Tensor row = firstCopy;
    row.type = *getFlatType(firstCopy.type);
    Place own = in.getElement(row, {element}, {indexType});
    in.emitCountedLoop(copies, [&](llvm::Value *copy) {
      Place from = own;
      from.base = at.CreateGEP(at.getInt8Ty(), own.base, at.CreateMul(copy, copyBytes));
      Components old = in.load(running), more = in.load(from);
      for (auto [a, b] : llvm::zip(old, more)) {
        llvm::Value *both = in.emitAtomicCombine(getMergeKind(reduction.kind), scalar, in.toVector(a), in.toVector(b));
        a = in.makeVarying(both);
      }
      in.store(running, old, /*masked=*/false);
    });
    in.store(place, in.load(running), /*masked=*/false);
  });
  at.CreateRetVoid();
  return function;
}

} // namespace qd::codegen
