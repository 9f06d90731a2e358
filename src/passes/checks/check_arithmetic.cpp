// check_arithmetic.cpp: assertions before integer arithmetic that may overflow
//
// In:   the frontend's IR.
// Out:  a qd.assert before each sum, difference, product, power, negation, absolute value, quotient and shift of integers, and before each
//       conversion of a float to an integer. All lanes are checked together; the first failing lane is reported.
// Here: first, while all arithmetic is the user's: later passes add arithmetic for addresses and loops. Sums and products of components,
//       and products of matrices, become the operations that they consist of.
#include "ir/code.h"
#include "passes/checks/assert_text.h"
#include "passes/checks/index_range.h"
#include "passes/source_locations.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

#include <cmath>

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

#define GEN_PASS_DECL_CHECKARITHMETIC
#define GEN_PASS_DEF_CHECKARITHMETIC
#include "passes/passes.h.inc"

namespace {

/// How messages call an operation: its sign between the operands, and its name. Empty: it cannot fail.
std::pair<StringRef, StringRef> getWords(BinaryKind kind) {
  switch (kind) {
  case BinaryKind::add: return {"+", "Addition"};
  case BinaryKind::sub: return {"-", "Subtraction"};
  case BinaryKind::mul: return {"*", "Multiplication"};
  case BinaryKind::pow: return {"**", "Power"};
  case BinaryKind::shl: return {"<<", "Shift left"};
  case BinaryKind::shr:
  case BinaryKind::bit_shr: return {">>", "Shift right"};
  case BinaryKind::floor_div:
  case BinaryKind::raw_div: return {"//", "Division"};
  case BinaryKind::mod:
  case BinaryKind::raw_mod: return {"%", "Modulo"};
  default: return {};
  }
}

class Checker : Code {
public:
  Checker(OpBuilder &builder, ModuleOp module, bool checksOverflow, bool reports)
      : Code(builder, module.getLoc()), module(module), checksOverflow(checksOverflow), reports(reports) {}

  void run() {
    if (checksOverflow) forEach<ReduceOp, MatmulOp>([&](Operation *op) { expand(op); });
    forEach<BinaryOp, UnaryOp, CastOp>([&](Operation *op) {
      if (auto binary = dyn_cast<BinaryOp>(op))
        checkBinary(binary);
      else if (auto unary = dyn_cast<UnaryOp>(op))
        checkUnary(unary);
      else
        checkCast(mlir::cast<CastOp>(op));
    });
  }

private:
  using Kind = artifact::Site::Kind;

  /// Visits the operations with results of integers, with the builder before them.
  template <typename... Ops> void forEach(llvm::function_ref<void(Operation *)> visit) {
    SmallVector<Operation *> found;
    module.walk([&](Operation *op) {
      if (isa<Ops...>(op) && hasIntegers(op)) found.push_back(op);
    });
    for (Operation *op : found) {
      builder.setInsertionPoint(op);
      loc = op->getLoc();
      visit(op);
    }
  }

  static bool hasIntegers(Operation *op) {
    Type scalar = getScalar(op->getResult(0).getType());
    return isIntegerScalar(scalar) && !scalar.isInteger(1);
  }

  void expand(Operation *op) {
    Value result;
    if (auto reduce = dyn_cast<ReduceOp>(op)) {
      result = extract(reduce.getOperand(), 0);
      for (int64_t i = 1; i < getComponentCount(reduce.getOperand().getType()); ++i)
        result = binary(reduce.getBinaryKind(), result, extract(reduce.getOperand(), i));
    } else {
      // Sums all components of the result at once, one product of a row and a column after the other.
      Value lhs = op->getOperand(0), rhs = op->getOperand(1);
      int64_t steps = mlir::cast<VectorType>(rhs.getType()).getShape()[0], rows = getComponentCount(lhs.getType()) / steps;
      int64_t columns = getComponentCount(rhs.getType()) / steps;
      for (int64_t step = 0; step < steps; ++step) {
        SmallVector<Value> left, right;
        for (int64_t i = 0; i < rows * columns; ++i) {
          left.push_back(extract(lhs, i / columns * steps + step));
          right.push_back(extract(rhs, step * columns + i % columns));
        }
        auto collect = [&](ArrayRef<Value> parts) { return VectorOp::create(builder, loc, op->getResult(0).getType(), parts); };
        Value product = binary(BinaryKind::mul, collect(left), collect(right));
        result = result ? add(result, product) : product;
      }
    }
    op->getResult(0).replaceAllUsesWith(result);
    op->erase();
  }

  Value isEqual(Value value, int64_t number) { return binary(BinaryKind::eq, value, integer(value.getType(), number)); }
  Value isNot(Value value, int64_t number) { return binary(BinaryKind::ne, value, integer(value.getType(), number)); }
  /// Whether all components are good.
  Value all(Value isGood) {
    return isa<VectorType>(isGood.getType()) ? ReduceOp::create(builder, loc, builder.getI1Type(), BinaryKind::bit_and, isGood) : isGood;
  }
  Value none(Value isBad) { return all(unary(UnaryKind::logical_not, isBad)); }
  Value overflows(BinaryKind kind, Value lhs, Value rhs) {
    return OverflowsOp::create(builder, loc, withScalar(lhs.getType(), builder.getI1Type()), kind, lhs, rhs);
  }
  /// The smallest number of a signed type.
  static int64_t getLeast(unsigned bits) { return llvm::minIntN(bits); }

  void checkBinary(BinaryOp op) {
    BinaryKind kind = op.getBinaryKind();
    auto [sign, name] = getWords(kind);
    if (sign.empty()) return;
    Value lhs = op.getLhs(), rhs = op.getRhs();
    auto type = mlir::cast<IntegerType>(getScalar(lhs.getType()));
    if (kind == BinaryKind::shl || kind == BinaryKind::shr || kind == BinaryKind::bit_shr) {
      checkCount(op, sign);
      if (kind == BinaryKind::shl) addOverflow(name, none(overflows(kind, lhs, rhs)), lhs, sign, rhs);
    } else if (sign == "//" || sign == "%") {
      std::optional<int64_t> divisor = findInteger(rhs);
      if (!divisor || *divisor == 0) {
        AssertText text(builder.getContext());
        text << name + " by zero: " << lhs << " " + sign + " " << rhs;
        text.addAssert(builder, loc, all(isNot(rhs, 0)), Kind::DivisionByZero);
      }
      if (sign == "%" || !type.isSigned() || (divisor && *divisor != -1)) return;
      // The negative of the smallest number does not fit the type.
      Value isSmallest = isEqual(lhs, getLeast(type.getWidth())), isMinusOne = isEqual(rhs, -1);
      addOverflow(name, none(binary(BinaryKind::bit_and, isSmallest, isMinusOne)), lhs, sign, rhs);
    } else if (kind == BinaryKind::pow) {
      checkPower(op);
    } else if (!staysWithin(op.getResult())) {
      addOverflow(name, none(overflows(kind, lhs, rhs)), lhs, sign, rhs);
    }
  }

  void checkPower(BinaryOp op) {
    Value base = op.getLhs(), exponent = op.getRhs();
    auto type = mlir::cast<IntegerType>(getScalar(base.getType()));
    auto ofExponent = [&](int64_t value) { return integer(exponent.getType(), value); };
    if (getScalar(exponent.getType()).isSignedInteger() && findInteger(exponent).value_or(-1) < 0) {
      AssertText text(builder.getContext());
      text << "Negative exponent in pow(int, int) is not allowed: " << base << " ** " << exponent;
      text.addAssert(builder, loc, all(binary(BinaryKind::ge, exponent, ofExponent(0))), Kind::Assert);
    }
    // f64 suffices: powers of two are exact, and no other power of integers is within its rounding error of one.
    Type real = withScalar(base.getType(), builder.getF64Type());
    auto limit = [&](double value) { return makeFloat(builder, loc, real, value); };
    auto toReal = [&](Value value) { return CastOp::create(builder, loc, real, value); };
    Value size = unary(UnaryKind::abs, toReal(base)), power = binary(BinaryKind::pow, size, toReal(exponent));
    double end = std::ldexp(1.0, int(type.getWidth()) - int(type.isSigned()));
    Value isGood = binary(BinaryKind::lt, power, limit(end));
    if (type.isSigned()) {
      Value isOdd = binary(BinaryKind::ne, binary(BinaryKind::bit_and, exponent, ofExponent(1)), ofExponent(0));
      Value isNegative = binary(BinaryKind::lt, base, integer(base.getType(), 0));
      Value isSmallest = binary(BinaryKind::eq, power, limit(end));
      Value isLast = binary(BinaryKind::bit_and, binary(BinaryKind::bit_and, isOdd, isNegative), isSmallest);
      isGood = binary(BinaryKind::bit_or, isGood, isLast);
    }
    addOverflow("Power", all(isGood), base, "**", exponent);
  }

  /// Whether the bounds of the index's loop keep the sum within its type. Extents are 32-bit numbers.
  static bool staysWithin(Value sum) {
    std::optional<IndexRange> range = findIndexRange(sum);
    if (!range || range->lower < INT32_MIN) return false;
    return range->end <= (range->tensor ? 1 : int64_t(INT32_MAX) + 1);
  }

  void checkUnary(UnaryOp op) {
    Value operand = op.getOperand();
    Type scalar = getScalar(operand.getType());
    bool isNegation = op.getUnaryKind() == UnaryKind::neg;
    if ((!isNegation && op.getUnaryKind() != UnaryKind::abs) || !scalar.isSignedInteger()) return;
    Value isGood = all(isNot(operand, getLeast(scalar.getIntOrFloatBitWidth())));
    addOverflow(isNegation ? "Negation" : "Absolute value", isGood, operand, "", Value());
  }

  void checkCount(BinaryOp op, StringRef sign) {
    Value count = op.getRhs();
    unsigned bits = getScalar(op.getLhs().getType()).getIntOrFloatBitWidth();
    std::optional<int64_t> known = findInteger(count);
    if (known && *known >= 0 && *known < int64_t(bits)) return;
    unsigned width = getScalar(count.getType()).getIntOrFloatBitWidth();
    Type type = withScalar(count.getType(), builder.getIntegerType(width, /*isSigned=*/false));
    Value isGood = binary(BinaryKind::lt, CastOp::create(builder, loc, type, count), integer(type, bits));
    AssertText text(builder.getContext());
    text << "Shift count out of range for " + Twine(bits) + " bits: " << op.getLhs() << " " + sign + " " << count;
    text.addAssert(builder, loc, all(isGood), Kind::Overflow);
  }

  /// Checks that the operand truncates to a number of the range, and is no NaN.
  void checkCast(CastOp op) {
    Value operand = op.getOperand();
    auto from = dyn_cast<FloatType>(getScalar(operand.getType()));
    if (!from) return;
    auto to = mlir::cast<IntegerType>(getScalar(op.getType()));
    bool isSigned = to.isSigned();
    unsigned bits = to.getWidth();
    auto getFloat = [&](double value) {
      APFloat number(value);
      bool isInexact = false;
      number.convert(from.getFloatSemantics(), APFloat::rmTowardZero, &isInexact);
      return makeFloat(builder, loc, operand.getType(), number.convertToDouble());
    };
    double end = std::ldexp(1.0, int(isSigned ? bits - 1 : bits)), first = isSigned ? -end : 0;
    // If the format cannot represent `first - 1`, `first` itself is the smallest good number. Beyond the largest f16 there is only
    // infinity.
    bool isRoomy = !isSigned || bits <= from.getFPMantissaWidth(), isFinite = !from.isF16() || end <= 65504;
    Value isAbove = binary(isRoomy ? BinaryKind::gt : BinaryKind::ge, operand, getFloat(isRoomy ? first - 1 : first));
    Value isBelow = binary(isFinite ? BinaryKind::lt : BinaryKind::le, operand, getFloat(end));
    AssertText text(builder.getContext());
    text << "Conversion out of range of " + describe(to) + ": " << operand;
    text.addAssert(builder, loc, all(binary(BinaryKind::bit_and, isAbove, isBelow)), Kind::Overflow);
  }

  /// `name` is the operation; a unary one has no `rhs`.
  void addOverflow(StringRef name, Value isGood, Value lhs, StringRef sign, Value rhs) {
    if (!checksOverflow) return;
    AssertText text(builder.getContext());
    text << name + (reports ? " overflow detected in " + describeLocations() + ": " : " overflow: ");
    text << lhs;
    if (rhs) text << " " + sign + " " << rhs;
    text << (" does not fit " + describe(lhs.getType()) + (reports ? "\n" : ""));
    text.addAssert(builder, loc, isGood, Kind::Overflow, reports);
  }

  /// `File "k.py", line 7, in k`, the innermost location first.
  std::string describeLocations() {
    std::vector<artifact::SourceLocation> places;
    collectLocations(loc, places);
    std::string text;
    for (const artifact::SourceLocation &place : llvm::reverse(places))
      text += (text.empty() ? "" : ", called from ") +
              ("File \"" + place.file + "\", line " + std::to_string(place.line) + ", in " + place.function);
    return text;
  }

  ModuleOp module;
  bool checksOverflow, reports;
};

struct CheckArithmeticPass : impl::CheckArithmeticBase<CheckArithmeticPass> {
  using Base = impl::CheckArithmeticBase<CheckArithmeticPass>;
  using Base::Base;
  void runOnOperation() override {
    OpBuilder builder(&getContext());
    Checker(builder, getOperation(), overflow, reports).run();
  }
};

} // namespace

} // namespace qd::passes
