// distant_rows.cpp: finds loops whose lanes would walk along rows that lie apart
//
// In:   a parallel loop around serial ones, such as running sums along rows or an order of updates by color.
// Out:  whether one lane takes less time: it walks along a row, where lanes would gather, in each step, one element of each row. If the
//       rows are a multiple of 2048 or 4096 bytes apart, their elements compete for a few places of the cache; whether they are may be
//       known at launch only. Estimates in cycles for each lane (measured on Zen 5).
// Here: scheduleLoop asks before it chooses lanes, ParallelTask::emit makes both versions if the launch decides.
#include "codegen/llvm/cpu/task.h"
#include "ir/attributes.h"
#include "ir/memory.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

#include <tuple>

using namespace mlir;

namespace qd::codegen {

namespace {

constexpr double kGather = 1, kScatter = 1.4, kCongestedGather = 2, kCongestedScatter = 6; // in lanes
constexpr double kLoad = 0.3, kStore = 0.6, kComponent = 0.4, kShuffled = 1.5, kDelayed = 20, kOperation = 0.2, kMispredicted = 8,
                 kForward = 8, kRound = 0.3;
/// The share of its latency that a round of a short loop waits: the next loop begins meanwhile.
constexpr double kWaiting = 0.4;
constexpr double kLoadLatency = 5, kAddLatency = 2, kMultiplyLatency = 3, kFusedLatency = 4;
/// Distance of lanes, in scalars, up to which vectors and shuffles reach them (memory.cpp).
constexpr int64_t kWidest = 8;
/// Larger bodies mostly compute.
constexpr int64_t kMostOperations = 300;

/// Cycles of a vector operation; remainders and quotients by constants are multiplications.
double getCost(Operation *op) {
  auto binary = dyn_cast<ir::BinaryOp>(op);
  const bool hasConstant = binary && binary.getRhs().getDefiningOp<ir::ConstantOp>();
  const double cost = getArithmeticCost(op);
  return hasConstant ? std::min(cost, 3 * double(ir::getComponentCount(binary.getType()))) : cost;
}

class RowWalks {
public:
  RowWalks(ModuleEmitter &module, ir::ForOp loop, unsigned lanes) : module(module), loop(loop), lanes(lanes) {}

  bool choose(LoopSchedule &schedule) {
    if (!visit(loop.getBody(), 1) || walks == 0) return false;
    if (ofOneLane > ofLanes) {
      if (loop->hasAttr(ir::kRows)) return false; // the other version is that for long rows
      schedule.congestion = getCongestion();
      if (ofOneLane <= ofCongested && schedule.congestion) schedule.distantRows.append(walked.begin(), walked.end());
      return false;
    }
    schedule.takesShortRows = loop->hasAttr(ir::kRows);
    schedule.whyScalar =
        counters.empty() ? "it stores to members of structs and then reads others" : "its inner loops walk along rows that lie apart";
    return true;
  }

private:
  /// The smallest power of two so that rows which are a multiple of it apart exceed the ways of a set of the cache; 0: none does.
  uint64_t getCongestion() {
    constexpr uint64_t kWays = 12, kBytesOfWay = 4096;
    llvm::DenseSet<mlir::Value> containers;
    for (auto [container, axis] : walked) containers.insert(container);
    const uint64_t lines = uint64_t(lanes) * containers.size();
    uint64_t distance = 2 * kBytesOfWay;
    while (lines * distance / 2 > kWays * kBytesOfWay) distance /= 2;
    return distance > kBytesOfWay ? 0 : distance;
  }

  /// Adds the cycles of operations that run so many times; false where lanes are better or nothing is known.
  bool visit(Region &region, double rounds) {
    if (region.empty()) return true;
    for (Operation &op : region.front()) {
      if (auto inner = dyn_cast<ir::ForOp>(op)) {
        if (!visitLoop(inner, rounds)) return false;
      } else if (auto branches = dyn_cast<ir::IfOp>(op)) {
        if (isData(branches.getCondition()) && !isSelection(branches)) ofOneLane += kMispredicted * rounds;
        if (!visit(branches.getThenRegion(), rounds) || !visit(branches.getElseRegion(), rounds)) return false;
      } else if (op.getNumRegions() > 0 || isa<ir::RandomOp, ir::AtomicOp, ir::CompareExchangeOp, ir::MatmulOp>(op) ||
                 module.calls.lookup(&op)) {
        return false;
      } else if (auto access = dyn_cast<ir::MemoryAccessOpInterface>(op)) {
        if (!visitAccess(access, rounds)) return false;
      } else if (!isAddress(&op)) {
        ofOneLane += kOperation * getCost(&op) * rounds;
        addLanes(getCost(&op) * rounds / lanes);
      }
    }
    return true;
  }

  bool visitLoop(ir::ForOp inner, double rounds) {
    if (inner->hasAttr(ir::kLanes)) return false;
    const double length = ir::estimateIterations(inner, kUnknownRounds);
    llvm::append_range(counters, inner.getBody().getArguments());
    const double before = ofOneLane;
    if (!visit(inner.getBody(), rounds * length)) return false;
    // Short loops are unrolled, and the next one begins before the variables of the last are known. Loops along rows are short here: long
    // ones run in another version.
    const bool isRow = inner->hasAttr(ir::kRows), isLong = length > kUnknownRounds || !ir::findLength(inner, 0);
    if (isRow) ofOneLane += kRound * rounds * length;
    if (isLong) ofOneLane = std::max(ofOneLane, before + getLatency(inner) * (isRow ? kWaiting : 1) * rounds * length);
    return true;
  }

  void addLanes(double cycles) {
    ofLanes += cycles;
    ofCongested += cycles;
  }

  bool visitAccess(ir::MemoryAccessOpInterface access, double rounds) {
    mlir::Value place = access.getRef();
    if (ir::findWhole(place).getDefiningOp<ir::LocalOp>()) return place.getDefiningOp<ir::LocalOp>() != nullptr; // not arrays of a lane
    auto element = ir::findElement(place);
    if (!element) return false;
    const auto components = double(ir::getComponentCount(cast<ir::RefType>(place.getType()).getPointee()));
    const double own = (access.writes() ? kStore : kLoad) * components;
    ofOneLane += own * rounds;
    const int64_t width = getWidth(element);
    ir::TensorArgumentOp container = ir::findContainer(element);
    if (double(width) > components && container && module.aliases.interleaved.contains(container)) {
      // As Memory::chooseAccess.
      const double shuffled = (kShuffled * double(width) + (access.writes() ? 0 : kDelayed)) / lanes;
      addLanes((lanes >= 16 ? shuffled : access.writes() ? kScatter : kGather) * rounds);
      walks += rounds;
    } else if (width > 0) {
      addLanes(rounds * (width > 1 ? kShuffled * double(width) : 1) / lanes);
      if (walksDown(element)) return false;
    } else if (!isCounted(element.getIndices().back())) {
      addLanes((access.writes() ? own : std::max(own, kGather)) * rounds);
    } else {
      const double others = kComponent * (components - 1);
      ofLanes += ((access.writes() ? kScatter : kGather) + others) * rounds;
      ofCongested += ((access.writes() ? kCongestedScatter : kCongestedGather) + others) * rounds;
      walks += rounds;
      for (auto [axis, index] : llvm::enumerate(element.getIndices()))
        if (findStep(index).value_or(0) && ir::findContainer(element)) walked.insert({element.getTensor(), unsigned(axis)});
    }
    return true;
  }

  /// Whether an operation only computes indices: addresses take the constants, and LLVM counts them up.
  bool isAddress(Operation *op) {
    auto [known, isNew] = addresses.try_emplace(op, false);
    if (!isNew) return known->second;
    const bool is = !op->use_empty() && llvm::all_of(op->getUsers(), [&](Operation *user) {
      return isa<ir::ElementOp>(user) || (isPure(user) && isAddress(user));
    });
    return addresses[op] = is;
  }

  /// Whether a value is computed from an element or a variable.
  bool isData(mlir::Value value) {
    Operation *op = value.getDefiningOp();
    if (!op || !loop->isAncestor(op)) return false;
    auto [known, isNew] = data.try_emplace(value, isa<ir::LoadOp>(op));
    if (!isNew || known->second) return known->second;
    const bool is = llvm::any_of(op->getOperands(), [&](mlir::Value operand) { return isData(operand); });
    return data[value] = is;
  }

  /// Whether LLVM makes a choice of a branch along a row, because it only combines into variables.
  static bool isSelection(ir::IfOp branches) {
    auto row = dyn_cast<ir::ForOp>(branches->getParentOp());
    return row && row->hasAttr(ir::kRows) && !ir::containsOp(branches, llvm::IsaPred<ir::ElementOp, ir::ForOp>);
  }

  /// Whether a value differs between lanes. Counters do if they begin at different values: lanes that have finished wait for the others.
  bool varies(mlir::Value value) {
    if (value == loop.getBody().getArguments().back()) return true;
    Operation *op = value.getDefiningOp();
    auto counted = op ? nullptr : dyn_cast<ir::ForOp>(cast<BlockArgument>(value).getOwner()->getParentOp());
    if (!op) op = counted;
    if (!op || !loop->isProperAncestor(op)) return false;
    auto [known, isNew] = varying.try_emplace(value, isa<ir::LocalOp>(op));
    if (!isNew || known->second) return known->second;
    auto isOther = [&](mlir::Value operand) { return varies(operand); };
    const bool is = counted ? llvm::any_of(counted.getLower(), isOther) || llvm::any_of(counted.getStep(), isOther)
                            : llvm::any_of(op->getOperands(), isOther);
    return varying[value] = is;
  }

  /// How much an index changes from lane to lane, if that is known.
  std::optional<int64_t> findStep(mlir::Value index) {
    if (!varies(index)) return 0;
    if (index == loop.getBody().getArguments().back()) return 1;
    auto [known, isNew] = steps.try_emplace(index, std::nullopt);
    if (!isNew) return known->second;
    std::optional<int64_t> step = combineSteps(index.getDefiningOp());
    return steps[index] = step;
  }

  std::optional<int64_t> combineSteps(Operation *op) {
    if (isa_and_nonnull<ir::CastOp>(op)) return findStep(op->getOperand(0));
    auto binary = dyn_cast_or_null<ir::BinaryOp>(op);
    if (!binary) return std::nullopt;
    std::optional<int64_t> left = findStep(binary.getLhs()), right = findStep(binary.getRhs()), factor = ir::findInteger(binary.getRhs());
    if (!left || !right) return std::nullopt;
    if (binary.getBinaryKind() == ir::BinaryKind::add) return *left + *right;
    if (binary.getBinaryKind() == ir::BinaryKind::sub) return *left - *right;
    if (!factor) std::tie(left, factor) = std::pair(right, ir::findInteger(binary.getLhs()));
    return binary.getBinaryKind() == ir::BinaryKind::mul && factor ? std::optional(*left * *factor) : std::nullopt;
  }

  /// The number of components from lane to lane if vectors reach all, 1 if they share an element; 0 if lanes gather.
  int64_t getWidth(ir::ElementOp element) {
    auto type = cast<ir::TensorType>(element.getTensor().getType());
    const int64_t components = ir::getComponentCount(type.getElement()), size = module.getByteSize(ir::getScalar(type.getElement()));
    ir::TensorArgumentOp container = ir::findContainer(element);
    auto rows = container && !loop->hasAttr(ir::kRows) ? container->getAttrOfType<IntegerAttr>(ir::kRowLength) : IntegerAttr();
    int64_t bytes = 0;
    for (auto [axis, index] : llvm::enumerate(element.getIndices())) {
      std::optional<int64_t> step = findStep(index);
      const size_t after = size_t(type.getRank()) - 1 - axis;
      int64_t stride = !type.isPacked() ? type.getStrides()[axis] : after == 0 ? components * size : layout::kDynamic;
      if (type.isPacked() && after == 1 && rows) stride = components * size * rows.getInt();
      if (!step || (*step && stride == layout::kDynamic)) return 0;
      bytes += *step ? *step * stride : 0;
    }
    return bytes == 0 ? 1 : bytes > 0 && bytes <= kWidest * size ? llvm::divideCeil(bytes, size) : 0;
  }

  /// Whether an index is a sum with the counter of a serial loop.
  bool isCounted(mlir::Value index) {
    llvm::SetVector<mlir::Value> terms;
    terms.insert(index);
    for (size_t k = 0; k < terms.size(); ++k) {
      if (llvm::is_contained(counters, terms[k])) return true;
      auto sum = terms[k].getDefiningOp<ir::BinaryOp>();
      if (sum && (sum.getBinaryKind() == ir::BinaryKind::add || sum.getBinaryKind() == ir::BinaryKind::sub))
        terms.insert_range(sum->getOperands());
    }
    return false;
  }

  /// Whether lanes find neighbors in each row, where one lane would reach another line of the cache each time.
  bool walksDown(ir::ElementOp element) {
    OperandRange indices = element.getIndices();
    return !indices.empty() && varies(indices.back()) &&
           llvm::any_of(indices.drop_back(), [&](mlir::Value index) { return isCounted(index); });
  }

  /// The cycles that an iteration waits for the one before: from the variables and elements that it wrote to their next values.
  double getLatency(ir::ForOp inner) {
    llvm::DenseMap<Operation *, double> ofVariables; // one after the other
    double longest = 0;
    llvm::SmallVector<ir::LoadOp, 8> loads;
    inner.getBody().walk([&](ir::LoadOp load) { loads.push_back(load); });
    inner.getBody().walk([&](ir::StoreOp store) {
      llvm::DenseMap<mlir::Value, std::optional<double>> known;
      auto local = store.getRef().getDefiningOp<ir::LocalOp>();
      ir::ElementOp to = ir::findElement(store.getRef());
      for (ir::LoadOp load : loads) {
        ir::ElementOp from = ir::findElement(load.getRef());
        if (local && !inner->isAncestor(local) && load.getRef() == store.getRef())
          known[load] = 0;
        else if (to && from && from.getTensor() == to.getTensor() && isReached(inner, to, from))
          known[load] = kForward;
      }
      if (known.empty()) return;
      const double own = getLatency(store.getValue(), known).value_or(0);
      longest = std::max(longest, local ? ofVariables[local] += own : own);
    });
    return longest;
  }

  /// The longest way to a value from those that are known.
  std::optional<double> getLatency(mlir::Value value, llvm::DenseMap<mlir::Value, std::optional<double>> &known) {
    if (auto found = known.find(value); found != known.end()) return found->second;
    Operation *op = value.getDefiningOp();
    if (!op || !loop->isAncestor(op) || isa<ir::LocalOp>(op)) return std::nullopt;
    std::optional<double> longest;
    for (mlir::Value operand : op->getOperands())
      if (std::optional<double> own = getLatency(operand, known)) longest = std::max(longest.value_or(0), *own);
    auto isOfKind = [](mlir::Value part, std::initializer_list<ir::BinaryKind> kinds) {
      auto binary = part.getDefiningOp<ir::BinaryOp>();
      return binary && llvm::is_contained(kinds, binary.getBinaryKind());
    };
    const bool isProduct = isOfKind(value, {ir::BinaryKind::mul}), isSum = isOfKind(value, {ir::BinaryKind::add, ir::BinaryKind::sub});
    const bool isFused = isSum && llvm::any_of(op->getOperands(), [&](mlir::Value part) { return isOfKind(part, {ir::BinaryKind::mul}); });
    double own = isa<ir::LoadOp>(op) ? kLoadLatency : getCost(op);
    if (own > 0 && !isa<ir::LoadOp>(op) && (isProduct || !isa<IntegerType>(value.getType())))
      own = isFused ? kFusedLatency : isSum ? kAddLatency : std::max(kMultiplyLatency, own);
    if (longest) longest = *longest + own;
    return known[value] = longest;
  }

  /// Whether an iteration may reach an element that an earlier one wrote.
  bool isReached(ir::ForOp inner, ir::ElementOp to, ir::ElementOp from) {
    mlir::Value counter = inner.getBody().getArguments().back();
    for (auto [a, b] : llvm::zip(to.getIndices().drop_back(), from.getIndices().drop_back()))
      if (a != b && ir::splitConstant(a).value_or(ir::ConstantSum{a, 0}).rest == ir::splitConstant(b).value_or(ir::ConstantSum{b, 0}).rest)
        return false;
    auto getDistance = [&](ir::ElementOp element) -> std::optional<int64_t> {
      ir::ConstantSum sum = ir::splitConstant(element.getIndices().back()).value_or(ir::ConstantSum{element.getIndices().back(), 0});
      return sum.rest == counter ? std::optional(sum.constant) : std::nullopt;
    };
    std::optional<int64_t> a = getDistance(to), b = getDistance(from);
    if (!a || !b) return true;
    return *a > *b && (*a - *b) % getPeriod(inner, to) == 0;
  }

  /// The iterations that write an element are at this distance, or a multiple of it: `if (i + counter) % 2 == color`.
  static int64_t getPeriod(ir::ForOp inner, ir::ElementOp element) {
    if (!inner.getStep().empty())
      if (std::optional<int64_t> step = ir::findInteger(inner.getStep().back()); step && *step > 0) return *step;
    for (Operation *op = element->getParentOp(); op != inner; op = op->getParentOp()) {
      auto branches = dyn_cast<ir::IfOp>(op);
      auto equal = branches ? branches.getCondition().getDefiningOp<ir::BinaryOp>() : nullptr;
      auto rest = equal && equal.getBinaryKind() == ir::BinaryKind::eq ? equal.getLhs().getDefiningOp<ir::BinaryOp>() : nullptr;
      if (!rest || inner->isAncestor(equal.getRhs().getParentRegion()->getParentOp())) continue;
      auto isCounter = [&](mlir::Value part) { return part == inner.getBody().getArguments().back(); };
      if (!ir::isShifted(rest.getLhs(), isCounter, [&](mlir::Value part) { return !isCounter(part); })) continue;
      const int64_t period = ir::findInteger(rest.getRhs()).value_or(0);
      if (rest.getBinaryKind() == ir::BinaryKind::mod && period > 0) return period;
      if (rest.getBinaryKind() == ir::BinaryKind::bit_and && period == 1) return 2;
    }
    return 1;
  }

  ModuleEmitter &module;
  ir::ForOp loop;
  unsigned lanes;
  double ofOneLane = 0, ofLanes = 0, ofCongested = 0;
  double walks = 0;                                         ///< accesses along rows that lie apart
  llvm::SetVector<std::pair<mlir::Value, unsigned>> walked; ///< containers, and axes along which the rows lie apart
  llvm::SmallVector<mlir::Value, 4> counters;
  llvm::DenseMap<Operation *, bool> addresses;
  llvm::DenseMap<mlir::Value, bool> data, varying;
  llvm::DenseMap<mlir::Value, std::optional<int64_t>> steps;
};

} // namespace

bool chooseForDistantRows(ModuleEmitter &module, ir::ForOp loop, LoopSchedule &schedule) {
  if (loop.getMaxThreads() == 1 || module.functions.getSize(loop.getBody()) > kMostOperations) return false;
  return RowWalks(module, loop, chooseLanes(module, loop.getBody())).choose(schedule);
}

llvm::Value *areCongested(BodyEmitter &body, const LoopSchedule &schedule) {
  llvm::IRBuilder<> &builder = body.builder;
  llvm::Value *any = builder.getFalse();
  for (auto [container, axis] : schedule.distantRows) {
    llvm::Value *stride = body.memory.getStrides(body.values.getTensor(container))[axis];
    any = builder.CreateOr(any, builder.CreateIsNull(builder.CreateURem(stride, builder.getInt64(schedule.congestion))));
  }
  return any;
}

} // namespace qd::codegen
