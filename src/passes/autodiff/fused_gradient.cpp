// fused_gradient.cpp: check that a kernel can be fused with its gradient, and avoid clearing gradients for it
//
// In:   a kernel marked `fused`, before and after the derivative is taken.
// Out:  an error unless its only effects are additions to one number; then first additions to a gradient become stores where possible.
// Here: the last call of a tape runs forward and backward in one pass.
#include "passes/autodiff/fused_gradient.h"

#include "ir/attributes.h"
#include "ir/memory.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

/// Whether the operation runs at most once in an iteration: it is a statement of the kernel or of one of its parallel loops, possibly
/// within `if`s.
static bool runsOnce(Operation *op) {
  Operation *around = op->getParentOp();
  while (isa<IfOp>(around)) around = around->getParentOp();
  auto loop = dyn_cast<ForOp>(around);
  return isa<KernelOp>(loop && loop.getParallel() ? loop->getParentOp() : around);
}

LogicalResult requireSum(ModuleOp module, KernelOp kernel) {
  std::optional<uint32_t> target;
  auto isAddition = [&](Operation *op) {
    auto atomic = dyn_cast<AtomicOp>(op);
    TensorArgumentOp argument = atomic ? findContainer(atomic.getRef()) : TensorArgumentOp();
    if (!argument || atomic.needsContent() || !isFloatScalar(atomic.getType()) || !runsOnce(atomic)) return false;
    if (!target) target = argument.getOffset();
    return *target == argument.getOffset();
  };
  auto isEffect = [](Operation *op) {
    bool passesContainer = isa<CallOp>(op) && llvm::any_of(op->getOperands(), isOfContainer);
    return writesContainer(op) || passesContainer || isa<PrintOp, RandomOp, ClockOp>(op) || (isa<AssertOp>(op) && !op->hasAttr(kAlways));
  };
  auto walked = module.walk([&](Operation *op) {
    if (!isEffect(op) || isAddition(op)) return WalkResult::advance();
    op->emitError("a kernel runs together with its gradient where it only adds to one number");
    return WalkResult::interrupt();
  });
  bool readsTarget = false;
  kernel.walk([&](LoadOp load) {
    TensorArgumentOp argument = findContainer(load.getRef());
    readsTarget |= argument && target == argument.getOffset();
  });
  if (walked.wasInterrupted()) return failure();
  if (readsTarget || !target)
    return kernel.emitError("a kernel runs together with its gradient where it adds to a number without reading it");
  return success();
}

namespace {

/// How a kernel uses one gradient.
struct Uses {
  SmallVector<AtomicOp> additions; ///< in program order
  bool hasOtherUses = false;       ///< there are other uses than additions
};

/// The loop that the addition is a statement of, if the loop's indices are those of the element and the loop covers all elements; else
/// null.
ForOp findCoveringLoop(AtomicOp first, uint32_t gradient, uint32_t primal) {
  auto loop = dyn_cast<ForOp>(first->getParentOp());
  auto element = first.getRef().getDefiningOp<ElementOp>();
  if (!loop || !loop.getParallel() || !isa<KernelOp>(loop->getParentOp()) || !element) return {};
  auto type = cast<ir::TensorType>(element.getTensor().getType());
  if (element.getIndices() != ValueRange(loop.getBody().getArguments()) || !loop.getStep().empty()) return {};
  for (unsigned axis = 0; axis < loop.getRank(); ++axis) {
    Value upper = loop.getUpper()[axis];
    auto extent = upper.getDefiningOp<ExtentOp>();
    auto argument = extent ? extent.getTensor().getDefiningOp<TensorArgumentOp>() : TensorArgumentOp();
    bool isOfSame = argument && extent.getAxis() == axis && (argument.getOffset() == gradient || argument.getOffset() == primal);
    std::optional<int64_t> known = findInteger(upper);
    if (findInteger(loop.getLower()[axis]) != 0 || !(isOfSame || (known && *known == type.getExtents()[axis]))) return {};
  }
  return loop;
}

} // namespace

void replaceFirstAdditions(KernelOp kernel, const DenseMap<uint32_t, uint32_t> &primals) {
  llvm::MapVector<uint32_t, Uses> gradients;
  kernel.walk([&](ElementOp element) {
    TensorArgumentOp argument = findContainer(element);
    if (!argument || !primals.contains(argument.getOffset())) return;
    Uses &uses = gradients[argument.getOffset()];
    for (Operation *user : element->getUsers()) {
      auto atomic = dyn_cast<AtomicOp>(user);
      bool isAddition = atomic && atomic.getAtomicKind() == AtomicKind::add && atomic.use_empty();
      isAddition ? uses.additions.push_back(atomic) : void(uses.hasOtherUses = true);
    }
  });
  SmallVector<int32_t> replaced;
  for (auto &[gradient, uses] : gradients) {
    if (uses.hasOtherUses || uses.additions.empty()) continue;
    AtomicOp first = uses.additions.front();
    ForOp loop = findCoveringLoop(first, gradient, primals.lookup(gradient));
    auto isOfSameElement = [&](AtomicOp addition) {
      auto element = addition.getRef().getDefiningOp<ElementOp>();
      return loop->isProperAncestor(addition) && element.getIndices() == ValueRange(loop.getBody().getArguments());
    };
    if (!loop || !llvm::all_of(uses.additions, isOfSameElement)) continue;
    OpBuilder builder(first);
    StoreOp::create(builder, first.getLoc(), first.getValue(), first.getRef());
    first.erase();
    replaced.push_back(int32_t(gradient));
  }
  kernel->setAttr(kReplaces, DenseI32ArrayAttr::get(kernel.getContext(), replaced));
}

} // namespace qd::passes
