// expressions.h: expressions: dispatch on the syntax node, names, comparisons and branches
#pragma once

#include "frontend/function_part.h"

namespace qd::frontend {

class Expressions : FunctionPart {
public:
  using FunctionPart::FunctionPart;

  Operand visit(nb::handle node);
  Operand lookUpGlobal(nb::handle name);
  Operand chooseBranch(mlir::Value condition, const std::function<Operand()> &first, const std::function<Operand()> &second);

private:
  Operand visitNode(nb::handle node);
  Operand visitName(nb::handle node);
  Operand visitCompare(nb::handle node);
  Operand compare(NodeKind kind, const Operand &left, const Operand &right);
  Operand contains(const Operand &container, const Operand &value);
  Operand visitBoolean(nb::handle node);
  Operand visitConditional(nb::handle node);
  Operand visitBinary(nb::handle node);
  /// Whether the operations of the block are cheap and may run although the branch is not taken.
  bool isSpeculatable(mlir::Block &block);
};

} // namespace qd::frontend
