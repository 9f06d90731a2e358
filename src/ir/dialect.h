// dialect.h: the qd dialect: types, operations, and queries on types that every module uses
#pragma once

#include "ir/builtins.h"
#include "layout/tensor_layout.h"
#include "support/scalar_type.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/RegionKindInterface.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace qd::ir {

class TensorType;

bool isScalar(mlir::Type type);
bool isValue(mlir::Type type);
bool isIntegerScalar(mlir::Type type);
bool isFloatScalar(mlir::Type type);

/// The scalar of a scalar, vector or matrix.
mlir::Type getScalar(mlir::Type value);
/// The type of the same shape with another scalar type.
mlir::Type withScalar(mlir::Type value, mlir::Type scalar);
/// 0 for a scalar, 1 for a vector, 2 for a matrix.
int64_t getAxisCount(mlir::Type value);
int64_t getComponentCount(mlir::Type value);
/// The value of an integer constant; none for u1 and for anything else.
std::optional<int64_t> findInteger(mlir::Value value);
/// The integer that a value is cast from, unless an integer on the way is narrower than the one before; other values themselves.
mlir::Value skipWidening(mlir::Value value);

support::ScalarType getScalarType(mlir::Type scalar);
mlir::Type getType(mlir::MLIRContext *ctx, support::ScalarType type);
layout::ValueType getValueType(mlir::Type value);
mlir::Type getType(mlir::MLIRContext *ctx, const layout::ValueType &type);
TensorType getType(mlir::MLIRContext *ctx, const layout::TensorLayout &layout);
llvm::SmallVector<layout::Tiling, 2> getTilings(TensorType type);
/// The type as messages write it: "f32", "[Tensor (3) f32]", "[Tensor (2, 2) i32]".
std::string describe(mlir::Type value);

} // namespace qd::ir

#include "ir/dialect.h.inc"

#define GET_TYPEDEF_CLASSES
#include "ir/types.h.inc"

#include "ir/interfaces.h.inc"

#define GET_OP_CLASSES
#include "ir/ops.h.inc"

namespace qd::ir {

/// The number of iterations along an axis if they count up by one and the bounds are constants. Steps are ignored.
std::optional<int64_t> findLength(ForOp loop, unsigned axis);
/// The number of iterations along some axes, or along all; nothing if the length of one is unknown.
std::optional<double> findIterations(ForOp loop, llvm::ArrayRef<unsigned> axes);
std::optional<double> findIterations(ForOp loop);
/// The number of iterations, if axes of unknown length had this one.
double estimateIterations(ForOp loop, double unknownLength);

/// Whether the operation is a barrier for all threads of the loop.
inline bool isGridBarrier(mlir::Operation *op) {
  auto barrier = llvm::dyn_cast<BarrierOp>(op);
  return barrier && barrier.getGrid();
}

/// Whether the operation is meaningful only among the threads of a block.
inline bool isOfBlock(mlir::Operation *op) {
  auto isShared = [](mlir::Value operand) { return operand.getDefiningOp<SharedOp>() != nullptr; };
  return llvm::isa<BarrierOp, ThreadOp, BlockOp, ShuffleOp, CombineOp, PinOp, BallotOp, ActiveOp>(op) ||
         llvm::any_of(op->getOperands(), isShared);
}

/// Approximate cycles of a vector operation for each component; 0 for all but unary and binary operations.
int getOperatorCost(mlir::Operation *op);
/// Whether an operation is a function of numbers with a long routine. Functions of bits are short on most processors.
bool isLongFunction(mlir::Operation *op);

} // namespace qd::ir
