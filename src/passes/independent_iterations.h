// independent_iterations.h: serial loops whose iterations could as well run at once
#pragma once

#include "ir/dialect.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace qd::passes {

/// Tells it by indices: everything that an iteration writes it finds at its own indices, and nobody touches that at others.
class IndependentIterations {
public:
  explicit IndependentIterations(mlir::ModuleOp module);

  /// Whether the order of the loop's iterations shows nowhere, if the containers in `written` share memory with no other one. These are
  /// named by their offsets in the argument block.
  bool areIndependent(ir::ForOp loop, llvm::DenseSet<uint64_t> &written) const;

private:
  llvm::DenseMap<mlir::StringAttr, ir::FuncOp> functions;
};

} // namespace qd::passes
