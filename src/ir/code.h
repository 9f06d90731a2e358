// code.h: short forms for the code that passes and the frontend add
#pragma once

#include "ir/dialect.h"

#include "mlir/IR/Builders.h"

namespace qd::ir {

/// A float constant, in every component. makeZero gives -0.0: adding it changes no number, 0.0 and -0.0 included.
mlir::Value makeFloat(mlir::OpBuilder &builder, mlir::Location loc, mlir::Type type, double value);
inline mlir::Value makeZero(mlir::OpBuilder &builder, mlir::Location loc, mlir::Type type) { return makeFloat(builder, loc, type, -0.0); }
/// An integer or u1 constant, in every component.
mlir::Value makeInteger(mlir::OpBuilder &builder, mlir::Location loc, mlir::Type type, int64_t value);

/// Short forms for integer arithmetic, places and conditions at the builder's insertion point.
class Code {
public:
  Code(mlir::OpBuilder &builder, mlir::Location loc) : builder(builder), loc(loc) {}

  mlir::Value integer(int64_t value) { return integer(type(), value); }
  mlir::Value integer(mlir::Type type, int64_t value) { return makeInteger(builder, loc, type, value); }
  mlir::Type type() { return builder.getIntegerType(32, /*isSigned=*/true); }
  mlir::Value unary(UnaryKind kind, mlir::Value x) { return UnaryOp::create(builder, loc, kind, x); }
  mlir::Value binary(BinaryKind kind, mlir::Value x, mlir::Value y) { return BinaryOp::create(builder, loc, kind, x, y); }
  mlir::Value add(mlir::Value x, mlir::Value y) { return binary(BinaryKind::add, x, y); }
  mlir::Value sub(mlir::Value x, mlir::Value y) { return binary(BinaryKind::sub, x, y); }
  mlir::Value select(mlir::Value condition, mlir::Value x, mlir::Value y) { return SelectOp::create(builder, loc, condition, x, y); }
  /// x / y rounded up, for integers that are not negative.
  mlir::Value divideUp(mlir::Value x, mlir::Value y);
  mlir::Value cast(mlir::Value value, mlir::Type to);
  mlir::Value local(mlir::Type pointee) { return LocalOp::create(builder, loc, RefType::get(pointee)); }
  mlir::Value load(mlir::Value place) { return LoadOp::create(builder, loc, llvm::cast<RefType>(place.getType()).getPointee(), place); }
  void store(mlir::Value value, mlir::Value place) { StoreOp::create(builder, loc, value, place); }
  mlir::Value component(mlir::Value place, mlir::ValueRange indices);
  mlir::Value extract(mlir::Value vector, int64_t component);
  void when(mlir::Value condition, llvm::function_ref<void()> body, llvm::function_ref<void()> otherwise = nullptr);
  /// A sequential loop; `body` gets the index.
  ForOp loop(mlir::Value lower, mlir::Value upper, llvm::function_ref<void(mlir::Value)> body);

  mlir::OpBuilder &builder;
  mlir::Location loc;
};

} // namespace qd::ir
