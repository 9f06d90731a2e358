// matrix_methods.cpp: construction and methods of vectors and matrices, in few ops each
#include "frontend/builder.h"

using namespace mlir;

namespace qd::frontend {

using Kind = Value::Kind;
using ir::BinaryKind;
using ir::UnaryKind;

mlir::Value FunctionBuilder::toReal(mlir::Value value) {
  return ir::isFloatScalar(ir::getScalar(value.getType())) ? value : cast(value, session.types.defaultFloat);
}

mlir::Value FunctionBuilder::normSquared(mlir::Value value) {
  if (ir::getScalar(value.getType()).isInteger(1)) value = cast(value, session.types.defaultInteger);
  return reduce(BinaryKind::add, create<ir::BinaryOp>(BinaryKind::mul, value, value));
}

mlir::Value FunctionBuilder::minorOf(mlir::Value matrix, ArrayRef<int64_t> rows, ArrayRef<int64_t> columns) {
  int64_t width = mlir::cast<VectorType>(matrix.getType()).getDimSize(1);
  auto at = [&](int64_t row, int64_t column) { return extract(matrix, row * width + column); };
  if (rows.size() == 1) return at(rows[0], columns[0]);
  // Cofactors along the first row.
  mlir::Value sum;
  for (size_t index = 0; index < columns.size(); ++index) {
    SmallVector<int64_t> rest;
    for (size_t other = 0; other < columns.size(); ++other)
      if (other != index) rest.push_back(columns[other]);
    mlir::Value term = create<ir::BinaryOp>(BinaryKind::mul, at(rows[0], columns[index]), minorOf(matrix, rows.drop_front(), rest));
    if (!sum)
      sum = term;
    else
      sum = create<ir::BinaryOp>(index % 2 == 0 ? BinaryKind::add : BinaryKind::sub, sum, term);
  }
  return sum;
}

static SmallVector<int64_t> allBut(int64_t count, int64_t left) {
  SmallVector<int64_t> result;
  for (int64_t index = 0; index < count; ++index)
    if (index != left) result.push_back(index);
  return result;
}

mlir::Value FunctionBuilder::determinant(mlir::Value matrix) {
  int64_t n = mlir::cast<VectorType>(matrix.getType()).getDimSize(0);
  return minorOf(matrix, allBut(n, -1), allBut(n, -1));
}

mlir::Value FunctionBuilder::inverse(mlir::Value matrix) {
  auto type = mlir::cast<VectorType>(matrix.getType());
  int64_t n = type.getDimSize(0);
  mlir::Value one = constantFloat(1, type.getElementType());
  if (n == 1) return makeVector({create<ir::BinaryOp>(BinaryKind::div, one, extract(matrix, 0))}, type);
  SmallVector<mlir::Value> cofactors(size_t(n * n));
  for (int64_t row = 0; row < n; ++row)
    for (int64_t column = 0; column < n; ++column) {
      mlir::Value cofactor = minorOf(matrix, allBut(n, row), allBut(n, column));
      if ((row + column) % 2 != 0) cofactor = create<ir::UnaryOp>(UnaryKind::neg, cofactor);
      cofactors[size_t(row * n + column)] = cofactor;
    }
  // The determinant along the first row shares its cofactors.
  mlir::Value sum;
  for (int64_t column = 0; column < n; ++column) {
    mlir::Value term = create<ir::BinaryOp>(BinaryKind::mul, extract(matrix, column), cofactors[size_t(column)]);
    sum = sum ? mlir::Value(create<ir::BinaryOp>(BinaryKind::add, sum, term)) : term;
  }
  mlir::Value scale = create<ir::BinaryOp>(BinaryKind::div, one, sum);
  SmallVector<mlir::Value> components;
  for (int64_t row = 0; row < n; ++row)
    for (int64_t column = 0; column < n; ++column) components.push_back(cofactors[size_t(column * n + row)]);
  return create<ir::BinaryOp>(BinaryKind::mul, makeVector(components, type), broadcast(scale, type));
}

Value FunctionBuilder::callMatrixMethod(const Value &receiver, llvm::StringRef name, Arguments &arguments) {
  std::vector<Value> &given = arguments.positional;
  for (const auto &[key, value] : arguments.named)
    if (key == "eps" || key == "val" || key == "dtype" || key == "other")
      given.push_back(value);
    else
      fail(error::kType, name + "() got an unexpected keyword argument '" + key + "'");
  auto expect = [&](size_t low, size_t high) {
    if (given.size() < low || given.size() > high)
      fail(error::kType, name + "() takes " + std::to_string(low) + (low == high ? "" : " to " + std::to_string(high)) +
                             " arguments, got " + std::to_string(given.size()));
  };
  auto type = dyn_cast<VectorType>(receiver.type);
  if (!type) {
    if (Type scalar = name == "cast" && !given.empty() && given[0].isObject() ? session.findScalarType(given[0].object) : Type())
      return callCast(receiver, scalar);
    fail(error::kCompilation, "'" + ir::describe(receiver.type) + "' has no attribute '" + name + "'");
  }
  auto shapeText = [](VectorType shape) {
    std::string text = "(" + std::to_string(shape.getDimSize(0)) + ",";
    return text + (shape.getRank() == 2 ? " " + std::to_string(shape.getDimSize(1)) : "") + ")";
  };
  auto checkSquare = [&] {
    if (type.getRank() != 2 || type.getDimSize(0) != type.getDimSize(1))
      fail(error::kType, "expected a square matrix, got shape " + shapeText(type));
  };
  if (name == "fill") {
    expect(1, 1);
    if (!receiver.is(Kind::Place) && !receiver.is(Kind::Components)) fail(error::kSyntax, "fill() needs a variable or an element");
    store(receiver, given[0]);
    return makeObject(nb::none());
  }
  if (name == "get_shape") return vectorAttribute(receiver, nb::str("shape"));
  if (name == "to_list") return makeAggregate(Kind::Sequence, listItems(receiver, "list"));
  mlir::Value value = emit(receiver);
  Type scalar = type.getElementType();
  if (name == "cast") {
    expect(1, 1);
    Type wanted = given[0].isObject() ? session.findScalarType(given[0].object) : Type();
    if (!wanted) fail(error::kType, "Invalid data type " + describe(given[0]) + " given to cast()");
    return makeComputed(cast(value, wanted));
  }
  if (name == "norm_sqr") {
    expect(0, 0);
    return makeComputed(normSquared(value));
  }
  if (name == "norm" || name == "norm_inv" || name == "normalized") {
    expect(0, 1);
    bool hasEpsilon = !given.empty() && !(findInteger(given[0]) == 0);
    mlir::Value real = toReal(value);
    Type realScalar = ir::getScalar(real.getType());
    mlir::Value sum = normSquared(real);
    if (hasEpsilon && name != "normalized") sum = create<ir::BinaryOp>(BinaryKind::add, sum, convert(given[0], realScalar));
    if (name == "norm_inv") return makeComputed(create<ir::UnaryOp>(UnaryKind::rsqrt, sum));
    mlir::Value norm = create<ir::UnaryOp>(UnaryKind::sqrt, sum);
    if (name == "norm") return makeComputed(norm);
    if (hasEpsilon) norm = create<ir::BinaryOp>(BinaryKind::add, norm, convert(given[0], realScalar));
    return makeComputed(create<ir::BinaryOp>(BinaryKind::div, real, broadcast(norm, real.getType())));
  }
  if (name == "dot" || name == "frobenius_inner") {
    expect(1, 1);
    mlir::Value product = binaryTyped(BinaryKind::mul, value, emit(given[0]), name);
    if (mlir::cast<VectorType>(product.getType()).getShape() != type.getShape())
      fail(error::kType, name + "() needs operands of one shape");
    return makeComputed(reduce(BinaryKind::add, product));
  }
  if (name == "cross") {
    expect(1, 1);
    mlir::Value other = emit(given[0]);
    auto otherType = dyn_cast<VectorType>(other.getType());
    if (type.getRank() != 1 || type.getDimSize(0) > 3 || type.getDimSize(0) < 2)
      fail(error::kType, "only dimension < 4 is supported, got shape " + shapeText(type));
    if (!otherType || otherType.getShape() != type.getShape())
      fail(error::kType,
           "cross() needs vectors of one length, got '" + ir::describe(type) + "' and '" + ir::describe(other.getType()) + "'");
    Type common = promoteArithmetic(scalar, otherType.getElementType());
    value = cast(value, common);
    other = cast(other, common);
    auto term = [&](int64_t first, int64_t second) -> mlir::Value {
      mlir::Value plus = create<ir::BinaryOp>(BinaryKind::mul, extract(value, first), extract(other, second));
      mlir::Value minus = create<ir::BinaryOp>(BinaryKind::mul, extract(value, second), extract(other, first));
      return create<ir::BinaryOp>(BinaryKind::sub, plus, minus);
    };
    if (type.getDimSize(0) == 2) return makeComputed(term(0, 1));
    return makeComputed(makeVector({term(1, 2), term(2, 0), term(0, 1)}, VectorType::get({3}, common)));
  }
  if (name == "outer_product") {
    expect(1, 1);
    mlir::Value other = emit(given[0]);
    auto otherType = dyn_cast<VectorType>(other.getType());
    if (type.getRank() != 1 || !otherType || otherType.getRank() != 1) fail(error::kType, "outer_product() needs two vectors");
    Type common = promoteArithmetic(scalar, otherType.getElementType());
    SmallVector<mlir::Value> components;
    value = cast(value, common);
    other = cast(other, common);
    for (int64_t row = 0; row < type.getDimSize(0); ++row)
      for (int64_t column = 0; column < otherType.getDimSize(0); ++column)
        components.push_back(create<ir::BinaryOp>(BinaryKind::mul, extract(value, row), extract(other, column)));
    return makeComputed(makeVector(components, VectorType::get({type.getDimSize(0), otherType.getDimSize(0)}, common)));
  }
  if (name == "transpose") {
    expect(0, 0);
    if (type.getRank() != 2)
      fail(error::kType,
           "`transpose()` cannot apply to a vector. If you want something like `a @ b.transpose()`, write `a.outer_product(b)` instead.");
    return makeComputed(create<ir::TransposeOp>(VectorType::get({type.getDimSize(1), type.getDimSize(0)}, scalar), value));
  }
  if (name == "trace") {
    expect(0, 0);
    checkSquare();
    mlir::Value sum;
    for (int64_t index = 0; index < type.getDimSize(0); ++index) {
      mlir::Value item = extract(value, index * type.getDimSize(1) + index);
      sum = sum ? binaryTyped(BinaryKind::add, sum, item, "+") : item;
    }
    return makeComputed(sum);
  }
  if (name == "sum" || name == "max" || name == "min") {
    expect(0, 0);
    if (name == "sum" && scalar.isInteger(1)) value = cast(value, session.types.defaultInteger);
    return makeComputed(reduce(name == "sum" ? BinaryKind::add : name == "max" ? BinaryKind::max : BinaryKind::min, value));
  }
  if (name == "any" || name == "all") {
    expect(0, 0);
    if (!scalar.isInteger(1)) value = create<ir::BinaryOp>(BinaryKind::ne, value, convert(constant(0, session.types.i32), type));
    return makeComputed(reduce(name == "any" ? BinaryKind::bit_or : BinaryKind::bit_and, value));
  }
  if (name == "determinant" || name == "inverse") {
    expect(0, 0);
    checkSquare();
    int64_t n = type.getDimSize(0);
    if (n > 12) fail(error::kCompilation, "only dimension < 13 is supported, got shape " + shapeText(type));
    if (n > 4) { // by elimination, in the library: cofactors grow like n!
      Arguments operand;
      operand.positional.push_back(makeComputed(value));
      return callFunc(makeObject(nb::module_::import_("quadrants.linalg").attr(name.str().c_str())), nullptr, operand);
    }
    if (name == "determinant") return makeComputed(determinant(scalar.isInteger(1) ? cast(value, session.types.defaultInteger) : value));
    return makeComputed(inverse(toReal(value)));
  }
  fail(error::kCompilation, "'" + ir::describe(type) + "' has no attribute '" + name + "'");
}

Value FunctionBuilder::makeMatrix(Arguments &arguments, bool isVector) {
  Type scalar;
  for (const auto &[key, value] : arguments.named) {
    if (key != "dt" && key != "dtype" && key != "arr")
      fail(error::kType, "qd." + llvm::Twine(isVector ? "Vector" : "Matrix") + "() got an unexpected keyword argument '" + key + "'");
    if (key == "arr")
      arguments.positional.insert(arguments.positional.begin(), value);
    else
      arguments.positional.push_back(value);
  }
  if (arguments.positional.empty() || arguments.positional.size() > 2)
    fail(error::kType, "An Matrix/Vector can only be initialized with an array-like object");
  if (arguments.positional.size() == 2 && !arguments.positional[1].isNone()) {
    scalar = arguments.positional[1].isObject() ? session.findScalarType(arguments.positional[1].object) : Type();
    if (!scalar) fail(error::kType, "Invalid data type " + describe(arguments.positional[1]));
  }
  const Value &items = arguments.positional[0];
  bool isArray = items.is(Kind::Sequence) || (items.isTyped() && isa<VectorType>(items.type)) ||
                 (items.isObject() && !session.python.isNumber(items.object) && !PyUnicode_Check(items.object.ptr()));
  if (!isArray) fail(error::kType, "An Matrix/Vector can only be initialized with an array-like object, got " + describe(items));
  Value source = items;
  if (items.isObject() && session.python.isInstance(items.object, session.python.numpyArray))
    source = fromPython(items.object.attr("tolist")(), nullptr);
  mlir::Value value = emit(source);
  return makeComputed(scalar ? cast(value, scalar) : value);
}

Value FunctionBuilder::makeMatrixOfType(nb::handle kind, Arguments &arguments) {
  Type found = session.findValueType(kind);
  if (!found || !arguments.named.empty() || arguments.positional.empty())
    fail(error::kSyntax, toText(nb::repr(kind)) + " takes its components, or one scalar for all of them");
  auto type = mlir::cast<VectorType>(found);
  SmallVector<mlir::Value> components;
  std::function<void(const Value &)> add = [&](const Value &value) {
    bool isList = value.is(Kind::Sequence) || (value.isObject() && !session.python.isNumber(value.object));
    if (isList || (value.isTyped() && isa<VectorType>(value.type))) {
      for (const Value &item : listItems(value, "take the components of")) add(item);
      return;
    }
    components.push_back(convert(value, type.getElementType()));
  };
  for (const Value &value : arguments.positional) add(value);
  if (components.size() == 1 && arguments.positional.size() == 1) return makeComputed(broadcast(components[0], type));
  if (int64_t(components.size()) != type.getNumElements())
    fail(error::kSyntax, toText(nb::repr(kind)) + " has " + std::to_string(type.getNumElements()) + " components, got " +
                             std::to_string(components.size()));
  return makeComputed(makeVector(components, type));
}

Value FunctionBuilder::callMatrixFactory(llvm::StringRef name, bool isVector, Arguments &arguments) {
  static const std::pair<llvm::StringRef, std::vector<std::string>> kParameters[] = {
      {"zero", {"dt", "n", "m"}}, {"one", {"dt", "n", "m"}}, {"unit", {"n", "i", "dt"}}, {"identity", {"dt", "n"}},
      {"diag", {"dim", "val"}},   {"rows", {"rows"}},        {"cols", {"cols"}}};
  const std::vector<std::string> *parameters = nullptr;
  for (const auto &[known, names] : kParameters)
    if (known == name) parameters = &names;
  if (!parameters) fail(error::kSyntax, "'" + llvm::Twine(isVector ? "Vector." : "Matrix.") + name + "' cannot be called in kernels");
  std::vector<std::optional<Value>> given(parameters->size());
  for (size_t index = 0; index < arguments.positional.size() && index < given.size(); ++index) given[index] = arguments.positional[index];
  for (const auto &[key, value] : arguments.named)
    for (size_t index = 0; index < given.size(); ++index)
      if ((*parameters)[index] == key || ((*parameters)[index] == "dt" && key == "dtype")) given[index] = value;
  auto size = [&](size_t index) -> int64_t {
    auto known = given[index] ? findInteger(*given[index]) : std::nullopt;
    if (!known || *known < 1 || *known > 1024)
      fail(error::kType, name + "() needs '" + (*parameters)[index] + "' to be an integer known while compiling");
    return *known;
  };
  auto dtype = [&](size_t index) -> Type {
    if (!given[index] || given[index]->isNone()) return session.types.defaultInteger;
    Type type = given[index]->isObject() ? session.findScalarType(given[index]->object) : Type();
    if (!type) fail(error::kType, "Invalid data type " + describe(*given[index]) + " given to " + name + "()");
    return type;
  };
  auto number = [&](int64_t value, Type type) { return convert(constant(value, session.types.i32), type); };
  if (name == "zero" || name == "one") {
    SmallVector<int64_t> shape{size(1)};
    if (given[2] && !given[2]->isNone() && !isVector) shape.push_back(size(2));
    return makeComputed(broadcast(number(name == "one", dtype(0)), VectorType::get(shape, dtype(0))));
  }
  if (name == "unit" || name == "identity") {
    int64_t n = size(name == "unit" ? 0 : 1);
    Type scalar = dtype(name == "unit" ? 2 : 0);
    int64_t chosen = name == "unit" ? findInteger(given[1] ? *given[1] : makeObject(nb::none())).value_or(-1) : 0;
    if (chosen < 0 || chosen >= n) fail(error::kIndex, "unit() needs an index in [0, " + std::to_string(n) + ")");
    SmallVector<mlir::Value> components;
    for (int64_t index = 0; index < (name == "unit" ? n : n * n); ++index)
      components.push_back(number(name == "unit" ? index == chosen : index % (n + 1) == 0, scalar));
    return makeComputed(makeVector(components, name == "unit" ? VectorType::get({n}, scalar) : VectorType::get({n, n}, scalar)));
  }
  if (name == "diag") {
    int64_t n = size(0);
    mlir::Value value = emit(given[1] ? *given[1] : makeObject(nb::int_(0)));
    SmallVector<mlir::Value> components;
    mlir::Value zero = number(0, value.getType());
    for (int64_t index = 0; index < n * n; ++index) components.push_back(index % (n + 1) == 0 ? value : zero);
    return makeComputed(makeVector(components, VectorType::get({n, n}, value.getType())));
  }
  if (!given[0]) fail(error::kType, name + "() needs a list of vectors");
  mlir::Value rows = emit(*given[0]);
  auto type = dyn_cast<VectorType>(rows.getType());
  if (!type || type.getRank() != 2) fail(error::kType, name + "() needs a list of vectors of one length");
  if (name == "rows") return makeComputed(rows);
  return makeComputed(create<ir::TransposeOp>(VectorType::get({type.getDimSize(1), type.getDimSize(0)}, type.getElementType()), rows));
}

} // namespace qd::frontend
