// calls.cpp: calls of function instances, inlined or not
//
// A call is inlined, or it calls an LLVM function that exists once per combination of the arguments' lane kinds (getInstance).
#include "codegen/llvm/body.h"

using namespace mlir;

namespace qd::codegen {

// Bytes of a grid's stack that are left when a call fails: for the kernel's own frame, one more call, and the report of the failure.
static constexpr int64_t kStackReserve = 192;

static LaneKind getResultKind(const BodyFacts &facts, size_t position) {
  if (position >= facts.results.size() || facts.results[position].isUnset()) return LaneKind::uniform();
  return facts.results[position];
}

LocalStorage *Calls::makeResults(ir::FuncOp callee, const BodyFacts &calleeFacts) {
  LocalStorage &storage = storages.emplace_back();
  for (Type type : callee.getResultTypes())
    for (int64_t i = 0; i < ir::getComponentCount(type); ++i) {
      LaneKind kind = in.lanes == 1 ? LaneKind::uniform() : getResultKind(calleeFacts, storage.kinds.size());
      llvm::Type *scalar = module.getType(ir::getScalar(type));
      storage.kinds.push_back(kind);
      storage.slots.push_back(in.makeSlot(in.widen(scalar, kind), "returned"));
    }
  return &storage;
}

Components Calls::loadResults(const LocalStorage &results) {
  Components components;
  for (auto [slot, kind] : llvm::zip(results.slots, results.kinds))
    components.push_back({builder.CreateLoad(cast<llvm::AllocaInst>(slot)->getAllocatedType(), slot), kind});
  return components;
}

/// Emits the body; the parameters already have values and places. The insertion point ends up in `exit`.
void Calls::emitFunctionBody(ir::FuncOp callee, Returns into, llvm::BasicBlock *exit) {
  Returns outer = std::exchange(returns, into);
  control.emitFunction(callee.getBody().front(), exit);
  returns = outer;
}

void Calls::emitReturn(ir::ReturnOp op) {
  if (!control.isInFunction()) {
    if (leaveKernel) return leaveKernel(op);
    module.reportError(op.getLoc()) << "a parallel loop cannot return from the kernel";
    return;
  }
  Components components;
  for (Value value : op.getValues()) llvm::append_range(components, values.getValue(value));
  if (returns.values) {
    *returns.values = std::move(components);
  } else if (returns.slots) {
    bool masked = in.mask && (in.facts->divergentReturn || in.facts->divergent.contains(op));
    for (auto [component, slot, kind] : llvm::zip(components, returns.slots->slots, returns.slots->kinds)) {
      llvm::Value *stored = kind.isVarying() ? in.toVector(component) : component.value;
      if (masked && kind.isVarying()) stored = builder.CreateSelect(in.mask, stored, builder.CreateLoad(stored->getType(), slot));
      builder.CreateStore(stored, slot);
    }
  }
  control.leaveFunction(op);
}

void Calls::emitCall(ir::CallOp op) {
  ir::FuncOp callee = module.calls.lookup(op);
  if (!callee) {
    module.reportError(op.getLoc()) << "calls unknown " << op.getCallee();
    return;
  }
  LaneKinds kinds;
  bool hasMemoryPlace = false;
  for (Value argument : op.getArguments()) {
    if (ir::isValue(argument.getType())) {
      for (const Component &component : values.getValue(argument)) kinds.push_back(component.kind);
    } else if (isa<ir::RefType>(argument.getType())) {
      const Place place = values.getPlace(argument);
      const auto *local = std::get_if<LocalPlace>(&place);
      hasMemoryPlace |= !local || local->findIndex() || local->isAccumulator;
    } else {
      hasMemoryPlace = true;
    }
  }
  const BodyFacts &calleeFacts = in.lanes == 1 ? module.uniformity.getScalarFacts() : module.uniformity.analyzeFunction(callee, kinds);
  Components results;
  if (!hasMemoryPlace && module.functions.isOutlined(callee)) {
    results = emitOutlined(op, callee, calleeFacts, kinds);
  } else if (llvm::any_of(sites.inlinedCalls, [&](Operation *call) { return module.calls.lookup(call) == callee; })) {
    module.reportError(op.getLoc()) << "a recursive function cannot take containers, or references to their elements";
    return;
  } else {
    sites.inlinedCalls.push_back(op);
    results = emitInlined(op, callee, calleeFacts);
    sites.inlinedCalls.pop_back();
  }
  ArrayRef<Component> rest = results;
  for (Value output : op.getOutputs()) {
    ArrayRef<Component> own = rest.take_front(size_t(ir::getComponentCount(output.getType())));
    values.setValue(output, Components(own));
    rest = rest.drop_front(own.size());
  }
}

Components Calls::emitInlined(ir::CallOp op, ir::FuncOp callee, const BodyFacts &calleeFacts) {
  for (auto [parameter, argument] : llvm::zip(callee.getBody().getArguments(), op.getArguments())) {
    if (isa<ir::RefType>(argument.getType())) {
      Place place = values.getPlace(argument);
      if (auto *local = std::get_if<LocalPlace>(&place)) local->isReference = true;
      values.setPlace(parameter, place);
    } else if (isa<ir::TensorType>(argument.getType())) {
      values.setTensor(parameter, values.getTensor(argument));
    } else {
      values.setValue(parameter, Components(values.getValue(argument)));
    }
  }
  // The values of a single return at the end are used directly.
  unsigned returnCount = 0;
  callee.getBody().walk([&](ir::ReturnOp) { ++returnCount; });
  Block &body = callee.getBody().front();
  Components direct;
  Returns into;
  if (returnCount == 1 && !body.empty() && isa<ir::ReturnOp>(body.back()))
    into.values = &direct;
  else
    into.slots = makeResults(callee, calleeFacts);
  const BodyFacts *outer = std::exchange(in.facts, &calleeFacts);
  emitFunctionBody(callee, into, in.makeBlock("call.end"));
  in.facts = outer;
  return into.slots ? loadResults(*into.slots) : direct;
}

/// The address of a local shows the depth of the stack.
llvm::Value *Calls::getStackAddress() { return builder.CreatePtrToInt(in.makeSlot(builder.getInt8Ty(), "stack"), builder.getInt64Ty()); }

/// The limit for the first of recursive calls. A grid does not know where its stack begins, only how long it is.
llvm::Value *Calls::getStackLimit() {
  if (!module.traits.hasGrids) return launch.callRuntime(kStackLimit, {});
  return builder.CreateSub(getStackAddress(), builder.getInt64(uint64_t(std::max<int64_t>(0, module.options.stackBytes - kStackReserve))));
}

void Calls::leaveIfStackIsFull(ir::CallOp op) { sites.failWhen(builder.CreateICmpULT(getStackAddress(), stackLimit), "stack.used.up", op); }

Components Calls::emitOutlined(ir::CallOp op, ir::FuncOp callee, const BodyFacts &calleeFacts, ArrayRef<LaneKind> kinds) {
  llvm::Function *instance = module.getInstance(callee, kinds, in.lanes);
  llvm::SmallVector<llvm::Value *, 16> operands = {in.toGeneric(launch.context)};
  if (module.needsStackLimit(callee)) {
    if (stackLimit) leaveIfStackIsFull(op);
    operands.push_back(stackLimit ? stackLimit : getStackLimit());
  }
  if (in.lanes > 1) operands.push_back(in.getMask());
  for (Value argument : op.getArguments()) {
    if (isa<ir::RefType>(argument.getType())) {
      const auto place = std::get<LocalPlace>(values.getPlace(argument));
      if (const size_t *number = place.findNumber())
        operands.push_back(in.toGeneric(place.storage->slots[*number]));
      else
        for (llvm::Value *slot : place.storage->slots) operands.push_back(in.toGeneric(slot));
    } else {
      for (const Component &component : values.getValue(argument)) operands.push_back(component.value);
    }
  }
  llvm::Value *result = builder.CreateCall(instance, operands);
  bool mayFail = module.traits.hasGrids && module.needsStackLimit(callee);
  if (mayFail || module.calls.contains(callee.getBody(), llvm::IsaPred<ir::AssertOp>))
    launch.leaveIfFailed();
  else if (module.calls.contains(callee.getBody(), llvm::IsaPred<ir::WhileOp, ir::ForOp>))
    launch.leaveIfCanceled();
  Components components;
  for (Value output : op.getOutputs())
    for (int64_t i = 0; i < ir::getComponentCount(output.getType()); ++i) {
      auto position = unsigned(components.size());
      components.push_back(
          {builder.CreateExtractValue(result, position), in.lanes == 1 ? LaneKind::uniform() : getResultKind(calleeFacts, position)});
    }
  return components;
}

void Calls::emitInstance(ir::FuncOp function, llvm::Type *resultType) {
  LocalStorage *slots = makeResults(function, *in.facts);
  emitFunctionBody(function, {slots, nullptr}, in.makeBlock("return"));
  llvm::Value *result = llvm::PoisonValue::get(resultType);
  for (auto [i, component] : llvm::enumerate(loadResults(*slots))) result = builder.CreateInsertValue(result, component.value, unsigned(i));
  builder.CreateRet(result);
}

llvm::Function *ModuleEmitter::getInstance(ir::FuncOp callee, ArrayRef<LaneKind> kinds, unsigned lanes) {
  std::string name = ("qd_func_" + callee.getSymName() + "_x" + llvm::Twine(lanes)).str();
  for (LaneKind kind : kinds) name += kind.isVarying() ? "_v" : kind.isUniform() ? "_u" : "_l" + std::to_string(kind.getStride());
  llvm::Function *&instance = instances[name];
  if (instance) return instance;
  const BodyFacts &facts = lanes == 1 ? uniformity.getScalarFacts() : uniformity.analyzeFunction(callee, kinds);
  auto widen = [&](Type scalar, LaneKind kind) -> llvm::Type * {
    llvm::Type *type = getType(scalar);
    return lanes > 1 && kind.isVarying() ? llvm::FixedVectorType::get(type, lanes) : type;
  };
  llvm::SmallVector<llvm::Type *, 16> parameters = {getParameterType(spaces.launch)}, results;
  if (needsStackLimit(callee)) parameters.push_back(llvm::Type::getInt64Ty(ctx));
  if (lanes > 1) parameters.push_back(llvm::FixedVectorType::get(llvm::Type::getInt1Ty(ctx), lanes));
  size_t position = 0;
  for (Type type : callee.getArgumentTypes()) {
    auto ref = dyn_cast<ir::RefType>(type);
    for (int64_t i = 0; i < ir::getComponentCount(ref ? ref.getPointee() : type); ++i)
      parameters.push_back(ref ? getParameterType(spaces.local) : widen(ir::getScalar(type), kinds[position++]));
  }
  for (Type type : callee.getResultTypes())
    for (int64_t i = 0; i < ir::getComponentCount(type); ++i)
      results.push_back(widen(ir::getScalar(type), getResultKind(facts, results.size())));
  if (results.empty()) results.push_back(llvm::Type::getInt1Ty(ctx)); // GPUs have no empty results
  llvm::Type *resultType = llvm::StructType::get(ctx, results);
  instance = makeFunction(resultType, parameters, name);
  // Inlining would duplicate the code.
  instance->addFnAttr(llvm::Attribute::NoInline);

  BodyEmitter body(*this, instance, lanes, facts);
  unsigned next = 1;
  if (needsStackLimit(callee)) body.calls.stackLimit = instance->getArg(next++);
  if (lanes > 1) body.mask = instance->getArg(next++);
  position = 0;
  std::deque<LocalStorage> references;
  for (BlockArgument parameter : callee.getBody().getArguments()) {
    if (auto ref = dyn_cast<ir::RefType>(parameter.getType())) {
      LocalStorage &storage = references.emplace_back();
      for (int64_t i = 0; i < ir::getComponentCount(ref.getPointee()); ++i) {
        storage.slots.push_back(instance->getArg(next++));
        storage.kinds.push_back(body.manyLanes);
      }
      LocalPlace place{ref.getPointee(), &storage};
      // The caller's local is visible to lanes outside of this call's mask.
      place.isReference = true;
      body.values.setPlace(parameter, place);
      continue;
    }
    Components components;
    for (int64_t i = 0; i < ir::getComponentCount(parameter.getType()); ++i)
      components.push_back({instance->getArg(next++), kinds[position++]});
    body.values.setValue(parameter, std::move(components));
  }
  body.launch.leaveFailed = [&] { body.builder.CreateRet(llvm::Constant::getNullValue(resultType)); };
  if (functions.isRecursive(callee)) body.launch.leaveIfCanceled();
  body.calls.emitInstance(callee, resultType);
  return instance;
}

} // namespace qd::codegen
