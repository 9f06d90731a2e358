// values.h: what an expression is while compiling. One type for both worlds: Python objects and typed IR values.
#pragma once

#include "frontend/python_objects.h"
#include "ir/dialect.h"

#include <memory>
#include <vector>

namespace qd::frontend {

struct PathNode;
struct Aggregate;

/// The result of an expression.
struct Value {
  enum class Kind : uint8_t {
    Object,     ///< a Python object known now
    Computed,   ///< a typed IR value
    Place,      ///< a place (!qd.ref): a variable, a component, an element of a container; read when it is used
    Components, ///< some components of items[0]: a swizzle or a slice; or, without `components`, the places in items
    Argument,   ///< a scalar, vector or matrix that is read at each launch: an Input of the artifact
    Tensor,     ///< a container
    View,       ///< a part of a container: items are the container, then for each axis an index, or a Range of start, count and step
    Sequence,   ///< a list or tuple of values
    Dictionary,
    Struct,
    Instance, ///< an object of a class of the user's that is made here: its members; `object` is the class, `path` that of the class
    Method,   ///< items[0].name, to be called; or a func with its self
    Range     ///< range or ndrange with bounds that are known at run time
  };
  /// What numbers among the members of an object are: the outermost object of a data_oriented class says it for all that it reaches.
  enum class Members : uint8_t { Unsaid, Baked, ReadAtLaunch };
  Kind kind = Kind::Object;
  bool isStatic = false;          ///< came out of qd.static
  bool isElement = false;         ///< place inside a container: augmented assignment is atomic
  bool isShared = false;          ///< place of a variable of the kernel's serial part
  bool isReadOnly = false;        ///< a parameter or loop variable of vector type: components cannot be assigned
  bool isClamped = false;         ///< container, or element of one: indices are moved into it
  bool isIndex = false;           ///< object: the index vector of an unrolled loop, whose components are known
  bool hasRuntimeMembers = false; ///< object: its scalar members are read at each launch
  Members members = Members::Unsaid;
  uint32_t input = 0; ///< Argument, Tensor: number of the artifact's input
  nb::object object;  ///< Object: itself. Tensor: the container. Method: the func or the name
  const PathNode *path = nullptr;
  mlir::Value ir;
  mlir::Type type; ///< Computed, Argument: its type. Place: what it holds. Components: of the whole
  std::shared_ptr<Aggregate> aggregate;

  bool is(Kind other) const { return kind == other; }
  bool isObject() const { return kind == Kind::Object; }
  /// Has a type: a scalar, vector or matrix known at run time.
  bool isTyped() const { return type != nullptr && kind != Kind::Tensor; }
  bool isGiven() const { return !isObject() || object.is_valid(); }
  bool isNone() const { return isObject() && object.is_none(); }
};

/// The parts of a value that has parts.
struct Aggregate {
  std::vector<Value> items;
  std::vector<nb::object> names; ///< Struct, Instance, Dictionary, named tuple: interned member names or keys
  nb::object structType;         ///< Struct: its StructType, if it has one. Sequence: the class of a named tuple
  bool isTuple = false;
  bool isUnpacked = false;          ///< Sequence: places of a struct, which are stored to
  mlir::Block *home = nullptr;      ///< Sequence, Dictionary, Instance: the block that named it; it grows and shrinks there only
  std::vector<int32_t> components;  ///< Components: which ones of items[0], row by row
  std::vector<Value> rowOf;         ///< Components: of a row, the matrix and the index
  std::vector<int32_t> axes;        ///< Range: order of the loops, outermost first; empty: as written
  bool isGrouped = false;           ///< Range: one index vector
  int64_t sliceLength = 0;          ///< Range, as an index: its length where its start is known at run time only
  bool isNdrange = false;           ///< Range: items are (begin, end) pairs in turn; else begin, end, step
  mlir::Operation *check = nullptr; ///< Range, of a view: what checks that the slice lies in its container, or null
};

/// A `qd.Tensor` stands for its container.
inline Value makeObject(nb::handle object, const PathNode *path = nullptr) {
  Value value;
  value.object = nb::borrow(unwrapTensor(object));
  value.path = path;
  return value;
}

inline Value makeComputed(mlir::Value ir) {
  Value value;
  value.kind = Value::Kind::Computed;
  value.ir = ir;
  value.type = ir.getType();
  return value;
}

inline Value makePlace(mlir::Value ref) {
  Value value;
  value.kind = Value::Kind::Place;
  value.ir = ref;
  value.type = llvm::cast<ir::RefType>(ref.getType()).getPointee();
  return value;
}

inline Value makeAggregate(Value::Kind kind, std::vector<Value> items) {
  Value value;
  value.kind = kind;
  value.aggregate = std::make_shared<Aggregate>();
  value.aggregate->items = std::move(items);
  return value;
}

inline Value makeTuple(std::vector<Value> items) {
  Value value = makeAggregate(Value::Kind::Sequence, std::move(items));
  value.aggregate->isTuple = true;
  return value;
}

template <typename Range, typename Make> std::vector<Value> listValues(const Range &range, Make &&make) {
  std::vector<Value> values;
  for (const auto &item : range) values.push_back(make(item));
  return values;
}

/// A value with the same shape and names as an aggregate, and other items.
template <typename Change> Value mapItems(const Value &shape, Change &&change) {
  Value result = makeAggregate(shape.kind, {});
  *result.aggregate = *shape.aggregate;
  result.aggregate->check = nullptr;
  for (Value &item : result.aggregate->items) item = change(item);
  return result;
}

/// A list or tuple, of values or of Python objects.
inline bool isList(const Value &value) {
  return value.is(Value::Kind::Sequence) || (value.isObject() && (PyTuple_Check(value.object.ptr()) || PyList_Check(value.object.ptr())));
}

} // namespace qd::frontend
