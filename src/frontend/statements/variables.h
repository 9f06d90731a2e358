// variables.h: places of variables: their declaration, and stores to them
#pragma once

#include "frontend/function_part.h"

namespace qd::frontend {

class Variables : FunctionPart {
public:
  using FunctionPart::FunctionPart;

  void requirePlace(const Operand &place); ///< fails if it cannot be assigned
  void store(const Operand &place, const Operand &value);
  void storeTyped(const Operand &place, mlir::Value value);
  /// Calls `act` for a place, or for the place of each component, with the corresponding part of the value.
  void forEachPlace(const Operand &place, mlir::Value value, llvm::function_ref<void(const Place &one, mlir::Value part)> act);
  /// Updates a place in one step, and returns its old value.
  mlir::Value update(ir::AtomicKind kind, const Place &place, mlir::Value value);
  Operand declare(const Operand &value, bool isAssignedOnce);
  /// Declares a name that a part of a statement assigns, such as a condition, for the block of the statement. It is 0 before.
  void declareForStatement(PyObject *name, const Operand &value);
  Operand merge(Binding &binding, PyObject *name);
  [[noreturn]] void failImmutable(const llvm::Twine &name);
  [[noreturn]] void failNoPlace();
  [[noreturn]] void failCaptured(const llvm::Twine &name);
  static bool isVisible(const Binding *binding);
  /// The variable that an assignment to the name changes; null if the assignment declares it. Fails if the name cannot be assigned.
  Binding *findTarget(nb::handle target);

private:
  Place makeLocal(mlir::Type type);
};

} // namespace qd::frontend
