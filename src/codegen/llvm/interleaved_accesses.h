// interleaved_accesses.h: which containers of structs and vectors are stored to in parts, and read afterwards
#pragma once

#include "ir/dialect.h"

namespace qd::codegen {

class InterleavedAccesses {
public:
  explicit InterleavedAccesses(mlir::ModuleOp source);

  /// Whether an iteration stores to the container, or to another member of the same structs, and then reads.
  bool contains(ir::TensorArgumentOp container) const { return found.contains(container); }

private:
  void scan(mlir::Operation *function);

  llvm::DenseSet<mlir::Operation *> found;
};

} // namespace qd::codegen
