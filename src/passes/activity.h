// activity.h: which values of a kernel depend on containers with gradient storage
#pragma once

#include "ir/dialect.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringMap.h"

namespace qd::passes {

/// Attribute of a qd.local that replaces elements of a container without gradients: loads from it are constants for the derivative.
inline constexpr llvm::StringLiteral kPassive = "qd.passive";

/// The base of a place or container: the op of a local or container argument, or a parameter of a function.
mlir::Value findOrigin(mlir::Value place);
/// Whether the memory of the place is that of a container.
bool isOfContainer(mlir::Value place);

/// A fixpoint over the module. Functions are analyzed once, for all their callers together.
class Activity {
public:
  explicit Activity(mlir::ModuleOp module);

  /// Whether a float depends on a container with a gradient; for a place or container: whether it may hold such a value.
  bool isActive(mlir::Value value) const { return active.contains(value); }
  ir::FuncOp lookup(ir::CallOp call) const { return functions.lookup(call.getCallee()); }

private:
  bool visit(mlir::Operation *op);
  bool visitCall(ir::CallOp call);
  bool mark(mlir::Value value);

  llvm::DenseSet<mlir::Value> active;
  llvm::StringMap<ir::FuncOp> functions;
};

} // namespace qd::passes
