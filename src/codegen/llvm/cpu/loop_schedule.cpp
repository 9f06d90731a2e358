// loop_schedule.cpp: chooses the lanes and the chunks of a parallel loop
//
// Both depend on the code and on the number of iterations only, never on the number of threads: results are the same on all machines with
// the same vector width.
#include "codegen/llvm/cpu/task.h"
#include "ir/attributes.h"
#include "ir/memory.h"
#include "passes/row_loops.h"

using namespace mlir;

namespace qd::codegen {

namespace {

/// Minimum work of a chunk in cycles: about 20 µs.
constexpr double kChunkCycles = 60000;
/// Chunks cover trailing axes as a whole up to this many iterations, if their rows are short: longer rows pay for their begin and end.
constexpr int64_t kMaxWhole = 4096, kShortRow = 64;
/// A larger loop body is emitted once, always under a mask.
constexpr int64_t kSeparateTailSize = 1500;
/// The same limit for loops on one thread. Large programs have many of these: a second copy would cost more compile time than it saves.
constexpr int64_t kSeparateTailSizeOfOneThread = 64;

/// Estimates run time; the weights are approximate cycles of one vector operation.
class CostModel {
public:
  explicit CostModel(ModuleEmitter &module, bool skipsLanes = false) : module(module), skipsLanes(skipsLanes) {}

  double getCost(Region &region) {
    double cost = 0;
    if (region.empty()) return cost;
    for (Operation &op : region.front()) {
      if (auto loop = dyn_cast<ir::ForOp>(op)) {
        if (!skipsLanes || !loop->hasAttr(ir::kLanes)) cost += ir::estimateIterations(loop, kUnknownRounds) * (getCost(loop.getBody()) + 2);
      } else if (auto loop = dyn_cast<ir::WhileOp>(op)) {
        cost += kUnknownRounds * (getCost(loop.getConditionRegion()) + getCost(loop.getBody()) + 2);
      } else if (auto branch = dyn_cast<ir::IfOp>(op)) {
        cost += 1 + getCost(branch.getThenRegion()) + getCost(branch.getElseRegion());
      } else if (ir::FuncOp callee = module.calls.lookup(&op)) {
        if (known.try_emplace(callee, 0).second) {
          double calleeCost = getCost(callee.getBody());
          known[callee] = calleeCost;
        }
        cost += known[callee];
      } else {
        cost += getOpCost(&op);
      }
    }
    return cost;
  }

  static double getOpCost(Operation *op) {
    double components =
        op->getNumResults() && ir::isValue(op->getResult(0).getType()) ? double(ir::getComponentCount(op->getResult(0).getType())) : 1;
    if (auto access = dyn_cast<ir::MemoryAccessOpInterface>(op)) {
      if (access.isAtomic()) return 64 * components;
      return ir::findWhole(access.getRef()).getDefiningOp<ir::LocalOp>() ? 0 : 4 * components;
    }
    if (auto matmul = dyn_cast<ir::MatmulOp>(op))
      return 2 * components * double(cast<VectorType>(matmul.getLhs().getType()).getShape().back());
    if (isa<ir::RandomOp>(op)) return 60;
    return getArithmeticCost(op);
  }

private:
  ModuleEmitter &module;
  bool skipsLanes;
  llvm::DenseMap<Operation *, double> known;
};

/// Whether most of the work is in loops with lanes of their own.
bool doLaneLoopsPrevail(ModuleEmitter &module, Region &body) {
  return module.calls.contains(body, [](Operation *op) { return op->hasAttr(ir::kLanes); }) &&
         CostModel(module, /*skipsLanes=*/true).getCost(body) < 0.5 * CostModel(module).getCost(body);
}

/// Size of the widest scalar that the body computes with. If there are floats, only these count, because integers are mostly indices then.
int64_t getWidestScalar(ModuleEmitter &module, Region &region) {
  int64_t widestFloat = 0, widestInteger = 4;
  module.calls.contains(region, [&](Operation *op) {
    for (Type type : op->getResultTypes()) {
      if (!ir::isValue(type)) continue;
      Type scalar = ir::getScalar(type);
      if (isa<FloatType>(scalar))
        widestFloat = std::max(widestFloat, module.getByteSize(scalar));
      else if (!isa<ir::ConstantOp, ir::ExtentOp>(op))
        widestInteger = std::max(widestInteger, module.getByteSize(scalar));
    }
    return false;
  });
  return std::max<int64_t>(widestFloat ? widestFloat : widestInteger, 4);
}

/// Whether the body does little but update scattered elements: lanes would bring nothing.
bool isScatter(ModuleEmitter &module, ir::ForOp loop) {
  int64_t updates = 0, others = 0;
  module.calls.contains(loop.getBody(), [&](Operation *op) {
    if (auto atomic = dyn_cast<ir::AtomicOp>(op)) {
      auto element = atomic.getRef().getDefiningOp<ir::ElementOp>();
      updates += element && !element.getIndices().empty() && loop->isAncestor(op); // in functions nobody knows what is scattered
    } else if (auto store = dyn_cast<ir::StoreOp>(op)) {
      others += 4;
    } else if (isa<ir::UnaryOp, ir::BinaryOp, ir::CastOp, ir::FmaOp, ir::SelectOp, ir::ForOp, ir::WhileOp, ir::MatmulOp>(op)) {
      ++others;
    }
    return false;
  });
  return updates > 0 && others <= 3 * updates;
}

/// Whether a value is computed from an element that was loaded: each iteration has another one.
bool dependsOnElement(mlir::Value value) {
  Operation *op = value.getDefiningOp();
  if (auto load = dyn_cast_or_null<ir::LoadOp>(op)) {
    auto element = load.getRef().getDefiningOp<ir::ElementOp>();
    return element && llvm::any_of(element.getIndices(), [](mlir::Value index) { return !ir::findInteger(index); });
  }
  return isa_and_nonnull<ir::BinaryOp, ir::CastOp>(op) && llvm::any_of(op->getOperands(), dependsOnElement);
}

/// How often the body of an inner loop with an unknown end runs for each iteration of the parallel loop.
double countRounds(Operation *inner, ir::ForOp loop, double rounds = kUnknownRounds) {
  for (Operation *outer = inner->getParentOp(); outer != loop; outer = outer->getParentOp())
    if (auto around = dyn_cast<ir::ForOp>(outer)) rounds *= ir::estimateIterations(around, kUnknownRounds);
  return rounds;
}

/// Whether the work is in loops that end lane by lane and do little but reach elements at indices that they read or compute: one lane after
/// the other does not wait for the longest loop, and a gather takes as long as loads. Threads of one would lose their lanes' neighbors.
/// Chains of elements run in lanes: a gather waits once for the elements of all lanes.
class ScatteredLoops {
public:
  static bool prevail(ModuleEmitter &module, ir::ForOp loop, CostModel &costs) {
    if (loop.getMaxThreads() == 1) return false;
    ScatteredLoops found(module, costs);
    found.findLoops(loop.getBody(), 1);
    const bool isChain = found.chains == 1 && found.reached.size() == 1;
    return found.cost > 0.5 * costs.getCost(loop.getBody()) && found.arithmetic < kWorthLanes * found.accesses && !isChain;
  }

private:
  ScatteredLoops(ModuleEmitter &module, CostModel &costs) : module(module), costs(costs) {}

  /// Arithmetic for each scattered access that makes lanes worth while. A gather takes 17 cycles on Zen 4, and lanes wait for each other.
  static constexpr double kWorthLanes = 8;

  /// Finds the loops that end lane by lane in code that runs so many times, and in the functions that it calls. Each function counts once.
  void findLoops(Region &region, double rounds) {
    for (Operation &op : region.getOps()) {
      auto inner = dyn_cast<ir::ForOp>(op);
      const bool hasOwnEnd =
          inner && inner.getRank() == 1 && (dependsOnElement(inner.getLower()[0]) || dependsOnElement(inner.getUpper()[0]));
      if (isa<ir::WhileOp>(op) || hasOwnEnd) {
        if (inner) counters.insert(inner.getBody().getArgument(0));
        for (Region &part : op.getRegions()) cost += rounds * kUnknownRounds * costs.getCost(part);
        add(&op);
      } else if (ir::FuncOp callee = module.calls.lookup(&op)) {
        if (searched.insert(callee).second) findLoops(callee.getBody(), rounds);
      } else {
        for (Region &part : op.getRegions()) findLoops(part, inner ? rounds * ir::estimateIterations(inner, kUnknownRounds) : rounds);
      }
    }
  }

  void add(Operation *whole) {
    whole->walk([&](Operation *op) {
      if (ir::FuncOp callee = module.calls.lookup(op)) {
        // A function without loops is arithmetic, as that of a ray and a box.
        if (!module.calls.contains(callee.getBody(), llvm::IsaPred<ir::WhileOp>))
          arithmetic += 1e9;
        else if (added.insert(callee).second)
          add(callee);
      } else if (auto access = dyn_cast<ir::MemoryAccessOpInterface>(op); !access) {
        arithmetic += CostModel::getOpCost(op);
      } else if (!access.isAtomic() && isScattered(access.getRef())) {
        const auto components = double(ir::getComponentCount(cast<ir::RefType>(access.getRef().getType()).getPointee()));
        accesses += (components > 1 ? components / 2 : 1) * (access.writes() ? 1.5 : 1);
        ir::ElementOp element = ir::findElement(access.getRef());
        auto index = element && element.getIndices().size() == 1 ? element.getIndices()[0].getDefiningOp<ir::LoadOp>() : nullptr;
        const bool isRead = index && !access.writes();
        reached.insert(isRead ? std::pair(mlir::Value(element.getTensor()), mlir::Value(index.getRef()))
                              : std::pair(access.getRef(), access.getRef()));
        chains += isLink(op);
      }
    });
  }

  /// Whether a load is from an element whose index is in a local, and changes that local: the next load waits for it.
  static bool isLink(Operation *op) {
    auto load = dyn_cast<ir::LoadOp>(op);
    auto element = load ? load.getRef().getDefiningOp<ir::ElementOp>() : nullptr;
    return element && llvm::any_of(element.getIndices(), [&](mlir::Value index) {
             auto local = index.getDefiningOp<ir::LoadOp>();
             return local && llvm::any_of(local.getRef().getUsers(), [&](Operation *user) {
                      auto store = dyn_cast<ir::StoreOp>(user);
                      return store && store.getRef() == local.getRef() && store.getValue() == load.getResult();
                    });
           });
  }

  /// Whether a place or an index differs between lanes without order.
  bool isScattered(mlir::Value value) {
    auto [known, isNew] = scattered.try_emplace(value, false);
    if (!isNew) return known->second;
    Operation *op = value.getDefiningOp();
    bool is = counters.contains(value);
    if (auto load = dyn_cast_or_null<ir::LoadOp>(op))
      is = load.getRef().getDefiningOp<ir::LocalOp>() || dependsOnElement(value) || isScattered(load.getRef());
    else if (op && !isa<ir::LocalOp>(op))
      is = llvm::any_of(op->getOperands(), [&](mlir::Value operand) { return isScattered(operand); });
    return scattered[value] = is;
  }

  ModuleEmitter &module;
  CostModel &costs;
  double cost = 0, arithmetic = 0, accesses = 0, chains = 0;
  llvm::DenseSet<Operation *> searched, added;
  llvm::DenseSet<std::pair<mlir::Value, mlir::Value>> reached; ///< containers, and the locals that hold the indices
  llvm::DenseSet<mlir::Value> counters;
  llvm::DenseMap<mlir::Value, bool> scattered;
};

/// Components of the locals and values from around a loop that it uses, which stay in registers.
int64_t countLiveComponents(ir::WhileOp loop) {
  llvm::SetVector<mlir::Value> live;
  loop->walk([&](Operation *op) {
    for (mlir::Value operand : op->getOperands())
      if (!loop->isAncestor(operand.getParentRegion()->getParentOp()) && !ir::findInteger(operand)) live.insert(operand);
  });
  int64_t components = 0;
  for (mlir::Value value : live) {
    if (value.getDefiningOp<ir::LocalOp>())
      components += ir::getComponentCount(cast<ir::RefType>(value.getType()).getPointee());
    else if (ir::isValue(value.getType()))
      components += ir::getComponentCount(value.getType());
  }
  return components;
}

/// The share of an operation's cost that two vectors at a time do not hide: a divider works on one of them.
double getDivisionCost(Operation *op) {
  auto unary = dyn_cast<ir::UnaryOp>(op);
  auto binary = dyn_cast<ir::BinaryOp>(op);
  const bool divides = (unary && unary.getUnaryKind() == ir::UnaryKind::sqrt) || (binary && binary.getBinaryKind() == ir::BinaryKind::div);
  return divides ? CostModel::getOpCost(op) : 0;
}

/// Whether the work is in `while` loops, whose iterations wait for the one before: two vectors at a time hide each other's latency. The
/// values around the loops must fit the registers twice, of which only processors with the widest vectors have enough.
bool isBoundByLatency(ModuleEmitter &module, ir::ForOp loop) {
  constexpr int64_t kMaxLiveComponents = 6;
  constexpr double kMaxDivisions = 1.0 / 3;
  if (module.traits.vectorBytes < 64 || module.calls.contains(loop.getBody(), llvm::IsaPred<ir::RandomOp, ir::AtomicOp>)) return false;
  CostModel costs(module);
  double cost = 0, arithmetic = 0, divisions = 0;
  bool fits = true;
  loop.getBody().walk<WalkOrder::PreOrder>([&](ir::WhileOp inner) {
    for (Region &region : inner->getRegions()) cost += countRounds(inner, loop) * costs.getCost(region);
    fits &= countLiveComponents(inner) <= kMaxLiveComponents;
    inner->walk([&](Operation *op) {
      arithmetic += isa<ir::MemoryAccessOpInterface>(op) ? 0 : CostModel::getOpCost(op);
      divisions += getDivisionCost(op);
    });
    return WalkResult::skip();
  });
  return fits && cost > 0.5 * costs.getCost(loop.getBody()) && divisions <= kMaxDivisions * arithmetic;
}

/// Whether the body does little but read consecutive elements in an inner loop whose bounds are loaded, such as a row of a sparse matrix.
/// Lanes would read far apart, and all would wait for the longest row.
bool walksRows(ir::ForOp loop) {
  int64_t consecutive = 0, loads = 0, others = 0;
  loop.getBody().walk([&](ir::ForOp inner) {
    if (inner.getRank() != 1 || (!dependsOnElement(inner.getLower()[0]) && !dependsOnElement(inner.getUpper()[0]))) return;
    mlir::Value counter = inner.getBody().getArgument(0);
    inner.getBody().walk([&](Operation *op) {
      auto load = dyn_cast<ir::LoadOp>(op);
      auto element = load ? load.getRef().getDefiningOp<ir::ElementOp>() : nullptr;
      if (element && !element.getIndices().empty()) {
        ++loads;
        consecutive += element.getIndices().back() == counter;
      }
      others += isa<ir::UnaryOp, ir::BinaryOp, ir::FmaOp, ir::CallOp, ir::ForOp, ir::WhileOp, ir::MatmulOp>(op);
    });
  });
  return consecutive > 0 && others <= 2 * loads;
}

/// Whether the loop runs over the blocks of a list. Its last axis is a row of elements that follow each other in memory.
bool visitsBlocks(ir::ForOp loop) {
  return loop.getRank() > 1 && llvm::any_of(loop.getBody().getOps<ir::LoadOp>(), [](ir::LoadOp op) { return op->hasAttr(ir::kDistinct); });
}

/// Whether lanes that take several rows of a block find all elements at constant distances: each index is one of the loop plus constants,
/// or the same for all lanes, and elements are scalars at constant strides.
class RowFinder {
public:
  explicit RowFinder(ir::ForOp loop) : loop(loop) {}

  bool hasConstantDistances() {
    bool isFound = true;
    loop.getBody().walk([&](Operation *op) {
      if (isa<ir::CallOp>(op)) isFound = false;
      auto element = dyn_cast<ir::ElementOp>(op);
      if (!element || llvm::all_of(element.getIndices(), [&](mlir::Value index) { return find(index) == Kind::Same; })) return;
      auto type = cast<ir::TensorType>(element.getTensor().getType());
      isFound &= ir::isScalar(type.getElement()) && !type.isPacked() && !llvm::is_contained(type.getStrides(), layout::kDynamic);
      isFound &= llvm::all_of(element.getIndices(), [&](mlir::Value index) { return find(index) != Kind::Far; });
    });
    return isFound;
  }

private:
  enum class Kind { Same, Near, Far };

  /// The start of a block along an axis, or a constant.
  static bool isMultiple(mlir::Value value) {
    auto op = value.getDefiningOp<ir::BinaryOp>();
    if (ir::findInteger(value)) return true;
    if (!op) return isa_and_nonnull<ir::VectorOp>(value.getDefiningOp()) && llvm::all_of(value.getDefiningOp()->getOperands(), isMultiple);
    if (op.getBinaryKind() == ir::BinaryKind::add) return isMultiple(op.getLhs()) && isMultiple(op.getRhs());
    return op.getBinaryKind() == ir::BinaryKind::mul && ir::findInteger(op.getRhs());
  }

  Kind find(mlir::Value value) {
    if (auto found = kinds.find(value); found != kinds.end()) return found->second;
    Kind kind = classify(value);
    return kinds[value] = kind;
  }

  Kind classify(mlir::Value value) {
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      if (argument.getOwner() != &loop.getBody().front())
        return loop->isAncestor(argument.getOwner()->getParentOp()) ? Kind::Far : Kind::Same;
      return argument.getArgNumber() + 2 >= loop.getRank() ? Kind::Near : Kind::Same;
    }
    Operation *op = value.getDefiningOp();
    if (!loop->isAncestor(op)) return Kind::Same;
    if (isa<ir::LocalOp>(op) || op->getNumRegions() > 0) return Kind::Far;
    Kind most = Kind::Same;
    for (mlir::Value operand : op->getOperands()) most = std::max(most, find(operand));
    if (most != Kind::Near) return most;
    if (isa<ir::VectorOp, ir::ExtractOp>(op)) return Kind::Near;
    auto sum = dyn_cast<ir::BinaryOp>(op);
    const bool isClamp = sum && (sum.getBinaryKind() == ir::BinaryKind::min || sum.getBinaryKind() == ir::BinaryKind::max);
    if (isClamp) return find(sum.getLhs()) == Kind::Same || find(sum.getRhs()) == Kind::Same ? Kind::Near : Kind::Far;
    if (!sum || (sum.getBinaryKind() != ir::BinaryKind::add && sum.getBinaryKind() != ir::BinaryKind::sub)) return Kind::Far;
    auto isKept = [&](mlir::Value operand) { return find(operand) == Kind::Near || isMultiple(operand); };
    if (sum.getBinaryKind() == ir::BinaryKind::sub)
      return find(sum.getRhs()) == Kind::Same && isKept(sum.getRhs()) ? Kind::Near : Kind::Far;
    return isKept(sum.getLhs()) && isKept(sum.getRhs()) ? Kind::Near : Kind::Far;
  }

  ir::ForOp loop;
  llvm::DenseMap<mlir::Value, Kind> kinds;
};

/// The lanes of a loop over rows of fewer iterations than a vector has lanes. Rows in vectors of their own take less time than vectors of
/// iterations of several rows, which compute their indices by divisions and gather, if the body does little but access elements along the
/// row. 0: it does more.
unsigned chooseRowLanes(ir::ForOp loop, int64_t length, unsigned lanes) {
  constexpr double kWide = 2, kShared = 0.5, kRow = 2, kDivision = 20, kMasked = 4; // cycles of a vector
  constexpr double kGathered = 1.4;                                                 // cycles of a lane
  double arithmetic = 0, along = 0, scattered = 0, shared = 0;
  bool isPlain = true;
  mlir::Value last = loop.getBody().getArguments().back();
  auto varies = [&](mlir::Value value) { return ir::dependsOn(value, last); };
  loop.getBody().walk([&](Operation *op) {
    isPlain &= !isa<ir::CallOp, ir::WhileOp, ir::RandomOp>(op);
    const double rounds = countRounds(op, loop, 1);
    arithmetic += isa<ir::MemoryAccessOpInterface>(op) ? 0 : CostModel::getOpCost(op) * rounds;
    auto element = dyn_cast<ir::ElementOp>(op);
    if (!element || !ir::findContainer(element)) return;
    const double accesses = double(std::distance(op->user_begin(), op->user_end())) * rounds;
    (llvm::none_of(element.getIndices(), varies) ? shared : element.getIndices().back() == last ? along : scattered) += accesses;
  });
  const double ofRow = arithmetic + kWide * along + kGathered * lanes * scattered + kShared * shared + kRow;
  if (!isPlain || ofRow / double(length) >= (arithmetic + kDivision) / lanes + kGathered * (along + scattered + shared)) return 0;
  // Vectors that the row fills need no mask, but may be several.
  const int64_t narrow = length & -length;
  const bool isNarrow =
      narrow >= passes::kShortestVector && arithmetic * double(length / narrow - 1) <= kMasked * (along + scattered + shared);
  return isNarrow ? unsigned(narrow) : lanes;
}

bool mustRunAlone(Operation *op) {
  auto access = dyn_cast<ir::MemoryAccessOpInterface>(op);
  return isa<ir::PrintOp, ir::ClaimOp>(op) || (access && access.isExchange());
}

} // namespace

double getArithmeticCost(Operation *op) {
  const int cost = isa<ir::CastOp, ir::FmaOp, ir::SelectOp, ir::ReduceOp>(op) ? 1 : ir::getOperatorCost(op);
  return cost == 0 ? 0 : cost * double(ir::getComponentCount(op->getResult(0).getType()));
}

unsigned chooseLanes(ModuleEmitter &module, Region &body) {
  return unsigned(std::clamp<int64_t>(int64_t(module.traits.vectorBytes) / getWidestScalar(module, body), 1, 16));
}

LoopSchedule scheduleRows(ModuleEmitter &module, ir::ForOp loop, const LoopSchedule &schedule) {
  LoopSchedule rows;
  if (!schedule.shortRows.empty()) {
    rows = schedule;
    rows.takesRowLengths = true;
    rows.suffix = "_short_rows";
    return rows;
  }
  if (loop->hasAttr(ir::kRows)) rows.rowLanes = chooseLanes(module, loop.getBody());
  rows.suffix = rows.rowLanes ? "_rows" : "_lane";
  rows.grain = std::max<int64_t>(schedule.grain / int64_t(schedule.lanes), 1);
  return rows;
}

LoopSchedule scheduleLoop(ModuleEmitter &module, ir::ForOp loop) {
  LoopSchedule schedule;
  Region &body = loop.getBody();
  const std::optional<double> total = ir::findIterations(loop);
  // The uniformity analysis is incomplete for recursive functions.
  bool isRecursive = module.calls.contains(body, [&](Operation *op) {
    ir::FuncOp callee = module.calls.lookup(op);
    return callee && module.functions.isRecursive(callee);
  });
  const bool hasLaneLoops = doLaneLoopsPrevail(module, body);
  if (isRecursive)
    schedule.whyScalar = "a function that it calls calls itself";
  else if (module.isOfBlock(loop))
    schedule.whyScalar = "its iterations work together in blocks";
  else if (module.calls.contains(body, [](Operation *op) { return op->hasAttr(ir::kVolatile); }))
    schedule.whyScalar = "it reads what other threads change";
  else if (module.options.lanes)
    schedule.lanes = unsigned(module.options.lanes);
  else if (hasLaneLoops)
    schedule.whyScalar = "loops inside it run in lanes";
  else if (isScatter(module, loop)) {
    schedule.whyScalar = "it does little but update scattered elements";
    schedule.takesShortRows = loop->hasAttr(ir::kRows); // long ones are not scattered
  } else if (walksRows(loop))
    schedule.whyScalar = "its inner loop reads rows of different lengths";
  else if (CostModel costs(module); ScatteredLoops::prevail(module, loop, costs))
    schedule.whyScalar = "its inner loops end at different iterations and reach scattered elements";
  else if (total && *total <= 2)
    schedule.whyScalar = "it has at most two iterations";
  else if (module.calls.contains(body, mustRunAlone))
    schedule.whyScalar = "it prints, is checked for races, or compares and exchanges";
  else if (!chooseForDistantRows(module, loop, schedule))
    schedule.lanes = chooseLanes(module, body);
  const bool isSmall = module.functions.getSize(body) <= kSeparateTailSize;
  if (schedule.lanes > 1 && isSmall && schedule.distantRows.empty() && !loop->hasAttr(ir::kRows)) findShortRows(loop, schedule);

  std::optional<int64_t> innermost = ir::findLength(loop, loop.getRank() - 1);
  const bool isLong = !innermost || *innermost >= 2 * int64_t(schedule.lanes);
  if (schedule.lanes > 1 && !module.options.lanes && isLong && !visitsBlocks(loop) && isBoundByLatency(module, loop)) schedule.lanes *= 2;
  // A shorter row is one vector under a constant mask: its elements and neighbors are reached by wide accesses.
  const bool hasRows = schedule.lanes > 1 && visitsBlocks(loop) && innermost && *innermost > 0;
  if (hasRows && loop.getRank() > 2)
    if (std::optional<int64_t> rows = ir::findLength(loop, loop.getRank() - 2); rows && *rows > 0 && loop.getStep().empty())
      schedule.rows = std::min(*rows, std::max<int64_t>(int64_t(schedule.lanes) / *innermost, 1));
  if (schedule.rows > 1) {
    const int64_t groups = llvm::divideCeil(*ir::findLength(loop, loop.getRank() - 2), schedule.rows);
    if (groups * module.functions.getSize(body) > kMaxUnrolledRows || !RowFinder(loop).hasConstantDistances()) schedule.rows = 1;
  }
  if (hasRows && *innermost * schedule.rows < int64_t(schedule.lanes))
    schedule.lanes = unsigned(llvm::bit_ceil(uint64_t(*innermost * schedule.rows)));

  double perVector = CostModel(module).getCost(body) * 0.5 + 2;
  double iterations = kChunkCycles / perVector * double(schedule.lanes);
  schedule.grain = int64_t(std::clamp(iterations, 16.0, double(1 << 20)));
  if (hasLaneLoops) schedule.grain = int64_t(std::max(iterations / kUnknownRounds, 1.0)); // its inner loops are long
  schedule.separateTail = schedule.lanes > 1 &&
                          module.functions.getSize(body) <= (loop.getMaxThreads() == 1 ? kSeparateTailSizeOfOneThread : kSeparateTailSize);
  schedule.perLaneIndices = schedule.lanes > 1 && loop.getRank() > 1 && innermost && *innermost < int64_t(schedule.lanes) && !hasRows;
  if (schedule.perLaneIndices && !module.options.lanes && *innermost > 0) {
    const unsigned rowLanes = chooseRowLanes(loop, *innermost, schedule.lanes);
    schedule.perLaneIndices = rowLanes == 0;
    if (rowLanes > 0) schedule.lanes = rowLanes;
  }
  // Chunks begin at multiples of the number of lanes, so all runs fill vectors if the innermost axis does.
  schedule.isEven = schedule.lanes > 1 && innermost && loop.getStep().empty() && *innermost * schedule.rows % int64_t(schedule.lanes) == 0;
  for (unsigned axis = loop.getRank(); (schedule.isEven || hasRows) && *innermost <= kShortRow && axis-- > 1;) {
    std::optional<int64_t> length = ir::findLength(loop, axis);
    const bool isInGroup = schedule.rows > 1 && axis + 2 >= loop.getRank();
    if (!length || *length == 0 || (!isInGroup && schedule.whole * *length > std::min(kMaxWhole, schedule.grain / 8))) break;
    schedule.whole *= *length;
    ++schedule.wholeAxes;
  }
  schedule.grain -= schedule.grain % schedule.whole;
  return schedule;
}

} // namespace qd::codegen
