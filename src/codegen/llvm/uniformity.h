// uniformity.h: which locals differ between lanes, and where control flow does
#pragma once

#include "codegen/llvm/lane_kind.h"

#include "mlir/IR/Operation.h"
#include "mlir/IR/Value.h"
#include "mlir/Support/LLVM.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SmallVector.h"

#include <map>
#include <memory>
#include <vector>

namespace qd::ir {
class FuncOp;
class ForOp;
} // namespace qd::ir

namespace qd::codegen {

using LaneKinds = llvm::SmallVector<LaneKind, 4>;

/// What the emitter must know of a body before it walks it. Operations that are in no set behave as in scalar code.
struct BodyFacts {
  /// The result of a qd.local → the kinds of its components.
  llvm::DenseMap<mlir::Value, LaneKinds> locals;
  /// if: the condition varies. Loops: lanes leave at different times. break, continue, return: some live lanes stay. Stores to and atomics
  /// on locals: some lanes that see the local are not active.
  llvm::DenseSet<mlir::Operation *> divergent;
  /// Loops in which some lanes go on with the next iteration early.
  llvm::DenseSet<mlir::Operation *> divergentContinue;
  /// Ifs and loops after which fewer lanes may be active than before.
  llvm::DenseSet<mlir::Operation *> loseLanes;
  /// Function instances: the kinds of all components of the results.
  LaneKinds results;
  bool divergentReturn = false;
};

/// Locals of more components than this live in one array, whose components have one kind.
inline constexpr int64_t kSeparateComponents = 8;

/// Analyzes bodies on demand and keeps the facts of function instances. A fixpoint over locals: each pass over a body is linear, and after
/// a few passes what still moves is taken as varying.
class Uniformity {
public:
  explicit Uniformity(mlir::Operation *module) : module(module) {}

  /// The body of a parallel loop whose indices are of these kinds.
  const BodyFacts &analyzeLoop(ir::ForOp loop, const LaneKinds &indices);
  /// An instance for one combination of kinds: all components of all value arguments in order (none for places and containers).
  const BodyFacts &analyzeFunction(ir::FuncOp function, llvm::ArrayRef<LaneKind> arguments);
  /// Facts of scalar code.
  const BodyFacts &getScalarFacts() const { return scalarFacts; }

private:
  friend class UniformityWalk;
  mlir::Operation *module;
  BodyFacts scalarFacts;
  std::vector<std::unique_ptr<BodyFacts>> loops;
  std::map<std::pair<mlir::Operation *, std::vector<int64_t>>, std::unique_ptr<BodyFacts>> functions;
};

} // namespace qd::codegen
