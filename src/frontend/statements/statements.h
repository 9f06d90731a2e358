// statements.h: sequences of statements, branches, returns and assertions
#pragma once

#include "frontend/function_part.h"

namespace qd::frontend {

struct Branch {
  std::vector<std::pair<PyObject *, Binding>> bindings; ///< names that the branch declares
  bool isTerminated = false;
};

class Statements : FunctionPart {
public:
  using FunctionPart::FunctionPart;

  /// Fails with the name of the node's class, and what to write in its place.
  [[noreturn]] void failUnsupported(nb::handle node);
  void visitBody(nb::handle statements);
  void visitBlock(nb::handle statements); ///< in a new scope
  /// Emits one region of a run-time construct in a new scope.
  Branch runBranch(mlir::Region &region, const std::function<void()> &emit);
  /// Marks outer Merged names that a loop has assigned as Partial: their merged values would be outdated after the loop.
  void invalidateMerged(const std::vector<std::pair<PyObject *, Binding>> &made);
  /// Fails the launch with the text, and a value behind it if one is given, also where assertions are not checked.
  void require(mlir::Value condition, llvm::StringRef text, const Operand &shown = {});
  /// `otherwise` may be empty.
  void emitIf(mlir::Value condition, const std::function<void()> &then, const std::function<void()> &otherwise);

private:
  /// Compiles a statement of the kernel. Records a mistake in it, so that the next statements are compiled to find more.
  void visitRecovering(nb::handle statement);
  void visitStatement(nb::handle statement);
  void visitStatementNode(nb::handle statement);
  void visitIf(nb::handle node);
  void visitReturn(nb::handle node);
  void visitAssert(nb::handle node);
  void visitExpressionStatement(nb::handle node);
  void visitDelete(nb::handle node);
  void mergeBranches(ir::IfOp op, Branch (&branches)[2]);
};

} // namespace qd::frontend
