// instances.cpp: objects of users' classes that kernels construct, and named tuples
//
// In:   a class and the arguments of its call.
// Out:  an Instance, whose members are variables, or a tuple.
// Here: the object itself exists only during compilation. `__init__` and methods without decorator are inlined at the call, so that they
//       can add members to the caller's object.
#include "frontend/builder.h"

using namespace mlir;

namespace qd::frontend {

bool Instances::isUserClass(nb::handle object) {
  if (!PyType_Check(object.ptr())) return false;
  if (session.python.isOfPackage(object) && !nb::hasattr(object, "_data_oriented")) return false;
  auto *type = reinterpret_cast<PyTypeObject *>(object.ptr());
  // Python must construct objects of classes with another metaclass or `__new__`.
  return (type->tp_flags & Py_TPFLAGS_HEAPTYPE) && type->tp_new == PyBaseObject_Type.tp_new &&
         Py_TYPE(object.ptr())->tp_call == PyType_Type.tp_call;
}

bool Instances::holdsInstance(const Operand &value) {
  auto *aggregate = value.findBase<Aggregate>();
  return value.is<Instance>() || (aggregate && llvm::any_of(aggregate->items, holdsInstance));
}

nb::object Instances::makeEmptyInstance(const Instance &instance) { return instance.type.attr("__new__")(instance.type); }

std::vector<std::pair<nb::object, Operand>> Instances::bindFields(nb::handle type, Arguments &arguments) {
  std::vector<std::pair<nb::object, Operand>> members;
  nb::object missing = nb::module_::import_("dataclasses").attr("MISSING");
  std::vector<std::pair<std::string, Operand>> named = std::move(arguments.named);
  size_t position = 0;
  for (auto [name, field] : nb::borrow<nb::dict>(getAttribute(type, names().__dataclass_fields__))) {
    auto found = llvm::find_if(named, [&](const auto &item) { return item.first == toText(name); });
    nb::object preset = getAttribute(field, names().default_), factory = field.attr("default_factory");
    bool isInitParameter = nb::cast<bool>(field.attr("init"));
    Operand value;
    if (isInitParameter && position < arguments.positional.size()) {
      value = arguments.positional[position++];
    } else if (isInitParameter && found != named.end()) {
      value = found->second;
      named.erase(found);
    } else if (!preset.is(missing)) {
      value = conversions.fromPython(preset, nullptr);
    } else if (!factory.is(missing)) {
      value = conversions.fromPython(factory(), nullptr);
    } else if (isInitParameter) {
      fail(error::kSyntax, "Missing argument '" + toText(name) + "'.");
    } else {
      continue; // `__post_init__` sets it
    }
    members.emplace_back(nb::borrow(name), std::move(value));
  }
  if (position < arguments.positional.size()) fail(error::kSyntax, "Too many arguments for " + toText(nb::repr(type)));
  if (!named.empty()) fail(error::kSyntax, "Unexpected argument '" + named[0].first + "'.");
  return members;
}

Operand Instances::makeInstance(const PythonObject &type, Arguments &arguments) {
  Instance made;
  made.type = type.object;
  made.path = type.path;
  made.ownerBlock = builder.getInsertionBlock();
  Operand result = made;
  auto &instance = result.get<Instance>();
  nb::object init = findAttribute(type.object, names().__init__), code = init ? findAttribute(init, names().__code__) : nb::object();
  bool isGenerated =
      findAttribute(type.object, names().__dataclass_fields__) && code && nb::str("<string>").equal(code.attr("co_filename"));
  if (isGenerated) {
    for (auto &[name, value] : bindFields(type.object, arguments)) storeMember(instance, name, value);
    nb::str finish("__post_init__");
    Arguments none;
    if (findAttribute(type.object, finish)) calls().call(instanceAttribute(result, finish), none, context.node);
    return result;
  }
  calls().call(instanceAttribute(result, names().__init__), arguments, context.node);
  return result;
}

Operand Instances::instanceAttribute(const Operand &operand, nb::handle name) {
  const auto &base = operand.get<Instance>();
  if (const Operand *member = findMember(base, name)) return *member;
  Operand type = makeObject(base.type, base.path);
  if (names().__class__.equal(name)) return type;
  nb::object missing = nb::steal(PyObject_CallNoArgs(reinterpret_cast<PyObject *>(&PyBaseObject_Type)));
  nb::object found = nb::module_::import_("inspect").attr("getattr_static")(base.type, name, missing);
  if (found.is(missing)) {
    std::string close = findClosest(toText(name), nb::cast(base.names));
    fail(error::kAttribute, "'" + toText(getAttribute(base.type, names().__name__)) + "' object has no attribute '" + toText(name) + "'" +
                                (close.empty() ? "" : "; did you mean '" + close + "'?"));
  }
  const PathNode *path = session.tracker.getStep(base.path, PathStep::Kind::Attribute, toText(name));
  bool isProperty = Py_TYPE(found.ptr()) == &PyProperty_Type;
  if (isProperty) {
    found = found.attr("fget");
    path = session.tracker.getStep(path, PathStep::Kind::Attribute, "fget");
  }
  bool isMethod =
      session.python.isInstance(found, session.python.functions.func) || session.python.isInstance(found, session.python.host.function);
  if (!isMethod) return attributes().objectAttribute(type, name);
  Operand method = makeMethod(operand, found, path);
  session.tracker.depend(path, artifact::Dependency::Kind::Function);
  Arguments none;
  return isProperty ? calls().callMethod(method, none, context.node) : method;
}

void Instances::storeMember(Instance &instance, nb::handle name, const Operand &value) {
  auto position =
      size_t(llvm::find_if(instance.names, [&](const nb::object &known) { return known.equal(name); }) - instance.names.begin());
  bool isNew = position == instance.names.size();
  bool isPlace = !isNew && (instance.items[position].is<Place>() || instance.items[position].is<Struct>());
  if (isPlace) return variables().store(instance.items[position], value);
  if (instance.ownerBlock != builder.getInsertionBlock())
    fail(error::kSyntax,
         "'" + toText(name) + "' is " + (isNew ? "no member of the object yet" : "known while compiling") +
             ": it cannot be assigned in a run-time branch or loop, or in a function that returns early; give it a value of "
             "the run time before, such as qd.f32(0)");
  Operand item = value.isTyped() || value.is<Struct>() ? variables().declare(value, false) : value;
  if (item.is<Sequence>() || item.is<Dictionary>()) collections().materialize(item, AssignmentCount());
  if (isNew) {
    instance.names.push_back(nb::borrow(name));
    instance.items.push_back(std::move(item));
  } else {
    instance.items[position] = std::move(item);
  }
}

void Instances::materializeInstances(Operand &value) {
  if (!holdsInstance(value)) return;
  auto *instance = value.find<Instance>();
  if (instance) instance->ownerBlock = builder.getInsertionBlock();
  for (Operand &item : value.findBase<Aggregate>()->items)
    if (instance && (item.is<Computed>() || item.is<Struct>()))
      item = variables().declare(item, false);
    else
      materializeInstances(item);
}

Operand Instances::makeNamedTuple(const PythonObject &type, Arguments &arguments) {
  // The class itself orders the arguments, here as stand-ins, and adds defaults.
  std::vector<Operand> given;
  auto standIn = [&](const Operand &value) {
    given.push_back(collections().copyElement(value));
    return session.python.language.standIn(given.size() - 1, conversions.describe(value).c_str());
  };
  nb::list positional;
  nb::dict named;
  for (const Operand &value : arguments.positional) positional.append(standIn(value));
  for (const auto &[name, value] : arguments.named) named[name.c_str()] = standIn(value);
  nb::object made = checked(PyObject_Call(type.object.ptr(), nb::tuple(positional).ptr(), named.ptr()));
  Sequence result;
  result.isTuple = true;
  for (nb::handle item : made) {
    bool isGiven = session.python.isInstance(item, session.python.language.standIn);
    result.items.push_back(isGiven ? given[nb::cast<size_t>(getAttribute(item, names().index))] : conversions.fromPython(item, nullptr));
  }
  result.type = type.object;
  result.names = nb::cast<std::vector<nb::object>>(getAttribute(type.object, names()._fields));
  result.path = type.path;
  return result;
}

Operand Instances::namedTupleAttribute(const Operand &base, nb::handle name) {
  const auto &sequence = base.get<Sequence>();
  if (const Operand *item = findMember(sequence, name)) return *item;
  if (llvm::is_contained({"count", "index", "_replace", "_asdict"}, toText(name))) return makeMethod(base, name);
  // Look up methods and constants of the class as for an Instance whose members are the items.
  Operand found = instanceAttribute(Instance{sequence, sequence.type, sequence.path}, name);
  if (auto *method = found.find<Method>()) method->items[0] = base;
  return found;
}

} // namespace qd::frontend
