// independent_iterations.h: axes of serial loops along which iterations may run at the same time
#pragma once

#include "ir/call_graph.h"

namespace qd::passes {

/// Compares indices: an axis is independent if every access to a container that the loop writes has the loop's index at the same position.
class IndependentIterations {
public:
  explicit IndependentIterations(mlir::ModuleOp module) : calls(module) {}

  /// Axes of a loop, one bit each.
  struct Axes {
    uint32_t independent = 0; ///< axes along which the order of the iterations does not change the result
    uint32_t neighbors = 0;   ///< independent axes along which neighboring iterations mostly write neighboring elements
  };
  /// What iterations may share without an order.
  struct Shared {
    llvm::DenseSet<mlir::Value> variables; ///< from around the loop, which carry values from iteration to iteration
    bool updates = false;                  ///< elements that the loop only updates atomically, by one kind of operation
  };
  /// The result holds if the containers in `written` are unaliased. The set gets their offsets in the argument block.
  Axes findAxes(ir::ForOp loop, llvm::DenseSet<uint64_t> &written, const Shared &shared) const;
  Axes findAxes(ir::ForOp loop, llvm::DenseSet<uint64_t> &written) const { return findAxes(loop, written, Shared()); }
  /// For a loop over one axis: the one index whose elements all iterations read, although the loop writes them, as `k` in
  /// `x[i, j] = min(x[i, j], x[i, k] + x[k, j])`. The iterations before it are independent, and so are those behind it. Null if there is
  /// none.
  mlir::Value findPivot(ir::ForOp loop, llvm::DenseSet<uint64_t> &written, const Shared &shared) const;

private:
  ir::CallGraph calls;
};

} // namespace qd::passes
