// expressions.h: expressions: dispatch on the syntax node, names, comparisons and branches
#pragma once

#include "frontend/function_part.h"

namespace qd::frontend {

class Expressions : FunctionPart {
public:
  using FunctionPart::FunctionPart;

  Value visit(nb::handle node);
  Value lookUpGlobal(nb::handle name);

private:
  Value visitNode(nb::handle node);
  Value visitName(nb::handle node);
  Value visitCompare(nb::handle node);
  Value compare(NodeKind kind, const Value &left, const Value &right);
  Value visitBoolean(nb::handle node);
  Value visitConditional(nb::handle node);
  Value visitBinary(nb::handle node);
  Value chooseBranch(mlir::Value condition, const std::function<Value()> &first, const std::function<Value()> &second);
  /// Whether the operations of the block are cheap and may run although the branch is not taken.
  bool isSpeculatable(mlir::Block &block);
};

} // namespace qd::frontend
