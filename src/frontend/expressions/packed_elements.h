// packed_elements.h: elements of quantized fields, which are parts of words
#pragma once

#include "frontend/function_part.h"

namespace qd::frontend {

/// The element of a quant_array that an iteration visits, along each axis. One iteration of the parallel loop visits a whole word.
struct VisitedElement {
  std::vector<mlir::Value> indices;
  std::vector<mlir::Value> words, positions; ///< index of the word, position in it; null: there is only one
  std::vector<int64_t> neighbors, origin;    ///< elements in one word, lowest index
};

class PackedElements : FunctionPart {
public:
  using FunctionPart::FunctionPart;

  /// Compiles a loop over a quant_array word by word; false for any other loop.
  bool visitLoop(nb::handle node, const Operand &iterable);
  /// The element of a quantized field; none for other fields.
  std::optional<Operand> findElement(const Tensor &field, mlir::ValueRange indices);
  mlir::Value load(const Place &place);
  void store(const Place &place, mlir::Value value);
  /// Updates the value in one step, and returns the old one.
  mlir::Value update(ir::AtomicKind kind, const Place &place, mlir::Value value);

private:
  using Change = llvm::function_ref<mlir::Value(mlir::Value word)>;

  /// Calls a function of quadrants._quantized.kernels for a word.
  mlir::Value callLibrary(const char *name, const PackedElement &element, llvm::ArrayRef<mlir::Value> operands);
  /// Replaces the word by `change(word)`, again if another write came in between; returns the old word.
  mlir::Value exchange(const Place &place, bool stores, Change change);
  mlir::Value loadWord(mlir::Value ref);
  /// Zero, with the derivative of a value that is not huge.
  mlir::Value withoutValue(mlir::Value value);
  mlir::Value combine(BinaryKind kind, mlir::Value value, int64_t constant);
  /// The element at indices that the loops around do not visit.
  VisitedElement findPlaces(llvm::ArrayRef<std::vector<int64_t>> axes, const ir::TensorType &type, mlir::ValueRange indices);

  std::vector<VisitedElement> visited; ///< of the loops around
};

} // namespace qd::frontend
