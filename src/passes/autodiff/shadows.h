// shadows.h: the shadows (gradients or tangents) of containers in a derived kernel
#pragma once

#include "ir/dialect.h"

#include "mlir/IR/Builders.h"

namespace qd::passes {

/// Declares each shadow once, at the start of a body. Its name is that of the container followed by `suffix`.
class Shadows {
public:
  explicit Shadows(llvm::StringRef suffix) : suffix(suffix) {}

  /// The shadow of a container; null if it has none.
  mlir::Value get(mlir::OpBuilder &builder, mlir::Block &start, ir::TensorArgumentOp container);

private:
  llvm::StringRef suffix;
  llvm::DenseMap<std::pair<uint32_t, mlir::Type>, mlir::Value> made; ///< by offset in the argument block and type
};

/// The same part of another base: for a place with a shadow, the shadow of its part.
mlir::Value getSamePart(mlir::OpBuilder &builder, ir::PlaceOpInterface part, mlir::Value base, mlir::ValueRange indices);

} // namespace qd::passes
