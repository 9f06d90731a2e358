// vectors.cpp: vectors and matrices, component by component
#include "codegen/llvm/body.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace qd::codegen {

Component BodyEmitter::getPosition(VectorType shape, ArrayRef<Component> indices, TypeRange types) {
  Type indexType = IntegerType::get(shape.getContext(), 32, IntegerType::Signed);
  Component position;
  for (auto [axis, index] : llvm::enumerate(indices)) {
    Component next = castIndex(index, types[axis], builder.getInt32Ty());
    if (axis > 0) {
      Component extent = {builder.getInt32(uint32_t(shape.getDimSize(unsigned(axis))))};
      next = combine(ir::BinaryKind::add, indexType, combine(ir::BinaryKind::mul, indexType, position, extent), next);
    }
    position = next;
  }
  return position;
}

Component BodyEmitter::isAt(const Component &index, size_t position) {
  llvm::Constant *number = llvm::ConstantInt::get(index.value->getType()->getScalarType(), position);
  if (index.kind.isUniform()) return {builder.CreateICmpEQ(index.value, number)};
  return makeVarying(builder.CreateICmpEQ(toVector(index), splat(number)));
}

/// Selects the component at a run-time index with a chain of selects: one instruction per component and no memory.
Component BodyEmitter::choose(ArrayRef<Component> components, const Component &index) {
  Component result = components[0];
  for (size_t i = 1; i < components.size(); ++i) result = select(isAt(index, i), components[i], result);
  return result;
}

Components BodyEmitter::emitMatmul(ir::MatmulOp op) {
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
  const Components lhs = getValue(op.getLhs()), rhs = getValue(op.getRhs());
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

Components BodyEmitter::emitVectorOp(Operation *op) {
  return llvm::TypeSwitch<Operation *, Components>(op)
      .Case([&](ir::VectorOp vector) { return getScalars(vector.getComponents()); })
      .Case([&](ir::BroadcastOp broadcast) {
        return Components(size_t(ir::getComponentCount(broadcast.getType())), getScalar(broadcast.getOperand()));
      })
      .Case([&](ir::ExtractOp extract) { return Components{getValue(extract.getOperand())[extract.getComponent()]}; })
      .Case([&](ir::ExtractAtOp extract) {
        Components indices = getScalars(extract.getIndices());
        Component position = getPosition(cast<VectorType>(extract.getOperand().getType()), indices, extract.getIndices().getTypes());
        return Components{choose(Components(getValue(extract.getOperand())), position)};
      })
      .Case([&](ir::ReduceOp reduce) {
        Components all = getValue(reduce.getOperand());
        Component sum = all[0];
        for (const Component &component : llvm::drop_begin(all)) sum = combine(reduce.getBinaryKind(), reduce.getType(), sum, component);
        return Components{sum};
      })
      .Case([&](ir::MatmulOp matmul) { return emitMatmul(matmul); })
      .Case([&](ir::TransposeOp transpose) {
        return getTransposed(getValue(transpose.getOperand()), cast<VectorType>(transpose.getOperand().getType()));
      });
}

} // namespace qd::codegen
