// subscripts.h: indices and slices of containers, vectors, lists and Python objects
#pragma once

#include "frontend/function_part.h"

namespace qd::frontend {

class Subscripts : FunctionPart {
public:
  using FunctionPart::FunctionPart;

  Operand visitSubscript(nb::handle node);
  Operand subscript(const Operand &base, nb::handle index);
  Operand subscriptValues(const Operand &base, const std::vector<Operand> &indices, bool isTuple);
  Operand subscriptTensor(const Tensor &tensor, const std::vector<Operand> &indices);
  /// A known integer index of a list, also if it is a component of a constant vector.
  std::optional<int64_t> findPosition(const Operand &index);
  Operand subscriptSequence(const Operand &base, const Operand &index);
  Operand subscriptObject(const Operand &operand, const Operand &index);
  nb::object makeSlice(const Slice &slice);                                 ///< as Python's object; its bounds are known while compiling
  std::vector<int64_t> sliceComponents(const Slice &slice, int64_t extent); ///< the positions that a slice selects
  Operand component(const Operand &base, int64_t flat);
  Components componentsOf(const Operand &base, std::vector<int32_t> numbers, mlir::Type type);
  Operand componentPlace(const Components &components, size_t position);
  std::vector<Operand> visitIndices(nb::handle index);
  std::vector<Operand> flattenIndices(const std::vector<Operand> &given); ///< expands vectors and lists
  int64_t wrapIndex(int64_t index, int64_t size, const llvm::Twine &container);
  std::vector<Operand> tensorShape(const Tensor &tensor);
  mlir::Value extent(const Tensor &tensor, int axis);
  mlir::Value indexValue(const Operand &value, size_t position);

private:
  Operand viewOf(const Tensor &tensor, std::vector<Operand> indices); ///< the subview at the given leading indices
  [[noreturn]] void failIndexCount(const Tensor &tensor, size_t count);
  Operand subscriptVector(const Operand &base, const std::vector<Operand> &indices);
  Operand placeOfComponent(const Place &base, llvm::ArrayRef<mlir::Value> indices);
  int64_t knownLength(nb::handle slice); ///< of a slice such as `i:i + 2`; 0 if unknown
};

} // namespace qd::frontend
