// attributes.h: attributes of objects, containers, vectors and structs
#pragma once

#include "frontend/function_part.h"

namespace qd::frontend {

class Attributes : FunctionPart {
public:
  using FunctionPart::FunctionPart;

  Operand visitAttribute(nb::handle node);
  Operand getAttributeOf(const Operand &base, nb::handle name);
  Operand vectorAttribute(const Operand &base, nb::handle name);
  Operand tensorAttribute(const Operand &base, nb::handle name);
  Operand structAttribute(const Operand &base, nb::handle name);
  Operand objectAttribute(const Operand &operand, nb::handle name);
  /// Fails if `object` is the missing shadow of a container.
  void requireShadow(const PythonObject &object);
  /// A component of a field of vectors, or a member of a field of structs: `get_scalar_field`, `get_member_field`.
  Operand partOfField(const Operand &operand, llvm::StringRef method, Arguments &arguments);

private:
  Operand typeAttribute(mlir::Type type, llvm::StringRef name); ///< dtype, n, m, ...; not `isGiven` if there is none
  Operand dataclassMember(const PythonObject &base, nb::handle name, nb::object annotation);
  Operand swizzle(const Operand &base, llvm::StringRef letters);
  [[noreturn]] void failHostMethod(llvm::StringRef name);
  [[noreturn]] void failShadow(const PathNode *container, llvm::StringRef name);
};

} // namespace qd::frontend
