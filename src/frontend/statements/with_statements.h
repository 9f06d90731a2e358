// with_statements.h: `with` statements: blocks whose tasks do not wait for each other
#pragma once

#include "frontend/function_part.h"

namespace qd::frontend {

class WithStatements : FunctionPart {
public:
  using FunctionPart::FunctionPart;

  void visitWith(nb::handle node);
  /// Fails unless a statement of a parallel context is a section, or a static loop or branch around sections.
  void requireSection(nb::handle statement);

private:
  void visitStreamBlock(nb::handle at, nb::handle call);
  /// Fails if the call of a graph's context manager has arguments or is not in the kernel itself; warns about its deprecated names.
  void requirePlainContext(nb::handle call, llvm::StringRef name);
  void visitSections(nb::handle node, nb::handle call);
  void visitSection(nb::handle node, nb::handle call);
  /// Compiles the body of a `with` statement whose tasks do not wait for those of its neighbors.
  void visitBranch(nb::handle node);

  int64_t blockCount = 0, contextCount = 0;
};

} // namespace qd::frontend
