// accesses.cpp: find the memory that places belong to, and how loops and functions access it
//
// In:   places of the IR, parallel loops, functions.
// Out:  the memory of a place (Root); the memory that a loop or function accesses, and by which kind of access.
// Here: the passes that demote, privatize and check atomics share this analysis.
#include "passes/accesses.h"

#include "ir/attributes.h"

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

static uint64_t getTensorId(TensorArgumentOp argument) {
  auto type = cast<ir::TensorType>(argument.getType());
  bool isArray = llvm::is_contained(type.getExtents(), layout::kDynamic);
  return argument.getField() || isArray ? argument.getOffset() : kOverlappingFields;
}

Root findRoot(Value place) {
  while (Operation *definition = place.getDefiningOp()) {
    if (auto argument = dyn_cast<TensorArgumentOp>(definition))
      return argument->hasAttr(kOverlaps) ? Root() : Root{Root::Kind::Tensor, getTensorId(argument)};
    if (auto shared = dyn_cast<SharedOp>(definition)) return {Root::Kind::Shared, shared.getNumber()};
    if (auto scratch = dyn_cast<ScratchOp>(definition)) return {Root::Kind::Scratch, scratch.getOffset()};
    if (isa<LocalOp>(definition)) return {Root::Kind::Local, uint64_t(reinterpret_cast<uintptr_t>(definition))};
    if (!isa<ComponentOp, ElementOp, AccumulatorOp, PrivateCopyOp>(definition)) break;
    // The result of each of these ops is part of its first operand.
    place = definition->getOperand(0);
  }
  return {};
}

ElementOp findElement(Value place) {
  while (auto component = place.getDefiningOp<ComponentOp>()) place = component.getRef();
  return place.getDefiningOp<ElementOp>();
}

FunctionAccesses::FunctionAccesses(ModuleOp module) : ctx(module.getContext()) {
  for (FuncOp function : module.getOps<FuncOp>()) functions[function.getSymNameAttr()] = function;
}

const FunctionAccesses::Summary &FunctionAccesses::get(StringRef name) {
  auto [entry, isNew] = summaries.try_emplace(name);
  FuncOp function = isNew ? functions.lookup(StringAttr::get(ctx, name)) : FuncOp();
  if (!function) return entry->second;
  Summary summary;
  function.walk([&](Operation *op) {
    summary.isOfBlock |= ir::isOfBlock(op);
    if (auto argument = dyn_cast<TensorArgumentOp>(op)) summary.touched.insert(getTensorId(argument));
    if (isa<AtomicOp, CompareExchangeOp>(op)) {
      Root root = findRoot(op->getOperand(0));
      if (root.kind == Root::Kind::Tensor) summary.atomics.insert(root.id);
    }
    if (auto call = dyn_cast<CallOp>(op)) {
      const Summary &callee = get(call.getCallee());
      summary.touched.insert(callee.touched.begin(), callee.touched.end());
      summary.atomics.insert(callee.atomics.begin(), callee.atomics.end());
      summary.isOfBlock |= callee.isOfBlock;
      // Containers and places passed as arguments are not followed into the callee: assume atomics on them.
      for (Value operand : call.getArguments())
        if (isa<RefType, ir::TensorType>(operand.getType()))
          if (Root root = findRoot(operand); root.kind == Root::Kind::Tensor) summary.atomics.insert(root.id);
    }
  });
  return summaries[name] = std::move(summary);
}

void forEachParallelLoop(ModuleOp module, llvm::function_ref<void(ForOp)> visit) {
  for (KernelOp kernel : module.getOps<KernelOp>())
    kernel.walk([&](TaskOp task) {
      for (ForOp loop : task.getBody().front().getOps<ForOp>())
        if (loop.getParallel()) visit(loop);
    });
}

LoopAccesses::LoopAccesses(ForOp loop, FunctionAccesses &functions) {
  auto exchange = [&](Root root) {
    touched.insert(root);
    exchanged.insert(root);
  };
  loop.getBody().walk([&](Operation *op) {
    isOfBlock |= ir::isOfBlock(op);
    if (auto load = dyn_cast<LoadOp>(op)) {
      touched.insert(findRoot(load.getRef()));
    } else if (auto store = dyn_cast<StoreOp>(op)) {
      touched.insert(findRoot(store.getRef()));
    } else if (auto atomic = dyn_cast<AtomicOp>(op)) {
      atomics[findRoot(atomic.getRef())].push_back(atomic);
    } else if (auto swap = dyn_cast<CompareExchangeOp>(op)) {
      exchange(findRoot(swap.getRef()));
    } else if (auto call = dyn_cast<CallOp>(op)) {
      const FunctionAccesses::Summary &callee = functions.get(call.getCallee());
      isOfBlock |= callee.isOfBlock;
      for (uint64_t offset : callee.touched) touched.insert({Root::Kind::Tensor, offset});
      for (uint64_t offset : callee.atomics) exchanged.insert({Root::Kind::Tensor, offset});
      for (Value operand : call.getArguments())
        if (isa<RefType, ir::TensorType>(operand.getType())) exchange(findRoot(operand));
    }
  });
}

} // namespace qd::passes
