// subscripts.h: indices and slices of containers, vectors, lists and Python objects
#pragma once

#include "frontend/function_part.h"

namespace qd::frontend {

class Subscripts : FunctionPart {
public:
  using FunctionPart::FunctionPart;

  Value visitSubscript(nb::handle node);
  Value subscript(const Value &base, nb::handle index);
  Value subscriptValues(const Value &base, const std::vector<Value> &indices, bool isTuple);
  Value subscriptTensor(const Value &tensor, const std::vector<Value> &indices);
  /// A known integer index of a list, also if it is a component of a constant vector.
  std::optional<int64_t> findPosition(const Value &index);
  Value subscriptSequence(const Value &base, const Value &index);
  Value component(const Value &base, int64_t flat);
  Value componentsOf(const Value &base, std::vector<int32_t> components, mlir::Type type);
  Value componentPlace(const Value &components, size_t position);
  std::vector<Value> visitIndices(nb::handle index);
  std::vector<Value> flattenIndices(const std::vector<Value> &given); ///< expands vectors and lists
  int64_t wrapIndex(int64_t index, int64_t size, const llvm::Twine &container);
  Value tensorShape(const Value &tensor);
  mlir::Value extent(const Value &tensor, int axis);
  mlir::Value indexValue(const Value &value, size_t position);

private:
  Value viewOf(const Value &tensor, std::vector<Value> indices); ///< the subview at the given leading indices
  [[noreturn]] void failIndexCount(const Value &tensor, size_t count);
  Value subscriptVector(const Value &base, const std::vector<Value> &indices);
  Value subscriptObject(const Value &base, const Value &index);
  Value placeOfComponent(const Value &base, llvm::ArrayRef<mlir::Value> indices);
  int64_t knownLength(nb::handle slice); ///< of a slice such as `i:i + 2`; 0 if unknown
  nb::object makeSlice(const Value &range);
  std::vector<int64_t> sliceComponents(const Value &slice, int64_t extent);
};

} // namespace qd::frontend
