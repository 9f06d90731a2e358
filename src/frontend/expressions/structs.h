// structs.h: structs
#pragma once

#include "frontend/function_part.h"

namespace qd::frontend {

class Structs : FunctionPart {
public:
  using FunctionPart::FunctionPart;

  /// Fails if only one value is a struct, or if both are structs with different members.
  void requireSameMembers(const Operand &first, const Operand &second);
  Operand makeStruct(nb::handle structType, Arguments &arguments);
  Operand makeAnonymousStruct(Arguments &arguments);
  /// A struct with the members of a dataclass, from run-time values.
  Operand makeDataclass(nb::handle type, const nb::object &valueType, Arguments &arguments);
  Operand makeStructOf(nb::handle structType, llvm::function_ref<Operand(nb::handle name, nb::handle type)> make);
  mlir::Type memberType(nb::handle annotation);
  /// Names and values of a struct or dict; none for other values.
  std::optional<std::vector<std::pair<nb::object, Operand>>> findNamedItems(const Operand &value);
  Operand convertMember(nb::handle memberType, const Operand &value);
  Operand structOfObject(const Operand &operand);
  PythonObject structFieldMember(const PythonObject &structField, nb::handle name, nb::handle field);
  Operand structElement(const PythonObject &structField, llvm::function_ref<Operand(const Operand &)> element);

private:
  /// A struct with the names of a dict and the members that `make` returns.
  Struct makeMembers(nb::handle members, llvm::function_ref<Operand(nb::handle name, nb::handle member)> make);
  Operand zeroOf(nb::handle memberType);
};

} // namespace qd::frontend
