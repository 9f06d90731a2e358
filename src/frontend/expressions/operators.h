// operators.h: operators on operands of all kinds
#pragma once

#include "frontend/function_part.h"

namespace qd::frontend {

/// An operator of the language: its syntax node, its op, its spelling, and the C function that computes it for known values.
struct Operator {
  NodeKind node;
  BinaryKind kind;
  llvm::StringLiteral symbol;
  PyObject *(*compute)(PyObject *, PyObject *);
};

/// The operator of a syntax node; null for matrix products, `is` and `in`.
const Operator *findOperator(NodeKind node);
const Operator *findOperator(ir::BinaryKind kind);

class Operators : FunctionPart {
public:
  using FunctionPart::FunctionPart;

  Operand binary(BinaryKind kind, Operand lhs, Operand rhs, llvm::StringRef symbol);
  Operand unary(UnaryKind kind, const Operand &operand, llvm::StringRef name);
  Operand power(const Operand &base, const Operand &exponent);
  Operand matmul(const Operand &lhs, const Operand &rhs);
  [[noreturn]] void failOperands(llvm::StringRef symbol, const Operand &lhs, const Operand &rhs);
  Operand select(const Operand &condition, const Operand &first, const Operand &second);
  Operand fuseMultiplyAdd(const Operand &x, const Operand &y, const Operand &z);
  Operand negate(const Operand &operand);
  Operand logicalNot(const Operand &operand);
  /// A scalar condition.
  mlir::Value truth(const Operand &value, llvm::StringRef construct);

private:
  Operand compareLists(BinaryKind kind, const Operand &lhs, const Operand &rhs);
  Operand mapStructs(BinaryKind kind, const Operand &lhs, const Operand &rhs, llvm::StringRef symbol);
};

} // namespace qd::frontend
