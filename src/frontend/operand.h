// operand.h: what an expression stands for during compilation: a variant with one struct for each kind
#pragma once

#include "frontend/python_objects.h"
#include "ir/dialect.h"

#include <memory>
#include <optional>
#include <variant>
#include <vector>

namespace qd::frontend {

struct PathNode;
struct Components;
struct View;
struct AxisRange;
struct Slice;
struct Range;
struct Containers;
struct Sequence;
struct Dictionary;
struct DictView;
struct Struct;
struct Instance;
struct Method;

/// A Python object, known while compiling.
struct PythonObject {
  /// How number members of an object are compiled; an object inherits it from the outermost data_oriented object that reaches it.
  enum class Members : uint8_t { Unspecified, Baked, ReadAtLaunch };
  nb::object object;              ///< null: the operand is not given
  const PathNode *path = nullptr; ///< null: no path leads to the object
  Members members = Members::Unspecified;
  bool hasRuntimeMembers = false; ///< each launch reads its scalar members
  bool isIndex = false;           ///< the index vector of an unrolled loop, with known components
  bool isClamped = false;         ///< a container: indices are clamped to its bounds
};

/// A typed IR value.
struct Computed {
  mlir::Value ir; ///< null in the result that a real_func declares: only its type is known
  mlir::Type type;
  bool isReadOnly = false; ///< a loop variable: its components cannot be assigned
};

struct SparseElement;

/// An element of a quantized field, as a part of a word.
struct PackedElement {
  nb::object part;      ///< a quadrants._quantized.kernels.Part
  mlir::Value offset;   ///< bits of the word before the parts of this element; null: none
  mlir::Type type;      ///< of its value
  mlir::Value shadowed; ///< in a kernel to be differentiated: the element of the field itself, which is always 0 and has the gradient
};

/// A variable, a component or an element; loaded when it is used.
struct Place {
  mlir::Value ref;                                       ///< of type !qd.ref
  bool isElement = false;                                ///< in a container: augmented assignment is atomic
  bool isKernelVariable = false;                         ///< of a variable that is declared outside of parallel loops
  bool isReadOnly = false;                               ///< a loop variable: its components cannot be assigned
  bool isClamped = false;                                ///< indices of its components are clamped to its bounds
  std::shared_ptr<const SparseElement> sparse = nullptr; ///< a write activates a cell; or null
  std::shared_ptr<const PackedElement> packed = nullptr; ///< the place is a word, and this a part of it; or null
  mlir::Type getType() const { return packed ? packed->type : llvm::cast<ir::RefType>(ref.getType()).getPointee(); }
};

/// A scalar, vector or matrix that each launch reads.
struct Argument {
  uint32_t input = 0; ///< number of the artifact's input
  mlir::Type type;
  const PathNode *path = nullptr;
};

/// A container that compiled code reads or writes.
struct Tensor {
  nb::object object;              ///< the container; None for an array in block memory
  const PathNode *path = nullptr; ///< null for an array in block memory
  uint32_t input = 0;             ///< number of the artifact's input
  ir::TensorType type;
  bool isClamped = false; ///< indices are clamped to its bounds
};

template <typename Kind>
concept PlainKind = llvm::is_one_of<Kind, PythonObject, Computed, Place, Argument, Tensor>::value;
template <typename Kind>
concept SharedKind = llvm::is_one_of<Kind, Components, View, AxisRange, Slice, Range, Containers, Sequence, Dictionary, DictView, Struct,
                                     Instance, Method>::value;

/// The result of an expression. Copies share the contents of a shared kind, as names of one list do in Python.
class Operand {
public:
  Operand() = default; ///< not given
  template <PlainKind Kind> Operand(Kind kind) : content(std::move(kind)) {}
  template <SharedKind Kind> Operand(Kind kind);

  /// The contents; null if the operand is of another kind.
  template <PlainKind Kind> const Kind *find() const { return std::get_if<Kind>(&content); }
  template <PlainKind Kind> Kind *find() { return std::get_if<Kind>(&content); }
  template <SharedKind Kind> Kind *find() const {
    auto *shared = std::get_if<std::shared_ptr<Kind>>(&content);
    return shared ? shared->get() : nullptr;
  }
  /// The contents of an operand that is known to be of this kind.
  template <PlainKind Kind> const Kind &get() const { return std::get<Kind>(content); }
  template <PlainKind Kind> Kind &get() { return std::get<Kind>(content); }
  template <SharedKind Kind> Kind &get() const { return *std::get<std::shared_ptr<Kind>>(content); }
  template <typename Kind> bool is() const { return find<Kind>() != nullptr; }
  /// Calls the case for the operand's kind; cases are functions of the contents.
  template <typename... Cases> decltype(auto) visit(Cases &&...cases) const;
  /// The contents as a base of several kinds, such as Aggregate; null if the operand's kind is not derived from it.
  template <typename Base> Base *findBase() const;
  bool isSameKind(const Operand &other) const { return content.index() == other.content.index(); }
  size_t kindNumber() const { return content.index(); }

  bool isObject() const { return is<PythonObject>(); }
  /// Whether it is a scalar, vector or matrix known at run time.
  bool isTyped() const { return is<Computed>() || is<Place>() || is<Argument>() || is<Components>(); }
  bool isGiven() const { return !isObject() || getObject().is_valid(); }
  bool isNone() const { return getObject().is_valid() && getObject().is_none(); }
  /// The Python object; null for other kinds.
  const nb::object &getObject() const;
  /// The type of a scalar, vector or matrix known at run time; null for other kinds.
  mlir::Type getType() const;
  /// Whether neither it nor its components can be assigned: it is a parameter or a loop variable.
  bool isReadOnly() const;

  bool isStatic = false; ///< result of qd.static

private:
  std::variant<PythonObject, Computed, Place, Argument, Tensor, std::shared_ptr<Components>, std::shared_ptr<View>,
               std::shared_ptr<AxisRange>, std::shared_ptr<Slice>, std::shared_ptr<Range>, std::shared_ptr<Containers>,
               std::shared_ptr<Sequence>, std::shared_ptr<Dictionary>, std::shared_ptr<DictView>, std::shared_ptr<Struct>,
               std::shared_ptr<Instance>, std::shared_ptr<Method>>
      content;
};

/// Components of a vector or matrix: a swizzle, a slice or a row.
struct Components {
  std::vector<Operand> places;                      ///< the components, if an index is known at run time only; otherwise empty
  Operand whole;                                    ///< the vector or matrix, if `places` is empty
  std::vector<int32_t> numbers;                     ///< numbers of the components in `whole`, row by row
  mlir::Type type;                                  ///< type of the components together
  bool isReadOnly = false;                          ///< a part of a parameter or loop variable
  bool isClamped = false;                           ///< indices are clamped to its bounds
  std::optional<std::pair<Operand, Operand>> rowOf; ///< of a row: the place of the matrix, and the index
};

/// Operands that a larger one consists of.
struct Aggregate {
  std::vector<Operand> items;
};

/// Operands with names.
struct NamedAggregate : Aggregate {
  std::vector<nb::object> names; ///< of the items, in their order
};

/// Operands to which compiled code adds others.
struct Collection : NamedAggregate {
  mlir::Block *ownerBlock = nullptr; ///< the block that declares it; only that block adds or removes items
};

/// A subview. Items: the container, then for each of its axes an index or an AxisRange.
struct View : Aggregate {
  const Tensor &getContainer() const { return items[0].get<Tensor>(); }
  auto getAxes() const { return llvm::drop_begin(items); }
};

/// The indices along an axis of a view. Items: start, count and step.
struct AxisRange : Aggregate {
  const Operand &getStart() const { return items[0]; }
  const Operand &getCount() const { return items[1]; }
  const Operand &getStep() const { return items[2]; }
  mlir::Operation *check = nullptr; ///< the operation that checks the bounds of the slice, or null
};

/// A slice as an index. Items: lower bound, upper bound and step, or None.
struct Slice : Aggregate {
  int64_t length = 0; ///< known length of a slice such as `i:i + 2`; 0: unknown
};

/// `range` or `qd.ndrange` with run-time bounds. Items: begin, end and step of each axis.
struct Range : Aggregate {
  std::vector<int32_t> axes; ///< order of the loops, outermost first; empty: in order of the axes
  bool isGrouped = false;    ///< the loop variable is an index vector
  bool isNdrange = false;    ///< of qd.ndrange
};

/// The containers of `qd.grouped` (one) or `qd.zip` (several).
struct Containers : Aggregate {};

/// A list or tuple. Only the items of named tuples have names.
struct Sequence : Collection {
  bool isTuple = false;
  bool isUnpacked = false;        ///< places of a struct's members, to which assignments store
  nb::object type;                ///< the class of a named tuple, or null
  const PathNode *path = nullptr; ///< path of the class
};

/// A dict; the names are its keys.
struct Dictionary : Collection {
  bool hasRuntimeKeys = false; ///< it has no names, and three items for each entry: the key, the value, and whether the entry is present
};

/// Parts of a dict. Item: the dict; name: "dict_keys", "dict_values" or "dict_items". Sets and lists of which some items may be absent have
/// the names "set" and "list", and their items are the keys of the dict.
struct DictView : NamedAggregate {};

/// A struct; the names are interned.
struct Struct : NamedAggregate {
  nb::object type; ///< its StructType, or null
};

/// An object of a user's class, constructed in compiled code.
struct Instance : Collection {
  nb::object type;                ///< its class
  const PathNode *path = nullptr; ///< path of the class
};

/// A callable of compiled code. Items: the receiver of a bound method; the variables that a nested function captures, with names; or the
/// callee and the arguments of a partial, of which the last ones have names.
struct Method : NamedAggregate {
  nb::object callee;              ///< a func or the name of a bound method, a LocalFunc, or the class functools.partial
  const PathNode *path = nullptr; ///< path of the func
};

template <typename... Cases> decltype(auto) Operand::visit(Cases &&...cases) const {
  auto visitor = llvm::makeVisitor(std::forward<Cases>(cases)...);
  return std::visit(
      [&](const auto &held) -> decltype(auto) {
        if constexpr (requires { *held; })
          return visitor(*held);
        else
          return visitor(held);
      },
      content);
}

template <typename Base> Base *Operand::findBase() const {
  return visit([](auto &kind) -> Base * {
    if constexpr (std::derived_from<std::remove_cvref_t<decltype(kind)>, Base>)
      return &kind;
    else
      return nullptr;
  });
}

inline const nb::object &Operand::getObject() const {
  static const nb::object none;
  auto *object = find<PythonObject>();
  return object ? object->object : none;
}

/// The value of a Python object; a `qd.Tensor` becomes its container.
inline Operand makeObject(nb::handle object, const PathNode *path = nullptr) {
  return PythonObject{nb::borrow(unwrapTensor(object)), path};
}

/// A bool that is known when the kernel is compiled.
inline Operand makeKnown(bool value) { return makeObject(nb::bool_(value)); }

inline Operand makeComputed(mlir::Value ir) { return Computed{ir, ir.getType()}; }

template <typename Kind> Operand makeAggregate(std::vector<Operand> items) {
  Kind kind;
  kind.items = std::move(items);
  return kind;
}

inline Operand makeSequence(std::vector<Operand> items, bool isTuple = false) {
  Operand sequence = makeAggregate<Sequence>(std::move(items));
  sequence.get<Sequence>().isTuple = isTuple;
  return sequence;
}

inline Operand makeTuple(std::vector<Operand> items) { return makeSequence(std::move(items), /*isTuple=*/true); }

/// A method that is bound to `receiver`: its name, or a func with its path.
inline Operand makeMethod(const Operand &receiver, nb::handle callee, const PathNode *path = nullptr) {
  Method method;
  method.items = {receiver};
  method.callee = nb::borrow(callee);
  method.path = path;
  return method;
}

template <typename List, typename Make> std::vector<Operand> listOperands(const List &list, Make &&make) {
  std::vector<Operand> operands;
  for (const auto &item : list) operands.push_back(make(item));
  return operands;
}

/// An aggregate with changed items, which is otherwise the same.
template <typename Change> Operand mapItems(const Operand &shape, Change &&change) {
  return shape.visit([&](const auto &kind) -> Operand {
    auto result = kind;
    if constexpr (requires { result.items; })
      for (Operand &item : result.items) item = change(item);
    return result;
  });
}

/// Whether the operand is a list or tuple, of operands or of Python objects.
inline bool isList(const Operand &operand) {
  PyObject *object = operand.getObject().ptr();
  return operand.is<Sequence>() || (object && (PyTuple_Check(object) || PyList_Check(object)));
}

/// Whether the items of the operand have paths with an index.
inline bool hasIndexedItems(const Operand &operand) { return isList(operand) || (operand.getObject() && isDeque(operand.getObject())); }

/// The arguments of a call.
struct Arguments {
  std::vector<Operand> positional;
  std::vector<std::pair<std::string, Operand>> named;
};

/// A member of a struct, instance or named tuple; null if there is none.
inline const Operand *findMember(const NamedAggregate &structure, nb::handle name) {
  for (const auto &[known, item] : llvm::zip(structure.names, structure.items))
    if (known.is(name) || known.equal(name)) return &item;
  return nullptr;
}

} // namespace qd::frontend
