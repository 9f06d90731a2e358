#include "passes/companions.h"

#include "ir/attributes.h"

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

Value Companions::get(OpBuilder &builder, Block &start, TensorArgumentOp container) {
  auto companion = container->getAttrOfType<ArrayAttr>(kCompanion);
  if (!companion) return {};
  auto offset = uint32_t(cast<IntegerAttr>(companion[0]).getInt());
  Value &value = made[offset];
  if (value) return value;
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&start);
  return value = TensorArgumentOp::create(builder, container.getLoc(), cast<TypeAttr>(companion[1]).getValue(), offset,
                                          (container.getName() + suffix).str(), container.getPosition(),
                                          cast<BoolAttr>(companion[2]).getValue());
}

} // namespace qd::passes
