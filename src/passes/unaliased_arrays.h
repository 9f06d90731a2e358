// unaliased_arrays.h: the arrays of a kernel that passes assume to share no memory with its other containers
#pragma once

#include "ir/dialect.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseSet.h"

namespace qd::passes {

/// Collects assumptions of a pass. Each launch checks those that the kernel lists (kUnaliased).
class UnaliasedArrays {
public:
  explicit UnaliasedArrays(mlir::ModuleOp module);

  /// Offsets of the containers that share memory at the launch that is compiled for: passes may assume nothing about them.
  const llvm::DenseSet<uint64_t> &getAliased() const { return aliased; }
  /// Assumes that these containers share no memory; fields never do, nor does the only array of a kernel.
  void require(const llvm::DenseSet<uint64_t> &containers);
  /// Adds the assumptions to those that the kernel lists already.
  void addTo(ir::KernelOp kernel) const;

private:
  llvm::DenseSet<uint64_t> aliased, arrays, required;
};

} // namespace qd::passes
