#include "codegen/llvm/body.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/IR/Constants.h"

using namespace mlir;

namespace qd::codegen {

BodyEmitter::BodyEmitter(ModuleEmitter &module, llvm::Function *function, unsigned lanes, const BodyFacts &facts)
    : module(module), function(function), lanes(lanes), facts(&facts), builder(module.ctx) {
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

LogicalResult BodyEmitter::emitBlock(Block &block) {
  // Blocks at which the walk goes on after the rest of this block was jumped over, because no lane may be left.
  llvm::BasicBlock *end = nullptr;
  for (Operation &op : block) {
    if (failed(emitOp(&op))) return failure();
    if (isTerminated()) {
      if (&op == &block.back()) break;
      // What follows is never reached, but must be emitted to keep every value defined.
      moveTo(makeBlock("dead"));
    }
    if (facts->loseLanes.contains(&op) && &op != &block.back() && !isa<ir::YieldOp, ir::ConditionOp>(op.getNextNode())) {
      if (!end) end = makeBlock("rest.end");
      llvm::BasicBlock *rest = makeBlock("rest");
      builder.CreateCondBr(isAny(getMask()), rest, end);
      moveTo(rest);
    }
  }
  if (end) {
    branchTo(end);
    moveTo(end);
  }
  return success();
}

LogicalResult BodyEmitter::emitOp(Operation *op) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case<ir::UnaryOp, ir::BinaryOp, ir::CastOp, ir::BitCastOp, ir::SelectOp>([&](Operation *op) {
        setValue(op->getResult(0), emitElementwise(op));
        return success();
      })
      .Case<ir::ConstantOp>([&](ir::ConstantOp constant) {
        setValue(constant, emitConstant(constant.getValue()));
        return success();
      })
      .Case<ir::ArgumentOp>([&](ir::ArgumentOp argument) {
        llvm::Value *block = getContextField(kArguments);
        Type scalar = ir::getScalar(argument.getType());
        Components components;
        for (int64_t i = 0; i < ir::getComponentCount(argument.getType()); ++i) {
          llvm::Value *pointer =
              builder.CreateConstGEP1_64(builder.getInt8Ty(), block, argument.getOffset() + i * module.getByteSize(scalar));
          components.push_back({loadPlain(scalar, pointer, /*invariant=*/true)});
        }
        setValue(argument, std::move(components));
        return success();
      })
      .Case<ir::TensorArgumentOp>([&](ir::TensorArgumentOp argument) {
        Tensor tensor;
        tensor.type = cast<ir::TensorType>(argument.getType());
        tensor.descriptor = builder.CreateConstGEP1_64(builder.getInt8Ty(), getContextField(kArguments), argument.getOffset());
        llvm::LoadInst *data = builder.CreateAlignedLoad(builder.getPtrTy(), tensor.descriptor, llvm::Align(8), "data");
        data->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(module.ctx, {}));
        tensor.data = data;
        tensor.scope = module.getAliasScope(argument);
        setTensor(argument, tensor);
        return success();
      })
      .Case<ir::ScratchOp>([&](ir::ScratchOp scratch) {
        Place place;
        place.pointee = cast<ir::RefType>(scratch.getType()).getPointee();
        place.base = builder.CreateConstGEP1_64(builder.getInt8Ty(), getContextField(kScratch), scratch.getOffset());
        place.componentStride = module.getByteSize(ir::getScalar(place.pointee));
        place.scope = module.getScratchScope();
        setPlace(scratch, place);
        return success();
      })
      .Case<ir::LocalOp>([&](ir::LocalOp local) {
        auto kinds = facts->locals.find(local);
        Place place;
        place.pointee = cast<ir::RefType>(local.getType()).getPointee();
        place.local =
            makeLocal(place.pointee, kinds == facts->locals.end() ? ArrayRef<LaneKind>() : ArrayRef<LaneKind>(kinds->second), "local");
        setPlace(local, place);
        // Nothing is carried over from the last time round a loop, so no register is kept for it.
        for (llvm::Value *slot : place.local->slots)
          builder.CreateStore(llvm::UndefValue::get(cast<llvm::AllocaInst>(slot)->getAllocatedType()), slot);
        return success();
      })
      .Case<ir::ElementOp>([&](ir::ElementOp element) {
        llvm::SmallVector<Component, 4> indices;
        for (Value index : element.getIndices()) indices.push_back(getScalar(index));
        Place place = getElement(getTensor(element.getTensor()), indices, element.getIndices().getTypes());
        setPlace(element, place);
        return success();
      })
      .Case<ir::ComponentOp>([&](ir::ComponentOp component) {
        llvm::SmallVector<Component, 4> indices;
        for (Value index : component.getIndices()) indices.push_back(getScalar(index));
        Place place = getComponent(getPlace(component.getRef()), indices, component.getIndices().getTypes());
        setPlace(component, place);
        return success();
      })
      .Case<ir::ExtentOp>([&](ir::ExtentOp extent) {
        llvm::Value *value = getExtent(getTensor(extent.getTensor()), extent.getAxis());
        setValue(extent, {{builder.CreateIntCast(value, module.getType(extent.getType()), /*isSigned=*/true)}});
        return success();
      })
      .Case<ir::LoadOp>([&](ir::LoadOp loadOp) {
        Components components = load(getPlace(loadOp.getRef()));
        setValue(loadOp, std::move(components));
        return success();
      })
      .Case<ir::StoreOp>([&](ir::StoreOp storeOp) {
        store(getPlace(storeOp.getRef()), Components(getValue(storeOp.getValue())), facts->divergent.contains(storeOp));
        return success();
      })
      .Case<ir::AtomicOp>([&](ir::AtomicOp atomic) {
        setValue(atomic, emitAtomic(atomic));
        return success();
      })
      .Case<ir::CompareExchangeOp>([&](ir::CompareExchangeOp exchange) {
        setValue(exchange, {emitCompareExchange(exchange)});
        return success();
      })
      .Case<ir::RandomOp>([&](ir::RandomOp random) {
        setValue(random, {emitRandom(random.getType())});
        return success();
      })
      .Case<ir::VectorOp, ir::BroadcastOp, ir::ExtractOp, ir::ExtractAtOp, ir::ReduceOp, ir::MatmulOp, ir::TransposeOp>(
          [&](Operation *op) { return emitVectorOp(op); })
      .Case<ir::IfOp>([&](ir::IfOp op) { return emitIf(op); })
      .Case<ir::ForOp>([&](ir::ForOp op) { return emitFor(op); })
      .Case<ir::WhileOp>([&](ir::WhileOp op) { return emitWhile(op); })
      .Case<ir::BreakOp>([&](ir::BreakOp op) {
        emitDeparture(op, Scope::Kind::Loop);
        return success();
      })
      .Case<ir::ContinueOp>([&](ir::ContinueOp op) {
        emitDeparture(op, Scope::Kind::Iteration);
        return success();
      })
      .Case<ir::ReturnOp>([&](ir::ReturnOp op) { return emitReturn(op); })
      .Case<ir::YieldOp, ir::ConditionOp>([](Operation *) { return success(); })
      .Case<ir::CallOp>([&](ir::CallOp op) { return emitCall(op); })
      .Case<ir::PrintOp>([&](ir::PrintOp op) { return emitPrint(op); })
      .Case<ir::AssertOp>([&](ir::AssertOp op) { return emitAssert(op); })
      .Default([](Operation *op) { return op->emitError() << "the LLVM emitter does not know " << op->getName(); });
}

//--- Values ---

const Components &BodyEmitter::getValue(Value value) {
  auto found = values.find(value);
  if (found == values.end()) {
    bool found = resolve && succeeded(resolve(value));
    if (!found) {
      emitError(value.getLoc(), "the LLVM emitter has no value here; this is a bug of the compiler");
      module.hasFailed = true;
      values[value] = Components(size_t(ir::getComponentCount(value.getType())),
                                 {llvm::PoisonValue::get(module.getType(ir::getScalar(value.getType()))), LaneKind::uniform()});
    }
    return values[value];
  }
  return found->second;
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
  // An unsigned index may wrap between lanes (i - 1), which a wider base does not follow.
  if (component.kind.isVarying() || (!component.kind.isUniform() && !isSigned && toBits > fromBits))
    return {builder.CreateIntCast(toVector(component), widen(to), isSigned), LaneKind::varying()};
  return {builder.CreateIntCast(component.value, to, isSigned), component.kind};
}

llvm::Value *BodyEmitter::getContextField(unsigned index) {
  // All members before `failed` take 8 bytes (runtime/kernel_abi.h).
  llvm::Value *pointer = builder.CreateConstGEP1_64(builder.getInt8Ty(), context, uint64_t(index) * 8);
  if (index == kFailed) return builder.CreateAlignedLoad(builder.getInt32Ty(), pointer, llvm::Align(4), /*isVolatile=*/true, "failed");
  llvm::Type *type = index == kRandomSeed || index == kLaunchIndex ? static_cast<llvm::Type *>(builder.getInt64Ty()) : builder.getPtrTy();
  llvm::LoadInst *load = builder.CreateAlignedLoad(type, pointer, llvm::Align(8));
  load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(module.ctx, {}));
  return load;
}

} // namespace qd::codegen
