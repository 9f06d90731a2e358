// shared_variables.cpp: variables from outside of a parallel loop that its iterations update
//
// In:   a parallel loop, complete, and the variables that are declared before it.
// Out:  atomic updates in place of reads and writes; a warning, or a serial loop, where that is impossible.
// Here: `s = s + x`, `s = max(s, x)` and `if x > s: s = x` become atomic updates like `s += x` if the loop does nothing else with the
//       variable. A comparison treats NaN in another way than max does; then the loop updates a second variable, and the comparison with
//       its result follows the loop. The result of any other read and write depends on the unspecified order of the iterations, so there is
//       a warning. In a derived kernel such loops are serial, and so are loops with updates whose adjoints need the intermediate values.
#include "frontend/statements/loops.h"
#include "frontend/statements/variable_updates.h"
#include "frontend/unused_values.h"
#include "ir/attributes.h"
#include "ir/call_graph.h"
#include "ir/code.h"
#include "ir/memory.h"

#include "llvm/ADT/MapVector.h"

#include <cmath>
#include <map>

using namespace mlir;

namespace qd::frontend {

using ir::AtomicKind;
using ir::BinaryKind;

namespace {

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
  LoopVariables(ir::ForOp loop, const Session &session)
      : loop(loop), kernel(loop->getParentOfType<ir::KernelOp>()), module(*session.module), fastMath(session.options.fastMath) {
    collect(loop, DenseMap<mlir::Value, mlir::Value>());
  }

  /// Moves assignments of choices that depend on the order of the iterations into the branches of the choice.
  void moveChoices(bool isDerived) {
    bool isChanged = false;
    for (auto &[variable, all] : variables)
      for (Accesses &accesses : splitByComponent(all))
        if (!findUpdates(accesses, isDerived && isFloatVariable(variable)))
          for (ir::StoreOp store : accesses.writes) isChanged |= moveIntoBranches(store);
    if (!isChanged) return;
    variables.clear();
    entered.clear();
    collect(loop, DenseMap<mlir::Value, mlir::Value>());
  }

  /// Replaces accesses by atomic updates where possible. Returns the variables, with the culprits, whose values depend on the order of the
  /// iterations. In a derived kernel with such a variable nothing is replaced.
  SmallVector<std::pair<mlir::Value, Operation *>> run(bool isDerived) {
    SmallVector<std::pair<mlir::Value, Operation *>> orderDependent;
    SmallVector<Update> updates;
    for (auto &[variable, all] : variables) {
      bool isFloat = isFloatVariable(variable);
      for (Accesses &accesses : splitByComponent(all)) {
        std::optional<SmallVector<Update>> found = findUpdates(accesses, isDerived && isFloat);
        if (found && !chooseExtrema(variable, accesses, *found)) found.reset();
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
      std::optional<Update> update = matchUpdate(store);
      if (!update || !fits(update->kind)) return std::nullopt;
      for (ir::LoadOp read : update->reads)
        if (update->isOnlyUserOf(read)) known.insert(read);
      updates.push_back(std::move(*update));
    }
    bool areKnown = llvm::all_of(accesses.reads, [&](ir::LoadOp read) { return read->use_empty() || known.contains(read); });
    return areKnown ? std::optional(std::move(updates)) : std::nullopt;
  }

  /// Whether the last assignment before the loop is that of a constant that comparisons treat as max does: no NaN, no zero with a sign.
  bool beginsAsNumber(mlir::Value variable) {
    for (Operation *op = loop->getPrevNode(); op; op = op->getPrevNode()) {
      auto writes = [&](Operation *inner) {
        return llvm::any_of(ir::listWrittenPlaces(inner), [&](mlir::Value place) { return ir::findBase(place) == variable; });
      };
      if (!ir::containsOp(op, writes)) continue;
      auto store = dyn_cast<ir::StoreOp>(op);
      auto constant = store && store.getRef() == variable ? store.getValue().getDefiningOp<ir::ConstantOp>() : ir::ConstantOp();
      auto number = constant ? dyn_cast<FloatAttr>(constant.getValue()) : FloatAttr();
      return number && !number.getValue().isNaN() && (fastMath || !number.getValue().isZero());
    }
    return false;
  }

  /// Decides which extrema need a second variable. False: one does and cannot have it.
  bool chooseExtrema(mlir::Value variable, Accesses &accesses, MutableArrayRef<Update> updates) {
    bool isGuarded = llvm::any_of(updates, [](const Update &update) { return update.comparison && update.comparison->isGuarded; });
    for (Update &update : updates) {
      if (!update.comparison || (isGuarded && !accesses.atomics.empty())) {
        if (isGuarded) return false;
        continue;
      }
      bool storesNan = isFloatVariable(variable) && update.comparison->storesWhereFalse;
      bool isOwn = ir::findBase(cast<ir::StoreOp>(update.store).getRef()) == variable;
      if (!isOwn && (storesNan || isGuarded)) return false;
      bool isSecond = storesNan || isGuarded || (isFloatVariable(variable) && !beginsAsNumber(variable));
      if (isOwn && isSecond) withSecond.insert(update.store);
    }
    return true;
  }

  static bool isFloatVariable(mlir::Value variable) {
    return ir::isFloatScalar(ir::getScalar(cast<ir::RefType>(variable.getType()).getPointee()));
  }

  void apply(const Update &update) {
    auto store = cast<ir::StoreOp>(update.store);
    Type scalar = ir::getScalar(store.getValue().getType());
    OpBuilder builder(update.branches ? update.branches : update.store);
    ir::Code code(builder, store.getLoc());
    AtomicKind kind = update.terms.size() == 1 && update.terms[0].second ? AtomicKind::sub : update.kind;
    mlir::Value whole;
    for (auto [term, isSubtracted] : update.terms) {
      mlir::Value part = code.cast(term, ir::withScalar(term.getType(), scalar));
      if (isSubtracted && kind != AtomicKind::sub) part = code.unary(ir::UnaryKind::neg, part);
      whole = whole ? code.binary(*ir::findKind<BinaryKind>(ir::getOpInfo(update.kind).name), whole, part) : part;
    }
    Operation *replaced = update.branches ? update.branches : update.store;
    mlir::Value place = update.branches ? update.reads[0]->getOperand(0) : store.getRef();
    if (withSecond.contains(store)) place = updateMarks(update, place, whole, code);
    ir::AtomicOp::create(builder, code.loc, kind, place, whole);
    UnusedEraser eraser(replaced->getParentOp());
    eraser.add(replaced->getOperand(0)); // the condition or the stored value
    replaced->erase();
    eraser.run();
  }

  /// The second variable of an extremum, which begins as its identity, and the marks of its updates: 1: there was one, 3: with NaN.
  struct Second {
    mlir::Value place, marks;
  };

  static mlir::Value makeMark(ir::Code code, Type like, int mark) { return code.integer(ir::withScalar(like, code.type()), mark); }

  static mlir::Value makeIdentity(ir::Code code, Type type, AtomicKind kind) {
    bool isMax = kind == AtomicKind::max;
    Type scalar = ir::getScalar(type);
    if (isa<FloatType>(scalar)) return ir::makeFloat(code.builder, code.loc, type, isMax ? -HUGE_VAL : HUGE_VAL);
    unsigned bits = scalar.getIntOrFloatBitWidth();
    if (!scalar.isSignedInteger()) return code.integer(type, isMax ? 0 : int64_t(llvm::maxUIntN(bits)));
    return code.integer(type, isMax ? llvm::minIntN(bits) : llvm::maxIntN(bits));
  }

  Second findSecond(mlir::Value variable, const Update &update) {
    Second &second = seconds[{variable.getAsOpaquePointer(), update.kind, update.comparison->storesWhereFalse}];
    if (second.place) return second;
    Type type = cast<ir::RefType>(variable.getType()).getPointee();
    OpBuilder builder(loop);
    ir::Code code(builder, update.store->getLoc());
    auto declare = [&](mlir::Value first) {
      mlir::Value place = code.local(first.getType());
      code.store(first, place);
      return place;
    };
    second.place = declare(makeIdentity(code, type, update.kind));
    if (isFloatVariable(variable) && update.comparison->storesWhereFalse) second.marks = declare(makeMark(code, type, 0));
    builder.setInsertionPointAfter(loop);
    mlir::Value own = code.load(variable), found = code.load(second.place);
    bool isFirst = update.comparison->isVariableFirst;
    mlir::Value holds = code.binary(update.comparison->kind, isFirst ? own : found, isFirst ? found : own);
    bool isKept = update.comparison->storesWhereFalse;
    mlir::Value result = code.select(holds, isKept ? own : found, isKept ? found : own);
    if (second.marks) {
      mlir::Value marks = code.load(second.marks);
      auto choose = [&](int mark, mlir::Value value) {
        result = code.select(code.binary(BinaryKind::eq, marks, makeMark(code, type, mark)), value, result);
      };
      choose(0, own);
      choose(3, ir::makeFloat(builder, code.loc, type, std::nan("")));
    }
    code.store(result, variable);
    return second;
  }

  /// Marks an update of the second variable that replaces `place`. Returns the place to update.
  mlir::Value updateMarks(const Update &update, mlir::Value place, mlir::Value value, ir::Code code) {
    Second second = findSecond(ir::findBase(place), update);
    auto component = place.getDefiningOp<ir::ComponentOp>();
    auto takePart = [&](mlir::Value whole) { return component ? code.component(whole, component.getIndices()) : whole; };
    if (second.marks) {
      mlir::Value isNan = code.unary(ir::UnaryKind::isnan, value);
      mlir::Value mark = code.select(isNan, makeMark(code, value.getType(), 3), makeMark(code, value.getType(), 1));
      ir::AtomicOp::create(code.builder, code.loc, AtomicKind::bit_or, takePart(second.marks), mark);
    }
    return takePart(second.place);
  }

  ir::ForOp loop;
  ir::KernelOp kernel;
  ModuleOp module;
  bool fastMath;
  llvm::MapVector<mlir::Value, Accesses> variables;
  std::set<std::vector<const void *>> entered; ///< callees with the variables that are passed to them
  SmallPtrSet<Operation *, 8> applied;
  SmallPtrSet<Operation *, 8> withSecond;                               ///< stores that update a second variable
  std::map<std::tuple<const void *, AtomicKind, bool>, Second> seconds; ///< by variable, kind, and whether NaN is stored
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
  LoopVariables variables(loop, session);
  variables.moveChoices(isDerived);
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
