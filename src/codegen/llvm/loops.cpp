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

/// Nests up to this size are emitted twice.
constexpr double kVersionedSize = 64;

void BodyEmitter::emitFor(ir::ForOp op) {
  llvm::Value *before = mask;
  function->addFnAttr(kHasInnerLoops);
  if (llvm::Value *isLong = findLongNest(op)) {
    auto emitVersion = [&](NestVersion version) {
      llvm::SaveAndRestore nest(nestVersion, version);
      mask = before;
      emitNest(op);
    };
    // No branch weights: a long nest is rare, but takes most of the time.
    emitWhen(isLong, "nest.long", [&] { emitVersion(NestVersion::Long); }, [&] { emitVersion(NestVersion::Short); });
  } else {
    emitNest(op);
  }
  narrowAfter(op, before);
}

void BodyEmitter::emitNest(ir::ForOp op) {
  llvm::BasicBlock *exit = makeBlock("for.end");
  scopes.push_back({Scope::Kind::Loop, exit});
  if (isDivergent(op)) scopes.back().live = makeLive("live.loop");
  emitForAxis(op, 0, exit);
  scopes.pop_back();
  moveTo(exit);
}

//--- Short and long nests ---

/// Whether a value that the nest computes is available before the nest; emits its computation there if necessary.
bool BodyEmitter::hoist(Value value, ir::ForOp nest) {
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
  emitOp(op);
  return true;
}

/// Whether some lane has more than `maxRounds` iterations or, if lanes have different ends, whether its index could wrap around within that
/// many.
llvm::Value *BodyEmitter::isLongAxis(ir::ForOp op, unsigned axis, double maxRounds) {
  Component lower = getScalar(op.getLower()[axis]), upper = getScalar(op.getUpper()[axis]);
  Type type = op.getLower()[axis].getType();
  const int64_t step = op.getStep().empty() ? 1 : *ir::findInteger(op.getStep()[axis]);
  const bool isScalar = lower.kind.isUniform() && upper.kind.isUniform(), isSigned = type.isSignedInteger(), isDown = isSigned && step < 0;
  llvm::Value *first = isScalar ? lower.value : toVector(lower), *end = isScalar ? upper.value : toVector(upper);
  llvm::Value *last = emitBinary(isDown ? ir::BinaryKind::min : ir::BinaryKind::max, type, type, first, end);
  llvm::Value *distance = isDown ? builder.CreateSub(first, last) : builder.CreateSub(last, first); // 0 if there is no iteration
  const unsigned bits = type.getIntOrFloatBitWidth();
  const llvm::APInt length(bits, uint64_t(maxRounds * std::abs(double(step))));
  llvm::Value *isLong = builder.CreateICmpUGT(distance, llvm::ConstantInt::get(distance->getType(), length));
  if (isScalar) return isLong;
  llvm::APInt bound = isDown     ? llvm::APInt::getSignedMinValue(bits) + length
                      : isSigned ? llvm::APInt::getSignedMaxValue(bits) - length
                                 : llvm::APInt::getMaxValue(bits) - length;
  llvm::Value *isNearEnd =
      emitBinary(isDown ? ir::BinaryKind::lt : ir::BinaryKind::gt, type, type, last, llvm::ConstantInt::get(last->getType(), bound));
  return isAny(builder.CreateAnd(getMask(), builder.CreateOr(isLong, isNearEnd)));
}

/// The condition that a small nest is long; null if there is one version only. Small nests whose ends are known before they begin are
/// emitted twice. The short version is for nests with few iterations and ends far from the limits of their types. It never polls for
/// cancellation and compares indices with the ends, so it is as fast as a nest without these concerns.
llvm::Value *BodyEmitter::findLongNest(ir::ForOp op) {
  if (module.traits.hasGrids || isPartialVector || nestVersion == NestVersion::Short || (nestVersion == NestVersion::Long && lanes > 1))
    return nullptr;
  llvm::SmallVector<std::pair<ir::ForOp, unsigned>, 4> axes;
  double work = double(std::max<int64_t>(module.getSize(op.getBody()), 1));
  if (work > kVersionedSize) return nullptr;
  bool isKnown = !module.containsDeep(op.getBody(), llvm::IsaPred<ir::WhileOp, ir::CallOp>);
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
  double maxRounds = std::floor(std::pow(module.getPolling(op, 0).workBeforePoll / work, 1.0 / double(axes.size())));
  if (maxRounds < kFreeRounds) return nullptr;
  auto isThere = [&](Value end) { return hoist(end, op); };
  for (auto [loop, axis] : axes)
    if (!isThere(loop.getLower()[axis]) || !isThere(loop.getUpper()[axis])) return nullptr;
  llvm::Value *isLong = builder.getFalse();
  for (auto [loop, axis] : axes) isLong = builder.CreateOr(isLong, isLongAxis(loop, axis, maxRounds));
  return isLong;
}

//--- Loops ---

void BodyEmitter::setUnrolling(llvm::Instruction *back, unsigned rounds) {
  auto name = [&](llvm::StringRef text) { return llvm::MDString::get(module.ctx, text); };
  llvm::MDNode *hint =
      rounds == 1
          ? llvm::MDNode::get(module.ctx, name("llvm.loop.unroll.disable"))
          : llvm::MDNode::get(module.ctx, {name("llvm.loop.unroll.count"), llvm::ConstantAsMetadata::get(builder.getInt32(rounds))});
  llvm::MDNode *hints = llvm::MDNode::getDistinct(module.ctx, {nullptr, hint});
  hints->replaceOperandWith(0, hints);
  back->setMetadata(llvm::LLVMContext::MD_loop, hints);
}

/// Number of iterations of an inner loop to unroll; 0: LLVM decides. Long loops with a short body are unrolled on targets whose threads
/// have no other work while they wait. LLVM unrolls loops with a small constant number of iterations completely.
unsigned BodyEmitter::chooseUnrolling(ir::ForOp op) {
  int64_t size = module.getSize(op.getBody());
  if (!module.traits.hasGrids || size > kUnrolledSize) return 0;
  std::optional<int64_t> lower = ir::findInteger(op.getLower().back()), upper = ir::findInteger(op.getUpper().back());
  if (lower && upper && *upper - *lower <= kUnrolledSize) return 0;
  auto isLong = llvm::IsaPred<ir::ForOp, ir::WhileOp, ir::CallOp, ir::PrintOp, ir::AssertOp>;
  if (module.containsDeep(op.getBody(), [&](Operation *inner) { return isLong(inner); })) return 0;
  return std::clamp(unsigned(llvm::bit_floor(uint64_t(kUnrolledTotal / std::max<int64_t>(size, 1)))), 4u, kMaxUnrolledRounds);
}

/// Distance that a strip covers: `rounds` steps, or as many as the type can count. Null if the step is no nonzero constant, or too large.
static llvm::ConstantInt *getStripLength(const llvm::ConstantInt *step, bool isUnsigned, double rounds) {
  if (!step || step->isZero()) return nullptr;
  const llvm::APInt &value = step->getValue();
  llvm::APInt length = isUnsigned ? value : value.abs(), maxCount = llvm::APInt::getSignedMaxValue(value.getBitWidth()).udiv(length);
  if (maxCount.isZero()) return nullptr;
  llvm::APInt count = maxCount.ugt(uint64_t(rounds)) ? llvm::APInt(value.getBitWidth(), uint64_t(rounds)) : maxCount;
  return llvm::ConstantInt::get(step->getContext(), count * length);
}

class AxisLoop {
public:
  AxisLoop(BodyEmitter &in, ir::ForOp op, unsigned axis, llvm::BasicBlock *done)
      : in(in), builder(in.builder), op(op), axis(axis), done(done), type(op.getLower()[axis].getType()), llvmType(in.module.getType(type)),
        live(in.scopes.back().live), before(in.mask) {
    lower = in.getScalar(op.getLower()[axis]), upper = in.getScalar(op.getUpper()[axis]);
    step = op.getStep().empty() ? Component{llvm::ConstantInt::get(llvmType, 1)} : in.getScalar(op.getStep()[axis]);
    kind = getIndexKind(lower.kind, step.kind, op.getStep().empty() ? 1 : ir::findInteger(op.getStep()[axis]));
    uniformTest = lower.kind.isUniform() && upper.kind.isUniform() && step.kind.isUniform();
    constantStep = dyn_cast<llvm::ConstantInt>(step.value);
    isUnsigned = type.isUnsignedInteger();
    isDown = constantStep && !isUnsigned && constantStep->isNegative();
    isUnitStep = constantStep && (constantStep->isOne() || (isDown && constantStep->isMinusOne()));
    const bool mayWrap = !uniformTest && in.nestVersion != BodyEmitter::NestVersion::Short;
    countsRounds = mayWrap && isUnitStep && !kind.isUniform();
    countsDown = mayWrap && !isUnitStep;
  }

  void emit() {
    header = in.makeBlock("for");
    slot = in.makeSlot(in.widen(llvmType, kind), "index");
    builder.CreateStore(asKind(lower), slot);
    if (countsRounds || countsDown) beginCount();
    const Polling polling =
        in.module.traits.hasGrids || in.nestVersion == BodyEmitter::NestVersion::Short ? Polling() : in.module.getPolling(op, axis);
    if (uniformTest && polling.roundsBetween > 1)
      if ((stripLength = getStripLength(constantStep, isUnsigned, polling.roundsBetween))) beginStrips(polling);
    polls = polling.roundsBetween > 0 && !stripLength;
    latch = in.makeBlock("for.next");
    in.continueAt(header);
    beginRound();
    if (axis + 1 == op.getRank())
      in.emitLoopBody(op, op.getBody(), latch);
    else
      in.emitForAxis(op, axis + 1, latch);
    in.moveTo(latch);
    endRound();
    in.mask = before;
  }

private:
  llvm::Value *asKind(const Component &component) { return kind.isVarying() ? in.toVector(component) : component.value; }

  void narrowToLive() {
    if (!live) return;
    llvm::Value *alive = in.loadMask(live);
    in.mask = axis > 0 && before ? builder.CreateAnd(before, alive) : alive;
  }

  /// Whether an index is before the end. The sign of a step that is no constant is known at run time only.
  llvm::Value *test(llvm::Value *at, llvm::Value *end, llvm::Value *by) {
    llvm::Value *isBelow = in.emitBinary(ir::BinaryKind::lt, type, type, at, end);
    if (constantStep && !isDown) return isBelow;
    llvm::Value *isAbove = in.emitBinary(ir::BinaryKind::gt, type, type, at, end);
    if (constantStep) return isAbove;
    return builder.CreateSelect(builder.CreateIsNeg(by), isAbove, isBelow);
  }

  /// The same for uniform indices, as one bit for all lanes.
  llvm::Value *isContinuedAt(llvm::Value *at, llvm::Value *end) {
    llvm::Value *isContinued = test(at, end, step.value);
    narrowToLive();
    return live ? builder.CreateAnd(isContinued, in.isAny(in.mask)) : isContinued;
  }

  /// Distance from an index to the end behind it, and the absolute value of the step, as unsigned numbers.
  std::pair<llvm::Value *, llvm::Value *> measure(llvm::Value *at, llvm::Value *end, llvm::Value *by) {
    llvm::Value *down =
        isUnsigned ? llvm::Constant::getNullValue(llvm::CmpInst::makeCmpResultType(by->getType())) : builder.CreateIsNeg(by);
    return {builder.CreateSelect(down, builder.CreateSub(at, end), builder.CreateSub(end, at)),
            builder.CreateSelect(down, builder.CreateNeg(by), by)};
  }

  /// The next index. With a step other than 1 it may not be representable: the index becomes the end then.
  llvm::Value *advance(llvm::Value *at, llvm::Value *end, llvm::Value *by) {
    if (isUnitStep) return builder.CreateAdd(at, by, "", false, /*HasNSW=*/!isUnsigned);
    llvm::Value *next = builder.CreateAdd(at, by);
    auto [distance, length] = measure(at, end, by);
    return builder.CreateSelect(builder.CreateICmpULE(distance, length), end, next);
  }

  llvm::Value *isLonger(llvm::Value *at, llvm::Value *length) {
    return builder.CreateICmpUGT(measure(at, upper.value, step.value).first, length);
  }

  /// Most loops end within the first strip. The others go through a separate block for each strip.
  void beginStrips(const Polling &polling) {
    llvm::BasicBlock *begin = in.makeBlock("strip");
    builder.CreateCondBr(isContinuedAt(lower.value, upper.value), begin, done);
    in.moveTo(begin);
    stopSlot = in.makeSlot(llvmType, "stop"), nextStrip = in.makeBlock("strip.next");
    builder.CreateStore(upper.value, stopSlot);
    llvm::Value *free = getStripLength(constantStep, isUnsigned, polling.freeRounds);
    builder.CreateCondBr(isLonger(lower.value, free), nextStrip, header, rarely());
    in.moveTo(nextStrip);
    in.leaveIfCanceled();
    llvm::Value *at = builder.CreateLoad(llvmType, slot);
    llvm::Value *end = isDown ? builder.CreateSub(at, stripLength) : builder.CreateAdd(at, stripLength);
    builder.CreateStore(builder.CreateSelect(isLonger(at, stripLength), end, upper.value), stopSlot);
  }

  llvm::MDNode *rarely() { return llvm::MDBuilder(in.module.ctx).createUnlikelyBranchWeights(); }

  /// Computes the distance of each lane to its end; with steps of 1 it is the number of iterations.
  void beginCount() {
    llvm::Value *first = in.toVector(lower), *end = in.toVector(upper), *by = in.toVector(step);
    auto [distance, length] = measure(first, end, by);
    llvm::Constant *none = llvm::Constant::getNullValue(distance->getType());
    // Use max, not select: LLVM would evaluate the condition of a select twice per iteration.
    llvm::Value *last = in.emitBinary(ir::BinaryKind::max, type, type, first, end);
    count = constantStep ? builder.CreateSub(last, isDown ? end : first) : builder.CreateSelect(test(first, end, by), distance, none);
    stepLength = length;
    countSlot = in.makeSlot(in.widen(llvmType), countsDown ? "rest" : "round");
    builder.CreateStore(countsDown ? count : none, countSlot);
  }

  /// Lanes that have not reached their end in this iteration.
  llvm::Value *findUnfinished() {
    if (!countsRounds && !countsDown) return test(in.toVector(index), in.toVector(upper), in.toVector(step));
    counted = builder.CreateLoad(in.widen(llvmType), countSlot);
    return countsDown ? builder.CreateIsNotNull(counted) : builder.CreateICmpULT(counted, count);
  }

  void continueCount() {
    llvm::Value *next = countsDown ? builder.CreateBinaryIntrinsic(llvm::Intrinsic::usub_sat, counted, stepLength)
                                   : builder.CreateAdd(counted, llvm::ConstantInt::get(counted->getType(), 1));
    builder.CreateStore(next, countSlot);
  }

  void beginRound() {
    index = {builder.CreateLoad(in.widen(llvmType, kind), slot), kind};
    llvm::BasicBlock *body = in.makeBlock("for.body");
    llvm::Value *isContinued = nullptr;
    if (stripLength) {
      narrowToLive(); // a strip is never empty
    } else if (uniformTest) {
      isContinued = isContinuedAt(index.value, upper.value);
    } else {
      narrowToLive();
      in.mask = builder.CreateAnd(in.getMask(), findUnfinished());
      isContinued = in.isAny(in.mask);
    }
    stripLength ? (void)builder.CreateBr(body) : (void)builder.CreateCondBr(isContinued, body, done);
    in.moveTo(body);
    in.setValue(op.getBody().getArgument(axis), {index});
  }

  void endRound() {
    if (countsRounds || countsDown) continueCount();
    // A uniform index is before the end of at least one lane.
    bool isInRange = isUnitStep && kind.isUniform() && !isUnsigned;
    llvm::Value *next = uniformTest ? advance(index.value, upper.value, step.value)
                                    : builder.CreateAdd(index.value, asKind(step), "", false, /*HasNSW=*/isInRange);
    builder.CreateStore(next, slot);
    // After the body, so that code at the beginning of the body always runs and can be hoisted out of the loop.
    if (polls) in.leaveIfCanceled();
    llvm::BasicBlock *ended = stripLength ? in.makeBlock("strip.end") : nullptr;
    llvm::Instruction *back = ended ? endRoundOfStrip(next, ended) : builder.CreateBr(header);
    if (unsigned rounds = axis + 1 == op.getRank() ? in.chooseUnrolling(op) : 0) {
      in.setUnrolling(back, rounds);
      in.module.needsManyRegisters = true;
    }
    if (!ended) return;
    in.moveTo(ended);
    builder.CreateCondBr(isContinuedAt(next, upper.value), nextStrip, done, rarely());
  }

  llvm::Instruction *endRoundOfStrip(llvm::Value *next, llvm::BasicBlock *ended) {
    // The strip ends at `stop` exactly, because `advance` does.
    llvm::Value *isContinued = builder.CreateICmpNE(next, builder.CreateLoad(llvmType, stopSlot));
    narrowToLive();
    return builder.CreateCondBr(live ? builder.CreateAnd(isContinued, in.isAny(in.mask)) : isContinued, header, ended);
  }

  BodyEmitter &in;
  llvm::IRBuilder<> &builder;
  ir::ForOp op;
  unsigned axis;
  llvm::BasicBlock *done, *header = nullptr, *latch = nullptr, *nextStrip = nullptr;
  Type type;
  llvm::Type *llvmType;
  llvm::Value *live, *before; ///< slot of the lanes that have not left the loop; the mask around the loop
  Component lower, upper, step, index;
  LaneKind kind = LaneKind::uniform(); ///< kind of the index
  llvm::ConstantInt *constantStep = nullptr;
  bool uniformTest = false, isUnsigned = false, isDown = false, isUnitStep = false, polls = false;
  bool countsRounds = false, countsDown = false;     ///< how lanes with different ends are counted (head of this file)
  llvm::Value *slot = nullptr, *countSlot = nullptr; ///< of the index; of the number of iterations or the remaining distance
  llvm::Value *counted = nullptr,
              *count = nullptr;             ///< value in countSlot in this iteration; number of iterations or total distance per lane
  llvm::Value *stepLength = nullptr;        ///< absolute value of the step per lane
  llvm::ConstantInt *stripLength = nullptr; ///< null: the loop has no strips
  llvm::AllocaInst *stopSlot = nullptr;     ///< end of the current strip
};

void BodyEmitter::emitForAxis(ir::ForOp op, unsigned axis, llvm::BasicBlock *done) { AxisLoop(*this, op, axis, done).emit(); }

} // namespace qd::codegen
