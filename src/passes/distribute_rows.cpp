// distribute_rows.cpp: on grids, a subgroup of threads takes an iteration of a parallel loop whose work is in loops along rows
//
// In:   tasks, with parallel loops and the loops inside them that row_loops.cpp marked.
// Out:  a parallel loop with as many iterations for each one before as a subgroup has threads. These take every n-th iteration of a marked
//       loop and combine what they reduce by shuffles; between the rows all of them compute the same, and the first one writes. If a row is
//       too short for that, which each launch finds out, the loop has the iterations that it had before.
// Here: after updates of own elements have become stores: from here on an iteration has no index of its own any more.
#include "ir/attributes.h"
#include "ir/code.h"
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

class RowDistributor : Code {
public:
  RowDistributor(OpBuilder &builder, ForOp loop, int64_t threads, bool reassociated)
      : Code(builder, loop.getLoc()), loop(loop), wide(builder.getIntegerType(64, true)), narrow(builder.getIntegerType(32, true)),
        threads(threads), reassociated(reassociated) {}

  void run() {
    Value length = findShortestRow(), lanes = countLanes(length);
    unsigned last = loop.getRank() - 1;
    SmallVector<Value> lower(loop.getLower()), upper(loop.getUpper());
    Value first = lower[last], rounds = sub(cast(upper[last], wide), cast(first, wide));
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
    auto byThreads = [&] { emitByThreads(first, body.getArguments()); };
    if (isAlwaysLong)
      byThreads();
    else
      when(isLong, byThreads, [&] { emitAsBefore(first, body.getArguments()); });
    YieldOp::create(builder, loc);
    loop.erase();
  }

private:
  int64_t minLength() const { return std::max(threads, kLongRow); }

  Value findShortestRow() {
    std::optional<int64_t> known;
    Value shortest, ofParts;
    loop.getBody().walk([&](ForOp row) {
      if (!row->hasAttr(kRows)) return;
      Value lower = row.getLower()[0], upper = row.getUpper()[0];
      if (row->hasAttr(kPartOfRow)) {
        Value length = sub(cast(upper, wide), cast(lower, wide));
        ofParts = ofParts ? add(ofParts, length) : length;
        return;
      }
      if (std::optional<int64_t> length = findLength(row, 0)) {
        known = std::min(known.value_or(INT64_MAX), *length);
        return;
      }
      Value length = sub(cast(upper, wide), cast(lower, wide));
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
    return add(integer(wide, 1), binary(BinaryKind::mul, isLong, integer(wide, threads - 1)));
  }

  /// The body for one thread.
  void emitAsBefore(Value first, ValueRange indices) {
    IRMapping map;
    mapIndices(map, first, indices, indices.back());
    for (Operation &op : loop.getBody().front().without_terminator())
      builder.clone(op, map)->walk([](ForOp row) { row->removeAttr(kRows); });
  }

  void mapIndices(IRMapping &map, Value first, ValueRange indices, Value round) {
    map.map(loop.getBody().getArguments().drop_back(), indices.drop_back());
    Value last = loop.getBody().getArguments().back();
    map.map(last, add(first, cast(round, last.getType())));
  }

  /// The body for the threads of a subgroup.
  void emitByThreads(Value first, ValueRange indices) {
    Block *into = builder.getBlock();
    Value round = binary(BinaryKind::raw_div, indices.back(), integer(wide, threads));
    thread = cast(sub(indices.back(), binary(BinaryKind::mul, round, integer(wide, threads))), narrow);
    isFirst = binary(BinaryKind::eq, thread, integer(narrow, 0));
    IRMapping map;
    mapIndices(map, first, indices, round);
    SmallVector<Operation *> cloned;
    for (Operation &op : loop.getBody().front().without_terminator()) cloned.push_back(builder.clone(op, map));
    for (Operation *op : cloned) distribute(op);
    builder.setInsertionPointToEnd(into);
  }

  void distribute(Operation *op) {
    auto inner = dyn_cast<ForOp>(op);
    if (inner && inner->hasAttr(kRows)) return distributeRow(inner);
    builder.setInsertionPoint(op);
    if (writesContainer(op)) return runOnFirst(op);
    if (!containsOp(op, [](Operation *part) { return writesContainer(part) || part->hasAttr(kRows) || isa<ContinueOp, BreakOp>(part); }))
      return;
    // All threads take the same way, also where they read what other iterations write.
    for (OpOperand &operand : op->getOpOperands())
      if (isRead(operand.get())) operand.set(broadcast(operand.get()));
    for (Region &region : op->getRegions())
      for (Block &block : region)
        for (Operation &part : llvm::make_early_inc_range(block)) distribute(&part);
  }

  /// Lets the first thread alone run an operation that writes. The others get its result.
  void runOnFirst(Operation *op) {
    waitForThreads();
    builder.setInsertionPointAfter(op);
    const bool isUsed = !op->use_empty();
    Value kept = isUsed ? local(op->getResult(0).getType()) : Value();
    SmallVector<OpOperand *> uses;
    for (OpOperand &use : op->getUses()) uses.push_back(&use);
    when(isFirst, [&] {
      op->moveBefore(builder.getBlock(), builder.getInsertionPoint());
      if (isUsed) store(op->getResult(0), kept);
    });
    Value result = isUsed ? broadcast(load(kept)) : Value();
    for (OpOperand *use : uses) use->set(result);
    waitForThreads();
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
    Value start = add(row.getLower()[0], cast(thread, type)), width = integer(type, threads);
    Value before = sub(sub(upper, start), integer(type, 1));
    row.getLowerMutable()[0].set(integer(type, 0));
    row.getUpperMutable()[0].set(add(binary(BinaryKind::floor_div, before, width), integer(type, 1)));
    builder.setInsertionPointToStart(&row.getBody().front());
    Value distance = binary(BinaryKind::mul, index, width), own = add(start, distance);
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
    Value neutral = isa<FloatType>(type) ? makeFloat(builder, loc, type, isProduct) : integer(type, isProduct);
    store(select(isFirst, load(reduction.local), neutral), reduction.local);
  }

  void endReduction(const LaneReduction &reduction) {
    BinaryKind kind = *findKind<BinaryKind>(getOpInfo(reduction.kind).name);
    Value value = load(reduction.local);
    for (int64_t distance = threads / 2; distance > 0; distance /= 2)
      value = binary(kind, value, shuffle(value, binary(BinaryKind::bit_xor, thread, integer(narrow, distance))));
    store(broadcast(value), reduction.local);
  }

  static Type getType(const LaneReduction &reduction) { return llvm::cast<RefType>(reduction.local.getType()).getPointee(); }

  Value broadcast(Value value) { return shuffle(value, integer(narrow, 0)); }

  Value shuffle(Value value, Value from) {
    Type type = value.getType();
    bool isShort = type.getIntOrFloatBitWidth() < 32;
    Value sent = ShuffleOp::create(builder, loc, isShort ? cast(value, narrow) : value, from, UnitAttr(), Value());
    if (!isShort) return sent;
    return type.isInteger(1) ? binary(BinaryKind::ne, sent, integer(narrow, 0)) : cast(sent, type);
  }

  /// Makes the writes of all threads visible, unless nothing was accessed since they last did so.
  void waitForThreads() {
    Operation *before =
        builder.getInsertionPoint() == builder.getInsertionBlock()->begin() ? nullptr : &*std::prev(builder.getInsertionPoint());
    while (before && isPure(before) && before->getNumRegions() == 0) before = before->getPrevNode();
    if (!isa_and_nonnull<BarrierOp>(before)) BarrierOp::create(builder, loc, builder.getUnitAttr(), UnitAttr(), Value());
  }

  ForOp loop;
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
      OpBuilder builder(loop);
      RowDistributor(builder, loop, threads, reassociated).run();
    }
  }
};

} // namespace

} // namespace qd::passes
