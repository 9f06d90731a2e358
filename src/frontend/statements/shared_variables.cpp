// shared_variables.cpp: variables from outside of a parallel loop that its iterations update
//
// In:   a parallel loop, complete, and the variables that are declared before it.
// Out:  atomic updates in place of reads and writes; a warning, or a serial loop, where that is impossible.
// Here: `s = s + x`, `s = max(s, x)` and `if x > s: s = x` become atomic updates like `s += x` if the loop does nothing else with the
//       variable. The result of any other read and write depends on the unspecified order of the iterations, so there is a warning. In a
//       derived kernel such loops are serial, and so are loops with updates whose adjoints need the intermediate values.
#include "frontend/statements/loops.h"
#include "frontend/unused_values.h"
#include "ir/attributes.h"
#include "ir/call_graph.h"
#include "ir/memory.h"

#include "llvm/ADT/MapVector.h"

#include <map>

using namespace mlir;

namespace qd::frontend {

using ir::AtomicKind;
using ir::BinaryKind;

namespace {

/// Nesting depth at which the search in expressions ends.
constexpr unsigned kMaxDepth = 64;

std::optional<AtomicKind> findUpdateKind(BinaryKind kind) { return ir::findKind<AtomicKind>(ir::getOpInfo(kind).name); }

bool isExtremum(AtomicKind kind) { return kind == AtomicKind::min || kind == AtomicKind::max; }

/// Whether two expressions have the same value if memory does not change in between. Lists the loads of the first that the second repeats.
bool isSame(mlir::Value first, mlir::Value second, SmallVectorImpl<Operation *> &repeated, unsigned depth = 0) {
  if (first == second) return true;
  Operation *one = first.getDefiningOp(), *other = second.getDefiningOp();
  if (!one || !other || depth > kMaxDepth || one->getName() != other->getName() || one->getAttrDictionary() != other->getAttrDictionary() ||
      one->getNumRegions() != 0 || first.getType() != second.getType() || one->getNumOperands() != other->getNumOperands())
    return false;
  bool isLoad = isa<ir::LoadOp>(one) && !one->hasAttr(ir::kVolatile);
  if (!isLoad && !isPure(one)) return false;
  if (isLoad) repeated.push_back(one);
  for (auto [left, right] : llvm::zip(one->getOperands(), other->getOperands()))
    if (!isSame(left, right, repeated, depth + 1)) return false;
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

/// An update that is written as a read, a computation and a write.
struct Update {
  Operation *store = nullptr;
  Operation *branches = nullptr; ///< the `if` that the update replaces as a whole, or null
  AtomicKind kind = AtomicKind::add;
  SmallVector<std::pair<mlir::Value, bool>> terms; ///< terms that are combined; true: subtracted
  SmallVector<ir::LoadOp, 2> reads;                ///< of the variable
};

class UpdateMatcher {
public:
  explicit UpdateMatcher(ir::StoreOp store) : store(store) { update.store = store; }

  std::optional<Update> match() {
    bool isFound = matchOperation() || matchChoice() || matchBranch();
    Operation *end = update.branches ? update.branches : store;
    isFound =
        isFound && llvm::all_of(update.reads, [&](ir::LoadOp read) { return isUntouchedUntil(read, end, ir::findBase(store.getRef())); });
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

  /// The operand that `condition` compares with the variable, if storing it where the condition holds makes an extremum.
  mlir::Value matchComparison(mlir::Value condition) {
    auto compare = condition.getDefiningOp<ir::BinaryOp>();
    if (!compare) return {};
    BinaryKind kind = compare.getBinaryKind();
    bool isLess = kind == BinaryKind::lt || kind == BinaryKind::le, isGreater = kind == BinaryKind::gt || kind == BinaryKind::ge;
    ir::LoadOp left = findRead(compare.getLhs()), right = findRead(compare.getRhs());
    if ((!isLess && !isGreater) || bool(left) == bool(right)) return {};
    update.reads.push_back(left ? left : right);
    update.kind = isGreater == bool(right) ? AtomicKind::max : AtomicKind::min;
    return left ? compare.getRhs() : compare.getLhs();
  }

  /// Whether the stored value is the compared value: the same value, the same number in another type, or the rounded number. Rounding
  /// preserves the order of numbers, wrapping does not.
  bool isStored(mlir::Value compared, mlir::Value stored, Operation *end) {
    Type scalar = ir::getScalar(store.getValue().getType());
    mlir::Value number = stripWidening(compared, /*preservesNumber=*/true);
    std::pair<mlir::Value, mlir::Value> pairs[] = {{compared, stored}, {number, stripWidening(stored, /*preservesNumber=*/true)}, {}};
    if (ir::isFloatScalar(scalar)) pairs[2] = {number, stripWidening(stripNarrowing(stored), /*preservesNumber=*/true)};
    for (auto [first, second] : pairs) {
      SmallVector<Operation *> repeated;
      if (!first || !isSame(first, second, repeated)) continue;
      if (!ir::isFloatScalar(scalar) && !preservesNumbers(ir::getScalar(first.getType()), scalar)) continue;
      update.terms.emplace_back(first, false);
      return llvm::all_of(repeated, [&](Operation *load) { return isUntouchedUntil(load, end, {}); });
    }
    return false;
  }

  /// `select(x > s, x, s)`, `x if x > s else s`.
  bool matchChoice() {
    restart();
    auto select = stripNarrowing(store.getValue()).getDefiningOp<ir::SelectOp>();
    if (!select) return false;
    mlir::Value compared = matchComparison(select.getCondition());
    ir::LoadOp first = findRead(select.getTrueValue()), second = findRead(select.getFalseValue());
    if (!compared || bool(first) == bool(second)) return false;
    update.reads.push_back(first ? first : second);
    if (first) update.kind = update.kind == AtomicKind::max ? AtomicKind::min : AtomicKind::max;
    return isStored(compared, first ? select.getFalseValue() : select.getTrueValue(), store);
  }

  /// `if x > s: s = x`.
  bool matchBranch() {
    restart();
    auto branches = dyn_cast<ir::IfOp>(store->getParentOp());
    if (!branches || store->getParentRegion() != &branches.getThenRegion() || !branches.getCondition().hasOneUse()) return false;
    Region &other = branches.getElseRegion();
    if (!other.empty() && !llvm::all_of(other.front(), llvm::IsaPred<ir::YieldOp>)) return false;
    for (Operation &op : *store->getBlock())
      if (&op != store && !isPure(&op) && !isa<ir::LoadOp, ir::YieldOp>(op)) return false;
    update.branches = branches;
    mlir::Value compared = matchComparison(branches.getCondition());
    return compared && isStored(compared, store.getValue(), branches);
  }

  /// Whether both are in one block and no operation between them changes `base` (null: any memory).
  static bool isUntouchedUntil(Operation *read, Operation *end, mlir::Value base) {
    if (read->getBlock() != end->getBlock()) return false;
    for (Operation *op = read->getNextNode(); op && op != end; op = op->getNextNode()) {
      auto touches = [&](Operation *inner) {
        auto isOfBase = [&](mlir::Value place) { return !base || ir::findBase(place) == base; };
        return (!base && isa<ir::CallOp>(inner)) || llvm::any_of(ir::listWrittenPlaces(inner), isOfBase);
      };
      if (ir::containsOp(op, touches)) return false;
    }
    return true;
  }

  ir::StoreOp store;
  Update update;
};

/// The accesses of a loop to one variable.
struct Accesses {
  SmallVector<ir::LoadOp> reads;
  SmallVector<ir::StoreOp> writes;
  SmallVector<ir::AtomicOp> atomics;
  bool isExchanged = false;

  /// The operation at which a warning is located.
  Operation *getCulprit() { return writes.empty() ? atomics[0].getOperation() : writes[0].getOperation(); }
  bool areUpdates() {
    return llvm::all_of(atomics, [](ir::AtomicOp op) { return op->use_empty() && op.getAtomicKind() != AtomicKind::exchange; });
  }
};

class LoopVariables {
public:
  LoopVariables(ir::ForOp loop, ModuleOp module) : loop(loop), kernel(loop->getParentOfType<ir::KernelOp>()), module(module) {
    collect(loop, DenseMap<mlir::Value, mlir::Value>());
  }

  /// Replaces accesses by atomic updates where possible. Returns the variables, with the culprits, whose values depend on the order of the
  /// iterations. In a derived kernel with such a variable nothing is replaced.
  SmallVector<std::pair<mlir::Value, Operation *>> run(bool isDerived) {
    SmallVector<std::pair<mlir::Value, Operation *>> orderDependent;
    SmallVector<Update> updates;
    for (auto &[variable, all] : variables) {
      bool isFloat = ir::isFloatScalar(ir::getScalar(cast<ir::RefType>(variable.getType()).getPointee()));
      for (Accesses &accesses : splitByComponent(all)) {
        std::optional<SmallVector<Update>> found = findUpdates(accesses, isDerived && isFloat);
        if (found) {
          updates.append(std::move(*found));
          continue;
        }
        orderDependent.emplace_back(variable, accesses.getCulprit());
        break;
      }
    }
    if (isDerived && !orderDependent.empty()) return orderDependent;
    for (const Update &update : updates)
      if (applied.insert(update.store).second) apply(update);
    return orderDependent;
  }

  bool isReadBetweenUpdates(mlir::Value variable) {
    const Accesses &accesses = variables[variable];
    return !accesses.reads.empty() && !accesses.atomics.empty();
  }

private:
  /// The accesses to each component of a vector if all components are known; else all accesses together.
  static SmallVector<Accesses> splitByComponent(Accesses &all) {
    std::map<std::vector<int64_t>, Accesses> parts;
    auto find = [&](ir::MemoryAccessOpInterface op) -> Accesses * {
      auto component = op.getRef().getDefiningOp<ir::ComponentOp>();
      std::vector<int64_t> key;
      for (mlir::Value index : component ? mlir::ValueRange(component.getIndices()) : mlir::ValueRange())
        if (std::optional<int64_t> known = ir::findInteger(index)) key.push_back(*known);
      return component && key.size() == component.getIndices().size() ? &parts[key] : nullptr;
    };
    auto sort = [&](auto &ops, auto member) {
      return llvm::all_of(ops, [&](auto op) {
        Accesses *part = find(op);
        if (part) (part->*member).push_back(op);
        return part != nullptr;
      });
    };
    bool areKnown = !all.isExchanged && sort(all.reads, &Accesses::reads) && sort(all.writes, &Accesses::writes) &&
                    sort(all.atomics, &Accesses::atomics);
    if (!areKnown) return {all};
    SmallVector<Accesses> result;
    for (auto &[key, part] : parts) result.push_back(std::move(part));
    return result;
  }

  mlir::Value findVariable(mlir::Value place, const DenseMap<mlir::Value, mlir::Value> &passed) {
    mlir::Value base = ir::findBase(place);
    if (isa<BlockArgument>(base)) return passed.lookup(base);
    auto local = base.getDefiningOp<ir::LocalOp>();
    bool isOuter = local && !loop->isProperAncestor(local) && local->getParentOfType<ir::KernelOp>() == kernel;
    return isOuter ? base : mlir::Value();
  }

  void collect(Operation *inside, const DenseMap<mlir::Value, mlir::Value> &passed) {
    inside->walk([&](Operation *op) {
      if (auto call = dyn_cast<ir::CallOp>(op)) return enter(call, passed);
      auto access = dyn_cast<ir::MemoryAccessOpInterface>(op);
      if (!access || op->hasAttr(ir::kVolatile)) return;
      mlir::Value variable = findVariable(access.getRef(), passed);
      if (!variable) return;
      Accesses &accesses = variables[variable];
      if (auto load = dyn_cast<ir::LoadOp>(op)) accesses.reads.push_back(load);
      if (auto store = dyn_cast<ir::StoreOp>(op)) accesses.writes.push_back(store);
      if (auto atomic = dyn_cast<ir::AtomicOp>(op)) accesses.atomics.push_back(atomic);
      accesses.isExchanged |= access.isExchange();
    });
  }

  void enter(ir::CallOp call, const DenseMap<mlir::Value, mlir::Value> &passed) {
    SmallVector<mlir::Value> given;
    std::vector<const void *> key;
    for (mlir::Value operand : call.getArguments()) {
      given.push_back(isa<ir::RefType>(operand.getType()) ? findVariable(operand, passed) : mlir::Value());
      key.push_back(given.back().getAsOpaquePointer());
    }
    if (llvm::none_of(given, [](mlir::Value variable) { return bool(variable); })) return;
    auto callee = module.lookupSymbol<ir::FuncOp>(call.getCallee());
    key.push_back(callee);
    if (!callee || callee.getBody().empty() || !entered.insert(key).second) return;
    DenseMap<mlir::Value, mlir::Value> inner;
    for (auto [parameter, variable] : llvm::zip(callee.getBody().getArguments(), given))
      if (variable) inner[parameter] = variable;
    collect(callee, inner);
  }

  /// The writes of a variable as atomic updates, empty if there is nothing to replace; none if its value depends on the order.
  std::optional<SmallVector<Update>> findUpdates(Accesses &accesses, bool onlySums) {
    SmallVector<Update> updates;
    SmallPtrSet<Operation *, 8> known;
    bool isWritten = !accesses.writes.empty() || !accesses.atomics.empty();
    if (!isWritten || accesses.isExchanged || !accesses.areUpdates()) return updates; // exchanges are taken to be intended
    std::optional<AtomicKind> kind;
    auto fits = [&](AtomicKind other) {
      if (!kind) kind = ir::getCombination(other);
      return *kind == ir::getCombination(other) && (!onlySums || *kind == AtomicKind::add);
    };
    for (ir::AtomicOp atomic : accesses.atomics)
      if (!fits(atomic.getAtomicKind())) return std::nullopt;
    bool isOnlyWritten = accesses.reads.empty() && accesses.atomics.empty();
    if (isOnlyWritten) return updates;
    for (ir::StoreOp store : accesses.writes) {
      std::optional<Update> update = UpdateMatcher(store).match();
      if (!update || !fits(update->kind)) return std::nullopt;
      for (ir::LoadOp read : update->reads)
        if (isUsedOnlyBy(read, *update)) known.insert(read);
      updates.push_back(std::move(*update));
    }
    bool areKnown = llvm::all_of(accesses.reads, [&](ir::LoadOp read) { return read->use_empty() || known.contains(read); });
    return areKnown ? std::optional(std::move(updates)) : std::nullopt;
  }

  /// Whether the update is the only use of the loaded value and of all values computed from it.
  static bool isUsedOnlyBy(Operation *read, const Update &update) {
    for (Operation *op = read; op != update.store && op != update.branches; op = *op->getUsers().begin())
      if (!op->hasOneUse()) return false;
    return true;
  }

  void apply(const Update &update) {
    auto store = cast<ir::StoreOp>(update.store);
    Type type = store.getValue().getType(), scalar = ir::getScalar(type);
    OpBuilder builder(update.branches ? update.branches : update.store);
    Location loc = store.getLoc();
    auto converted = [&](mlir::Value value) -> mlir::Value {
      if (ir::getScalar(value.getType()) == scalar) return value;
      return ir::CastOp::create(builder, loc, ir::withScalar(value.getType(), scalar), value);
    };
    AtomicKind kind = update.terms.size() == 1 && update.terms[0].second ? AtomicKind::sub : update.kind;
    mlir::Value whole;
    for (auto [term, isSubtracted] : update.terms) {
      mlir::Value part = converted(term);
      if (isSubtracted && kind != AtomicKind::sub) part = ir::UnaryOp::create(builder, loc, ir::UnaryKind::neg, part);
      BinaryKind combine = *ir::findKind<BinaryKind>(ir::getOpInfo(update.kind).name);
      whole = whole ? ir::BinaryOp::create(builder, loc, combine, whole, part) : part;
    }
    Operation *replaced = update.branches ? update.branches : update.store;
    ir::AtomicOp::create(builder, loc, kind, update.branches ? update.reads[0]->getOperand(0) : store.getRef(), whole);
    UnusedEraser eraser(replaced->getParentOp());
    eraser.add(replaced->getOperand(0)); // the condition or the stored value
    replaced->erase();
    eraser.run();
  }

  ir::ForOp loop;
  ir::KernelOp kernel;
  ModuleOp module;
  llvm::MapVector<mlir::Value, Accesses> variables;
  std::set<std::vector<const void *>> entered; ///< callees with the variables that are passed to them
  SmallPtrSet<Operation *, 8> applied;
};

bool runsOnce(ir::ForOp loop) {
  for (auto [lower, upper] : llvm::zip(loop.getLower(), loop.getUpper())) {
    std::optional<int64_t> first = ir::findInteger(lower), last = ir::findInteger(upper);
    if (!first || !last || *first == INT64_MAX || *last > *first + 1) return false;
  }
  return true;
}

} // namespace

void materializeSharedVariables(FunctionContext &context, ir::ForOp loop) {
  Session &session = context.session;
  session.dropUnchecked(loop);
  bool isDerived = session.request.mode != support::AutodiffMode::None;
  if (runsOnce(loop)) return;
  LoopVariables variables(loop, *session.module);
  auto orderDependent = variables.run(isDerived);
  if (isDerived) {
    // A value that an iteration reads between the updates of others has no derivative in any order; a pass reports it later.
    bool isReadBetween = llvm::any_of(orderDependent, [&](const auto &found) { return variables.isReadBetweenUpdates(found.first); });
    if (!orderDependent.empty() && !ir::containsOp(loop, ir::isOfBlock) && !isReadBetween) loop.setParallel(false);
    return;
  }
  for (auto [variable, culprit] : orderDependent) {
    std::string name = "a variable";
    for (const FunctionContext *at = &context; at; at = at->caller)
      if (PyObject *found = at->scopes.findName(variable)) name = "'" + toText(found).str() + "'";
    auto range = culprit->getLoc()->findInstanceOf<FileLineColRange>();
    session.warnAt(
        range.getFilename().getValue(), range.getStartLine(),
        "iterations of a parallel loop read and write " + name +
            ", which is declared outside of it: what they find there depends on their order. Declare it in the loop, update it in "
            "one way only (x += y, x = max(x, y)), or put qd.loop_config(serialize=True) in front of the loop",
        PyExc_UserWarning);
  }
}

} // namespace qd::frontend
