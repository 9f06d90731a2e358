// operators.h: operators on values of all kinds
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

class Operators : FunctionPart {
public:
  using FunctionPart::FunctionPart;

  Value binary(BinaryKind kind, Value lhs, Value rhs, llvm::StringRef symbol);
  Value unary(UnaryKind kind, const Value &operand, llvm::StringRef name);
  Value power(const Value &base, const Value &exponent);
  Value matmul(const Value &lhs, const Value &rhs);
  [[noreturn]] void failOperands(llvm::StringRef symbol, const Value &lhs, const Value &rhs);
  Value select(const Value &condition, const Value &first, const Value &second);
  Value fuseMultiplyAdd(const Value &x, const Value &y, const Value &z);
  Value negate(const Value &operand);
  Value logicalNot(const Value &operand);
  /// A scalar condition.
  mlir::Value truth(const Value &value, llvm::StringRef construct);

private:
  Value mapStructs(BinaryKind kind, const Value &lhs, const Value &rhs, llvm::StringRef symbol);
};

} // namespace qd::frontend
