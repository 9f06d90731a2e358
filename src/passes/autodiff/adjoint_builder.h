// adjoint_builder.h: the adjoint of one kernel or function
//
// A run is one pass through a body: of the kernel, of a function or of an iteration. The forward sweep computes what the original computes,
// without its effects on containers. The backward sweep visits the same operations in reverse order; each one computes the adjoints of its
// operands from the adjoint of its result:
//
//   adjoint(body) = forward(body); for op in reverse(body): adjoint(op)
//   adjoint(loop) = for iteration in reverse order: restore the variables; adjoint(iteration)
//
// So the forward sweep stores only the variables of loops, as checkpoints (loop_checkpoints.h). Code that turns out not to be needed is
// removed afterwards (remove_dead.h).
//
// The adjoint of a local is a local of the same type. The adjoint of a value is a sum that the backward sweep builds up, or a local if
// inner blocks add to it. The adjoint of an element is the element of the gradient; iterations add to it atomically.
//
// Begin reading at sweepForward (adjoint_builder.cpp) and sweepBackward (adjoint_ops.cpp).
#pragma once

#include "passes/autodiff/activity.h"
#include "passes/autodiff/loop_checkpoints.h"
#include "passes/autodiff/shadows.h"

#include "mlir/IR/IRMapping.h"

namespace qd::passes {

/// Creates the derived functions of a module, each once.
class DerivedFunctions {
public:
  DerivedFunctions(mlir::ModuleOp module, const Activity &activity);

  /// The function without its effects on containers; the function itself if it has none.
  ir::FuncOp getEffectFree(ir::FuncOp function);
  /// The adjoint of a function. Its parameters are those of the function, the adjoints of the active places among them, and the adjoints of
  /// the active results. It returns the adjoints of the active values among the parameters. Places have the values from before the call.
  ir::FuncOp getAdjoint(ir::FuncOp function);
  /// Whether an operation of the function, or of a function that it calls, uses an active value.
  bool usesActive(ir::FuncOp function) const { return activeUses.contains(function); }

  mlir::ModuleOp module;
  const Activity &activity;
  bool hasFailed = false;
  llvm::SmallVector<uint32_t> updated; ///< offsets of containers with an atomic update that has no adjoint
  int32_t checkpointedLoops = 0;
  bool isFused = false; ///< the kernel's additions run, too, and their adjoint is 1 (fused_gradient.h)

private:
  ir::FuncOp makeFunction(ir::FuncOp like, llvm::StringRef suffix, mlir::TypeRange inputs, mlir::TypeRange results);

  llvm::DenseMap<mlir::Operation *, ir::FuncOp> effectFree, adjoints;
  llvm::DenseSet<mlir::Operation *> effects, activeUses; ///< functions with effects on containers or output; functions with active values
};

class AdjointBuilder {
public:
  explicit AdjointBuilder(DerivedFunctions &functions)
      : functions(functions), activity(functions.activity), builder(functions.module.getContext()) {}

  void buildKernel(ir::KernelOp source, ir::KernelOp target);
  void buildAdjoint(ir::FuncOp source, ir::FuncOp target);
  void buildEffectFree(ir::FuncOp source, ir::FuncOp target);

private:
  /// One pass through a body.
  struct Run {
    Run *outer = nullptr;
    mlir::Block *block = nullptr;
    mlir::IRMapping values{};                           ///< values of the original → values of this run
    llvm::DenseMap<mlir::Value, mlir::Value> spilled{}; ///< values of inner blocks of this run → the local that they are spilled to
    llvm::DenseMap<mlir::Operation *, LoopCheckpoints> checkpoints{};
    llvm::DenseMap<mlir::Operation *, llvm::SmallVector<mlir::Value>> savedPlaces{}; ///< call → copies of its places from before the call
    mlir::Operation *lastLocal = nullptr;
    int parallelDepth = 0;
  };
  struct Shadow {
    mlir::Value place;
    int parallelDepth = 0;
  };

  // adjoint_builder.cpp: forward
  void sweepForward(mlir::Block &source, Run &run, bool takesCheckpoints);
  void emitForward(mlir::Operation *op, Run &run, bool takesCheckpoints);
  void emitForwardCall(ir::CallOp op, Run &run, bool takesCheckpoints);
  void emitForwardRegion(mlir::Region &source, mlir::Region &target, Run &run, bool takesCheckpoints);
  mlir::Operation *copyWithoutRegions(mlir::Operation *op, Run &run);
  /// Copies an operation with its regions and its effects.
  void copyWhole(mlir::Operation *op, Run &run);
  /// A value of the run, usable at the insertion point, for a value of the original.
  mlir::Value use(mlir::Value value, Run &run);
  llvm::SmallVector<mlir::Value> useAll(mlir::ValueRange values, Run &run);
  bool isVisible(mlir::Value value);
  /// Creates a local at the start of the run.
  mlir::Value makeLocal(mlir::Type pointee, mlir::Location loc, Run &run);
  void openBlock(mlir::Region &region, Run &run);
  void markOverwritten(mlir::Operation *op, const llvm::Twine &why);

  // adjoint_ops.cpp: backward
  void sweepBackward(mlir::Block &source, Run &run);
  void emitBackward(mlir::Operation *op, Run &run);
  void emitBackwardIf(ir::IfOp op, Run &run);
  void emitBackwardCall(ir::CallOp op, Run &run);
  void emitBackwardStore(ir::StoreOp op, Run &run);
  void emitBackwardAtomic(ir::AtomicOp op, Run &run);
  void emitBackwardExtremum(ir::AtomicOp op, mlir::Value shadow, Run &run);
  void emitBackwardValue(mlir::Operation *op, mlir::Value adjoint, Run &run);
  void emitBackwardReduce(ir::ReduceOp op, mlir::Value adjoint, Run &run);
  void emitBackwardMatmul(ir::MatmulOp op, mlir::Value adjoint, Run &run);
  bool usesActive(mlir::Operation *op);
  void declareShadows(mlir::Block &source, Run &run);
  void declareShadow(mlir::Value value, mlir::Type type, Run &run);
  /// The place that holds the adjoint of a place; null if there is none.
  mlir::Value getShadow(mlir::Value place, Run &run);
  bool isShared(mlir::Value place, Run &run);
  void addTo(mlir::Value shadow, mlir::Value amount, bool isShared);
  void accumulate(mlir::Value value, mlir::Value amount, Run &run);
  /// The adjoint of a value, complete once all its users are visited; null for none.
  mlir::Value loadAdjoint(mlir::Value value, Run &run);
  mlir::Value loadAdjointOrZero(mlir::Value value, Run &run);
  void refuse(mlir::Operation *op, const llvm::Twine &why);
  Code at(mlir::Operation *op) { return {builder, op->getLoc()}; }

  // adjoint_loops.cpp
  void emitForwardLoop(mlir::Operation *op, Run &run, bool takesCheckpoints);
  void emitCheckpointingLoop(mlir::Operation *op, Run &run);
  void emitBackwardLoop(mlir::Operation *op, Run &run);
  void emitBackwardParallel(ir::ForOp op, Run &run);
  void emitIteration(mlir::Operation *op, mlir::Value number, Run &run, bool takesCheckpoints);
  void beginCheckpoints(mlir::Operation *op, Run &run, LoopCheckpoints &checkpoints);
  void enterIteration(mlir::Operation *op, const LoopCheckpoints &checkpoints, Run &inner);
  llvm::SmallVector<mlir::Value> readState(Code code, const LoopCheckpoints &checkpoints, Run &run);
  void restoreIteration(mlir::Operation *op, const LoopCheckpoints &checkpoints, mlir::Value number, Run &inner);
  void recomputeTo(mlir::Operation *op, const LoopCheckpoints &checkpoints, mlir::Value number, Run &inner);
  void setIndices(ir::ForOp op, mlir::Value number, Run &run);
  mlir::Value countIterations(ir::ForOp op, Run &run);
  llvm::SmallVector<mlir::Value> countAxes(ir::ForOp op, Run &run);
  void refuseUpdatesOf(mlir::Operation *loop, mlir::Value place);

  DerivedFunctions &functions;
  const Activity &activity;
  mlir::OpBuilder builder;
  mlir::Block *entry = nullptr;
  llvm::DenseMap<mlir::Value, Shadow> shadows;
  llvm::DenseMap<mlir::Value, mlir::Value> adjoints;
  Shadows containerShadows{".grad"};
};

} // namespace qd::passes
