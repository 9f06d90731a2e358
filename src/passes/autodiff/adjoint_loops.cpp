// adjoint_loops.cpp: adjoints of loops, with checkpoints of their variables
//
// The backward sweep of a loop restores the variables to their values at the start of each iteration, then recomputes the iteration. A
// checkpoint is the state of these variables; loop_checkpoints.h stores them. If an iteration has no checkpoint, the backward sweep starts
// from the last one before it, recomputes up to the iteration, and stores further checkpoints in the free slots.
#include "passes/autodiff/adjoint_builder.h"

#include "ir/attributes.h"
#include "ir/memory.h"

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

//--- Variables of a loop ---

namespace {

/// The places from before a loop that its iterations access (touched), may read before they write (exposed), and may write (modified).
struct PlaceUses {
  explicit PlaceUses(Operation *loop) : loop(loop) {
    for (Region &region : loop->getRegions()) collect(region.front(), assigned);
  }

  llvm::SetVector<Value> touched, exposed, modified;

private:
  Value findOuter(Value place) {
    Value base = findBase(place);
    Operation *definition = base.getDefiningOp();
    bool isOutside = isa<RefType>(base.getType()) && !(definition && loop->isProperAncestor(definition));
    if (isOutside) touched.insert(base);
    return isOutside ? base : Value();
  }

  void read(Value place, const DenseSet<Value> &known) {
    if (Value base = findOuter(place); base && !known.contains(base)) exposed.insert(base);
  }

  /// `known`: places that every path so far has written.
  void collect(Block &block, DenseSet<Value> &known) {
    for (Operation &op : block) {
      auto access = dyn_cast<MemoryAccessOpInterface>(op);
      // A store to one component leaves the others as they were: it counts as a read, too.
      bool isPartial = access && !access.reads() && findWhole(access.getRef()) != access.getRef();
      bool isUnused = access && access.isAtomic() && op.use_empty();
      for (Value place : isPartial ? listWrittenPlaces(&op) : listReadPlaces(&op))
        if (!isUnused) read(place, known);
      for (Value place : listWrittenPlaces(&op))
        if (Value base = findOuter(place)) {
          modified.insert(base);
          if (access && !access.reads()) known.insert(base);
        }
      SmallVector<DenseSet<Value>, 2> after;
      for (Region &region : op.getRegions())
        if (!region.empty()) collect(region.front(), after.emplace_back(known));
      if (!isa<IfOp>(op) || after.size() != 2) continue;
      for (Value value : after[0])
        if (after[1].contains(value)) known.insert(value);
    }
  }

  Operation *loop;
  DenseSet<Value> assigned;
};

bool hasExit(Operation *loop) {
  Block &body = loop->getRegions().back().front();
  return llvm::any_of(body, [](Operation &op) { return op.hasAttr(kLoopExit); });
}

std::optional<int64_t> findCount(ForOp op) {
  int64_t count = 1;
  for (unsigned axis = 0; axis < op.getRank(); ++axis) {
    std::optional<int64_t> lower = findInteger(op.getLower()[axis]), upper = findInteger(op.getUpper()[axis]);
    std::optional<int64_t> step = op.getStep().empty() ? 1 : findInteger(op.getStep()[axis]);
    if (!lower || !upper || !step || *step == 0) return std::nullopt;
    int64_t distance = *step > 0 ? *upper - *lower : *lower - *upper, length = std::abs(*step);
    count *= distance <= 0 ? 0 : (distance + length - 1) / length;
    if (count > INT32_MAX) return std::nullopt;
  }
  return count;
}

} // namespace

void AdjointBuilder::refuseUpdatesOf(Operation *loop, Value place) {
  loop->walk([&](LoadOp load) {
    if (findBase(load.getRef()) != place) return WalkResult::advance();
    refuse(load, "a variable that a parallel loop both reads and updates cannot be differentiated: its value depends on the order of the "
                 "iterations");
    return WalkResult::interrupt();
  });
}

void AdjointBuilder::beginCheckpoints(Operation *op, Run &run, LoopCheckpoints &checkpoints) {
  PlaceUses uses(op);
  auto loop = dyn_cast<ForOp>(op);
  bool isParallel = loop && loop.getParallel();
  Code code = at(op);
  checkpoints.liveIn = uses.touched;
  checkpoints.number = functions.checkpointedLoops++;
  for (Value place : uses.exposed) {
    if (uses.modified.contains(place)) {
      if (isParallel) refuseUpdatesOf(op, place);
      checkpoints.carried.insert(place);
    } else {
      checkpoints.invariant[place] = makeLocal(cast<RefType>(place.getType()).getPointee(), code.loc, run);
      code.store(code.load(use(place, run)), checkpoints.invariant[place]);
    }
  }
  bool mayExit = !loop || hasExit(op);
  if (mayExit) checkpoints.count = makeLocal(code.type(), code.loc, run);
  if (isParallel || checkpoints.carried.empty()) return;
  checkpoints.allocate(code, mayExit ? std::nullopt : findCount(loop), mayExit, [&](Type type) { return makeLocal(type, code.loc, run); });
}

SmallVector<Value> AdjointBuilder::readState(Code code, const LoopCheckpoints &checkpoints, Run &run) {
  return llvm::map_to_vector(checkpoints.carried, [&](Value place) { return code.load(use(place, run)); });
}

//--- Iterations by number ---

SmallVector<Value> AdjointBuilder::countAxes(ForOp op, Run &run) {
  Code code = at(op);
  SmallVector<Value> counts;
  for (unsigned axis = 0; axis < op.getRank(); ++axis) {
    Value lower = use(op.getLower()[axis], run), upper = use(op.getUpper()[axis], run);
    Type type = lower.getType();
    Value zero = makeInteger(builder, code.loc, type, 0), one = makeInteger(builder, code.loc, type, 1);
    auto countUp = [&](Value from, Value to, Value step) {
      Value distance = code.select(code.binary(BinaryKind::lt, from, to), code.sub(to, from), zero);
      return code.binary(BinaryKind::raw_div, code.add(distance, code.sub(step, one)), step);
    };
    Value step = op.getStep().empty() ? one : use(op.getStep()[axis], run);
    std::optional<int64_t> known = op.getStep().empty() ? 1 : findInteger(op.getStep()[axis]);
    Value count;
    if (known && *known == 1)
      count = code.select(code.binary(BinaryKind::lt, lower, upper), code.sub(upper, lower), zero);
    else if (type.isUnsignedInteger() || (known && *known > 0))
      count = countUp(lower, upper, step);
    else {
      Value down = UnaryOp::create(builder, code.loc, UnaryKind::neg, step);
      count = known ? countUp(upper, lower, down)
                    : code.select(code.binary(BinaryKind::lt, step, zero), countUp(upper, lower, down), countUp(lower, upper, step));
    }
    counts.push_back(code.cast(count, code.type()));
  }
  return counts;
}

Value AdjointBuilder::countIterations(ForOp op, Run &run) {
  if (std::optional<int64_t> known = findCount(op)) return at(op).integer(*known);
  SmallVector<Value> counts = countAxes(op, run);
  Value total = counts[0];
  for (Value count : llvm::drop_begin(counts)) total = at(op).binary(BinaryKind::mul, total, count);
  return total;
}

void AdjointBuilder::setIndices(ForOp op, Value number, Run &run) {
  Code code = at(op);
  SmallVector<Value> counts = op.getRank() > 1 ? countAxes(op, run) : SmallVector<Value>();
  for (unsigned axis = op.getRank(); axis-- > 0;) {
    Value own = number;
    if (axis > 0) {
      own = code.binary(BinaryKind::raw_mod, number, counts[axis]);
      number = code.binary(BinaryKind::raw_div, number, counts[axis]);
    }
    Value lower = use(op.getLower()[axis], run);
    own = code.cast(own, lower.getType());
    if (!op.getStep().empty()) own = code.binary(BinaryKind::mul, own, use(op.getStep()[axis], run));
    bool startsAtZero = findInteger(op.getLower()[axis]) == 0;
    run.values.map(op.getBody().getArgument(axis), startsAtZero ? own : code.add(lower, own));
  }
}

/// Emits one iteration that is known to run, forward, without its loop exit.
void AdjointBuilder::emitIteration(Operation *op, Value number, Run &run, bool takesCheckpoints) {
  if (auto loop = dyn_cast<ForOp>(op)) setIndices(loop, number, run);
  for (Region &region : op->getRegions())
    for (Operation &inner : region.front())
      if (!inner.hasTrait<OpTrait::IsTerminator>() && !inner.hasAttr(kLoopExit)) emitForward(&inner, run, takesCheckpoints);
}

//--- Forward ---

void AdjointBuilder::emitForwardLoop(Operation *op, Run &run, bool takesCheckpoints) {
  auto loop = dyn_cast<ForOp>(op);
  if (takesCheckpoints && usesActive(op)) {
    beginCheckpoints(op, run, run.checkpoints[op]);
    if (!loop || !loop.getParallel()) return emitCheckpointingLoop(op, run);
  }
  Operation *copy = copyWithoutRegions(op, run);
  for (auto [source, target] : llvm::zip(op->getRegions(), copy->getRegions())) {
    OpBuilder::InsertionGuard guard(builder);
    Run inner{.outer = &run};
    openBlock(target, inner);
    for (Value argument : source.getArguments())
      inner.values.map(argument, inner.block->addArgument(argument.getType(), argument.getLoc()));
    sweepForward(source.front(), inner, false);
    copyWithoutRegions(source.front().getTerminator(), inner);
  }
}

void AdjointBuilder::emitCheckpointingLoop(Operation *op, Run &run) {
  const LoopCheckpoints &checkpoints = run.checkpoints[op];
  Code code = at(op);
  auto loop = dyn_cast<ForOp>(op);
  Value upper = loop ? countIterations(loop, run) : code.integer(INT32_MAX), zero = code.integer(0), one = code.integer(1);
  if (checkpoints.count) code.store(zero, checkpoints.count);
  const Spacing spacing = checkpoints.begin(code, upper, zero, one);
  code.loop(zero, upper, [&](Value number) {
    Run inner{.outer = &run, .block = builder.getInsertionBlock()};
    SmallVector<Value> state = readState(code, checkpoints, inner);
    if (loop) {
      setIndices(loop, number, inner);
    } else {
      Block &test = cast<WhileOp>(op).getConditionRegion().front();
      sweepForward(test, inner, false);
      Value goesOn = use(cast<ConditionOp>(test.getTerminator()).getCondition(), inner);
      auto leave = IfOp::create(builder, code.loc, UnaryOp::create(builder, code.loc, UnaryKind::logical_not, goesOn));
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(&leave.getThenRegion().emplaceBlock());
      BreakOp::create(builder, code.loc);
    }
    if (checkpoints.count) code.store(code.add(number, one), checkpoints.count);
    checkpoints.save(code, state, number, spacing);
    sweepForward(op->getRegions().back().front(), inner, false);
  });
}

//--- Backward ---

/// Gives the iteration variables of its own, which replace the live-ins of the loop.
void AdjointBuilder::enterIteration(Operation *op, const LoopCheckpoints &checkpoints, Run &inner) {
  Code code = at(op);
  for (Value place : checkpoints.liveIn) {
    Value own = makeLocal(cast<RefType>(place.getType()).getPointee(), code.loc, inner);
    inner.values.map(place, own);
    if (Value copy = checkpoints.invariant.lookup(place)) code.store(code.load(copy), own);
  }
}

/// Restores the variables to their values at the start of iteration `number`.
void AdjointBuilder::restoreIteration(Operation *op, const LoopCheckpoints &checkpoints, Value number, Run &inner) {
  if (checkpoints.carried.empty()) return;
  Code code = at(op);
  auto getPlace = [&](Value place) { return use(place, inner); };
  auto restoreOwn = [&] { checkpoints.restore(code, number, getPlace); };
  auto recompute = [&] { recomputeTo(op, checkpoints, number, inner); };
  switch (checkpoints.policy) {
  case LoopCheckpoints::Policy::All: return restoreOwn();
  case LoopCheckpoints::Policy::EveryNth: return code.when(code.load(checkpoints.holdsAll), restoreOwn, recompute);
  case LoopCheckpoints::Policy::Thinning: return recompute();
  }
}

/// Restores the last checkpoint and recomputes the iterations up to `number`.
void AdjointBuilder::recomputeTo(Operation *op, const LoopCheckpoints &checkpoints, Value number, Run &inner) {
  Code code = at(op);
  Value one = code.integer(1);
  auto [slot, from] = checkpoints.findLast(code, one);
  checkpoints.restore(code, slot, [&](Value place) { return use(place, inner); });
  code.when(code.binary(BinaryKind::lt, from, number), [&] {
    const Spacing spacing = checkpoints.spread(code, one, slot, from, number);
    code.loop(from, number, [&](Value passed) {
      Run passedRun{.outer = &inner, .block = builder.getInsertionBlock()};
      checkpoints.saveIfFree(code, readState(code, checkpoints, passedRun), passed, spacing);
      emitIteration(op, passed, passedRun, false);
    });
  });
  checkpoints.release(code, one, number);
}

void AdjointBuilder::emitBackwardLoop(Operation *op, Run &run) {
  if (!usesActive(op)) return;
  auto loop = dyn_cast<ForOp>(op);
  if (loop && loop.getParallel()) return emitBackwardParallel(loop, run);
  const LoopCheckpoints &checkpoints = run.checkpoints[op];
  Code code = at(op);
  Value count = checkpoints.count ? code.load(checkpoints.count) : countIterations(loop, run), last = code.sub(count, code.integer(1));
  ForOp back = code.loop(code.integer(0), count, [&](Value done) {
    Run inner{.outer = &run, .block = builder.getInsertionBlock(), .parallelDepth = run.parallelDepth};
    Value number = code.sub(last, done);
    enterIteration(op, checkpoints, inner);
    restoreIteration(op, checkpoints, number, inner);
    emitIteration(op, number, inner, true);
    for (Region &region : op->getRegions()) declareShadows(region.front(), inner);
    for (Region &region : llvm::reverse(op->getRegions())) sweepBackward(region.front(), inner);
  });
  back->setAttr(kCheckpoints, builder.getDenseI32ArrayAttr({checkpoints.number, int32_t(checkpoints.slotCount),
                                                            checkpoints.policy == LoopCheckpoints::Policy::All}));
}

void AdjointBuilder::emitBackwardParallel(ForOp op, Run &run) {
  auto copy = cast<ForOp>(copyWithoutRegions(op, run));
  OpBuilder::InsertionGuard guard(builder);
  Run inner{.outer = &run, .parallelDepth = run.parallelDepth + 1};
  openBlock(copy.getBody(), inner);
  for (Value argument : op.getBody().getArguments())
    inner.values.map(argument, inner.block->addArgument(argument.getType(), argument.getLoc()));
  enterIteration(op, run.checkpoints[op], inner);
  Block &body = op.getBody().front();
  sweepForward(body, inner, true);
  declareShadows(body, inner);
  sweepBackward(body, inner);
  YieldOp::create(builder, op.getLoc());
}

} // namespace qd::passes
