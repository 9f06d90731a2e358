// unused_values.h: erases what nobody uses, from values back to what they were computed from
#pragma once

#include "ir/dialect.h"

#include "llvm/ADT/SetVector.h"

namespace qd::frontend {

/// Erases operations inside of `around` only; no value of the frontend may still name anything in there.
class UnusedEraser {
public:
  explicit UnusedEraser(mlir::Operation *around) : around(around) {}
  void add(mlir::Value value);
  void run();

private:
  bool isHarmless(mlir::Operation *op);
  void erase(mlir::Operation *op);
  void dropStores(mlir::Value place);

  mlir::Operation *around;
  llvm::SetVector<mlir::Operation *> pending;
};

} // namespace qd::frontend
