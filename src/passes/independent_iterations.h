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

  /// The axes (bits) along which the order of the loop's iterations shows nowhere, if the containers in `written` share memory with no
  /// other one. These are named by their offsets in the argument block.
  uint32_t findAxes(ir::ForOp loop, llvm::DenseSet<uint64_t> &written) const;

private:
  llvm::DenseMap<mlir::StringAttr, ir::FuncOp> functions;
};

} // namespace qd::passes
