// control.h: structured control flow, uniform or under masks (control.cpp), and `for` loops (loops.cpp)
#pragma once

#include "codegen/llvm/launch_access.h"
#include "codegen/llvm/operators.h"

namespace qd::codegen {

class BodyEmitter;

class ControlFlow : EmitterPart {
public:
  explicit ControlFlow(BodyEmitter &body);

  void emitIf(ir::IfOp op);
  void emitFor(ir::ForOp op);
  void emitWhile(ir::WhileOp op);
  void emitBreak(mlir::Operation *op) { emitDeparture(op, Scope::Kind::Loop); }
  void emitContinue(mlir::Operation *op) { emitDeparture(op, Scope::Kind::Iteration); }
  /// One iteration of a loop: `next` is where `continue` goes.
  void emitLoopBody(mlir::Operation *op, mlir::Region &region, llvm::BasicBlock *next);
  /// The body of a function, which ends in `exit`, and a return from it.
  void emitFunction(mlir::Block &block, llvm::BasicBlock *exit);
  void leaveFunction(mlir::Operation *op) { emitDeparture(op, Scope::Kind::Function); }
  bool isInFunction() const;
  bool isCheap(llvm::iterator_range<mlir::Block::iterator> ops);

private:
  friend class AxisLoop;
  struct Scope {
    enum class Kind { Function, Loop, Iteration } kind;
    llvm::BasicBlock *exit;
    llvm::Value *live = nullptr; ///< slot of the mask of lanes that are still in the scope; set if lanes leave the scope at different times
  };

  // control.cpp
  void emitDeparture(mlir::Operation *op, Scope::Kind target);
  void emitMasked(llvm::Value *condition, mlir::Region &region);
  bool readsTiles(mlir::Region &region);
  bool expectUniform(mlir::Operation *op, const Component &condition);
  void narrowAfter(mlir::Operation *op, llvm::Value *before);
  llvm::Value *makeLive(llvm::StringRef name);
  llvm::Value *loadMask(llvm::Value *slot) { return builder.CreateLoad(in.widen(builder.getInt1Ty()), slot); }
  bool isWait(ir::WhileOp op);
  void emitPause(llvm::Value *slot);

  void emitRowLoop(ir::ForOp op, unsigned lanes); // row_loops.cpp
  llvm::Value *findLaneCondition(ir::ForOp op);   // lane_loops.cpp

  // loops.cpp
  void emitLoop(ir::ForOp op);
  void emitNest(ir::ForOp op);
  llvm::Value *findLongNest(ir::ForOp op);
  bool hoist(mlir::Value value, ir::ForOp nest);
  llvm::Value *isLongAxis(ir::ForOp op, unsigned axis, double maxRounds);
  unsigned chooseUnrolling(ir::ForOp op);
  void emitForAxis(ir::ForOp op, unsigned axis, llvm::BasicBlock *done);

  BodyEmitter &body;
  LaunchAccess &launch;
  ValueMap &values;
  Operators &operators;
  llvm::SmallVector<Scope, 8> scopes;
  /// Which copy of a nest of loops is being emitted (loops.cpp).
  enum class NestVersion { None, Short, Long } nestVersion = NestVersion::None;
};

} // namespace qd::codegen
