// structs.h: struct values
#pragma once

#include "frontend/function_part.h"

namespace qd::frontend {

class Structs : FunctionPart {
public:
  using FunctionPart::FunctionPart;

  /// Fails if only one value is a struct, or if both are structs with different members.
  void requireSameMembers(const Value &first, const Value &second);
  Value makeStruct(nb::handle structType, Arguments &arguments);
  Value makeAnonymousStruct(Arguments &arguments);
  /// A struct with the members of a dataclass, from run-time values.
  Value makeDataclass(nb::handle type, const nb::object &valueType, Arguments &arguments);
  Value makeStructOf(nb::handle structType, llvm::function_ref<Value(nb::handle name, nb::handle type)> make);
  mlir::Type memberType(nb::handle annotation);
  /// Names and values of a struct or dict; none for other values.
  std::optional<std::vector<std::pair<nb::object, Value>>> findNamedItems(const Value &value);
  Value convertMember(nb::handle memberType, const Value &value);
  Value structOfObject(const Value &object);
  Value structFieldMember(const Value &structField, nb::handle name, nb::handle field);
  Value structElement(const Value &structField, llvm::function_ref<Value(const Value &)> element);

private:
  /// A struct with the names of a dict and the members that `make` returns.
  Value makeMembers(nb::handle members, llvm::function_ref<Value(nb::handle name, nb::handle member)> make);
  Value zeroOf(nb::handle memberType);
};

} // namespace qd::frontend
