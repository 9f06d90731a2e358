// loop_schedule.cpp: chooses the lanes and the chunks of a parallel loop
//
// Both depend on the code and on the number of iterations only, never on the number of threads: results are the same on all machines with
// the same vector width.
#include "codegen/llvm/cpu/task.h"
#include "ir/attributes.h"
#include "ir/memory.h"

using namespace mlir;

namespace qd::codegen {

namespace {

/// Assumed number of iterations of a loop whose bounds are not constants.
constexpr double kUnknownRounds = 16;
/// Minimum work of a chunk in cycles: about 20 µs.
constexpr double kChunkCycles = 60000;
/// Chunks cover trailing axes as a whole up to this many iterations, if their rows are short: longer rows pay for their begin and end.
constexpr int64_t kMaxWhole = 4096, kShortRow = 64;
/// A larger loop body is emitted once, always under a mask.
constexpr int64_t kSeparateTailSize = 1500;
/// The same limit for loops on one thread. Large programs have many of these: a second copy would cost more compile time than it saves.
constexpr int64_t kSeparateTailSizeOfOneThread = 64;

/// Number of iterations along an axis, if its bounds are constants (steps are ignored).
std::optional<int64_t> getLength(ir::ForOp loop, unsigned axis) {
  std::optional<int64_t> low = ir::findInteger(loop.getLower()[axis]), high = ir::findInteger(loop.getUpper()[axis]);
  return low && high ? std::optional(std::max<int64_t>(*high - *low, 0)) : std::nullopt;
}

/// Estimates run time; the weights are approximate cycles of one vector operation.
class CostModel {
public:
  explicit CostModel(ModuleEmitter &module) : module(module) {}

  double getCost(Region &region) {
    double cost = 0;
    if (region.empty()) return cost;
    for (Operation &op : region.front()) {
      if (auto loop = dyn_cast<ir::ForOp>(op)) {
        cost += getRounds(loop) * (getCost(loop.getBody()) + 2);
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

  static double getRounds(ir::ForOp loop) {
    double rounds = 1;
    for (unsigned axis = 0; axis < loop.getRank(); ++axis) {
      std::optional<int64_t> length = getLength(loop, axis);
      rounds *= length ? double(*length) : kUnknownRounds;
    }
    return rounds;
  }

private:
  static double getOpCost(Operation *op) {
    double components =
        op->getNumResults() && ir::isValue(op->getResult(0).getType()) ? double(ir::getComponentCount(op->getResult(0).getType())) : 1;
    if (auto unary = dyn_cast<ir::UnaryOp>(op)) return ir::getOpInfo(unary.getUnaryKind()).cost * components;
    if (auto binary = dyn_cast<ir::BinaryOp>(op)) return ir::getOpInfo(binary.getBinaryKind()).cost * components;
    if (auto access = dyn_cast<ir::MemoryAccessOpInterface>(op)) {
      if (access.isAtomic()) return 64 * components;
      return ir::findWhole(access.getRef()).getDefiningOp<ir::LocalOp>() ? 0 : 4 * components;
    }
    if (auto matmul = dyn_cast<ir::MatmulOp>(op))
      return 2 * components * double(cast<VectorType>(matmul.getLhs().getType()).getShape().back());
    if (isa<ir::RandomOp>(op)) return 60;
    return isa<ir::CastOp, ir::FmaOp, ir::SelectOp, ir::ReduceOp>(op) ? components : 0;
  }

  ModuleEmitter &module;
  llvm::DenseMap<Operation *, double> known;
};

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
bool isScatter(ir::ForOp loop) {
  int64_t updates = 0, others = 0;
  loop.getBody().walk([&](Operation *op) {
    if (auto atomic = dyn_cast<ir::AtomicOp>(op)) {
      auto element = atomic.getRef().getDefiningOp<ir::ElementOp>();
      updates += element && !element.getIndices().empty();
    } else if (auto store = dyn_cast<ir::StoreOp>(op)) {
      others += 4;
    } else if (isa<ir::UnaryOp, ir::BinaryOp, ir::CastOp, ir::FmaOp, ir::SelectOp, ir::CallOp, ir::ForOp, ir::WhileOp, ir::MatmulOp>(op)) {
      ++others;
    }
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

bool mustRunAlone(Operation *op) {
  auto access = dyn_cast<ir::MemoryAccessOpInterface>(op);
  return isa<ir::PrintOp, ir::ClaimOp>(op) || (access && access.isExchange());
}

} // namespace

LoopSchedule scheduleLoop(ModuleEmitter &module, ir::ForOp loop) {
  LoopSchedule schedule;
  Region &body = loop.getBody();
  std::optional<double> total = 1;
  for (unsigned axis = 0; axis < loop.getRank(); ++axis) {
    std::optional<int64_t> length = getLength(loop, axis);
    total = total && length ? std::optional(*total * double(*length)) : std::nullopt;
  }
  // The uniformity analysis is incomplete for recursive functions.
  bool isRecursive = module.calls.contains(body, [&](Operation *op) {
    ir::FuncOp callee = module.calls.lookup(op);
    return callee && module.functions.isRecursive(callee);
  });
  if (isRecursive)
    schedule.whyScalar = "a function that it calls calls itself";
  else if (module.isOfBlock(loop))
    schedule.whyScalar = "its iterations work together in blocks";
  else if (module.calls.contains(body, [](Operation *op) { return op->hasAttr(ir::kVolatile); }))
    schedule.whyScalar = "it reads what other threads change";
  else if (module.options.lanes)
    schedule.lanes = unsigned(module.options.lanes);
  else if (isScatter(loop))
    schedule.whyScalar = "it does little but update scattered elements";
  else if (walksRows(loop))
    schedule.whyScalar = "its inner loop reads rows of different lengths";
  else if (total && *total <= 2)
    schedule.whyScalar = "it has at most two iterations";
  else if (module.calls.contains(body, mustRunAlone))
    schedule.whyScalar = "it prints, is checked for races, or compares and exchanges";
  else
    schedule.lanes = unsigned(std::clamp<int64_t>(int64_t(module.traits.vectorBytes) / getWidestScalar(module, body), 1, 16));

  std::optional<int64_t> innermost = getLength(loop, loop.getRank() - 1);
  // A shorter row is one vector under a constant mask: its elements and neighbors are reached by wide accesses.
  const bool hasRows = schedule.lanes > 1 && visitsBlocks(loop) && innermost && *innermost > 0;
  if (hasRows && *innermost < int64_t(schedule.lanes)) schedule.lanes = unsigned(llvm::bit_ceil(uint64_t(*innermost)));

  double perVector = CostModel(module).getCost(body) * 0.5 + 2;
  double iterations = kChunkCycles / perVector * double(schedule.lanes);
  schedule.grain = int64_t(std::clamp(iterations, 16.0, double(1 << 20)));
  schedule.separateTail = schedule.lanes > 1 &&
                          module.functions.getSize(body) <= (loop.getMaxThreads() == 1 ? kSeparateTailSizeOfOneThread : kSeparateTailSize);
  schedule.perLaneIndices = schedule.lanes > 1 && loop.getRank() > 1 && innermost && *innermost < int64_t(schedule.lanes) && !hasRows;
  // Chunks begin at multiples of the number of lanes, so all runs fill vectors if the innermost axis does.
  schedule.isEven = schedule.lanes > 1 && innermost && loop.getStep().empty() && *innermost % int64_t(schedule.lanes) == 0;
  for (unsigned axis = loop.getRank(); (schedule.isEven || hasRows) && *innermost <= kShortRow && axis-- > 1;) {
    std::optional<int64_t> length = getLength(loop, axis);
    if (!length || *length == 0 || schedule.whole * *length > std::min(kMaxWhole, schedule.grain / 8)) break;
    schedule.whole *= *length;
    ++schedule.wholeAxes;
  }
  schedule.grain -= schedule.grain % schedule.whole;
  return schedule;
}

} // namespace qd::codegen
