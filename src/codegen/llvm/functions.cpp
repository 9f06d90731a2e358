// functions.cpp: calls of function instances
//
// A call is emitted in place, or as a call of an LLVM function made once for each combination of lane kinds of the arguments. Large
// functions that are called several times get one: their code is compiled once. What draws random numbers or prints is emitted in place,
// because it needs to know the iteration; so is what takes places in memory or containers, whose addresses are known best where they come
// from.
#include "codegen/llvm/body.h"

using namespace mlir;

namespace qd::codegen {

/// What calls may copy altogether before they share a function.
constexpr int64_t kInlineTotal = 2500;
/// Below this a function of its own costs more than it saves.
constexpr int64_t kOutlineSize = 48;

ir::FuncOp ModuleEmitter::lookup(ir::CallOp call) const {
  return dyn_cast_or_null<ir::FuncOp>(SymbolTable::lookupSymbolIn(source, call.getCalleeAttr()));
}

void ModuleEmitter::countCalls() {
  source->walk([&](ir::CallOp call) {
    if (ir::FuncOp callee = lookup(call)) ++callCounts[callee];
  });
}

int64_t ModuleEmitter::getSize(Region &region) {
  int64_t size = 0;
  region.walk([&](Operation *op) {
    auto call = dyn_cast<ir::CallOp>(op);
    ir::FuncOp callee = call ? lookup(call) : ir::FuncOp();
    if (!callee) {
      for (Type type : op->getResultTypes()) size += ir::isValue(type) ? ir::getComponentCount(type) : 1;
      size += op->getNumResults() == 0;
      return;
    }
    if (!functionSizes.contains(callee)) {
      functionSizes[callee] = 1;
      int64_t calleeSize = getSize(callee.getBody());
      functionSizes[callee] = calleeSize;
    }
    size += functionSizes[callee];
  });
  return size;
}

bool ModuleEmitter::containsDeep(Region &region, llvm::function_ref<bool(Operation *)> matches) {
  llvm::DenseSet<Operation *> seen;
  std::function<bool(Region &)> search = [&](Region &body) {
    return body
        .walk([&](Operation *op) {
          if (matches(op)) return WalkResult::interrupt();
          auto call = dyn_cast<ir::CallOp>(op);
          ir::FuncOp callee = call ? lookup(call) : ir::FuncOp();
          return callee && seen.insert(callee).second && search(callee.getBody()) ? WalkResult::interrupt() : WalkResult::advance();
        })
        .wasInterrupted();
  };
  return search(region);
}

bool ModuleEmitter::isRecursive(ir::FuncOp function) {
  auto found = recursive.find(function);
  if (found != recursive.end()) return found->second;
  return recursive[function] = containsDeep(function.getBody(), [&](Operation *op) {
           auto call = dyn_cast<ir::CallOp>(op);
           return call && lookup(call) == function;
         });
}

bool ModuleEmitter::isOutlined(ir::FuncOp function) {
  auto [entry, isNew] = outlined.try_emplace(function, false);
  if (!isNew) return entry->second;
  if (isRecursive(function)) return outlined[function] = true;
  int64_t size = getSize(function.getBody());
  bool result = size >= kOutlineSize && size * int64_t(callCounts[function]) > kInlineTotal && callCounts[function] > 1 &&
                llvm::none_of(function.getArgumentTypes(), llvm::IsaPred<ir::TensorType>) &&
                !containsDeep(function.getBody(), [](Operation *op) { return isa<ir::RandomOp, ir::PrintOp>(op); });
  return outlined[function] = result;
}

static LaneKind getResultKind(const BodyFacts &facts, size_t position) {
  if (position >= facts.results.size() || facts.results[position].isUnset()) return LaneKind::uniform();
  return facts.results[position];
}

LocalStorage *BodyEmitter::makeResults(ir::FuncOp callee, const BodyFacts &calleeFacts) {
  LocalStorage &storage = storages.emplace_back();
  for (Type type : callee.getResultTypes())
    for (int64_t i = 0; i < ir::getComponentCount(type); ++i) {
      LaneKind kind = lanes == 1 ? LaneKind::uniform() : getResultKind(calleeFacts, storage.kinds.size());
      llvm::Type *scalar = module.getType(ir::getScalar(type));
      storage.kinds.push_back(kind);
      storage.slots.push_back(makeSlot(kind.isVarying() ? widen(scalar) : scalar, "returned"));
    }
  return &storage;
}

/// Emits the body; the parameters have their values and places. Afterwards the walk stands in `exit`.
LogicalResult BodyEmitter::emitFunctionBody(ir::FuncOp callee, Returns into, llvm::BasicBlock *exit) {
  Returns outer = std::exchange(returns, into);
  llvm::Value *before = mask;
  scopes.push_back({Scope::Kind::Function, exit});
  if (lanes > 1 && facts->divergentReturn) scopes.back().live = makeLive("live.function");
  if (failed(emitBlock(callee.getBody().front()))) return failure();
  branchTo(exit);
  scopes.pop_back();
  moveTo(exit);
  mask = before;
  returns = outer;
  return success();
}

LogicalResult BodyEmitter::emitReturn(ir::ReturnOp op) {
  bool inFunction = llvm::any_of(scopes, [](const Scope &scope) { return scope.kind == Scope::Kind::Function; });
  if (!inFunction) {
    if (!leaveKernel) return op.emitError("a parallel loop cannot return from the kernel");
    leaveKernel(op);
    return success();
  }
  Components components;
  for (Value value : op.getValues()) llvm::append_range(components, getValue(value));
  if (returns.values) {
    *returns.values = std::move(components);
  } else if (returns.slots) {
    bool masked = mask && (facts->divergentReturn || facts->divergent.contains(op));
    for (auto [component, slot, kind] : llvm::zip(components, returns.slots->slots, returns.slots->kinds)) {
      llvm::Value *stored = kind.isVarying() ? toVector(component) : component.value;
      if (masked && kind.isVarying()) stored = builder.CreateSelect(mask, stored, builder.CreateLoad(stored->getType(), slot));
      builder.CreateStore(stored, slot);
    }
  }
  emitDeparture(op, Scope::Kind::Function);
  return success();
}

LogicalResult BodyEmitter::emitCall(ir::CallOp op) {
  ir::FuncOp callee = module.lookup(op);
  if (!callee) return op.emitError() << "calls unknown " << op.getCallee();
  LaneKinds kinds;
  bool hasMemoryPlace = false;
  for (Value argument : op.getArguments()) {
    if (ir::isValue(argument.getType())) {
      for (const Component &component : getValue(argument)) kinds.push_back(component.kind);
    } else if (isa<ir::RefType>(argument.getType())) {
      Place place = getPlace(argument);
      hasMemoryPlace |= !place.local || place.chosen.value || place.isPrivate;
    } else {
      hasMemoryPlace = true;
    }
  }
  const BodyFacts &calleeFacts = lanes == 1 ? module.uniformity.getScalarFacts() : module.uniformity.analyzeFunction(callee, kinds);
  if (!hasMemoryPlace && module.isOutlined(callee)) return emitOutlined(op, callee, calleeFacts, kinds);
  if (llvm::is_contained(inlinedFunctions, callee.getOperation()))
    return op.emitError("a recursive function cannot take containers, or references to their elements");
  inlinedFunctions.push_back(callee);
  LogicalResult result = emitInlined(op, callee, calleeFacts);
  inlinedFunctions.pop_back();
  return result;
}

LogicalResult BodyEmitter::emitInlined(ir::CallOp op, ir::FuncOp callee, const BodyFacts &calleeFacts) {
  for (auto [parameter, argument] : llvm::zip(callee.getBody().getArguments(), op.getArguments())) {
    if (isa<ir::RefType>(argument.getType())) {
      Place place = getPlace(argument);
      place.isReference = place.local != nullptr;
      setPlace(parameter, place);
    } else if (isa<ir::TensorType>(argument.getType()))
      setTensor(parameter, getTensor(argument));
    else
      setValue(parameter, Components(getValue(argument)));
  }
  // A single return at the end hands its values over as they are.
  unsigned returnCount = 0;
  callee.getBody().walk([&](ir::ReturnOp) { ++returnCount; });
  Block &body = callee.getBody().front();
  Components direct;
  Returns into;
  if (returnCount == 1 && !body.empty() && isa<ir::ReturnOp>(body.back()))
    into.values = &direct;
  else
    into.slots = makeResults(callee, calleeFacts);

  const BodyFacts *outer = std::exchange(facts, &calleeFacts);
  llvm::BasicBlock *exit = makeBlock("call.end");
  if (failed(emitFunctionBody(callee, into, exit))) return failure();
  facts = outer;
  if (into.slots)
    for (auto [slot, kind] : llvm::zip(into.slots->slots, into.slots->kinds))
      direct.push_back({builder.CreateLoad(cast<llvm::AllocaInst>(slot)->getAllocatedType(), slot), kind});
  size_t position = 0;
  for (Value output : op.getOutputs()) {
    size_t count = size_t(ir::getComponentCount(output.getType()));
    setValue(output, Components(direct.begin() + ptrdiff_t(position), direct.begin() + ptrdiff_t(position + count)));
    position += count;
  }
  return success();
}

LogicalResult BodyEmitter::emitOutlined(ir::CallOp op, ir::FuncOp callee, const BodyFacts &calleeFacts, ArrayRef<LaneKind> kinds) {
  llvm::Function *instance = module.getInstance(callee, kinds, lanes);
  if (!instance) return failure();
  llvm::SmallVector<llvm::Value *, 16> operands = {context};
  if (lanes > 1) operands.push_back(getMask());
  for (Value argument : op.getArguments()) {
    if (isa<ir::RefType>(argument.getType())) {
      Place place = getPlace(argument);
      llvm::Type *type = module.getMemoryType(ir::getScalar(place.pointee));
      for (size_t i = 0; i < place.local->kinds.size(); ++i) {
        if (place.component >= 0 && size_t(place.component) != i) continue;
        llvm::Value *slot = place.local->array ? builder.CreateConstGEP1_64(widen(type), place.local->array, i) : place.local->slots[i];
        operands.push_back(slot);
      }
    } else {
      for (const Component &component : getValue(argument)) operands.push_back(component.value);
    }
  }
  llvm::Value *result = builder.CreateCall(instance, operands);
  if (module.containsDeep(callee.getBody(), [](Operation *nested) { return isa<ir::AssertOp, ir::WhileOp>(nested); })) leaveIfFailed();
  unsigned position = 0;
  for (Value output : op.getOutputs()) {
    Components components;
    for (int64_t i = 0; i < ir::getComponentCount(output.getType()); ++i, ++position)
      components.push_back(
          {builder.CreateExtractValue(result, position), lanes == 1 ? LaneKind::uniform() : getResultKind(calleeFacts, position)});
    setValue(output, std::move(components));
  }
  return success();
}

llvm::Function *ModuleEmitter::getInstance(ir::FuncOp callee, ArrayRef<LaneKind> kinds, unsigned lanes) {
  std::string name = ("qd_func_" + callee.getSymName() + "_x" + llvm::Twine(lanes)).str();
  for (LaneKind kind : kinds) name += kind.isVarying() ? "_v" : kind.isUniform() ? "_u" : "_l" + std::to_string(kind.getStride());
  llvm::Function *&instance = instances[name];
  if (instance) return instance;
  const BodyFacts &facts = lanes == 1 ? uniformity.getScalarFacts() : uniformity.analyzeFunction(callee, kinds);
  auto widen = [&](llvm::Type *type, LaneKind kind) -> llvm::Type * {
    return lanes > 1 && kind.isVarying() ? llvm::FixedVectorType::get(type, lanes) : type;
  };
  llvm::Type *pointer = llvm::PointerType::get(ctx, 0);
  llvm::SmallVector<llvm::Type *, 16> parameters = {pointer}, results;
  if (lanes > 1) parameters.push_back(llvm::FixedVectorType::get(llvm::Type::getInt1Ty(ctx), lanes));
  size_t position = 0;
  for (Type type : callee.getArgumentTypes()) {
    if (auto ref = dyn_cast<ir::RefType>(type)) {
      parameters.append(size_t(ir::getComponentCount(ref.getPointee())), pointer);
      continue;
    }
    for (int64_t i = 0; i < ir::getComponentCount(type); ++i) parameters.push_back(widen(getType(ir::getScalar(type)), kinds[position++]));
  }
  for (Type type : callee.getResultTypes())
    for (int64_t i = 0; i < ir::getComponentCount(type); ++i)
      results.push_back(widen(getType(ir::getScalar(type)), getResultKind(facts, results.size())));
  llvm::Type *resultType = results.empty() ? llvm::Type::getVoidTy(ctx) : static_cast<llvm::Type *>(llvm::StructType::get(ctx, results));
  instance =
      llvm::Function::Create(llvm::FunctionType::get(resultType, parameters, false), llvm::GlobalValue::InternalLinkage, name, *module);
  // The point of it is that its code is there once.
  instance->addFnAttr(llvm::Attribute::NoInline);

  BodyEmitter body(*this, instance, lanes, facts);
  unsigned next = 1;
  if (lanes > 1) body.mask = instance->getArg(next++);
  position = 0;
  std::deque<LocalStorage> references;
  for (BlockArgument parameter : callee.getBody().getArguments()) {
    if (auto ref = dyn_cast<ir::RefType>(parameter.getType())) {
      LocalStorage &storage = references.emplace_back();
      for (int64_t i = 0; i < ir::getComponentCount(ref.getPointee()); ++i) {
        storage.slots.push_back(instance->getArg(next++));
        storage.kinds.push_back(lanes == 1 ? LaneKind::uniform() : LaneKind::varying());
      }
      Place place;
      place.pointee = ref.getPointee();
      place.local = &storage;
      // The caller's variable has a life outside of this call's mask.
      place.isReference = true;
      body.setPlace(parameter, place);
      continue;
    }
    Components components;
    for (int64_t i = 0; i < ir::getComponentCount(parameter.getType()); ++i)
      components.push_back({instance->getArg(next++), kinds[position++]});
    body.setValue(parameter, std::move(components));
  }
  body.leaveFailed = [&] {
    if (resultType->isVoidTy())
      body.builder.CreateRetVoid();
    else
      body.builder.CreateRet(llvm::Constant::getNullValue(resultType));
  };
  LocalStorage *slots = body.makeResults(callee, facts);
  llvm::BasicBlock *exit = body.makeBlock("return");
  if (failed(body.emitFunctionBody(callee, {slots, nullptr}, exit))) {
    hasFailed = true;
    return nullptr;
  }
  if (resultType->isVoidTy()) {
    body.builder.CreateRetVoid();
    return instance;
  }
  llvm::Value *result = llvm::PoisonValue::get(resultType);
  for (auto [i, slot] : llvm::enumerate(slots->slots))
    result = body.builder.CreateInsertValue(result, body.builder.CreateLoad(results[i], slot), unsigned(i));
  body.builder.CreateRet(result);
  return instance;
}

} // namespace qd::codegen
