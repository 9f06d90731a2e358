// fingerprint.cpp: writes Python objects as canonical bytes
//
// In:   a value, function or class.
// Out:  its bytes, or false when it has no canonical form. Every item starts with a letter for its kind and has sizes before contents, so
// that no two different objects have the same bytes.
#include "launch/fingerprint.h"

#include "launch/containers/data_type.h"
#include "launch/containers/tensor_object.h"
#include "launch/kernel.h"
#include "launch/numpy.h"
#include "launch/path.h"

#include <algorithm>
#include <initializer_list>
#include <marshal.h>
#include <vector>

namespace qd::launch {

static constexpr int kMaxDepth = 32;
static constexpr Py_ssize_t kMaxArrayBytes = 1 << 20;

bool isAtom(PyTypeObject *kind) {
  return kind == Py_TYPE(Py_None) || kind == &PyBool_Type || kind == &PyEllipsis_Type || kind == &PyLong_Type || kind == &PyFloat_Type ||
         kind == &PyComplex_Type || kind == &PyUnicode_Type || kind == &PyBytes_Type;
}

namespace {

void addNumber(std::string &out, uint64_t number) { out.append(reinterpret_cast<const char *>(&number), sizeof number); }

void addText(std::string &out, std::string_view text) {
  addNumber(out, text.size());
  out.append(text);
}

std::string_view asText(PyObject *string) {
  Py_ssize_t size;
  const char *text = PyUnicode_AsUTF8AndSize(string, &size);
  if (!text) {
    // Lone surrogates have no UTF-8, so a string with one has no canonical form.
    PyErr_Clear();
    return {};
  }
  return {text, size_t(size)};
}

class Fingerprinter {
public:
  explicit Fingerprinter(std::string &out) : out(out) {}
  bool value(PyObject *object);
  bool function(PyObject *object, Placement placement);
  bool code(PyObject *object);
  void typeName(PyTypeObject *type);
  bool type(PyTypeObject *type);

private:
  bool items(char kind, PyObject *sequence);
  bool array(PyObject *object);
  bool members(PyObject *object);
  bool attributes(PyObject *object, std::initializer_list<const char *> names);

  std::string &out;
  int depth = 0;
};

bool Fingerprinter::items(char kind, PyObject *sequence) {
  out += kind;
  addNumber(out, uint64_t(PySequence_Fast_GET_SIZE(sequence)));
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence); ++i)
    if (!value(PySequence_Fast_GET_ITEM(sequence, i))) return false;
  return true;
}

bool Fingerprinter::array(PyObject *object) {
  Ref packed = Ref::adopt(PyArray_FROM_OF(object, NPY_ARRAY_C_CONTIGUOUS));
  auto *data = reinterpret_cast<PyArrayObject *>(packed.get());
  if (PyArray_DESCR(data)->type_num == NPY_OBJECT || PyArray_NBYTES(data) > kMaxArrayBytes) return false;
  Ref dtype = Ref::adopt(PyObject_Str(reinterpret_cast<PyObject *>(PyArray_DESCR(data))));
  out += 'a';
  addText(out, asText(dtype.get()));
  addNumber(out, uint64_t(PyArray_NDIM(data)));
  for (int axis = 0; axis < PyArray_NDIM(data); ++axis) addNumber(out, uint64_t(PyArray_DIM(data, axis)));
  addText(out, {static_cast<const char *>(PyArray_DATA(data)), size_t(PyArray_NBYTES(data))});
  return true;
}

bool Fingerprinter::attributes(PyObject *object, std::initializer_list<const char *> names) {
  for (const char *name : names) {
    Ref found = findAttribute(object, name);
    if (!found)
      out += '-';
    else if (!value(found.get()))
      return false;
  }
  return true;
}

void Fingerprinter::typeName(PyTypeObject *type) {
  Ref module = Ref::adopt(PyObject_GetAttrString(reinterpret_cast<PyObject *>(type), "__module__"));
  Ref name = Ref::adopt(PyObject_GetAttrString(reinterpret_cast<PyObject *>(type), "__qualname__"));
  addText(out, PyUnicode_Check(module.get()) ? asText(module.get()) : "");
  addText(out, asText(name.get()));
}

bool Fingerprinter::type(PyTypeObject *type) {
  out += 'T';
  typeName(type);
  // The fields of a dataclass and of its base classes are part of its fingerprint.
  Ref fields = findAttribute(reinterpret_cast<PyObject *>(type), "__dataclass_fields__");
  if (!fields || !PyDict_Check(fields.get())) return true;
  PyObject *name, *field;
  for (Py_ssize_t position = 0; PyDict_Next(fields.get(), &position, &name, &field);) {
    out += 'D';
    addText(out, asText(name));
    if (!attributes(field, {"type"})) out += '?';
  }
  return true;
}

bool Fingerprinter::members(PyObject *object) {
  out += 'o';
  typeName(Py_TYPE(object));
  for (PyTypeObject *base = Py_TYPE(object); base; base = base->tp_base)
    if (PyObject *names = base->tp_dict ? PyDict_GetItemString(base->tp_dict, "__slots__") : nullptr) {
      Ref list = Ref::adopt(PyUnicode_Check(names) ? PyTuple_Pack(1, names) : PySequence_Tuple(names));
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(list.get()); ++i)
        if (!attributes(object, {std::string(asText(PyTuple_GET_ITEM(list.get(), i))).c_str()})) return false;
    }
  Ref own = findAttribute(object, "__dict__");
  return !own || value(own.get());
}

bool isEnumMember(PyObject *object) {
  static constinit KnownAttribute enumType("enum", "Enum");
  int is = PyObject_IsInstance(object, enumType.get());
  PyErr_Clear();
  return is == 1;
}

bool isOfPackage(PyTypeObject *type) {
  Ref module = Ref::adopt(PyObject_GetAttrString(reinterpret_cast<PyObject *>(type), "__module__"));
  return PyUnicode_Check(module.get()) && asText(module.get()).substr(0, 9) == "quadrants";
}

/// Whether a class shows a dict or list of its own or of another object.
static bool isWrapper(PyTypeObject *type) {
  static PyObject *known = [] {
    PyObject *types = PyTuple_New(4);
    PyTuple_SET_ITEM(types, 0, Py_NewRef(&PyDictProxy_Type));
    Py_ssize_t count = 1;
    for (const char *name : {"UserDict", "UserList", "ChainMap"})
      PyTuple_SET_ITEM(types, count++, importAttribute("collections", name).release());
    return types;
  }();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(known); ++i)
    if (PyTuple_GET_ITEM(known, i) == reinterpret_cast<PyObject *>(type)) return true;
  return false;
}

bool Fingerprinter::value(PyObject *object) {
  struct Level {
    int &depth;
    explicit Level(int &depth) : depth(++depth) {}
    ~Level() { --depth; }
  } level(depth);
  if (depth > kMaxDepth || out.size() > (64u << 20)) return false; // a cycle, or larger than any constant
  PyTypeObject *kind = Py_TYPE(object);
  if (isAtom(kind)) {
    // Version 0 of marshal: the bytes depend only on the value, not on reference counts.
    out += 'm';
    Ref bytes = Ref::adopt(PyMarshal_WriteObjectToString(object, 0));
    addText(out, {PyBytes_AS_STRING(bytes.get()), size_t(PyBytes_GET_SIZE(bytes.get()))});
    return true;
  }
  if (kind == dataTypeType) {
    out += 'y';
    addText(out, support::getName(reinterpret_cast<DataTypeObject *>(object)->type));
    return true;
  }
  if (PyCode_Check(object)) return code(object);
  if (PyTuple_Check(object)) {
    typeName(kind); // distinguishes named tuples
    return items('t', object);
  }
  if (kind == &PyList_Type) return items('l', object);
  if (kind == &PyDict_Type) return items('d', Ref::adopt(PyDict_Items(object)).get());
  if (PyAnySet_Check(object)) {
    // Sets have no order: their items are sorted by their fingerprints.
    std::vector<std::string> parts;
    Ref list = Ref::adopt(PySequence_List(object));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i) {
      Fingerprinter part(parts.emplace_back());
      part.depth = depth;
      if (!part.value(PyList_GET_ITEM(list.get(), i))) return false;
    }
    std::sort(parts.begin(), parts.end());
    out += 'S';
    for (const std::string &part : parts) addText(out, part);
    return true;
  }
  static const struct {
    PyTypeObject *type;
    char letter;
    std::initializer_list<const char *> members;
  } known[] = {{&PySlice_Type, ':', {"start", "stop", "step"}},
               {&PyRange_Type, 'r', {"start", "stop", "step"}},
               {&PyModule_Type, 'M', {"__name__"}},
               {&PyCFunction_Type, 'C', {"__module__", "__qualname__"}}};
  for (const auto &row : known)
    if (PyObject_TypeCheck(object, row.type)) {
      out += row.letter;
      return attributes(object, row.members);
    }
  if (PyType_Check(object)) return type(reinterpret_cast<PyTypeObject *>(object));
  if (PyList_Check(object) || PyDict_Check(object)) { // instances of subclasses, such as OrderedDict
    out += 'L';
    typeName(kind);
    return PyList_Check(object) ? items('l', object) : items('d', Ref::adopt(PyDict_Items(object)).get());
  }
  if (isWrapper(kind)) {
    out += 'W';
    typeName(kind);
    Ref keys = findAttribute(object, "keys");
    return keys ? items('d', Ref::adopt(PyMapping_Items(object)).get()) : items('l', Ref::adopt(PySequence_List(object)).get());
  }
  if (std::string_view(kind->tp_name) == "collections.deque") return items('q', Ref::adopt(PySequence_List(object)).get());
  if (PyArray_Check(object) || PyArray_IsScalar(object, Generic)) {
    out += PyArray_Check(object) ? 'A' : 'g';
    return array(object);
  }
  if (isTensor(object)) return false; // a container is an input, never a constant
  if (PyObject_CheckBuffer(object)) { // bytearray, array.array
    out += 'b';
    typeName(kind);
    return array(object);
  }
  if (PyFunction_Check(object) || isKernel(object) || findBound(object)) return function(object, Placement::Ignored);
  if (isEnumMember(object)) {
    out += 'E';
    typeName(kind);
    return attributes(object, {"_name_", "_value_"});
  }
  if (PyLong_Check(object) || PyFloat_Check(object) || PyUnicode_Check(object)) {
    // An instance of a subclass of a number or string: the class, then the plain value.
    out += 'u';
    typeName(kind);
    Ref plain = Ref::adopt(PyLong_Check(object)    ? PyNumber_Long(object)
                           : PyFloat_Check(object) ? PyFloat_FromDouble(PyFloat_AS_DOUBLE(object))
                                                   : PyUnicode_FromObject(object));
    return value(plain.get());
  }
  if (isOfPackage(kind)) {
    // Builtins of the language are written as their names; vectors, types and annotations as their members.
    if (Ref name = findAttribute(object, "_qd_builtin")) {
      out += 'B';
      return value(name.get());
    }
    return getFunction(object) ? function(object, Placement::Ignored) : members(object);
  }
  return false;
}

bool Fingerprinter::code(PyObject *object) {
  out += 'K';
  return attributes(object, {"co_code", "co_flags", "co_argcount", "co_posonlyargcount", "co_kwonlyargcount", "co_names", "co_varnames",
                             "co_freevars", "co_cellvars", "co_consts"});
}

bool Fingerprinter::function(PyObject *object, Placement placement) {
  PyObject *found = getFunction(object);
  if (!found) return false;
  auto *plain = reinterpret_cast<PyFunctionObject *>(found);
  auto *body = reinterpret_cast<PyCodeObject *>(plain->func_code);
  out += 'F';
  // A qd.func and a plain function of the same text are called in different ways.
  typeName(Py_TYPE(object));
  if (!code(plain->func_code) || !value(plain->func_defaults ? plain->func_defaults : Py_None) ||
      !value(plain->func_kwdefaults ? plain->func_kwdefaults : Py_None))
    return false;
  // Annotations of local variables are not part of the code object, so the source text of a function is included.
  if (!value(call("quadrants._base.source", "get_text", "O", plain).get())) return false;
  if (placement == Placement::Included) {
    out += '@';
    addText(out, asText(body->co_filename));
    addNumber(out, uint64_t(body->co_firstlineno));
  }
  return true;
}

} // namespace

bool fingerprintValue(std::string &out, PyObject *object) { return Fingerprinter(out).value(object); }
bool fingerprintFunction(std::string &out, PyObject *object, Placement placement) { return Fingerprinter(out).function(object, placement); }
void fingerprintType(std::string &out, PyObject *object) {
  out += PyType_Check(object) ? 'C' : 'I';
  Fingerprinter(out).type(PyType_Check(object) ? reinterpret_cast<PyTypeObject *>(object) : Py_TYPE(object));
}

std::optional<support::Digest> fingerprintDependency(artifact::Dependency::Kind kind, PyObject *object, Placement placement) {
  using Kind = artifact::Dependency::Kind;
  std::string text;
  if (kind == Kind::Absent || !object)
    text = object ? "present" : "absent";
  else if (kind == Kind::Type)
    fingerprintType(text, object);
  else if (kind == Kind::Identity)
    return std::nullopt;
  else if (kind == Kind::Function && getFunction(object)) {
    if (!fingerprintFunction(text, object, placement)) return std::nullopt;
  } else if (!fingerprintValue(text, object))
    return std::nullopt;
  return support::computeDigest(text);
}

bool isImmutable(PyObject *object) {
  PyTypeObject *kind = Py_TYPE(object);
  if (PyTuple_Check(object)) {
    PyObject *const *items = &PyTuple_GET_ITEM(object, 0);
    return std::all_of(items, items + PyTuple_GET_SIZE(object), isImmutable);
  }
  // Builtins of the language are functions, too. Classes of the package whose instances hold arrays are not immutable.
  return isAtom(kind) || kind == dataTypeType || kind == &PyRange_Type || kind == &PySlice_Type || PyCFunction_Check(object) ||
         PyModule_Check(object) || PyType_Check(object) || PyArray_IsScalar(object, Generic) || isEnumMember(object) ||
         getFunction(object) || isBuiltin(object);
}

bool isBuiltin(PyObject *object) {
  return !PyType_Check(object) && isOfPackage(Py_TYPE(object)) && PyObject_HasAttrString(object, "_qd_builtin");
}

} // namespace qd::launch
