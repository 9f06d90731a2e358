// code.cpp: short forms for the code that passes and the frontend add
//
// Integers are si32 where no type is given. Everything is emitted at the builder's insertion point.
#include "ir/code.h"

using namespace mlir;

namespace qd::ir {

static TypedAttr makeAttribute(Type type, Attribute scalar) {
  if (auto shaped = dyn_cast<VectorType>(type)) return DenseElementsAttr::get(shaped, scalar);
  return cast<TypedAttr>(scalar);
}

Value makeFloat(OpBuilder &builder, Location loc, Type type, double value) {
  return ConstantOp::create(builder, loc, type, makeAttribute(type, builder.getFloatAttr(getScalar(type), value)));
}

Value makeInteger(OpBuilder &builder, Location loc, Type type, int64_t value) {
  return ConstantOp::create(builder, loc, type, makeAttribute(type, builder.getIntegerAttr(getScalar(type), value)));
}

Value Code::divideUp(Value x, Value y) { return binary(BinaryKind::raw_div, add(x, sub(y, integer(1))), y); }

Value Code::cast(Value value, Type to) { return value.getType() == to ? value : Value(CastOp::create(builder, loc, to, value)); }

Value Code::component(Value place, ValueRange indices) {
  Type scalar = getScalar(llvm::cast<RefType>(place.getType()).getPointee());
  return ComponentOp::create(builder, loc, RefType::get(scalar), place, indices);
}

Value Code::extract(Value vector, int64_t component) {
  return ExtractOp::create(builder, loc, getScalar(vector.getType()), vector, uint32_t(component));
}

void Code::when(Value condition, llvm::function_ref<void()> body, llvm::function_ref<void()> otherwise) {
  auto op = IfOp::create(builder, loc, condition);
  OpBuilder::InsertionGuard guard(builder);
  auto fill = [&](Region &region, llvm::function_ref<void()> with) {
    builder.setInsertionPointToStart(&region.emplaceBlock());
    with();
    YieldOp::create(builder, loc);
  };
  fill(op.getThenRegion(), body);
  if (otherwise) fill(op.getElseRegion(), otherwise);
}

ForOp Code::loop(Value lower, Value upper, llvm::function_ref<void(Value)> body) {
  auto op = ForOp::create(builder, loc, ValueRange(lower), ValueRange(upper), ValueRange(), /*parallel=*/false, IntegerAttr(),
                          IntegerAttr(), StringAttr());
  OpBuilder::InsertionGuard guard(builder);
  Block &block = op.getBody().emplaceBlock();
  Value index = block.addArgument(lower.getType(), loc);
  builder.setInsertionPointToStart(&block);
  body(index);
  YieldOp::create(builder, loc);
  return op;
}

} // namespace qd::ir
