// split_tasks.cpp: cut a kernel into tasks
//
// In:   one qd.kernel whose parallel loops are top-level statements.
// Out:  a parallel qd.task per parallel loop, a serial qd.task for the statements between two loops, also inside qd.repeat and gates. No
//       value is used outside the task that computes it; values that cross tasks are stored in the scratch block, one slot each.
// Here: all later passes and code generation work on one task at a time.
//
// A qd.return inside a serial task ends the kernel: later tasks do not run. That is the meaning of the op; this pass does nothing for it.
#include "ir/attributes.h"
#include "ir/gates.h"
#include "ir/memory.h"
#include "passes/launch_exprs.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Pass/Pass.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {
#define GEN_PASS_DEF_SPLITTASKS
#include "passes/passes.h.inc"

namespace {

// An expression of at most this many ops is recomputed in each task that uses it, and takes no slot.
constexpr unsigned kCheapOps = 16;
// So is one of at most this many that the host computes before a launch, too: it may be the size of a loop.
constexpr unsigned kHostOps = 64;

bool isParallelLoop(Operation &op) {
  auto loop = dyn_cast<ForOp>(op);
  return loop && loop.getParallel();
}

/// A place is an address: it cannot be stored in a slot, so its computation is always repeated.
bool isAddress(Operation *op) { return isa<TensorArgumentOp, SharedOp, PlaceOpInterface>(op); }

bool isCheap(Operation *op) {
  if (isa<ConstantOp, ArgumentOp, ExtentOp, CastOp, SelectOp, ExtractOp>(op)) return true;
  if (auto unary = dyn_cast<UnaryOp>(op)) return unary.getUnaryKind() == UnaryKind::neg || unary.getUnaryKind() == UnaryKind::bit_not;
  if (auto binary = dyn_cast<BinaryOp>(op))
    return isScalar(binary.getType()) && binary.getBinaryKind() != BinaryKind::pow && binary.getBinaryKind() != BinaryKind::atan2;
  return false;
}

/// Replaces a variable that is assigned once, before it is read, by its value: the host then knows the sizes of loops over it.
void forwardAssignedOnce(Block &block) {
  for (LocalOp local : llvm::make_early_inc_range(block.getOps<LocalOp>())) {
    StoreOp store;
    for (Operation *user : local->getUsers())
      if (auto found = dyn_cast<StoreOp>(user)) store = store ? StoreOp() : found;
    if (!store || store->getBlock() != &block) continue;
    Value value = store.getValue(); // the loop below may erase the store first
    Type type = value.getType();
    if (ir::isValue(type) && isa<BFloat16Type>(ir::getScalar(type))) continue; // only memory rounds a bf16
    auto isLaterLoad = [&](Operation *user) { return isa<LoadOp>(user) && store->isBeforeInBlock(block.findAncestorOpInBlock(*user)); };
    if (!llvm::all_of(local->getUsers(), [&](Operation *user) { return user == store || isLaterLoad(user); })) continue;
    for (Operation *user : llvm::make_early_inc_range(local->getUsers())) {
      if (user != store) user->replaceAllUsesWith(ValueRange{value});
      user->erase();
    }
    local->erase();
  }
}

class Splitter {
public:
  explicit Splitter(KernelOp kernel) : kernel(kernel), builder(kernel.getContext()) {}

  LogicalResult run() {
    if (failed(refuseReturnsInLoops())) return failure();
    flattenGates(kernel.getBody().front());
    collectDefinitions(kernel.getBody().front());
    makeTasks(kernel.getBody().front());
    for (Operation *op : definitions)
      for (Value value : op->getResults()) replaceInOtherTasks(value);
    for (ForOp loop : loops) loadReadOnlyPlacesBefore(loop);
    removeUnused();
    kernel.setScratchBytes(uint32_t(scratchBytes));
    return success();
  }

private:
  /// The operations added at the start of a task: repeated expressions, slots and their loads.
  struct Preamble {
    Operation *last = nullptr;
    DenseMap<Value, Value> values;
  };

  LogicalResult refuseReturnsInLoops() {
    auto walked = kernel.walk([](ReturnOp op) {
      for (Operation *outer = op; outer; outer = outer->getParentOp()) {
        if (!isParallelLoop(*outer)) continue;
        op.emitError("return inside a parallel loop: iterations have no order, so none can end the kernel");
        return WalkResult::interrupt();
      }
      return WalkResult::advance();
    });
    return failure(walked.wasInterrupted());
  }

  /// Replaces each gate with a parallel loop by its operations, which keep its number: the loop becomes a task, too. The other ones remain
  /// branches of the serial tasks around them.
  void flattenGates(Block &block) {
    for (Operation &op : llvm::make_early_inc_range(block)) {
      if (auto repeat = dyn_cast<RepeatOp>(op)) flattenGates(repeat.getBody().front());
      auto gate = dyn_cast<IfOp>(op);
      Attribute number = op.getAttr(kGate), streamBlock = op.getAttr(kStreamBlock);
      if (!gate || !number) continue;
      Block &inside = gate.getThenRegion().front();
      if (llvm::none_of(inside, isParallelLoop)) {
        gate->removeAttr(kGate);
        continue;
      }
      inside.back().erase();
      for (Operation &inner : inside) {
        inner.setAttr(kGate, number);
        if (streamBlock) inner.setAttr(kStreamBlock, streamBlock);
      }
      block.getOperations().splice(op.getIterator(), inside.getOperations());
      // The tasks compare the position themselves.
      SmallVector<Operation *> unused{gate};
      while (!unused.empty()) {
        Operation *next = unused.pop_back_val();
        SmallVector<Value> operands(next->getOperands());
        next->erase();
        for (Value operand : operands)
          if (Operation *definition = operand.getDefiningOp(); definition && operand.use_empty() && !isa<LocalOp>(definition))
            unused.push_back(definition);
      }
    }
  }

  void collectDefinitions(Block &block) {
    forwardAssignedOnce(block);
    for (Operation &op : block) {
      if (auto repeat = dyn_cast<RepeatOp>(op)) collectDefinitions(repeat.getBody().front());
      definitions.push_back(&op);
      for (Value value : op.getResults()) costs[value] = computeCost(&op);
    }
  }

  /// Number of ops that recomputing the op in another task takes, counted up to kCheapOps + 1.
  unsigned computeCost(Operation *op) const {
    if (isa<TensorArgumentOp, SharedOp>(op)) return 1;
    unsigned cost = isCheap(op) ? 1 : kCheapOps + 1;
    for (Value operand : op->getOperands()) {
      unsigned part = costs.lookup(operand);
      cost += part > kCheapOps ? 1 : part; // a value that takes a slot is read from there
    }
    return std::min(cost, kCheapOps + 1);
  }

  /// `branch`: the stream block that all operations belong to; null: each has its own.
  void makeTasks(Block &body, Attribute branch = {}) {
    TaskOp serial;
    for (Operation *op : llvm::to_vector(llvm::make_pointer_range(body))) {
      if (auto repeat = dyn_cast<RepeatOp>(op)) {
        serial = {};
        op->moveBefore(&body, body.end());
        if (branch) op->setAttr(kStreamBlock, branch);
        makeTasks(repeat.getBody().front(), op->getAttr(kStreamBlock));
        continue;
      }
      bool parallel = isParallelLoop(*op);
      Attribute streamBlock = branch ? branch : op->getAttr(kStreamBlock), gate = op->getAttr(kGate);
      bool fits = serial && serial->getAttr(kStreamBlock) == streamBlock && serial->getAttr(kGate) == gate;
      TaskOp task = parallel || !fits ? TaskOp() : serial;
      if (!task) {
        builder.setInsertionPointToEnd(&body);
        task = TaskOp::create(builder, op->getLoc(), parallel);
        task.getBody().emplaceBlock();
        if (streamBlock) task->setAttr(kStreamBlock, streamBlock);
        if (gate) task->setAttr(kGate, gate);
      }
      serial = parallel ? TaskOp() : task;
      op->removeAttr(kStreamBlock);
      op->removeAttr(kGate);
      op->moveBefore(&task.getBody().front(), task.getBody().front().end());
      if (parallel) loops.push_back(cast<ForOp>(op));
    }
  }

  static TaskOp getTask(Operation *op) {
    auto task = dyn_cast<TaskOp>(op);
    return task ? task : op->getParentOfType<TaskOp>();
  }

  /// Replaces the uses of `value` in other tasks by a value of these tasks.
  void replaceInOtherTasks(Value value) {
    TaskOp owner = getTask(value.getDefiningOp());
    bool crosses = false;
    if (value.getDefiningOp()->hasAttr(kPosition)) { // gates read it outside of the tasks
      crosses = true;
      kernel->setAttr(kPosition, builder.getI32IntegerAttr(int32_t(getSlot(value))));
    }
    SmallVector<std::pair<OpOperand *, TaskOp>> uses;
    for (OpOperand &use : llvm::make_early_inc_range(value.getUses())) {
      TaskOp task = getTask(use.getOwner());
      if (!task) {
        // A qd.repeat reads its condition outside of the tasks.
        crosses = true;
        builder.setInsertionPoint(use.getOwner());
        use.set(ScratchOp::create(builder, value.getLoc(), value.getType(), getSlot(value)));
        continue;
      }
      if (task != owner || isa<LocalOp>(value.getDefiningOp())) uses.push_back({&use, task});
      crosses |= task != owner;
    }
    if (!crosses) return;
    for (auto [use, task] : uses) use->set(getInTask(value, task));
  }

  bool isRepeated(Value value) {
    unsigned cost = costs.lookup(value);
    return isAddress(value.getDefiningOp()) || cost <= kCheapOps || (cost <= kHostOps && findLaunchExpr(value).isKnown());
  }

  /// The value that replaces `value`, which another task computes, in `task`.
  Value getInTask(Value value, TaskOp task) {
    Operation *definition = value.getDefiningOp();
    // The local becomes a scratch place even in the task that declares it.
    if (getTask(definition) == task && !isa<LocalOp>(definition)) return value;
    Preamble &preamble = preambles[task];
    if (Value known = preamble.values.lookup(value)) return known;

    Value result;
    if (isa<LocalOp>(definition)) {
      result = addToPreamble<ScratchOp>(task, definition->getLoc(), value.getType(), getSlot(value));
    } else if (isRepeated(value)) {
      IRMapping mapping;
      for (Value operand : definition->getOperands()) mapping.map(operand, getInTask(operand, task));
      Operation *copy = builder.clone(*definition, mapping);
      copy->remove();
      insertInPreamble(task, copy);
      result = copy->getResult(cast<OpResult>(value).getResultNumber());
    } else {
      Type place = RefType::get(value.getType());
      auto slot = addToPreamble<ScratchOp>(task, definition->getLoc(), place, getSlot(value));
      result = addToPreamble<LoadOp>(task, definition->getLoc(), value.getType(), slot);
    }
    preambles[task].values[value] = result;
    return result;
  }

  /// Offset of the slot of `value`. A new slot is filled right after the value is computed.
  uint32_t getSlot(Value value) {
    auto [entry, isNew] = slots.try_emplace(value);
    if (!isNew) return entry->second;
    auto place = dyn_cast<RefType>(value.getType());
    Type content = place ? place.getPointee() : value.getType();
    uint64_t scalarBytes = support::getByteSize(getScalarType(getScalar(content)));
    uint64_t offset = llvm::alignTo(scratchBytes, scalarBytes);
    scratchBytes = offset + scalarBytes * getComponentCount(content);
    entry->second = uint32_t(offset);
    if (!place) {
      builder.setInsertionPointAfterValue(value);
      auto slot = ScratchOp::create(builder, value.getLoc(), RefType::get(content), uint32_t(offset));
      StoreOp::create(builder, value.getLoc(), value, slot);
    }
    return uint32_t(offset);
  }

  template <typename Op, typename... Arguments> Value addToPreamble(TaskOp task, Location loc, Arguments... arguments) {
    OpBuilder detached(kernel.getContext());
    auto op = Op::create(detached, loc, arguments...);
    insertInPreamble(task, op);
    return op->getResult(0);
  }

  void insertInPreamble(TaskOp task, Operation *op) {
    Preamble &preamble = preambles[task];
    Block &block = task.getBody().front();
    block.getOperations().insert(preamble.last ? std::next(preamble.last->getIterator()) : block.begin(), op);
    preamble.last = op;
  }

  /// Hoists loads of scratch places that the loop only reads: no store to a container can change them.
  void loadReadOnlyPlacesBefore(ForOp loop) {
    auto task = cast<TaskOp>(loop->getParentOp());
    SmallVector<ScratchOp> places;
    for (ScratchOp place : task.getBody().front().getOps<ScratchOp>())
      if (isOnlyRead(place)) places.push_back(place);
    for (ScratchOp place : places) {
      builder.setInsertionPointAfter(place);
      Value value = LoadOp::create(builder, place.getLoc(), cast<RefType>(place.getType()).getPointee(), place);
      replaceLoads(place, value);
    }
  }

  void replaceLoads(Value place, Value value) {
    for (Operation *user : llvm::make_early_inc_range(place.getUsers())) {
      if (user == value.getDefiningOp()) continue;
      if (auto component = dyn_cast<ComponentOp>(user)) {
        builder.setInsertionPoint(component);
        Type scalar = cast<RefType>(component.getType()).getPointee();
        Value extracted = ExtractAtOp::create(builder, component.getLoc(), scalar, value, component.getIndices());
        replaceLoads(component, extracted);
        component.erase();
      } else {
        user->getResult(0).replaceAllUsesWith(value);
        user->erase();
      }
    }
  }

  /// Erases unused top-level operations of the tasks, and empty tasks.
  void removeUnused() {
    kernel.walk([](TaskOp task) {
      Block &block = task.getBody().front();
      for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
        if (op.use_empty() && (isPure(&op) || isa<LoadOp, LocalOp>(op))) op.erase();
      if (block.empty()) task.erase();
    });
  }

  KernelOp kernel;
  OpBuilder builder;
  std::vector<Operation *> definitions;
  std::vector<ForOp> loops;
  DenseMap<Operation *, Preamble> preambles;
  DenseMap<Value, uint32_t> slots;
  DenseMap<Value, unsigned> costs;
  uint64_t scratchBytes = 0;
};

struct SplitTasksPass : impl::SplitTasksBase<SplitTasksPass> {
  void runOnOperation() override {
    for (KernelOp kernel : getOperation().getOps<KernelOp>())
      if (failed(Splitter(kernel).run())) return signalPassFailure();
  }
};

} // namespace

} // namespace qd::passes
