// instances.h: objects of users' classes: construction, members, and operators such as `__add__`
#pragma once

#include "frontend/function_part.h"

namespace qd::frontend {

class Instances : FunctionPart {
public:
  using FunctionPart::FunctionPart;

  bool isUserClass(nb::handle object);
  /// Constructs an object with run-time members. Its `__init__` is inlined here.
  Operand makeInstance(const PythonObject &type, Arguments &arguments);
  Operand makeNamedTuple(const PythonObject &type, Arguments &arguments);
  Operand instanceAttribute(const Operand &operand, nb::handle name);
  /// An item, method or constant of a named tuple.
  Operand namedTupleAttribute(const Operand &base, nb::handle name);
  void storeMember(Instance &instance, nb::handle name, const Operand &value);
  static bool holdsInstance(const Operand &value);
  /// Turns the members of objects that a call has returned into variables.
  void materializeInstances(Operand &value);
  /// The fields of a dataclass with their values in a call.
  std::vector<std::pair<nb::object, Operand>> bindFields(nb::handle type, Arguments &arguments);
  nb::object makeEmptyInstance(const Instance &instance); ///< without its members
  /// Whether the object is one of a user's class that has a method such as `__add__`.
  bool hasSpecial(const Operand &value, const std::string &name);
  /// Calls a method such as `__add__`. None if there is none or if it returns NotImplemented.
  std::optional<Operand> callSpecial(const Operand &value, const std::string &name, std::vector<Operand> operands);
  /// Applies a binary operator to operands of which one is an object of a user's class.
  std::optional<Operand> callOperator(NodeKind node, const Operand &lhs, const Operand &rhs);
  /// The new value of the target of `target op= value`.
  std::optional<Operand> callInPlace(NodeKind node, const Operand &target, const Operand &value);
  /// The truth of an Instance: the result of `__bool__` or `__len__`, by default True.
  std::optional<Operand> truthOfInstance(const Operand &value);

private:
  /// The user's class of an object, which compiled code or Python has constructed; null for any other value.
  nb::object findUserClass(const Operand &value);
  nb::object findSpecial(const Operand &value, const std::string &name); ///< null if there is no such method
};

} // namespace qd::frontend
