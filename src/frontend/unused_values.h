// unused_values.h: erases unused operations, and then the computation of their operands
#pragma once

#include "ir/dialect.h"

#include "llvm/ADT/SetVector.h"

namespace qd::frontend {

/// Erases operations in `around` only. No operand may refer to an operation in it afterwards.
class UnusedEraser {
public:
  explicit UnusedEraser(mlir::Operation *around) : around(around) {}
  void add(mlir::Value value); ///< a value that may be unused
  void run();

private:
  bool isRemovable(mlir::Operation *op);
  void erase(mlir::Operation *op);
  void dropStores(mlir::Value place);

  mlir::Operation *around;
  llvm::SetVector<mlir::Operation *> pending;
};

} // namespace qd::frontend
