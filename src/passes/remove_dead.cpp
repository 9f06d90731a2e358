// remove_dead.cpp: mark what effects depend on, sweep the rest
//
// A local counts as a whole, wherever in the function it is read or written. LLVM does better on each single value; what it cannot do is to
// drop an array that a loop fills for another loop which then needs nothing of it. Calls are seen through: an operand is live when a live
// operation of the function uses the parameter, a returned value when some live operation uses what a call gives.
#include "passes/remove_dead.h"

#include "ir/attributes.h"
#include "ir/dialect.h"
#include "passes/activity.h"
#include "passes/derivatives.h"

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

namespace {

class Marker {
public:
  explicit Marker(ModuleOp module) : module(module) {
    for (FuncOp function : module.getOps<FuncOp>()) functions[function.getSymName()] = function;
    module.walk([&](Operation *op) {
      if (auto call = dyn_cast<CallOp>(op)) calls[lookup(call)].push_back(call);
      if (auto number = op->getAttrOfType<IntegerAttr>(kGuards)) guards[number.getInt()].push_back(op);
    });
  }

  void run() {
    module.walk([&](Operation *op) {
      if (isEffect(op)) mark(op);
    });
    while (!pending.empty()) follow(pending.pop_back_val());
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
    if (isa<StoreOp, AtomicOp, CompareExchangeOp>(op)) return !isLocal(getPlace(op));
    auto call = dyn_cast<CallOp>(op);
    return call && (hasEffects(lookup(call)) ||
                    llvm::any_of(call.getArguments(), [](Value operand) { return isa<RefType>(operand.getType()) && !isLocal(operand); }));
  }

  FuncOp lookup(CallOp call) { return functions.lookup(call.getCallee()); }
  static Value getPlace(Operation *op) { return op->getOperand(isa<StoreOp>(op) ? 1 : 0); }
  static bool isLocal(Value place) { return findOrigin(place).getDefiningOp<LocalOp>() != nullptr; }

  /// Whether a call does something even if nobody uses what it gives back. Of places that it is handed its caller knows.
  bool hasEffects(FuncOp function) {
    if (!function) return true;
    auto [entry, isNew] = effects.try_emplace(function, false);
    if (!isNew) return entry->second;
    bool found = function
                     .walk([&](Operation *op) {
                       bool isOne = isa<PrintOp, AssertOp>(op);
                       if (isa<StoreOp, AtomicOp, CompareExchangeOp>(op)) isOne = isOfContainer(getPlace(op));
                       if (auto call = dyn_cast<CallOp>(op)) isOne = hasEffects(lookup(call));
                       return isOne ? WalkResult::interrupt() : WalkResult::advance();
                     })
                     .wasInterrupted();
    return effects[function] = found;
  }

  void mark(Operation *op) {
    if (op && !isa<ModuleOp, KernelOp, FuncOp>(op) && live.insert(op).second) pending.push_back(op);
  }

  /// Marks what gives the value, wherever that is.
  void use(Value value) {
    if (auto result = dyn_cast<OpResult>(value)) {
      auto call = dyn_cast<CallOp>(result.getOwner());
      FuncOp callee = call ? lookup(call) : FuncOp();
      if (callee && used.insert({callee, ~result.getResultNumber()}).second)
        callee.walk([&](ReturnOp last) { use(last.getValues()[result.getResultNumber()]); });
      return mark(result.getOwner());
    }
    auto argument = cast<BlockArgument>(value);
    Operation *function = argument.getOwner()->getParentOp();
    if (!isa<FuncOp>(function) || !used.insert({function, argument.getArgNumber()}).second) return;
    for (CallOp call : calls[function])
      if (live.contains(call)) useOperand(call, argument.getArgNumber());
  }

  void useOperand(CallOp call, unsigned number) {
    Value operand = call.getArguments()[number];
    use(operand);
    if (isa<RefType>(operand.getType())) markWriters(findOrigin(operand));
  }

  void follow(Operation *op) {
    mark(op->getParentOp());
    if (auto call = dyn_cast<CallOp>(op)) {
      for (unsigned number = 0; number < call.getArguments().size(); ++number)
        if (isUsed(lookup(call), number)) useOperand(call, number);
      // Places have no stand-in.
      for (Value operand : call.getArguments())
        if (isa<RefType>(operand.getType())) use(operand);
    } else if (!isa<ReturnOp>(op) || !isa<FuncOp>(op->getParentOp())) {
      for (Value operand : op->getOperands()) use(operand);
    }
    if (auto load = dyn_cast<LoadOp>(op)) markWriters(findOrigin(load.getRef()));
    if (auto number = op->getAttrOfType<IntegerAttr>(kGuarded)) markGuards(op, guards.lookup(number.getInt()));
    if (auto atomic = dyn_cast<AtomicOp>(op)) markWriters(findOrigin(atomic.getRef()));
    for (Region &region : op->getRegions())
      for (Block &block : region) markExits(op, block);
  }

  /// Of the copies of a check those that stand in blocks around the load, which were copied with it; all if no assertion does.
  void markGuards(Operation *load, ArrayRef<Operation *> parts) {
    DenseSet<Block *> around;
    for (Operation *op = load; op; op = op->getParentOp()) around.insert(op->getBlock());
    auto isOwn = [&](Operation *part) { return around.contains(part->getBlock()); };
    bool isKnown = llvm::any_of(parts, [&](Operation *part) { return isa<AssertOp>(part) && isOwn(part); });
    for (Operation *part : parts)
      if (!isKnown || isOwn(part)) mark(part);
  }

  bool isUsed(Operation *function, unsigned number) { return !function || used.contains({function, number}); }

  /// Operands of calls that nobody looks at, and returned values, become zeros, so that what computes them can go.
  void replaceUnused() {
    module.walk([&](Operation *op) {
      auto call = dyn_cast<CallOp>(op);
      bool isResult = isa<ReturnOp>(op) && isa<FuncOp>(op->getParentOp());
      if (!isResult && !(call && live.contains(op))) return;
      Operation *function = isResult ? op->getParentOp() : lookup(call);
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

  /// What a live region ends with, and how a live loop is left.
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
        if (isa<ComponentOp>(user)) places.push_back(user->getResult(0));
        if (isa<StoreOp, AtomicOp, CompareExchangeOp, CallOp>(user) && !user->hasAttr(kGuards)) mark(user);
      }
    }
  }

  ModuleOp module;
  llvm::StringMap<FuncOp> functions;
  DenseMap<Operation *, SmallVector<CallOp>> calls;   ///< of each function
  DenseMap<int64_t, SmallVector<Operation *>> guards; ///< parts of checks, live where the load with their number is
  DenseMap<Operation *, bool> effects;
  DenseSet<Operation *> live;
  DenseSet<std::pair<Operation *, unsigned>> used; ///< function and number of a parameter, or ~number of a result
  DenseSet<Value> written;
  SmallVector<Operation *> pending;
};

} // namespace

void removeDead(ModuleOp module) { Marker(module).run(); }

} // namespace qd::passes
