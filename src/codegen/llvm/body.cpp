// body.cpp: walks structured IR: dispatch by operation, values, and the members of the kernel's context
//
// In:   a block of lowered IR, with facts of the uniformity analysis.
// Out:  LLVM instructions in one function; long blocks are marked as outlined regions.
#include "codegen/llvm/grid.h"
#include "ir/attributes.h"
#include "runtime/kernel_abi.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/IR/Constants.h"

using namespace mlir;

namespace qd::codegen {

BodyEmitter::BodyEmitter(ModuleEmitter &module, llvm::Function *function, unsigned lanes, const BodyFacts &facts)
    : module(module), function(function), lanes(lanes), manyLanes(lanes == 1 ? LaneKind::uniform() : LaneKind::varying()), facts(&facts),
      builder(module.ctx) {
  llvm::FastMathFlags flags;
  if (module.options.fastMath) {
    flags.setAllowReassoc();
    flags.setAllowContract();
    flags.setAllowReciprocal();
    flags.setApproxFunc();
  }
  builder.setFastMathFlags(flags);
  context = function->getArg(0);
  builder.SetInsertPoint(makeBlock("entry"));
}

void BodyEmitter::beginRegion() {
  regionStarts.push_back({makeBlock("outlined"), emittedSize});
  continueAt(regionStarts.back().call);
  continueAt(makeBlock("outlined.first"));
}

void BodyEmitter::endRegion() {
  auto [call, sizeBefore] = regionStarts.pop_back_val();
  module.outlinedRegions[function].push_back({call, &function->back()});
  emittedSize = sizeBefore;
  // End the region with a block even if this point is unreachable: an enclosing region ends with that block.
  bool isReachable = !isTerminated();
  continueAt(makeBlock("outlined.end"));
  if (!isReachable) builder.CreateUnreachable();
}

void BodyEmitter::emitBlock(Block &block) {
  int64_t size = module.getSize(*block.getParent()), pieceSize = module.options.pieceSize;
  bool outerCuts = std::exchange(cutsBlocks, cutsBlocks || (pieceSize > 0 && size > 2 * pieceSize && !module.traits.hasGrids));
  bool isCut = cutsBlocks && size > pieceSize;
  if (isCut) beginRegion();
  llvm::DebugLoc around = builder.getCurrentDebugLocation();
  // Continues after the rest of this block, which is skipped if no lane is active.
  llvm::BasicBlock *end = nullptr;
  for (Operation &op : block) {
    if (isCut && emittedSize - regionStarts.back().sizeBefore > pieceSize) {
      endRegion();
      beginRegion();
    }
    emitOp(&op);
    emittedSize += isa<ir::CallOp>(op) ? 1 : module.getSize(&op);
    if (isTerminated()) {
      if (&op == &block.back()) break;
      // The rest is unreachable, but must be emitted to define every value.
      moveTo(makeBlock("dead"));
    }
    if (facts->loseLanes.contains(&op) && &op != &block.back() && !isa<ir::YieldOp, ir::ConditionOp>(op.getNextNode())) {
      if (!end) end = makeBlock("rest.end");
      llvm::BasicBlock *rest = makeBlock("rest");
      builder.CreateCondBr(isAny(getMask()), rest, end);
      moveTo(rest);
    }
  }
  if (isCut) endRegion();
  cutsBlocks = outerCuts;
  builder.SetCurrentDebugLocation(around);
  if (!end) return;
  // The block was created inside a region.
  end->moveAfter(&function->back());
  continueAt(end);
}

void BodyEmitter::emitOp(Operation *op) {
  auto give = [&](Components components) { setValue(op->getResult(0), std::move(components)); };
  if (module.lines) builder.SetCurrentDebugLocation(module.lines->find(op->getLoc(), inlinedCalls));
  llvm::TypeSwitch<Operation *>(op)
      .Case<ir::UnaryOp, ir::BinaryOp, ir::FmaOp, ir::CastOp, ir::BitCastOp, ir::SelectOp, ir::OverflowsOp>(
          [&](Operation *) { give(emitElementwise(op)); })
      .Case([&](ir::ConstantOp constant) { give(emitConstant(constant.getValue())); })
      .Case([&](ir::ArgumentOp argument) {
        give(loadPacked(argument.getType(), offsetBy(getContextField(kArguments), argument.getOffset()), /*invariant=*/true));
      })
      .Case([&](ir::TensorArgumentOp argument) {
        llvm::Value *descriptor = offsetBy(getContextField(kArguments), argument.getOffset());
        llvm::Value *data = loadAddress(descriptor);
        setTensor(argument, {cast<ir::TensorType>(argument.getType()), descriptor, data, module.getAliasScope(argument)});
      })
      .Case([&](ir::SharedOp shared) { emitShared(shared); })
      .Case<ir::BarrierOp, ir::FenceOp, ir::ThreadOp, ir::BlockOp, ir::ShuffleOp, ir::PinOp, ir::BallotOp>(
          [&](Operation *) { emitBlockOp(op); })
      .Case([&](ir::ScratchOp scratch) {
        Place place;
        place.pointee = cast<ir::RefType>(scratch.getType()).getPointee();
        place.base = offsetBy(getContextField(kScratch), scratch.getOffset());
        place.componentStride = module.getByteSize(ir::getScalar(place.pointee));
        place.scope = module.getScratchScope();
        setPlace(scratch, place);
      })
      .Case([&](ir::LocalOp local) {
        Place place;
        place.pointee = cast<ir::RefType>(local.getType()).getPointee();
        place.local = makeLocal(place.pointee, facts->locals.lookup(local), "local");
        setPlace(local, place);
        // Store undef: no value is carried over from the previous iteration, so LLVM needs no register for it.
        if (place.local->array) return;
        for (llvm::Value *slot : place.local->slots)
          builder.CreateStore(llvm::UndefValue::get(cast<llvm::AllocaInst>(slot)->getAllocatedType()), slot);
      })
      .Case([&](ir::ElementOp element) {
        Components indices = getScalars(element.getIndices());
        setPlace(element, getElement(getTensor(element.getTensor()), indices, element.getIndices().getTypes()));
      })
      .Case([&](ir::ComponentOp component) {
        Components indices = getScalars(component.getIndices());
        setPlace(component, getComponent(getPlace(component.getRef()), indices, component.getIndices().getTypes()));
      })
      .Case([&](ir::ExtentOp extent) {
        llvm::Value *value = getExtent(getTensor(extent.getTensor()), extent.getAxis());
        give({{builder.CreateIntCast(value, module.getType(extent.getType()), /*isSigned=*/true)}});
      })
      .Case([&](ir::LoadOp op) {
        Place place = getPlace(op.getRef());
        place.isVolatile = op->hasAttr(ir::kVolatile);
        give(load(place));
      })
      .Case([&](ir::StoreOp op) { store(getPlace(op.getRef()), Components(getValue(op.getValue())), facts->divergent.contains(op)); })
      .Case([&](ir::AtomicOp op) { give(emitAtomic(op)); })
      .Case([&](ir::CompareExchangeOp op) { give({emitCompareExchange(op)}); })
      .Case([&](ir::RandomOp op) { give({emitRandom(op.getType())}); })
      .Case([&](ir::ThreadIndexOp) { give({makeVarying(splat(emitThreadIndex()))}); })
      .Case<ir::VectorOp, ir::BroadcastOp, ir::ExtractOp, ir::ExtractAtOp, ir::ReduceOp, ir::MatmulOp, ir::TransposeOp>(
          [&](Operation *) { give(emitVectorOp(op)); })
      .Case([&](ir::IfOp op) { emitIf(op); })
      .Case([&](ir::ForOp op) { emitFor(op); })
      .Case([&](ir::WhileOp op) { emitWhile(op); })
      .Case([&](ir::BreakOp op) { emitDeparture(op, Scope::Kind::Loop); })
      .Case([&](ir::ContinueOp op) { emitDeparture(op, Scope::Kind::Iteration); })
      .Case([&](ir::ReturnOp op) { emitReturn(op); })
      .Case<ir::YieldOp, ir::ConditionOp>([](Operation *) {})
      .Case([&](ir::CallOp op) { emitCall(op); })
      .Case([&](ir::PrintOp op) { emitPrint(op); })
      .Case([&](ir::AssertOp op) { emitAssert(op); })
      .Case([&](ir::ClaimOp op) { emitClaim(op); })
      .Default([&](Operation *op) { module.reportError(op->getLoc()) << "the LLVM emitter does not know " << op->getName(); });
}

//--- Values ---

template <typename T> bool BodyEmitter::isKnown(llvm::DenseMap<Value, T> &map, Value value) {
  if (map.contains(value) || (resolve && resolve(value))) return true;
  module.reportError(value.getLoc()) << "the LLVM emitter has nothing for a value here; this is a bug of the compiler";
  return false;
}

const Components &BodyEmitter::getValue(Value value) {
  if (!isKnown(values, value)) {
    auto *poison = llvm::PoisonValue::get(module.getType(ir::getScalar(value.getType())));
    setValue(value, Components(size_t(ir::getComponentCount(value.getType())), {poison}));
  }
  return values[value];
}

Components BodyEmitter::getScalars(ValueRange range) {
  Components scalars;
  for (Value value : range) scalars.push_back(getScalar(value));
  return scalars;
}

Place BodyEmitter::getPlace(Value ref) {
  if (!isKnown(places, ref)) {
    Place none;
    none.pointee = cast<ir::RefType>(ref.getType()).getPointee();
    none.base = llvm::PoisonValue::get(builder.getPtrTy());
    setPlace(ref, none);
  }
  return places[ref];
}

Tensor BodyEmitter::getTensor(Value tensor) {
  llvm::Value *none = llvm::PoisonValue::get(builder.getPtrTy());
  if (!isKnown(tensors, tensor)) setTensor(tensor, {cast<ir::TensorType>(tensor.getType()), none, none});
  return tensors[tensor];
}

llvm::Value *BodyEmitter::getUniform(Value value) {
  Component component = getScalar(value);
  return component.kind.isVarying() ? builder.CreateExtractElement(component.value, uint64_t(0)) : component.value;
}

llvm::Type *BodyEmitter::widen(llvm::Type *scalar) const { return lanes == 1 ? scalar : llvm::FixedVectorType::get(scalar, lanes); }

llvm::Value *BodyEmitter::splat(llvm::Value *scalar) { return lanes == 1 ? scalar : builder.CreateVectorSplat(lanes, scalar); }

llvm::Value *BodyEmitter::toVector(const Component &component) {
  if (component.kind.isVarying()) return component.value;
  llvm::Value *vector = splat(component.value);
  if (component.kind.isUniform()) return vector;
  llvm::SmallVector<llvm::Constant *, 16> steps;
  for (unsigned lane = 0; lane < lanes; ++lane)
    steps.push_back(llvm::ConstantInt::get(component.value->getType(), uint64_t(component.kind.getStride()) * lane, /*IsSigned=*/true,
                                           /*ImplicitTrunc=*/true));
  return builder.CreateAdd(vector, llvm::ConstantVector::get(steps));
}

llvm::Value *BodyEmitter::getLane(const Component &component, llvm::Value *lane) {
  if (component.kind.isUniform()) return component.value;
  if (component.kind.isVarying()) return builder.CreateExtractElement(component.value, lane);
  llvm::Type *type = component.value->getType();
  llvm::Value *step = llvm::ConstantInt::get(type, uint64_t(component.kind.getStride()), true, true);
  return builder.CreateAdd(component.value, builder.CreateMul(builder.CreateIntCast(lane, type, false), step));
}

Component BodyEmitter::castIndex(const Component &component, Type from, llvm::Type *to) {
  bool isSigned = !from.isUnsignedInteger() && !from.isInteger(1);
  unsigned fromBits = from.getIntOrFloatBitWidth(), toBits = to->getIntegerBitWidth();
  // An unsigned index may wrap between lanes (i - 1); a wider base would not.
  if (component.kind.isVarying() || (!component.kind.isUniform() && !isSigned && toBits > fromBits))
    return {builder.CreateIntCast(toVector(component), widen(to), isSigned), LaneKind::varying()};
  return {builder.CreateIntCast(component.value, to, isSigned), component.kind};
}

//--- The context ---

llvm::Value *BodyEmitter::getContextField(ContextField field) {
  if (module.traits.hasGrids) return getLaunchField(field);
  llvm::Value *pointer = offsetBy(context, int64_t(kContextOffsets[field]));
  if (field == kFailed) {
    llvm::LoadInst *failed = builder.CreateAlignedLoad(builder.getInt32Ty(), pointer, llvm::Align(4), /*isVolatile=*/true, "failed");
    module.setAlias(failed, module.getScratchScope()); // it is in no container either
    return failed;
  }
  if (field == kSingleThreaded) return builder.CreateAlignedLoad(builder.getInt32Ty(), pointer, llvm::Align(4));
  bool isNumber = field == kRandomSeed || field == kLaunchIndex;
  llvm::LoadInst *load = loadInvariant(isNumber ? static_cast<llvm::Type *>(builder.getInt64Ty()) : builder.getPtrTy(), pointer);
  if (field == kArguments && module.argumentBytes > 0) {
    // Lets LLVM hoist strides, and values computed from them, out of loops that use them conditionally.
    auto addNumber = [&](unsigned kind, uint64_t number) {
      load->setMetadata(kind, llvm::MDNode::get(module.ctx, llvm::ConstantAsMetadata::get(builder.getInt64(number))));
    };
    addNumber(llvm::LLVMContext::MD_dereferenceable, module.argumentBytes);
    addNumber(llvm::LLVMContext::MD_align, alignof(uint64_t));
  }
  return load;
}

llvm::Value *BodyEmitter::getLaunchField(ContextField field) {
  auto at = [&](size_t offset) { return offsetBy(context, int64_t(offset)); };
  switch (field) {
  case kArguments:
    if (module.argumentBytes <= QD_GPU_INLINE_ARGUMENTS) return at(sizeof(QdGpuLaunch));
    return loadAddress(at(offsetof(QdGpuLaunch, arguments)));
  case kResult: return loadAddress(at(offsetof(QdGpuLaunch, result)));
  case kScratch: return loadAddress(at(offsetof(QdGpuLaunch, scratch)));
  case kRandomSeed:
  case kLaunchIndex: {
    module.artifact.drawsRandom = true;
    size_t offset = field == kRandomSeed ? offsetof(QdGpuLaunch, random_seed) : offsetof(QdGpuLaunch, launch_index);
    return loadInvariant(builder.getInt64Ty(), at(offset));
  }
  case kFailed: {
    llvm::Value *state = loadAddress(at(offsetof(QdGpuLaunch, state)));
    return builder.CreateAlignedLoad(builder.getInt32Ty(), offsetBy(state, offsetof(QdGpuState, failed)), llvm::Align(4),
                                     /*isVolatile=*/true, "failed");
  }
  case kApi:
  case kSingleThreaded:
  case kContextFields: break;
  }
  llvm_unreachable("a grid has no runtime to call");
}

llvm::Value *BodyEmitter::loadAddress(llvm::Value *pointer) {
  if (!module.traits.hasGrids) return loadInvariant(builder.getPtrTy(), pointer);
  // Mark it as global memory: accesses through generic addresses are slower.
  return builder.CreateAddrSpaceCast(loadInvariant(builder.getPtrTy(kGlobalMemory), pointer), builder.getPtrTy());
}

static llvm::Type *getAbiType(llvm::IRBuilderBase &builder, AbiResult result) {
  switch (result) {
  case AbiResult::Nothing: return builder.getVoidTy();
  case AbiResult::Address: return builder.getPtrTy();
  case AbiResult::Int32: return builder.getInt32Ty();
  case AbiResult::Int64: return builder.getInt64Ty();
  }
  llvm_unreachable("unknown result");
}

llvm::CallInst *BodyEmitter::callRuntime(ApiField field, ArrayRef<llvm::Value *> operands) {
  const ApiMember &member = kApiMembers[field];
  llvm::Value *pointer = offsetBy(getContextField(kApi), int64_t(member.offset));
  llvm::Value *routine = builder.CreateAlignedLoad(builder.getPtrTy(), pointer, llvm::Align(8));
  llvm::SmallVector<llvm::Value *, 6> all = {context};
  llvm::SmallVector<llvm::Type *, 6> types;
  all.append(operands.begin(), operands.end());
  for (llvm::Value *operand : all) types.push_back(operand->getType());
  return builder.CreateCall(llvm::FunctionType::get(getAbiType(builder, member.result), types, false), routine, all);
}

llvm::Value *BodyEmitter::emitThreadIndex() {
  if (!module.traits.hasGrids) return callRuntime(kThreadIndex, {});
  GridThreads threads(*this);
  return builder.CreateAdd(builder.CreateMul(threads.getBlock(), threads.getBlockSize()), threads.getThread());
}

llvm::LoadInst *BodyEmitter::loadInvariant(llvm::Type *type, llvm::Value *pointer, llvm::Align align) {
  llvm::LoadInst *load = builder.CreateAlignedLoad(type, pointer, align);
  load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(module.ctx, {}));
  return load;
}

} // namespace qd::codegen
