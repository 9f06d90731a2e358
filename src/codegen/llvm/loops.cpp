// loops.cpp: `for` loops inside a task
//
// A uniform or linear index is one scalar, a varying index is a vector. If the index of one lane could reach its end and then wrap around
// while other lanes still run, it is not compared with the end. Instead, iterations are counted and compared with the number of iterations
// of each lane or, if the step is not 1, the remaining distance of each lane is reduced by the step.
//
// A loop that may be long polls for cancellation. A loop with a uniform end runs in strips and polls between them, so that the inner loop
// has one exit and no call between its stores; other loops poll in each iteration. Small nests get a second version without polls, which
// runs when they are short.
#include "codegen/llvm/body.h"
#include "codegen/llvm/lane_rules.h"
#include "codegen/llvm/tasks.h"
#include "ir/attributes.h"
#include "ir/memory.h"

#include "llvm/IR/Constants.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/Support/SaveAndRestore.h"

#include <cmath>

using namespace mlir;

namespace qd::codegen {

/// Loops with bodies up to this size are unrolled.
constexpr int64_t kUnrolledSize = 64;
/// Maximum size of an unrolled loop: its loads wait together, but it still fits the instruction cache.
constexpr int64_t kUnrolledTotal = 768;
constexpr unsigned kMaxUnrolledRounds = 16;
/// The same for a loop of a long task, which has many loops: more iterations at a time would take registers from all of them.
constexpr unsigned kUnrolledRoundsOfLongTasks = 4;
/// Iterations of a loop of one thread whose first loads wait together.
constexpr unsigned kSearchRounds = 4;

/// Nests up to this size are emitted twice.
constexpr double kVersionedSize = 64;

/// Whether a loop reaches elements and components of up to two bytes only, and computes nothing longer from them: its vectors have room for
/// twice the lanes.
static bool computesInShortWords(ModuleEmitter &module, ir::ForOp op) {
  llvm::DenseSet<Value> computed;
  auto isLong = [&](Type type) { return module.getByteSize(ir::getScalar(type)) > 2; };
  const bool hasLong = ir::containsOp(op, [&](Operation *inner) {
    auto load = dyn_cast<ir::LoadOp>(inner);
    const bool reaches = isa<ir::ElementOp, ir::ComponentOp>(inner) || (load && !isLong(load.getType()));
    if (!reaches && llvm::none_of(inner->getOperands(), [&](Value operand) { return computed.contains(operand); })) return false;
    for (Value result : inner->getResults()) {
      computed.insert(result);
      auto place = dyn_cast<ir::RefType>(result.getType());
      if (isLong(place ? place.getPointee() : result.getType())) return true;
    }
    return false;
  });
  return !hasLong && !computed.empty();
}

void ControlFlow::emitFor(ir::ForOp op) {
  if (in.lanes == 1 && body.rowLanes > 1 && op->hasAttr(ir::kRows)) return emitRowLoop(op, body.rowLanes);
  if (in.lanes == 1 && op->hasAttr(ir::kLanes) && !module.options.lanes) {
    const bool isShort = module.traits.hasShortCompress && computesInShortWords(module, op);
    const unsigned lanes = chooseLanes(module, op.getBody()) * (isShort ? 2 : 1);
    llvm::Value *condition = findLaneCondition(op);
    if (!condition) return emitRowLoop(op, lanes);
    return in.emitWhen(condition, "lanes", [&] { emitRowLoop(op, lanes); }, [&] { emitLoop(op); });
  }
  emitLoop(op);
}

void ControlFlow::emitLoop(ir::ForOp op) {
  llvm::Value *before = in.mask;
  in.function->addFnAttr(kHasInnerLoops);
  if (llvm::Value *isLong = findLongNest(op)) {
    auto emitVersion = [&](NestVersion version) {
      llvm::SaveAndRestore nest(nestVersion, version);
      in.mask = before;
      emitNest(op);
    };
    // No branch weights: a long nest is rare, but takes most of the time.
    in.emitWhen(isLong, "nest.long", [&] { emitVersion(NestVersion::Long); }, [&] { emitVersion(NestVersion::Short); });
  } else {
    emitNest(op);
  }
  narrowAfter(op, before);
}

void ControlFlow::emitNest(ir::ForOp op) {
  llvm::BasicBlock *exit = in.makeBlock("for.end");
  scopes.push_back({Scope::Kind::Loop, exit});
  if (in.isDivergent(op)) scopes.back().live = makeLive("live.loop");
  emitForAxis(op, 0, exit);
  scopes.pop_back();
  in.moveTo(exit);
}

//--- Short and long nests ---

/// Whether a value that the nest computes is available before the nest; emits its computation there if necessary.
bool ControlFlow::hoist(Value value, ir::ForOp nest) {
  if (!nest->getRegion(0).isAncestor(value.getParentRegion())) return true;
  Operation *op = value.getDefiningOp();
  if (auto binary = dyn_cast_or_null<ir::BinaryOp>(op)) {
    using enum ir::BinaryKind;
    if (!llvm::is_contained({add, sub, mul, min, max}, binary.getBinaryKind())) return false;
  } else if (auto unary = dyn_cast_or_null<ir::UnaryOp>(op)) {
    if (unary.getUnaryKind() != ir::UnaryKind::neg) return false;
  } else if (!isa_and_nonnull<ir::ConstantOp, ir::ArgumentOp, ir::ExtentOp, ir::CastOp>(op)) {
    return false;
  }
  if (!llvm::all_of(op->getOperands(), [&](Value operand) { return hoist(operand, nest); })) return false;
  body.emitOp(op);
  return true;
}

/// Whether some lane has more than `maxRounds` iterations or, if lanes have different ends, whether its index could wrap around within that
/// many.
llvm::Value *ControlFlow::isLongAxis(ir::ForOp op, unsigned axis, double maxRounds) {
  Component lower = values.getScalar(op.getLower()[axis]), upper = values.getScalar(op.getUpper()[axis]);
  Type type = op.getLower()[axis].getType();
  const int64_t step = op.getStep().empty() ? 1 : *ir::findInteger(op.getStep()[axis]);
  const bool isScalar = lower.kind.isUniform() && upper.kind.isUniform(), isSigned = type.isSignedInteger(), isDown = isSigned && step < 0;
  llvm::Value *first = isScalar ? lower.value : in.toVector(lower), *end = isScalar ? upper.value : in.toVector(upper);
  llvm::Value *last = operators.emitBinary(isDown ? ir::BinaryKind::min : ir::BinaryKind::max, type, type, first, end);
  llvm::Value *distance = isDown ? builder.CreateSub(first, last) : builder.CreateSub(last, first); // 0 if there is no iteration
  const unsigned bits = type.getIntOrFloatBitWidth();
  const llvm::APInt length(bits, uint64_t(maxRounds * std::abs(double(step))));
  llvm::Value *isLong = builder.CreateICmpUGT(distance, llvm::ConstantInt::get(distance->getType(), length));
  if (isScalar) return isLong;
  llvm::APInt bound = isDown     ? llvm::APInt::getSignedMinValue(bits) + length
                      : isSigned ? llvm::APInt::getSignedMaxValue(bits) - length
                                 : llvm::APInt::getMaxValue(bits) - length;
  llvm::Value *isNearEnd = operators.emitBinary(isDown ? ir::BinaryKind::lt : ir::BinaryKind::gt, type, type, last,
                                                llvm::ConstantInt::get(last->getType(), bound));
  return in.isAny(builder.CreateAnd(in.getMask(), builder.CreateOr(isLong, isNearEnd)));
}

/// The condition that a small nest is long; null if there is one version only. Small nests whose ends are known before they begin are
/// emitted twice. The short version is for nests with few iterations and ends far from the limits of their types. It never polls for
/// cancellation and compares indices with the ends, so it is as fast as a nest without these concerns.
llvm::Value *ControlFlow::findLongNest(ir::ForOp op) {
  if (module.traits.hasGrids || in.isPartialVector || nestVersion == NestVersion::Short ||
      (nestVersion == NestVersion::Long && in.lanes > 1))
    return nullptr;
  llvm::SmallVector<std::pair<ir::ForOp, unsigned>, 4> axes;
  double work = double(std::max<int64_t>(module.functions.getSize(op.getBody()), 1));
  if (work > kVersionedSize) return nullptr;
  // Long functions outweigh polls, and LLVM inlines them only where a loop is emitted once.
  bool isKnown = !module.calls.contains(op.getBody(),
                                        [](Operation *inner) { return isa<ir::WhileOp, ir::CallOp>(inner) || ir::isLongFunction(inner); });
  op->walk<WalkOrder::PreOrder>([&](ir::ForOp loop) {
    for (unsigned axis = 0; axis < loop.getRank(); ++axis) {
      std::optional<int64_t> lower = ir::findInteger(loop.getLower()[axis]), upper = ir::findInteger(loop.getUpper()[axis]);
      std::optional<int64_t> step = loop.getStep().empty() ? 1 : ir::findInteger(loop.getStep()[axis]);
      unsigned bits = loop.getLower()[axis].getType().getIntOrFloatBitWidth();
      if (lower && upper) {
        work *= std::max(std::abs(double(*upper) - double(*lower)), 1.0);
      } else {
        isKnown &= bits >= 32 && step && *step != 0 && std::abs(double(*step)) <= 64;
        axes.push_back({loop, axis});
      }
    }
  });
  if (!isKnown || axes.empty()) return nullptr;
  double maxRounds = std::floor(std::pow(module.functions.getPolling(op, 0).workBeforePoll / work, 1.0 / double(axes.size())));
  if (maxRounds < kFreeRounds) return nullptr;
  auto isThere = [&](Value end) { return hoist(end, op); };
  for (auto [loop, axis] : axes)
    if (!isThere(loop.getLower()[axis]) || !isThere(loop.getUpper()[axis])) return nullptr;
  llvm::Value *isLong = builder.getFalse();
  for (auto [loop, axis] : axes) isLong = builder.CreateOr(isLong, isLongAxis(loop, axis, maxRounds));
  return isLong;
}

//--- Loops ---

/// Whether an operation reads memory of a container or, with `orShared`, of a block.
static bool loads(Operation *op, bool orShared) {
  return llvm::any_of(ir::listReadPlaces(op), [&](Value place) {
    return ir::isOfContainer(place) && (orShared || !ir::findBase(place).getDefiningOp<ir::SharedOp>());
  });
}

/// Whether an operation runs on one thread of a grid: in a serial task, or in a parallel loop of one iteration.
static bool isOfOneThread(Operation *op) {
  auto task = op->getParentOfType<ir::TaskOp>();
  if (!task || !task.getParallel()) return task != nullptr;
  auto loop = op->getParentOfType<ir::ForOp>();
  while (loop && !loop.getParallel()) loop = loop->getParentOfType<ir::ForOp>();
  if (!loop || loop.getRank() != 1) return false;
  return ir::findLength(loop, 0).value_or(2) <= 1;
}

/// Whether a thread without others beside it looks through containers: the loop loads before it branches, and writes to none of them.
static bool isSearch(ir::ForOp loop) {
  return isOfOneThread(loop) && !ir::containsOp(loop, ir::writesContainer) &&
         llvm::any_of(loop.getBody().front(), [](Operation &op) { return loads(&op, /*orShared=*/true); });
}

using IndexValues = llvm::SmallDenseMap<Value, int64_t>;

/// The value of a bound for these indices of the loops around it.
static std::optional<int64_t> evaluate(Value value, const IndexValues &indices) {
  if (auto found = indices.find(value); found != indices.end()) return found->second;
  auto sum = value.getDefiningOp<ir::BinaryOp>();
  if (!sum || !llvm::is_contained({ir::BinaryKind::add, ir::BinaryKind::sub}, sum.getBinaryKind())) return ir::findInteger(value);
  std::optional<int64_t> lhs = evaluate(sum.getLhs(), indices), rhs = evaluate(sum.getRhs(), indices);
  if (!lhs || !rhs || std::abs(*lhs) > kUnrolledTotal || std::abs(*rhs) > kUnrolledTotal) return std::nullopt;
  return sum.getBinaryKind() == ir::BinaryKind::add ? *lhs + *rhs : *lhs - *rhs;
}

static bool takeUnrolled(ir::ForOp loop, IndexValues &indices, int64_t &rest);

/// Takes the operations of a block in a nest that is unrolled as a whole from `rest`. False if there are more, or if their number is not
/// known.
static bool takeUnrolled(Block &block, IndexValues &indices, int64_t &rest) {
  for (Operation &op : block) {
    if (isa<ir::WhileOp, ir::CallOp, ir::PrintOp, ir::AssertOp>(op) || ir::isLongFunction(&op)) return false;
    rest -= !isa<ir::ConstantOp, ir::ComponentOp>(op);
    if (auto loop = dyn_cast<ir::ForOp>(op)) {
      if (!takeUnrolled(loop, indices, rest)) return false;
      continue;
    }
    for (Region &region : op.getRegions())
      if (!region.empty() && !takeUnrolled(region.front(), indices, rest)) return false;
  }
  return rest >= 0;
}

/// The same for all iterations of a loop.
static bool takeUnrolled(ir::ForOp loop, IndexValues &indices, int64_t &rest) {
  std::optional<int64_t> lower = evaluate(loop.getLower()[0], indices), upper = evaluate(loop.getUpper()[0], indices);
  if (loop.getRank() != 1 || !loop.getStep().empty() || !lower || !upper) return false;
  for (int64_t i = *lower; i < *upper; ++i) {
    indices[loop.getBody().getArgument(0)] = i;
    if (--rest < 0 || !takeUnrolled(loop.getBody().front(), indices, rest)) return false;
  }
  return true;
}

/// Whether a loop is in a nest of constant total length, which reaches components of locals by its indices: unrolled as a whole, these
/// are registers.
static bool isInUnrolledNest(ir::ForOp op) {
  auto isIndexedLocal = [](Operation *inner) {
    auto component = dyn_cast<ir::ComponentOp>(inner);
    return component && !ir::isOfContainer(component) && !llvm::all_of(component->getOperands().drop_front(), ir::findInteger);
  };
  for (ir::ForOp nest = op; nest && !nest.getParallel(); nest = nest->getParentOfType<ir::ForOp>()) {
    int64_t rest = kUnrolledTotal;
    IndexValues indices;
    if (ir::containsOp(nest, isIndexedLocal) && takeUnrolled(nest, indices, rest)) return true;
  }
  return false;
}

/// Number of iterations of an inner loop to unroll; 0: LLVM decides. Loops with a short body are unrolled on targets whose threads have no
/// other work while they wait: completely, if they have a small constant number of iterations, which LLVM's own limits would reject. Loads
/// in branches do not wait together: unrolling would only make such loops longer to begin and end, unless a thread without others beside it
/// loads before it branches.
unsigned ControlFlow::chooseUnrolling(ir::ForOp op) {
  if (module.traits.hasGrids && isInUnrolledNest(op)) return LaneBuilder::kAllRounds;
  int64_t size = std::max<int64_t>(module.functions.getEmittedSize(op.getBody()), 1);
  if (!module.traits.hasGrids || size > kUnrolledSize) return 0;
  auto isLong = llvm::IsaPred<ir::ForOp, ir::WhileOp, ir::CallOp, ir::PrintOp, ir::AssertOp>;
  if (module.calls.contains(op.getBody(), [&](Operation *inner) { return isLong(inner); })) return 0;
  std::optional<int64_t> length = ir::findLength(op, op.getRank() - 1);
  std::optional<int64_t> step = op.getStep().empty() ? 1 : ir::findInteger(op.getStep().back());
  auto isLoad = [](Operation *inner) { return loads(inner, /*orShared=*/true); };
  if (ir::containsOp(op, [&](Operation *inner) { return isa<ir::IfOp>(inner) && ir::containsOp(inner, isLoad); }))
    return length ? 0 : isSearch(op) ? kSearchRounds : 1;
  if (length && step == 1 && *length <= kUnrolledTotal / size) return *length > 1 ? unsigned(*length) : 0;
  unsigned most = module.grids.isLongTask ? kUnrolledRoundsOfLongTasks : kMaxUnrolledRounds;
  return std::clamp(unsigned(llvm::bit_floor(uint64_t(kUnrolledTotal / size))), kUnrolledRoundsOfLongTasks, most);
}

namespace {

/// Bounds and step of one axis of a loop, and the arithmetic of its indices.
class AxisRange {
public:
  AxisRange(LaneBuilder &in, ValueMap &values, Operators &operators, ir::ForOp op, unsigned axis)
      : type(op.getLower()[axis].getType()), llvmType(in.module.getType(type)), lower(values.getScalar(op.getLower()[axis])),
        upper(values.getScalar(op.getUpper()[axis])), builder(in.builder), operators(operators) {
    step = op.getStep().empty() ? Component{llvm::ConstantInt::get(llvmType, 1)} : values.getScalar(op.getStep()[axis]);
    kind = getIndexKind(lower.kind, step.kind, op.getStep().empty() ? 1 : ir::findInteger(op.getStep()[axis]));
    constantStep = step.kind.isUniform() ? dyn_cast<llvm::ConstantInt>(step.value) : nullptr;
    isUnsigned = type.isUnsignedInteger();
    isDown = constantStep && !isUnsigned && constantStep->isNegative();
    isUnitStep = constantStep && (constantStep->isOne() || (isDown && constantStep->isMinusOne()));
  }

  bool isUniform() const { return lower.kind.isUniform() && upper.kind.isUniform() && step.kind.isUniform(); }

  /// Whether an index is before the end. The sign of a step that is no constant is known at run time only.
  llvm::Value *test(llvm::Value *at, llvm::Value *end, llvm::Value *by) {
    llvm::Value *isBelow = operators.emitBinary(ir::BinaryKind::lt, type, type, at, end);
    if (constantStep && !isDown) return isBelow;
    llvm::Value *isAbove = operators.emitBinary(ir::BinaryKind::gt, type, type, at, end);
    if (constantStep) return isAbove;
    return builder.CreateSelect(builder.CreateIsNeg(by), isAbove, isBelow);
  }

  /// Distance from an index to the end behind it, and the absolute value of the step, as unsigned numbers.
  std::pair<llvm::Value *, llvm::Value *> measure(llvm::Value *at, llvm::Value *end, llvm::Value *by) {
    llvm::Value *down =
        isUnsigned ? llvm::Constant::getNullValue(llvm::CmpInst::makeCmpResultType(by->getType())) : builder.CreateIsNeg(by);
    return {builder.CreateSelect(down, builder.CreateSub(at, end), builder.CreateSub(end, at)),
            builder.CreateSelect(down, builder.CreateNeg(by), by)};
  }

  /// The next index. With a step other than 1 it may not be representable: the index becomes the end then.
  llvm::Value *advance(llvm::Value *at) {
    llvm::Value *end = upper.value, *by = step.value;
    if (isUnitStep) return builder.CreateAdd(at, by, "", false, /*HasNSW=*/!isUnsigned);
    llvm::Value *next = builder.CreateAdd(at, by);
    auto [distance, length] = measure(at, end, by);
    return builder.CreateSelect(builder.CreateICmpULE(distance, length), end, next);
  }

  llvm::Value *isLonger(llvm::Value *at, llvm::Value *length) {
    return builder.CreateICmpUGT(measure(at, upper.value, step.value).first, length);
  }

  /// Distance that a strip covers: `rounds` steps, or as many as the type can count. Null if the step is no nonzero constant, or too large.
  llvm::ConstantInt *getStripLength(double rounds) const {
    if (!constantStep || constantStep->isZero()) return nullptr;
    const llvm::APInt &value = constantStep->getValue();
    llvm::APInt length = isUnsigned ? value : value.abs(), maxCount = llvm::APInt::getSignedMaxValue(value.getBitWidth()).udiv(length);
    if (maxCount.isZero()) return nullptr;
    llvm::APInt count = maxCount.ugt(uint64_t(rounds)) ? llvm::APInt(value.getBitWidth(), uint64_t(rounds)) : maxCount;
    return llvm::ConstantInt::get(constantStep->getContext(), count * length);
  }

  Type type;
  llvm::Type *llvmType;
  Component lower, upper, step;
  LaneKind kind = LaneKind::uniform(); ///< of the index
  llvm::ConstantInt *constantStep = nullptr;
  bool isUnsigned = false, isDown = false, isUnitStep = false;

private:
  llvm::IRBuilder<> &builder;
  Operators &operators;
};

/// Finds the lanes that have not reached their ends, if the ends differ (head of this file).
class LaneCounter : EmitterPart {
public:
  LaneCounter(LaneBuilder &in, Operators &operators, AxisRange &range, bool mayWrap) : EmitterPart(in), operators(operators), range(range) {
    if (mayWrap && (!range.isUnitStep || !range.kind.isUniform())) counts = range.isUnitStep ? Rounds : Distance;
  }

  /// Computes the distance of each lane to its end; with steps of 1 it is the number of iterations.
  void begin() {
    if (counts == Nothing) return;
    llvm::Value *first = in.toVector(range.lower), *end = in.toVector(range.upper), *by = in.toVector(range.step);
    auto [distance, length] = range.measure(first, end, by);
    llvm::Constant *none = llvm::Constant::getNullValue(distance->getType());
    // Use max, not select: LLVM would evaluate the condition of a select twice per iteration.
    llvm::Value *last = operators.emitBinary(ir::BinaryKind::max, range.type, range.type, first, end);
    total = range.constantStep ? builder.CreateSub(last, range.isDown ? end : first)
                               : builder.CreateSelect(range.test(first, end, by), distance, none);
    stepLength = length;
    slot = in.makeSlot(in.widen(range.llvmType), counts == Distance ? "rest" : "round");
    builder.CreateStore(counts == Distance ? total : none, slot);
  }

  /// Lanes that have not reached their end in the iteration with this index.
  llvm::Value *findUnfinished(const Component &index) {
    if (counts == Nothing) return range.test(in.toVector(index), in.toVector(range.upper), in.toVector(range.step));
    counted = builder.CreateLoad(in.widen(range.llvmType), slot);
    return counts == Distance ? builder.CreateIsNotNull(counted) : builder.CreateICmpULT(counted, total);
  }

  void advance() {
    if (counts == Nothing) return;
    llvm::Value *next = counts == Distance ? builder.CreateBinaryIntrinsic(llvm::Intrinsic::usub_sat, counted, stepLength)
                                           : builder.CreateAdd(counted, llvm::ConstantInt::get(counted->getType(), 1));
    builder.CreateStore(next, slot);
  }

private:
  Operators &operators;
  AxisRange &range;
  enum { Nothing, Rounds, Distance } counts = Nothing;
  llvm::Value *slot = nullptr;       ///< of the number of iterations or the remaining distance
  llvm::Value *counted = nullptr;    ///< value of the slot in this iteration
  llvm::Value *total = nullptr;      ///< number of iterations or distance of each lane
  llvm::Value *stepLength = nullptr; ///< absolute value of the step per lane
};

} // namespace

/// Emits the loop of one axis, with those of the axes inside it.
class AxisLoop : EmitterPart {
public:
  AxisLoop(ControlFlow &control, ir::ForOp op, unsigned axis, llvm::BasicBlock *done)
      : EmitterPart(control.in), control(control), op(op), axis(axis), done(done),
        isShort(control.nestVersion == ControlFlow::NestVersion::Short), live(control.scopes.back().live), before(control.in.mask),
        range(control.in, control.values, control.operators, op, axis),
        counter(control.in, control.operators, range, /*mayWrap=*/!range.isUniform() && !isShort) {}

  void emit() {
    header = in.makeBlock("for");
    slot = in.makeSlot(in.widen(range.llvmType, range.kind), "index");
    builder.CreateStore(asKind(range.lower), slot);
    counter.begin();
    const Polling polling = module.traits.hasGrids || isShort ? Polling() : module.functions.getPolling(op, axis);
    if (range.isUniform() && polling.roundsBetween > 1)
      if ((stripLength = range.getStripLength(polling.roundsBetween))) beginStrips(polling);
    polls = polling.roundsBetween > 0 && !stripLength;
    llvm::BasicBlock *latch = in.makeBlock("for.next");
    in.continueAt(header);
    beginRound();
    if (axis + 1 == op.getRank())
      control.emitLoopBody(op, op.getBody(), latch);
    else
      control.emitForAxis(op, axis + 1, latch);
    in.moveTo(latch);
    endRound();
    in.mask = before;
  }

private:
  llvm::Value *asKind(const Component &component) { return range.kind.isVarying() ? in.toVector(component) : component.value; }

  void narrowToLive() {
    if (!live) return;
    llvm::Value *alive = control.loadMask(live);
    in.mask = axis > 0 && before ? builder.CreateAnd(before, alive) : alive;
  }

  /// Whether a uniform index is before the end and some lane is live, as one bit for all lanes.
  llvm::Value *isContinuedAt(llvm::Value *at) {
    llvm::Value *isContinued = range.test(at, range.upper.value, range.step.value);
    narrowToLive();
    return live ? builder.CreateAnd(isContinued, in.isAny(in.mask)) : isContinued;
  }

  /// Most loops end within the first strip. The others go through a separate block for each strip.
  void beginStrips(const Polling &polling) {
    llvm::BasicBlock *begin = in.makeBlock("strip");
    builder.CreateCondBr(isContinuedAt(range.lower.value), begin, done);
    in.moveTo(begin);
    stopSlot = in.makeSlot(range.llvmType, "stop"), nextStrip = in.makeBlock("strip.next");
    builder.CreateStore(range.upper.value, stopSlot);
    llvm::Value *free = range.getStripLength(polling.freeRounds);
    builder.CreateCondBr(range.isLonger(range.lower.value, free), nextStrip, header, rarely());
    in.moveTo(nextStrip);
    control.launch.leaveIfCanceled();
    llvm::Value *at = builder.CreateLoad(range.llvmType, slot);
    llvm::Value *end = range.isDown ? builder.CreateSub(at, stripLength) : builder.CreateAdd(at, stripLength);
    builder.CreateStore(builder.CreateSelect(range.isLonger(at, stripLength), end, range.upper.value), stopSlot);
  }

  llvm::MDNode *rarely() { return llvm::MDBuilder(module.ctx).createUnlikelyBranchWeights(); }

  void beginRound() {
    index = {builder.CreateLoad(in.widen(range.llvmType, range.kind), slot), range.kind};
    llvm::BasicBlock *body = in.makeBlock("for.body");
    llvm::Value *isContinued = nullptr;
    if (stripLength) {
      narrowToLive(); // a strip is never empty
    } else if (range.isUniform()) {
      isContinued = isContinuedAt(index.value);
    } else {
      narrowToLive();
      in.mask = builder.CreateAnd(in.getMask(), counter.findUnfinished(index));
      isContinued = in.isAny(in.mask);
    }
    stripLength ? (void)builder.CreateBr(body) : (void)builder.CreateCondBr(isContinued, body, done);
    in.moveTo(body);
    control.values.setValue(op.getBody().getArgument(axis), {index});
  }

  void endRound() {
    counter.advance();
    // A uniform index is before the end of at least one lane.
    bool isInRange = range.isUnitStep && range.kind.isUniform() && !range.isUnsigned;
    llvm::Value *next = range.isUniform() ? range.advance(index.value)
                                          : builder.CreateAdd(index.value, asKind(range.step), "", false, /*HasNSW=*/isInRange);
    builder.CreateStore(next, slot);
    // After the body, so that code at the beginning of the body always runs and can be hoisted out of the loop.
    if (polls) control.launch.leaveIfCanceled();
    llvm::BasicBlock *ended = stripLength ? in.makeBlock("strip.end") : nullptr;
    llvm::Instruction *back = ended ? endRoundOfStrip(next, ended) : builder.CreateBr(header);
    if (unsigned rounds = axis + 1 == op.getRank() ? control.chooseUnrolling(op) : 0) {
      in.setUnrolling(back, rounds);
      module.grids.needsManyRegisters |=
          rounds > 1 && ir::containsOp(op, [](Operation *inner) { return loads(inner, /*orShared=*/false); });
    }
    if (!ended) return;
    in.moveTo(ended);
    builder.CreateCondBr(isContinuedAt(next), nextStrip, done, rarely());
  }

  llvm::Instruction *endRoundOfStrip(llvm::Value *next, llvm::BasicBlock *ended) {
    // The strip ends at `stop` exactly, because `advance` does.
    llvm::Value *isContinued = builder.CreateICmpNE(next, builder.CreateLoad(range.llvmType, stopSlot));
    narrowToLive();
    return builder.CreateCondBr(live ? builder.CreateAnd(isContinued, in.isAny(in.mask)) : isContinued, header, ended);
  }

  ControlFlow &control;
  ir::ForOp op;
  unsigned axis;
  llvm::BasicBlock *done, *header = nullptr, *nextStrip = nullptr;
  const bool isShort;         ///< emitting the version of a short nest
  llvm::Value *live, *before; ///< slot of the lanes that have not left the loop; the mask around the loop
  AxisRange range;
  LaneCounter counter;
  Component index;
  llvm::Value *slot = nullptr; ///< of the index
  bool polls = false;
  llvm::ConstantInt *stripLength = nullptr; ///< null: the loop has no strips
  llvm::AllocaInst *stopSlot = nullptr;     ///< end of the current strip
};

void ControlFlow::emitForAxis(ir::ForOp op, unsigned axis, llvm::BasicBlock *done) { AxisLoop(*this, op, axis, done).emit(); }

} // namespace qd::codegen
