// uniformity.h: the analysis that finds locals that differ between lanes, and divergent control flow
#pragma once

#include "codegen/llvm/lane_kind.h"
#include "ir/call_graph.h"

#include "mlir/IR/Operation.h"
#include "mlir/IR/Value.h"
#include "mlir/Support/LLVM.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SmallVector.h"

#include <map>
#include <memory>
#include <vector>

namespace qd::codegen {

using LaneKinds = llvm::SmallVector<LaneKind, 4>;

/// Facts about a body that the emitter needs before it walks it. Operations that are in no set behave as in scalar code.
struct BodyFacts {
  /// The result of a qd.local → the kinds of its components.
  llvm::DenseMap<mlir::Value, LaneKinds> locals;
  /// if: the condition is varying. Loops: lanes leave at different times. break, continue, return: some live lanes stay. Stores to and
  /// atomics on locals: some lanes that see the local are inactive.
  llvm::DenseSet<mlir::Operation *> divergent;
  /// Stores to locals whose mask is the condition of the divergent `if` around them: other lanes never see the local again.
  llvm::DenseSet<mlir::Operation *> masksByCondition;
  /// Loops in which some lanes start the next iteration early.
  llvm::DenseSet<mlir::Operation *> divergentContinue;
  /// Ifs and loops that may reduce the set of active lanes.
  llvm::DenseSet<mlir::Operation *> loseLanes;
  /// Function instances: kinds of all components of the results.
  LaneKinds results;
  bool divergentReturn = false;
};

/// Locals with more components than this are stored in one array, whose components have one kind.
inline constexpr int64_t kSeparateComponents = 8;

/// Analyzes bodies on demand and caches the facts of function instances. It is a fixpoint over locals: each pass over a body is linear, and
/// kinds that still change after a few passes become varying.
class Uniformity {
public:
  explicit Uniformity(const ir::CallGraph &calls) : calls(calls) {}

  /// Facts of the body of a loop whose iterations run in lanes and whose indices have these kinds. Each lane has its own `reduced` locals
  /// from around the loop; what else is from there is the same for all lanes.
  const BodyFacts &analyzeLoop(ir::ForOp loop, const LaneKinds &indices, mlir::ValueRange reduced = {});
  /// Facts of a function instance for the kinds of all components of all value arguments in order (none for places and containers).
  const BodyFacts &analyzeFunction(ir::FuncOp function, llvm::ArrayRef<LaneKind> arguments);
  /// Facts of scalar code.
  const BodyFacts &getScalarFacts() const { return scalarFacts; }

private:
  friend class UniformityWalk;
  const ir::CallGraph &calls;
  BodyFacts scalarFacts;
  std::vector<std::unique_ptr<BodyFacts>> loops;
  std::map<std::pair<mlir::Operation *, std::vector<int64_t>>, std::unique_ptr<BodyFacts>> functions;
};

} // namespace qd::codegen
