// attributes.cpp: attributes of objects, containers, vectors and structs
//
// In:   the value of an expression and an attribute's name.
// Out:  a member, a compile-time object with its path, an input, or a Method for a call.
// Here: every read of an attribute of a Python object is recorded as a dependency.
#include "frontend/builder.h"

using namespace mlir;

namespace qd::frontend {

Operand Attributes::visitAttribute(nb::handle at) {
  if (functions().isSuperCall(getAttribute(at, names().value))) return functions().superAttribute(getAttribute(at, names().attr));
  Operand base = expressions().visit(getAttribute(at, names().value));
  return getAttributeOf(base, getAttribute(at, names().attr));
}

Operand Attributes::getAttributeOf(const Operand &base, nb::handle name) {
  if (conversions.isTensor(base)) return tensorAttribute(base, name);
  if (auto *view = base.find<View>()) return views().viewAttribute(*view, name);
  if (base.isTyped()) return vectorAttribute(base, name);
  if (base.is<Struct>()) return structAttribute(base, name);
  if (base.isObject()) return objectAttribute(base, name);
  if (base.is<Instance>()) return instances().instanceAttribute(base, name);
  if (auto *sequence = base.find<Sequence>(); sequence && sequence->type) return instances().namedTupleAttribute(base, name);
  bool isGrouped = base.is<Range>() && toText(name) == "grouped";
  if (isGrouped || base.is<Sequence>() || base.is<Dictionary>()) return makeMethod(base, name);
  fail(error::kAttribute, "'" + conversions.describe(base) + "' has no attribute '" + toText(name) + "'");
}

Operand Attributes::swizzle(const Operand &base, llvm::StringRef letters) {
  static const llvm::StringRef kGroups[] = {"xyzw", "rgba", "stpq"};
  auto type = dyn_cast<VectorType>(base.getType());
  if (!type || type.getRank() != 1 || letters.empty() || letters.size() > 4) return {};
  for (llvm::StringRef group : kGroups) {
    if (letters.find_first_not_of(group) != llvm::StringRef::npos) continue;
    std::vector<int32_t> components;
    for (char letter : letters) components.push_back(int32_t(group.find(letter)));
    auto size = size_t(type.getDimSize(0));
    if (llvm::any_of(letters, [&](char letter) { return group.find(letter) >= size; })) {
      auto list = [](llvm::StringRef text) { return toText(nb::repr(nb::tuple(nb::str(text.data(), text.size())))).str(); };
      fail(error::kSyntax,
           "vec" + std::to_string(size) + " only has attributes=" + list(group.take_front(size)) + ", got=" + list(letters));
    }
    if (components.size() == 1) return subscripts().component(base, components[0]);
    auto count = int64_t(components.size());
    return subscripts().componentsOf(base, std::move(components), VectorType::get({count}, type.getElementType()));
  }
  return {};
}

static Operand makeShape(ArrayRef<int64_t> shape) {
  return makeTuple(listOperands(shape, [](int64_t size) { return makeObject(nb::int_(size)); }));
}

Operand Attributes::typeAttribute(Type type, llvm::StringRef name) {
  if (name == "dtype") return makeObject(nb::module_::import_("quadrants._runtime").attr(ir::describe(ir::getScalar(type)).c_str()));
  auto vector = dyn_cast<VectorType>(type);
  ArrayRef<int64_t> shape = vector ? vector.getShape() : ArrayRef<int64_t>();
  if (name == "element_shape") return makeShape(shape);
  if (!vector) return {};
  if (name == "n") return makeObject(nb::int_(shape[0]));
  if (name == "m") return makeObject(nb::int_(shape.size() == 2 ? shape[1] : 1));
  if (name == "ndim") return makeObject(nb::int_(shape.size()));
  return {};
}

Operand Attributes::vectorAttribute(const Operand &base, nb::handle name) {
  Type type = base.getType();
  auto vector = dyn_cast<VectorType>(type);
  llvm::StringRef text = toText(name);
  if (Operand found = swizzle(base, text); found.isGiven()) return found;
  if (Operand found = typeAttribute(type, text); found.isGiven()) return found;
  if (text == "shape" && vector) return makeShape(vector.getShape());
  if (text == "T" && vector) return matrixMethods().callMatrixMethod(base, "transpose", {});
  if (!MatrixMethods::hasMethod(type, text)) {
    const std::string close = vector ? findClosest(text, MatrixMethods::listNames()) : "";
    fail(error::kAttribute,
         "'" + ir::describe(type) + "' has no attribute '" + text + "'" + (close.empty() ? "" : "; did you mean '" + close + "'?"));
  }
  return makeMethod(base, name);
}

Operand Attributes::tensorAttribute(const Operand &base, nb::handle name) {
  llvm::StringRef text = toText(name);
  // The container and its path, whether or not it is an input yet.
  auto *tensor = base.find<Tensor>();
  const nb::object &object = tensor ? tensor->object : base.getObject();
  const PathNode *basePath = tensor ? tensor->path : base.get<PythonObject>().path;
  if (text == "shape") return makeTuple(subscripts().tensorShape(conversions.toTensor(base)));
  if (text == "size") return views().productOf(subscripts().tensorShape(conversions.toTensor(base)));
  if (text == "offset") return views().viewOffset(conversions.toTensor(base));
  if (text == "_offset") {
    ir::TensorType type = conversions.toTensor(base).type;
    std::vector<Operand> firsts;
    for (int64_t axis = 0; axis < type.getRank(); ++axis) firsts.push_back(makeObject(nb::int_(type.getFirst(axis))));
    return makeTuple(std::move(firsts));
  }
  if (text == "_compacts") {
    ir::TensorType type = conversions.toTensor(base).type;
    const bool isDense = type.isPacked() || type.getStrides().back() == type.getComponentStride();
    return makeKnown(session.request.compacts && isDense && ir::isScalar(type.getElement()) && type.getTiles().empty());
  }
  if (text == "strides") return makeTuple(views().viewStrides(conversions.toTensor(base)));
  if (text == "subview" || (text == "get_scalar_field" && findAttribute(object, name))) return makeMethod(base, name);
  if (text == "dtype" || text == "n" || text == "m" || text == "ndim" || text == "element_shape") {
    ir::TensorType type = conversions.toTensor(base).type;
    if (Operand found = typeAttribute(type.getElement(), text); found.isGiven()) return found;
    if (text == "ndim") return makeObject(nb::int_(type.getRank()));
  }
  if (text == "fill") return makeMethod(base, nb::module_::import_("quadrants._library.indices").attr("fill"));
  nb::object found = findAttribute(object, name);
  if (!found && (text == "grad" || text == "dual")) failShadow(basePath, text);
  if (!found) fail(error::kAttribute, "'" + describeType(object) + "' has no attribute '" + text + "'");
  const PathNode *path = session.tracker.getStep(basePath, PathStep::Kind::Attribute, text);
  if (text == "parent") { // a node of the layout tree, over which a loop can run
    session.tracker.depend(basePath, artifact::Dependency::Kind::Identity);
    return makeObject(found, path);
  }
  if (PyCallable_Check(found.ptr())) failHostMethod(text);
  bool isExternal = text == "grad" && !found.is_none() && !session.python.isTensor(found) && !session.python.isTensor(object);
  if (isExternal) return signature().makeExternalArray(found, path, size_t(ir::getAxisCount(conversions.toTensor(base).type.getElement())));
  session.tracker.read(path, found);
  if (text == "_cells" || text == "_words") path = session.tracker.findFirstPath(path, found);
  return makeObject(found, path);
}

Operand Attributes::partOfField(const Operand &operand, llvm::StringRef method, Arguments &arguments) {
  bool isMember = method == "get_member_field";
  const auto &field = operand.get<PythonObject>();
  std::vector<Operand> given = calls().bind(method, arguments, isMember ? "key" : "row column?");
  nb::list keys;
  for (const Operand &value : given)
    if (!value.isNone()) keys.append(conversions.known(value));
  const char *parts = isMember ? "field_dict" : "vars";
  const PathNode *path = session.tracker.getStep(field.path, PathStep::Kind::Attribute, parts);
  try {
    nb::object part = field.object.attr(method.str().c_str())(*keys), list = field.object.attr(parts);
    int64_t position = isMember ? 0 : nb::cast<int64_t>(list.attr("index")(part));
    path = session.tracker.getStep(path, PathStep::Kind::Item, isMember ? toText(nb::object(keys[0])) : "", position);
    session.tracker.read(path, part);
    return makeObject(part, path);
  } catch (nb::python_error &problem) { session.failFromPython(problem); }
}

void Attributes::failHostMethod(llvm::StringRef name) {
  fail(error::kSyntax, "'" + name + "' is host API and cannot be called in kernels (Quadrants-scope)");
}

void Attributes::failShadow(const PathNode *container, llvm::StringRef name) {
  std::string storage = name == "grad" ? "gradient" : "tangent", which = name.str(),
              owner = container ? DependencyTracker::describe(container) : "";
  fail(error::kType, "'" + owner + "' has no " + storage + ": Gradient " + owner + "." + which +
                         " has not been placed, check whether `needs_" + which + "=True`");
}

void Attributes::requireShadow(const PythonObject &object) {
  if (object.object.is_none() && DependencyTracker::isShadow(object.path)) failShadow(object.path->parent, object.path->step.name);
}

Operand Attributes::structAttribute(const Operand &base, nb::handle name) {
  const auto &structure = base.get<Struct>();
  if (const Operand *member = findMember(structure, name)) return *member;
  llvm::StringRef text = toText(name);
  if (const nb::object &type = structure.type) {
    nb::object methods = getAttribute(type, names().methods);
    if (PyObject *found = PyDict_GetItem(methods.ptr(), name.ptr()))
      return makeMethod(base, found, session.tracker.getTypeMember(type, "methods", text));
    if (PyObject *found = PyDict_GetItem(getAttribute(type, names().statics).ptr(), name.ptr())) {
      bool isFunction =
          session.python.isInstance(found, session.python.functions.func) || session.python.isInstance(found, session.python.host.function);
      return conversions.fromPython(found, isFunction ? session.tracker.getTypeMember(type, "statics", text) : nullptr);
    }
  }
  if (text == "keys") return makeSequence(listOperands(structure.names, [](const nb::object &key) { return makeObject(key); }));
  // An unpacked vector `r` consists of the members `_r0`, `_r1`, ….
  std::vector<Operand> components;
  auto component = [&] { return findMember(structure, nb::str(("_" + text + std::to_string(components.size())).str().c_str())); };
  while (const Operand *member = component()) components.push_back(*member);
  if (!components.empty()) {
    Operand vector = makeSequence(std::move(components));
    vector.get<Sequence>().isUnpacked = true;
    return vector;
  }
  std::string members;
  for (const nb::object &member : structure.names) members += (members.empty() ? "" : ", ") + toText(member).str();
  fail(error::kAttribute, "struct has no attribute '" + text + "' (members: " + members + ")");
}

Operand Attributes::dataclassMember(const PythonObject &base, nb::handle name, nb::object annotation) {
  llvm::StringRef text = toText(name);
  const PathNode *path = session.tracker.getStep(base.path, PathStep::Kind::Attribute, text);
  if (PyUnicode_Check(annotation.ptr())) {
    nb::object owner = nb::borrow(reinterpret_cast<PyObject *>(Py_TYPE(base.object.ptr())));
    nb::object hints = nb::module_::import_("typing").attr("get_type_hints")(owner);
    annotation = hints[name];
  }
  nb::object object = findAttribute(base.object, name);
  if (!object)
    fail(error::kAttribute, "type object '" + llvm::Twine(Py_TYPE(base.object.ptr())->tp_name) + "' has no attribute '" + text + "'");
  if (!object.is_none()) annotation = nb::module_::import_("quadrants._language.parameters").attr("without_none")(annotation);
  if (Type type = session.findValueType(annotation)) return conversions.makeInput(path, type);
  bool isArray =
      session.python.isInstance(annotation, session.python.values.arrayType) || annotation.is(session.python.containers.bufferView);
  if (isArray && !object.is_none() && !session.python.isInstance(object, session.python.containers.structField))
    return signature().withBoundary(signature().makeArrayArgument(annotation, object, path), annotation);
  if (session.python.isInstance(annotation, session.python.values.structType)) return signature().makeStructArgument(annotation, path);
  Operand value = makeObject(object, path);
  if (isArray) value = signature().withBoundary(value, annotation);
  value.get<PythonObject>().hasRuntimeMembers = session.python.isDataclassInstance(object);
  session.tracker.read(path, object);
  return value;
}

Operand Attributes::objectAttribute(const Operand &operand, nb::handle name) {
  llvm::StringRef text = toText(name);
  const PythonObjects &python = session.python;
  const auto &base = operand.get<PythonObject>();
  nb::handle object = base.object;
  requireShadow(base);
  if (python.isInstance(object, python.values.structValue)) return structAttribute(structs().structOfObject(base), name);
  if (python.isInstance(object, python.values.matrix) && !(text == "n" || text == "m" || text == "ndim" || text == "shape"))
    return vectorAttribute(makeComputed(conversions.emitHostMatrix(object)), name);
  nb::handle type = reinterpret_cast<PyObject *>(Py_TYPE(object.ptr()));
  if (base.hasRuntimeMembers) {
    nb::object fields = findAttribute(type, names().__dataclass_fields__);
    if (PyObject *field = fields ? PyDict_GetItem(fields.ptr(), name.ptr()) : nullptr)
      return dataclassMember(base, name, getAttribute(field, names().type));
  }
  if (object.is(python.values.matrix) || object.is(python.values.vector)) return makeMethod(operand, name);
  const PathNode *classPath =
      PyType_Check(object.ptr()) ? base.path : session.tracker.getStep(base.path, PathStep::Kind::Attribute, "__class__");
  nb::object property = findAttribute(type, name);
  if (property && Py_TYPE(property.ptr()) == &PyProperty_Type && python.isInstance(property.attr("fget"), python.functions.func)) {
    const PathNode *inClass = session.tracker.getStep(classPath, PathStep::Kind::Attribute, text);
    const PathNode *getter = session.tracker.getStep(inClass, PathStep::Kind::Attribute, "fget");
    session.tracker.depend(getter, artifact::Dependency::Kind::Function);
    Arguments none;
    return calls().callMethod(makeMethod(operand, property.attr("fget"), getter), none, nb::handle());
  }
  nb::object found = findAttribute(object, name);
  const PathNode *path = session.tracker.getStep(base.path, PathStep::Kind::Attribute, text);
  if (!found) {
    std::string owner =
        PyType_Check(object.ptr()) ? "type object '" + std::string(reinterpret_cast<PyTypeObject *>(object.ptr())->tp_name) + "'"
        : python.isInstance(object, python.host.module) ? "module '" + toText(getAttribute(object, names().__name__)).str() + "'"
                                                        : "'" + std::string(Py_TYPE(object.ptr())->tp_name) + "' object";
    if (base.hasRuntimeMembers) owner = "type object '" + std::string(Py_TYPE(object.ptr())->tp_name) + "'";
    std::string close = findClosest(text, checked(PyObject_Dir(object.ptr())));
    std::string members;
    if (nb::object fields = findAttribute(type, names().__dataclass_fields__))
      for (nb::handle field : nb::list(fields)) members += (members.empty() ? " (members: " : ", ") + toText(field).str();
    if (!members.empty()) members += ")";
    fail(error::kAttribute,
         owner + " has no attribute '" + text + "'" + members + (close.empty() ? "" : "; did you mean '" + close + "'?"));
  }
  if (python.isInstance(object, python.containers.structField) && PyCallable_Check(found.ptr())) {
    if (text != "get_member_field") failHostMethod(text);
    return makeMethod(operand, name);
  }
  if (PyCallable_Check(found.ptr())) collections().requirePlainWrapper(base);
  bool isPackage = python.isInstance(object, python.host.module) && python.isOfPackage(object);
  bool isNamedTuple = PyTuple_Check(object.ptr()) && findAttribute(type, names()._fields);
  if (PyUnicode_Check(object.ptr()) || PyList_Check(object.ptr()) || PyDict_Check(object.ptr()) ||
      (PyTuple_Check(object.ptr()) && !isNamedTuple))
    return makeMethod(operand, name);
  // Since Python 3.13 a class method binds the object that it wraps by itself.
  if (python.isInstance(found, python.host.method) && python.isInstance(found.attr("__func__"), python.functions.func))
    found = python.functions.boundFunc(found.attr("__func__"), found.attr("__self__"));
  // A method without decorator, bound to its object.
  if (python.isInstance(found, python.host.method) && python.isInstance(getAttribute(found, names().func_), python.host.function)) {
    nb::object self = getAttribute(found, names().__self__);
    if (self.is(object) || self.is(type)) {
      session.tracker.depend(path, artifact::Dependency::Kind::Function);
      return makeMethod(self.is(object) ? operand : makeObject(self, classPath), getAttribute(found, names().func_), path);
    }
  }
  // A func of the object's class, or one that the object stores, bound to the object. The path leads to it without the binding.
  if (python.isInstance(found, python.functions.boundFunc) && getAttribute(found, names().instance).is(object)) {
    session.tracker.depend(path, artifact::Dependency::Kind::Function);
    return makeMethod(operand, getAttribute(found, names().func), path);
  }
  PythonObject::Members members = base.members;
  if (nb::object bakes = findAttribute(type, names()._qd_template_primitives); bakes && members == PythonObject::Members::Unspecified)
    members = conversions.isTrue(makeObject(bakes)) ? PythonObject::Members::Baked : PythonObject::Members::ReadAtLaunch;
  bool isNumber = (PyLong_Check(found.ptr()) || PyFloat_Check(found.ptr())) && !python.isInstance(found, python.host.enumeration);
  if (members == PythonObject::Members::ReadAtLaunch && path && isNumber) {
    if (nesting.staticDepth > 0)
      fail(error::kSyntax, "'" + text +
                               "' is a primitive member of a @qd.data_oriented(template_primitives=False) object: it is a "
                               "runtime kernel argument and cannot be used inside qd.static()");
    return conversions.makeInput(path, PyFloat_Check(found.ptr()) ? session.types.defaultFloat : session.types.defaultInteger);
  }
  if (!isPackage) session.tracker.read(path, found);
  if ((text == "_cells" || text == "cells" || text == "above") && findAttribute(found, nb::str("serial")))
    path = session.tracker.findFirstPath(path, found);
  PythonObject value{nb::borrow(unwrapTensor(found)), path, members};
  value.hasRuntimeMembers = base.hasRuntimeMembers && python.isDataclassInstance(found);
  return value;
}

} // namespace qd::frontend
