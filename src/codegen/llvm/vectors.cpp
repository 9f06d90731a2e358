// vectors.cpp: vectors and matrices, component by component
//
// In:   operations on whole vectors and matrices.
// Out:  lists of components; nothing is a vector of LLVM except the lanes of one component.
#include "codegen/llvm/lane_rules.h"
#include "codegen/llvm/operators.h"

using namespace mlir;

namespace qd::codegen {

Component Operators::getPosition(VectorType shape, ArrayRef<Component> indices, TypeRange types) {
  Type indexType = IntegerType::get(shape.getContext(), 32, IntegerType::Signed);
  Component position;
  for (auto [axis, index] : llvm::enumerate(indices)) {
    Component next = in.castIndex(index, types[axis], builder.getInt32Ty());
    if (axis > 0) {
      Component extent = {builder.getInt32(uint32_t(shape.getDimSize(unsigned(axis))))};
      next = combine(ir::BinaryKind::add, indexType, combine(ir::BinaryKind::mul, indexType, position, extent), next);
    }
    position = next;
  }
  return position;
}

Component Operators::isAt(const Component &index, size_t position) {
  llvm::Constant *number = llvm::ConstantInt::get(index.value->getType()->getScalarType(), position);
  if (index.kind.isUniform()) return {builder.CreateICmpEQ(index.value, number)};
  return in.makeVarying(builder.CreateICmpEQ(in.toVector(index), in.splat(number)));
}

/// Selects the component at a run-time index with a chain of selects: one instruction per component and no memory.
Component Operators::choose(ArrayRef<Component> components, const Component &index) {
  Component result = components[0];
  for (size_t i = 1; i < components.size(); ++i) result = select(isAt(index, i), components[i], result);
  return result;
}

Components Operators::emitMatmul(ir::MatmulOp op) {
  auto left = cast<VectorType>(op.getLhs().getType()), right = cast<VectorType>(op.getRhs().getType());
  // A vector on the left is a row; on the right it is a column.
  int64_t rows = left.getRank() == 2 ? left.getDimSize(0) : 1;
  int64_t inner = left.getDimSize(left.getRank() - 1);
  int64_t columns = right.getRank() == 2 ? right.getDimSize(1) : 1;
  if (left.getRank() == 1 && right.getRank() == 2 && right.getDimSize(0) != inner) {
    // A column times a row is an outer product.
    rows = left.getDimSize(0);
    inner = 1;
  }
  const Components lhs = values.getValue(op.getLhs()), rhs = values.getValue(op.getRhs());
  Type scalar = left.getElementType();
  Components result;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column) {
      Component sum;
      for (int64_t k = 0; k < inner; ++k) {
        Component product = combine(ir::BinaryKind::mul, scalar, lhs[size_t(row * inner + k)], rhs[size_t(k * columns + column)]);
        sum = k == 0 ? product : combine(ir::BinaryKind::add, scalar, sum, product);
      }
      result.push_back(sum);
    }
  return result;
}

Components Operators::emitVectorOp(Operation *op) {
  if (auto moved = moveComponents<Components>(op, [&](Value value) -> const Components & { return values.getValue(value); })) return *moved;
  if (auto extract = dyn_cast<ir::ExtractAtOp>(op)) {
    Components indices = values.getScalars(extract.getIndices());
    Component position = getPosition(cast<VectorType>(extract.getOperand().getType()), indices, extract.getIndices().getTypes());
    return {choose(Components(values.getValue(extract.getOperand())), position)};
  }
  if (auto reduce = dyn_cast<ir::ReduceOp>(op)) {
    Components all = values.getValue(reduce.getOperand());
    Component sum = all[0];
    for (const Component &component : llvm::drop_begin(all)) sum = combine(reduce.getBinaryKind(), reduce.getType(), sum, component);
    return {sum};
  }
  return emitMatmul(cast<ir::MatmulOp>(op));
}

} // namespace qd::codegen
