// python_objects.h: queries on Python objects. Names and classes are looked up once per compilation.
#pragma once

#include <Python.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include "mlir/IR/BuiltinTypes.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>
#include <vector>

namespace qd::frontend {

namespace nb = nanobind;

// Interned names of attributes that are read often.
// clang-format off
#define QD_NAMES(X)                                                                                                                        \
  X(annotation)                                                                                                                            \
  X(arg) X(args) X(arr) X(argument) X(arguments) X(attr) X(axes) X(body) X(bounds) X(cause) X(column) X(comparators) X(component_stride) X(conversion) X(ctx)         \
  X(decorator_list) X(default_) X(defaults) X(dims) X(dtype) X(dtype_name) X(elt) X(elts) X(end_col_offset) X(end_lineno) X(col_offset) X(element_shape) X(entries) X(extents)       \
  X(field_dict) X(file) X(format_spec) X(func) X(function) X(generators) X(grad) X(handlers) X(has_default) X(id) X(ifs) X(index) X(instance)       \
  X(has_checkpoints) X(is_async) X(is_graph) X(is_real_function) X(item) X(items) X(iter) X(key) X(keys) X(keywords) X(kind) X(left) X(lineno) X(kwonlyargs) X(lines) X(lower) X(m)     \
  X(members) X(methods) X(msg) X(n) X(name) X(names) X(ndim) X(op) X(operand) X(operators) X(ops) X(optional) X(origin) X(orelse) X(parameters) X(posonlyargs)      \
  X(requires_top_level) X(results) X(right) X(shape) X(slice) X(source) X(start) X(statics) X(stars) X(step) X(stop) X(strides) X(struct_methods) X(target) X(targets) X(test) X(tilings) X(tree) X(type) X(upper)   \
  X(value) X(values) X(__call__) X(__closure__) X(__code__) X(__defaults__) X(func_) X(__init__) X(__kwdefaults__) X(__self__) X(__wrapped__) X(_fields) X(__dataclass_fields__) X(__globals__) X(__class__) X(__dict__) X(__module__) X(__mro__) X(__name__) X(co_freevars) X(_array) X(_box) X(_cells)  \
  X(_data_oriented) X(_packing) X(_qd_builtin) X(_qd_from_checkpoint) X(_qd_layout) X(_qd_struct_type) X(_qd_template_primitives) X(_type) X(r) X(is_tile)

/// Kinds of syntax nodes, named as in Python's ast.
#define QD_NODES(X)                                                                                                                        \
  X(FunctionDef)                                                                                                                           \
  X(AsyncFunctionDef) X(ClassDef) X(Return) X(Delete) X(Assign) X(AugAssign) X(AnnAssign) X(For) X(While) X(If) X(With) X(Match) X(Raise)  \
  X(Try) X(Assert) X(Import) X(ImportFrom) X(Global) X(Nonlocal) X(Expr) X(Pass) X(Break) X(Continue) X(BoolOp) X(NamedExpr) X(BinOp)      \
  X(UnaryOp) X(Lambda) X(IfExp) X(Dict) X(Set) X(ListComp) X(SetComp) X(DictComp) X(GeneratorExp) X(Await) X(Yield) X(YieldFrom)           \
  X(Compare) X(Call) X(FormattedValue) X(JoinedStr) X(Constant) X(Attribute) X(Subscript) X(Starred) X(Name) X(List) X(Tuple) X(Slice)     \
  X(And) X(Or) X(Add) X(Sub) X(Mult) X(MatMult) X(Div) X(Mod) X(Pow) X(LShift) X(RShift) X(BitOr) X(BitXor) X(BitAnd) X(FloorDiv)          \
  X(Invert) X(Not) X(UAdd) X(USub) X(Eq) X(NotEq) X(Lt) X(LtE) X(Gt) X(GtE) X(Is) X(IsNot) X(In) X(NotIn) X(Store)
// clang-format on

enum class NodeKind : uint8_t {
#define X(name) name,
  QD_NODES(X)
#undef X
      Unknown
};

/// The container of a `qd.Tensor`, which owns it; any other object unchanged.
nb::handle unwrapTensor(nb::handle object);

// Classes and functions are null if the package or the module that has them is not loaded.

/// Classes of Python and NumPy.
struct HostClasses {
  nb::object enumeration, module, function, method, partial, range, numpyGeneric, numpyArray;
  nb::object plain;    ///< tuple: classes of plain data
  nb::list wrappers{}; ///< classes that show a dict or list of their own or of another object
  nb::dict builtins;
};

/// Values in Python scope, and their types.
struct ValueClasses {
  nb::object dataType, findDtype, matrix, vector, matrixType, structType, structValue, arrayType;
};

/// Containers, and what Python knows of the memory that they share.
struct ContainerClasses {
  nb::object field, array, structField, node, bufferView, mayOverlap, listShared;
};

/// What the decorators make of functions.
struct FunctionClasses {
  nb::object kernel, func, boundFunc, localFunc, asFunc, freeNames, allArguments;
};

/// Other objects of the language: ranges, stand-ins for values of the compiled program, parameters, and source text.
struct LanguageClasses {
  nb::object ndrange, groupedRange, operand, standIn, bind, getSource;
};

/// Interned names, classes of syntax nodes, and classes and functions of the package.
struct PythonObjects {
  PythonObjects();

  struct {
#define X(name) nb::object name;
    QD_NAMES(X)
#undef X
  } names;

  NodeKind kindOf(nb::handle node) const;

  HostClasses host;
  ValueClasses values;
  ContainerClasses containers;
  FunctionClasses functions;
  LanguageClasses language;

  bool isInstance(nb::handle object, const nb::object &type) const;
  bool isTensor(nb::handle object) const {
    return isInstance(unwrapTensor(object), containers.field) || isInstance(unwrapTensor(object), containers.array);
  }
  bool isStructType(nb::handle object) const { return isInstance(object, values.structType); }
  bool isNumber(nb::handle object) const; ///< int, float, bool, and NumPy's scalars; not null
  /// The number as an int, float or bool of Python.
  nb::object toPlainNumber(nb::handle object) const;
  /// Converts a NumPy scalar to a Python scalar, so that Python's operators apply; returns any other object unchanged.
  nb::object toPythonScalar(nb::handle object) const;
  /// Whether an object is a UserDict, a UserList, a ChainMap or the proxy of a dict; not one of a derived class.
  bool isWrapper(nb::handle object) const;
  /// A number, a string, None, an enum, a data type, or a tuple, list, dict or wrapper of these.
  bool isPlainData(nb::handle object, int depth = 0) const;
  bool isDataclassInstance(nb::handle object) const;
  /// Whether this package defines the object. Functions of the package belong to the build, not to the user's program.
  bool isOfPackage(nb::handle object) const;

private:
  llvm::DenseMap<PyObject *, NodeKind> nodeKinds;
};

inline llvm::StringRef toText(nb::handle text) {
  Py_ssize_t size = 0;
  const char *data = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
  if (!data) throw nb::python_error();
  return {data, size_t(size)};
}

/// Takes ownership of a new reference; throws the pending Python exception for null.
inline nb::object checked(PyObject *result) {
  if (!result) throw nb::python_error();
  return nb::steal(result);
}

inline nb::object getAttribute(nb::handle object, const nb::object &name) { return checked(PyObject_GetAttr(object.ptr(), name.ptr())); }

/// The integers of a sequence. nanobind's own conversion ends the process if memory runs out.
std::vector<int64_t> readNumbers(nb::handle sequence);

inline bool isDeque(nb::handle object) { return llvm::StringRef(Py_TYPE(object.ptr())->tp_name) == "collections.deque"; }

/// Whether an object is a dict that keeps its order as dicts do; an OrderedDict does not.
inline bool hasDictOrder(nb::handle object) { return PyDict_Check(object.ptr()) && Py_TYPE(object.ptr())->tp_iter == PyDict_Type.tp_iter; }

/// The attribute, or null if there is none; throws any exception other than AttributeError.
nb::object findAttribute(nb::handle object, nb::handle name);

/// The first candidate that differs from a misspelt name by at most two letters (one for short names); empty if there is none.
std::string findClosest(llvm::StringRef name, nb::handle candidates);

inline int64_t readInteger(nb::handle object, const nb::object &name) { return nb::cast<int64_t>(getAttribute(object, name)); }
inline std::string readText(nb::handle object, const nb::object &name) { return toText(getAttribute(object, name)).str(); }

std::string describeType(nb::handle object); ///< "<class 'str'>"

} // namespace qd::frontend
