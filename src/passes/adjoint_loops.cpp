// adjoint_loops.cpp: adjoints of loops, with checkpoints of their variables
//
// The backward sweep of a loop restores the variables to their values at the start of each iteration, then recomputes the iteration. A
// checkpoint is the state of these variables; checkpoints are stored in local arrays. A loop with few iterations, known at compile time,
// stores a checkpoint of each. Any other loop has at most kSlots: one for each iteration while they fit, otherwise one for every n-th,
// where n grows with the loop (a `while` thins out its checkpoints as it runs). The backward sweep starts from the last checkpoint,
// recomputes up to the iteration it needs, and stores further checkpoints in the free slots (Griewank and Walther, "Revolve", ACM TOMS 26,
// 2000, with even spacing). So memory is bounded and its size is known at compile time: nothing is allocated at run time. Up to kSlots
// iterations, each is computed at most twice; up to (kSlots / 2)² iterations, three times.
#include "passes/adjoint_builder.h"

#include "ir/attributes.h"

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

/// Slots of a loop whose number of iterations is unknown; a multiple of 8. Loops with large states get fewer.
constexpr int64_t kSlots = 64, kFewestSlots = 16;
/// Bytes that all checkpoints of a loop may take.
constexpr int64_t kCheckpointBytes = 8192;

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
    Value origin = findOrigin(place);
    Operation *definition = origin.getDefiningOp();
    bool isOutside = isa<RefType>(origin.getType()) && !(definition && loop->isProperAncestor(definition));
    if (isOutside) touched.insert(origin);
    return isOutside ? origin : Value();
  }

  void read(Value place, const DenseSet<Value> &known) {
    if (Value origin = findOuter(place); origin && !known.contains(origin)) exposed.insert(origin);
  }
  void write(Value place) {
    if (Value origin = findOuter(place)) modified.insert(origin);
  }

  /// `known`: places that every path so far has written.
  void collect(Block &block, DenseSet<Value> &known) {
    for (Operation &op : block) {
      if (auto load = dyn_cast<LoadOp>(op)) read(load.getRef(), known);
      if (auto store = dyn_cast<StoreOp>(op)) {
        // A store to one component leaves the others as they were: it counts as a read, too.
        if (store.getRef().getDefiningOp<ComponentOp>()) read(store.getRef(), known);
        write(store.getRef());
        if (Value origin = findOuter(store.getRef())) known.insert(origin);
      }
      if (isa<AtomicOp, CompareExchangeOp>(op)) {
        if (!op.use_empty()) read(op.getOperand(0), known);
        write(op.getOperand(0));
      }
      if (isa<CallOp>(op))
        for (Value operand : op.getOperands())
          if (isa<RefType>(operand.getType())) {
            read(operand, known);
            write(operand);
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

int64_t getBytes(Type type) { return getComponentCount(type) * int64_t(support::getByteSize(getScalarType(getScalar(type)))); }

/// An array of scalars is a vector, an array of vectors a matrix.
Type getArrayType(Type element, int64_t count) {
  if (!isa<VectorType>(element)) return VectorType::get({count}, element);
  return VectorType::get({count, getComponentCount(element)}, getScalar(element));
}

void storeSlot(Code code, Value array, Value slot, Value value) {
  if (!isa<VectorType>(value.getType())) return code.store(value, code.component(array, slot));
  for (int64_t i = 0; i < getComponentCount(value.getType()); ++i)
    code.store(code.extract(value, i), code.component(array, {slot, code.integer(i)}));
}

Value loadSlot(Code code, Value array, Value slot, Type type) {
  if (!isa<VectorType>(type)) return code.load(code.component(array, slot));
  SmallVector<Value> components;
  for (int64_t i = 0; i < getComponentCount(type); ++i) components.push_back(code.load(code.component(array, {slot, code.integer(i)})));
  return VectorOp::create(code.builder, code.loc, type, components);
}

Type getPointee(Value place) { return cast<RefType>(place.getType()).getPointee(); }

} // namespace

void AdjointBuilder::refuseUpdatesOf(Operation *loop, Value place) {
  loop->walk([&](LoadOp load) {
    if (findOrigin(load.getRef()) != place) return WalkResult::advance();
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
  int64_t bytes = 0;
  for (Value place : uses.exposed) {
    if (uses.modified.contains(place)) {
      if (isParallel) refuseUpdatesOf(op, place);
      checkpoints.carried.insert(place);
      bytes += getBytes(getPointee(place));
    } else {
      checkpoints.invariant[place] = makeLocal(getPointee(place), code.loc, run);
      code.store(code.load(use(place, run)), checkpoints.invariant[place]);
    }
  }
  bool mayExit = !loop || hasExit(op);
  if (mayExit) checkpoints.count = makeLocal(code.type(), code.loc, run);
  if (isParallel || checkpoints.carried.empty()) return;
  std::optional<int64_t> count = mayExit ? std::nullopt : findCount(loop);
  bool holdsAll = count && (*count <= kFewestSlots || *count * bytes <= kCheckpointBytes);
  checkpoints.slotCount = holdsAll ? std::max<int64_t>(*count, 1) : bytes * kSlots <= kCheckpointBytes ? kSlots : kFewestSlots;
  for (Value place : checkpoints.carried) {
    Value slots = checkpoints.slots[place] = makeLocal(getArrayType(getPointee(place), checkpoints.slotCount), code.loc, run);
    slots.getDefiningOp()->setAttr(kCheckpoints, builder.getI32IntegerAttr(checkpoints.number));
  }
  if (holdsAll) return;
  checkpoints.positions = makeLocal(getArrayType(code.type(), checkpoints.slotCount), code.loc, run);
  checkpoints.used = makeLocal(code.type(), code.loc, run);
  if (!mayExit) checkpoints.holdsAll = makeLocal(builder.getI1Type(), code.loc, run);
}

SmallVector<Value> AdjointBuilder::readState(Code code, const LoopCheckpoints &checkpoints, Run &run) {
  return llvm::map_to_vector(checkpoints.carried, [&](Value place) { return code.load(use(place, run)); });
}

void AdjointBuilder::saveState(Code code, const LoopCheckpoints &checkpoints, ArrayRef<Value> state, Value slot) {
  for (auto [place, value] : llvm::zip(checkpoints.carried, state)) storeSlot(code, checkpoints.slots.lookup(place), slot, value);
}

/// Stores a checkpoint if iteration `number` is the next one that gets one.
void AdjointBuilder::saveIfDue(Code code, const LoopCheckpoints &checkpoints, ArrayRef<Value> state, Value number, Value next, Value stride,
                               bool thins) {
  code.when(code.binary(BinaryKind::eq, number, code.load(next)), [&] {
    if (thins) thinOut(code, checkpoints, stride);
    Value slot = code.load(checkpoints.used);
    saveState(code, checkpoints, state, slot);
    code.store(number, code.component(checkpoints.positions, slot));
    code.store(code.add(slot, code.integer(1)), checkpoints.used);
    code.store(code.add(number, code.load(stride)), next);
  });
}

/// Keeps one checkpoint in four, first when all slots are full, later when half of them are. The other half is for the backward sweep.
void AdjointBuilder::thinOut(Code code, const LoopCheckpoints &checkpoints, Value stride) {
  Value isFirst = code.binary(BinaryKind::eq, code.load(stride), code.integer(1));
  Value limit = code.select(isFirst, code.integer(checkpoints.slotCount), code.integer(checkpoints.slotCount / 2));
  code.when(code.binary(BinaryKind::eq, code.load(checkpoints.used), limit), [&] {
    Value left = code.binary(BinaryKind::raw_div, limit, code.integer(4));
    code.loop(code.integer(0), left, [&](Value slot) {
      Value from = code.binary(BinaryKind::mul, slot, code.integer(4));
      for (Value place : checkpoints.carried) {
        Value array = checkpoints.slots.lookup(place);
        storeSlot(code, array, slot, loadSlot(code, array, from, getPointee(place)));
      }
      code.store(code.load(code.component(checkpoints.positions, from)), code.component(checkpoints.positions, slot));
    });
    code.store(left, checkpoints.used);
    code.store(code.binary(BinaryKind::mul, code.load(stride), code.integer(4)), stride);
  });
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
    Run inner;
    inner.outer = &run;
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
  Value upper = loop ? countIterations(loop, run) : code.integer(INT32_MAX), zero = code.integer(0), one = code.integer(1), stride, next;
  if (checkpoints.count) code.store(zero, checkpoints.count);
  if (checkpoints.positions) {
    stride = code.local(code.type());
    next = code.local(code.type());
    code.store(zero, next);
    code.store(zero, checkpoints.used);
    Value fits = code.binary(BinaryKind::le, upper, code.integer(checkpoints.slotCount));
    Value sparse = code.divideUp(upper, code.integer(checkpoints.slotCount / 2));
    code.store(checkpoints.count ? one : code.select(fits, one, sparse), stride);
    if (checkpoints.holdsAll) code.store(fits, checkpoints.holdsAll);
  }
  code.loop(zero, upper, [&](Value number) {
    Run inner;
    inner.outer = &run;
    inner.block = builder.getInsertionBlock();
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
    auto save = [&] { saveState(code, checkpoints, state, number); };
    auto saveSome = [&] { saveIfDue(code, checkpoints, state, number, next, stride, /*thins=*/bool(checkpoints.count)); };
    if (checkpoints.holdsAll)
      code.when(code.load(checkpoints.holdsAll), save, saveSome);
    else
      checkpoints.positions ? saveSome() : save();
    sweepForward(op->getRegions().back().front(), inner, false);
  });
}

//--- Backward ---

/// Gives the iteration variables of its own, which replace the live-ins of the loop.
void AdjointBuilder::enterIteration(Operation *op, const LoopCheckpoints &checkpoints, Run &inner) {
  Code code = at(op);
  for (Value place : checkpoints.liveIn) {
    Value own = makeLocal(getPointee(place), code.loc, inner);
    inner.values.map(place, own);
    if (Value copy = checkpoints.invariant.lookup(place)) code.store(code.load(copy), own);
  }
}

void AdjointBuilder::restore(Code code, const LoopCheckpoints &checkpoints, Value slot, Run &inner) {
  for (Value place : checkpoints.carried)
    code.store(loadSlot(code, checkpoints.slots.lookup(place), slot, getPointee(place)), use(place, inner));
}

/// Restores the variables to their values at the start of iteration `number`.
void AdjointBuilder::restoreIteration(Operation *op, const LoopCheckpoints &checkpoints, Value number, Run &inner) {
  if (checkpoints.carried.empty()) return;
  Code code = at(op);
  if (!checkpoints.positions) return restore(code, checkpoints, number, inner);
  auto restoreOwn = [&] { restore(code, checkpoints, number, inner); };
  auto recompute = [&] { recomputeTo(op, checkpoints, number, inner); };
  checkpoints.holdsAll ? code.when(code.load(checkpoints.holdsAll), restoreOwn, recompute) : recompute();
}

/// Restores the last checkpoint and recomputes the iterations up to `number`.
void AdjointBuilder::recomputeTo(Operation *op, const LoopCheckpoints &checkpoints, Value number, Run &inner) {
  Code code = at(op);
  Value one = code.integer(1), slot = code.sub(code.load(checkpoints.used), one),
        from = code.load(code.component(checkpoints.positions, slot));
  restore(code, checkpoints, slot, inner);
  code.when(code.binary(BinaryKind::lt, from, number), [&] {
    Value free = code.sub(code.integer(checkpoints.slotCount - 1), slot), length = code.sub(number, from);
    Value half = code.binary(BinaryKind::max, code.binary(BinaryKind::raw_div, free, code.integer(2)), one);
    Value stride = code.local(code.type()), next = code.local(code.type());
    Value fits = code.binary(BinaryKind::le, length, free);
    code.store(code.select(fits, one, code.divideUp(length, half)), stride);
    code.store(code.add(from, code.load(stride)), next);
    code.loop(from, number, [&](Value passed) {
      Run passedRun;
      passedRun.outer = &inner;
      passedRun.block = builder.getInsertionBlock();
      SmallVector<Value> state = readState(code, checkpoints, passedRun);
      Value hasSlot = code.binary(BinaryKind::lt, code.load(checkpoints.used), code.integer(checkpoints.slotCount));
      code.when(hasSlot, [&] { saveIfDue(code, checkpoints, state, passed, next, stride, /*thins=*/false); });
      emitIteration(op, passed, passedRun, false);
    });
  });
  Value last = code.sub(code.load(checkpoints.used), one);
  Value isDone = code.binary(BinaryKind::eq, code.load(code.component(checkpoints.positions, last)), number);
  code.store(code.select(isDone, last, code.add(last, one)), checkpoints.used);
}

void AdjointBuilder::emitBackwardLoop(Operation *op, Run &run) {
  if (!usesActive(op)) return;
  auto loop = dyn_cast<ForOp>(op);
  if (loop && loop.getParallel()) return emitBackwardParallel(loop, run);
  const LoopCheckpoints &checkpoints = run.checkpoints[op];
  Code code = at(op);
  Value count = checkpoints.count ? code.load(checkpoints.count) : countIterations(loop, run), last = code.sub(count, code.integer(1));
  ForOp back = code.loop(code.integer(0), count, [&](Value done) {
    Run inner;
    inner.outer = &run;
    inner.block = builder.getInsertionBlock();
    inner.parallelDepth = run.parallelDepth;
    Value number = code.sub(last, done);
    enterIteration(op, checkpoints, inner);
    restoreIteration(op, checkpoints, number, inner);
    emitIteration(op, number, inner, true);
    for (Region &region : op->getRegions()) declareShadows(region.front(), inner);
    for (Region &region : llvm::reverse(op->getRegions())) sweepBackward(region.front(), inner);
  });
  back->setAttr(kCheckpoints, builder.getDenseI32ArrayAttr({checkpoints.number, int32_t(checkpoints.slotCount), !checkpoints.positions}));
}

void AdjointBuilder::emitBackwardParallel(ForOp op, Run &run) {
  auto copy = cast<ForOp>(copyWithoutRegions(op, run));
  OpBuilder::InsertionGuard guard(builder);
  Run inner;
  inner.outer = &run;
  inner.parallelDepth = run.parallelDepth + 1;
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
