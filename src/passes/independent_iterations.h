// independent_iterations.h: axes of serial loops along which iterations could as well run at once
#pragma once

#include "ir/dialect.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace qd::passes {

/// Tells it by indices: everything that an iteration writes it finds at its own index, and nobody touches that at another one.
class IndependentIterations {
public:
  explicit IndependentIterations(mlir::ModuleOp module);

  /// Axes of a loop, one bit each.
  struct Axes {
    uint32_t independent = 0; ///< along which the order of the iterations shows nowhere
    uint32_t neighbors = 0;   ///< those of them along which neighbors mostly write neighboring elements
  };
  /// Holds if the containers in `written` share memory with no other one. These are named by their offsets in the argument block.
  Axes findAxes(ir::ForOp loop, llvm::DenseSet<uint64_t> &written) const;

private:
  llvm::DenseMap<mlir::StringAttr, ir::FuncOp> functions;
};

} // namespace qd::passes
