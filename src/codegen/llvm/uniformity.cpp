// uniformity.cpp: the divergence analysis (Karrenberg, Automatic SIMD Vectorization of SSA-based Control Flow Graphs, 2015)
//
// It is a fixpoint over the kinds of locals, with symbolic sets of active lanes. lane_rules.h has its transfer functions for values.
//
// A set of active lanes is a node of a tree (LaneSet). A divergent region creates a child. A break, continue or return under divergence
// creates a child, too, which records the scope that the missing lanes have left. Lanes that have left a scope never see the locals
// declared in it again, nor those that are only read in it. A store therefore needs no mask if every step from the current set up to the
// set at the local's declaration is a departure from the local's scope or an outer one. The same check determines whether a jump takes all
// lanes that are live in its scope.
#include "codegen/llvm/uniformity.h"

#include "codegen/llvm/lane_rules.h"

#include "ir/builtins.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace qd::codegen {

namespace {
/// Locals whose kinds still change after this many passes over a body become varying.
constexpr int kMaxPrecisePasses = 12;

enum Departure : unsigned { kNone = 0, kContinue = 1, kBreak = 2, kReturn = 4 };
} // namespace

class UniformityWalk {
public:
  UniformityWalk(Uniformity &owner, BodyFacts &facts) : owner(owner), facts(facts) {}

  void addVaryingLocal(Value local) {
    facts.locals[local].resize(size_t(ir::getComponentCount(cast<ir::RefType>(local.getType()).getPointee())), LaneKind::varying());
    places[local] = {local, std::nullopt, true, true};
  }
  void setArgument(Value value, LaneKinds kinds) { values[value] = std::move(kinds); }

  /// `loop`: the parallel loop of the body, or null for a function.
  void run(Block &body, Operation *loop) {
    for (int pass = 0;; ++pass) {
      changed = false;
      isWidening = pass >= kMaxPrecisePasses;
      laneSets.assign(1, {});
      scopes.assign(1, {0, loop ? kContinue | kBreak | kReturn : unsigned(kReturn)});
      current = 0;
      if (walkBlock(body) & kContinue) changed |= facts.divergentContinue.insert(loop).second;
      if (!changed) return;
    }
  }

private:
  struct LaneSet {
    int parent = -1;
    int leftScope = INT32_MAX; ///< depth of the innermost scope that the missing lanes have left; INT32_MAX: they are only masked
    bool isBranch = false;     ///< of an `if`
  };
  struct Scope {
    int laneSet;
    unsigned leftBy; ///< departures that leave the scope
  };
  struct LocalState {
    int laneSet;
    int depth; ///< of the innermost scope whose lanes see the local
  };
  struct PlaceState {
    Value local;                  ///< null: in memory or unknown
    std::optional<int> component; ///< of a local; none: chosen at run time, or the whole local
    bool wholeLocal = true;
    bool uniformAddress = false;
  };

  int makeLaneSet(int parent, int leftScope = INT32_MAX, bool isBranch = false) {
    laneSets.push_back({parent, leftScope, isBranch});
    return int(laneSets.size()) - 1;
  }

  /// Whether all lanes of `ancestor` that are still in the scope at `depth` are active now or, with `orInBranch`, in the innermost `if`.
  bool hasAllLanes(int ancestor, int depth, bool orInBranch = false) const {
    for (int set = current; set != ancestor; set = laneSets[set].parent) {
      if (set < 0 || (laneSets[set].leftScope > depth && !(orInBranch && laneSets[set].isBranch))) return false;
      orInBranch &= !laneSets[set].isBranch;
    }
    return true;
  }

  /// Continues with the lanes that remain after some have left through `departures`.
  void leave(Operation *op, int before, unsigned departures) {
    current = before;
    if (departures == kNone) return;
    facts.loseLanes.insert(op);
    current = makeLaneSet(before, findLeftScope(departures));
  }

  /// The depth of the outermost scope that lanes leave through any of the departures. A break leaves both scopes of a loop.
  int findLeftScope(unsigned departures) const {
    const unsigned leftBy = departures & kContinue ? kContinue | kBreak | kReturn
                            : departures & kBreak  ? kBreak | kReturn
                                                   : unsigned(kReturn);
    int depth = int(scopes.size()) - 1;
    while (depth > 0 && scopes[depth].leftBy != leftBy) --depth;
    return depth;
  }

  void markDivergent(Operation *op) { changed |= facts.divergent.insert(op).second; }

  const LaneKinds &getKinds(Value value) {
    auto found = values.find(value);
    if (found != values.end()) return found->second;
    // Values of the enclosing task (bounds, arguments) are the same in all lanes.
    return values[value] = LaneKinds(ir::isValue(value.getType()) ? ir::getComponentCount(value.getType()) : 1, LaneKind::uniform());
  }

  LaneKind getKind(Value value) { return getKinds(value)[0]; }

  bool areUniform(ValueRange range) {
    return llvm::all_of(range, [&](Value value) { return llvm::all_of(getKinds(value), [](LaneKind kind) { return kind.isUniform(); }); });
  }

  unsigned walkBlock(Block &block) {
    unsigned departures = kNone;
    for (Operation &op : block) departures |= walkOp(&op);
    return departures;
  }

  unsigned walkRegion(Region &region) { return region.empty() ? unsigned(kNone) : walkBlock(region.front()); }

  unsigned walkOp(Operation *op) {
    return llvm::TypeSwitch<Operation *, unsigned>(op)
        .Case<ir::IfOp, ir::ForOp, ir::WhileOp>([&](auto control) { return walkControl(control); })
        .Case<ir::BreakOp>([&](auto) { return walkDeparture(op, kBreak); })
        .Case<ir::ContinueOp>([&](auto) { return walkDeparture(op, kContinue); })
        .Case<ir::ReturnOp>([&](auto back) { return walkReturn(back); })
        .Default([&](Operation *) {
          walkPlain(op);
          return unsigned(kNone);
        });
  }

  //--- Control ---

  unsigned walkControl(ir::IfOp op) {
    int before = current;
    bool divergent = !getKind(op.getCondition()).isUniform();
    if (divergent) markDivergent(op);
    auto enter = [&] { current = divergent ? makeLaneSet(before, INT32_MAX, /*isBranch=*/true) : before; };
    enter();
    unsigned departures = walkRegion(op.getThenRegion());
    enter();
    departures |= walkRegion(op.getElseRegion());
    leave(op, before, departures);
    return departures;
  }

  unsigned walkControl(ir::ForOp op) {
    bool uniformSteps = areUniform(op.getStep());
    for (auto [axis, index] : llvm::enumerate(op.getBody().getArguments())) {
      bool hasStep = !op.getStep().empty();
      LaneKind step = hasStep ? getKind(op.getStep()[axis]) : LaneKind::uniform();
      values[index] = {getIndexKind(getKind(op.getLower()[axis]), step, hasStep ? ir::findInteger(op.getStep()[axis]) : 1)};
    }
    bool divergent = !areUniform(op.getLower()) || !areUniform(op.getUpper()) || !uniformSteps;
    // Lanes that have finished an inner axis wait for the others and take part in the next iteration of the outer axis.
    bool waits = !areUniform(op.getLower().drop_front()) || !areUniform(op.getUpper().drop_front());
    return walkLoop(op, divergent, nullptr, op.getBody(), waits);
  }

  unsigned walkControl(ir::WhileOp op) {
    return walkLoop(op, /*divergent=*/false, &op.getConditionRegion(), op.getBody(), /*waits=*/false);
  }

  unsigned walkLoop(Operation *op, bool divergent, Region *condition, Region &body, bool waits) {
    int before = current;
    if (divergent) markDivergent(op);
    const int depth = int(scopes.size());
    if (facts.divergent.contains(op)) current = makeLaneSet(before, depth);
    scopes.push_back({current, kBreak | kReturn});
    if (waits) current = makeLaneSet(current);
    scopes.push_back({current, kContinue | kBreak | kReturn});
    unsigned departures = kNone;
    if (condition) {
      departures |= walkBlock(condition->front());
      if (!getKind(cast<ir::ConditionOp>(condition->front().getTerminator()).getCondition()).isUniform()) {
        markDivergent(op);
        current = makeLaneSet(before, depth);
        scopes[scopes.size() - 2].laneSet = scopes.back().laneSet = current;
      }
    }
    departures |= walkRegion(body);
    scopes.pop_back();
    scopes.pop_back();
    if (departures & (kBreak | kReturn)) markDivergent(op);
    if (departures & kContinue) changed |= facts.divergentContinue.insert(op).second;
    departures &= kReturn;
    leave(op, before, departures);
    return departures;
  }

  unsigned walkDeparture(Operation *op, Departure departure) {
    const int depth = findLeftScope(departure);
    // Uniform if all lanes that are live in the scope leave it here.
    if (hasAllLanes(scopes[depth].laneSet, depth)) return kNone;
    markDivergent(op);
    return departure;
  }

  unsigned walkReturn(ir::ReturnOp op) {
    bool all = hasAllLanes(scopes[0].laneSet, 0);
    size_t position = 0;
    for (Value value : op.getValues())
      for (LaneKind kind : getKinds(value)) {
        if (position == facts.results.size()) facts.results.push_back(LaneKind::unset());
        joinInto(facts.results[position++], all && !facts.divergentReturn ? kind : LaneKind::varying());
      }
    if (all) return kNone;
    markDivergent(op);
    changed |= !facts.divergentReturn;
    facts.divergentReturn = true;
    return kReturn;
  }

  void joinInto(LaneKind &place, LaneKind kind) {
    LaneKind joined = place.join(kind);
    if (joined == place) return;
    place = isWidening ? LaneKind::varying() : joined;
    changed = true;
  }

  //--- Locals ---

  PlaceState getPlace(Value ref) {
    auto found = places.find(ref);
    if (found != places.end()) return found->second;
    return {Value(), std::nullopt, true, /*uniformAddress=*/ref.getDefiningOp<ir::LocalOp>() != nullptr}; // of code around a loop
  }

  /// The range of components that a store through `place` may change.
  MutableArrayRef<LaneKind> getStoredComponents(const PlaceState &place) {
    MutableArrayRef<LaneKind> kinds = facts.locals[place.local];
    if (place.component && int64_t(kinds.size()) <= kSeparateComponents) return kinds.slice(size_t(*place.component), 1);
    return kinds;
  }

  /// Long functions test for rare operands, which lanes without a mask would have after they have left a loop.
  bool callsFunctions(Operation *loop) {
    auto [known, isNew] = callers.try_emplace(loop, false);
    if (isNew) known->second = ir::containsOp(loop, [](Operation *op) { return isa<ir::CallOp>(op) || ir::isLongFunction(op); });
    return known->second;
  }

  /// Whether all reads of a local are in one loop in the block of its declaration.
  bool isReadInOneLoop(ir::LocalOp local) {
    Operation *loop = nullptr;
    for (Operation *user : local->getUsers()) {
      Operation *around = local->getBlock()->findAncestorOpInBlock(*user);
      if (around == user && isa<ir::StoreOp>(user)) continue;
      if (!isa_and_nonnull<ir::ForOp, ir::WhileOp>(around) || (loop && loop != around)) return false;
      loop = around;
    }
    return loop && !callsFunctions(loop);
  }

  void storeLocal(Operation *op, const PlaceState &place, ArrayRef<LaneKind> stored) {
    const LocalState state = localStates.lookup(place.local);
    bool masked = !hasAllLanes(state.laneSet, state.depth);
    if (masked) markDivergent(op);
    // An index that differs between lanes is valid in active lanes only. Lanes behind the end of a row must not change what the row adds
    // up, which is declared around it.
    const bool byCondition = masked && localStates.contains(place.local) && (place.component || place.wholeLocal) &&
                             hasAllLanes(state.laneSet, state.depth, /*orInBranch=*/true);
    byCondition ? void(facts.masksByCondition.insert(op)) : void(facts.masksByCondition.erase(op));
    MutableArrayRef<LaneKind> touched = getStoredComponents(place);
    bool chosenAtRunTime = !place.component && !place.wholeLocal;
    for (auto [i, kind] : llvm::enumerate(touched)) {
      LaneKind value = stored.size() == touched.size() ? stored[i] : stored[0];
      joinInto(kind, masked || (chosenAtRunTime && !place.uniformAddress) ? LaneKind::varying() : value);
    }
    if (int64_t(facts.locals[place.local].size()) > kSeparateComponents) {
      MutableArrayRef<LaneKind> all = facts.locals[place.local];
      LaneKind joined = LaneKind::unset();
      for (LaneKind kind : all) joined = joined.join(kind);
      for (LaneKind &kind : all) joinInto(kind, joined);
    }
  }

  LaneKinds loadLocal(const PlaceState &place, size_t count) {
    ArrayRef<LaneKind> touched = getStoredComponents(place);
    LaneKinds kinds;
    if (touched.size() == count && (place.component || place.wholeLocal)) {
      kinds.assign(touched.begin(), touched.end());
    } else {
      LaneKind joined = place.uniformAddress || place.component ? LaneKind::unset() : LaneKind::varying();
      for (LaneKind kind : touched) joined = joined.join(kind);
      kinds.assign(count, joined);
    }
    // Not stored yet: the value is undefined, and the same in all lanes.
    for (LaneKind &kind : kinds) kind = kind.isUnset() ? LaneKind::uniform() : kind;
    return kinds;
  }

  //--- Everything else ---

  LaneKinds getElementwise(Operation *op) {
    size_t count = size_t(ir::getComponentCount(op->getResult(0).getType()));
    LaneKinds kinds;
    for (size_t i = 0; i < count; ++i) {
      llvm::SmallVector<OperandKind, 3> own;
      for (Value operand : op->getOperands()) {
        const LaneKinds &all = getKinds(operand);
        own.push_back({all[all.size() == count ? i : 0], ir::findInteger(operand)});
      }
      kinds.push_back(getElementwiseKind(op, own));
    }
    return kinds;
  }

  void walkCall(ir::CallOp op) {
    ir::FuncOp callee = owner.calls.lookup(op);
    LaneKinds arguments;
    for (Value argument : op.getArguments()) {
      if (ir::isValue(argument.getType())) llvm::append_range(arguments, getKinds(argument));
      // The callee may store anything through a reference.
      else if (PlaceState place = getPlace(argument); place.local)
        storeLocal(op, place, LaneKinds(getStoredComponents(place).size(), LaneKind::varying()));
    }
    if (!callee) return;
    const BodyFacts &facts = owner.analyzeFunction(callee, arguments);
    size_t position = 0;
    for (Value output : op.getOutputs()) {
      LaneKinds kinds;
      for (int64_t i = 0; i < ir::getComponentCount(output.getType()); ++i, ++position)
        kinds.push_back(position < facts.results.size() ? facts.results[position] : LaneKind::uniform());
      values[output] = kinds;
    }
  }

  void walkPlain(Operation *op) {
    auto give = [&](LaneKinds kinds) { values[op->getResult(0)] = std::move(kinds); };
    if (isElementwise(op)) return give(getElementwise(op));
    if (auto moved = moveComponents<LaneKinds>(op, [&](Value value) -> const LaneKinds & { return getKinds(value); })) return give(*moved);
    size_t count = op->getNumResults() ? size_t(ir::getComponentCount(op->getResult(0).getType())) : 0;
    llvm::TypeSwitch<Operation *>(op)
        .Case([&](ir::LocalOp local) {
          localStates[local] = {current, int(scopes.size()) - !isReadInOneLoop(local)};
          auto components = size_t(ir::getComponentCount(cast<ir::RefType>(local.getType()).getPointee()));
          facts.locals[local].resize(components, LaneKind::unset());
          places[local] = {local, std::nullopt, true, true};
        })
        .Case([&](ir::ComponentOp component) {
          PlaceState place = getPlace(component.getRef());
          place.wholeLocal = false;
          place.uniformAddress &= areUniform(component.getIndices());
          auto pointee = cast<VectorType>(cast<ir::RefType>(component.getRef().getType()).getPointee());
          std::optional<int64_t> position = 0;
          for (auto [axis, index] : llvm::enumerate(component.getIndices())) {
            std::optional<int64_t> constant = ir::findInteger(index);
            position = position && constant ? std::optional(*position * pointee.getDimSize(axis) + *constant) : std::nullopt;
          }
          if (place.local && position && *position >= 0 && *position < pointee.getNumElements()) place.component = int(*position);
          places[component] = place;
        })
        .Case([&](ir::ElementOp element) { places[element] = {Value(), std::nullopt, false, areUniform(element.getIndices())}; })
        .Case([&](ir::ScratchOp scratch) { places[scratch] = {Value(), std::nullopt, false, true}; })
        .Case([&](ir::LoadOp load) {
          PlaceState place = getPlace(load.getRef());
          give(place.local ? loadLocal(place, count) : LaneKinds(count, place.uniformAddress ? LaneKind::uniform() : LaneKind::varying()));
        })
        .Case([&](ir::StoreOp store) {
          if (PlaceState place = getPlace(store.getRef()); place.local) storeLocal(store, place, getKinds(store.getValue()));
        })
        .Case([&](ir::MemoryAccessOpInterface update) {
          PlaceState place = getPlace(update.getRef());
          if (!place.local) return give(LaneKinds(count, LaneKind::varying()));
          LaneKinds old = loadLocal(place, count), stored;
          for (auto [a, b] : llvm::zip(old, getKinds(update.getStored())))
            stored.push_back(update.combines() ? getPlainKind({{a, {}}, {b, {}}}) : LaneKind::varying());
          storeLocal(op, place, stored);
          give(old);
        })
        .Case<ir::RandomOp, ir::ThreadIndexOp, ir::ClockOp>([&](auto) { give({LaneKind::varying()}); })
        .Case([&](ir::CallOp call) { walkCall(call); })
        .Case([&](ir::ExtractAtOp extract) { give({getChosenKind(areUniform(extract.getIndices()), getKinds(extract.getOperand()))}); })
        .Case<ir::ReduceOp, ir::MatmulOp>(
            [&](Operation *) { give(LaneKinds(count, areUniform(op->getOperands()) ? LaneKind::uniform() : LaneKind::varying())); });
  }

  Uniformity &owner;
  BodyFacts &facts;
  llvm::DenseMap<Value, LaneKinds> values;
  llvm::DenseMap<Value, PlaceState> places;
  llvm::DenseMap<Value, LocalState> localStates;
  llvm::DenseMap<Operation *, bool> callers; ///< loops that call functions
  std::vector<LaneSet> laneSets;
  std::vector<Scope> scopes;
  int current = 0;
  bool changed = false;
  bool isWidening = false;
};

const BodyFacts &Uniformity::analyzeLoop(ir::ForOp loop, const LaneKinds &indices, ValueRange reduced) {
  BodyFacts &facts = *loops.emplace_back(std::make_unique<BodyFacts>());
  UniformityWalk walk(*this, facts);
  for (Value local : reduced) walk.addVaryingLocal(local);
  for (BlockArgument index : loop.getBody().getArguments()) walk.setArgument(index, {indices[index.getArgNumber()]});
  walk.run(loop.getBody().front(), loop);
  return facts;
}

const BodyFacts &Uniformity::analyzeFunction(ir::FuncOp function, ArrayRef<LaneKind> arguments) {
  std::vector<int64_t> key;
  for (LaneKind kind : arguments) key.push_back(kind.getStride());
  std::unique_ptr<BodyFacts> &facts = functions[{function, key}];
  if (facts) return *facts;
  facts = std::make_unique<BodyFacts>();
  UniformityWalk walk(*this, *facts);
  size_t position = 0;
  for (BlockArgument argument : function.getBody().getArguments()) {
    if (!ir::isValue(argument.getType())) continue;
    LaneKinds kinds;
    for (int64_t i = 0; i < ir::getComponentCount(argument.getType()); ++i) kinds.push_back(arguments[position++]);
    walk.setArgument(argument, std::move(kinds));
  }
  walk.run(function.getBody().front(), nullptr);
  return *facts;
}

} // namespace qd::codegen
