// operators.h: operators on LLVM values (scalars or vectors) of the language's types, and on the components of values
//
// operators.cpp: operators and conversions; math.cpp: functions; vectors.cpp: vectors and matrices; combining.cpp: the operators of
// reductions.
#pragma once

#include "codegen/llvm/value_map.h"

namespace qd::codegen {

class Operators : EmitterPart {
public:
  Operators(LaneBuilder &in, ValueMap &values) : EmitterPart(in), values(values) {}

  Components emitConstant(mlir::TypedAttr value);
  Components emitElementwise(mlir::Operation *op);
  Components emitVectorOp(mlir::Operation *op);

  llvm::Value *emitUnary(ir::UnaryKind kind, mlir::Type type, llvm::Value *value);
  llvm::Value *emitBinary(ir::BinaryKind kind, mlir::Type lhsType, mlir::Type rhsType, llvm::Value *lhs, llvm::Value *rhs);
  llvm::Value *emitCast(mlir::Type from, mlir::Type to, llvm::Value *value);
  Components castAll(mlir::Type from, mlir::Type to, Components values);
  Component combine(ir::BinaryKind kind, mlir::Type type, const Component &lhs, const Component &rhs);
  Component select(const Component &condition, const Component &a, const Component &b);

  //--- Components of vectors ---
  /// Number of a component in row-major order.
  Component getPosition(mlir::VectorType shape, llvm::ArrayRef<Component> indices, mlir::TypeRange types);
  /// Whether an index equals `position`.
  Component isAt(const Component &index, size_t position);
  Component choose(llvm::ArrayRef<Component> components, const Component &index);

  //--- Reductions ---
  llvm::Value *emitAtomicCombine(ir::AtomicKind kind, mlir::Type type, llvm::Value *old, llvm::Value *value);
  Components combineAll(ir::AtomicKind kind, mlir::Type type, const Components &old, const Components &value);
  llvm::Constant *getIdentity(ir::AtomicKind kind, mlir::Type type);
  /// Combines all lanes, in a fixed order.
  llvm::Value *reduceLanes(ir::AtomicKind kind, mlir::Type type, llvm::Value *vector);

private:
  Component emitElement(mlir::Operation *op, llvm::ArrayRef<Component> operands);
  Components emitMatmul(ir::MatmulOp op);
  llvm::Value *callDevlib(llvm::StringRef name, mlir::Type type, llvm::ArrayRef<llvm::Value *> operands);
  llvm::Value *emitMath(ir::UnaryKind kind, mlir::Type type, llvm::Value *value);
  llvm::Value *emitFma(mlir::Type type, llvm::Value *x, llvm::Value *y, llvm::Value *z);
  llvm::Value *emitDivision(ir::BinaryKind kind, mlir::Type type, llvm::Value *lhs, llvm::Value *rhs);
  llvm::Value *emitPower(mlir::Type type, mlir::Type rhsType, llvm::Value *lhs, llvm::Value *rhs);
  /// Whether an add, sub, mul or shl of integers leaves the range of the type.
  llvm::Value *emitOverflows(ir::BinaryKind kind, mlir::Type type, llvm::Value *lhs, llvm::Value *rhs);
  llvm::Value *emitDoubleToHalf(llvm::Value *value, llvm::Type *target);

  ValueMap &values;
};

} // namespace qd::codegen
