// shadows.cpp: declare the shadows of containers
//
// In:   a container argument whose attribute kShadow describes its shadow: offset, type, whether it is unaliased.
// Out:  the shadow as an argument of the derived kernel or function, declared once.
// Here: both modes of differentiation use it.
#include "passes/autodiff/shadows.h"

#include "ir/attributes.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

Value Shadows::get(OpBuilder &builder, Block &start, TensorArgumentOp container) {
  auto shadow = container->getAttrOfType<ArrayAttr>(kShadow);
  if (!shadow) return {};
  auto offset = uint32_t(cast<IntegerAttr>(shadow[0]).getInt());
  const Type type = cast<TypeAttr>(shadow[1]).getValue();
  Value &value = made[{offset, type}];
  if (value) return value;
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&start);
  return value = TensorArgumentOp::create(builder, container.getLoc(), type, offset, (container.getName() + suffix).str(),
                                          container.getPosition(), cast<BoolAttr>(shadow[2]).getValue());
}

Value getSamePart(OpBuilder &builder, PlaceOpInterface part, Value base, ValueRange indices) {
  IRMapping mapping;
  mapping.map(part.getBase(), base);
  mapping.map(part.getIndices(), indices);
  return builder.clone(*part, mapping)->getResult(0);
}

} // namespace qd::passes
