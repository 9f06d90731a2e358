// operand.h: what an expression is during compilation: a Python object, a typed IR value, or an aggregate of operands
#pragma once

#include "frontend/python_objects.h"
#include "ir/dialect.h"

#include <memory>
#include <vector>

namespace qd::frontend {

struct PathNode;
struct Aggregate;

/// The result of an expression.
struct Operand {
  enum class Kind : uint8_t {
    Object,     ///< a Python object, known while compiling
    Computed,   ///< a typed IR value
    Place,      ///< a place (!qd.ref): a variable, a component or an element; loaded when it is used
    Components, ///< components of items[0] (a swizzle or a slice); if `components` is empty: the places in `items`
    Argument,   ///< a scalar, vector or matrix that each launch reads: an Input of the artifact
    Tensor,     ///< a container
    View,       ///< a subview; items: the container, then for each axis an index or a Range of start, count and step
    Sequence,   ///< a list or tuple of values
    Dictionary,
    Struct,
    Instance, ///< an object of a user's class, constructed in compiled code; items: its members; `object` and `path`: the class
    Method,   ///< a bound method: items[0].name, or a func with its `self`
    Range     ///< range, ndrange or slice with run-time bounds, or the containers of qd.grouped or qd.zip
  };
  /// How number members of an object are compiled; an object inherits it from the outermost data_oriented object that reaches it.
  enum class Members : uint8_t { Unspecified, Baked, ReadAtLaunch };
  Kind kind = Kind::Object;
  bool isStatic = false;          ///< result of qd.static
  bool isElement = false;         ///< place in a container: augmented assignment is atomic
  bool isKernelVariable = false;  ///< place of a variable that is declared outside of parallel loops
  bool isReadOnly = false;        ///< a parameter or loop variable of vector type: components cannot be assigned
  bool isClamped = false;         ///< container, or element of one: its indices are clamped to its bounds
  bool isIndex = false;           ///< Object: the index vector of an unrolled loop, with known components
  bool hasRuntimeMembers = false; ///< Object: each launch reads its scalar members
  Members members = Members::Unspecified;
  uint32_t input = 0; ///< Argument, Tensor: number of the artifact's input
  nb::object object;  ///< Object: the object. Tensor: the container. Method: the func or the name
  const PathNode *path = nullptr;
  mlir::Value ir;
  mlir::Type type; ///< Computed, Argument: its type. Place: type of the pointee. Components: type of the components together
  std::shared_ptr<Aggregate> aggregate;

  bool is(Kind other) const { return kind == other; }
  bool isObject() const { return kind == Kind::Object; }
  /// Whether it is a scalar, vector or matrix known at run time.
  bool isTyped() const { return type != nullptr && kind != Kind::Tensor; }
  bool isGiven() const { return !isObject() || object.is_valid(); }
  bool isNone() const { return isObject() && object.is_none(); }
  const nb::object &getObject() const; ///< null if it is no Python object
  mlir::Type getType() const { return isTyped() ? type : mlir::Type(); }
};

using Kind = Operand::Kind;

inline const nb::object &Operand::getObject() const {
  static const nb::object none;
  return isObject() ? object : none;
}

/// Items, names and properties of a value that consists of other values.
struct Aggregate {
  std::vector<Operand> items;
  std::vector<nb::object> names; ///< Struct, Instance, Dictionary, named tuple: interned member names or keys
  nb::object structType;         ///< Struct: its StructType or null. Sequence: the class of a named tuple
  bool isTuple = false;
  bool isUnpacked = false;           ///< Sequence: places of a struct's members, to which assignments store
  mlir::Block *ownerBlock = nullptr; ///< Sequence, Dictionary, Instance: the block that declares it; only that block adds or removes items
  std::vector<int32_t> components;   ///< Components: numbers of the components of items[0], row by row
  std::vector<Operand> rowOf;        ///< Components that are a row: the matrix and the index
  std::vector<int32_t> axes;         ///< Range: order of the loops, outermost first; empty: in order of the axes
  bool isGrouped = false;            ///< Range: the loop variable is an index vector
  int64_t sliceLength = 0;           ///< Range as an index whose start is known at run time only: its length
  bool isNdrange = false;            ///< Range: of qd.ndrange; items: begin, end and step of each axis
  mlir::Operation *check = nullptr;  ///< Range of a view: the operation that checks the slice's bounds, or null
};

/// The value of a Python object; a `qd.Tensor` becomes its container.
inline Operand makeObject(nb::handle object, const PathNode *path = nullptr) {
  Operand value;
  value.object = nb::borrow(unwrapTensor(object));
  value.path = path;
  return value;
}

inline Operand makeComputed(mlir::Value ir) {
  Operand value;
  value.kind = Kind::Computed;
  value.ir = ir;
  value.type = ir.getType();
  return value;
}

inline Operand makePlace(mlir::Value ref) {
  Operand value;
  value.kind = Kind::Place;
  value.ir = ref;
  value.type = llvm::cast<ir::RefType>(ref.getType()).getPointee();
  return value;
}

inline Operand makeAggregate(Operand::Kind kind, std::vector<Operand> items) {
  Operand value;
  value.kind = kind;
  value.aggregate = std::make_shared<Aggregate>();
  value.aggregate->items = std::move(items);
  return value;
}

inline Operand makeTuple(std::vector<Operand> items) {
  Operand value = makeAggregate(Kind::Sequence, std::move(items));
  value.aggregate->isTuple = true;
  return value;
}

template <typename Range, typename Make> std::vector<Operand> listValues(const Range &range, Make &&make) {
  std::vector<Operand> values;
  for (const auto &item : range) values.push_back(make(item));
  return values;
}

/// An aggregate with the same kind and names and changed items.
template <typename Change> Operand mapItems(const Operand &shape, Change &&change) {
  Operand result = makeAggregate(shape.kind, {});
  *result.aggregate = *shape.aggregate;
  result.aggregate->check = nullptr;
  for (Operand &item : result.aggregate->items) item = change(item);
  return result;
}

/// Whether the value is a list or tuple, of values or of Python objects.
inline bool isList(const Operand &value) {
  return value.is(Kind::Sequence) || (value.isObject() && (PyTuple_Check(value.object.ptr()) || PyList_Check(value.object.ptr())));
}

/// The arguments of a call.
struct Arguments {
  std::vector<Operand> positional;
  std::vector<std::pair<std::string, Operand>> named;
};

/// A method that is bound to `receiver`: its name, or a func with its path.
inline Operand makeMethod(const Operand &receiver, nb::handle name, const PathNode *path = nullptr) {
  Operand method = makeAggregate(Kind::Method, {receiver});
  method.object = nb::borrow(name);
  method.path = path;
  return method;
}

/// A member of a struct, instance or named tuple; null if there is none.
inline const Operand *findMember(const Operand &structure, nb::handle name) {
  for (const auto &[known, item] : llvm::zip(structure.aggregate->names, structure.aggregate->items))
    if (known.is(name) || known.equal(name)) return &item;
  return nullptr;
}

} // namespace qd::frontend
