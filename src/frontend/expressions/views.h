// views.h: subviews of containers
#pragma once

#include "frontend/function_part.h"

namespace qd::frontend {

class Views : FunctionPart {
public:
  using FunctionPart::FunctionPart;

  /// A view, or the view of a whole container.
  Value toView(const Value &value);
  static std::vector<Value> listRanges(const Value &view); ///< of the view's axes: start, count and step
  Value productOf(const std::vector<Value> &counts);
  Value subview(const Value &view, const Value &start, const Value &size);
  Value subscriptView(const Value &view, const std::vector<Value> &indices);
  Value viewAttribute(const Value &view, nb::handle name);
  bool isHostView(const Value &tensor);
  void requireNoHostView(const Value &tensor); ///< records that the array is no view: a view needs another version
  /// Offset and strides of a view or container in its underlying array, in elements.
  Value viewOffset(const Value &container);
  Value viewStrides(const Value &container);
  Value makeView(Arguments &arguments);
  /// The view clipped to its container, for code without a bounds check of the view.
  Value clippedView(const Value &view);
  Value clampIndex(const Value &index, const Value &count);
  void checkViewIndices(const Value &view, const std::vector<Value> &indices, const std::vector<Value> &counts);

private:
  Value combineIndices(BinaryKind kind, const Value &first, const Value &second, llvm::StringRef spelling);
  Value add(const Value &first, const Value &second);
  Value subtract(const Value &first, const Value &second);
  Value multiply(const Value &first, const Value &second);
  Value viewBound(const Value &bound); ///< requires an integer that is not a negative constant
  Value sliceRange(const Value &range, const Value &slice);
  /// In debug mode, fails the launch unless 0 <= index and `index kind limit` for each pair of index and limit.
  mlir::Operation *checkWithin(const std::vector<std::pair<Value, Value>> &indices, BinaryKind kind, artifact::Site::Kind site,
                               llvm::StringRef what, llvm::function_ref<void(Fragments &)> describeValues);
  mlir::Operation *checkSlice(const std::vector<Value> &bounds, const Value &start, const Value &size, const Value &parent);
};

} // namespace qd::frontend
