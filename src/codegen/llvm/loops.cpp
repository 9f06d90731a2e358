// loops.cpp: `for` loops inside a task
//
// An index that all lanes share, or that goes from lane to lane in one step, is one scalar; a varying one is a vector. Where a scalar index
// could come to its end in one lane and go on to wrap around for the sake of the others, rounds are counted and compared with the number
// that each lane has. Where that takes a division by what is no constant, a lane that is at its end keeps its index instead.
//
// A loop that may be long looks now and then whether the launch was given up. One with a uniform end runs in strips and looks between
// them, so that the loop that LLVM sees has one exit and nothing in the way of its stores; others look in each round.
#include "codegen/llvm/body.h"
#include "codegen/llvm/work.h"

#include "llvm/IR/Constants.h"
#include "llvm/IR/MDBuilder.h"

#include <cmath>

using namespace mlir;

namespace qd::codegen {

/// Loops of bodies no larger than this take several rounds at a time.
constexpr int64_t kUnrolledSize = 64;
/// Rounds that are taken together: what they read is waited for together, but they fit the cache of instructions.
constexpr int64_t kUnrolledTotal = 768;
constexpr unsigned kMostUnrolledRounds = 16;

constexpr double kMostRoundsBetweenPolls = 1 << 16;

void BodyEmitter::emitFor(ir::ForOp op) {
  llvm::Value *before = mask;
  function->addFnAttr(kHasInnerLoops);
  llvm::BasicBlock *exit = makeBlock("for.end");
  scopes.push_back({Scope::Kind::Loop, exit});
  if (isDivergent(op)) scopes.back().live = makeLive("live.loop");
  emitForAxis(op, 0, exit);
  scopes.pop_back();
  moveTo(exit);
  narrowAfter(op, before);
}

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

/// Long loops of a short body, on targets whose threads have nothing else to do while they wait. Short ones are unrolled altogether.
/// How many rounds of an inner loop are taken at a time; 0: as LLVM sees fit.
unsigned BodyEmitter::chooseUnrolling(ir::ForOp op) {
  int64_t size = module.getSize(op.getBody());
  if (!module.traits.hasGrids || size > kUnrolledSize) return 0;
  std::optional<int64_t> lower = ir::findInteger(op.getLower().back()), upper = ir::findInteger(op.getUpper().back());
  if (lower && upper && *upper - *lower <= kUnrolledSize) return 0;
  auto isLong = llvm::IsaPred<ir::ForOp, ir::WhileOp, ir::CallOp, ir::PrintOp, ir::AssertOp>;
  if (module.containsDeep(op.getBody(), [&](Operation *inner) { return isLong(inner); })) return 0;
  return std::clamp(unsigned(llvm::bit_floor(uint64_t(kUnrolledTotal / std::max<int64_t>(size, 1)))), 4u, kMostUnrolledRounds);
}

unsigned BodyEmitter::choosePollInterval(ir::ForOp op, unsigned axis) {
  if (module.traits.hasGrids || !module.isLong(op)) return 0;
  // An axis within this one looks by itself when it is long.
  double work = module.getWork(op.getBody());
  for (unsigned inner = axis + 1; inner < op.getRank(); ++inner) {
    std::optional<int64_t> first = ir::findInteger(op.getLower()[inner]), last = ir::findInteger(op.getUpper()[inner]);
    work = std::min(first && last ? work * std::abs(double(*last) - double(*first)) : kWorkBetweenPolls, kWorkBetweenPolls);
  }
  double most = std::min(kMostRoundsBetweenPolls, std::exp2(op.getLower()[axis].getType().getIntOrFloatBitWidth() - 1) - 1);
  return unsigned(std::clamp(kWorkBetweenPolls / std::max(work, 1.0), 1.0, most));
}

/// How far a strip reaches: a number of rounds of a constant step. Null where the type has no such number.
static llvm::Constant *getStripLength(llvm::Type *type, const llvm::ConstantInt *step, bool isUnsigned, unsigned rounds) {
  if (!step || step->isZero()) return nullptr;
  unsigned bits = type->getIntegerBitWidth(), wide = bits + 34;
  llvm::APInt length = (isUnsigned ? step->getValue().zext(wide) : step->getValue().sext(wide).abs()) * rounds;
  return length.isSignedIntN(bits) ? llvm::ConstantInt::get(type, length.trunc(bits)) : nullptr;
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
    countsRounds = !uniformTest && !kind.isUniform() && constantStep && !constantStep->isZero();
    keepsIndex = !uniformTest && kind.isVarying() && !countsRounds;
  }

  void emit() {
    slot = in.makeSlot(in.widen(llvmType, kind), "index");
    builder.CreateStore(asKind(lower), slot);
    if (countsRounds) beginCount();
    unsigned pollInterval = in.choosePollInterval(op, axis);
    if (uniformTest && pollInterval > 1)
      if (llvm::Constant *length = getStripLength(llvmType, constantStep, isUnsigned, pollInterval)) beginStrip(length);
    polls = pollInterval > 0 && !strip;
    header = in.makeBlock("for"), latch = in.makeBlock("for.next");
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

  /// Whether an index is before the end. A step that is no constant may go either way.
  llvm::Value *test(llvm::Value *at, llvm::Value *end, llvm::Value *by) {
    llvm::Value *isBelow = in.emitBinary(ir::BinaryKind::lt, type, type, at, end);
    if (constantStep && !isDown) return isBelow;
    llvm::Value *isAbove = in.emitBinary(ir::BinaryKind::gt, type, type, at, end);
    if (constantStep) return isAbove;
    return builder.CreateSelect(builder.CreateIsNeg(by), isAbove, isBelow);
  }

  /// The same in all lanes.
  llvm::Value *goesOnAt(llvm::Value *at, llvm::Value *end) {
    llvm::Value *goesOn = test(at, end, step.value);
    narrowToLive();
    return live ? builder.CreateAnd(goesOn, in.isAny(in.mask)) : goesOn;
  }

  /// What lies between an index before the end and the end, and the length of a step, as unsigned numbers.
  std::pair<llvm::Value *, llvm::Value *> measure(llvm::Value *at, llvm::Value *end, llvm::Value *by) {
    llvm::Value *down =
        isUnsigned ? llvm::Constant::getNullValue(llvm::CmpInst::makeCmpResultType(by->getType())) : builder.CreateIsNeg(by);
    return {builder.CreateSelect(down, builder.CreateSub(at, end), builder.CreateSub(end, at)),
            builder.CreateSelect(down, builder.CreateNeg(by), by)};
  }

  /// With a longer step the next index may not be representable: then the loop ends at its bound.
  llvm::Value *advance(llvm::Value *at, llvm::Value *end, llvm::Value *by) {
    llvm::Value *next = builder.CreateAdd(at, by);
    if (isUnitStep) return next;
    auto [distance, length] = measure(at, end, by);
    return builder.CreateSelect(builder.CreateICmpULE(distance, length), end, next);
  }

  void beginStrip(llvm::Constant *length) {
    in.continueAt(strip = in.makeBlock("strip"));
    llvm::Value *at = builder.CreateLoad(llvmType, slot);
    llvm::BasicBlock *begin = in.makeBlock("strip.begin");
    builder.CreateCondBr(goesOnAt(at, upper.value), begin, done);
    in.moveTo(begin);
    llvm::AllocaInst *stopSlot = in.makeSlot(llvmType, "stop");
    builder.CreateStore(upper.value, stopSlot);
    auto cut = [&] {
      in.leaveIfCancelled();
      builder.CreateStore(isDown ? builder.CreateSub(at, length) : builder.CreateAdd(at, length), stopSlot);
    };
    // Most loops are over in one.
    llvm::Value *isLonger = builder.CreateICmpUGT(measure(at, upper.value, step.value).first, length);
    in.emitWhen(isLonger, "strip.cut", cut, nullptr, llvm::MDBuilder(in.module.ctx).createUnlikelyBranchWeights());
    stop = builder.CreateLoad(llvmType, stopSlot);
  }

  /// How many rounds each lane has.
  void beginCount() {
    llvm::Value *first = in.toVector(lower), *end = in.toVector(upper), *by = in.toVector(step);
    auto [distance, length] = measure(first, end, by);
    llvm::Constant *none = llvm::Constant::getNullValue(distance->getType()), *one = llvm::ConstantInt::get(distance->getType(), 1);
    if (!isUnitStep) distance = builder.CreateAdd(builder.CreateUDiv(builder.CreateSub(distance, one), length), one);
    count = builder.CreateSelect(test(first, end, by), distance, none);
    roundSlot = in.makeSlot(in.widen(llvmType), "round");
    builder.CreateStore(none, roundSlot);
  }

  void beginRound() {
    index = {builder.CreateLoad(in.widen(llvmType, kind), slot), kind};
    llvm::BasicBlock *body = in.makeBlock("for.body");
    llvm::Value *goesOn = nullptr;
    if (strip) {
      narrowToLive(); // a strip begins before its end
    } else if (uniformTest) {
      goesOn = goesOnAt(index.value, upper.value);
    } else {
      narrowToLive();
      if (countsRounds) round = builder.CreateLoad(in.widen(llvmType), roundSlot);
      unfinished = countsRounds ? builder.CreateICmpULT(round, count) : test(in.toVector(index), in.toVector(upper), in.toVector(step));
      in.mask = builder.CreateAnd(in.getMask(), unfinished);
      goesOn = in.isAny(in.mask);
    }
    strip ? (void)builder.CreateBr(body) : (void)builder.CreateCondBr(goesOn, body, done);
    in.moveTo(body);
    in.setValue(op.getBody().getArgument(axis), {index});
  }

  void endRound() {
    if (countsRounds) builder.CreateStore(builder.CreateAdd(round, llvm::ConstantInt::get(round->getType(), 1)), roundSlot);
    llvm::Value *next, *isOver = nullptr;
    if (uniformTest) {
      next = advance(index.value, upper.value, step.value);
    } else if (keepsIndex) {
      next = builder.CreateSelect(unfinished, advance(index.value, in.toVector(upper), in.toVector(step)), index.value);
    } else if (countsRounds || isUnitStep) {
      next = builder.CreateAdd(index.value, asKind(step));
    } else {
      // What is behind the last number is behind all ends.
      auto add = isUnsigned ? llvm::Intrinsic::uadd_with_overflow : llvm::Intrinsic::sadd_with_overflow;
      llvm::Value *sum = builder.CreateBinaryIntrinsic(add, index.value, step.value);
      next = builder.CreateExtractValue(sum, 0), isOver = builder.CreateExtractValue(sum, 1);
    }
    builder.CreateStore(next, slot);
    // After the body, so that what it begins with is sure to run, and may leave the loop.
    if (polls) in.leaveIfCancelled();
    llvm::Instruction *back = strip    ? builder.CreateCondBr(goesOnAt(next, stop), header, strip)
                              : isOver ? builder.CreateCondBr(isOver, done, header)
                                       : builder.CreateBr(header);
    if (unsigned rounds = axis + 1 == op.getRank() ? in.chooseUnrolling(op) : 0) {
      in.setUnrolling(back, rounds);
      in.module.wantsRegisters = true;
    }
  }

  BodyEmitter &in;
  llvm::IRBuilder<> &builder;
  ir::ForOp op;
  unsigned axis;
  llvm::BasicBlock *done, *header = nullptr, *latch = nullptr;
  llvm::BasicBlock *strip = nullptr; ///< where a strip begins; null: the loop has none
  Type type;
  llvm::Type *llvmType;
  llvm::Value *live, *before; ///< slot of the lanes that have not left the loop; the mask around it
  Component lower, upper, step, index;
  LaneKind kind = LaneKind::uniform(); ///< of the index
  llvm::ConstantInt *constantStep = nullptr;
  bool uniformTest = false, isUnsigned = false, isDown = false, isUnitStep = false, polls = false;
  bool countsRounds = false, keepsIndex = false;     ///< what lanes do that end at different times (see above)
  llvm::Value *slot = nullptr, *roundSlot = nullptr; ///< of the index, and of the number of the round
  llvm::Value *round = nullptr, *count = nullptr;    ///< the number of the round, and how many each lane has
  llvm::Value *unfinished = nullptr;                 ///< lanes that are not at their end in this round
  llvm::Value *stop = nullptr;                       ///< end of the strip
};

void BodyEmitter::emitForAxis(ir::ForOp op, unsigned axis, llvm::BasicBlock *done) { AxisLoop(*this, op, axis, done).emit(); }

} // namespace qd::codegen
