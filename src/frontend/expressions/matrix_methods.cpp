// matrix_methods.cpp: construction and methods of vectors and matrices
//
// In:   the name of a method or constructor and its arguments as operands.
// Out:  a vector or matrix as a Computed.
// Here: each method emits a few ops on whole vectors where the IR has them, instead of one per component.
#include "frontend/builder.h"

using namespace mlir;

namespace qd::frontend {

static std::string shapeText(VectorType type) {
  std::string columns = type.getRank() == 2 ? " " + std::to_string(type.getDimSize(1)) : "";
  return "(" + std::to_string(type.getDimSize(0)) + "," + columns + ")";
}

struct MatrixMethod {
  struct Call {
    llvm::StringRef name;
    const Operand &receiver;
    VectorType type;
    std::vector<Operand> given;
  };
  llvm::StringLiteral parameters;
  Operand (*call)(MatrixMethods &builder, const Call &call);
};

const llvm::StringMap<MatrixMethod> &MatrixMethods::getMatrixMethods() {
  using Call = MatrixMethod::Call;
  static constexpr auto kDot = [](MatrixMethods &m, const Call &call) {
    mlir::Value value = m.conversions.emit(call.receiver);
    mlir::Value product =
        m.emitter.binaryTyped(BinaryKind::mul, value, call.given.empty() ? value : m.conversions.emit(call.given[0]), call.name);
    if (mlir::cast<VectorType>(product.getType()).getShape() != call.type.getShape())
      m.fail(error::kType, call.name + "() needs operands of one shape");
    return makeComputed(m.emitter.reduce(BinaryKind::add, product));
  };
  static constexpr auto kNorm = [](MatrixMethods &m, const Call &call) {
    mlir::Value value = m.conversions.emit(call.receiver);
    if (!ir::isFloatScalar(call.type.getElementType())) value = m.emitter.cast(value, m.session.types.defaultFloat);
    mlir::Value length = m.emitter.reduce(BinaryKind::add, m.create<ir::BinaryOp>(BinaryKind::mul, value, value));
    bool isNormalized = call.name == "normalized", hasEpsilon = !call.given[0].isNone() && m.conversions.findInteger(call.given[0]) != 0;
    auto shift = [&] {
      if (hasEpsilon) length = m.create<ir::BinaryOp>(BinaryKind::add, length, m.conversions.convert(call.given[0], length.getType()));
    };
    if (!isNormalized) shift();
    if (call.name == "norm_inv")
      length = m.create<ir::UnaryOp>(UnaryKind::rsqrt, length);
    else if (m.session.request.mode == support::AutodiffMode::None)
      length = m.create<ir::UnaryOp>(UnaryKind::sqrt, length);
    else { // the derivative of the norm at the zero vector is defined as zero, so that no root of zero is differentiated
      mlir::Value zero = m.emitter.constantFloat(0, length.getType()), one = m.emitter.constantFloat(1, length.getType());
      mlir::Value isZero = m.create<ir::BinaryOp>(BinaryKind::eq, length, zero);
      mlir::Value safe = m.create<ir::SelectOp>(length.getType(), isZero, one, length);
      length = m.create<ir::SelectOp>(length.getType(), isZero, zero, m.create<ir::UnaryOp>(UnaryKind::sqrt, safe));
    }
    if (!isNormalized) return makeComputed(length);
    shift();
    return makeComputed(m.create<ir::BinaryOp>(BinaryKind::div, value, m.emitter.broadcast(length, value.getType())));
  };
  static constexpr auto kReduce = [](MatrixMethods &m, const Call &call) {
    mlir::Value value = m.conversions.emit(call.receiver);
    if (call.name == "sum" && call.type.getElementType().isInteger(1)) value = m.emitter.cast(value, m.session.types.defaultInteger);
    bool isLogical = call.name == "any" || call.name == "all";
    BinaryKind kind = call.name == "any"   ? BinaryKind::bit_or
                      : call.name == "all" ? BinaryKind::bit_and
                                           : *ir::findKind<BinaryKind>(call.name == "sum" ? "add" : call.name);
    return makeComputed(m.emitter.reduce(kind, isLogical ? m.emitter.nonZero(value) : value));
  };
  static constexpr auto kSquare = [](MatrixMethods &m, const Call &call) {
    if (call.type.getRank() != 2 || call.type.getDimSize(0) != call.type.getDimSize(1))
      m.fail(error::kType, "expected a square matrix, got shape " + shapeText(call.type));
    if (call.name == "trace") {
      SmallVector<mlir::Value> diagonal;
      for (int64_t index = 0; index < call.type.getDimSize(0); ++index)
        diagonal.push_back(m.emitter.extract(m.conversions.emit(call.receiver), index * (call.type.getDimSize(0) + 1)));
      return makeComputed(m.emitter.reduce(BinaryKind::add, m.emitter.makeVectorOf(diagonal, {int64_t(diagonal.size())})));
    }
    if (call.type.getDimSize(0) > 16) m.fail(error::kCompilation, "only dimension < 17 is supported, got shape " + shapeText(call.type));
    Arguments operand;
    operand.positional.push_back(makeComputed(m.conversions.emit(call.receiver)));
    return m.functions().callFunc({nb::module_::import_("quadrants.linalg").attr(call.name.str().c_str())}, nullptr, operand);
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
      {"transpose", {"", [](auto &m, auto &call) { return makeComputed(m.emitter.transpose(m.conversions.emit(call.receiver))); }}},
      {"get_shape", {"", [](auto &m, auto &call) { return m.attributes().vectorAttribute(call.receiver, nb::str("shape")); }}},
      {"to_list", {"", [](auto &m, auto &call) { return makeSequence(m.collections().listItems(call.receiver, "list")); }}},
      {"cast",
       {"dtype",
        [](auto &m, auto &call) {
          return makeComputed(m.emitter.cast(m.conversions.emit(call.receiver), m.calls().scalarTypeOf(call.given[0], "cast()")));
        }}},
      {"fill",
       {"val",
        [](auto &m, auto &call) {
          bool isPlace = call.receiver.template is<Place>() || call.receiver.template is<Components>();
          if (!isPlace) m.fail(error::kSyntax, "fill() needs a variable or an element");
          m.variables().store(call.receiver, call.given[0]);
          return makeObject(nb::none());
        }}},
      {"norm", {"eps?", kNorm}},
      {"norm_inv", {"eps?", kNorm}},
      {"normalized", {"eps?", kNorm}},
      {"cross",
       {"other",
        [](auto &m, auto &call) {
          mlir::Value value = m.conversions.emit(call.receiver), other = m.conversions.emit(call.given[0]);
          int64_t count = call.type.getDimSize(0);
          if (call.type.getRank() != 1 || count > 3 || count < 2)
            m.fail(error::kType, "only dimension < 4 is supported, got shape " + shapeText(call.type));
          auto otherType = dyn_cast<VectorType>(other.getType());
          if (!otherType || otherType.getShape() != call.type.getShape())
            m.fail(error::kType, "cross() needs vectors of one length, got '" + ir::describe(call.type) + "' and '" +
                                     ir::describe(other.getType()) + "'");
          auto product = [&](int64_t first, int64_t second) {
            return m.emitter.binaryTyped(BinaryKind::mul, m.emitter.extract(value, first), m.emitter.extract(other, second), "cross");
          };
          auto term = [&](int64_t first, int64_t second) {
            return m.emitter.binaryTyped(BinaryKind::sub, product(first, second), product(second, first), "cross");
          };
          return makeComputed(count == 2 ? term(0, 1) : m.emitter.makeVectorOf({term(1, 2), term(2, 0), term(0, 1)}, {3}));
        }}},
      {"outer_product",
       {"other",
        [](auto &m, auto &call) {
          mlir::Value value = m.conversions.emit(call.receiver), other = m.conversions.emit(call.given[0]);
          auto otherType = dyn_cast<VectorType>(other.getType());
          if (call.type.getRank() != 1 || !otherType || otherType.getRank() != 1) m.fail(error::kType, "outer_product() needs two vectors");
          int64_t rows = call.type.getDimSize(0), columns = otherType.getDimSize(0);
          SmallVector<mlir::Value> components;
          for (int64_t index = 0; index < rows * columns; ++index)
            components.push_back(m.emitter.binaryTyped(BinaryKind::mul, m.emitter.extract(value, index / columns),
                                                       m.emitter.extract(other, index % columns), "*"));
          return makeComputed(m.emitter.makeVectorOf(components, {rows, columns}));
        }}},
  };
  return kMethods;
}

Operand MatrixMethods::callMatrixMethod(const Operand &receiver, llvm::StringRef name, const Arguments &arguments) {
  // As in Python, bit_count counts the bits of the absolute value.
  if (name == "bit_count") return operators().unary(UnaryKind::popcnt, operators().unary(UnaryKind::abs, receiver, name), name);
  const MatrixMethod &method = getMatrixMethods().find(name)->second;
  return method.call(*this, {name, receiver, dyn_cast<VectorType>(receiver.getType()), calls().bind(name, arguments, method.parameters)});
}

bool MatrixMethods::hasMethod(Type type, llvm::StringRef name) {
  return isa<VectorType>(type) ? getMatrixMethods().contains(name) : name == "cast" || name == "bit_count";
}

nb::object MatrixMethods::listNames() {
  nb::list found;
  for (llvm::StringRef name : getMatrixMethods().keys()) found.append(nb::str(name.data(), name.size()));
  found.sort();
  return found;
}

Operand MatrixMethods::makeMatrix(Arguments &arguments, llvm::StringRef className) {
  for (auto &[key, value] : arguments.named)
    if (key == "dtype") key = "dt";
  if (arguments.positional.empty() && arguments.named.empty())
    fail(error::kType, "An Matrix/Vector can only be initialized with an array-like object");
  std::vector<Operand> given = calls().bind("qd." + className, arguments, "arr dt?");
  Type scalar = calls().scalarTypeOf(given[1], "qd." + className);
  Operand &items = given[0];
  bool isArray = isList(items) || isa_and_nonnull<VectorType>(items.getType()) ||
                 (items.isObject() && !session.python.isNumber(items.getObject()) && !PyUnicode_Check(items.getObject().ptr()));
  if (!isArray)
    fail(error::kType, "An Matrix/Vector can only be initialized with an array-like object, got " + conversions.describe(items));
  if (session.python.isInstance(items.getObject(), session.python.host.numpyArray))
    items = conversions.fromPython(items.getObject().attr("tolist")(), nullptr);
  mlir::Value value = conversions.emit(items, scalar);
  return makeComputed(scalar ? emitter.cast(value, scalar) : value);
}

Operand MatrixMethods::makeMatrixOfType(nb::handle kind, Arguments &arguments) {
  Type found = session.findValueType(kind);
  if (!found || !arguments.named.empty() || arguments.positional.empty())
    fail(error::kSyntax, toText(nb::repr(kind)) + " takes its components, or one scalar for all of them");
  auto type = mlir::cast<VectorType>(found);
  SmallVector<mlir::Value> components;
  std::function<void(const Operand &)> add = [&](const Operand &value) {
    PyObject *object = value.getObject().ptr();
    bool isText = object && (PyUnicode_Check(object) || PyBytes_Check(object));
    bool isList = value.is<Sequence>() || (object && !isText && !session.python.isNumber(object));
    if (isList || isa_and_nonnull<VectorType>(value.getType())) {
      for (const Operand &item : collections().listItems(value, "take the components of")) add(item);
      return;
    }
    components.push_back(conversions.convert(value, type.getElementType()));
  };
  for (const Operand &value : arguments.positional) add(value);
  if (components.size() == 1 && arguments.positional.size() == 1) return makeComputed(emitter.broadcast(components[0], type));
  if (int64_t(components.size()) != type.getNumElements())
    fail(error::kSyntax, toText(nb::repr(kind)) + " has " + std::to_string(type.getNumElements()) + " components, got " +
                             std::to_string(components.size()));
  return makeComputed(emitter.makeVector(components, type));
}

Operand MatrixMethods::callMatrixFactory(llvm::StringRef name, nb::handle matrixClass, Arguments &arguments) {
  if (name == "rows" || name == "cols") {
    mlir::Value rows = conversions.emit(calls().bind(name, arguments, name)[0]);
    auto type = dyn_cast<VectorType>(rows.getType());
    if (!type || type.getRank() != 2) fail(error::kType, name + "() needs a list of vectors of one length");
    return makeComputed(name == "rows" ? rows : emitter.transpose(rows));
  }
  if (name == "diag") {
    std::vector<Operand> given = calls().bind(name, arguments, "dim val");
    int64_t n = conversions.findInteger(given[0]).value_or(0);
    if (n < 1) fail(error::kType, "diag() needs 'dim' to be an integer known while compiling");
    mlir::Value value = conversions.emit(given[1]);
    SmallVector<mlir::Value> components(size_t(n * n), emitter.convert(emitter.constant(0, session.types.i32), value.getType()));
    for (int64_t index = 0; index < n; ++index) components[size_t(index * (n + 1))] = value;
    return makeComputed(emitter.makeVectorOf(components, {n, n}));
  }
  if (name != "zero" && name != "one" && name != "unit" && name != "identity")
    fail(error::kSyntax, "'" + toText(nb::str(matrixClass.attr("__name__"))) + "." + name + "' cannot be called in kernels");
  // Python constructs the matrix from known arguments, with the given type.
  for (auto &[key, value] : arguments.named)
    if (key == "dtype") key = "dt";
  for (Operand &value : arguments.positional) value = makeObject(conversions.known(value));
  return makeComputed(conversions.emit(pythonCalls().callPython({matrixClass.attr(name.str().c_str())}, arguments)));
}

} // namespace qd::frontend
