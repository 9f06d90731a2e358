// widen_serial_loops.cpp: serial loops with independent iterations run several at once
//
// In:   a kernel whose loops are top-level statements; tensor arguments with attributes about the launch that it is compiled for (many
//       elements, shared memory).
// Out:  serial loops with many independent iterations become parallel loops on one thread. Such loops under an `if` with no other
//       effects become parallel loops on all threads, with no iterations if the condition is false. The kernel lists the assumptions:
//       unaliased arguments (kUnaliased) and extents (kExtents). Serial loops in parallel ones become axes of theirs, or are
//       marked as rows.
// Here: before tasks are split, because parallel loops become tasks.
#include "passes/widen_serial_loops.h"

#include "ir/attributes.h"
#include "passes/independent_iterations.h"
#include "passes/merge_nested_loops.h"
#include "passes/row_loops.h"
#include "passes/unaliased_arrays.h"

#include "mlir/IR/Builders.h"
#include "mlir/Pass/Pass.h"
#include "llvm/ADT/SetOperations.h"
#include "llvm/Support/MathExtras.h"

#include <set>

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

#define GEN_PASS_DECL_WIDENSERIALLOOPS
#define GEN_PASS_DEF_WIDENSERIALLOOPS
#include "passes/passes.h.inc"

namespace {

/// An assumption about an extent, in the order of `kExtents`: offset of the argument, axis, whether it has many elements.
using Extent = std::tuple<int32_t, int32_t, int32_t>;

class Widener {
public:
  Widener(ModuleOp module, KernelOp kernel, bool reassociated)
      : iterations(module), kernel(kernel), reassociated(reassociated), unaliased(module) {}

  void run() {
    visitBlock(kernel.getBody().front());
    unaliased.addTo(kernel);
    SmallVector<int32_t> numbers;
    for (auto [offset, axis, isMany] : extents) numbers.append({offset, axis, isMany});
    if (!numbers.empty()) kernel->setAttr(kExtents, Builder(kernel.getContext()).getDenseI32ArrayAttr(numbers));
  }

private:
  void visitBlock(Block &block) {
    for (RepeatOp repeat : block.getOps<RepeatOp>()) visitBlock(repeat.getBody().front());
    for (ForOp loop : llvm::to_vector(block.getOps<ForOp>())) loop.getParallel() ? mergeNested(loop) : widen(loop);
    for (IfOp branches : llvm::to_vector(block.getOps<IfOp>())) {
      SmallVector<ForOp> loops;
      llvm::DenseSet<uint64_t> written;
      if (!listLoops(branches, loops) || !llvm::all_of(loops, [&](ForOp loop) { return isIndependent(loop, written); })) continue;
      unaliased.require(written);
      OpBuilder builder(branches);
      hoistLoops(branches, {}, builder);
      branches.erase();
    }
  }

  void mergeNested(ForOp loop) {
    llvm::DenseSet<uint64_t> written;
    auto isWorthwhile = [&](ForOp inner, bool reachesNeighbors) { return reachesNeighbors && !hasTransposedAccess(inner, loop); };
    ForOp merged = mergeNest(loop, iterations, unaliased.getAliased(), written, isWorthwhile);
    markRows(merged, iterations, {reassociated}, unaliased.getAliased(), written);
    unaliased.require(written);
  }

  /// Lists the loops under an `if`; false if it contains anything else that cannot be hoisted.
  static bool listLoops(IfOp branches, SmallVectorImpl<ForOp> &loops) {
    for (Region &region : branches->getRegions())
      for (Operation &op : region.getOps()) {
        auto inner = dyn_cast<IfOp>(op);
        auto loop = dyn_cast<ForOp>(op);
        if (loop) loops.push_back(loop);
        if (inner ? !listLoops(inner, loops) : !loop && !isa<YieldOp>(op) && (!isPure(&op) || mayFail(&op))) return false;
      }
    return !loops.empty();
  }

  bool isIndependent(ForOp loop, llvm::DenseSet<uint64_t> &written) {
    llvm::DenseSet<uint64_t> own;
    IndependentIterations::Axes axes = iterations.findAxes(loop, own);
    bool isAliased = llvm::set_intersects(own, unaliased.getAliased());
    written.insert(own.begin(), own.end());
    return !loop.getParallel() && !isAliased && axes.independent == (1u << loop.getRank()) - 1 && isLong(loop.getUpper().back());
  }

  /// Moves all operations under an `if` before the outermost one; the condition becomes part of the loops' bounds.
  static void hoistLoops(IfOp branches, Value guard, OpBuilder &builder) {
    Location loc = branches.getLoc();
    for (Region &region : branches->getRegions()) {
      if (region.empty()) continue;
      Value condition = branches.getCondition();
      if (&region == &branches.getElseRegion()) condition = UnaryOp::create(builder, loc, UnaryKind::logical_not, condition);
      if (guard) condition = BinaryOp::create(builder, loc, BinaryKind::bit_and, guard, condition);
      for (Operation &op : llvm::make_early_inc_range(region.front())) {
        if (isa<YieldOp>(op)) continue;
        if (auto inner = dyn_cast<IfOp>(op)) {
          hoistLoops(inner, condition, builder);
          continue;
        }
        op.moveBefore(builder.getInsertionBlock(), builder.getInsertionPoint());
        auto loop = dyn_cast<ForOp>(op);
        if (!loop) continue;
        OpBuilder ahead(loop);
        Value lower = loop.getLower()[0], upper = loop.getUpper()[0];
        loop.getUpperMutable()[0].set(SelectOp::create(ahead, loc, upper.getType(), condition, upper, lower));
        loop.setParallel(true);
      }
    }
  }

  void widen(ForOp loop) {
    llvm::DenseSet<uint64_t> written;
    IndependentIterations::Axes axes = iterations.findAxes(loop, written);
    if (llvm::set_intersects(written, unaliased.getAliased())) return;
    // Lanes that write elements far apart write them one by one. If most writes are of that kind, they cost more than the lanes gain.
    if (axes.neighbors == 0) return;
    unsigned axis = llvm::Log2_32(axes.neighbors);
    if (!isLong(loop.getUpper()[axis])) return;
    bool isWhole = axes.independent == (1u << loop.getRank()) - 1 && axis + 1 == loop.getRank();
    ForOp outer = isWhole ? loop : interchange(loop, axis);
    outer.setParallel(true);
    outer.setMaxThreads(1);
    unaliased.require(written);
  }

  /// Whether a loop with this upper bound has enough iterations; records the extents that this depends on.
  bool isLong(Value end) {
    while (auto cast = end.getDefiningOp<CastOp>()) end = cast.getOperand();
    if (std::optional<int64_t> known = findInteger(end)) return *known >= artifact::kManyElements;
    auto extent = end.getDefiningOp<ExtentOp>();
    auto argument = extent ? extent.getTensor().getDefiningOp<TensorArgumentOp>() : TensorArgumentOp();
    auto many = argument ? argument->getAttrOfType<IntegerAttr>(kManyAxes) : IntegerAttr();
    if (!many) return false;
    auto axis = int32_t(extent.getAxis());
    bool isMany = many.getInt() >> axis & 1;
    extents.emplace(int32_t(argument.getOffset()), axis, isMany);
    return isMany;
  }

  /// Interchanges loops: one over this axis around one over the other axes.
  static ForOp interchange(ForOp loop, unsigned axis) {
    OpBuilder builder(loop);
    auto outer = ForOp::create(builder, loop.getLoc(), loop.getLower()[axis], loop.getUpper()[axis], ValueRange(), /*parallel=*/false,
                               loop.getBlockDimAttr(), IntegerAttr(), loop.getNameAttr());
    outer->setDiscardableAttrs(loop->getDiscardableAttrDictionary());
    Block &around = outer.getBody().emplaceBlock();
    Value index = around.addArgument(loop.getLower()[axis].getType(), loop.getLoc());
    Block &body = loop.getBody().front();
    body.getArgument(axis).replaceAllUsesWith(index);
    body.eraseArgument(axis);
    builder.setInsertionPointToStart(&around);
    auto without = [&](OperandRange bounds) {
      SmallVector<Value> rest(bounds);
      rest.erase(rest.begin() + axis);
      return rest;
    };
    auto inner = ForOp::create(builder, loop.getLoc(), without(loop.getLower()), without(loop.getUpper()), ValueRange(),
                               /*parallel=*/false, IntegerAttr(), IntegerAttr(), StringAttr());
    inner.getBody().takeBody(loop.getBody());
    YieldOp::create(builder, loop.getLoc());
    loop.erase();
    return outer;
  }

  IndependentIterations iterations;
  KernelOp kernel;
  bool reassociated; ///< sums of floats may be taken in another order
  UnaliasedArrays unaliased;
  std::set<Extent> extents;
};

struct WidenSerialLoopsPass : impl::WidenSerialLoopsBase<WidenSerialLoopsPass> {
  using WidenSerialLoopsBase::WidenSerialLoopsBase;

  void runOnOperation() override {
    for (KernelOp kernel : getOperation().getOps<KernelOp>())
      if (!kernel->hasAttr(kDerivative)) Widener(getOperation(), kernel, reassociated).run();
  }
};

} // namespace

void collectAssumptions(ModuleOp module, artifact::Artifact &artifact) {
  llvm::DenseMap<int32_t, artifact::Input *> inputs;
  for (artifact::Input &input : artifact.inputs) inputs[int32_t(input.offset)] = &input;
  for (KernelOp kernel : module.getOps<KernelOp>()) {
    if (auto unaliased = kernel->getAttrOfType<DenseI32ArrayAttr>(kUnaliased))
      for (int32_t offset : unaliased.asArrayRef()) inputs.at(offset)->isUnaliased = true;
    auto extents = kernel->getAttrOfType<DenseI32ArrayAttr>(kExtents);
    for (ArrayRef<int32_t> rest = extents ? extents.asArrayRef() : ArrayRef<int32_t>(); !rest.empty(); rest = rest.drop_front(3)) {
      artifact::Input &input = *inputs.at(rest[0]);
      (rest[2] ? input.manyAxes : input.fewAxes) |= 1u << rest[1];
    }
    artifact.argumentBytes = kernel.getArgumentBytes();
  }
  llvm::MapVector<uint32_t, artifact::Temporary> temporaries; // each task has arguments of its own
  module.walk([&](TensorArgumentOp argument) {
    auto like = argument->getAttrOfType<IntegerAttr>(kExtentsOf);
    if (!like) return;
    auto type = cast<ir::TensorType>(argument.getType());
    const auto bytes = uint32_t(getComponentCount(type.getElement()) * type.getComponentStride());
    temporaries[argument.getOffset()] = {argument.getOffset(), uint32_t(like.getInt()), bytes, type.getExtents().vec()};
  });
  for (auto &[offset, temporary] : temporaries) artifact.temporaries.push_back(temporary);
}

} // namespace qd::passes
