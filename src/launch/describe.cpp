// describe.cpp: see describe.h
//
// Every item starts with a letter for its kind, then sizes before contents, so that no two different objects run into the same bytes.
#include "launch/describe.h"

#include "launch/data_type.h"
#include "launch/kernel.h"
#include "launch/numpy.h"
#include "launch/path.h"
#include "launch/tensor_object.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <sys/stat.h>
#include <unordered_map>
#include <vector>

namespace qd::launch {

static constexpr int kMaxDepth = 32;
static constexpr Py_ssize_t kMaxArrayBytes = 1 << 20;

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
    // Lone surrogates have no UTF-8; such a string has no canonical form here.
    PyErr_Clear();
    return {};
  }
  return {text, size_t(size)};
}

class Describer {
public:
  explicit Describer(std::string &out) : out(out) {}
  bool value(PyObject *object);
  bool function(PyObject *object, Placement placement);
  bool code(PyObject *object);
  void typeName(PyTypeObject *type);
  bool type(PyTypeObject *type);

private:
  bool items(char kind, PyObject *sequence);
  bool dict(PyObject *object);
  bool array(PyObject *object);
  bool members(PyObject *object);
  bool attribute(PyObject *object, const char *name);

  std::string &out;
  int depth = 0;
};

bool Describer::items(char kind, PyObject *sequence) {
  out += kind;
  addNumber(out, uint64_t(PySequence_Fast_GET_SIZE(sequence)));
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence); ++i)
    if (!value(PySequence_Fast_GET_ITEM(sequence, i))) return false;
  return true;
}

bool Describer::dict(PyObject *object) {
  out += 'd';
  addNumber(out, uint64_t(PyDict_GET_SIZE(object)));
  // A copy: describing may run Python code that changes the dictionary.
  Ref copy = Ref::adopt(PyDict_Items(object));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(copy.get()); ++i)
    if (!value(PyTuple_GET_ITEM(PyList_GET_ITEM(copy.get(), i), 0)) || !value(PyTuple_GET_ITEM(PyList_GET_ITEM(copy.get(), i), 1)))
      return false;
  return true;
}

bool Describer::array(PyObject *object) {
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

bool Describer::attribute(PyObject *object, const char *name) {
  PyObject *found = PyObject_GetAttrString(object, name);
  if (!found) {
    PyErr_Clear();
    out += '-';
    return true;
  }
  Ref held = Ref::adopt(found);
  return value(held.get());
}

void Describer::typeName(PyTypeObject *type) {
  Ref module = Ref::adopt(PyObject_GetAttrString(reinterpret_cast<PyObject *>(type), "__module__"));
  Ref name = Ref::adopt(PyObject_GetAttrString(reinterpret_cast<PyObject *>(type), "__qualname__"));
  addText(out, PyUnicode_Check(module.get()) ? asText(module.get()) : "");
  addText(out, asText(name.get()));
}

bool Describer::type(PyTypeObject *type) {
  out += 'T';
  typeName(type);
  // Members of a dataclass and of the classes it derives from are part of what it is.
  PyObject *fields = PyDict_Contains(type->tp_dict, Ref::adopt(PyUnicode_InternFromString("__dataclass_fields__")).get()) == 1
                         ? PyDict_GetItemString(type->tp_dict, "__dataclass_fields__")
                         : nullptr;
  if (!fields || !PyDict_Check(fields)) return true;
  out += 'D';
  PyObject *name, *field;
  for (Py_ssize_t position = 0; PyDict_Next(fields, &position, &name, &field);) {
    addText(out, asText(name));
    if (!attribute(field, "type")) out += '?';
  }
  return true;
}

bool Describer::members(PyObject *object) {
  out += 'o';
  typeName(Py_TYPE(object));
  Ref slots = Ref::adopt(PyList_New(0));
  for (PyTypeObject *base = Py_TYPE(object); base; base = base->tp_base)
    if (PyObject *names = base->tp_dict ? PyDict_GetItemString(base->tp_dict, "__slots__") : nullptr) {
      Ref list = Ref::adopt(PyUnicode_Check(names) ? PyTuple_Pack(1, names) : PySequence_Tuple(names));
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(list.get()); ++i) PyList_Append(slots.get(), PyTuple_GET_ITEM(list.get(), i));
    }
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(slots.get()); ++i)
    if (!attribute(object, std::string(asText(PyList_GET_ITEM(slots.get(), i))).c_str())) return false;
  PyObject *found = PyObject_GenericGetDict(object, nullptr);
  PyErr_Clear();
  if (!found) return true;
  Ref own = Ref::adopt(found);
  return dict(own.get());
}

bool isOfPackage(PyTypeObject *type) {
  Ref module = Ref::adopt(PyObject_GetAttrString(reinterpret_cast<PyObject *>(type), "__module__"));
  return PyUnicode_Check(module.get()) && asText(module.get()).substr(0, 9) == "quadrants";
}

bool Describer::value(PyObject *object) {
  struct Level {
    int &depth;
    explicit Level(int &depth) : depth(++depth) {}
    ~Level() { --depth; }
  } level(depth);
  if (depth > kMaxDepth || out.size() > (64u << 20)) return false; // a cycle, or far more than a constant
  PyTypeObject *kind = Py_TYPE(object);
  if (object == Py_None || object == Py_True || object == Py_False || object == Py_Ellipsis) {
    out += object == Py_None ? 'N' : object == Py_True ? '1' : object == Py_False ? '0' : '.';
    return true;
  }
  if (kind == &PyLong_Type) {
    int overflow;
    long long number = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (!overflow) {
      out += 'i';
      addNumber(out, uint64_t(number));
      return true;
    }
    Ref text = Ref::adopt(_PyLong_Format(object, 16));
    out += 'I';
    addText(out, asText(text.get()));
    return true;
  }
  if (kind == &PyFloat_Type) {
    double number = PyFloat_AS_DOUBLE(object);
    out += 'f';
    out.append(reinterpret_cast<const char *>(&number), 8);
    return true;
  }
  if (kind == &PyUnicode_Type) {
    out += 's';
    addText(out, asText(object));
    return true;
  }
  if (kind == &PyBytes_Type) {
    out += 'b';
    addText(out, {PyBytes_AS_STRING(object), size_t(PyBytes_GET_SIZE(object))});
    return true;
  }
  if (kind == &PyComplex_Type) {
    Py_complex number = PyComplex_AsCComplex(object);
    out += 'c';
    out.append(reinterpret_cast<const char *>(&number), sizeof number);
    return true;
  }
  if (kind == dataTypeType) {
    out += 'y';
    addText(out, support::getName(reinterpret_cast<DataTypeObject *>(object)->type));
    return true;
  }
  if (PyCode_Check(object)) return code(object);
  if (PyTuple_Check(object)) {
    if (kind != &PyTuple_Type) {
      out += 'n'; // a named tuple
      typeName(kind);
    }
    return items('t', object);
  }
  if (kind == &PyList_Type) return items('l', object);
  if (kind == &PyDict_Type) return dict(object);
  if (PyAnySet_CheckExact(object)) {
    // Sorted by their own descriptions: sets have no order.
    std::vector<std::string> parts;
    Ref list = Ref::adopt(PySequence_List(object));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i) {
      parts.emplace_back();
      Describer part(parts.back());
      part.depth = depth;
      if (!part.value(PyList_GET_ITEM(list.get(), i))) return false;
    }
    std::sort(parts.begin(), parts.end());
    out += 'S';
    for (const std::string &part : parts) addText(out, part);
    return true;
  }
  if (kind == &PySlice_Type || kind == &PyRange_Type) {
    out += kind == &PySlice_Type ? ':' : 'r';
    return attribute(object, "start") && attribute(object, "stop") && attribute(object, "step");
  }
  if (PyType_Check(object)) return type(reinterpret_cast<PyTypeObject *>(object));
  if (PyModule_Check(object)) {
    out += 'M';
    return attribute(object, "__name__");
  }
  if (PyArray_Check(object) || PyArray_IsScalar(object, Generic)) {
    out += PyArray_Check(object) ? 'A' : 'g';
    return array(object);
  }
  if (isTensor(object)) return false; // a container is an input, never a constant
  if (PyFunction_Check(object) || isKernel(object) || PyMethod_Check(object)) return function(object, Placement::Ignored);
  if (PyCFunction_Check(object)) {
    out += 'C';
    return attribute(object, "__module__") && attribute(object, "__qualname__");
  }
  // Enum members: class, name, value.
  static PyObject *enumType = importAttribute("enum", "Enum").release();
  if (PyObject_IsInstance(object, enumType) == 1) {
    out += 'E';
    typeName(kind);
    return attribute(object, "_name_") && attribute(object, "_value_");
  }
  if (PyLong_Check(object) || PyFloat_Check(object) || PyUnicode_Check(object)) {
    // A subclass of a number or a string: the class, then the plain value.
    out += 'u';
    typeName(kind);
    Ref plain = Ref::adopt(PyLong_Check(object)    ? PyNumber_Long(object)
                           : PyFloat_Check(object) ? PyFloat_FromDouble(PyFloat_AS_DOUBLE(object))
                                                   : PyUnicode_FromObject(object));
    return value(plain.get());
  }
  if (isOfPackage(kind)) {
    // Functions of the language are their names; vectors, types and annotations are their members.
    PyObject *found = PyObject_GetAttrString(object, "_qd_builtin");
    PyErr_Clear();
    if (found) {
      Ref name = Ref::adopt(found);
      out += 'B';
      return value(name.get());
    }
    if (getFunction(object)) return function(object, Placement::Ignored);
    return members(object);
  }
  return false;
}

bool Describer::code(PyObject *object) {
  out += 'K';
  for (const char *name : {"co_code", "co_flags", "co_argcount", "co_posonlyargcount", "co_kwonlyargcount", "co_names", "co_varnames",
                           "co_freevars", "co_cellvars"})
    if (!attribute(object, name)) return false;
  Ref constants = Ref::adopt(PyObject_GetAttrString(object, "co_consts"));
  out += 'k';
  addNumber(out, uint64_t(PyTuple_GET_SIZE(constants.get())));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constants.get()); ++i)
    if (!value(PyTuple_GET_ITEM(constants.get(), i))) return false;
  return true;
}

//--- Source text ---
// Annotations of local variables leave no trace in the code, so the text of a function is part of what it is.

struct SourceFile {
  std::string text;
  std::vector<size_t> lines; ///< where each line starts
  struct timespec changed{};
};

const SourceFile *readSource(const std::string &path) {
  static auto *files = new std::unordered_map<std::string, std::unique_ptr<SourceFile>>;
  struct stat status;
  if (stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return nullptr;
  std::unique_ptr<SourceFile> &file = (*files)[path];
  if (file && file->changed.tv_sec == status.st_mtim.tv_sec && file->changed.tv_nsec == status.st_mtim.tv_nsec) return file.get();
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream content;
  content << stream.rdbuf();
  file = std::make_unique<SourceFile>();
  file->text = std::move(content).str();
  file->changed = status.st_mtim;
  file->lines.push_back(0);
  for (size_t at = 0; (at = file->text.find('\n', at)) != std::string::npos;) file->lines.push_back(++at);
  return file.get();
}

int getLastLine(PyObject *code) {
  int last = reinterpret_cast<PyCodeObject *>(code)->co_firstlineno;
  Ref positions = Ref::adopt(PyObject_CallMethod(code, "co_lines", nullptr));
  Ref iterator = Ref::adopt(PyObject_GetIter(positions.get()));
  while (PyObject *item = PyIter_Next(iterator.get())) {
    Ref entry = Ref::adopt(item);
    PyObject *line = PyTuple_GET_ITEM(item, 2);
    if (PyLong_Check(line)) last = std::max(last, int(PyLong_AsLong(line)));
  }
  PyErr_Clear();
  PyObject *constants = reinterpret_cast<PyCodeObject *>(code)->co_consts;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constants); ++i)
    if (PyCode_Check(PyTuple_GET_ITEM(constants, i))) last = std::max(last, getLastLine(PyTuple_GET_ITEM(constants, i)));
  return last;
}

/// Lines [first, last] of the function from its file, or from what an interactive session registered with `linecache`.
void addSource(std::string &out, PyCodeObject *code) {
  std::string path(asText(code->co_filename));
  int first = code->co_firstlineno, last = getLastLine(reinterpret_cast<PyObject *>(code));
  if (const SourceFile *file = readSource(path)) {
    size_t lines = file->lines.size();
    if (first < 1 || size_t(first) > lines) return;
    size_t begin = file->lines[size_t(first) - 1], end = size_t(last) < lines ? file->lines[size_t(last)] : file->text.size();
    addText(out, std::string_view(file->text).substr(begin, end - begin));
    return;
  }
  PyObject *module = PyDict_GetItemString(PyImport_GetModuleDict(), "linecache");
  if (!module) return;
  Ref cache = Ref::adopt(PyObject_GetAttrString(module, "cache"));
  PyObject *entry = PyDict_GetItem(cache.get(), code->co_filename);
  if (!entry || !PyTuple_Check(entry) || PyTuple_GET_SIZE(entry) < 3 || !PyList_Check(PyTuple_GET_ITEM(entry, 2))) return;
  PyObject *lines = PyTuple_GET_ITEM(entry, 2);
  for (Py_ssize_t line = first - 1; line >= 0 && line < last && line < PyList_GET_SIZE(lines); ++line)
    addText(out, asText(PyList_GET_ITEM(lines, line)));
}

bool Describer::function(PyObject *object, Placement placement) {
  PyObject *found = getFunction(object);
  if (!found) return false;
  auto *plain = reinterpret_cast<PyFunctionObject *>(found);
  auto *body = reinterpret_cast<PyCodeObject *>(plain->func_code);
  out += 'F';
  // A func and a plain function of the same text are called in different ways.
  typeName(Py_TYPE(object));
  if (!code(plain->func_code) || !value(plain->func_defaults ? plain->func_defaults : Py_None) ||
      !value(plain->func_kwdefaults ? plain->func_kwdefaults : Py_None))
    return false;
  addSource(out, body);
  if (placement == Placement::Included) {
    out += '@';
    addText(out, asText(body->co_filename));
    addNumber(out, uint64_t(body->co_firstlineno));
  }
  return true;
}

} // namespace

bool describeValue(std::string &out, PyObject *object) { return Describer(out).value(object); }
bool describeFunction(std::string &out, PyObject *object, Placement placement) { return Describer(out).function(object, placement); }
void describeType(std::string &out, PyObject *object) {
  out += PyType_Check(object) ? 'C' : 'I';
  Describer(out).type(PyType_Check(object) ? reinterpret_cast<PyTypeObject *>(object) : Py_TYPE(object));
}

std::optional<support::Digest> describeDependency(artifact::Dependency::Kind kind, PyObject *object, Placement placement) {
  using Kind = artifact::Dependency::Kind;
  std::string text;
  if (kind == Kind::Absent || !object)
    text = object ? "present" : "absent";
  else if (kind == Kind::Type)
    describeType(text, object);
  else if (kind == Kind::Identity)
    return std::nullopt;
  else if (kind == Kind::Function && getFunction(object)) {
    if (!describeFunction(text, object, placement)) return std::nullopt;
  } else if (!describeValue(text, object))
    return std::nullopt;
  return support::computeDigest(text);
}

bool isImmutable(PyObject *object) {
  PyTypeObject *kind = Py_TYPE(object);
  if (object == Py_None || kind == &PyBool_Type || kind == &PyLong_Type || kind == &PyFloat_Type || kind == &PyUnicode_Type ||
      kind == &PyBytes_Type || kind == &PyComplex_Type || kind == dataTypeType || kind == &PyEllipsis_Type || kind == &PyRange_Type ||
      kind == &PySlice_Type || PyCFunction_Check(object) || PyModule_Check(object) || PyType_Check(object) ||
      PyArray_IsScalar(object, Generic))
    return true;
  if (PyTuple_Check(object)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
      if (!isImmutable(PyTuple_GET_ITEM(object, i))) return false;
    return true;
  }
  if (PyFunction_Check(object) || isKernel(object)) return true;
  static PyObject *enumType = importAttribute("enum", "Enum").release();
  if (PyObject_IsInstance(object, enumType) == 1) return true;
  PyErr_Clear();
  // Functions of the language; the classes of the package whose instances hold arrays say nothing here.
  return getFunction(object) || isBuiltin(object);
}

bool isBuiltin(PyObject *object) {
  return !PyType_Check(object) && isOfPackage(Py_TYPE(object)) && PyObject_HasAttrString(object, "_qd_builtin");
}

} // namespace qd::launch
