// kept_values.h: values that a parallel loop keeps in memory of the launch for a loop behind it
#pragma once

#include "ir/dialect.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/DenseSet.h"

namespace qd::passes {

/// Computes a value of a loop's body once more.
mlir::Value copyInto(mlir::OpBuilder &builder, mlir::Value value, ir::ForOp loop, mlir::IRMapping &map);

/// The memory has the extents of a container of which each iteration accesses an own element, so it is not larger than that.
class KeptValues {
public:
  /// Makes a loop behind `source` that does what `part` does in the last loop of its body, which alone writes to containers. `part` is a
  /// copy of `source`, by `map`, without what these writes do not need. Null if values cannot be kept, or if the loop would read from
  /// containers that `source` writes.
  ir::ForOp makeReader(ir::ForOp source, ir::ForOp part, const mlir::IRMapping &map, const llvm::DenseSet<uint64_t> &written);
  /// Lets the source keep what the loop reads.
  void store();
  /// Forgets the loop, which is gone.
  void drop();

private:
  struct Kept {
    mlir::Value value;               ///< in the source, or a variable
    mlir::Operation *user = nullptr; ///< the loop of the source that the reader repeats
    mlir::Value memory;
    ir::ElementOp like; ///< element of the iteration in another container
    bool isStored = false;
  };
  Kept &keep(mlir::Value value, mlir::Operation *user, ir::ElementOp like, mlir::Type type);

  llvm::SmallVector<Kept> all;
};

} // namespace qd::passes
