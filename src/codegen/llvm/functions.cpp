// functions.cpp: calls of function instances
//
// A call is inlined, or it calls an LLVM function that exists once per combination of the arguments' lane kinds. Large functions with
// several calls get such a function, so that their code is compiled once. Three kinds of functions are always inlined: those that draw
// random numbers or print, because they need the iteration; those that use the block's threads, because they need these; and those with
// places in memory or containers as arguments, because their addresses are known best at the call.
#include "codegen/llvm/body.h"

#include "llvm/IR/MDBuilder.h"

#include <cmath>

using namespace mlir;

namespace qd::codegen {

/// Calls of a function share one LLVM function if inlining would emit more operations than this in total.
constexpr int64_t kInlineTotal = 2500;
/// A smaller function is always inlined: calls cost more than they save.
constexpr int64_t kOutlineSize = 48;

ir::FuncOp ModuleEmitter::lookup(Operation *op) const {
  auto call = dyn_cast<ir::CallOp>(op);
  return call ? dyn_cast_or_null<ir::FuncOp>(SymbolTable::lookupSymbolIn(source, call.getCalleeAttr())) : ir::FuncOp();
}

void ModuleEmitter::countCalls() {
  source->walk([&](ir::CallOp call) {
    if (ir::FuncOp callee = lookup(call)) ++callCounts[callee];
  });
}

int64_t ModuleEmitter::getSize(Region &region) {
  // A recursive use of a region that is being measured counts as 1.
  auto [known, isNew] = sizes.try_emplace(&region, 1);
  if (!isNew) return known->second;
  int64_t size = 0;
  for (Operation &op : region.getOps()) {
    size += getSize(&op);
    for (Region &inner : op.getRegions()) size += getSize(inner);
  }
  return sizes[&region] = size;
}

int64_t ModuleEmitter::getSize(Operation *op) {
  if (ir::FuncOp callee = lookup(op)) return getSize(callee.getBody());
  int64_t size = op->getNumResults() == 0;
  for (Type type : op->getResultTypes()) size += ir::isValue(type) ? ir::getComponentCount(type) : 1;
  return size;
}

/// Upper bound of an axis' iterations; nothing if unknown.
static std::optional<double> getMaxRounds(ir::ForOp loop, unsigned axis) {
  std::optional<int64_t> lower = ir::findInteger(loop.getLower()[axis]), upper = ir::findInteger(loop.getUpper()[axis]);
  if (lower && upper) return std::abs(double(*upper) - double(*lower));
  unsigned bits = loop.getLower()[axis].getType().getIntOrFloatBitWidth();
  return bits <= 16 ? std::optional(std::exp2(bits)) : std::nullopt;
}

Polling ModuleEmitter::getPolling(ir::ForOp loop, unsigned axis) {
  bool isInnermost = axis + 1 == loop.getRank();
  return choosePolling(getMaxRounds(loop, axis), isInnermost ? getWork(loop.getBody()) : getPolling(loop, axis + 1).workBeforePoll);
}

double ModuleEmitter::getWork(Region &region) {
  // A recursive use of a region that is being measured counts as 1.
  auto [known, isNew] = works.try_emplace(&region, 1);
  if (!isNew) return known->second;
  double work = 0;
  for (Operation &op : region.getOps()) {
    ir::FuncOp callee = lookup(&op);
    work += callee ? getWork(callee.getBody()) : double(getSize(&op));
    if (auto loop = dyn_cast<ir::ForOp>(op))
      work += getPolling(loop, 0).workBeforePoll;
    else
      for (Region &inner : op.getRegions()) work += getWork(inner);
  }
  return works[&region] = work;
}

bool ModuleEmitter::containsDeep(Region &region, llvm::function_ref<bool(Operation *)> matches) {
  llvm::DenseSet<Operation *> seen;
  std::function<bool(Region &)> search = [&](Region &body) {
    return body
        .walk([&](Operation *op) {
          ir::FuncOp callee = lookup(op);
          bool found = matches(op) || (callee && seen.insert(callee).second && search(callee.getBody()));
          return found ? WalkResult::interrupt() : WalkResult::advance();
        })
        .wasInterrupted();
  };
  return search(region);
}

bool ModuleEmitter::isRecursive(ir::FuncOp function) {
  auto found = recursive.find(function);
  if (found != recursive.end()) return found->second;
  return recursive[function] = containsDeep(function.getBody(), [&](Operation *op) { return lookup(op) == function; });
}

bool ModuleEmitter::isOutlined(ir::FuncOp function) {
  auto [entry, isNew] = outlined.try_emplace(function, false);
  if (!isNew) return entry->second;
  int64_t size = getSize(function.getBody()), calls = callCounts[function];
  bool result = isRecursive(function) ||
                (size >= kOutlineSize && size * calls > kInlineTotal && calls > 1 &&
                 llvm::none_of(function.getArgumentTypes(), llvm::IsaPred<ir::TensorType>) &&
                 !containsDeep(function.getBody(), [](Operation *op) { return isa<ir::RandomOp, ir::PrintOp>(op) || ir::isOfBlock(op); }));
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
      storage.slots.push_back(makeSlot(widen(scalar, kind), "returned"));
    }
  return &storage;
}

Components BodyEmitter::loadResults(const LocalStorage &results) {
  Components components;
  for (auto [slot, kind] : llvm::zip(results.slots, results.kinds))
    components.push_back({builder.CreateLoad(cast<llvm::AllocaInst>(slot)->getAllocatedType(), slot), kind});
  return components;
}

/// Emits the body; the parameters already have values and places. The insertion point ends up in `exit`.
void BodyEmitter::emitFunctionBody(ir::FuncOp callee, Returns into, llvm::BasicBlock *exit) {
  Returns outer = std::exchange(returns, into);
  llvm::Value *before = mask;
  scopes.push_back({Scope::Kind::Function, exit});
  if (lanes > 1 && facts->divergentReturn) scopes.back().live = makeLive("live.function");
  emitBlock(callee.getBody().front());
  scopes.pop_back();
  continueAt(exit);
  mask = before;
  returns = outer;
}

void BodyEmitter::emitReturn(ir::ReturnOp op) {
  if (llvm::none_of(scopes, [](const Scope &scope) { return scope.kind == Scope::Kind::Function; })) {
    if (leaveKernel) return leaveKernel(op);
    module.reportError(op.getLoc()) << "a parallel loop cannot return from the kernel";
    return;
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
}

void BodyEmitter::emitCall(ir::CallOp op) {
  ir::FuncOp callee = module.lookup(op);
  if (!callee) {
    module.reportError(op.getLoc()) << "calls unknown " << op.getCallee();
    return;
  }
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
  Components results;
  if (!hasMemoryPlace && module.isOutlined(callee)) {
    results = emitOutlined(op, callee, calleeFacts, kinds);
  } else if (llvm::any_of(inlinedCalls, [&](Operation *call) { return module.lookup(call) == callee; })) {
    module.reportError(op.getLoc()) << "a recursive function cannot take containers, or references to their elements";
    return;
  } else {
    inlinedCalls.push_back(op);
    results = emitInlined(op, callee, calleeFacts);
    inlinedCalls.pop_back();
  }
  ArrayRef<Component> rest = results;
  for (Value output : op.getOutputs()) {
    ArrayRef<Component> own = rest.take_front(size_t(ir::getComponentCount(output.getType())));
    setValue(output, Components(own));
    rest = rest.drop_front(own.size());
  }
}

Components BodyEmitter::emitInlined(ir::CallOp op, ir::FuncOp callee, const BodyFacts &calleeFacts) {
  for (auto [parameter, argument] : llvm::zip(callee.getBody().getArguments(), op.getArguments())) {
    if (isa<ir::RefType>(argument.getType())) {
      Place place = getPlace(argument);
      place.isReference = place.local != nullptr;
      setPlace(parameter, place);
    } else if (isa<ir::TensorType>(argument.getType())) {
      setTensor(parameter, getTensor(argument));
    } else {
      setValue(parameter, Components(getValue(argument)));
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
  const BodyFacts *outer = std::exchange(facts, &calleeFacts);
  emitFunctionBody(callee, into, makeBlock("call.end"));
  facts = outer;
  return into.slots ? loadResults(*into.slots) : direct;
}

/// Checks the stack before a recursive call: the address of a local shows the depth of the stack.
void BodyEmitter::leaveIfStackIsFull(ir::CallOp op) {
  llvm::Value *address = builder.CreatePtrToInt(makeSlot(builder.getInt8Ty(), "stack"), builder.getInt64Ty());
  failWhen(builder.CreateICmpULT(address, stackLimit), "stack.used.up", op);
}

Components BodyEmitter::emitOutlined(ir::CallOp op, ir::FuncOp callee, const BodyFacts &calleeFacts, ArrayRef<LaneKind> kinds) {
  llvm::Function *instance = module.getInstance(callee, kinds, lanes);
  llvm::SmallVector<llvm::Value *, 16> operands = {context};
  if (module.needsStackLimit(callee)) {
    if (stackLimit) leaveIfStackIsFull(op);
    operands.push_back(stackLimit ? stackLimit : callRuntime(kStackLimit, {}));
  }
  if (lanes > 1) operands.push_back(getMask());
  for (Value argument : op.getArguments()) {
    if (isa<ir::RefType>(argument.getType())) {
      Place place = getPlace(argument);
      if (place.component >= 0)
        operands.push_back(place.local->slots[size_t(place.component)]);
      else
        llvm::append_range(operands, place.local->slots);
    } else {
      for (const Component &component : getValue(argument)) operands.push_back(component.value);
    }
  }
  llvm::Value *result = builder.CreateCall(instance, operands);
  if (module.containsDeep(callee.getBody(), llvm::IsaPred<ir::AssertOp>))
    leaveIfFailed();
  else if (module.containsDeep(callee.getBody(), llvm::IsaPred<ir::WhileOp, ir::ForOp>))
    leaveIfCanceled();
  Components components;
  for (Value output : op.getOutputs())
    for (int64_t i = 0; i < ir::getComponentCount(output.getType()); ++i) {
      auto position = unsigned(components.size());
      components.push_back(
          {builder.CreateExtractValue(result, position), lanes == 1 ? LaneKind::uniform() : getResultKind(calleeFacts, position)});
    }
  return components;
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
  llvm::Type *pointer = llvm::PointerType::get(ctx, 0);
  llvm::SmallVector<llvm::Type *, 16> parameters = {pointer}, results;
  if (needsStackLimit(callee)) parameters.push_back(llvm::Type::getInt64Ty(ctx));
  if (lanes > 1) parameters.push_back(llvm::FixedVectorType::get(llvm::Type::getInt1Ty(ctx), lanes));
  size_t position = 0;
  for (Type type : callee.getArgumentTypes()) {
    auto ref = dyn_cast<ir::RefType>(type);
    for (int64_t i = 0; i < ir::getComponentCount(ref ? ref.getPointee() : type); ++i)
      parameters.push_back(ref ? pointer : widen(ir::getScalar(type), kinds[position++]));
  }
  for (Type type : callee.getResultTypes())
    for (int64_t i = 0; i < ir::getComponentCount(type); ++i)
      results.push_back(widen(ir::getScalar(type), getResultKind(facts, results.size())));
  if (results.empty()) results.push_back(llvm::Type::getInt1Ty(ctx)); // PTX has no empty results
  llvm::Type *resultType = llvm::StructType::get(ctx, results);
  instance = makeFunction(resultType, parameters, name);
  // Inlining would duplicate the code.
  instance->addFnAttr(llvm::Attribute::NoInline);

  BodyEmitter body(*this, instance, lanes, facts);
  unsigned next = 1;
  if (needsStackLimit(callee)) body.stackLimit = instance->getArg(next++);
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
      Place place;
      place.pointee = ref.getPointee();
      place.local = &storage;
      // The caller's local is visible to lanes outside of this call's mask.
      place.isReference = true;
      body.setPlace(parameter, place);
      continue;
    }
    Components components;
    for (int64_t i = 0; i < ir::getComponentCount(parameter.getType()); ++i)
      components.push_back({instance->getArg(next++), kinds[position++]});
    body.setValue(parameter, std::move(components));
  }
  body.leaveFailed = [&] { body.builder.CreateRet(llvm::Constant::getNullValue(resultType)); };
  if (isRecursive(callee)) body.leaveIfCanceled();
  LocalStorage *slots = body.makeResults(callee, facts);
  body.emitFunctionBody(callee, {slots, nullptr}, body.makeBlock("return"));
  llvm::Value *result = llvm::PoisonValue::get(resultType);
  for (auto [i, component] : llvm::enumerate(body.loadResults(*slots)))
    result = body.builder.CreateInsertValue(result, component.value, unsigned(i));
  body.builder.CreateRet(result);
  return instance;
}

} // namespace qd::codegen
