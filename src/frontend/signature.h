// signature.h: parameters of the kernel, and results of the function
#pragma once

#include "frontend/function_part.h"

namespace qd::frontend {

class Signature : FunctionPart {
public:
  using FunctionPart::FunctionPart;

  void bindKernelParameters();
  Operand makeStructArgument(nb::handle structType, const PathNode *path);
  Operand withBoundary(Operand container, nb::handle annotation); ///< sets `isClamped` from the annotation
  Operand makeArrayArgument(nb::handle parameter, nb::handle argument, const PathNode *path);
  /// Sets the extents that the annotation of an array fixes. `shape`: a tuple with None for unknown extents; ignored if it is no tuple.
  static void setKnownExtents(layout::TensorLayout &layout, nb::handle shape);
  /// An array of another library. Its last `elementRank` axes are those of the element; `known`: as `shape` of setKnownExtents.
  Operand makeExternalArray(nb::handle argument, const PathNode *path, size_t elementRank, nb::handle known = nb::handle());
  Tensor makeTensor(const PythonObject &container, layout::TensorLayout layout, bool isField);
  std::vector<mlir::Type> listResultTypes();
  Operand convertResults(const Operand &value); ///< converts returned values to the annotated types
  /// Casts the numbers that an inlined func returns to the annotated scalar types; shapes may differ from the annotation.
  Operand castResults(const Operand &value);

private:
  Operand convertResult(nb::handle annotation, const Operand &value);
  Operand castResult(nb::handle annotation, const Operand &value);
};

} // namespace qd::frontend
