// check_nans.cpp: assertions after floating-point operations that may create a NaN
//
// In:   the frontend's IR.
// Out:  a qd.assert after each operation with a floating-point result: the result is no NaN unless an operand is one.
// Here: first, while every operation comes from the user's source.
#include "ir/code.h"
#include "passes/checks/assert_text.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

#define GEN_PASS_DEF_CHECKNANS
#include "passes/passes.h.inc"

namespace {

/// The operator as the user writes it, empty for a function.
StringRef getSign(BinaryKind kind) {
  switch (kind) {
  case BinaryKind::add: return "+";
  case BinaryKind::sub: return "-";
  case BinaryKind::mul: return "*";
  case BinaryKind::div: return "/";
  case BinaryKind::floor_div: return "//";
  case BinaryKind::mod: return "%";
  case BinaryKind::pow: return "**";
  default: return "";
  }
}

/// Whether any component of a value is a NaN.
Value hasNan(Code code, Value value) {
  Value isNan = code.unary(UnaryKind::isnan, value);
  if (!isa<VectorType>(value.getType())) return isNan;
  return ReduceOp::create(code.builder, code.loc, code.builder.getI1Type(), BinaryKind::bit_or, isNan);
}

AssertText describeOperation(Operation *op) {
  AssertText text(op->getContext());
  auto binary = dyn_cast<BinaryOp>(op);
  if (StringRef sign = isa<MatmulOp>(op) ? "@" : binary ? getSign(binary.getBinaryKind()) : StringRef(); !sign.empty())
    return text << "NaN from " << op->getOperand(0) << " " + sign + " " << op->getOperand(1);
  std::string_view name = binary              ? getOpInfo(binary.getBinaryKind()).name
                          : isa<ReduceOp>(op) ? getOpInfo(cast<ReduceOp>(op).getBinaryKind()).name
                                              : getOpInfo(cast<UnaryOp>(op).getUnaryKind()).name;
  return text.list(op->getOperands(), ("NaN from " + StringRef(name) + "(").str(), ")");
}

struct CheckNansPass : impl::CheckNansBase<CheckNansPass> {
  void runOnOperation() override {
    SmallVector<Operation *> found;
    getOperation().walk([&](Operation *op) {
      if (isa<BinaryOp, UnaryOp, FmaOp, ReduceOp, MatmulOp>(op) && isFloatScalar(getScalar(op->getResult(0).getType())))
        found.push_back(op);
    });
    OpBuilder builder(&getContext());
    for (Operation *op : found) {
      builder.setInsertionPointAfter(op);
      Code code(builder, op->getLoc());
      // Report the first NaN, not the results that are computed from it.
      Value isGood = code.unary(UnaryKind::logical_not, hasNan(code, op->getResult(0)));
      for (Value operand : op->getOperands())
        if (isFloatScalar(getScalar(operand.getType()))) isGood = code.binary(BinaryKind::bit_or, isGood, hasNan(code, operand));
      describeOperation(op).addAssert(builder, code.loc, isGood, artifact::Site::Kind::Assert);
    }
  }
};

} // namespace

} // namespace qd::passes
