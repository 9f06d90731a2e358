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

bool isFloatScalar(Type type) { return isa<Float16Type, Float32Type, Float64Type>(type); }

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

int64_t getComponentCount(Type value) {
  auto vector = dyn_cast<VectorType>(value);
  return vector ? vector.getNumElements() : 1;
}

support::ScalarType getScalarType(Type scalar) {
  using support::ScalarType;
  if (isa<Float16Type>(scalar)) return ScalarType::F16;
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
  llvm::interleaveComma(dimensions, printer, [&](int64_t dimension) {
    if (dimension == qd::layout::kDynamic)
      printer << '?';
    else
      printer << dimension;
  });
  printer << ']';
}

template <typename Find> static ParseResult parseKind(OpAsmParser &parser, IntegerAttr &kind, Find find) {
  StringRef name;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&name)) return failure();
  auto found = find(std::string_view(name));
  if (!found) return parser.emitError(loc, "no such row in builtins.def: ") << name;
  kind = parser.getBuilder().getI32IntegerAttr(int32_t(*found));
  return success();
}

static ParseResult parseUnaryKind(OpAsmParser &parser, IntegerAttr &kind) { return parseKind(parser, kind, qd::ir::findUnary); }
static ParseResult parseBinaryKind(OpAsmParser &parser, IntegerAttr &kind) { return parseKind(parser, kind, qd::ir::findBinary); }
static ParseResult parseAtomicKind(OpAsmParser &parser, IntegerAttr &kind) { return parseKind(parser, kind, qd::ir::findAtomic); }

static void printUnaryKind(OpAsmPrinter &printer, Operation *, IntegerAttr kind) {
  printer << StringRef(qd::ir::getRow(qd::ir::UnaryKind(kind.getInt())).name);
}
static void printBinaryKind(OpAsmPrinter &printer, Operation *, IntegerAttr kind) {
  printer << StringRef(qd::ir::getRow(qd::ir::BinaryKind(kind.getInt())).name);
}
static void printAtomicKind(OpAsmPrinter &printer, Operation *, IntegerAttr kind) {
  printer << StringRef(qd::ir::getRow(qd::ir::AtomicKind(kind.getInt())).name);
}

#include "ir/dialect.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "ir/types.cpp.inc"

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

//--- Verifiers and builders ---

static LogicalResult verifyOperandClass(Operation *op, OperandClass wanted, Type operand, StringRef row) {
  Type scalar = getScalar(operand);
  bool fits = wanted == OperandClass::Any || wanted == OperandClass::Numeric ||
              (wanted == OperandClass::Real ? isFloatScalar(scalar) : isIntegerScalar(scalar));
  return fits ? success() : op->emitOpError() << row << " does not take " << operand;
}

static Type getUnaryType(UnaryKind kind, Type operand) {
  Builder builder(operand.getContext());
  switch (getRow(kind).result) {
  case UnaryResult::Same: return operand;
  case UnaryResult::U1: return withScalar(operand, builder.getI1Type());
  case UnaryResult::I32: return withScalar(operand, builder.getIntegerType(32, /*isSigned=*/true));
  }
  llvm_unreachable("all results are listed");
}

static Type getBinaryType(BinaryKind kind, Type lhs) {
  return getRow(kind).result == BinaryResult::Compare ? withScalar(lhs, IntegerType::get(lhs.getContext(), 1)) : lhs;
}

void UnaryOp::build(OpBuilder &builder, OperationState &state, UnaryKind kind, Value operand) {
  build(builder, state, getUnaryType(kind, operand.getType()), uint32_t(kind), operand);
}

LogicalResult UnaryOp::verify() {
  const UnaryRow &row = getRow(getUnaryKind());
  if (getType() != getUnaryType(getUnaryKind(), getOperand().getType()))
    return emitOpError() << row.name << " of " << getOperand().getType() << " cannot be " << getType();
  return verifyOperandClass(*this, row.operand, getOperand().getType(), row.name);
}

void BinaryOp::build(OpBuilder &builder, OperationState &state, BinaryKind kind, Value lhs, Value rhs) {
  build(builder, state, getBinaryType(kind, lhs.getType()), uint32_t(kind), lhs, rhs);
}

LogicalResult BinaryOp::verify() {
  const BinaryRow &row = getRow(getBinaryKind());
  if (row.result != BinaryResult::Power && getLhs().getType() != getRhs().getType())
    return emitOpError() << row.name << " needs operands of one type, got " << getLhs().getType() << " and " << getRhs().getType();
  if (getType() != getBinaryType(getBinaryKind(), getLhs().getType()))
    return emitOpError() << row.name << " of " << getLhs().getType() << " cannot be " << getType();
  return verifyOperandClass(*this, row.operand, getLhs().getType(), row.name);
}

void AtomicOp::build(OpBuilder &builder, OperationState &state, AtomicKind kind, Value ref, Value value) {
  build(builder, state, value.getType(), uint32_t(kind), ref, value);
}

LogicalResult ConstantOp::verify() {
  return getValue().getType() == getType() ? success() : emitOpError("has a value of type ") << getValue().getType();
}

LogicalResult VectorOp::verify() {
  auto type = cast<VectorType>(getType());
  if (int64_t(getComponents().size()) != type.getNumElements())
    return emitOpError() << "has " << getComponents().size() << " components for " << type;
  for (Value component : getComponents())
    if (component.getType() != type.getElementType())
      return emitOpError() << "has a component of type " << component.getType() << " in " << type;
  return success();
}

LogicalResult ExtractOp::verify() {
  auto type = cast<VectorType>(getOperand().getType());
  return int64_t(getComponent()) < type.getNumElements() ? success() : emitOpError() << "component is not in " << type;
}

LogicalResult ComponentOp::verify() {
  auto pointee = dyn_cast<VectorType>(cast<RefType>(getRef().getType()).getPointee());
  if (!pointee || pointee.getRank() != int64_t(getIndices().size()))
    return emitOpError() << "has " << getIndices().size() << " indices for " << getRef().getType();
  return cast<RefType>(getType()).getPointee() == pointee.getElementType() ? success() : emitOpError("result is not the component");
}

LogicalResult ElementOp::verify() {
  auto tensor = cast<TensorType>(getTensor().getType());
  if (tensor.getRank() != int64_t(getIndices().size())) return emitOpError() << "has " << getIndices().size() << " indices for " << tensor;
  return cast<RefType>(getType()).getPointee() == tensor.getElement() ? success() : emitOpError("result is not the element");
}

LogicalResult ForOp::verify() {
  if (getLower().size() != getUpper().size() || (!getStep().empty() && getStep().size() != getLower().size()))
    return emitOpError("has bounds of different ranks");
  if (getBody().getNumArguments() != getLower().size())
    return emitOpError() << "has " << getBody().getNumArguments() << " indices for rank " << getLower().size();
  for (auto [lower, upper, index] : llvm::zip(getLower(), getUpper(), getBody().getArguments()))
    if (lower.getType() != upper.getType() || lower.getType() != index.getType())
      return emitOpError("has bounds and indices of different types");
  return success();
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
