// emitter.h: emits operations on typed IR values, with the type rules of the language
#pragma once

#include "frontend/function_part.h"

namespace qd::frontend {

inline bool isFloat(mlir::Type type) { return ir::isFloatScalar(ir::getScalar(type)); }
inline bool isU1(mlir::Type type) { return ir::getScalar(type).isInteger(1); }

class Emitter : FunctionPart {
public:
  using FunctionPart::FunctionPart;

  /// The atomic operation for a scalar type: or, exclusive or and and are sum, difference and product of u1.
  static ir::AtomicKind getAtomicKind(ir::AtomicKind kind, mlir::Type scalar);
  mlir::Value binaryTyped(BinaryKind kind, mlir::Value lhs, mlir::Value rhs, llvm::StringRef symbol);
  [[noreturn]] void failOperands(llvm::StringRef symbol, mlir::Type lhs, mlir::Type rhs);
  mlir::Type promote(mlir::Type lhs, mlir::Type rhs) const;
  mlir::Type promoteArithmetic(mlir::Type lhs, mlir::Type rhs) const;
  void unifyShapes(mlir::Value &lhs, mlir::Value &rhs, llvm::StringRef symbol);
  mlir::Value cast(mlir::Value value, mlir::Type scalar);
  mlir::Value broadcast(mlir::Value scalar, mlir::Type shape);
  /// The value with exactly this type: casts the scalar type, broadcasts a scalar; other shapes are an error.
  mlir::Value convert(mlir::Value value, mlir::Type type);
  mlir::Value nonZero(mlir::Value value); ///< u1, component by component
  mlir::Value constant(int64_t value, mlir::Type type);
  mlir::Value constantFloat(double value, mlir::Type type);
  mlir::Value constantNumber(nb::handle number, mlir::Type type);
  bool holds(mlir::Type type, nb::handle integer); ///< whether an integer type can represent the value
  /// Whether the value is a number beyond the default integer type: what it meets gives it its type.
  bool isLarge(const Operand &value);
  mlir::Type literalType(nb::handle number, mlir::Type anchor);
  mlir::Value extract(mlir::Value vector, int64_t component);
  mlir::Value makeVector(llvm::ArrayRef<mlir::Value> components, mlir::Type type);
  mlir::Value reduce(BinaryKind kind, mlir::Value vector);
  /// Converts a loaded value to the type of computations: bf16 to f32.
  mlir::Value widened(mlir::Value value);
  /// The type to which both types are promoted; null if their shapes differ.
  mlir::Type findCommonType(mlir::Type first, mlir::Type second);
  mlir::Value makeVectorOf(llvm::ArrayRef<mlir::Value> components, llvm::ArrayRef<int64_t> shape);
  mlir::Value transpose(mlir::Value matrix);
};

} // namespace qd::frontend
