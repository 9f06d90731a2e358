// python_objects.cpp: names, classes and queries of Python objects
//
// In:   Python objects and syntax nodes.
// Out:  their kind, and plain numbers and texts.
// Here: the frontend's other files depend on these queries instead of module names of the Python package.
#include "frontend/python_objects.h"

namespace qd::frontend {

static nb::object findMember(const char *module, const char *name) {
  PyObject *modules = PyImport_GetModuleDict();
  PyObject *found = PyDict_GetItemString(modules, module);
  return found && nb::hasattr(found, name) ? nb::borrow(nb::getattr(found, name)) : nb::object();
}

PythonObjects::PythonObjects() {
#define X(name) names.name = nb::steal(PyUnicode_InternFromString(#name));
  QD_NAMES(X)
#undef X
  names.default_ = nb::steal(PyUnicode_InternFromString("default"));
  names.func_ = nb::steal(PyUnicode_InternFromString("__func__"));
  nb::object ast = nb::module_::import_("ast");
#define X(name)                                                                                                                            \
  if (nb::object type = findAttribute(ast, nb::str(#name))) nodeKinds[type.ptr()] = NodeKind::name;
  QD_NODES(X)
#undef X
  host.enumeration = nb::module_::import_("enum").attr("Enum");
  host.module = nb::module_::import_("types").attr("ModuleType");
  host.function = nb::module_::import_("types").attr("FunctionType");
  host.method = nb::module_::import_("types").attr("MethodType");
  host.partial = nb::module_::import_("functools").attr("partial");
  host.numpyGeneric = findMember("numpy", "generic");
  host.numpyArray = findMember("numpy", "ndarray");
  host.range = nb::borrow(reinterpret_cast<PyObject *>(&PyRange_Type));
  values.dataType = findMember("quadrants._runtime", "DataType");
  values.matrix = findMember("quadrants._values.matrix", "Matrix");
  values.vector = findMember("quadrants._values.matrix", "Vector");
  values.matrixType = findMember("quadrants._values.types", "MatrixType");
  values.arrayType = findMember("quadrants._values.types", "NdarrayType");
  values.structType = findMember("quadrants._values.struct", "StructType");
  values.structValue = findMember("quadrants._values.struct", "Struct");
  values.findDtype = findMember("quadrants._base.dtypes", "find_dtype");
  containers.field = findMember("quadrants._runtime", "FieldBase");
  containers.array = findMember("quadrants._runtime", "NdarrayBase");
  containers.structField = findMember("quadrants._containers.struct_field", "StructField");
  containers.node = findMember("quadrants._containers.layout_tree", "SNode");
  containers.bufferView = findMember("quadrants._containers.buffer_view", "BufferView");
  containers.mayOverlap = findMember("quadrants._runtime", "may_overlap");
  containers.listShared = findMember("quadrants._runtime", "list_shared");
  functions.kernel = findMember("quadrants._runtime", "Kernel");
  functions.func = findMember("quadrants._language.func", "Func");
  functions.boundFunc = findMember("quadrants._language.func", "BoundFunc");
  functions.asFunc = findMember("quadrants._language.func", "as_func");
  functions.localFunc = findMember("quadrants._language.func", "LocalFunc");
  functions.allArguments = findMember("quadrants._base.source", "all_arguments");
  functions.freeNames = findMember("quadrants._language.func", "free_names");
  language.ndrange = findMember("quadrants._language.ndrange", "_Ndrange");
  language.groupedRange = findMember("quadrants._language.ndrange", "GroupedNDRange");
  language.operand = findMember("quadrants._language.operands", "Operand");
  language.standIn = findMember("quadrants._language.parameters", "RuntimeValue");
  language.bind = findMember("quadrants._language.parameters", "bind");
  language.getSource = findMember("quadrants._base.source", "get_source");
  nb::list plain;
  if (nb::object array = findMember("array", "array")) plain.append(array); // without its module, there are no objects of it
  for (const char *name : {"int", "float", "complex", "str", "bytes", "bytearray", "range", "slice"})
    plain.append(nb::module_::import_("builtins").attr(name));
  for (nb::handle constant : {nb::handle(Py_None), nb::handle(Py_Ellipsis)}) plain.append(constant.type());
  for (const nb::object &type : {host.numpyGeneric, host.numpyArray, values.dataType, values.matrix, values.matrixType, host.enumeration})
    if (type) plain.append(type);
  host.plain = nb::tuple(plain);
  host.wrappers.append(nb::borrow(reinterpret_cast<PyObject *>(&PyDictProxy_Type)));
  for (const char *name : {"UserDict", "UserList", "ChainMap"}) host.wrappers.append(nb::module_::import_("collections").attr(name));
  host.builtins = nb::borrow<nb::dict>(nb::module_::import_("builtins").attr("__dict__"));
}

nb::handle unwrapTensor(nb::handle object) {
  static PyObject *wrapper = findMember("quadrants._runtime", "TensorBase").release().ptr();
  return object && PyObject_TypeCheck(object.ptr(), reinterpret_cast<PyTypeObject *>(wrapper))
             ? nb::handle(getAttribute(object, nb::str("_impl")))
             : object;
}

NodeKind PythonObjects::kindOf(nb::handle node) const {
  auto found = nodeKinds.find(reinterpret_cast<PyObject *>(Py_TYPE(node.ptr())));
  return found == nodeKinds.end() ? NodeKind::Unknown : found->second;
}

bool PythonObjects::isInstance(nb::handle object, const nb::object &type) const {
  return type.is_valid() && object && PyObject_TypeCheck(object.ptr(), reinterpret_cast<PyTypeObject *>(type.ptr()));
}

bool PythonObjects::isNumber(nb::handle object) const {
  PyObject *ptr = object.ptr();
  return ptr && (PyLong_Check(ptr) || PyFloat_Check(ptr) || isInstance(object, host.numpyGeneric) ||
                 (isInstance(object, host.numpyArray) && nb::len(nb::object(object.attr("shape"))) == 0));
}

nb::object PythonObjects::toPlainNumber(nb::handle object) const {
  if (PyLong_Check(object.ptr()) || (PyFloat_Check(object.ptr()) && !isInstance(object, host.numpyGeneric))) return nb::borrow(object);
  return getAttribute(object, names.item)();
}

nb::object PythonObjects::toPythonScalar(nb::handle object) const {
  return isInstance(object, host.numpyGeneric) ? getAttribute(object, names.item)() : nb::borrow(object);
}

bool PythonObjects::isWrapper(nb::handle object) const {
  return llvm::any_of(host.wrappers, [&](nb::handle type) { return object.type().is(type); });
}

bool PythonObjects::isPlainData(nb::handle object, int depth) const {
  PyObject *ptr = object.ptr();
  int isPlain = PyObject_IsInstance(ptr, host.plain.ptr());
  if (isPlain < 0) throw nb::python_error();
  if (isPlain) return true;
  if (depth > 16) return false;
  if (PyDict_Check(ptr)) return isPlainData(nb::steal(PyDict_Items(ptr)), depth + 1);
  if (isWrapper(object)) {
    const bool isMapping = findAttribute(object, nb::str("keys")).is_valid();
    return isPlainData(checked(isMapping ? PyMapping_Items(ptr) : PySequence_List(ptr)), depth + 1);
  }
  return (PyTuple_Check(ptr) || PyList_Check(ptr) || PyAnySet_Check(ptr) || isDeque(object)) &&
         std::all_of(object.begin(), object.end(), [&](nb::handle item) { return isPlainData(item, depth + 1); });
}

bool PythonObjects::isDataclassInstance(nb::handle object) const {
  return !PyType_Check(object.ptr()) &&
         findAttribute(nb::handle(reinterpret_cast<PyObject *>(Py_TYPE(object.ptr()))), names.__dataclass_fields__);
}

bool PythonObjects::isOfPackage(nb::handle object) const {
  nb::object name = isInstance(object, host.module) ? findAttribute(object, names.__name__) : findAttribute(object, names.__module__);
  return name && PyUnicode_Check(name.ptr()) && (toText(name) == "quadrants" || toText(name).starts_with("quadrants."));
}

std::vector<int64_t> readNumbers(nb::handle sequence) {
  std::vector<int64_t> numbers;
  for (nb::handle item : sequence) numbers.push_back(nb::cast<int64_t>(item));
  return numbers;
}

#if PY_VERSION_HEX < 0x030d0000
#define PyObject_GetOptionalAttr _PyObject_LookupAttr
#endif
nb::object findAttribute(nb::handle object, nb::handle name) {
  PyObject *result;
  // Not PyObject_GetAttr: the exception for a missing attribute takes a microsecond.
  if (PyObject_GetOptionalAttr(object.ptr(), name.ptr(), &result) < 0) throw nb::python_error();
  return nb::steal(result);
}

std::string findClosest(llvm::StringRef name, nb::handle candidates) {
  if (name.size() < 2) return ""; // all names of one letter are as close
  const unsigned limit = name.size() > 3 ? 2 : 1;
  std::pair<unsigned, std::string> closest{2 * limit + 2, ""};
  for (nb::handle candidate : candidates) {
    if (!PyUnicode_Check(candidate.ptr()) || toText(candidate).starts_with("_")) continue;
    llvm::StringRef known = toText(candidate);
    const unsigned distance = known.edit_distance(name, true, limit), hasOtherStart = known.empty() || known.front() != name.front();
    if (distance <= limit && 2 * distance + hasOtherStart < closest.first) closest = {2 * distance + hasOtherStart, known.str()};
  }
  return closest.second;
}

std::string describeType(nb::handle object) {
  return toText(nb::repr(nb::handle(reinterpret_cast<PyObject *>(Py_TYPE(object.ptr()))))).str();
}

} // namespace qd::frontend
