// instances.h: objects of users' classes: construction, members, and operators such as `__add__`
#pragma once

#include "frontend/function_part.h"

namespace qd::frontend {

class Instances : FunctionPart {
public:
  using FunctionPart::FunctionPart;

  bool isUserClass(nb::handle object);
  /// Constructs an object with run-time members. Its `__init__` is inlined here.
  Value makeInstance(const Value &type, Arguments &arguments);
  Value makeNamedTuple(const Value &type, Arguments &arguments);
  Value instanceAttribute(const Value &base, nb::handle name);
  /// An item, method or constant of a named tuple.
  Value namedTupleAttribute(const Value &base, nb::handle name);
  void storeMember(const Value &instance, nb::handle name, const Value &value);
  static bool holdsInstance(const Value &value);
  /// Turns the members of objects that a call has returned into variables.
  void materializeInstances(Value &value);
  /// The fields of a dataclass with their values in a call.
  std::vector<std::pair<nb::object, Value>> bindFields(nb::handle type, Arguments &arguments);
  nb::object makeEmptyInstance(const Value &instance); ///< without its members
  /// Calls a method such as `__add__`. None if there is none or if it returns NotImplemented.
  std::optional<Value> callSpecial(const Value &value, const std::string &name, std::vector<Value> operands);
  /// Applies a binary operator to operands of which one is an object of a user's class.
  std::optional<Value> callOperator(NodeKind node, const Value &lhs, const Value &rhs);
  /// The new value of the target of `target op= value`.
  std::optional<Value> callInPlace(NodeKind node, const Value &target, const Value &value);
  /// The truth of an Instance: the result of `__bool__` or `__len__`, by default True.
  std::optional<Value> truthOfInstance(const Value &value);

private:
  /// The user's class of an object, which compiled code or Python has constructed; null for any other value.
  nb::object findUserClass(const Value &value);
};

} // namespace qd::frontend
