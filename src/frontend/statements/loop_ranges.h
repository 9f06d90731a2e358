// loop_ranges.h: what a loop iterates over: ranges, containers, and parts of containers
#pragma once

#include "frontend/function_part.h"

#include <functional>

namespace qd::frontend {

/// The iterations of a loop: a box of indices.
struct Box {
  std::vector<mlir::Value> lower, upper, steps;
  std::vector<int32_t> axes; ///< order of the loops, outermost first; empty: in order of the axes
  bool isGrouped = false;    ///< the loop variable is an index vector
  bool isNdrange = false;    ///< its loop variables can be assigned
  /// Compiles the body for the indices of the op, which are not those of the loop; empty: `loopOver` does.
  std::function<void(nb::handle node, mlir::ValueRange indices)> visit;
  int64_t mostIterations = 0; ///< 0: unknown
  std::vector<bool> isBiased; ///< per axis: the bounds and the indices of the op are `biased`; empty: none
};

class LoopRanges : FunctionPart {
public:
  using FunctionPart::FunctionPart;

  /// Inverts the sign bit of an i64, which turns the unsigned order into the signed one; its own inverse.
  mlir::Value biased(mlir::Value value);
  /// The part of a container that indices and slices select; the loop's indices are those of the container.
  Box boxOfSlice(const Operand &container, const std::vector<Operand> &indices, nb::handle target);
  /// One of two ranges, selected at run time.
  Operand chooseRange(nb::handle node, mlir::Value condition);
  /// The iterations of a loop; none if it is unrolled.
  std::optional<Box> findBox(nb::handle iterNode, Operand &iterable, nb::handle target);
  static size_t countAxes(const Operand &container); ///< for a tensor or view
  Operand leafTensor(Operand container);             ///< for a container of structs: its first container of numbers
  bool isContainer(const Operand &value);
  Operand toRange(const Operand &object);
  Operand makeRange(const Arguments &arguments);
  Operand reverse(const Range &range); ///< the loop in the opposite order
  Operand makeNdrange(const Arguments &arguments);
  Operand makeZip(const Arguments &arguments);

  void checkIndices(const Box &box, nb::handle target);

private:
  Box boxOfRange(const Range &range, nb::handle target);
  mlir::Value clipped(const Operand &value); ///< a u64 as an i64; clips counts that no loop can reach
  Box boxOfContainers(const std::vector<Operand> &containers, bool isGrouped, nb::handle target);
  std::pair<mlir::Value, mlir::Value> findBounds(const Operand &container, size_t axis);
  /// The first index and the end of each axis of a container, or of the cells of a node.
  std::vector<std::pair<mlir::Value, mlir::Value>> listBounds(Operand container);
  size_t countTargets(nb::handle target);
  mlir::Type boundType(llvm::ArrayRef<Operand> bounds);
};

} // namespace qd::frontend
