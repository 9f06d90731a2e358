// activity.h: which values of a kernel depend on containers with gradient storage
#pragma once

#include "ir/call_graph.h"

namespace qd::passes {

/// Attribute of a qd.local that replaces elements of a container without gradients: loads from it are constants for the derivative.
inline constexpr llvm::StringLiteral kPassive = "qd.passive";

/// A fixpoint over the module. Functions are analyzed once, for all their callers together.
class Activity {
public:
  explicit Activity(mlir::ModuleOp module);

  /// Whether a float depends on a container with a gradient; for a place or container: whether it may hold such a value.
  bool isActive(mlir::Value value) const { return active.contains(value); }

  const ir::CallGraph calls;

private:
  bool visit(mlir::Operation *op);
  bool visitCall(ir::CallOp call);
  bool mark(mlir::Value value);

  llvm::DenseSet<mlir::Value> active;
};

} // namespace qd::passes
