// adjoint_builder.cpp: the forward sweep of adjoints, and the derived functions
//
// In:   a kernel or function, and which of its values are active.
// Out:  the derived kernel or function; here its frame and the forward sweep, which recomputes the values that the backward sweep uses.
// Here: adjoint_ops.cpp has the backward sweep, adjoint_loops.cpp the loops of both.
#include "passes/autodiff/adjoint_builder.h"

#include "ir/attributes.h"
#include "ir/memory.h"
#include "passes/autodiff/overwritten_primals.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

//--- Short forms ---

//--- Derived functions ---

DerivedFunctions::DerivedFunctions(ModuleOp module, const Activity &activity)
    : module(module), activity(activity),
      effects(
          activity.calls.findFunctions([](Operation *op) { return isa<PrintOp, AssertOp, RandomOp, ClockOp>(op) || writesContainer(op); })),
      activeUses(activity.calls.findFunctions(
          [&](Operation *op) { return llvm::any_of(op->getOperands(), [&](Value value) { return activity.isActive(value); }); })) {}

FuncOp DerivedFunctions::makeFunction(FuncOp like, StringRef suffix, TypeRange inputs, TypeRange results) {
  OpBuilder atModule = OpBuilder::atBlockEnd(module.getBody());
  auto type = FunctionType::get(module.getContext(), inputs, results);
  auto made = FuncOp::create(atModule, like.getLoc(), (like.getSymName() + suffix).str(), type, StringAttr(), ArrayAttr(), ArrayAttr());
  Block &block = made.getBody().emplaceBlock();
  for (Type input : inputs) block.addArgument(input, like.getLoc());
  return made;
}

FuncOp DerivedFunctions::getEffectFree(FuncOp function) {
  if (!effects.contains(function)) return function;
  FuncOp &made = effectFree[function];
  if (made) return made;
  FunctionType type = function.getFunctionType();
  FuncOp result = made = makeFunction(function, ".values", type.getInputs(), type.getResults());
  AdjointBuilder(*this).buildEffectFree(function, result);
  return result;
}

FuncOp DerivedFunctions::getAdjoint(FuncOp function) {
  FuncOp &made = adjoints[function];
  if (made) return made;
  Block &body = function.getBody().front();
  SmallVector<Type> inputs(function.getArgumentTypes()), results;
  for (Value parameter : body.getArguments()) {
    if (!activity.isActive(parameter)) continue;
    (isa<RefType>(parameter.getType()) ? inputs : results).push_back(parameter.getType());
  }
  if (auto last = dyn_cast<ReturnOp>(body.back()))
    for (Value value : last.getValues())
      if (activity.isActive(value)) inputs.push_back(value.getType());
  FuncOp result = made = makeFunction(function, ".adjoint", inputs, results);
  AdjointBuilder(*this).buildAdjoint(function, result);
  return result;
}

void AdjointBuilder::buildEffectFree(FuncOp source, FuncOp target) {
  entry = &target.getBody().front();
  Run run{.block = entry};
  run.values.map(source.getBody().getArguments(), target.getBody().getArguments());
  builder.setInsertionPointToStart(entry);
  sweepForward(source.getBody().front(), run, false);
  auto last = cast<ReturnOp>(source.getBody().front().back());
  ReturnOp::create(builder, last.getLoc(), useAll(last.getValues(), run));
}

void AdjointBuilder::buildAdjoint(FuncOp source, FuncOp target) {
  entry = &target.getBody().front();
  Block &body = source.getBody().front();
  Run run{.block = entry};
  builder.setInsertionPointToStart(entry);
  auto given = target.getBody().getArguments();
  size_t next = body.getNumArguments();
  run.values.map(body.getArguments(), given.take_front(next));
  for (Value parameter : body.getArguments())
    if (isa<RefType>(parameter.getType()) && activity.isActive(parameter)) shadows[parameter] = {given[next++], 0};
  sweepForward(body, run, true);
  auto last = cast<ReturnOp>(body.back());
  for (Value parameter : body.getArguments())
    if (!isa<RefType>(parameter.getType()) && activity.isActive(parameter)) declareShadow(parameter, parameter.getType(), run);
  declareShadows(body, run);
  for (Value value : last.getValues())
    if (activity.isActive(value)) accumulate(value, given[next++], run);
  sweepBackward(body, run);
  SmallVector<Value> results;
  for (Value parameter : body.getArguments())
    if (!isa<RefType>(parameter.getType()) && activity.isActive(parameter)) results.push_back(loadAdjointOrZero(parameter, run));
  ReturnOp::create(builder, last.getLoc(), results);
}

void AdjointBuilder::buildKernel(KernelOp source, KernelOp target) {
  entry = &target.getBody().front();
  Run run{.block = entry};
  builder.setInsertionPointToStart(entry);
  sweepForward(source.getBody().front(), run, true);
  declareShadows(source.getBody().front(), run);
  sweepBackward(source.getBody().front(), run);
}

//--- Values of a run ---

bool AdjointBuilder::isVisible(Value value) {
  Block *definingBlock = value.getParentBlock();
  for (Block *block = builder.getInsertionBlock(); block; block = block->getParentOp() ? block->getParentOp()->getBlock() : nullptr)
    if (block == definingBlock) return true;
  return false;
}

/// Ops that are cloned instead of spilled: addresses cannot be stored in a local, and the others are cheap.
static bool isRepeated(Operation *op) { return isa_and_nonnull<ConstantOp, ArgumentOp, TensorArgumentOp, ExtentOp, PlaceOpInterface>(op); }

Value AdjointBuilder::use(Value value, Run &run) {
  Run *owner = &run;
  while (owner && !owner->values.contains(value)) owner = owner->outer;
  if (!owner) {
    functions.hasFailed = true;
    emitError(value.getLoc(), "the adjoint has nothing for a value here; this is a bug of the compiler");
    return value;
  }
  Value mapped = owner->values.lookup(value);
  if (isVisible(mapped)) return mapped;
  if (Operation *definition = value.getDefiningOp(); isRepeated(definition)) {
    Operation *copy = definition->clone();
    copy->removeAttr(kShadow);
    copy->setOperands(useAll(definition->getOperands(), run));
    return builder.insert(copy)->getResult(0);
  }
  Value &place = owner->spilled[value];
  if (!place) {
    place = makeLocal(mapped.getType(), mapped.getLoc(), *owner);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointAfterValue(mapped);
    StoreOp::create(builder, mapped.getLoc(), mapped, place);
  }
  return LoadOp::create(builder, value.getLoc(), mapped.getType(), place);
}

SmallVector<Value> AdjointBuilder::useAll(ValueRange values, Run &run) {
  return llvm::map_to_vector(values, [&](Value value) { return use(value, run); });
}

Value AdjointBuilder::makeLocal(Type pointee, Location loc, Run &run) {
  OpBuilder::InsertionGuard guard(builder);
  if (run.lastLocal)
    builder.setInsertionPointAfter(run.lastLocal);
  else
    builder.setInsertionPointToStart(run.block);
  auto local = LocalOp::create(builder, loc, RefType::get(pointee));
  run.lastLocal = local;
  return local;
}

void AdjointBuilder::openBlock(Region &region, Run &run) {
  run.block = &region.emplaceBlock();
  builder.setInsertionPointToStart(run.block);
}

void AdjointBuilder::markOverwritten(Operation *op, const Twine &why) { op->setAttr(kOverwritten, builder.getStringAttr(why)); }

//--- Forward ---

Operation *AdjointBuilder::copyWithoutRegions(Operation *op, Run &run) {
  Operation *copy = op->cloneWithoutRegions();
  copy->removeAttr(kShadow);
  copy->setOperands(useAll(op->getOperands(), run));
  builder.insert(copy);
  run.values.map(op->getResults(), copy->getResults());
  return copy;
}

void AdjointBuilder::sweepForward(Block &source, Run &run, bool takesCheckpoints) {
  for (Operation &op : source)
    if (!op.hasTrait<OpTrait::IsTerminator>()) emitForward(&op, run, takesCheckpoints);
}

void AdjointBuilder::emitForwardRegion(Region &source, Region &target, Run &run, bool takesCheckpoints) {
  if (source.empty()) return;
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&target.emplaceBlock());
  sweepForward(source.front(), run, takesCheckpoints);
  copyWithoutRegions(source.front().getTerminator(), run);
}

void AdjointBuilder::copyWhole(Operation *op, Run &run) {
  builder.clone(*op, run.values)->walk([](Operation *copy) {
    for (StringRef mark : {kShadow, kOverwritten, kMayBeOverwritten, kIsEntryValue}) copy->removeAttr(mark);
  });
}

void AdjointBuilder::emitForward(Operation *op, Run &run, bool takesCheckpoints) {
  if (op->hasAttr(kPrepares)) return copyWhole(op, run);
  llvm::TypeSwitch<Operation *>(op)
      .Case([](PrintOp) {})
      .Case([&](AssertOp) {
        if (op->hasAttr(kGuards)) copyWithoutRegions(op, run);
      })
      .Case([&](MemoryAccessOpInterface access) {
        if (!writesContainer(op) || (access.isAtomic() && functions.isFused && takesCheckpoints)) {
          copyWithoutRegions(op, run);
        } else if (!op->use_empty()) {
          Operation *load = LoadOp::create(builder, op->getLoc(), op->getResult(0).getType(), use(access.getRef(), run));
          markOverwritten(load,
                          "what an atomic operation returned is not known when gradients are computed; keep it in a container of its own");
          run.values.map(op->getResult(0), load->getResult(0));
        }
      })
      .Case([&](RandomOp) {
        markOverwritten(copyWithoutRegions(op, run),
                        "random numbers cannot be drawn again when gradients are computed; draw them in a kernel before, "
                        "into a container");
      })
      .Case([&](ClockOp) {
        markOverwritten(copyWithoutRegions(op, run), "a clock has gone on when gradients are computed; keep what it said in a container");
      })
      .Case([&](IfOp branch) {
        auto copy = cast<IfOp>(copyWithoutRegions(op, run));
        emitForwardRegion(branch.getThenRegion(), copy.getThenRegion(), run, takesCheckpoints);
        emitForwardRegion(branch.getElseRegion(), copy.getElseRegion(), run, takesCheckpoints);
      })
      .Case<ForOp, WhileOp>([&](Operation *) { emitForwardLoop(op, run, takesCheckpoints); })
      .Case([&](CallOp call) { emitForwardCall(call, run, takesCheckpoints); })
      .Default([&](Operation *) { copyWithoutRegions(op, run); });
}

void AdjointBuilder::emitForwardCall(CallOp op, Run &run, bool takesCheckpoints) {
  FuncOp callee = functions.getEffectFree(activity.calls.lookup(op));
  SmallVector<Value> operands, before;
  Code code = at(op);
  for (Value operand : op.getArguments()) {
    operands.push_back(use(operand, run));
    if (!isa<RefType>(operand.getType())) continue;
    bool isElement = isOfContainer(operand) && !isOnlyRead(callee.getBody().getArgument(unsigned(operands.size() - 1)));
    Value state = code.load(operands.back());
    if (isElement) {
      // The function writes to a copy: the gradient kernel must not change the element.
      markOverwritten(state.getDefiningOp(), "an element that is passed by reference is not known any more when gradients are computed");
      operands.back() = code.local(state.getType());
      code.store(state, operands.back());
    }
    if (takesCheckpoints) {
      before.push_back(makeLocal(state.getType(), op.getLoc(), run));
      code.store(state, before.back());
    }
  }
  auto call = CallOp::create(builder, op.getLoc(), op.getResultTypes(), callee.getSymName(), operands);
  run.values.map(op.getResults(), call.getResults());
  if (takesCheckpoints) run.savedPlaces[op] = before;
}

} // namespace qd::passes
