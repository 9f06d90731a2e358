// shadows.h: the gradients or tangents of containers in a derived kernel
#pragma once

#include "ir/dialect.h"

#include "mlir/IR/Builders.h"

namespace qd::passes {

/// Names each shadow once, at the start of a body. `suffix` is what its name adds to that of the container.
class Shadows {
public:
  explicit Shadows(llvm::StringRef suffix) : suffix(suffix) {}

  /// Null where the container has none.
  mlir::Value get(mlir::OpBuilder &builder, mlir::Block &start, ir::TensorArgumentOp container);

private:
  llvm::StringRef suffix;
  llvm::DenseMap<uint32_t, mlir::Value> made; ///< by offset in the block of arguments
};

} // namespace qd::passes
