// normalize_exits.cpp: break, continue and early return become flags
//
// In:   structured control flow whose regions may end in break, continue or return.
// Out:  only `if`, `for` and `while`, and functions that return at their end. The code that an exit skips is moved into an `if` on a flag:
//       `live` of the iteration, `returned` of the function. A loop with an early exit ends with `if (broken) break`, marked kLoopExit,
//       which is its only break.
// Here: before the reverse mode: the backward sweep must be able to decide for each operation whether it ran. Other kernels skip this pass.
#include "ir/attributes.h"
#include "ir/code.h"
#include "ir/dialect.h"
#include "passes/demote_atomics.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {
#define GEN_PASS_DEF_NORMALIZEEXITS
#include "passes/passes.h.inc"

namespace {

/// The flags of the iteration, loop and function around an operation. Null: it has no early exit.
struct Surroundings {
  Value live;     ///< the iteration has not been left
  Value broken;   ///< the loop runs no further iteration
  Value returned; ///< the function has returned
  SmallVector<Value> results;
};

class Normalizer : Code {
public:
  explicit Normalizer(OpBuilder &builder) : Code(builder, builder.getUnknownLoc()) {}

  void run(Block &body) {
    bool isEarly = false;
    body.walk([&](ReturnOp op) { isEarly |= op->getBlock() != &body; });
    auto last = body.empty() ? ReturnOp() : dyn_cast<ReturnOp>(body.back());
    Surroundings around;
    if (isEarly) {
      loc = body.front().getLoc();
      builder.setInsertionPointToStart(&body);
      around.returned = makeFlag(false);
      if (last)
        for (Value value : last.getValues()) around.results.push_back(local(value.getType()));
    }
    lower(body, around);
    if (!isEarly || !isa<FuncOp>(body.getParentOp())) return;
    builder.setInsertionPointToEnd(&body);
    ReturnOp::create(builder, loc, llvm::map_to_vector(around.results, [&](Value place) { return load(place); }));
  }

private:
  Value makeFlag(bool value) {
    Value flag = local(builder.getI1Type());
    set(flag, value);
    return flag;
  }
  void set(Value flag, bool value) {
    if (flag) store(integer(builder.getI1Type(), value), flag);
  }

  /// Creates an `if` and moves the insertion point into its branch.
  IfOp makeIf(Value condition) {
    auto op = IfOp::create(builder, loc, condition);
    op.getThenRegion().emplaceBlock();
    builder.setInsertionPointToStart(&op.getThenRegion().front());
    return op;
  }

  /// Replaces the exit that ends a block.
  void leave(Operation *exit, const Surroundings &around) {
    builder.setInsertionPoint(exit);
    loc = exit->getLoc();
    if (auto op = dyn_cast<ReturnOp>(exit)) {
      for (auto [value, place] : llvm::zip(op.getValues(), around.results)) store(value, place);
      set(around.returned, true);
    }
    set(around.live, false);
    if (!isa<ContinueOp>(exit)) set(around.broken, true);
    if (!isa<KernelOp, FuncOp>(exit->getParentOp())) YieldOp::create(builder, loc);
    exit->erase();
  }

  /// Lowers a block; returns whether some path through it leaves the loop or function early.
  bool lower(Block &block, const Surroundings &around) {
    bool isLeft = false;
    for (Operation *op = block.empty() ? nullptr : &block.front(); op;) {
      Operation *next = op->getNextNode();
      bool mayLeave = false;
      if (isa<BreakOp, ContinueOp>(op) || (isa<ReturnOp>(op) && around.returned)) {
        leave(op, around);
        return true;
      }
      if (auto branch = dyn_cast<IfOp>(op)) {
        mayLeave = lower(branch.getThenRegion().front(), around);
        if (!branch.getElseRegion().empty()) mayLeave |= lower(branch.getElseRegion().front(), around);
      } else if (isa<ForOp, WhileOp>(op)) {
        mayLeave = lowerLoop(op, around);
        next = op->getNextNode(); // a test may have been inserted after the loop
      }
      isLeft |= mayLeave;
      if (mayLeave && next && !isa<YieldOp>(next)) {
        guardRest(next, around);
        return true;
      }
      op = next;
    }
    return isLeft;
  }

  /// Moves the rest of the block into an `if`: it runs only if no exit was taken before.
  void guardRest(Operation *first, const Surroundings &around) {
    Block *block = first->getBlock();
    loc = first->getLoc();
    builder.setInsertionPoint(first);
    Value condition = load(around.live ? around.live : around.returned);
    if (!around.live) condition = unary(UnaryKind::logical_not, condition);
    IfOp guard = makeIf(condition);
    Block &rest = guard.getThenRegion().front();
    rest.getOperations().splice(rest.end(), block->getOperations(), first->getIterator(), block->end());
    bool isRegion = !isa<KernelOp, FuncOp>(block->getParentOp());
    if (isRegion) {
      // The terminator stays outside, and the guard gets its own.
      builder.setInsertionPointToEnd(block);
      YieldOp::create(builder, loc);
    }
    if (!rest.back().hasTrait<OpTrait::IsTerminator>()) {
      builder.setInsertionPointToEnd(&rest);
      YieldOp::create(builder, loc);
    }
    lower(rest, around);
  }

  bool lowerLoop(Operation *op, const Surroundings &around) {
    Block &body = op->getRegions().back().front();
    bool breaks = false, continues = false, returns = false;
    body.walk([&](Operation *inner) {
      Operation *loop = inner->getParentOp();
      while (!isa<ForOp, WhileOp>(loop)) loop = loop->getParentOp();
      breaks |= loop == op && isa<BreakOp>(inner);
      continues |= loop == op && isa<ContinueOp>(inner);
      returns |= isa<ReturnOp>(inner);
    });
    returns &= bool(around.returned);
    Surroundings inside = around;
    inside.live = inside.broken = Value();
    loc = op->getLoc();
    if (breaks || returns) {
      builder.setInsertionPoint(op);
      inside.broken = makeFlag(false);
    }
    if (breaks || continues || returns) {
      builder.setInsertionPointToStart(&body);
      inside.live = makeFlag(true);
    }
    lower(body, inside);
    if (inside.broken) {
      builder.setInsertionPoint(&body.back());
      loc = op->getLoc();
      IfOp exit = makeIf(load(inside.broken));
      exit->setAttr(kLoopExit, builder.getUnitAttr());
      BreakOp::create(builder, loc);
    }
    if (!returns) return false;
    builder.setInsertionPointAfter(op);
    if (around.live) {
      // A return in the inner loop leaves the outer loop, too.
      makeIf(load(around.returned));
      set(around.live, false);
      set(around.broken, true);
      YieldOp::create(builder, loc);
    }
    return true;
  }
};

struct NormalizeExitsPass : impl::NormalizeExitsBase<NormalizeExitsPass> {
  void runOnOperation() override {
    OpBuilder builder(&getContext());
    Normalizer normalizer(builder);
    for (KernelOp kernel : getOperation().getOps<KernelOp>()) normalizer.run(kernel.getBody().front());
    for (FuncOp function : getOperation().getOps<FuncOp>()) normalizer.run(function.getBody().front());
    demoteOwnAtomics(getOperation());
  }
};

} // namespace

} // namespace qd::passes
