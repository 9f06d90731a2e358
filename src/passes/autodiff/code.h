// code.h: short forms for the code that derivatives add
#pragma once

#include "passes/autodiff/derivatives.h"

namespace qd::passes {

/// Short forms for integer arithmetic, places and conditions at the builder's insertion point.
class Code {
public:
  Code(mlir::OpBuilder &builder, mlir::Location loc) : builder(builder), loc(loc) {}

  mlir::Value integer(int64_t value) { return makeInteger(builder, loc, type(), value); }
  mlir::Type type() { return builder.getIntegerType(32, /*isSigned=*/true); }
  mlir::Value binary(ir::BinaryKind kind, mlir::Value x, mlir::Value y) { return ir::BinaryOp::create(builder, loc, kind, x, y); }
  mlir::Value add(mlir::Value x, mlir::Value y) { return binary(ir::BinaryKind::add, x, y); }
  mlir::Value sub(mlir::Value x, mlir::Value y) { return binary(ir::BinaryKind::sub, x, y); }
  mlir::Value select(mlir::Value condition, mlir::Value x, mlir::Value y) { return ir::SelectOp::create(builder, loc, condition, x, y); }
  /// x / y rounded up, for integers that are not negative.
  mlir::Value divideUp(mlir::Value x, mlir::Value y);
  mlir::Value cast(mlir::Value value, mlir::Type to);
  mlir::Value local(mlir::Type pointee) { return ir::LocalOp::create(builder, loc, ir::RefType::get(pointee)); }
  mlir::Value load(mlir::Value place) {
    return ir::LoadOp::create(builder, loc, llvm::cast<ir::RefType>(place.getType()).getPointee(), place);
  }
  void store(mlir::Value value, mlir::Value place) { ir::StoreOp::create(builder, loc, value, place); }
  mlir::Value component(mlir::Value place, mlir::ValueRange indices);
  mlir::Value extract(mlir::Value vector, int64_t component);
  void when(mlir::Value condition, llvm::function_ref<void()> body, llvm::function_ref<void()> otherwise = nullptr);
  /// A sequential loop; `body` gets the index.
  ir::ForOp loop(mlir::Value lower, mlir::Value upper, llvm::function_ref<void(mlir::Value)> body);

  mlir::OpBuilder &builder;
  mlir::Location loc;
};

} // namespace qd::passes
