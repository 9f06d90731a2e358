// matrix_methods.cpp: construction and methods of vectors and matrices
//
// In:   the name of a method or constructor and its arguments as values.
// Out:  a vector or matrix as a typed value.
// Here: each method emits a few ops on whole vectors where the IR has them, instead of one per component.
#include "frontend/builder.h"

using namespace mlir;

namespace qd::frontend {

using Kind = Value::Kind;
using ir::BinaryKind;
using ir::UnaryKind;

static std::string shapeText(VectorType type) {
  std::string columns = type.getRank() == 2 ? " " + std::to_string(type.getDimSize(1)) : "";
  return "(" + std::to_string(type.getDimSize(0)) + "," + columns + ")";
}

mlir::Value FunctionBuilder::makeVectorOf(ArrayRef<mlir::Value> components, ArrayRef<int64_t> shape) {
  return makeVector(components, VectorType::get(shape, components[0].getType()));
}

mlir::Value FunctionBuilder::transpose(mlir::Value matrix) {
  auto type = mlir::cast<VectorType>(matrix.getType());
  if (type.getRank() != 2)
    fail(error::kType,
         "`transpose()` cannot apply to a vector. If you want something like `a @ b.transpose()`, write `a.outer_product(b)` instead.");
  return create<ir::TransposeOp>(VectorType::get({type.getDimSize(1), type.getDimSize(0)}, type.getElementType()), matrix);
}

struct FunctionBuilder::MatrixMethod {
  struct Call {
    llvm::StringRef name;
    const Value &receiver;
    VectorType type;
    std::vector<Value> given;
  };
  llvm::StringLiteral parameters;
  Value (*call)(FunctionBuilder &builder, const Call &call);
};

const llvm::StringMap<FunctionBuilder::MatrixMethod> &FunctionBuilder::getMatrixMethods() {
  using Call = MatrixMethod::Call;
  static constexpr auto kDot = [](FunctionBuilder &b, const Call &call) {
    mlir::Value value = b.emit(call.receiver);
    mlir::Value product = b.binaryTyped(BinaryKind::mul, value, call.given.empty() ? value : b.emit(call.given[0]), call.name);
    if (mlir::cast<VectorType>(product.getType()).getShape() != call.type.getShape())
      b.fail(error::kType, call.name + "() needs operands of one shape");
    return makeComputed(b.reduce(BinaryKind::add, product));
  };
  static constexpr auto kNorm = [](FunctionBuilder &b, const Call &call) {
    mlir::Value value = b.emit(call.receiver);
    if (!ir::isFloatScalar(call.type.getElementType())) value = b.cast(value, b.session.types.defaultFloat);
    mlir::Value length = b.reduce(BinaryKind::add, b.create<ir::BinaryOp>(BinaryKind::mul, value, value));
    bool isNormalized = call.name == "normalized", hasEpsilon = !call.given[0].isNone() && b.findInteger(call.given[0]) != 0;
    auto shift = [&] {
      if (hasEpsilon) length = b.create<ir::BinaryOp>(BinaryKind::add, length, b.convert(call.given[0], length.getType()));
    };
    if (!isNormalized) shift();
    if (call.name == "norm_inv")
      length = b.create<ir::UnaryOp>(UnaryKind::rsqrt, length);
    else if (b.session.request.mode == support::AutodiffMode::None)
      length = b.create<ir::UnaryOp>(UnaryKind::sqrt, length);
    else { // the derivative of the norm at the zero vector is defined as zero, so that no root of zero is differentiated
      mlir::Value zero = b.constantFloat(0, length.getType()), one = b.constantFloat(1, length.getType());
      mlir::Value isZero = b.create<ir::BinaryOp>(BinaryKind::eq, length, zero);
      mlir::Value safe = b.create<ir::SelectOp>(length.getType(), isZero, one, length);
      length = b.create<ir::SelectOp>(length.getType(), isZero, zero, b.create<ir::UnaryOp>(UnaryKind::sqrt, safe));
    }
    if (!isNormalized) return makeComputed(length);
    shift();
    return makeComputed(b.create<ir::BinaryOp>(BinaryKind::div, value, b.broadcast(length, value.getType())));
  };
  static constexpr auto kReduce = [](FunctionBuilder &b, const Call &call) {
    mlir::Value value = b.emit(call.receiver);
    if (call.name == "sum" && call.type.getElementType().isInteger(1)) value = b.cast(value, b.session.types.defaultInteger);
    bool isLogical = call.name == "any" || call.name == "all";
    BinaryKind kind = call.name == "any"   ? BinaryKind::bit_or
                      : call.name == "all" ? BinaryKind::bit_and
                                           : *ir::findKind<ir::BinaryKind>(call.name == "sum" ? "add" : call.name);
    return makeComputed(b.reduce(kind, isLogical ? b.nonZero(value) : value));
  };
  static constexpr auto kSquare = [](FunctionBuilder &b, const Call &call) {
    if (call.type.getRank() != 2 || call.type.getDimSize(0) != call.type.getDimSize(1))
      b.fail(error::kType, "expected a square matrix, got shape " + shapeText(call.type));
    if (call.name == "trace") {
      SmallVector<mlir::Value> diagonal;
      for (int64_t index = 0; index < call.type.getDimSize(0); ++index)
        diagonal.push_back(b.extract(b.emit(call.receiver), index * (call.type.getDimSize(0) + 1)));
      return makeComputed(b.reduce(BinaryKind::add, b.makeVectorOf(diagonal, {int64_t(diagonal.size())})));
    }
    if (call.type.getDimSize(0) > 16) b.fail(error::kCompilation, "only dimension < 17 is supported, got shape " + shapeText(call.type));
    Arguments operand;
    operand.positional.push_back(makeComputed(b.emit(call.receiver)));
    return b.callFunc(makeObject(nb::module_::import_("quadrants.linalg").attr(call.name.str().c_str())), nullptr, operand);
  };
  static const llvm::StringMap<MatrixMethod> kMethods = {
      {"dot", {"other", kDot}},
      {"frobenius_inner", {"other", kDot}},
      {"norm_sqr", {"", kDot}},
      {"sum", {"", kReduce}},
      {"max", {"", kReduce}},
      {"min", {"", kReduce}},
      {"any", {"", kReduce}},
      {"all", {"", kReduce}},
      {"trace", {"", kSquare}},
      {"determinant", {"", kSquare}},
      {"inverse", {"", kSquare}},
      {"transpose", {"", [](auto &b, auto &call) { return makeComputed(b.transpose(b.emit(call.receiver))); }}},
      {"get_shape", {"", [](auto &b, auto &call) { return b.vectorAttribute(call.receiver, nb::str("shape")); }}},
      {"to_list", {"", [](auto &b, auto &call) { return makeAggregate(Kind::Sequence, b.listItems(call.receiver, "list")); }}},
      {"cast",
       {"dtype", [](auto &b, auto &call) { return makeComputed(b.cast(b.emit(call.receiver), b.scalarTypeOf(call.given[0], "cast()"))); }}},
      {"fill",
       {"val",
        [](auto &b, auto &call) {
          bool isPlace = call.receiver.is(Kind::Place) || call.receiver.is(Kind::Components);
          if (!isPlace) b.fail(error::kSyntax, "fill() needs a variable or an element");
          b.store(call.receiver, call.given[0]);
          return makeObject(nb::none());
        }}},
      {"norm", {"eps?", kNorm}},
      {"norm_inv", {"eps?", kNorm}},
      {"normalized", {"eps?", kNorm}},
      {"cross",
       {"other",
        [](auto &b, auto &call) {
          mlir::Value value = b.emit(call.receiver), other = b.emit(call.given[0]);
          int64_t count = call.type.getDimSize(0);
          if (call.type.getRank() != 1 || count > 3 || count < 2)
            b.fail(error::kType, "only dimension < 4 is supported, got shape " + shapeText(call.type));
          auto otherType = dyn_cast<VectorType>(other.getType());
          if (!otherType || otherType.getShape() != call.type.getShape())
            b.fail(error::kType, "cross() needs vectors of one length, got '" + ir::describe(call.type) + "' and '" +
                                     ir::describe(other.getType()) + "'");
          auto product = [&](int64_t first, int64_t second) {
            return b.binaryTyped(BinaryKind::mul, b.extract(value, first), b.extract(other, second), "cross");
          };
          auto term = [&](int64_t first, int64_t second) {
            return b.binaryTyped(BinaryKind::sub, product(first, second), product(second, first), "cross");
          };
          return makeComputed(count == 2 ? term(0, 1) : b.makeVectorOf({term(1, 2), term(2, 0), term(0, 1)}, {3}));
        }}},
      {"outer_product",
       {"other",
        [](auto &b, auto &call) {
          mlir::Value value = b.emit(call.receiver), other = b.emit(call.given[0]);
          auto otherType = dyn_cast<VectorType>(other.getType());
          if (call.type.getRank() != 1 || !otherType || otherType.getRank() != 1) b.fail(error::kType, "outer_product() needs two vectors");
          int64_t rows = call.type.getDimSize(0), columns = otherType.getDimSize(0);
          SmallVector<mlir::Value> components;
          for (int64_t index = 0; index < rows * columns; ++index)
            components.push_back(b.binaryTyped(BinaryKind::mul, b.extract(value, index / columns), b.extract(other, index % columns), "*"));
          return makeComputed(b.makeVectorOf(components, {rows, columns}));
        }}},
  };
  return kMethods;
}

Value FunctionBuilder::callMatrixMethod(const Value &receiver, llvm::StringRef name, const Arguments &arguments) {
  // As in Python, bit_count counts the bits of the absolute value.
  if (name == "bit_count") return unary(UnaryKind::popcnt, unary(UnaryKind::abs, receiver, name), name);
  const MatrixMethod &method = getMatrixMethods().find(name)->second;
  return method.call(*this, {name, receiver, dyn_cast<VectorType>(receiver.type), bind(name, arguments, method.parameters)});
}

bool FunctionBuilder::hasMethod(Type type, llvm::StringRef name) {
  return isa<VectorType>(type) ? getMatrixMethods().contains(name) : name == "cast" || name == "bit_count";
}

Value FunctionBuilder::makeMatrix(Arguments &arguments, llvm::StringRef className) {
  for (auto &[key, value] : arguments.named)
    if (key == "dtype") key = "dt";
  if (arguments.positional.empty() && arguments.named.empty())
    fail(error::kType, "An Matrix/Vector can only be initialized with an array-like object");
  std::vector<Value> given = bind("qd." + className, arguments, "arr dt?");
  Type scalar = scalarTypeOf(given[1], "qd." + className);
  Value &items = given[0];
  bool isArray = isList(items) || (items.isTyped() && isa<VectorType>(items.type)) ||
                 (items.isObject() && !session.python.isNumber(items.object) && !PyUnicode_Check(items.object.ptr()));
  if (!isArray) fail(error::kType, "An Matrix/Vector can only be initialized with an array-like object, got " + describe(items));
  if (items.isObject() && session.python.isInstance(items.object, session.python.numpyArray))
    items = fromPython(items.object.attr("tolist")(), nullptr);
  mlir::Value value = emit(items);
  return makeComputed(scalar ? cast(value, scalar) : value);
}

Value FunctionBuilder::makeMatrixOfType(nb::handle kind, Arguments &arguments) {
  Type found = session.findValueType(kind);
  if (!found || !arguments.named.empty() || arguments.positional.empty())
    fail(error::kSyntax, toText(nb::repr(kind)) + " takes its components, or one scalar for all of them");
  auto type = mlir::cast<VectorType>(found);
  SmallVector<mlir::Value> components;
  std::function<void(const Value &)> add = [&](const Value &value) {
    bool isText = value.isObject() && (PyUnicode_Check(value.object.ptr()) || PyBytes_Check(value.object.ptr()));
    bool isList = value.is(Kind::Sequence) || (value.isObject() && !isText && !session.python.isNumber(value.object));
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

Value FunctionBuilder::callMatrixFactory(llvm::StringRef name, const Value &matrixClass, Arguments &arguments) {
  if (name == "rows" || name == "cols") {
    mlir::Value rows = emit(bind(name, arguments, name)[0]);
    auto type = dyn_cast<VectorType>(rows.getType());
    if (!type || type.getRank() != 2) fail(error::kType, name + "() needs a list of vectors of one length");
    return makeComputed(name == "rows" ? rows : transpose(rows));
  }
  if (name == "diag") {
    std::vector<Value> given = bind(name, arguments, "dim val");
    int64_t n = findInteger(given[0]).value_or(0);
    if (n < 1) fail(error::kType, "diag() needs 'dim' to be an integer known while compiling");
    mlir::Value value = emit(given[1]);
    SmallVector<mlir::Value> components(size_t(n * n), convert(constant(0, session.types.i32), value.getType()));
    for (int64_t index = 0; index < n; ++index) components[size_t(index * (n + 1))] = value;
    return makeComputed(makeVectorOf(components, {n, n}));
  }
  if (name != "zero" && name != "one" && name != "unit" && name != "identity")
    fail(error::kSyntax, "'" + toText(nb::str(matrixClass.object.attr("__name__"))) + "." + name + "' cannot be called in kernels");
  // Python constructs the matrix from known arguments, with the given type.
  for (auto &[key, value] : arguments.named)
    if (key == "dtype") key = "dt";
  for (Value &value : arguments.positional) value = makeObject(known(value));
  return makeComputed(emit(callPython(makeObject(matrixClass.object.attr(name.str().c_str())), arguments)));
}

} // namespace qd::frontend
