// companions.h: the gradients or tangents of containers in a derived kernel
#pragma once

#include "ir/dialect.h"

#include "mlir/IR/Builders.h"

namespace qd::passes {

/// Names each companion once, at the start of a body. `suffix` is what its name adds to that of the container.
class Companions {
public:
  explicit Companions(llvm::StringRef suffix) : suffix(suffix) {}

  /// Null where the container has none.
  mlir::Value get(mlir::OpBuilder &builder, mlir::Block &start, ir::TensorArgumentOp container);

private:
  llvm::StringRef suffix;
  llvm::DenseMap<uint32_t, mlir::Value> made; ///< by offset in the block of arguments
};

} // namespace qd::passes
