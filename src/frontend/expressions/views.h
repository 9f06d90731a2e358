// views.h: subviews of containers
#pragma once

#include "frontend/function_part.h"

namespace qd::frontend {

class Views : FunctionPart {
public:
  using FunctionPart::FunctionPart;

  /// A view, or the view of a whole container.
  View toView(const Operand &value);
  static std::vector<AxisRange> listRanges(const View &view);
  Operand productOf(const std::vector<Operand> &counts);
  Operand subview(const View &view, const Operand &start, const Operand &size);
  Operand subscriptView(const View &view, const std::vector<Operand> &indices);
  Operand viewAttribute(const View &view, nb::handle name);
  bool isHostView(const Tensor &tensor);
  void requireNoHostView(const Tensor &tensor); ///< records that the array is no view: a view needs another version
  /// Offset and strides of a view or container in its underlying array, in elements.
  Operand viewOffset(const Operand &container);
  std::vector<Operand> viewStrides(const Operand &container);
  Operand makeView(Arguments &arguments);
  /// The view clipped to its container, for code without a bounds check of the view.
  View clippedView(const View &view);
  Operand clampIndex(const Operand &index, const Operand &count);
  void checkViewIndices(const Operand &view, const std::vector<Operand> &indices, const std::vector<Operand> &counts);

private:
  Operand combineIndices(BinaryKind kind, const Operand &first, const Operand &second, llvm::StringRef spelling);
  Operand add(const Operand &first, const Operand &second);
  Operand subtract(const Operand &first, const Operand &second);
  Operand multiply(const Operand &first, const Operand &second);
  Operand viewBound(const Operand &bound); ///< requires an integer that is not a negative constant
  AxisRange sliceRange(const AxisRange &range, const Slice &slice);
  /// In debug mode, fails the launch unless 0 <= index and `index kind limit` for each pair of index and limit.
  mlir::Operation *checkWithin(const std::vector<std::pair<Operand, Operand>> &indices, BinaryKind kind, artifact::Site::Kind site,
                               llvm::StringRef what, llvm::function_ref<void(Fragments &)> describeValues);
  mlir::Operation *checkSlice(const std::vector<Operand> &bounds, const Operand &start, const Operand &size, const Operand &parent);
};

} // namespace qd::frontend
