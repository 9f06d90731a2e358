// sparse_cells.h: fields whose cells may be inactive: writes activate cells, loops visit active ones
#pragma once

#include "frontend/function_part.h"

namespace qd::frontend {

/// The element of a field in a sparse node, with what a write needs to activate its cell.
struct SparseElement {
  Tensor field;
  std::vector<mlir::Value> indices;
  bool isVisited = false; ///< of the cell that the iteration visits, which is active unless the body deactivates cells
};

/// The cell that an iteration of a loop visits.
struct VisitedCell {
  nb::object loop;
  std::vector<mlir::Value> indices;
  mlir::Value block, position; ///< number of the block, position of the cell in it
  int64_t blockSize = 1;
  std::vector<std::pair<mlir::Value, std::shared_ptr<const SparseElement>>> elements = {}; ///< places of the cell that the body uses
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
  /// Whether the operand has a place whose cell may be inactive.
  static bool holdsElement(const Operand &operand);
  /// Activates the cells of all places in an operand that a function may write.
  void activateAll(const Operand &operand);
  /// Compiles a loop over a field or node with inactive cells; false for any other loop.
  bool visitLoop(nb::handle node, const Operand &iterable);
  /// Compiles `x.append(value)`, `x[i].append(value)`, `x.parent()`, and so on; none for any other call.
  std::optional<Operand> visitMethod(nb::handle call);
  /// Whether assertions of the function are checked without debug=True: those of the library, such as that a list is not full.
  bool checksAlways();
  /// Makes writes of the fields below these nodes, or of these fields, activate nothing.
  void assumeActive(const std::vector<Operand> &nodes);

private:
  std::optional<Operand> visitParent(nb::handle call, nb::handle base);
  bool isAssumedActive(const Tensor &field);
  void activate(const SparseElement &element);
  /// Activates the cell before each write of one of its elements.
  void activateBeforeWrites(mlir::Value ref, const SparseElement &element);
  Operand member(const Operand &base, const char *name);
  nb::object known(const Operand &base, const char *name);
  /// Completes the list of active cells before a loop over them; gradient kernels do so, too.
  void refresh(const Operand &cells);
  Operand callFunction(const Operand &function, std::vector<Operand> operands);
  mlir::Value encode(const Operand &digits, mlir::ValueRange indices, mlir::Type counter);
  std::vector<mlir::Value> decode(const Operand &loop, mlir::Value number, mlir::Type counter);
  /// `number / divisor` or `number % divisor` of a number that is not negative.
  mlir::Value divide(BinaryKind kind, mlir::Value number, int64_t divisor);
  mlir::Value combine(BinaryKind kind, mlir::Value value, int64_t constant);
  /// If the body uses its own cells and not their indices, merges the axes of the block to one.
  void mergeAxes(const VisitedCell &cell);
  /// The same argument with another layout.
  ir::TensorArgumentOp makeView(ir::TensorArgumentOp argument, ir::TensorType type, uint32_t input);
  void visitCells(nb::handle node, VisitedCell cell, mlir::Value isActive, bool isGrouped);

  std::vector<VisitedCell> visited; ///< of the loops around
};

} // namespace qd::frontend
