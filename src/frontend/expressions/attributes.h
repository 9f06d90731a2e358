// attributes.h: attributes of objects, containers, vectors and structs
#pragma once

#include "frontend/function_part.h"

namespace qd::frontend {

class Attributes : FunctionPart {
public:
  using FunctionPart::FunctionPart;

  Value visitAttribute(nb::handle node);
  Value getAttributeOf(const Value &base, nb::handle name);
  Value vectorAttribute(const Value &base, nb::handle name);
  Value tensorAttribute(const Value &base, nb::handle name);
  Value structAttribute(const Value &base, nb::handle name);
  Value objectAttribute(const Value &base, nb::handle name);
  /// Fails if `object` is the missing shadow of a container.
  void requireShadow(const Value &object);
  /// A component of a field of vectors, or a member of a field of structs: `get_scalar_field`, `get_member_field`.
  Value partOfField(const Value &field, llvm::StringRef method, Arguments &arguments);

private:
  Value typeAttribute(mlir::Type type, llvm::StringRef name); ///< dtype, n, m, ...; not `isGiven` if there is none
  Value dataclassMember(const Value &base, nb::handle name, nb::object annotation);
  Value swizzle(const Value &base, llvm::StringRef letters);
  [[noreturn]] void failHostMethod(llvm::StringRef name);
  [[noreturn]] void failShadow(const PathNode *container, llvm::StringRef name);
};

} // namespace qd::frontend
