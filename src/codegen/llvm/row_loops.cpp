// row_loops.cpp: loops along rows, whose iterations run in lanes inside of code with one lane
//
// In:   a loop that passes/row_loops.cpp or passes/compactions.cpp marked, in a function that is emitted for one lane.
// Out:  rounds of several vectors, vectors, and the remainder under a mask. Locals of the code around that the loop only combines into get
//       a vector each; after the loop its lanes are combined. Counters stay scalars: a vector advances them by the lanes that count.
// Here: a parallel loop has lanes of its own in any other case (cpu/task.cpp).
#include "passes/row_loops.h"
#include "codegen/llvm/body.h"
#include "codegen/llvm/tasks.h"
#include "ir/attributes.h"

#include "llvm/IR/Constants.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;

namespace qd::codegen {

/// Vectors of a round, for short bodies whose sums would wait for each other.
constexpr int64_t kVectorsPerRound = 4, kRepeatedSize = 40;
/// A loop of up to so many vectors is unrolled if its length is known.
constexpr uint64_t kUnrolledVectors = 4;
/// Iterations after which a loop polls for cancellation.
constexpr uint64_t kRowStrip = 1 << 16;

/// Emits one loop along a row.
class RowLoop {
public:
  RowLoop(BodyEmitter &in, ir::ForOp op, unsigned lanes)
      : in(in), at(in.builder), op(op), lanes(lanes), reductions(passes::findLaneReductions(op, in.module.options.fastMath)),
        vectors(!reductions.empty() && in.module.functions.getSize(op.getBody()) <= kRepeatedSize ? kVectorsPerRound : 1) {}

  void emit() {
    axis = getAxes(in, op)[0];
    slot = in.makeSlot(at.getInt64Ty(), "row.index");
    at.CreateStore(at.getInt64(0), slot);
    const BodyFacts &around = *in.facts;
    llvm::SaveAndRestore marked(in.compacts, op->hasAttr(ir::kLanes));
    llvm::SmallVector<Value, 2> locals;
    for (const passes::LaneReduction &reduction : reductions) locals.push_back(reduction.local);
    in.setLanes(lanes, in.module.uniformity.analyzeLoop(op, {LaneKind::linear(1)}, locals));
    beginReductions();
    auto known = dyn_cast<llvm::ConstantInt>(axis.extent);
    known && known->getZExtValue() <= kUnrolledVectors *lanes ? emitUnrolled(known->getZExtValue()) : emitAll();
    combineLanes();
    in.setLanes(1, around);
    endReductions();
  }

private:
  struct Sums {
    Place target;                           ///< the local itself
    llvm::SmallVector<LocalPlace, 4> parts; ///< for each vector of a round
    Components all;                         ///< combined over vectors and lanes
  };

  void beginReductions() {
    for (const passes::LaneReduction &reduction : reductions) {
      Sums &own = sums.emplace_back(Sums{in.values.getPlace(reduction.local), {}, {}});
      Type type = getType(reduction);
      for (int64_t vector = 0; vector < vectors; ++vector) {
        LocalPlace &part = own.parts.emplace_back(makeSum(in, type, in.manyLanes, in.operators.getIdentity(reduction.kind, type)));
        part.isReference = part.isAccumulator = true;
      }
    }
  }

  static Type getType(passes::LaneReduction reduction) { return cast<ir::RefType>(reduction.local.getType()).getPointee(); }

  void combineLanes() {
    for (auto [reduction, own] : llvm::zip(reductions, sums)) {
      Type type = getType(reduction);
      for (const LocalPlace &more : llvm::drop_begin(own.parts)) combineInto(in, reduction.kind, own.parts[0], type, in.memory.load(more));
      own.all = {{in.operators.reduceLanes(reduction.kind, type, in.toVector(in.memory.load(own.parts[0])[0]))}};
    }
  }

  void endReductions() {
    for (auto [reduction, own] : llvm::zip(reductions, sums)) {
      in.values.setPlace(reduction.local, own.target);
      combineInto(in, reduction.kind, own.target, getType(reduction), own.all);
    }
  }

  /// A few iterations, whose number is known: the index of each lane is, too, so that lanes find elements of other lanes by permutations.
  void emitUnrolled(uint64_t count) {
    for (uint64_t first = 0; first < count; first += lanes)
      emitVector(at.getInt64(first), 0, count - first < lanes ? at.getInt64(count - first) : nullptr);
  }

  void emitAll() {
    emitStrips();
    llvm::Value *first = at.CreateLoad(at.getInt64Ty(), slot), *rest = at.CreateSub(axis.extent, first);
    in.emitWhen(at.CreateICmpSGT(rest, at.getInt64(0)), "row.tail", [&] { emitVector(first, 0, rest); });
  }

  /// Whole vectors, with a poll after each strip.
  void emitStrips() {
    llvm::BasicBlock *strip = in.makeBlock("row.strip"), *done = in.makeBlock("row.vectors.end");
    in.continueAt(strip);
    llvm::Value *begin = at.CreateLoad(at.getInt64Ty(), slot), *wholeStrip = at.CreateAdd(begin, at.getInt64(kRowStrip));
    llvm::Value *end = at.CreateBinaryIntrinsic(llvm::Intrinsic::smin, axis.extent, wholeStrip);
    if (vectors > 1) emitVectors(vectors, end);
    emitVectors(1, end);
    llvm::BasicBlock *next = in.makeBlock("row.poll");
    at.CreateCondBr(at.CreateICmpSLT(end, axis.extent), next, done);
    in.moveTo(next);
    in.launch.leaveIfCanceled();
    in.branchTo(strip);
    in.moveTo(done);
  }

  void emitVectors(int64_t count, llvm::Value *end) {
    llvm::BasicBlock *header = in.makeBlock("row.vectors"), *full = in.makeBlock("row.vector"), *done = in.makeBlock("row.next");
    in.continueAt(header);
    llvm::Value *first = at.CreateLoad(at.getInt64Ty(), slot), *width = at.getInt64(uint64_t(count) * in.lanes);
    at.CreateCondBr(at.CreateICmpSGE(at.CreateSub(end, first), width), full, done);
    in.moveTo(full);
    for (int64_t vector = 0; vector < count; ++vector)
      emitVector(at.CreateAdd(first, at.getInt64(uint64_t(vector) * in.lanes)), size_t(vector), nullptr);
    at.CreateStore(at.CreateAdd(first, width), slot);
    in.branchTo(header);
    in.moveTo(done);
  }

  /// Iterations `first` … of the row; only the first `rest` of the lanes if that is not null.
  void emitVector(llvm::Value *first, size_t vector, llvm::Value *rest) {
    for (auto [reduction, own] : llvm::zip(reductions, sums)) in.values.setPlace(reduction.local, own.parts[vector]);
    bool isSigned = axis.type.isSignedInteger();
    llvm::Value *index = at.CreateTrunc(first, axis.lower.value->getType(), "", false, isSigned);
    index = at.CreateAdd(axis.lower.value, index, "", false, isSigned);
    in.values.setValue(op.getBody().getArgument(0), {{index, LaneKind::linear(1)}});
    if (rest)
      in.mask = at.CreateICmpULT(in.toVector({at.getInt32(0), LaneKind::linear(1)}), in.splat(at.CreateTrunc(rest, at.getInt32Ty())));
    in.isPartialVector = rest != nullptr;
    llvm::BasicBlock *next = in.makeBlock("row.iteration.end");
    in.control.emitLoopBody(op, op.getBody(), next);
    in.moveTo(next);
    in.isPartialVector = false;
    in.mask = nullptr;
  }

  BodyEmitter &in;
  llvm::IRBuilder<> &at;
  ir::ForOp op;
  unsigned lanes;
  llvm::SmallVector<passes::LaneReduction, 2> reductions;
  llvm::SmallVector<Sums, 2> sums;
  const int64_t vectors; ///< of a round
  Axis axis;
  llvm::Value *slot = nullptr; ///< of the number of iterations that have run
};

void ControlFlow::emitRowLoop(ir::ForOp op, unsigned lanes) {
  in.function->addFnAttr(kHasInnerLoops);
  // Short rows of whole vectors need no mask.
  const std::optional<int64_t> length = ir::findLength(op, 0);
  const bool isShort = length && *length < passes::kLongRow && *length % passes::kShortestVector == 0;
  RowLoop(body, op, isShort ? std::min(lanes, unsigned(*length & -*length)) : lanes).emit();
}

} // namespace qd::codegen
