// uniformity.cpp: a fixpoint over the kinds of locals, and symbolic sets of active lanes
//
// A set of active lanes is a node of a tree (LaneSet). A divergent region makes a child; leaving lanes behind (break, continue and return
// under divergence) makes a child that remembers which scope the lanes have left. Lanes that have left a scope never see what is declared
// in it again. So a store needs no mask when all steps from the current set up to the set at the local's declaration are departures from
// the local's scope or an outer one; the same question tells whether a jump takes all lanes that are live in its scope.
#include "codegen/llvm/uniformity.h"

#include "ir/dialect.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace qd::codegen {

namespace {
/// Passes over a body after which the locals that still change are taken as varying.
constexpr int kPatientPasses = 12;

enum Departure : unsigned { kNone = 0, kContinue = 1, kBreak = 2, kReturn = 4 };
} // namespace

class UniformityWalk {
public:
  UniformityWalk(Uniformity &owner, BodyFacts &facts) : owner(owner), facts(facts) {}

  void setArgument(Value value, LaneKinds kinds) { values[value] = std::move(kinds); }

  /// `loop`: the parallel loop whose body it is, or null for a function.
  void run(Block &body, Operation *loop) {
    for (int pass = 0;; ++pass) {
      changed = false;
      impatient = pass >= kPatientPasses;
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
    int leftScope = INT32_MAX; ///< depth of the innermost scope that the missing lanes have left; INT32_MAX: they come back
  };
  struct Scope {
    int laneSet;
    unsigned leftBy; ///< which departures leave it
  };
  struct LocalState {
    int laneSet;
    int depth;
  };
  struct PlaceState {
    Value local;                  ///< null: in memory or unknown
    std::optional<int> component; ///< of a local: none when chosen at run time or when the place is the whole
    bool wholeLocal = true;
    bool uniformAddress = false;
  };

  int makeLaneSet(int parent, int leftScope = INT32_MAX) {
    laneSets.push_back({parent, leftScope});
    return int(laneSets.size()) - 1;
  }

  /// Whether all lanes of `ancestor` that are still in the scope at `depth` are active now.
  bool hasAllLanes(int ancestor, int depth) const {
    for (int set = current; set != ancestor; set = laneSets[set].parent)
      if (set < 0 || laneSets[set].leftScope > depth) return false;
    return true;
  }

  /// The lanes that are active when some of them have left through `departures`.
  void leave(Operation *op, int before, unsigned departures) {
    current = before;
    if (departures == kNone) return;
    facts.loseLanes.insert(op);
    int depth = 0;
    for (int i = 0; i < int(scopes.size()); ++i)
      if (scopes[i].leftBy & departures) depth = i;
    current = makeLaneSet(before, depth);
  }

  void markDivergent(Operation *op) { changed |= facts.divergent.insert(op).second; }

  const LaneKinds &getKinds(Value value) {
    auto found = values.find(value);
    if (found != values.end()) return found->second;
    // Values of the enclosing task (bounds, arguments) are computed once for all lanes.
    return values[value] = LaneKinds(ir::isValue(value.getType()) ? ir::getComponentCount(value.getType()) : 1, LaneKind::uniform());
  }

  LaneKind getKind(Value value) { return getKinds(value)[0]; }

  bool areUniform(ValueRange range) {
    return llvm::all_of(range, [&](Value value) { return llvm::all_of(getKinds(value), [](LaneKind kind) { return kind.isUniform(); }); });
  }

  static std::optional<int64_t> getConstant(Value value) {
    auto constant = value.getDefiningOp<ir::ConstantOp>();
    if (!constant) return std::nullopt;
    auto integer = dyn_cast<IntegerAttr>(constant.getValue());
    return integer && integer.getValue().getBitWidth() <= 64 ? std::optional(integer.getValue().getSExtValue()) : std::nullopt;
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
    current = divergent ? makeLaneSet(before) : before;
    unsigned departures = walkRegion(op.getThenRegion());
    current = divergent ? makeLaneSet(before) : before;
    departures |= walkRegion(op.getElseRegion());
    leave(op, before, departures);
    return departures;
  }

  unsigned walkControl(ir::ForOp op) {
    bool uniformSteps = areUniform(op.getStep());
    for (auto [lower, index] : llvm::zip(op.getLower(), op.getBody().getArguments()))
      values[index] = {uniformSteps ? getKind(lower) : LaneKind::varying()};
    bool divergent = !areUniform(op.getLower()) || !areUniform(op.getUpper()) || !uniformSteps;
    // Lanes that are done with an inner axis wait for the others and take part in the next round of the outer one.
    bool waits = !areUniform(op.getLower().drop_front()) || !areUniform(op.getUpper().drop_front());
    return walkLoop(op, divergent, nullptr, op.getBody(), waits);
  }

  unsigned walkControl(ir::WhileOp op) {
    return walkLoop(op, /*divergent=*/false, &op.getConditionRegion(), op.getBody(), /*waits=*/false);
  }

  unsigned walkLoop(Operation *op, bool divergent, Region *condition, Region &body, bool waits) {
    int before = current;
    if (divergent) markDivergent(op);
    if (facts.divergent.contains(op)) current = makeLaneSet(before);
    scopes.push_back({current, kBreak | kReturn});
    if (waits) current = makeLaneSet(current);
    scopes.push_back({current, kContinue | kBreak | kReturn});
    unsigned departures = kNone;
    if (condition) {
      departures |= walkBlock(condition->front());
      if (!getKind(cast<ir::ConditionOp>(condition->front().getTerminator()).getCondition()).isUniform()) {
        markDivergent(op);
        current = makeLaneSet(before);
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
    int depth = 0;
    for (int i = 0; i < int(scopes.size()); ++i)
      if (scopes[i].leftBy == unsigned(departure == kContinue ? (kContinue | kBreak | kReturn) : (kBreak | kReturn))) depth = i;
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
    place = impatient ? LaneKind::varying() : joined;
    changed = true;
  }

  //--- Locals ---

  PlaceState getPlace(Value ref) {
    auto found = places.find(ref);
    return found == places.end() ? PlaceState{} : found->second;
  }

  /// Where a store through `place` goes: a range of components.
  MutableArrayRef<LaneKind> getTouched(const PlaceState &place) {
    MutableArrayRef<LaneKind> kinds = facts.locals[place.local];
    if (place.component && int64_t(kinds.size()) <= kSeparateComponents) return kinds.slice(size_t(*place.component), 1);
    return kinds;
  }

  void storeLocal(Operation *op, const PlaceState &place, ArrayRef<LaneKind> stored) {
    LocalState state = localStates[place.local];
    bool masked = !hasAllLanes(state.laneSet, state.depth);
    if (masked) markDivergent(op);
    MutableArrayRef<LaneKind> touched = getTouched(place);
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
    ArrayRef<LaneKind> touched = getTouched(place);
    LaneKinds kinds;
    if (touched.size() == count && (place.component || place.wholeLocal)) {
      kinds.assign(touched.begin(), touched.end());
    } else {
      LaneKind joined = place.uniformAddress || place.component ? LaneKind::unset() : LaneKind::varying();
      for (LaneKind kind : touched) joined = joined.join(kind);
      kinds.assign(count, joined);
    }
    // Nothing stored yet: whatever is there is the same in all lanes.
    for (LaneKind &kind : kinds) kind = kind.isUnset() ? LaneKind::uniform() : kind;
    return kinds;
  }

  //--- Everything else ---

  LaneKinds getElementwise(Operation *op) {
    size_t count = size_t(ir::getComponentCount(op->getResult(0).getType()));
    LaneKinds kinds(count, LaneKind::uniform());
    for (Value operand : op->getOperands()) {
      const LaneKinds &operandKinds = getKinds(operand);
      for (size_t i = 0; i < count; ++i) kinds[i] = getPlainKind(kinds[i], operandKinds[operandKinds.size() == count ? i : 0]);
    }
    return kinds;
  }

  LaneKinds getBinary(ir::BinaryOp op) {
    if (!ir::isIntegerScalar(ir::getScalar(op.getType())) || ir::getScalar(op.getType()).isInteger(1)) return getElementwise(op);
    LaneKinds lhs = getKinds(op.getLhs()), rhs = getKinds(op.getRhs()), kinds;
    std::optional<int64_t> left = getConstant(op.getLhs()), right = getConstant(op.getRhs());
    for (auto [a, b] : llvm::zip(lhs, rhs)) kinds.push_back(getIntegerKind(op.getBinaryKind(), {a, left}, {b, right}));
    return kinds;
  }

  LaneKinds getCast(ir::CastOp op) {
    Type from = ir::getScalar(op.getOperand().getType()), to = ir::getScalar(op.getType());
    bool integers = isa<IntegerType>(from) && isa<IntegerType>(to);
    LaneKinds kinds;
    for (LaneKind kind : getKinds(op.getOperand()))
      kinds.push_back(getCastKind(kind, integers, from.getIntOrFloatBitWidth(), to.getIntOrFloatBitWidth()));
    return kinds;
  }

  LaneKinds getSelect(ir::SelectOp op) {
    const LaneKinds condition = getKinds(op.getCondition()), a = getKinds(op.getTrueValue()), b = getKinds(op.getFalseValue());
    LaneKinds kinds;
    for (size_t i = 0; i < a.size(); ++i)
      kinds.push_back(condition[condition.size() == a.size() ? i : 0].isUniform() ? a[i].join(b[i]) : LaneKind::varying());
    return kinds;
  }

  LaneKinds getVector(ir::VectorOp op) {
    LaneKinds kinds;
    for (Value component : op.getComponents()) kinds.push_back(getKind(component));
    return kinds;
  }

  LaneKinds getExtractAt(ir::ExtractAtOp op) {
    LaneKind joined = areUniform(op.getIndices()) ? LaneKind::unset() : LaneKind::varying();
    for (LaneKind kind : getKinds(op.getOperand())) joined = joined.join(kind);
    return {joined};
  }

  LaneKinds getTranspose(ir::TransposeOp op) {
    auto type = cast<VectorType>(op.getOperand().getType());
    const LaneKinds &from = getKinds(op.getOperand());
    LaneKinds kinds;
    int64_t rows = type.getDimSize(0), columns = type.getRank() == 2 ? type.getDimSize(1) : 1;
    for (int64_t column = 0; column < columns; ++column)
      for (int64_t row = 0; row < rows; ++row) kinds.push_back(from[size_t(row * columns + column)]);
    return kinds;
  }

  void walkCall(ir::CallOp op) {
    auto callee = dyn_cast_or_null<ir::FuncOp>(SymbolTable::lookupSymbolIn(owner.module, op.getCalleeAttr()));
    LaneKinds arguments;
    for (Value argument : op.getArguments()) {
      if (ir::isValue(argument.getType())) llvm::append_range(arguments, getKinds(argument));
      // The callee may store anything through a reference.
      else if (PlaceState place = getPlace(argument); place.local)
        storeLocal(op, place, LaneKinds(getTouched(place).size(), LaneKind::varying()));
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
    llvm::TypeSwitch<Operation *>(op)
        .Case<ir::LocalOp>([&](ir::LocalOp local) {
          Type pointee = cast<ir::RefType>(local.getType()).getPointee();
          localStates[local] = {current, int(scopes.size()) - 1};
          LaneKinds &kinds = facts.locals[local];
          kinds.resize(size_t(ir::getComponentCount(pointee)), LaneKind::unset());
          places[local] = {local, std::nullopt, true, true};
        })
        .Case<ir::ComponentOp>([&](ir::ComponentOp component) {
          PlaceState place = getPlace(component.getRef());
          place.wholeLocal = false;
          place.uniformAddress &= areUniform(component.getIndices());
          auto pointee = cast<VectorType>(cast<ir::RefType>(component.getRef().getType()).getPointee());
          std::optional<int64_t> position = 0;
          for (auto [axis, index] : llvm::enumerate(component.getIndices())) {
            std::optional<int64_t> constant = getConstant(index);
            position = position && constant ? std::optional(*position * pointee.getDimSize(axis) + *constant) : std::nullopt;
          }
          if (place.local && position && *position >= 0 && *position < pointee.getNumElements()) place.component = int(*position);
          places[component] = place;
        })
        .Case<ir::ElementOp>(
            [&](ir::ElementOp element) { places[element] = {Value(), std::nullopt, false, areUniform(element.getIndices())}; })
        .Case<ir::ScratchOp>([&](ir::ScratchOp scratch) { places[scratch] = {Value(), std::nullopt, false, true}; })
        .Case<ir::LoadOp>([&](ir::LoadOp load) {
          PlaceState place = getPlace(load.getRef());
          size_t count = size_t(ir::getComponentCount(load.getType()));
          if (place.local)
            values[load] = loadLocal(place, count);
          else
            values[load] = LaneKinds(count, place.uniformAddress ? LaneKind::uniform() : LaneKind::varying());
        })
        .Case<ir::StoreOp>([&](ir::StoreOp store) {
          if (PlaceState place = getPlace(store.getRef()); place.local) storeLocal(store, place, getKinds(store.getValue()));
        })
        .Case<ir::AtomicOp>([&](ir::AtomicOp atomic) {
          PlaceState place = getPlace(atomic.getRef());
          size_t count = size_t(ir::getComponentCount(atomic.getType()));
          if (!place.local) {
            values[atomic] = LaneKinds(count, LaneKind::varying());
            return;
          }
          LaneKinds old = loadLocal(place, count), stored;
          for (auto [a, b] : llvm::zip(old, getKinds(atomic.getValue()))) stored.push_back(getPlainKind(a, b));
          storeLocal(atomic, place, stored);
          values[atomic] = old;
        })
        .Case<ir::RandomOp, ir::CompareExchangeOp>([&](Operation *op) { values[op->getResult(0)] = {LaneKind::varying()}; })
        .Case<ir::CallOp>([&](ir::CallOp call) { walkCall(call); })
        .Case<ir::BinaryOp>([&](ir::BinaryOp binary) { values[binary] = getBinary(binary); })
        .Case<ir::CastOp>([&](ir::CastOp cast) { values[cast] = getCast(cast); })
        .Case<ir::SelectOp>([&](ir::SelectOp select) { values[select] = getSelect(select); })
        .Case<ir::VectorOp>([&](ir::VectorOp vector) { values[vector] = getVector(vector); })
        .Case<ir::BroadcastOp>([&](ir::BroadcastOp broadcast) {
          values[broadcast] = LaneKinds(size_t(ir::getComponentCount(broadcast.getType())), LaneKind(getKind(broadcast.getOperand())));
        })
        .Case<ir::ExtractOp>([&](ir::ExtractOp extract) {
          LaneKind kind = getKinds(extract.getOperand())[extract.getComponent()];
          values[extract] = {kind};
        })
        .Case<ir::ExtractAtOp>([&](ir::ExtractAtOp extract) { values[extract] = getExtractAt(extract); })
        .Case<ir::TransposeOp>([&](ir::TransposeOp transpose) { values[transpose] = getTranspose(transpose); })
        .Case<ir::ReduceOp, ir::MatmulOp>([&](Operation *op) {
          LaneKind kind = areUniform(op->getOperands()) ? LaneKind::uniform() : LaneKind::varying();
          values[op->getResult(0)] = LaneKinds(size_t(ir::getComponentCount(op->getResult(0).getType())), kind);
        })
        .Case<ir::UnaryOp, ir::BitCastOp>([&](Operation *op) { values[op->getResult(0)] = getElementwise(op); });
  }

  Uniformity &owner;
  BodyFacts &facts;
  llvm::DenseMap<Value, LaneKinds> values;
  llvm::DenseMap<Value, PlaceState> places;
  llvm::DenseMap<Value, LocalState> localStates;
  std::vector<LaneSet> laneSets;
  std::vector<Scope> scopes;
  int current = 0;
  bool changed = false;
  bool impatient = false;
};

const BodyFacts &Uniformity::analyzeLoop(ir::ForOp loop, LaneKind innermost, LaneKind others) {
  BodyFacts &facts = *loops.emplace_back(std::make_unique<BodyFacts>());
  UniformityWalk walk(*this, facts);
  for (BlockArgument index : loop.getBody().getArguments())
    walk.setArgument(index, {index.getArgNumber() + 1 == loop.getRank() ? innermost : others});
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
