// split_updates.cpp: updates of neighboring elements become loops of their own
//
// In:   parallel loops at the top level of a kernel, for processors.
// Out:  `for i: x[i] += a; x[i + 1] += b` becomes `for i: x[i + 1] += b` and `for i: x[i] += a`: two iterations of each loop never update
//       the same element. What the updates do not need stays in the last loop. The kernel lists the arrays that are assumed unaliased.
// Here: before tasks are split. demote_atomics.cpp then finds nothing to be atomic, and lanes load and store neighbors at once. The
//       gradients of stencils are of this kind.
#include "ir/attributes.h"
#include "ir/memory.h"
#include "passes/accesses.h"
#include "passes/autodiff/remove_dead.h"
#include "passes/demote_atomics.h"
#include "passes/loop_parts.h"
#include "passes/unaliased_arrays.h"

#include "mlir/Pass/Pass.h"

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

#define GEN_PASS_DEF_SPLITUPDATES
#include "passes/passes.h.inc"

namespace {

/// Each loop repeats what its updates need: more loops would cost more than atomic operations.
constexpr size_t kMaxLoops = 32;

class UpdateSplitter {
public:
  explicit UpdateSplitter(ModuleOp module) : functions(module), unaliased(module) {}

  /// Whether a loop was split.
  bool run(KernelOp kernel) {
    bool isSplit = visitBlock(kernel.getBody().front());
    unaliased.addTo(kernel);
    return isSplit;
  }

private:
  /// The updates of each loop that is split off.
  using Parts = llvm::MapVector<IndexPattern, SmallVector<Operation *>, std::map<IndexPattern, unsigned>>;

  bool visitBlock(Block &block) {
    bool isSplit = false;
    for (RepeatOp repeat : block.getOps<RepeatOp>()) isSplit |= visitBlock(repeat.getBody().front());
    for (ForOp loop : llvm::to_vector(block.getOps<ForOp>()))
      if (loop.getParallel() && canRepeat(loop)) isSplit |= split(loop);
    return isSplit;
  }

  bool split(ForOp loop) {
    Parts parts;
    llvm::DenseSet<uint64_t> updated;
    LoopAccesses accesses(loop, functions);
    for (auto &[root, updates] : accesses.atomics) {
      bool isAlone = accesses.isOnlyUpdated(root) && !unaliased.getAliased().contains(root.id);
      if (isAlone && addParts(loop, updates, parts)) {
        updated.insert(root.id);
      } else if (!llvm::all_of(updates, [](AtomicOp update) { return update.use_empty(); })) {
        // A loop without the operation reads the old value of an element that no other iteration changes.
        SmallVector<IndexPattern> patterns = llvm::map_to_vector(updates, [&](AtomicOp update) { return findOwnPattern(loop, update); });
        if (!isAlone || updates.size() > 1 || patterns[0].empty()) return false;
      }
    }
    llvm::DenseSet<Operation *> moved;
    for (auto &[pattern, updates] : parts) moved.insert(updates.begin(), updates.end());
    if (parts.size() < 2 || parts.size() > kMaxLoops || readsAfterWriting(loop, moved)) return false;
    unaliased.require(updated);
    // The loop itself keeps the updates of the first pattern, and all other writes.
    for (auto &[pattern, updates] : llvm::drop_begin(parts)) {
      IRMapping map;
      addPart(loop, updates, map);
    }
    for (auto &[pattern, updates] : llvm::drop_begin(parts))
      for (Operation *update : updates) update->erase();
    return true;
  }

  static IndexPattern findOwnPattern(ForOp loop, AtomicOp update) {
    ElementOp element = findElement(update.getRef());
    return element ? findPattern(element, &loop.getBody().front()) : IndexPattern();
  }

  /// Adds the updates of a container if each is a sum and each of an iteration's own elements, and not all have one pattern.
  static bool addParts(ForOp loop, ArrayRef<AtomicOp> updates, Parts &parts) {
    SmallVector<IndexPattern> patterns;
    for (AtomicOp update : updates) {
      IndexPattern pattern = findOwnPattern(loop, update);
      if (pattern.empty() || !update.isSum() || !update.use_empty()) return false;
      patterns.push_back(pattern);
    }
    if (llvm::all_equal(patterns)) return false;
    for (auto [update, pattern] : llvm::zip(updates, patterns)) parts[pattern].push_back(update);
    return true;
  }

  FunctionAccesses functions;
  UnaliasedArrays unaliased;
};

struct SplitUpdatesPass : impl::SplitUpdatesBase<SplitUpdatesPass> {
  void runOnOperation() override {
    bool isSplit = false;
    for (KernelOp kernel : getOperation().getOps<KernelOp>()) isSplit |= UpdateSplitter(getOperation()).run(kernel);
    if (isSplit) removeDead(getOperation());
  }
};

} // namespace

} // namespace qd::passes
