// distribute_rows.cpp: on grids, a subgroup of threads takes an iteration of a parallel loop whose work is in loops along rows
//
// In:   tasks, with parallel loops and the loops inside them that row_loops.cpp marked.
// Out:  a parallel loop with as many iterations for each one before as a subgroup has threads. These take every n-th iteration of a marked
//       loop and combine what they reduce by shuffles; between the rows all of them compute the same, and the first one writes. If a row is
//       too short for that, which each launch finds out, the loop has the iterations that it had before.
// Here: after updates of own elements have become stores: from here on an iteration has no index of its own any more.
#include "ir/attributes.h"
#include "ir/memory.h"
#include "passes/row_loops.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

#define GEN_PASS_DECL_DISTRIBUTEROWS
#define GEN_PASS_DEF_DISTRIBUTEROWS
#include "passes/passes.h.inc"

namespace {

class RowDistributor {
public:
  RowDistributor(ForOp loop, int64_t threads, bool reassociated)
      : loop(loop), builder(loop), loc(loop.getLoc()), wide(builder.getIntegerType(64, true)), narrow(builder.getIntegerType(32, true)),
        threads(threads), reassociated(reassociated) {}

  void run() {
    Value length = findShortestRow(), lanes = countLanes(length);
    unsigned last = loop.getRank() - 1;
    SmallVector<Value> lower(loop.getLower()), upper(loop.getUpper());
    Value first = lower[last], rounds = binary(BinaryKind::sub, cast(wide, upper[last]), cast(wide, first));
    lower[last] = integer(wide, 0);
    upper[last] = binary(BinaryKind::mul, rounds, lanes);
    bool isAlwaysLong = findInteger(length).value_or(0) >= minLength();
    Value isLong = isAlwaysLong ? Value() : binary(BinaryKind::gt, lanes, integer(wide, 1));
    auto spread =
        ForOp::create(builder, loc, lower, upper, ValueRange(), /*parallel=*/true, IntegerAttr(), IntegerAttr(), loop.getNameAttr());
    spread->setDiscardableAttrs(loop->getDiscardableAttrDictionary());
    Block &body = spread.getBody().emplaceBlock();
    for (Value bound : lower) body.addArgument(bound.getType(), loc);
    builder.setInsertionPointToStart(&body);
    if (isAlwaysLong) {
      emitByThreads(body, first);
    } else {
      auto branches = IfOp::create(builder, loc, isLong);
      emitByThreads(branches.getThenRegion().emplaceBlock(), first, body.getArguments());
      emitAsBefore(branches.getElseRegion().emplaceBlock(), first, body.getArguments());
      builder.setInsertionPointToEnd(&body);
      YieldOp::create(builder, loc);
    }
    loop.erase();
  }

private:
  int64_t minLength() const { return std::max(threads, kLongRow); }

  Value integer(Type type, int64_t value) { return ConstantOp::create(builder, loc, builder.getIntegerAttr(type, value)); }
  Value binary(BinaryKind kind, Value left, Value right) { return BinaryOp::create(builder, loc, kind, left, right); }
  Value cast(Type type, Value value) { return value.getType() == type ? value : CastOp::create(builder, loc, type, value).getResult(); }

  Value findShortestRow() {
    std::optional<int64_t> known;
    Value shortest, ofParts;
    loop.getBody().walk([&](ForOp row) {
      if (!row->hasAttr(kRows)) return;
      Value lower = row.getLower()[0], upper = row.getUpper()[0];
      if (row->hasAttr(kPartOfRow)) {
        Value length = binary(BinaryKind::sub, cast(wide, upper), cast(wide, lower));
        ofParts = ofParts ? binary(BinaryKind::add, ofParts, length) : length;
        return;
      }
      std::optional<int64_t> from = findInteger(lower), to = findInteger(upper);
      if (from && to) {
        known = std::min(known.value_or(INT64_MAX), *to - *from);
        return;
      }
      Value length = binary(BinaryKind::sub, cast(wide, upper), cast(wide, lower));
      shortest = shortest ? binary(BinaryKind::min, shortest, length) : length;
    });
    if (ofParts) shortest = shortest ? binary(BinaryKind::min, shortest, ofParts) : ofParts;
    if (!known) return shortest;
    return shortest ? binary(BinaryKind::min, shortest, integer(wide, *known)) : integer(wide, *known);
  }

  /// Threads of an iteration: all of a subgroup, or one. The host computes it, too, so it is made of what launch expressions have.
  Value countLanes(Value length) {
    Value quotient = binary(BinaryKind::raw_div, length, integer(wide, minLength()));
    Value isLong = binary(BinaryKind::max, integer(wide, 0), binary(BinaryKind::min, integer(wide, 1), quotient));
    return binary(BinaryKind::add, integer(wide, 1), binary(BinaryKind::mul, isLong, integer(wide, threads - 1)));
  }

  /// The body for one thread.
  void emitAsBefore(Block &into, Value first, ValueRange indices) {
    builder.setInsertionPointToStart(&into);
    IRMapping map;
    mapIndices(map, first, indices, indices.back());
    for (Operation &op : loop.getBody().front()) builder.clone(op, map)->walk([](ForOp row) { row->removeAttr(kRows); });
  }

  void mapIndices(IRMapping &map, Value first, ValueRange indices, Value round) {
    map.map(loop.getBody().getArguments().drop_back(), indices.drop_back());
    Value last = loop.getBody().getArguments().back();
    map.map(last, binary(BinaryKind::add, first, cast(last.getType(), round)));
  }

  /// The body for the threads of a subgroup.
  void emitByThreads(Block &into, Value first) { emitByThreads(into, first, into.getArguments()); }
  void emitByThreads(Block &into, Value first, ValueRange indices) {
    builder.setInsertionPointToStart(&into);
    Value round = binary(BinaryKind::raw_div, indices.back(), integer(wide, threads));
    thread = cast(narrow, binary(BinaryKind::sub, indices.back(), binary(BinaryKind::mul, round, integer(wide, threads))));
    isFirst = binary(BinaryKind::eq, thread, integer(narrow, 0));
    IRMapping map;
    mapIndices(map, first, indices, round);
    SmallVector<Operation *> cloned;
    for (Operation &op : loop.getBody().front()) cloned.push_back(builder.clone(op, map));
    for (Operation *op : cloned) distribute(op);
  }

  void distribute(Operation *op) {
    auto inner = dyn_cast<ForOp>(op);
    if (inner && inner->hasAttr(kRows)) return distributeRow(inner);
    builder.setInsertionPoint(op);
    if (writesContainer(op)) {
      waitForThreads();
      auto only = IfOp::create(builder, loc, isFirst);
      Block &block = only.getThenRegion().emplaceBlock();
      op->moveBefore(&block, block.end());
      builder.setInsertionPointToEnd(&block);
      YieldOp::create(builder, loc);
      builder.setInsertionPointAfter(only);
      return waitForThreads();
    }
    if (!containsOp(op, [](Operation *part) { return writesContainer(part) || part->hasAttr(kRows) || isa<ContinueOp, BreakOp>(part); }))
      return;
    // All threads take the same way, also where they read what other iterations write.
    for (OpOperand &operand : op->getOpOperands())
      if (isRead(operand.get())) operand.set(broadcast(operand.get()));
    for (Region &region : op->getRegions())
      for (Block &block : region)
        for (Operation &part : llvm::make_early_inc_range(block)) distribute(&part);
  }

  /// Whether a value depends on memory.
  static bool isRead(Value value) {
    Operation *op = value.getDefiningOp();
    return op && (!isPure(op) || llvm::any_of(op->getOperands(), isRead));
  }

  void distributeRow(ForOp row) {
    row->removeAttr(kRows);
    builder.setInsertionPoint(row);
    SmallVector<LaneReduction, 2> reductions = findLaneReductions(row, reassociated);
    for (const LaneReduction &reduction : reductions) beginReduction(reduction);
    waitForThreads();
    Value index = row.getBody().getArgument(0), upper = row.getUpper()[0];
    Type type = index.getType();
    Value start = binary(BinaryKind::add, row.getLower()[0], cast(type, thread)), width = integer(type, threads);
    Value before = binary(BinaryKind::sub, binary(BinaryKind::sub, upper, start), integer(type, 1));
    row.getLowerMutable()[0].set(integer(type, 0));
    row.getUpperMutable()[0].set(binary(BinaryKind::add, binary(BinaryKind::floor_div, before, width), integer(type, 1)));
    builder.setInsertionPointToStart(&row.getBody().front());
    Value distance = binary(BinaryKind::mul, index, width), own = binary(BinaryKind::add, start, distance);
    index.replaceAllUsesExcept(own, distance.getDefiningOp());
    builder.setInsertionPointAfter(row);
    waitForThreads();
    for (const LaneReduction &reduction : reductions) endReduction(reduction);
  }

  /// The first thread goes on with the value of the variable, the others begin with one that changes nothing.
  void beginReduction(const LaneReduction &reduction) {
    Type type = getType(reduction);
    bool isSum = reduction.kind == AtomicKind::add || reduction.kind == AtomicKind::bit_xor, isProduct = reduction.kind == AtomicKind::mul;
    if (!isSum && !isProduct) return; // each thread may combine the value of the variable
    auto neutral = isa<FloatType>(type) ? cast<TypedAttr>(builder.getFloatAttr(type, isProduct)) : builder.getIntegerAttr(type, isProduct);
    Value own = LoadOp::create(builder, loc, type, reduction.local);
    own = SelectOp::create(builder, loc, type, isFirst, own, ConstantOp::create(builder, loc, neutral));
    StoreOp::create(builder, loc, own, reduction.local);
  }

  void endReduction(const LaneReduction &reduction) {
    Type type = getType(reduction);
    BinaryKind kind = *findKind<BinaryKind>(getOpInfo(reduction.kind).name);
    Value value = LoadOp::create(builder, loc, type, reduction.local);
    for (int64_t distance = threads / 2; distance > 0; distance /= 2)
      value = binary(kind, value, shuffle(value, binary(BinaryKind::bit_xor, thread, integer(narrow, distance))));
    StoreOp::create(builder, loc, broadcast(value), reduction.local);
  }

  static Type getType(const LaneReduction &reduction) { return cast<RefType>(reduction.local.getType()).getPointee(); }

  Value broadcast(Value value) { return shuffle(value, integer(narrow, 0)); }

  Value shuffle(Value value, Value from) {
    Type type = value.getType();
    bool isShort = type.getIntOrFloatBitWidth() < 32;
    Value sent = ShuffleOp::create(builder, loc, isShort ? cast(narrow, value) : value, from, UnitAttr(), Value());
    if (!isShort) return sent;
    return type.isInteger(1) ? binary(BinaryKind::ne, sent, integer(narrow, 0)) : cast(type, sent);
  }

  /// Makes the writes of all threads visible, unless nothing was accessed since they last did so.
  void waitForThreads() {
    Operation *before =
        builder.getInsertionPoint() == builder.getInsertionBlock()->begin() ? nullptr : &*std::prev(builder.getInsertionPoint());
    while (before && isPure(before) && before->getNumRegions() == 0) before = before->getPrevNode();
    if (!isa_and_nonnull<BarrierOp>(before)) BarrierOp::create(builder, loc, builder.getUnitAttr(), UnitAttr(), Value());
  }

  ForOp loop;
  OpBuilder builder;
  Location loc;
  Type wide, narrow;
  int64_t threads; ///< of a subgroup
  bool reassociated;
  Value thread, isFirst; ///< number of the thread in its subgroup
};

struct DistributeRowsPass : impl::DistributeRowsBase<DistributeRowsPass> {
  using DistributeRowsBase::DistributeRowsBase;

  void runOnOperation() override {
    SmallVector<ForOp> marked;
    getOperation().walk([&](ForOp loop) {
      if (loop.getParallel() && loop->hasAttr(kRows)) marked.push_back(loop);
    });
    for (ForOp loop : marked) {
      loop->removeAttr(kRows);
      RowDistributor(loop, threads, reassociated).run();
    }
  }
};

} // namespace

} // namespace qd::passes
