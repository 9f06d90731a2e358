// assignments.h: assignments to names, elements and members
#pragma once

#include "frontend/function_part.h"

namespace qd::frontend {

class Assignments : FunctionPart {
public:
  using FunctionPart::FunctionPart;

  void visitAssign(nb::handle node);
  void visitAugmentedAssign(nb::handle node);
  void visitAnnotatedAssign(nb::handle node);
  void assignName(nb::handle target, const Operand &value, mlir::Type declared = {});
  /// The targets of an unpacking and their values; the value of a starred target is a list.
  std::vector<std::pair<nb::object, Operand>> pairTargets(nb::handle targets, const Operand &value);

private:
  /// Compiles `base[key] op= operand` for objects of users' classes that have `__getitem__`; false for other containers.
  bool augmentItem(nb::handle target, NodeKind op, nb::handle operand);
  void assign(nb::handle target, const Operand &value);
  Operand memberTarget(const Operand &base, nb::handle name);
  /// The element or member that an assignment changes. An item of a compile-time list or dict is assigned here; then the result is none.
  std::optional<Operand> visitTarget(nb::handle target, const Operand &value);
  void augment(const Operand &place, BinaryKind kind, const Operand &value, llvm::StringRef symbol);
};

} // namespace qd::frontend
