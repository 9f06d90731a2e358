// sparse_cells.h: fields whose cells may be inactive: writes activate cells, loops visit active ones
#pragma once

#include "frontend/function_part.h"

namespace qd::frontend {

/// The element of a field in a sparse node, with what a write needs to activate its cell.
struct SparseElement {
  Tensor field;
  std::vector<mlir::Value> indices;
};

/// The cell that an iteration of a loop visits.
struct VisitedCell {
  nb::object loop;
  std::vector<mlir::Value> indices;
  mlir::Value block, position; ///< number of the block, position of the cell in it
  int64_t blockSize = 1;
};

class SparseCells : FunctionPart {
public:
  using FunctionPart::FunctionPart;

  /// Lets a write of the place activate the cell of the element, unless the field is in no sparse node.
  void markElement(Place &place, const Tensor &field, mlir::ValueRange indices);
  /// The place of an element of a field in the cell that the current iteration visits; its address is linear in the position of the cell.
  /// None for other elements.
  std::optional<Place> findVisited(const Tensor &field, mlir::ValueRange indices);
  /// Activates the cell of a place that is about to be written.
  void activate(const Operand &place);
  /// Compiles a loop over a field or node with inactive cells; false for any other loop.
  bool visitLoop(nb::handle node, const Operand &iterable);
  /// Compiles `x.append(value)`, `x[i].append(value)`, and so on; none for any other call.
  std::optional<Operand> visitListMethod(nb::handle call);
  /// Makes writes of the fields below these nodes, or of these fields, activate nothing.
  void assumeActive(const std::vector<Operand> &nodes);

private:
  Operand member(const Operand &base, const char *name);
  nb::object known(const Operand &base, const char *name);
  /// Calls a function of quadrants._sparse.trees.
  Operand callLibrary(const char *name, std::vector<Operand> operands);
  mlir::Value encode(const Operand &digits, mlir::ValueRange indices, mlir::Type counter);
  std::vector<mlir::Value> decode(const Operand &loop, mlir::Value number, mlir::Type counter);
  /// `number / divisor` or `number % divisor` of a number that is not negative.
  mlir::Value divide(BinaryKind kind, mlir::Value number, int64_t divisor);
  mlir::Value combine(BinaryKind kind, mlir::Value value, int64_t constant);
  void visitCells(nb::handle node, VisitedCell cell, mlir::Value isActive, bool isGrouped);

  std::vector<VisitedCell> visited; ///< of the loops around
};

} // namespace qd::frontend
