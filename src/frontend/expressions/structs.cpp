// structs.cpp: struct values: construction, conversion, elements of struct fields
//
// In:   a struct type, dataclass or Python object, and values of members.
// Out:  a Struct with one operand per member.
// Here: structs exist only in the frontend; the IR has their members.
#include "frontend/builder.h"

using namespace mlir;

namespace qd::frontend {

Struct Structs::makeMembers(nb::handle members, llvm::function_ref<Operand(nb::handle name, nb::handle member)> make) {
  Struct result;
  for (auto [name, member] : nb::borrow<nb::dict>(members)) {
    result.names.push_back(nb::borrow(name));
    result.items.push_back(make(name, member));
  }
  return result;
}

Operand Structs::makeStructOf(nb::handle structType, llvm::function_ref<Operand(nb::handle name, nb::handle type)> make) {
  Struct result = makeMembers(getAttribute(structType, names().members), make);
  result.type = nb::borrow(structType);
  return result;
}

Type Structs::memberType(nb::handle annotation) {
  Type type = session.findValueType(annotation);
  if (!type) fail(error::kType, "Invalid data type " + toText(nb::repr(annotation)) + " of a struct member");
  return type;
}

Operand Structs::zeroOf(nb::handle type) {
  if (session.python.isStructType(type)) {
    Arguments none;
    return makeStruct(type, none);
  }
  return makeComputed(emitter.convert(emitter.constant(0, session.types.i32), memberType(type)));
}

std::optional<std::vector<std::pair<nb::object, Operand>>> Structs::findNamedItems(const Operand &value) {
  std::vector<std::pair<nb::object, Operand>> items;
  const nb::object &object = value.getObject();
  if (session.python.isInstance(object, session.python.values.structValue)) return findNamedItems(structOfObject(value));
  if (object && PyDict_Check(object.ptr())) {
    return collections().listEntries(value.get<PythonObject>());
  } else if (object && session.python.isDataclassInstance(object)) {
    for (nb::handle name : nb::list(getAttribute(object, names().__dataclass_fields__)))
      items.emplace_back(nb::borrow(name), attributes().getAttributeOf(value, name));
  } else if (value.is<Struct>() || value.is<Dictionary>()) {
    runtimeDicts().requireKnownKeys(value, "has no names of members or parameters");
    const NamedAggregate &named = *value.findBase<NamedAggregate>();
    for (auto [name, item] : llvm::zip(named.names, named.items)) items.emplace_back(name, item);
  } else {
    return std::nullopt;
  }
  return items;
}

Operand Structs::convertMember(nb::handle type, const Operand &value) {
  if (!session.python.isStructType(type)) return makeComputed(conversions.convert(value, memberType(type)));
  Arguments members;
  if (auto *sequence = value.find<Sequence>())
    members.positional = sequence->items;
  else if (findNamedItems(value))
    members.positional = {value};
  else if (value.isTyped() || conversions.canEmit(value))
    members.positional = {value}; // the value of the first member
  else
    fail(error::kType, "Argument " + conversions.describe(value) + " cannot be converted into required type " + toText(nb::repr(type)));
  return makeStruct(type, members);
}

Operand Structs::makeStruct(nb::handle structType, Arguments &arguments) {
  if (arguments.positional.size() == 1 && arguments.named.empty()) {
    nb::object members = getAttribute(structType, names().members);
    auto items = findNamedItems(arguments.positional[0]);
    bool isFirst = items && !items->empty() && nb::len(members) != 0 &&
                   session.python.isStructType(nb::object(nb::list(members.attr("values")())[0])) &&
                   llvm::none_of(*items, [&](const auto &item) { return PyDict_Contains(members.ptr(), item.first.ptr()) == 1; });
    if (items && !isFirst) {
      Arguments unpacked;
      for (auto &[name, item] : *items) unpacked.named.emplace_back(toText(name).str(), item);
      return makeStruct(structType, unpacked);
    }
  }
  size_t count = nb::len(getAttribute(structType, names().members)), position = 0;
  if (arguments.positional.size() > count)
    fail(error::kSyntax, toText(nb::repr(structType)) + " has " + std::to_string(count) + " members, got " +
                             std::to_string(arguments.positional.size()) + " values");
  std::vector<bool> used(arguments.named.size());
  nb::object defaults = getAttribute(structType, names().defaults);
  Operand result = makeStructOf(structType, [&](nb::handle name, nb::handle type) {
    const Operand *given = position < arguments.positional.size() ? &arguments.positional[position] : nullptr;
    ++position;
    for (size_t index = 0; index < used.size(); ++index) {
      if (arguments.named[index].first != toText(name)) continue;
      if (given) fail(error::kSyntax, "'" + toText(name) + "' is given twice");
      given = &arguments.named[index].second;
      used[index] = true;
    }
    if (given) return convertMember(type, *given);
    PyObject *value = PyDict_GetItem(defaults.ptr(), name.ptr());
    return value ? convertMember(type, conversions.fromPython(value, nullptr)) : zeroOf(type);
  });
  for (size_t index = 0; index < used.size(); ++index)
    if (!used[index]) fail(error::kSyntax, "'" + arguments.named[index].first + "' is no member of " + toText(nb::repr(structType)));
  return result;
}

Operand Structs::makeAnonymousStruct(Arguments &arguments) {
  Struct result;
  auto add = [&](nb::object name, const Operand &value) {
    bool isStruct = session.python.isInstance(value.getObject(), session.python.values.structValue);
    result.names.push_back(std::move(name));
    result.items.push_back(isStruct                                   ? structOfObject(value)
                           : value.is<Sequence>() || value.isObject() ? makeComputed(conversions.emit(value))
                                                                      : conversions.copy(value));
  };
  for (const Operand &argument : arguments.positional) {
    auto items = findNamedItems(argument);
    if (!items) fail(error::kType, "qd.Struct takes members by name or a dict, got " + conversions.describe(argument));
    for (auto &[name, item] : *items) add(name, item);
  }
  for (const auto &[name, value] : arguments.named) add(nb::steal(PyUnicode_InternFromString(name.c_str())), value);
  return result;
}

Operand Structs::makeDataclass(nb::handle type, const nb::object &valueType, Arguments &arguments) {
  Struct result;
  if (!valueType.is_none()) result.type = valueType;
  nb::object hints = nb::module_::import_("typing").attr("get_type_hints")(type);
  for (auto &[name, value] : instances().bindFields(type, arguments)) {
    nb::object annotation = hints[name];
    bool isConverted = session.python.isStructType(annotation) || session.findValueType(annotation);
    result.names.push_back(name);
    result.items.push_back(isConverted ? convertMember(annotation, value) : conversions.copy(value));
  }
  return result;
}

Operand Structs::structOfObject(const Operand &operand) {
  const auto &object = operand.get<PythonObject>();
  nb::object type = findAttribute(object.object, names()._type);
  bool isTyped = type && !type.is_none();
  if (isTyped) session.tracker.recordType(type, session.tracker.getStep(object.path, PathStep::Kind::Attribute, "_type"));
  nb::dict types = isTyped ? nb::borrow<nb::dict>(getAttribute(type, names().members)) : nb::dict();
  Struct result = makeMembers(getAttribute(object.object, names().entries), [&](nb::handle name, nb::handle member) {
    const PathNode *path = session.tracker.getStep(object.path, PathStep::Kind::Attribute, toText(name));
    Operand item = makeObject(member, path);
    session.tracker.read(path, member);
    if (types.contains(name)) return convertMember(nb::object(types[name]), item);
    return session.python.isInstance(member, session.python.values.structValue) ? structOfObject(item)
                                                                                : makeComputed(conversions.emit(item));
  });
  if (isTyped) result.type = type;
  return result;
}

PythonObject Structs::structFieldMember(const PythonObject &structField, nb::handle name, nb::handle field) {
  bool isAttribute = findAttribute(structField.object, name).is(field); // false if all struct fields have an attribute of this name
  const PathNode *owner =
      isAttribute ? structField.path : session.tracker.getStep(structField.path, PathStep::Kind::Attribute, "field_dict");
  PythonObject member{nb::borrow(unwrapTensor(field)),
                      session.tracker.getStep(owner, isAttribute ? PathStep::Kind::Attribute : PathStep::Kind::Item, toText(name))};
  session.tracker.read(member.path, field);
  member.isClamped = structField.isClamped;
  return member;
}

Operand Structs::structElement(const PythonObject &structField, llvm::function_ref<Operand(const Operand &)> element) {
  Struct result = makeMembers(getAttribute(structField.object, names().field_dict), [&](nb::handle name, nb::handle field) {
    PythonObject member = structFieldMember(structField, name, field);
    return session.python.isInstance(field, session.python.containers.structField) ? structElement(member, element) : element(member);
  });
  nb::object type = findAttribute(structField.object, names().dtype);
  if (type && session.python.isStructType(type)) {
    session.tracker.recordType(type, session.tracker.getStep(structField.path, PathStep::Kind::Attribute, "dtype"));
    result.type = type;
  }
  return result;
}

void Structs::requireSameMembers(const Operand &first, const Operand &second) {
  auto *one = first.find<Struct>(), *other = second.find<Struct>();
  if (!one && !other) return;
  auto list = [&](const Operand &value) {
    auto *structure = value.find<Struct>();
    return structure ? toText(nb::repr(nb::cast(structure->names))).str() : conversions.describe(value);
  };
  if (list(first) != list(second)) fail(error::kType, "Member mismatch between structs " + list(first) + ", " + list(second));
  for (auto [item, otherItem] : llvm::zip_equal(one->items, other->items)) requireSameMembers(item, otherItem);
}

} // namespace qd::frontend
