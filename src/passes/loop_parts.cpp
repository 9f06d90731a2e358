// loop_parts.cpp: a loop that runs once more for some of its updates
//
// In:   a parallel loop, and updates in it.
// Out:  whether they may run in a loop of their own before it; that loop.
// Here: split_updates.cpp and gather_updates.cpp take apart what would need atomic operations in one loop.
#include "passes/loop_parts.h"

#include "ir/attributes.h"
#include "ir/memory.h"
#include "passes/accesses.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

/// Longer bodies would cost more than atomic operations.
constexpr int64_t kMaxBody = 200;

bool canRepeat(ForOp loop) {
  int64_t size = 0;
  bool isKnown = !containsOp(loop, [&](Operation *op) {
    ++size;
    auto access = dyn_cast<MemoryAccessOpInterface>(op);
    if (op->hasAttr(kVolatile) || (access && access.isExchange()) || isOfBlock(op)) return true;
    return !isa<LocalOp, LoadOp, StoreOp, AtomicOp, ForOp, IfOp, WhileOp, YieldOp, ConditionOp, ContinueOp, BreakOp>(op) && !isPure(op);
  });
  return isKnown && size <= kMaxBody;
}

/// Whether accesses of a container in loops inside a parallel one reach one element in each iteration, and another one in the next.
static bool haveOwnElements(ArrayRef<Operation *> accesses, ForOp loop) {
  ElementOp first;
  return llvm::all_of(accesses, [&](Operation *op) {
    ElementOp element = findElement(cast<MemoryAccessOpInterface>(op).getRef());
    if (!first) first = element;
    if (!element || !llvm::equal(element.getIndices(), first.getIndices())) return false;
    for (Operation *around = op->getParentOp(); around != loop; around = around->getParentOp()) {
      auto isSelected = [&](Value index) { return llvm::any_of(element.getIndices(), [&](Value own) { return isShifted(own, index); }); };
      auto inner = dyn_cast<ForOp>(around);
      if (isa<WhileOp>(around) || (inner && !llvm::all_of(inner.getBody().getArguments(), isSelected))) return false;
    }
    return true;
  });
}

bool readsAfterWriting(ForOp loop, const llvm::DenseSet<Operation *> &moved) {
  llvm::MapVector<Root, SmallVector<Operation *, 2>> accesses;
  llvm::DenseSet<Root> written, writtenInLoops, read;
  bool isFound = false;
  loop.getBody().walk<WalkOrder::PreOrder>([&](Operation *op) {
    auto access = dyn_cast<MemoryAccessOpInterface>(op);
    Root root = access ? findRoot(access.getRef()) : Root();
    if (!access || root.kind == Root::Kind::Local || moved.contains(op)) return;
    accesses[root].push_back(op);
    isFound |= root.kind == Root::Kind::Unknown;
    if (!access.writes() || !op->use_empty()) {
      read.insert(root);
      isFound |= written.contains(root);
    }
    if (!access.writes()) return;
    written.insert(root);
    Operation *around = op->getParentOp();
    while (around != loop && !isa<ForOp, WhileOp>(around)) around = around->getParentOp();
    if (around != loop) writtenInLoops.insert(root);
  });
  // An inner loop comes back to what it reads before.
  return isFound || llvm::any_of(writtenInLoops, [&](Root root) { return read.contains(root) && !haveOwnElements(accesses[root], loop); });
}

ForOp addPart(ForOp loop, ArrayRef<Operation *> updates, IRMapping &map) {
  OpBuilder builder(loop);
  auto part = cast<ForOp>(builder.clone(*loop, map));
  llvm::DenseSet<Operation *> kept;
  for (Operation *update : updates) kept.insert(map.lookup(update));
  SmallVector<Operation *> dropped;
  part.walk([&](Operation *op) {
    if (writesContainer(op) && !kept.contains(op)) dropped.push_back(op);
  });
  for (Operation *op : dropped) {
    builder.setInsertionPoint(op);
    if (!op->use_empty())
      op->replaceAllUsesWith(LoadOp::create(builder, op->getLoc(), op->getResult(0).getType(), cast<AtomicOp>(op).getRef()));
    op->erase();
  }
  return part;
}

} // namespace qd::passes
