// vectors.cpp: vectors and matrices, component by component
#include "codegen/llvm/body.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace qd::codegen {

/// The component at a run-time index: a chain of selects, which costs one instruction for each component and no memory.
Component BodyEmitter::choose(ArrayRef<Component> components, const Component &index) {
  Component result = components[0];
  for (size_t i = 1; i < components.size(); ++i) {
    llvm::Type *type = index.value->getType()->getScalarType();
    llvm::Constant *position = llvm::ConstantInt::get(type, i);
    Component isThis;
    if (index.kind.isUniform())
      isThis = {builder.CreateICmpEQ(index.value, position), LaneKind::uniform()};
    else
      isThis = makeVarying(builder.CreateICmpEQ(toVector(index), splat(position)));
    result = select(isThis, components[i], result);
  }
  return result;
}

Components BodyEmitter::emitMatmul(ir::MatmulOp op) {
  auto left = cast<VectorType>(op.getLhs().getType()), right = cast<VectorType>(op.getRhs().getType());
  // A vector on the left is a row, on the right a column.
  int64_t rows = left.getRank() == 2 ? left.getDimSize(0) : 1;
  int64_t inner = left.getDimSize(left.getRank() - 1);
  int64_t columns = right.getRank() == 2 ? right.getDimSize(1) : 1;
  if (left.getRank() == 1 && right.getRank() == 2 && right.getDimSize(0) != inner) {
    // A column times a row of one: an outer product.
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

LogicalResult BodyEmitter::emitVectorOp(Operation *op) {
  Components result;
  llvm::TypeSwitch<Operation *>(op)
      .Case<ir::VectorOp>([&](ir::VectorOp vector) {
        for (Value component : vector.getComponents()) result.push_back(getScalar(component));
      })
      .Case<ir::BroadcastOp>([&](ir::BroadcastOp broadcast) {
        result.assign(size_t(ir::getComponentCount(broadcast.getType())), Component(getScalar(broadcast.getOperand())));
      })
      .Case<ir::ExtractOp>([&](ir::ExtractOp extract) { result.push_back(getValue(extract.getOperand())[extract.getComponent()]); })
      .Case<ir::ExtractAtOp>([&](ir::ExtractAtOp extract) {
        auto type = cast<VectorType>(extract.getOperand().getType());
        Component index;
        Type indexType = IntegerType::get(op->getContext(), 32, IntegerType::Signed);
        for (auto [axis, value] : llvm::enumerate(extract.getIndices())) {
          Component next = castIndex(getScalar(value), value.getType(), builder.getInt32Ty());
          if (axis > 0) {
            Component extent = {builder.getInt32(uint32_t(type.getDimSize(axis)))};
            next = combine(ir::BinaryKind::add, indexType, combine(ir::BinaryKind::mul, indexType, index, extent), next);
          }
          index = next;
        }
        result.push_back(choose(Components(getValue(extract.getOperand())), index));
      })
      .Case<ir::ReduceOp>([&](ir::ReduceOp reduce) {
        Component sum;
        for (auto [i, component] : llvm::enumerate(Components(getValue(reduce.getOperand()))))
          sum = i == 0 ? component : combine(reduce.getBinaryKind(), reduce.getType(), sum, component);
        result.push_back(sum);
      })
      .Case<ir::MatmulOp>([&](ir::MatmulOp matmul) { result = emitMatmul(matmul); })
      .Case<ir::TransposeOp>([&](ir::TransposeOp transpose) {
        auto type = cast<VectorType>(transpose.getOperand().getType());
        int64_t rows = type.getDimSize(0), columns = type.getRank() == 2 ? type.getDimSize(1) : 1;
        const Components &from = getValue(transpose.getOperand());
        for (int64_t column = 0; column < columns; ++column)
          for (int64_t row = 0; row < rows; ++row) result.push_back(from[size_t(row * columns + column)]);
      });
  setValue(op->getResult(0), std::move(result));
  return success();
}

} // namespace qd::codegen
