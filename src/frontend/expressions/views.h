// views.h: subviews of containers
#pragma once

#include "frontend/function_part.h"

namespace qd::frontend {

class Views : FunctionPart {
public:
  using FunctionPart::FunctionPart;

  /// A view, or the view of a whole container.
  Operand toView(const Operand &value);
  static std::vector<Operand> listRanges(const Operand &view); ///< of the view's axes: start, count and step
  Operand productOf(const std::vector<Operand> &counts);
  Operand subview(const Operand &view, const Operand &start, const Operand &size);
  Operand subscriptView(const Operand &view, const std::vector<Operand> &indices);
  Operand viewAttribute(const Operand &view, nb::handle name);
  bool isHostView(const Operand &tensor);
  void requireNoHostView(const Operand &tensor); ///< records that the array is no view: a view needs another version
  /// Offset and strides of a view or container in its underlying array, in elements.
  Operand viewOffset(const Operand &container);
  Operand viewStrides(const Operand &container);
  Operand makeView(Arguments &arguments);
  /// The view clipped to its container, for code without a bounds check of the view.
  Operand clippedView(const Operand &view);
  Operand clampIndex(const Operand &index, const Operand &count);
  void checkViewIndices(const Operand &view, const std::vector<Operand> &indices, const std::vector<Operand> &counts);

private:
  Operand combineIndices(BinaryKind kind, const Operand &first, const Operand &second, llvm::StringRef spelling);
  Operand add(const Operand &first, const Operand &second);
  Operand subtract(const Operand &first, const Operand &second);
  Operand multiply(const Operand &first, const Operand &second);
  Operand viewBound(const Operand &bound); ///< requires an integer that is not a negative constant
  Operand sliceRange(const Operand &range, const Operand &slice);
  /// In debug mode, fails the launch unless 0 <= index and `index kind limit` for each pair of index and limit.
  mlir::Operation *checkWithin(const std::vector<std::pair<Operand, Operand>> &indices, BinaryKind kind, artifact::Site::Kind site,
                               llvm::StringRef what, llvm::function_ref<void(Fragments &)> describeValues);
  mlir::Operation *checkSlice(const std::vector<Operand> &bounds, const Operand &start, const Operand &size, const Operand &parent);
};

} // namespace qd::frontend
