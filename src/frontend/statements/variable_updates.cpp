// variable_updates.cpp: assignments that are updates, such as `s = s + x` and `if x > s: s = x`
//
// In:   a store to a variable.
// Out:  the operator and the operands of the update, or none.
// Here: expressions are compared structurally, so that `y[i]` may occur in the condition and in the assignment.
#include "frontend/statements/variable_updates.h"

#include "frontend/unused_values.h"
#include "ir/attributes.h"
#include "ir/call_graph.h"
#include "ir/memory.h"

using namespace mlir;

namespace qd::frontend {

using ir::AtomicKind;
using ir::BinaryKind;

namespace {

/// Nesting depth at which the search in expressions ends.
constexpr unsigned kMaxDepth = 64;
/// Nesting depth of calls up to which functions are searched for effects.
constexpr unsigned kMaxCalls = 4;

std::optional<AtomicKind> findUpdateKind(BinaryKind kind) { return ir::findKind<AtomicKind>(ir::getOpInfo(kind).name); }

/// Whether an operation calls a function whose result depends on its arguments and on memory only, and which changes no memory.
bool isReadingCall(Operation *op, unsigned depth = 0) {
  auto call = dyn_cast<ir::CallOp>(op);
  if (!call || depth > kMaxCalls || llvm::any_of(call->getOperandTypes(), llvm::IsaPred<ir::RefType>)) return false;
  auto callee = SymbolTable::lookupNearestSymbolFrom<ir::FuncOp>(op, call.getCalleeAttr());
  return callee && !callee.getBody().empty() && !ir::containsOp(callee, [&](Operation *inner) {
           if (auto access = dyn_cast<ir::MemoryAccessOpInterface>(inner))
             return inner->hasAttr(ir::kVolatile) || (access.writes() && !ir::findBase(access.getRef()).getDefiningOp<ir::LocalOp>());
           return inner != callee && !isPure(inner) && !isa<ir::LocalOp, ir::IfOp, ir::ForOp, ir::YieldOp, ir::ReturnOp>(inner) &&
                  !isReadingCall(inner, depth + 1);
         });
}

/// The value of `a if c else b`, or of `a and b`: a variable that both branches of an `if` set last.
struct BranchResult {
  ir::IfOp branches;
  ir::LoadOp load;
  ir::StoreOp whenTrue, whenFalse;
  explicit operator bool() const { return bool(branches); }
};

BranchResult findBranchResult(mlir::Value value) {
  BranchResult result;
  result.load = value.getDefiningOp<ir::LoadOp>();
  auto local = result.load ? result.load.getRef().getDefiningOp<ir::LocalOp>() : ir::LocalOp();
  if (!local || !llvm::hasNItems(local->getUses(), 3)) return {};
  for (Operation *user : local->getUsers()) {
    auto store = dyn_cast<ir::StoreOp>(user);
    auto branches = store ? dyn_cast<ir::IfOp>(store->getParentOp()) : ir::IfOp();
    if (!branches || branches->getBlock() != local->getBlock() || !isa_and_nonnull<ir::YieldOp>(store->getNextNode())) continue;
    (store->getParentRegion() == &branches.getThenRegion() ? result.whenTrue : result.whenFalse) = store;
  }
  if (!result.whenTrue || !result.whenFalse || result.whenTrue->getParentOp() != result.whenFalse->getParentOp()) return {};
  auto branches = cast<ir::IfOp>(result.whenTrue->getParentOp());
  if (result.load->getBlock() == branches->getBlock() && branches->isBeforeInBlock(result.load)) result.branches = branches;
  return result;
}

/// Whether two expressions have the same value if memory does not change in between. Lists the loads of the first that the second repeats.
bool isSame(mlir::Value first, mlir::Value second, SmallVectorImpl<Operation *> &repeated, unsigned depth = 0) {
  if (first == second) return true;
  if (BranchResult left = findBranchResult(first), right = findBranchResult(second); left && right && depth <= kMaxDepth)
    return isSame(left.branches.getCondition(), right.branches.getCondition(), repeated, depth + 1) &&
           isSame(left.whenTrue.getValue(), right.whenTrue.getValue(), repeated, depth + 1) &&
           isSame(left.whenFalse.getValue(), right.whenFalse.getValue(), repeated, depth + 1);
  Operation *one = first.getDefiningOp(), *other = second.getDefiningOp();
  if (!one || !other || depth > kMaxDepth || one->getName() != other->getName() || one->getAttrDictionary() != other->getAttrDictionary() ||
      one->getNumRegions() != 0 || first.getType() != second.getType() || one->getNumOperands() != other->getNumOperands())
    return false;
  bool isRead = (isa<ir::LoadOp>(one) && !one->hasAttr(ir::kVolatile)) || isReadingCall(one);
  if (!isRead && !isPure(one)) return false;
  if (isRead) repeated.push_back(one);
  for (auto [left, right] : llvm::zip(one->getOperands(), other->getOperands()))
    if (!isSame(left, right, repeated, depth + 1)) return false;
  return true;
}

/// Whether all uses of a value lead to one operation.
bool isOnlyUsedBy(Operation *value, Operation *end) {
  for (Operation *op = value; op != end; op = *op->getUsers().begin())
    if (!op->hasOneUse()) return false;
  return true;
}

/// Whether an operation in a branch has no effect outside of it, as the choice of a value that is stored has.
bool isWithin(Operation *branches, Operation *op) {
  auto store = dyn_cast<ir::StoreOp>(op);
  auto local = store ? store.getRef().getDefiningOp<ir::LocalOp>() : ir::LocalOp();
  return isa<ir::LocalOp, ir::IfOp>(op) || (local && branches->isProperAncestor(local));
}

/// Whether a value decides only whether a store is executed. What else depends on it has no effects.
bool isOnlyCondition(Operation *value, Operation *store) {
  SmallVector<Operation *> pending{value};
  SmallPtrSet<Operation *, 8> seen;
  auto followVariable = [&](Operation *op) {
    auto result = dyn_cast<ir::StoreOp>(op);
    bool isVariable = result && result.getRef().getDefiningOp<ir::LocalOp>() && result.getValue().getType().isInteger(1);
    if (isVariable) llvm::copy_if(result.getRef().getUsers(), std::back_inserter(pending), llvm::IsaPred<ir::LoadOp>);
    return isVariable;
  };
  auto isFree = [&](Operation *op) {
    return isPure(op) || isa<ir::LoadOp, ir::LocalOp, ir::IfOp, ir::YieldOp>(op) || isReadingCall(op) || followVariable(op);
  };
  while (!pending.empty()) {
    Operation *op = pending.pop_back_val();
    if (!seen.insert(op).second) continue;
    if (!isFree(op)) return false;
    pending.append(op->user_begin(), op->user_end());
    if (isa<ir::IfOp>(op) && ir::containsOp(op, [&](Operation *inner) { return inner != store && !isFree(inner) && !isWithin(op, inner); }))
      return false;
  }
  return true;
}

bool isSamePlace(mlir::Value first, mlir::Value second) {
  SmallVector<Operation *> repeated;
  return isSame(first, second, repeated) && repeated.empty();
}

/// Whether a cast between two types is injective and preserves the order of numbers.
bool preservesNumbers(Type from, Type to) {
  unsigned before = from.getIntOrFloatBitWidth(), after = to.getIntOrFloatBitWidth();
  bool isExtended = from.isSignedInteger() == to.isSignedInteger() ? before <= after : from.isUnsignedInteger() && before < after;
  return ir::isFloatScalar(from) ? before <= after : isExtended;
}

/// The operand of a chain of casts to wider integers or floats; with `preservesNumber`, of casts that preserve the number, too.
mlir::Value stripWidening(mlir::Value value, bool preservesNumber) {
  while (auto cast = value.getDefiningOp<ir::CastOp>()) {
    Type from = ir::getScalar(cast.getOperand().getType()), to = ir::getScalar(value.getType());
    bool haveSameClass = !from.isInteger(1) && ir::isFloatScalar(from) == ir::isFloatScalar(to);
    if (!haveSameClass || from.getIntOrFloatBitWidth() > to.getIntOrFloatBitWidth() || (preservesNumber && !preservesNumbers(from, to)))
      break;
    value = cast.getOperand();
  }
  return value;
}

/// The operand of a cast to a narrower type of the same class.
mlir::Value stripNarrowing(mlir::Value value) {
  auto cast = value.getDefiningOp<ir::CastOp>();
  if (!cast) return value;
  Type from = ir::getScalar(cast.getOperand().getType()), to = ir::getScalar(value.getType());
  bool haveSameClass = !to.isInteger(1) && ir::isFloatScalar(from) == ir::isFloatScalar(to);
  return haveSameClass && from.getIntOrFloatBitWidth() >= to.getIntOrFloatBitWidth() ? cast.getOperand() : value;
}

/// Whether nothing from `read` on, up to `end`, changes what it has read. Both may be in branches.
bool isUntouchedUntil(Operation *read, Operation *end) {
  mlir::Value base = isa<ir::LoadOp>(read) ? ir::findBase(read->getOperand(0)) : mlir::Value();
  auto touches = [&](Operation *inner) {
    if (isa<ir::CallOp>(inner) && !isReadingCall(inner) && !(base && base.getDefiningOp<ir::LocalOp>())) return true;
    return llvm::any_of(ir::listWrittenPlaces(inner), [&](mlir::Value place) {
      mlir::Value written = ir::findBase(place);
      return written == base || (!written.getDefiningOp<ir::LocalOp>() && !(base && base.getDefiningOp<ir::LocalOp>()));
    });
  };
  auto areUntouched = [&](Operation *first, Operation *stop) {
    for (Operation *op = first; op && op != stop; op = op->getNextNode())
      if (ir::containsOp(op, touches)) return false;
    return true;
  };
  for (Operation *op = read;; op = op->getParentOp()) {
    Operation *stop = op->getBlock()->findAncestorOpInBlock(*end);
    if (!areUntouched(op->getNextNode(), stop)) return false;
    for (; stop && end != stop; end = end->getParentOp())
      if (!isa<ir::IfOp>(end->getParentOp()) || !areUntouched(&end->getBlock()->front(), end)) return false;
    if (stop) return true;
    if (!isa<ir::IfOp>(op->getParentOp())) return false;
  }
}

class UpdateMatcher {
public:
  explicit UpdateMatcher(ir::StoreOp store) : store(store) { update.store = store; }

  std::optional<Update> match() {
    bool isFound = matchOperation() || matchChoice() || matchBranch();
    isFound = isFound && llvm::all_of(update.reads, [&](ir::LoadOp read) { return isUntouchedUntil(read, store); });
    return isFound ? std::optional(std::move(update)) : std::nullopt;
  }

private:
  /// The load of the variable behind widening casts. `preservesNumber`: only through casts that preserve it, as extrema need.
  ir::LoadOp findRead(mlir::Value value, bool preservesNumber = true) {
    auto load = stripWidening(value, preservesNumber).getDefiningOp<ir::LoadOp>();
    return load && isSamePlace(load.getRef(), store.getRef()) ? load : ir::LoadOp();
  }

  void restart() {
    update.reads.clear();
    update.terms.clear();
    update.comparison.reset();
  }

  /// `s op x`, `x op s`, and longer chains of one operator.
  bool matchOperation() {
    restart();
    mlir::Value value = stripNarrowing(store.getValue());
    auto last = value.getDefiningOp<ir::BinaryOp>();
    std::optional<AtomicKind> kind = last ? findUpdateKind(last.getBinaryKind()) : std::nullopt;
    if (!kind) return false;
    update.kind = ir::getCombination(*kind);
    // A narrowing cast does not commute with extrema of integers.
    bool isExact =
        !isExtremum(update.kind) || ir::isFloatScalar(ir::getScalar(value.getType())) || value.getType() == store.getValue().getType();
    return isExact && descend(value, 0);
  }

  bool descend(mlir::Value value, unsigned depth) {
    bool preservesNumber = isExtremum(update.kind);
    if (ir::LoadOp read = findRead(value, preservesNumber)) {
      update.reads.push_back(read);
      return true;
    }
    auto step = stripWidening(value, preservesNumber).getDefiningOp<ir::BinaryOp>();
    std::optional<AtomicKind> kind = step ? findUpdateKind(step.getBinaryKind()) : std::nullopt;
    if (!kind || ir::getCombination(*kind) != update.kind || depth > kMaxDepth) return false;
    size_t count = update.terms.size();
    if (descend(step.getLhs(), depth + 1)) {
      update.terms.emplace_back(step.getRhs(), *kind == AtomicKind::sub);
      return true;
    }
    update.terms.truncate(count);
    if (*kind == AtomicKind::sub || !descend(step.getRhs(), depth + 1)) return false;
    update.terms.emplace_back(step.getLhs(), false);
    return true;
  }

  /// The operand that `condition` compares with the variable, if storing it where the condition holds (`isNegated`: fails) makes an
  /// extremum.
  mlir::Value matchComparison(mlir::Value condition, bool isNegated) {
    auto compare = condition.getDefiningOp<ir::BinaryOp>();
    if (!compare) return {};
    BinaryKind kind = compare.getBinaryKind();
    bool isLess = kind == BinaryKind::lt || kind == BinaryKind::le, isGreater = kind == BinaryKind::gt || kind == BinaryKind::ge;
    ir::LoadOp left = findRead(compare.getLhs()), right = findRead(compare.getRhs());
    if ((!isLess && !isGreater) || bool(left) == bool(right)) return {};
    update.reads.push_back(left ? left : right);
    update.kind = (isGreater == bool(right)) != isNegated ? AtomicKind::max : AtomicKind::min;
    update.comparison = Comparison{.kind = kind, .isVariableFirst = bool(left), .storesWhereFalse = isNegated};
    return left ? compare.getRhs() : compare.getLhs();
  }

  /// Whether the stored value is the compared value: the same value, the same number in another type, or the rounded number. Rounding
  /// preserves the order of numbers, wrapping does not.
  bool isStored(mlir::Value compared, mlir::Value stored) {
    Type scalar = ir::getScalar(store.getValue().getType());
    mlir::Value number = stripWidening(compared, /*preservesNumber=*/true);
    std::pair<mlir::Value, mlir::Value> pairs[] = {{compared, stored}, {number, stripWidening(stored, /*preservesNumber=*/true)}, {}};
    if (ir::isFloatScalar(scalar)) pairs[2] = {number, stripWidening(stripNarrowing(stored), /*preservesNumber=*/true)};
    for (auto [first, second] : pairs) {
      SmallVector<Operation *> repeated;
      if (!first || !isSame(first, second, repeated)) continue;
      if (!ir::isFloatScalar(scalar) && !preservesNumbers(ir::getScalar(first.getType()), scalar)) continue;
      update.terms.emplace_back(first, false);
      return llvm::all_of(repeated, [&](Operation *read) { return isUntouchedUntil(read, store); });
    }
    return false;
  }

  /// `select(x > s, x, s)`, `x if x > s else s`.
  bool matchChoice() {
    restart();
    auto select = stripNarrowing(store.getValue()).getDefiningOp<ir::SelectOp>();
    if (!select) return false;
    ir::LoadOp first = findRead(select.getTrueValue()), second = findRead(select.getFalseValue());
    if (bool(first) == bool(second)) return false;
    mlir::Value compared = matchComparison(select.getCondition(), /*isNegated=*/bool(first));
    update.reads.push_back(first ? first : second);
    return compared && isStored(compared, first ? select.getFalseValue() : select.getTrueValue());
  }

  /// `if x > s: s = x`, where other conditions may have to hold too.
  bool matchBranch() {
    Operation *inner = store;
    while (auto branches = dyn_cast<ir::IfOp>(inner->getParentOp())) {
      bool isElse = inner->getParentRegion() == &branches.getElseRegion();
      if (matchCondition(branches, branches.getCondition(), isElse)) return true;
      inner = branches;
    }
    return false;
  }

  /// Whether a condition on which the store depends, or one of those that have to hold for it, makes it an extremum.
  bool matchCondition(ir::IfOp branches, mlir::Value condition, bool isNegated, unsigned depth = 0) {
    if (auto inverse = condition.getDefiningOp<ir::UnaryOp>(); inverse && inverse.getUnaryKind() == ir::UnaryKind::logical_not)
      return depth < kMaxDepth && matchCondition(branches, inverse.getOperand(), !isNegated, depth + 1);
    restart();
    mlir::Value compared = matchComparison(condition, isNegated);
    if (compared && isStored(compared, store.getValue())) {
      bool isWhole = isOnlyUsedBy(update.reads[0], branches) && isAlone(branches);
      update.branches = isWhole ? branches.getOperation() : nullptr;
      update.comparison->isGuarded = !isWhole;
      if (!isWhole) update.terms[0].first = store.getValue();
      return true;
    }
    auto [first, second] = isNegated ? splitChoice(condition, /*isEither=*/true) : splitChoice(condition, /*isEither=*/false);
    return first && depth < kMaxDepth &&
           (matchCondition(branches, first, isNegated, depth + 1) || matchCondition(branches, second, isNegated, depth + 1));
  }

  /// Whether an `if` does nothing but the store.
  bool isAlone(ir::IfOp branches) {
    return store->getParentOp() == branches && !ir::containsOp(branches, [&](Operation *op) {
             return op != branches && op != store && !isPure(op) && !isa<ir::LoadOp, ir::YieldOp>(op) && !isReadingCall(op) &&
                    !isWithin(branches, op);
           });
  }

  /// The operands of `a and b`, or with `isEither` of `a or b`. Where `b` has loads, the result is a variable.
  static std::pair<mlir::Value, mlir::Value> splitChoice(mlir::Value value, bool isEither) {
    mlir::Value condition, whenTrue, whenFalse;
    if (auto select = value.getDefiningOp<ir::SelectOp>()) {
      condition = select.getCondition(), whenTrue = select.getTrueValue(), whenFalse = select.getFalseValue();
    } else if (BranchResult result = findBranchResult(value)) {
      condition = result.branches.getCondition(), whenTrue = result.whenTrue.getValue(), whenFalse = result.whenFalse.getValue();
    }
    if (!condition || condition != (isEither ? whenTrue : whenFalse)) return {};
    return {condition, isEither ? whenFalse : whenTrue};
  }

  ir::StoreOp store;
  Update update;
};

} // namespace

bool Update::isOnlyUserOf(ir::LoadOp read) const {
  return comparison && comparison->isGuarded ? isOnlyCondition(read, store) : isOnlyUsedBy(read, branches ? branches : store);
}

std::optional<Update> matchUpdate(ir::StoreOp store) { return UpdateMatcher(store).match(); }

bool moveIntoBranches(ir::StoreOp store) {
  mlir::Value place = store.getRef();
  auto read = store.getValue().getDefiningOp<ir::LoadOp>();
  if (read && isSamePlace(read.getRef(), place) && isUntouchedUntil(read, store)) {
    UnusedEraser eraser(store->getParentOp());
    eraser.add(store.getValue());
    store.erase();
    eraser.run();
    return true;
  }
  SmallVector<ir::CastOp> casts;
  mlir::Value value = store.getValue();
  for (; auto cast = value.getDefiningOp<ir::CastOp>(); value = cast.getOperand()) casts.push_back(cast);
  OpBuilder builder(store);
  auto assign = [&](mlir::Value part) {
    for (ir::CastOp cast : llvm::reverse(casts))
      part = ir::CastOp::create(builder, cast.getLoc(), ir::withScalar(part.getType(), ir::getScalar(cast.getType())), part);
    auto moved = ir::StoreOp::create(builder, store.getLoc(), part, place);
    if (!matchUpdate(moved)) moveIntoBranches(moved);
  };
  if (auto select = value.getDefiningOp<ir::SelectOp>(); select && select.getCondition().getType().isInteger(1)) {
    auto branches = ir::IfOp::create(builder, store.getLoc(), select.getCondition());
    for (bool isElse : {false, true}) {
      builder.setInsertionPointToStart(&(isElse ? branches.getElseRegion() : branches.getThenRegion()).emplaceBlock());
      ir::YieldOp::create(builder, store.getLoc());
      builder.setInsertionPoint(builder.getBlock()->getTerminator());
      assign(isElse ? select.getFalseValue() : select.getTrueValue());
    }
  } else if (BranchResult result = findBranchResult(value); result && result.branches->getBlock() == store->getBlock()) {
    // The place may be computed after the choice.
    SmallPtrSet<Operation *, 4> dependent{result.load};
    for (Operation *op = result.branches->getNextNode(), *next; op != store; op = next) {
      next = op->getNextNode();
      if (op == result.load) continue;
      if (!isPure(op)) return false;
      bool isDependent = llvm::any_of(op->getOperands(), [&](mlir::Value operand) { return dependent.contains(operand.getDefiningOp()); });
      if (isDependent)
        dependent.insert(op);
      else
        op->moveBefore(result.branches);
    }
    if (dependent.contains(place.getDefiningOp())) return false;
    for (ir::StoreOp part : {result.whenTrue, result.whenFalse}) {
      builder.setInsertionPoint(part);
      assign(part.getValue());
    }
  } else {
    return false;
  }
  UnusedEraser eraser(store->getParentOp());
  eraser.add(store.getValue());
  store.erase();
  eraser.run();
  return true;
}

} // namespace qd::frontend
