// lane_rules.cpp: the transfer functions of the divergence analysis
//
// In:   the lane kinds of the operands, one component of each, and the values of constants.
// Out:  the lane kind of the result. Linear kinds hold for integers only, and only where no lane can wrap around before another.
#include "codegen/llvm/lane_rules.h"

using namespace mlir;

namespace qd::codegen {

LaneKind getPlainKind(ArrayRef<OperandKind> operands) {
  return llvm::all_of(operands, [](const OperandKind &operand) { return operand.kind.isUniform(); }) ? LaneKind::uniform()
                                                                                                     : LaneKind::varying();
}

LaneKind getBinaryKind(ir::BinaryKind op, Type type, const OperandKind &lhs, const OperandKind &rhs) {
  // Strides of 2^31 and more have no use and count as varying.
  auto linear = [](int64_t stride) { return stride == int64_t(int32_t(stride)) ? LaneKind::linear(stride) : LaneKind::varying(); };
  const LaneKind plain = getPlainKind({lhs, rhs});
  if (!isa<IntegerType>(type) || type.isInteger(1) || lhs.kind.isVarying() || rhs.kind.isVarying()) return plain;
  int64_t left = lhs.kind.getStride(), right = rhs.kind.getStride();
  switch (op) {
  case ir::BinaryKind::add: return linear(left + right);
  case ir::BinaryKind::sub: return linear(left - right);
  case ir::BinaryKind::mul:
    if (rhs.constant && *rhs.constant == int32_t(*rhs.constant)) return linear(left * *rhs.constant);
    if (lhs.constant && *lhs.constant == int32_t(*lhs.constant)) return linear(right * *lhs.constant);
    return plain;
  default: return plain;
  }
}

/// Narrowing keeps a linear value linear; widening does not, because the narrow value may wrap between two lanes.
static LaneKind getCastKind(LaneKind operand, Type from, Type to) {
  if (operand.isVarying() || operand.isUniform()) return operand;
  unsigned fromBits = from.getIntOrFloatBitWidth(), toBits = to.getIntOrFloatBitWidth();
  // In fewer than 32 bits the stride changes: it counts modulo the width.
  return isa<IntegerType>(from) && isa<IntegerType>(to) && toBits <= fromBits && toBits >= 32 ? operand : LaneKind::varying();
}

LaneKind getSelectKind(LaneKind condition, LaneKind a, LaneKind b) { return condition.isUniform() ? a.join(b) : LaneKind::varying(); }

LaneKind getChosenKind(bool isIndexUniform, ArrayRef<LaneKind> components) {
  LaneKind joined = isIndexUniform ? LaneKind::unset() : LaneKind::varying();
  for (LaneKind kind : components) joined = joined.join(kind);
  return joined;
}

// The index stays linear only if lane 0 reaches its end last: a lane past its own end continues to count with the others, and nothing is
// known about such lanes once the base wraps around.
LaneKind getIndexKind(LaneKind lower, LaneKind step, std::optional<int64_t> constantStep) {
  if (!step.isUniform()) return LaneKind::varying();
  if (lower.isUniform() || lower.isVarying()) return lower;
  return constantStep && *constantStep != 0 && (*constantStep > 0) == (lower.getStride() > 0) ? lower : LaneKind::varying();
}

bool isElementwise(Operation *op) {
  return isa<ir::UnaryOp, ir::BinaryOp, ir::FmaOp, ir::CastOp, ir::BitCastOp, ir::SelectOp, ir::OverflowsOp>(op);
}

LaneKind getElementwiseKind(Operation *op, ArrayRef<OperandKind> operands) {
  Type from = ir::getScalar(op->getOperand(0).getType()), to = ir::getScalar(op->getResult(0).getType());
  if (auto binary = dyn_cast<ir::BinaryOp>(op)) return getBinaryKind(binary.getBinaryKind(), to, operands[0], operands[1]);
  if (isa<ir::CastOp>(op)) return getCastKind(operands[0].kind, from, to);
  if (isa<ir::SelectOp>(op)) return getSelectKind(operands[0].kind, operands[1].kind, operands[2].kind);
  return getPlainKind(operands);
}

} // namespace qd::codegen
