// accesses.cpp: find the memory that places belong to, and how loops and functions access it
//
// In:   places of the IR, parallel loops, functions.
// Out:  the memory of a place (Root); the memory that a loop or function accesses, and by which kind of access.
// Here: the passes that demote, privatize and check atomics share this analysis.
#include "passes/accesses.h"

#include "ir/attributes.h"
#include "ir/memory.h"

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

static uint64_t getTensorId(TensorArgumentOp argument) {
  auto type = cast<ir::TensorType>(argument.getType());
  bool isArray = type.getExtents().empty() || llvm::is_contained(type.getExtents(), layout::kDynamic);
  return argument.getField() || isArray ? argument.getOffset() : kOverlappingFields;
}

Root findRoot(Value place) {
  Operation *base = findBase(place).getDefiningOp();
  if (auto argument = dyn_cast_or_null<TensorArgumentOp>(base); argument && !argument->hasAttr(kOverlaps))
    return {Root::Kind::Tensor, getTensorId(argument)};
  if (auto shared = dyn_cast_or_null<SharedOp>(base)) return {Root::Kind::Shared, shared.getNumber()};
  if (auto scratch = dyn_cast_or_null<ScratchOp>(base)) return {Root::Kind::Scratch, scratch.getOffset()};
  if (isa_and_nonnull<LocalOp>(base)) return {Root::Kind::Local, uint64_t(reinterpret_cast<uintptr_t>(base))};
  return {};
}

const FunctionAccesses::Summary &FunctionAccesses::get(CallOp of) {
  FuncOp function = calls.lookup(of);
  auto [entry, isNew] = summaries.try_emplace(function);
  if (!function || !isNew) return entry->second;
  Summary summary;
  function.walk([&](Operation *op) {
    if (auto argument = dyn_cast<TensorArgumentOp>(op)) summary.touched.insert(getTensorId(argument));
    if (auto access = dyn_cast<MemoryAccessOpInterface>(op); access && access.isAtomic())
      if (Root root = findRoot(access.getRef()); root.kind == Root::Kind::Tensor) summary.atomics.insert(root.id);
    if (auto call = dyn_cast<CallOp>(op)) {
      const Summary &callee = get(call);
      summary.touched.insert(callee.touched.begin(), callee.touched.end());
      summary.atomics.insert(callee.atomics.begin(), callee.atomics.end());
      // Containers and places passed as arguments are not followed into the callee: assume atomics on them.
      for (Value operand : call.getArguments())
        if (isa<RefType, ir::TensorType>(operand.getType()))
          if (Root root = findRoot(operand); root.kind == Root::Kind::Tensor) summary.atomics.insert(root.id);
    }
  });
  return summaries[function] = std::move(summary);
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
    if (auto atomic = dyn_cast<AtomicOp>(op)) {
      atomics[findRoot(atomic.getRef())].push_back(atomic);
    } else if (auto part = dyn_cast<CompareExchangeOp>(op); part && part.getPart()) {
      touched.insert(findRoot(part.getRef()));
      packed[findRoot(part.getRef())].push_back(part);
    } else if (auto access = dyn_cast<MemoryAccessOpInterface>(op)) {
      access.isAtomic() ? exchange(findRoot(access.getRef())) : void(touched.insert(findRoot(access.getRef())));
    } else if (auto call = dyn_cast<CallOp>(op)) {
      const FunctionAccesses::Summary &callee = functions.get(call);
      for (uint64_t offset : callee.touched) touched.insert({Root::Kind::Tensor, offset});
      for (uint64_t offset : callee.atomics) exchanged.insert({Root::Kind::Tensor, offset});
      for (Value operand : call.getArguments())
        if (isa<RefType, ir::TensorType>(operand.getType())) exchange(findRoot(operand));
    }
  });
}

} // namespace qd::passes
