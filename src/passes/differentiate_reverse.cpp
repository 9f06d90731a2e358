// differentiate_reverse.cpp: a kernel becomes the kernel of its adjoints
//
// In:   a kernel marked `reverse`, `replay` or `joined` whose containers name their gradients (kCompanion); exits are flags
// (normalise_exits.cpp). Out:  a kernel that reads what the original reads, writes gradients only, and returns nothing; functions of its
// own. Here: before the tasks are split: an adjoint of a parallel loop is a parallel loop.
#include "ir/attributes.h"
#include "passes/adjoint_builder.h"
#include "passes/joined.h"
#include "passes/lost_values.h"
#include "passes/remove_dead.h"

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
    bool isChanged = false;
    for (KernelOp kernel : llvm::make_early_inc_range(module.getOps<KernelOp>())) {
      auto mode = kernel->getAttrOfType<StringAttr>(kDerivative);
      if (!mode || !llvm::is_contained({"reverse", "replay", "joined"}, mode.getValue())) continue;
      isChanged = true;
      bool isJoined = mode.getValue() == "joined";
      if (mode.getValue() == "replay") prepareReplay(module, kernel);
      if (isJoined && failed(requireSum(module, kernel))) return signalPassFailure();
      DenseMap<uint32_t, uint32_t> primals = listGradients(kernel);
      FailureOr<KernelOp> derived = differentiate(module, kernel, isJoined);
      if (failed(derived)) return signalPassFailure();
      removeDead(module);
      if (isJoined) replaceFirstAdditions(*derived, primals);
    }
    if (!isChanged) return;
    removeUncalled(module);
    chooseBefore(module);
    if (failed(refuseLostValues(module))) return signalPassFailure();
  }

  static LogicalResult refuseLostOrder(ModuleOp module) {
    auto walked = module.walk([](Operation *op) {
      bool isRepeat = isa<RepeatOp>(op);
      if (!isRepeat && !isOfBlock(op)) return WalkResult::advance();
      op->emitError(isRepeat ? "what each round of qd.graph.do_while() found is not known any more when gradients are computed"
                             : "threads that work together have no gradients");
      return WalkResult::interrupt();
    });
    return failure(walked.wasInterrupted());
  }

  /// Offsets: of a gradient → of what it is the gradient of.
  static DenseMap<uint32_t, uint32_t> listGradients(KernelOp kernel) {
    DenseMap<uint32_t, uint32_t> primals;
    kernel.walk([&](TensorArgumentOp argument) {
      if (auto companion = argument->getAttrOfType<ArrayAttr>(kCompanion))
        primals[uint32_t(cast<IntegerAttr>(companion[0]).getInt())] = argument.getOffset();
    });
    return primals;
  }

  static FailureOr<KernelOp> differentiate(ModuleOp module, KernelOp kernel, bool isJoined) {
    if (failed(refuseLostOrder(module))) return failure();
    Activity activity(module);
    markOverwrittenLoads(kernel, activity);
    DerivedFunctions functions(module, activity);
    functions.isJoined = isJoined;
    OpBuilder builder(kernel);
    auto target = cast<KernelOp>(builder.insert(kernel->cloneWithoutRegions()));
    target.getBody().emplaceBlock();
    target.setResultTypesAttr(builder.getArrayAttr({}));
    AdjointBuilder(functions).buildKernel(kernel, target);
    kernel.erase();
    if (functions.hasFailed) return failure();
    return target;
  }

  /// The originals, in so far as nothing calls them any more.
  static void removeUncalled(ModuleOp module) {
    llvm::StringMap<FuncOp> functions;
    for (FuncOp function : module.getOps<FuncOp>()) functions[function.getSymName()] = function;
    DenseSet<Operation *> called;
    SmallVector<Operation *> pending;
    for (KernelOp kernel : module.getOps<KernelOp>()) pending.push_back(kernel);
    while (!pending.empty())
      pending.pop_back_val()->walk([&](CallOp call) {
        FuncOp callee = functions.lookup(call.getCallee());
        if (callee && called.insert(callee).second) pending.push_back(callee);
      });
    for (FuncOp function : llvm::make_early_inc_range(module.getOps<FuncOp>()))
      if (!called.contains(function)) function.erase();
  }
};

} // namespace

} // namespace qd::passes
