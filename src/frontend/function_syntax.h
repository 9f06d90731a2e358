// function_syntax.h: queries on the function's syntax tree, before and while it is compiled
#pragma once

#include "frontend/function_part.h"

namespace qd::frontend {

class FunctionSyntax : FunctionPart {
public:
  using FunctionPart::FunctionPart;

  bool mayTakeReference(const Operand &callee, size_t position, nb::handle name);
  void collectAssignments();
  bool isStaticCall(nb::handle node); ///< `qd.static(...)`
  /// Whether a statement of the body assigns the name or may pass it by reference.
  bool isAssignedIn(nb::handle body, nb::handle name);
  nb::object resolveCallee(nb::handle node);
  std::string builtinName(nb::handle object); ///< "" if it is no function of quadrants._language.builtins
  /// Whether the function contains loops that become tasks if it is called at the kernel's top level.
  bool containsTasks();
  bool returnsAtEnd(); ///< no return is under a run-time branch or loop
  /// Whether a value that is returned or assigned is the name, or a tuple or list with it.
  bool isKept(nb::handle name);

private:
  bool mayContainTasks(nb::handle statements);
  bool isCompileTimeTest(nb::handle test);
  bool returnsEarly(nb::handle statements, bool isNested);
};

} // namespace qd::frontend
