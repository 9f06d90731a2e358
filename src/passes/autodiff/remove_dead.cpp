// remove_dead.cpp: mark the operations that effects depend on, erase the others
//
// In:   a module with derived kernels.
// Out:  the module without dead operations; dead call operands and results become zero.
// Here: the reverse mode emits forward sweeps and checkpoints for everything and relies on this pass to remove what is not needed.
//
// A local counts as a whole, wherever in the function it is read or written. LLVM is more precise for single values, but it cannot remove
// an array that one loop fills and no later loop needs. The analysis crosses calls: an operand is live if a live operation of the callee
// uses the parameter; a returned value is live if a live operation uses the result of some call.
#include "passes/autodiff/remove_dead.h"

#include "ir/attributes.h"
#include "ir/call_graph.h"
#include "ir/code.h"
#include "ir/memory.h"

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

namespace {

class Marker {
public:
  explicit Marker(ModuleOp module) : module(module), calls(module) {
    effects = calls.findFunctions([](Operation *op) { return isa<PrintOp, AssertOp>(op) || writesContainer(op); });
    module.walk([&](Operation *op) {
      if (auto number = op->getAttrOfType<IntegerAttr>(kGuards)) guards[number.getInt()].push_back(op);
    });
  }

  void run() {
    module.walk([&](Operation *op) {
      if (isEffect(op)) mark(op);
    });
    while (!pending.empty()) propagate(pending.pop_back_val());
    replaceUnused();
    SmallVector<Operation *> dead;
    module.walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (isa<ModuleOp, KernelOp, FuncOp>(op) || op->hasTrait<OpTrait::IsTerminator>() || live.contains(op)) return WalkResult::advance();
      dead.push_back(op);
      return WalkResult::skip();
    });
    for (Operation *op : llvm::reverse(dead)) {
      op->dropAllUses();
      op->erase();
    }
  }

private:
  bool isEffect(Operation *op) {
    if (isa<ReturnOp, PrintOp, AssertOp>(op)) return !op->hasAttr(kGuards);
    auto isLocal = [](Value place) { return findBase(place).getDefiningOp<LocalOp>() != nullptr; };
    return effects.contains(calls.lookup(op)) || !llvm::all_of(listWrittenPlaces(op), isLocal);
  }

  void mark(Operation *op) {
    if (op && !isa<ModuleOp, KernelOp, FuncOp>(op) && live.insert(op).second) pending.push_back(op);
  }

  /// Marks the operations that compute the value: in the function, in callees or in callers.
  void use(Value value) {
    if (auto result = dyn_cast<OpResult>(value)) {
      FuncOp callee = calls.lookup(result.getOwner());
      if (callee && used.insert({callee, ~result.getResultNumber()}).second)
        callee.walk([&](ReturnOp last) { use(last.getValues()[result.getResultNumber()]); });
      return mark(result.getOwner());
    }
    auto argument = cast<BlockArgument>(value);
    Operation *function = argument.getOwner()->getParentOp();
    if (!isa<FuncOp>(function) || !used.insert({function, argument.getArgNumber()}).second) return;
    for (CallOp call : calls.getCalls(function))
      if (live.contains(call)) useOperand(call, argument.getArgNumber());
  }

  void useOperand(CallOp call, unsigned number) {
    Value operand = call.getArguments()[number];
    use(operand);
    if (isa<RefType>(operand.getType())) markWriters(findBase(operand));
  }

  void propagate(Operation *op) {
    mark(op->getParentOp());
    if (auto call = dyn_cast<CallOp>(op)) {
      for (unsigned number = 0; number < call.getArguments().size(); ++number)
        if (isUsed(calls.lookup(call), number)) useOperand(call, number);
      // An unused place cannot be replaced by zero: it stays.
      for (Value operand : call.getArguments())
        if (isa<RefType>(operand.getType())) use(operand);
    } else if (!isa<ReturnOp>(op) || !isa<FuncOp>(op->getParentOp())) {
      for (Value operand : op->getOperands()) use(operand);
    }
    if (auto access = dyn_cast<MemoryAccessOpInterface>(op); access && access.reads()) markWriters(findBase(access.getRef()));
    if (auto number = op->getAttrOfType<IntegerAttr>(kGuarded)) markGuards(op, guards.lookup(number.getInt()));
    for (Region &region : op->getRegions())
      for (Block &block : region) markExits(op, block);
  }

  /// Marks the copies of a check in the blocks around the load, which were copied with it; all copies if none of those is an assertion.
  void markGuards(Operation *load, ArrayRef<Operation *> parts) {
    DenseSet<Block *> around;
    for (Operation *op = load; op; op = op->getParentOp()) around.insert(op->getBlock());
    auto isOwn = [&](Operation *part) { return around.contains(part->getBlock()); };
    bool isKnown = llvm::any_of(parts, [&](Operation *part) { return isa<AssertOp>(part) && isOwn(part); });
    for (Operation *part : parts)
      if (!isKnown || isOwn(part)) mark(part);
  }

  bool isUsed(Operation *function, unsigned number) { return !function || used.contains({function, number}); }

  /// Replaces unused operands of calls and unused returned values by zero, so that the code that computes them is dead.
  void replaceUnused() {
    module.walk([&](Operation *op) {
      auto call = dyn_cast<CallOp>(op);
      bool isResult = isa<ReturnOp>(op) && isa<FuncOp>(op->getParentOp());
      if (!isResult && !(call && live.contains(op))) return;
      Operation *function = isResult ? op->getParentOp() : calls.lookup(call);
      for (OpOperand &operand : op->getOpOperands()) {
        unsigned number = operand.getOperandNumber();
        Type type = operand.get().getType();
        if (isa<RefType>(type) || isUsed(function, isResult ? ~number : number)) continue;
        OpBuilder builder(op);
        bool isReal = isFloatScalar(getScalar(type));
        operand.set(isReal ? makeZero(builder, op->getLoc(), type) : makeInteger(builder, op->getLoc(), type, 0));
        mark(operand.get().getDefiningOp());
      }
    });
  }

  /// Marks the terminators and exits of a live region: conditions, and the breaks of a live loop.
  void markExits(Operation *owner, Block &block) {
    if (auto condition = dyn_cast<ConditionOp>(block.back())) mark(condition);
    if (!isa<ForOp, WhileOp>(owner)) return;
    block.walk<WalkOrder::PreOrder>([&](Operation *inner) {
      if (isa<ForOp, WhileOp>(inner)) return WalkResult::skip();
      if (isa<BreakOp, ContinueOp>(inner)) mark(inner);
      return WalkResult::advance();
    });
  }

  void markWriters(Value local) {
    if (!local.getDefiningOp<LocalOp>() || !written.insert(local).second) return;
    SmallVector<Value> places{local};
    while (!places.empty()) {
      Value place = places.pop_back_val();
      for (Operation *user : place.getUsers()) {
        if (isa<PlaceOpInterface>(user)) places.push_back(user->getResult(0));
        if (!listWrittenPlaces(user).empty() && !user->hasAttr(kGuards)) mark(user);
      }
    }
  }

  ModuleOp module;
  CallGraph calls;
  DenseMap<int64_t, SmallVector<Operation *>> guards; ///< operations of each check, live if the load with its number is
  DenseSet<Operation *> effects;                      ///< functions with effects other than on places among their operands
  DenseSet<Operation *> live;
  DenseSet<std::pair<Operation *, unsigned>> used; ///< function and number of a parameter, or ~number of a result
  DenseSet<Value> written;
  SmallVector<Operation *> pending;
};

} // namespace

void removeDead(ModuleOp module) { Marker(module).run(); }

} // namespace qd::passes
