// demote_atomics.cpp: atomics without concurrent accesses become plain loads and stores
//
// In:   tasks.
// Out:  no atomics in serial tasks, on locals of an iteration, on elements that only one iteration updates, or on those of a shared array
//       that only one thread updates.
// Here: before reductions are privatized: that pass handles the remaining atomics. Plain accesses to neighboring elements vectorize.
#include "passes/demote_atomics.h"

#include "ir/attributes.h"
#include "ir/memory.h"
#include "passes/accesses.h"

#include "mlir/IR/Builders.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

#define GEN_PASS_DEF_DEMOTEATOMICS
#include "passes/passes.h.inc"

/// Replaces an atomic by a load, the operation and a store.
static void demoteAtomic(AtomicOp atomic) {
  OpBuilder builder(atomic);
  Location loc = atomic.getLoc();
  Value old = LoadOp::create(builder, loc, atomic.getType(), atomic.getRef());
  Value value = atomic.getValue();
  if (atomic.getAtomicKind() != AtomicKind::exchange)
    value = BinaryOp::create(builder, loc, *findKind<BinaryKind>(getOpInfo(atomic.getAtomicKind()).name), old, value);
  StoreOp::create(builder, loc, value, atomic.getRef());
  atomic.replaceAllUsesWith(old);
  atomic.erase();
}

/// Replaces the loop that exchanges a word until no other write came in between by its condition, with a store.
static void demoteExchange(CompareExchangeOp exchange) {
  auto loop = cast<WhileOp>(exchange->getParentOp());
  OpBuilder builder(exchange);
  StoreOp::create(builder, exchange.getLoc(), exchange.getValue(), exchange.getRef());
  exchange.replaceAllUsesWith(exchange.getExpected());
  exchange.erase();
  Block &condition = loop.getConditionRegion().front();
  condition.getTerminator()->erase();
  loop->getBlock()->getOperations().splice(loop->getIterator(), condition.getOperations());
  loop.erase();
}

static ForOp findParallelLoop(Operation *op) {
  auto loop = op->getParentOfType<ForOp>();
  while (loop && !loop.getParallel()) loop = loop->getParentOfType<ForOp>();
  return loop;
}

void demoteOwnAtomics(ModuleOp module) {
  module.walk([](AtomicOp atomic) {
    Root root = findRoot(atomic.getRef());
    if (root.kind == Root::Kind::Local && findParallelLoop(reinterpret_cast<Operation *>(uintptr_t(root.id))) == findParallelLoop(atomic))
      demoteAtomic(atomic);
  });
}

std::optional<ShiftedIndex> findShiftedIndex(Value value, Block *body) {
  ShiftedIndex result;
  for (;;) {
    value = skipWidening(value);
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      result.index = argument;
      return argument.getOwner() == body ? std::optional(result) : std::nullopt;
    }
    Operation *definition = value.getDefiningOp();
    if (definition->hasAttr(kDistinct)) { // different indices of the list select different elements
      value = findElement(cast<LoadOp>(definition).getRef()).getIndices()[0];
      continue;
    }
    std::optional<ConstantSum> sum = splitConstant(value);
    if (!sum || sum->constant != int32_t(sum->constant)) return std::nullopt;
    result.shift += sum->constant;
    value = sum->rest;
  }
}

IndexPattern findPattern(ElementOp element, Block *body) {
  IndexPattern pattern(body->getNumArguments(), {~0u, 0});
  for (auto [axis, index] : llvm::enumerate(element.getIndices()))
    if (auto shifted = findShiftedIndex(index, body)) pattern[shifted->index.getArgNumber()] = {unsigned(axis), shifted->shift};
  if (llvm::any_of(pattern, [](auto place) { return place.first == ~0u; })) pattern.clear();
  return pattern;
}

namespace {

template <typename Op> bool belongToOneIteration(const SmallVector<Op, 2> &atomics, Block *body) {
  IndexPattern first;
  for (Op atomic : atomics) {
    ElementOp element = findElement(atomic.getRef());
    IndexPattern pattern = element ? findPattern(element, body) : IndexPattern();
    if (pattern.empty() || (!first.empty() && pattern != first)) return false;
    first = pattern;
  }
  return true;
}

/// What tells the threads of a block apart in an index: their number, or the loop's index modulo at least as many as they are.
struct ThreadIndex {
  unsigned axis = 0;
  int64_t modulus = 0; ///< 0: the number of the thread
  int64_t shift = 0;

  bool operator==(const ThreadIndex &) const = default;
};

/// The axis whose index differs between the threads of a block that run an iteration at the same time, and how. Empty if there is none.
std::optional<ThreadIndex> findThreadIndex(ElementOp element, ForOp loop) {
  for (auto [axis, index] : llvm::enumerate(element.getIndices())) {
    Value value = skipWidening(index);
    if (value.getDefiningOp<ThreadOp>()) return ThreadIndex{unsigned(axis)};
    auto binary = value.getDefiningOp<BinaryOp>();
    std::optional<int64_t> number = binary ? findInteger(binary.getRhs()) : std::nullopt;
    if (!number || loop.getRank() != 1 || !loop.getStep().empty() || !loop.getBlockDim()) continue;
    bool isMask = binary.getBinaryKind() == BinaryKind::bit_and && llvm::isPowerOf2_64(uint64_t(*number) + 1);
    if (!isMask && binary.getBinaryKind() != BinaryKind::mod) continue;
    int64_t modulus = isMask ? *number + 1 : *number;
    std::optional<ShiftedIndex> shifted = findShiftedIndex(binary.getLhs(), &loop.getBody().front());
    if (shifted && modulus >= int64_t(*loop.getBlockDim())) return ThreadIndex{unsigned(axis), modulus, shifted->shift};
  }
  return std::nullopt;
}

/// Whether the elements of a shared array that atomics update are each one thread's.
bool belongToOneThread(const SmallVector<AtomicOp, 2> &atomics, ForOp loop) {
  std::optional<ThreadIndex> first;
  for (AtomicOp atomic : atomics) {
    ElementOp element = findElement(atomic.getRef());
    std::optional<ThreadIndex> found = element ? findThreadIndex(element, loop) : std::nullopt;
    if (!found || (first && *first != *found)) return false;
    first = found;
  }
  return true;
}

} // namespace

void demoteOwnUpdates(ModuleOp module, const DenseSet<uint32_t> *containers) {
  FunctionAccesses functions(module);
  SmallVector<AtomicOp> own;
  auto isUpdate = [&](AtomicOp atomic) {
    ElementOp element = findElement(atomic.getRef());
    if (!element || (!atomic.isSum() && atomic.getAtomicKind() != AtomicKind::mul)) return false;
    TensorArgumentOp container = findContainer(element);
    return !containers || (container && containers->contains(container.getOffset()));
  };
  for (KernelOp kernel : module.getOps<KernelOp>()) {
    kernel.walk([&](AtomicOp atomic) {
      if (isUpdate(atomic) && !findParallelLoop(atomic)) own.push_back(atomic);
    });
    for (ForOp loop : kernel.getBody().front().getOps<ForOp>()) {
      if (!loop.getParallel()) continue;
      LoopAccesses accesses(loop, functions);
      for (auto &[root, atomics] : accesses.atomics)
        if (root.kind == Root::Kind::Tensor && !accesses.exchanged.contains(root) && belongToOneIteration(atomics, &loop.getBody().front()))
          llvm::copy_if(atomics, std::back_inserter(own), isUpdate);
    }
  }
  llvm::for_each(own, demoteAtomic);
}

namespace {

struct DemoteAtomicsPass : impl::DemoteAtomicsBase<DemoteAtomicsPass> {
  void runOnOperation() override {
    FunctionAccesses functions(getOperation());
    getOperation().walk([](TaskOp task) {
      if (task.getParallel()) return;
      SmallVector<CompareExchangeOp> packed;
      task.walk([&](CompareExchangeOp op) {
        if (op.getPart()) packed.push_back(op);
      });
      llvm::for_each(packed, demoteExchange);
      task.walk(demoteAtomic);
    });
    forEachParallelLoop(getOperation(), [&](ForOp loop) { demoteInLoop(loop, functions); });
  }

  static void demoteInLoop(ForOp loop, FunctionAccesses &functions) {
    LoopAccesses accesses(loop, functions);
    for (auto &[root, atomics] : accesses.atomics) {
      bool isOwn = root.kind == Root::Kind::Local || (root.kind == Root::Kind::Tensor && !accesses.exchanged.contains(root) &&
                                                      belongToOneIteration(atomics, &loop.getBody().front()));
      if (root.kind == Root::Kind::Shared) isOwn = !accesses.exchanged.contains(root) && belongToOneThread(atomics, loop);
      if (isOwn) llvm::for_each(atomics, demoteAtomic);
    }
    for (auto &[root, exchanges] : accesses.packed)
      if (root.kind == Root::Kind::Tensor && !accesses.exchanged.contains(root) && belongToOneIteration(exchanges, &loop.getBody().front()))
        llvm::for_each(exchanges, demoteExchange);
  }
};

} // namespace

} // namespace qd::passes
