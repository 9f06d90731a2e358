// dialect.cpp: the qd dialect: queries on types, printers and parsers, inferred result types, verifiers
//
// In:   the records of dialect.td and ops.td, and the table builtins.def.
// Out:  the parts of the dialect that TableGen cannot generate.
// Here: a table row names a kind only; its printer, its result type and its verifier are the same for all rows.
#include "ir/dialect.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/Interfaces/FunctionImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace qd::ir {

//--- Types ---

bool isIntegerScalar(Type type) {
  auto integer = dyn_cast<IntegerType>(type);
  if (!integer) return false;
  if (integer.getWidth() == 1) return integer.isSignless();
  return !integer.isSignless() && llvm::is_contained({8u, 16u, 32u, 64u}, integer.getWidth());
}

bool isFloatScalar(Type type) { return isa<Float16Type, BFloat16Type, Float32Type, Float64Type>(type); }

bool isScalar(Type type) { return isIntegerScalar(type) || isFloatScalar(type); }

bool isValue(Type type) {
  auto vector = dyn_cast<VectorType>(type);
  return vector ? vector.getRank() <= 2 && vector.getRank() >= 1 && isScalar(vector.getElementType()) : isScalar(type);
}

Type getScalar(Type value) {
  auto vector = dyn_cast<VectorType>(value);
  return vector ? vector.getElementType() : value;
}

Type withScalar(Type value, Type scalar) {
  auto vector = dyn_cast<VectorType>(value);
  return vector ? VectorType::get(vector.getShape(), scalar) : scalar;
}

int64_t getAxisCount(Type value) {
  auto vector = dyn_cast<VectorType>(value);
  return vector ? vector.getRank() : 0;
}

int64_t getComponentCount(Type value) {
  auto vector = dyn_cast<VectorType>(value);
  return vector ? vector.getNumElements() : 1;
}

std::optional<int64_t> findInteger(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  auto integer = constant ? dyn_cast<IntegerAttr>(constant.getValue()) : IntegerAttr();
  if (!integer || integer.getType().isInteger(1)) return std::nullopt;
  APInt bits = integer.getValue();
  return integer.getType().isUnsignedInteger() ? int64_t(bits.getLimitedValue(INT64_MAX)) : bits.getSExtValue();
}

std::optional<int64_t> findLength(ForOp loop, unsigned axis) {
  std::optional<int64_t> lower = findInteger(loop.getLower()[axis]), upper = findInteger(loop.getUpper()[axis]);
  int64_t length = 0;
  if (!lower || !upper) return std::nullopt;
  if (llvm::SubOverflow(*upper, *lower, length)) return *upper > *lower ? INT64_MAX : 0;
  return std::max<int64_t>(length, 0);
}

std::optional<double> findIterations(ForOp loop, ArrayRef<unsigned> axes) {
  double count = 1;
  for (unsigned axis : axes) {
    std::optional<int64_t> length = findLength(loop, axis);
    if (!length) return std::nullopt;
    count *= double(*length);
  }
  return count;
}

std::optional<double> findIterations(ForOp loop) { return findIterations(loop, llvm::to_vector(llvm::seq(loop.getRank()))); }

double estimateIterations(ForOp loop, double unknownLength) {
  double count = 1;
  for (unsigned axis = 0; axis < loop.getRank(); ++axis) {
    std::optional<int64_t> length = findLength(loop, axis);
    count *= length ? double(*length) : unknownLength;
  }
  return count;
}

int getOperatorCost(Operation *op) {
  if (auto unary = dyn_cast<UnaryOp>(op)) return getOpInfo(unary.getUnaryKind()).cost;
  auto binary = dyn_cast<BinaryOp>(op);
  return binary ? getOpInfo(binary.getBinaryKind()).cost : 0;
}

bool isLongFunction(Operation *op) {
  constexpr int kLong = 20;
  auto unary = dyn_cast<UnaryOp>(op);
  const bool isOfBits = unary && getOpInfo(unary.getUnaryKind()).operand == OperandClass::Integer;
  return getOperatorCost(op) >= kLong && !isOfBits;
}

Value skipWidening(Value value) {
  while (auto cast = value.getDefiningOp<CastOp>()) {
    auto from = dyn_cast<IntegerType>(cast.getOperand().getType()), to = dyn_cast<IntegerType>(cast.getType());
    if (!from || !to || to.getWidth() < from.getWidth()) break;
    value = cast.getOperand();
  }
  return value;
}

support::ScalarType getScalarType(Type scalar) {
  using support::ScalarType;
  if (isa<Float16Type>(scalar)) return ScalarType::F16;
  if (isa<BFloat16Type>(scalar)) return ScalarType::BF16;
  if (isa<Float32Type>(scalar)) return ScalarType::F32;
  if (isa<Float64Type>(scalar)) return ScalarType::F64;
  auto integer = cast<IntegerType>(scalar);
  if (integer.getWidth() == 1) return ScalarType::U1;
  auto base = integer.isUnsigned() ? ScalarType::U8 : ScalarType::I8;
  return ScalarType(uint8_t(base) + llvm::Log2_32(integer.getWidth() / 8));
}

Type getType(MLIRContext *ctx, support::ScalarType type) {
  using support::ScalarType;
  switch (type) {
  case ScalarType::U1: return IntegerType::get(ctx, 1);
  case ScalarType::F16: return Float16Type::get(ctx);
  case ScalarType::BF16: return BFloat16Type::get(ctx);
  case ScalarType::F32: return Float32Type::get(ctx);
  case ScalarType::F64: return Float64Type::get(ctx);
  default:
    return IntegerType::get(ctx, unsigned(support::getByteSize(type) * 8),
                            support::isSigned(type) ? IntegerType::Signed : IntegerType::Unsigned);
  }
}

layout::ValueType getValueType(Type value) {
  layout::ValueType result;
  result.scalar = getScalarType(getScalar(value));
  if (auto vector = dyn_cast<VectorType>(value)) {
    result.rank = uint8_t(vector.getRank());
    result.rows = uint16_t(vector.getDimSize(0));
    result.columns = vector.getRank() == 2 ? uint16_t(vector.getDimSize(1)) : 1;
  }
  return result;
}

Type getType(MLIRContext *ctx, const layout::ValueType &type) {
  Type scalar = getType(ctx, type.scalar);
  if (type.rank == 0) return scalar;
  if (type.rank == 1) return VectorType::get({type.rows}, scalar);
  return VectorType::get({type.rows, type.columns}, scalar);
}

TensorType getType(MLIRContext *ctx, const layout::TensorLayout &layout) {
  SmallVector<int64_t> tilings;
  for (const layout::Tiling &tiling : layout.tilings)
    if (tiling.jump) tilings.append({tiling.axis, tiling.length, tiling.jump}); // others only distinguish layouts of sparse fields
  return TensorType::get(ctx, getType(ctx, layout.element), layout.extents, layout.strides, layout.componentStride, layout.origin, tilings);
}

SmallVector<layout::Tiling, 2> getTilings(TensorType type) {
  SmallVector<layout::Tiling, 2> tilings;
  for (ArrayRef<int64_t> rest = type.getTiles(); !rest.empty(); rest = rest.drop_front(3)) tilings.push_back({rest[0], rest[1], rest[2]});
  return tilings;
}

std::string describe(Type value) {
  std::string scalar(support::getName(getScalarType(getScalar(value))));
  auto vector = dyn_cast<VectorType>(value);
  if (!vector) return scalar;
  std::string shape = std::to_string(vector.getDimSize(0));
  if (vector.getRank() == 2) shape += ", " + std::to_string(vector.getDimSize(1));
  return "[Tensor (" + shape + ") " + scalar + "]";
}

} // namespace qd::ir

//--- Printers and parsers of the custom<...> directives ---

static ParseResult parseDimensions(AsmParser &parser, SmallVector<int64_t> &dimensions) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&]() -> ParseResult {
    if (succeeded(parser.parseOptionalQuestion())) {
      dimensions.push_back(qd::layout::kDynamic);
      return success();
    }
    return parser.parseInteger(dimensions.emplace_back());
  });
}

static void printDimensions(AsmPrinter &printer, ArrayRef<int64_t> dimensions) {
  printer << '[';
  llvm::interleaveComma(dimensions, printer,
                        [&](int64_t dimension) { printer << (dimension == qd::layout::kDynamic ? "?" : std::to_string(dimension)); });
  printer << ']';
}

template <typename Kind> static ParseResult parseKind(OpAsmParser &parser, IntegerAttr &kind) {
  StringRef name;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&name)) return failure();
  std::optional<Kind> found = qd::ir::findKind<Kind>(name);
  if (!found) return parser.emitError(loc, "no such row in builtins.def: ") << name;
  kind = parser.getBuilder().getI32IntegerAttr(int32_t(*found));
  return success();
}

template <typename Kind> static void printKind(OpAsmPrinter &printer, Operation *, IntegerAttr kind) {
  printer << StringRef(qd::ir::getOpInfo(Kind(kind.getInt())).name);
}

static constexpr auto parseUnaryKind = parseKind<qd::ir::UnaryKind>;
static constexpr auto parseBinaryKind = parseKind<qd::ir::BinaryKind>;
static constexpr auto parseAtomicKind = parseKind<qd::ir::AtomicKind>;
static constexpr auto printUnaryKind = printKind<qd::ir::UnaryKind>;
static constexpr auto printBinaryKind = printKind<qd::ir::BinaryKind>;
static constexpr auto printAtomicKind = printKind<qd::ir::AtomicKind>;

#include "ir/dialect.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "ir/types.cpp.inc"

#include "ir/interfaces.cpp.inc"

#define GET_OP_CLASSES
#include "ir/ops.cpp.inc"

namespace qd::ir {

void QdDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "ir/types.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "ir/ops.cpp.inc"
      >();
}

//--- Types of results, and verifiers ---

static LogicalResult verifyOperandClass(Operation *op, OperandClass wanted, Type operand, StringRef name) {
  Type scalar = getScalar(operand);
  bool fits = wanted == OperandClass::Any || wanted == OperandClass::Numeric ||
              (wanted == OperandClass::Real ? isFloatScalar(scalar) : isIntegerScalar(scalar));
  return fits ? success() : op->emitOpError() << name << " does not take " << operand;
}

LogicalResult UnaryOp::inferReturnTypes(MLIRContext *ctx, std::optional<Location>, Adaptor adaptor, SmallVectorImpl<Type> &types) {
  Type operand = adaptor.getOperand().getType();
  UnaryResult result = getOpInfo(adaptor.getUnaryKind()).result;
  support::ScalarType scalar = result == UnaryResult::U1 ? support::ScalarType::U1 : support::ScalarType::I32;
  types.push_back(result == UnaryResult::Same ? operand : withScalar(operand, ir::getType(ctx, scalar)));
  return success();
}

LogicalResult UnaryOp::verify() {
  const auto &info = getOpInfo(getUnaryKind());
  return verifyOperandClass(*this, info.operand, getOperand().getType(), info.name);
}

LogicalResult BinaryOp::inferReturnTypes(MLIRContext *ctx, std::optional<Location>, Adaptor adaptor, SmallVectorImpl<Type> &types) {
  Type operand = adaptor.getLhs().getType();
  bool compares = getOpInfo(adaptor.getBinaryKind()).result == BinaryResult::Compare;
  types.push_back(compares ? withScalar(operand, IntegerType::get(ctx, 1)) : operand);
  return success();
}

LogicalResult BinaryOp::verify() {
  const auto &info = getOpInfo(getBinaryKind());
  if (info.result != BinaryResult::Power && getLhs().getType() != getRhs().getType())
    return emitOpError() << info.name << " needs operands of one type, got " << getLhs().getType() << " and " << getRhs().getType();
  return verifyOperandClass(*this, info.operand, getLhs().getType(), info.name);
}

LogicalResult CallOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto callee = symbols.lookupNearestSymbolFrom<FuncOp>(*this, getCalleeAttr());
  if (!callee) return emitOpError() << "calls unknown " << getCallee();
  FunctionType type = callee.getFunctionType();
  if (TypeRange(type.getInputs()) != TypeRange(getArguments()) || TypeRange(type.getResults()) != TypeRange(getOutputs()))
    return emitOpError() << "does not fit " << type;
  return success();
}

ParseResult FuncOp::parse(OpAsmParser &parser, OperationState &result) {
  auto buildType = [](Builder &builder, ArrayRef<Type> arguments, ArrayRef<Type> results, function_interface_impl::VariadicFlag,
                      std::string &) { return builder.getFunctionType(arguments, results); };
  return function_interface_impl::parseFunctionOp(parser, result, /*allowVariadic=*/false, getFunctionTypeAttrName(result.name), buildType,
                                                  getArgAttrsAttrName(result.name), getResAttrsAttrName(result.name));
}

void FuncOp::print(OpAsmPrinter &printer) {
  function_interface_impl::printFunctionOp(printer, *this, /*isVariadic=*/false, getFunctionTypeAttrName(), getArgAttrsAttrName(),
                                           getResAttrsAttrName());
}

} // namespace qd::ir
