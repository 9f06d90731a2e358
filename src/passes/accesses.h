// accesses.h: which memory the places of a parallel loop belong to, and how the loop touches it
//
// Atomicity is judged by name: two array arguments are taken for different memory here, though loads and stores of theirs may overlap.
// Those that are updated under two names and share memory are marked (kOverlaps): their memory is unknown.
#pragma once

#include "ir/dialect.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

namespace qd::passes {

/// The memory that a place is part of.
struct Root {
  enum class Kind : uint32_t { Unknown, Local, Scratch, Tensor, Shared };
  Kind kind = Kind::Unknown;
  uint64_t id = 0; ///< scratch and tensor: the offset; shared: the number; local: the address of its op

  bool operator==(const Root &) const = default;
};

} // namespace qd::passes

template <> struct llvm::DenseMapInfo<qd::passes::Root> {
  using Root = qd::passes::Root;
  static Root getEmptyKey() { return {Root::Kind(~0u), 0}; }
  static Root getTombstoneKey() { return {Root::Kind(~0u), 1}; }
  static unsigned getHashValue(const Root &root) { return unsigned(llvm::hash_combine(uint32_t(root.kind), root.id)); }
  static bool isEqual(const Root &lhs, const Root &rhs) { return lhs == rhs; }
};

namespace qd::passes {

/// The id of fields that are known to overlap others: they are one memory.
inline constexpr uint64_t kOverlappingFields = ~uint64_t(0);

/// The memory of a place or container.
Root findRoot(mlir::Value place);

/// The tensor that the place is an element of, with the op that chooses the element; null for other places.
ir::ElementOp findElement(mlir::Value place);

/// A load, the operation and a store in place of the atomic.
void demoteAtomic(ir::AtomicOp atomic);

/// Does so with all atomics on variables of one iteration, which nobody else updates.
void demoteOwnAtomics(mlir::ModuleOp module);

/// Does so with sums and products on elements that one iteration of a parallel loop updates alone, and in serial code.
/// `containers`: of these only, by offset; null: of all.
void demoteOwnUpdates(mlir::ModuleOp module, const llvm::DenseSet<uint32_t> *containers = nullptr);

/// Containers that functions touch, callees included; one for a module.
class FunctionAccesses {
public:
  explicit FunctionAccesses(mlir::ModuleOp module);

  struct Summary {
    llvm::SmallDenseSet<uint64_t, 4> touched; ///< offsets of tensor arguments
    llvm::SmallDenseSet<uint64_t, 4> atomics; ///< those with atomic operations on them
    bool isOfBlock = false;
  };
  const Summary &get(llvm::StringRef function);

private:
  mlir::MLIRContext *ctx;
  llvm::DenseMap<mlir::StringAttr, ir::FuncOp> functions;
  llvm::StringMap<Summary> summaries;
};

/// Calls `visit` for the loop of each parallel task.
void forEachParallelLoop(mlir::ModuleOp module, llvm::function_ref<void(ir::ForOp)> visit);

/// What one loop does to memory.
struct LoopAccesses {
  LoopAccesses(ir::ForOp loop, FunctionAccesses &functions);

  llvm::MapVector<Root, llvm::SmallVector<ir::AtomicOp, 2>> atomics;
  llvm::DenseSet<Root> touched;   ///< by anything but the atomics above
  llvm::DenseSet<Root> exchanged; ///< by compare_exchange, or by atomics out of sight
  bool isOfBlock = false;         ///< its iterations work together in blocks
};

} // namespace qd::passes
