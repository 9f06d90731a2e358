// accesses.h: which memory the places of a parallel loop belong to, and how the loop accesses it
//
// Two array arguments count as different memory here, although they may alias. Arrays that share memory and are updated atomically under
// two names are marked (kOverlaps); their memory is Unknown.
#pragma once

#include "ir/call_graph.h"

#include "llvm/ADT/MapVector.h"

namespace qd::passes {

/// The memory that a place is part of.
struct Root {
  enum class Kind : uint32_t { Unknown, Local, Scratch, Tensor, Shared };
  Kind kind = Kind::Unknown;
  uint64_t id = 0; ///< Scratch, Tensor: offset; Shared: number; Local: address of the op

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

/// Id of all fields that overlap other fields: they count as one memory.
inline constexpr uint64_t kOverlappingFields = ~uint64_t(0);

/// The memory of a place or container.
Root findRoot(mlir::Value place);

/// The containers that each function of a module accesses, callees included.
class FunctionAccesses {
public:
  explicit FunctionAccesses(mlir::ModuleOp module) : calls(module) {}

  struct Summary {
    llvm::SmallDenseSet<uint64_t, 4> touched; ///< offsets of tensor arguments
    llvm::SmallDenseSet<uint64_t, 4> atomics; ///< offsets of tensor arguments with atomic operations on them
  };
  const Summary &get(ir::CallOp call);

  const ir::CallGraph calls;

private:
  llvm::DenseMap<mlir::Operation *, Summary> summaries;
};

/// Calls `visit` for the loop of each parallel task.
void forEachParallelLoop(mlir::ModuleOp module, llvm::function_ref<void(ir::ForOp)> visit);

/// The memory accesses of one loop.
struct LoopAccesses {
  LoopAccesses(ir::ForOp loop, FunctionAccesses &functions);

  /// Whether the memory is that of one container, and the loop accesses it by the atomics below only.
  bool isOnlyUpdated(Root root) const {
    return root.kind == Root::Kind::Tensor && root.id != kOverlappingFields && !touched.contains(root) && !exchanged.contains(root);
  }

  llvm::MapVector<Root, llvm::SmallVector<ir::AtomicOp, 2>> atomics;
  llvm::MapVector<Root, llvm::SmallVector<ir::CompareExchangeOp, 2>> packed; ///< those that replace parts of words
  llvm::DenseSet<Root> touched;                                              ///< accessed by anything but the atomics above
  llvm::DenseSet<Root> exchanged; ///< accessed by other atomic operations, or by atomics in called functions
};

} // namespace qd::passes
