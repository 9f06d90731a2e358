// dependences.h: the accesses of a kernel to containers, and tests for dependences between them
//
// A dependence leads from an access to a later access of the same element. For each serial loop around both it has a distance: the number
// of iterations from the first access to the second. Its sign is the direction (Allen and Kennedy, *Optimizing Compilers for Modern
// Architectures*, chapter 2). Iterations of parallel loops are not ordered, so they have no directions.
#pragma once

#include "passes/autodiff/activity.h"
#include "passes/autodiff/same_elements.h"

namespace qd::passes {

struct CallPath;

/// An operation around an access, and the number of its region that contains the access.
using Ancestor = std::pair<mlir::Operation *, unsigned>;

/// An access to a container. `step` is the number of the kernel's statement that contains it; `order` counts the operations of the kernel.
struct Access {
  Indices indices;
  llvm::SmallVector<Ancestor, 4> ancestors; ///< from the kernel's statement inwards, through calls
  size_t step, order;
  mlir::Operation *op;
};

/// The accesses of a kernel, and of the functions that it calls, by the offset of the container. Extrema that the kernel updates are reads,
/// too: their adjoint compares the result with the values.
class KernelAccesses {
public:
  KernelAccesses(ir::KernelOp kernel, const ir::CallGraph &calls);

  llvm::DenseMap<uint32_t, llvm::SmallVector<Access>> reads, writes;
  llvm::DenseMap<uint32_t, std::string> names;

private:
  void collect(mlir::Operation *top, const CallPath *call);
  void record(llvm::DenseMap<uint32_t, llvm::SmallVector<Access>> &list, mlir::Value place, const CallPath *call, mlir::Operation *op);

  const ir::CallGraph &calls;
  llvm::DenseSet<mlir::Operation *> visiting;
  size_t step = 0, order = 0;
  unsigned instances = 0;
};

/// The relation of two accesses in one statement of the kernel.
struct Relation {
  llvm::SmallVector<mlir::Operation *, 2> loops; ///< serial ones around both, outermost first
  bool isExclusive = false;                      ///< at most one of them runs in an iteration
  bool isSame = false, isAnother = false;        ///< surely the same element within an iteration; surely another one
};

class DependenceTest {
public:
  DependenceTest(mlir::ModuleOp module, const ir::CallGraph &calls) : calls(calls), elements(module) {}

  Relation relate(const Access &one, const Access &other) const;
  /// Whether a dependence may lead from `source` to `sink`, in one statement of the kernel.
  bool mayDepend(const Access &source, const Access &sink) const;
  /// Whether a later iteration of one of the serial loops around both (of their relation) overwrites the loaded element, if there is one:
  /// all distances are constant.
  bool isOverwrittenLater(const Access &load, const Access &write, llvm::ArrayRef<mlir::Operation *> loops) const;
  /// Whether a write may come before a load, in any statement, so that the load may not read the entry value.
  bool mayComeBefore(const Access &load, const Access &write) const;
  /// Whether the second access, in another loop, surely accesses the elements of the first one: each index is equal, has
  /// the same range, or is within that of the other.
  bool haveSameRanges(const Access &one, const Access &other) const;
  /// Whether two accesses in one parallel loop always run and have distances other than zero: iterations access each other's elements.
  bool isRace(const Access &one, const Access &other) const;
  /// Whether each iteration of a serial loop may have another element: each index of the loop influences an index of the element.
  bool mayVaryWith(llvm::ArrayRef<Index> indices, mlir::Operation *loop);

private:
  using Values = llvm::DenseSet<mlir::Value>;

  /// The values that depend on an index of a counted loop, or on the variables that a `while` assigns.
  const Values &findDependent(mlir::Operation *loop, mlir::Value argument);
  void spread(mlir::Operation *top, Values &found, llvm::DenseSet<mlir::Operation *> &seen) const;

  const ir::CallGraph &calls;
  SameElements elements;
  llvm::DenseMap<std::pair<mlir::Operation *, mlir::Value>, Values> dependent;
};

} // namespace qd::passes
