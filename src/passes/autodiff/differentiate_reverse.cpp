// differentiate_reverse.cpp: reverse mode: a kernel becomes the kernel of its adjoints
//
// In:   a kernel marked `reverse`, `replay` or `fused` whose containers name their gradients (kShadow), after normalize_exits.cpp.
// Out:  a kernel that reads what the original reads, writes only gradients and returns nothing, with derived functions of its own. A fused
//       kernel also performs the original's additions.
// Here: before tasks are split: the adjoint of a parallel loop is a parallel loop.
#include "ir/attributes.h"
#include "ir/memory.h"
#include "passes/autodiff/adjoint_builder.h"
#include "passes/autodiff/ascending_loops.h"
#include "passes/autodiff/entry_values.h"
#include "passes/autodiff/forward_variables.h"
#include "passes/autodiff/fused_gradient.h"
#include "passes/autodiff/overwritten_primals.h"
#include "passes/autodiff/promote_elements.h"
#include "passes/autodiff/remove_dead.h"

#include "mlir/Pass/Pass.h"

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {
#define GEN_PASS_DEF_DIFFERENTIATEREVERSE
#include "passes/passes.h.inc"

namespace {

struct DifferentiateReversePass : impl::DifferentiateReverseBase<DifferentiateReversePass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (llvm::none_of(module.getOps<KernelOp>(), isReverse)) return;
    skipCopiesToSelf(module);
    OwningOpRef<ModuleOp> original = updatesElements(module) ? module.clone() : OwningOpRef<ModuleOp>();
    Attempt plain = derive(module);
    bool isGood = plain.isDerived || (original && !plain.overwritten.empty());
    if (original && !plain.overwritten.empty()) isGood = promoteOverwritten(module, *original, plain.overwritten) || plain.isDerived;
    if (!isGood)
      for (Diagnostic &problem : plain.problems) getContext().getDiagEngine().emit(std::move(problem));
    if (!isGood || failed(refuseOverwrittenPrimals(module))) return signalPassFailure();
    noteAssumption(module);
  }

  /// The result of one attempt to take the derivative.
  struct Attempt {
    bool isDerived = false;
    SmallVector<uint32_t> overwritten; ///< offsets of containers of which it needs, or may need, overwritten primals
    std::vector<Diagnostic> problems;  ///< errors, if it could not be taken
  };

  static bool isReverse(KernelOp kernel) {
    auto mode = kernel->getAttrOfType<StringAttr>(kDerivative);
    return mode && llvm::is_contained({"reverse", "replay", "fused"}, mode.getValue());
  }

  /// Whether the derivative may need overwritten primals.
  static bool updatesElements(ModuleOp module) {
    Activity activity(module);
    bool found = false;
    for (KernelOp kernel : module.getOps<KernelOp>())
      if (isReverse(kernel)) markOverwrittenLoads(kernel, activity);
    module.walk([&](Operation *op) {
      auto access = dyn_cast<MemoryAccessOpInterface>(op);
      bool isUpdate = access ? access.isAtomic() && access.needsContent() : isa<CallOp>(op);
      found |=
          (isUpdate && llvm::any_of(listWrittenPlaces(op), isOfContainer)) || op->hasAttr(kOverwritten) || op->hasAttr(kMayBeOverwritten);
      for (StringRef mark : {kOverwritten, kMayBeOverwritten, kIsEntryValue}) op->removeAttr(mark);
    });
    return found;
  }

  /// Promotes elements of the overwritten containers to variables, if the derivative then has all values that it needs. Tries the kinds of
  /// promotion in their order; a fused kernel gets no checks, because it also runs forward.
  static bool promoteOverwritten(ModuleOp module, ModuleOp original, ArrayRef<uint32_t> overwritten) {
    DenseSet<uint32_t> promoted;
    auto add = [&](ArrayRef<uint32_t> more) {
      const size_t before = promoted.size();
      promoted.insert(more.begin(), more.end());
      return promoted.size() != before;
    };
    add(overwritten);
    bool isReplaced = false;
    for (Promotion promotion : {Promotion::Variables, Promotion::Rows, Promotion::Checked}) {
      if (promotion == Promotion::Checked && isFused(original)) break;
      for (bool goesOn = true; goesOn;) {
        OwningOpRef<ModuleOp> copy = original.clone();
        for (KernelOp kernel : copy->getOps<KernelOp>())
          if (isReverse(kernel)) promoteElements(*copy, kernel, promoted, promotion);
        // An unused value has an adjoint of zero, and would be loaded for it.
        removeDead(*copy);
        Attempt attempt = derive(*copy);
        if (attempt.isDerived && !hasOverwritten(*copy)) {
          module.getBodyRegion().takeBody(copy->getBodyRegion());
          isReplaced = true;
        }
        if (attempt.overwritten.empty()) return isReplaced;
        goesOn = add(attempt.overwritten);
      }
    }
    return isReplaced;
  }

  /// Notes the first load whose element may be one that is overwritten later (kAssumesDistinct).
  static void noteAssumption(ModuleOp module) {
    module.walk([&](LoadOp load) {
      TensorArgumentOp container = load->hasAttr(kMayBeOverwritten) ? findContainer(load.getRef()) : TensorArgumentOp();
      if (!container) return WalkResult::advance();
      auto note = ArrayAttr::get(load.getContext(), {StringAttr::get(load.getContext(), container.getName()), LocationAttr(load.getLoc())});
      for (KernelOp kernel : module.getOps<KernelOp>()) kernel->setAttr(kAssumesDistinct, note);
      return WalkResult::interrupt();
    });
  }

  static bool isFused(ModuleOp module) {
    return llvm::any_of(module.getOps<KernelOp>(), [](KernelOp kernel) {
      auto mode = kernel->getAttrOfType<StringAttr>(kDerivative);
      return mode && mode.getValue() == "fused";
    });
  }

  static bool hasOverwritten(ModuleOp module) {
    return containsOp(module, [](Operation *op) { return op->hasAttr(kOverwritten); });
  }

  static Attempt derive(ModuleOp module) {
    Attempt attempt;
    auto collect = [&](Diagnostic &problem) { attempt.problems.push_back(std::move(problem)); };
    ScopedDiagnosticHandler handler(module.getContext(), collect);
    attempt.isDerived = succeeded(derive(module, attempt.overwritten));
    if (!attempt.isDerived) return attempt;
    module.walk([&](LoadOp op) {
      if (!op->hasAttr(kOverwritten) && !op->hasAttr(kMayBeOverwritten)) return;
      if (TensorArgumentOp container = findContainer(op.getRef())) attempt.overwritten.push_back(container.getOffset());
    });
    return attempt;
  }

  static LogicalResult derive(ModuleOp module, SmallVector<uint32_t> &updated) {
    for (KernelOp kernel : llvm::make_early_inc_range(module.getOps<KernelOp>())) {
      if (!isReverse(kernel)) continue;
      StringRef mode = kernel->getAttrOfType<StringAttr>(kDerivative).getValue();
      bool isFused = mode == "fused";
      if (mode == "replay") prepareReplay(module, kernel);
      if (isFused && failed(requireSum(module, kernel))) return failure();
      DenseMap<uint32_t, uint32_t> primals = listGradients(kernel);
      FailureOr<KernelOp> derived = differentiate(module, kernel, isFused, updated);
      if (failed(derived)) return failure();
      removeDead(module);
      if (isFused) replaceFirstAdditions(*derived, primals);
    }
    removeUncalled(module);
    useEntryValues(module);
    forwardVariables(module);
    makeLoopsAscend(module);
    return success();
  }

  static LogicalResult refuseUnknownOrder(ModuleOp module) {
    auto walked = module.walk([](Operation *op) {
      bool isRepeat = isa<RepeatOp>(op);
      if (!isRepeat && !isOfBlock(op)) return WalkResult::advance();
      op->emitError(isRepeat ? "what each round of qd.graph.do_while() found is not known any more when gradients are computed"
                             : "threads that work together have no gradients");
      return WalkResult::interrupt();
    });
    return failure(walked.wasInterrupted());
  }

  /// Offset of each gradient → offset of its primal.
  static DenseMap<uint32_t, uint32_t> listGradients(KernelOp kernel) {
    DenseMap<uint32_t, uint32_t> primals;
    kernel.walk([&](TensorArgumentOp argument) {
      if (auto shadow = argument->getAttrOfType<ArrayAttr>(kShadow))
        primals[uint32_t(cast<IntegerAttr>(shadow[0]).getInt())] = argument.getOffset();
    });
    return primals;
  }

  /// `updated`: gets the offsets of containers with an update that has no derivative.
  static FailureOr<KernelOp> differentiate(ModuleOp module, KernelOp kernel, bool isFused, SmallVector<uint32_t> &updated) {
    if (failed(refuseUnknownOrder(module))) return failure();
    Activity activity(module);
    if (failed(refuseRaces(kernel, activity))) return failure();
    markOverwrittenLoads(kernel, activity);
    DerivedFunctions functions(module, activity);
    functions.isFused = isFused;
    OpBuilder builder(kernel);
    auto target = cast<KernelOp>(builder.insert(kernel->cloneWithoutRegions()));
    target.getBody().emplaceBlock();
    target.setResultTypesAttr(builder.getArrayAttr({}));
    AdjointBuilder(functions).buildKernel(kernel, target);
    kernel.erase();
    updated.append(functions.updated.begin(), functions.updated.end());
    if (functions.hasFailed) return failure();
    return target;
  }

  /// Erases functions that are no longer called, such as the originals of derived ones.
  static void removeUncalled(ModuleOp module) {
    CallGraph calls(module);
    DenseSet<Operation *> called;
    for (KernelOp kernel : module.getOps<KernelOp>())
      calls.contains(kernel.getBody(), [&](Operation *op) {
        called.insert(calls.lookup(op));
        return false;
      });
    for (FuncOp function : llvm::make_early_inc_range(module.getOps<FuncOp>()))
      if (!called.contains(function)) function.erase();
  }
};

} // namespace

} // namespace qd::passes
