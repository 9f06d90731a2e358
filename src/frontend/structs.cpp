// structs.cpp: struct values: construction, conversion, elements of struct fields
#include "frontend/builder.h"

using namespace mlir;

namespace qd::frontend {

using Kind = Value::Kind;
using artifact::PathStep;

Value FunctionBuilder::zeroOf(nb::handle memberType) {
  if (!session.python.isInstance(memberType, session.python.structType)) {
    Type type = session.findValueType(memberType);
    if (!type) fail(error::kType, "Invalid data type " + toText(nb::repr(memberType)) + " of a struct member");
    return makeComputed(convert(constant(0, session.types.i32), type));
  }
  Arguments none;
  return makeStruct(memberType, none);
}

Value FunctionBuilder::convertMember(nb::handle memberType, const Value &value) {
  if (!session.python.isInstance(memberType, session.python.structType)) {
    Type type = session.findValueType(memberType);
    if (!type) fail(error::kType, "Invalid data type " + toText(nb::repr(memberType)) + " of a struct member");
    return makeComputed(convert(value, type));
  }
  if (value.isObject() && session.python.isInstance(value.object, session.python.structValue))
    return convertMember(memberType, structOfObject(value));
  if (value.isObject() && PyDict_Check(value.object.ptr())) {
    Arguments members;
    for (auto [name, item] : nb::borrow<nb::dict>(value.object)) members.named.emplace_back(toText(name).str(), makeObject(item));
    return makeStruct(memberType, members);
  }
  if (value.is(Kind::Sequence)) {
    Arguments members;
    members.positional = value.aggregate->items;
    return makeStruct(memberType, members);
  }
  if (!value.is(Kind::Struct))
    fail(error::kType, "Argument " + describe(value) + " cannot be converted into required type " + toText(nb::repr(memberType)));
  Arguments members;
  for (auto [name, item] : llvm::zip(value.aggregate->names, value.aggregate->items)) members.named.emplace_back(toText(name).str(), item);
  return makeStruct(memberType, members);
}

Value FunctionBuilder::makeStruct(nb::handle structType, Arguments &arguments) {
  nb::dict members = nb::borrow<nb::dict>(getAttribute(structType, names().members));
  if (arguments.positional.size() == 1 && arguments.named.empty() &&
      (arguments.positional[0].is(Kind::Struct) || arguments.positional[0].is(Kind::Dictionary))) {
    Arguments unpacked;
    for (auto [name, item] : llvm::zip(arguments.positional[0].aggregate->names, arguments.positional[0].aggregate->items))
      unpacked.named.emplace_back(toText(name).str(), item);
    return makeStruct(structType, unpacked);
  }
  if (arguments.positional.size() > nb::len(members))
    fail(error::kSyntax, toText(nb::repr(structType)) + " has " + std::to_string(nb::len(members)) + " members, got " +
                             std::to_string(arguments.positional.size()) + " values");
  Value result = makeAggregate(Kind::Struct, {});
  result.aggregate->structType = nb::borrow(structType);
  std::vector<bool> used(arguments.named.size());
  size_t position = 0;
  for (auto [name, element] : members) {
    std::optional<Value> given;
    if (position < arguments.positional.size()) given = arguments.positional[position];
    ++position;
    for (size_t index = 0; index < arguments.named.size(); ++index) {
      if (arguments.named[index].first != toText(name)) continue;
      if (given) fail(error::kSyntax, "'" + toText(name) + "' is given twice");
      given = arguments.named[index].second;
      used[index] = true;
    }
    result.aggregate->names.push_back(nb::borrow(name));
    result.aggregate->items.push_back(given ? convertMember(element, *given) : zeroOf(element));
  }
  for (size_t index = 0; index < used.size(); ++index)
    if (!used[index]) fail(error::kSyntax, "'" + arguments.named[index].first + "' is no member of " + toText(nb::repr(structType)));
  return result;
}

Value FunctionBuilder::makeAnonymousStruct(Arguments &arguments) {
  Value result = makeAggregate(Kind::Struct, {});
  auto add = [&](nb::object name, const Value &value) {
    Value item = value.is(Kind::Sequence) || (value.isObject() && !session.python.isInstance(value.object, session.python.structValue))
                     ? makeComputed(emit(value))
                     : copy(value);
    if (value.isObject() && session.python.isInstance(value.object, session.python.structValue)) item = structOfObject(value);
    // Members may be written: each has a place.
    result.aggregate->names.push_back(std::move(name));
    result.aggregate->items.push_back(item);
  };
  for (const Value &argument : arguments.positional) {
    if (argument.is(Kind::Dictionary))
      for (auto [name, item] : llvm::zip(argument.aggregate->names, argument.aggregate->items)) add(name, item);
    else
      fail(error::kType, "qd.Struct takes members by name or a dict, got " + describe(argument));
  }
  for (const auto &[name, value] : arguments.named) add(nb::steal(PyUnicode_InternFromString(name.c_str())), value);
  return result;
}

Value FunctionBuilder::structOfObject(const Value &object) {
  Value result = makeAggregate(Kind::Struct, {});
  nb::object type = findAttribute(object.object, names()._type);
  if (type && !type.is_none()) result.aggregate->structType = type;
  nb::dict members = type && !type.is_none() ? nb::borrow<nb::dict>(getAttribute(type, names().members)) : nb::dict();
  for (auto [name, value] : nb::borrow<nb::dict>(getAttribute(object.object, names().entries))) {
    const PathNode *path = session.reader.getStep(object.path, PathStep::Kind::Attribute, toText(name));
    session.reader.read(path, value);
    Value item = makeObject(value, path);
    if (members.contains(name))
      item = convertMember(nb::object(members[name]), item);
    else if (session.python.isInstance(value, session.python.structValue))
      item = structOfObject(item);
    else
      item = makeComputed(emit(item));
    result.aggregate->names.push_back(nb::borrow(name));
    result.aggregate->items.push_back(std::move(item));
  }
  return result;
}

Value FunctionBuilder::structElement(const Value &structField, const std::function<Value(const Value &)> &element) {
  Value result = makeAggregate(Kind::Struct, {});
  nb::object type = findAttribute(structField.object, names().dtype);
  if (type && session.python.isInstance(type, session.python.structType)) result.aggregate->structType = type;
  for (auto [name, field] : nb::borrow<nb::dict>(getAttribute(structField.object, names().field_dict))) {
    Value member = makeObject(field, session.reader.getStep(structField.path, PathStep::Kind::Attribute, toText(name)));
    session.reader.read(member.path, field);
    bool isStruct = session.python.isInstance(field, session.python.structField);
    result.aggregate->names.push_back(nb::borrow(name));
    result.aggregate->items.push_back(isStruct ? structElement(member, element) : element(member));
  }
  return result;
}

} // namespace qd::frontend
