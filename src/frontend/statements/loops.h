// loops.h: `for` and `while` statements
#pragma once

#include "frontend/function_part.h"

#include <functional>

namespace qd::frontend {

class Loops : FunctionPart {
public:
  using FunctionPart::FunctionPart;

  void visitFor(nb::handle node);
  void visitWhile(nb::handle node);
  void visitLoopControl(NodeKind kind);
  void bindLoopVariable(nb::handle target, const Operand &value);
  /// The indices as the value of a loop's variables: a vector if they are grouped, one number for one name, else a tuple.
  Operand joinIndices(nb::handle target, const std::vector<Operand> &indices, bool isGrouped);
  void configureLoop(const Arguments &arguments);
  void loopOver(nb::handle node, Box box);

private:
  /// The callee of the `qd.graph.do_while(flag)` in the test of a while loop; null for any other loop.
  nb::object findRepeat(nb::handle test);
  Tensor visitRepeatFlag(nb::handle call, nb::handle callee);
  void visitRepeat(nb::handle node, nb::handle callee);
  /// Counts the rounds of a do_while and fails the launch above the limit.
  void checkRounds(const Operand &rounds, const Operand &flag);
  void countRounds(ir::RepeatOp repeat);
  void unroll(nb::handle node, const Operand &iterable);
  /// Like bindLoopVariable, with a variable for each index that the body assigns.
  void bindIndices(nb::handle target, const Operand &value, nb::handle body);
  void checkLoopTarget(nb::handle target);
  void visitElse(nb::handle node, mlir::Value breakFlag);
  mlir::Value makeBreakFlag(nb::handle node);
  std::vector<int32_t> readLoopNumbers(llvm::StringRef option, nb::handle value, int64_t most);
  std::function<llvm::SmallVector<mlir::Value>(mlir::ValueRange)> divideIntoBlocks(Box &box, llvm::ArrayRef<int32_t> shape);
};

/// Turns updates of outer variables in a parallel loop into atomic updates, and warns about other assignments to them.
void materializeSharedVariables(FunctionContext &context, ir::ForOp loop);

} // namespace qd::frontend
