// inline_calls.cpp: inline functions that access given containers
//
// In:   a kernel to be differentiated, and offsets of containers.
// Out:  the kernel without calls of functions that access these containers; recursive calls stay.
// Here: promote_elements.cpp rewrites accesses within one body only.
#include "passes/autodiff/inline_calls.h"

#include "ir/memory.h"
#include "passes/accesses.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

namespace {

class Inliner {
public:
  Inliner(ModuleOp module, KernelOp kernel, const DenseSet<uint32_t> &containers)
      : kernel(kernel), containers(containers), accesses(module) {
    kernel.walk([&](TensorArgumentOp op) { arguments.try_emplace(op.getOffset(), op); });
  }

  void run() {
    SmallVector<CallOp> calls;
    kernel.walk([&](CallOp call) { calls.push_back(call); });
    for (CallOp call : calls) inlineCall(call);
  }

private:
  bool touches(CallOp call) {
    auto isOf = [&](uint64_t offset) { return containers.contains(uint32_t(offset)); };
    return llvm::any_of(accesses.get(call).touched, isOf) || llvm::any_of(listWrittenPlaces(call), [&](Value place) {
             TensorArgumentOp container = findContainer(place);
             return container && containers.contains(container.getOffset());
           });
  }

  void inlineCall(CallOp call) {
    FuncOp callee = accesses.calls.lookup(call);
    auto last = callee ? dyn_cast<ReturnOp>(callee.getBody().front().back()) : ReturnOp();
    if (!last || !touches(call) || !active.insert(callee).second) return;
    OpBuilder builder(call);
    IRMapping values;
    values.map(callee.getBody().getArguments(), call.getArguments());
    SmallVector<CallOp> inner;
    for (Operation &op : callee.getBody().front()) {
      if (&op == last.getOperation()) break;
      if (auto argument = dyn_cast<TensorArgumentOp>(op)) {
        values.map(argument.getResult(), getArgument(argument).getResult());
        continue;
      }
      Operation *copy = builder.clone(op, values);
      copy->walk([&](Operation *made) { made->setLoc(CallSiteLoc::get(made->getLoc(), call.getLoc())); });
      copy->walk([&](CallOp made) { inner.push_back(made); });
    }
    for (auto [output, value] : llvm::zip(call.getOutputs(), last.getValues())) output.replaceAllUsesWith(values.lookupOrDefault(value));
    call.erase();
    for (CallOp made : inner) inlineCall(made);
    active.erase(callee);
  }

  TensorArgumentOp getArgument(TensorArgumentOp like) {
    TensorArgumentOp &known = arguments[like.getOffset()];
    if (!known) known = cast<TensorArgumentOp>(OpBuilder::atBlockBegin(&kernel.getBody().front()).clone(*like));
    return known;
  }

  KernelOp kernel;
  const DenseSet<uint32_t> &containers;
  FunctionAccesses accesses;
  DenseMap<uint32_t, TensorArgumentOp> arguments;
  DenseSet<Operation *> active;
};

} // namespace

void inlineCalls(ModuleOp module, KernelOp kernel, const DenseSet<uint32_t> &containers) { Inliner(module, kernel, containers).run(); }

} // namespace qd::passes
