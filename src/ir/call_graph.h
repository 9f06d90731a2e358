// call_graph.h: the functions of a module and the calls of them
#pragma once

#include "ir/dialect.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace qd::ir {

/// Whether an operation, or one inside it, `matches`. Calls are not followed.
bool containsOp(mlir::Operation *op, llvm::function_ref<bool(mlir::Operation *)> matches);

/// Valid until a function is erased, or a call is added or erased. Functions that are added later are unknown.
class CallGraph {
public:
  explicit CallGraph(mlir::ModuleOp module);

  /// The function that a qd.call calls; null for other operations.
  FuncOp lookup(mlir::Operation *op) const;
  /// The calls of a function.
  llvm::ArrayRef<CallOp> getCalls(mlir::Operation *function) const;
  /// Whether the region, or a function that it calls directly or indirectly, contains an operation that `matches`.
  bool contains(mlir::Region &region, llvm::function_ref<bool(mlir::Operation *)> matches) const;
  /// The functions that contain an operation that `matches`, or call such a function directly or indirectly.
  llvm::DenseSet<mlir::Operation *> findFunctions(llvm::function_ref<bool(mlir::Operation *)> matches) const;

private:
  llvm::DenseMap<mlir::Attribute, FuncOp> functions; ///< by name
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<CallOp, 2>> calls;
};

} // namespace qd::ir
