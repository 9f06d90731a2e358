// launch_exprs.cpp: build launch expressions from values of the IR
//
// In:   a value, or an axis of a container.
// Out:  steps of a stack machine that compute it from constants and the argument block; no steps if the value is known to the device only.
// Here: the host needs sizes of launches, and the regions that a kernel accesses, before it launches the kernel.
#include "passes/launch_exprs.h"

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

using artifact::LaunchExpr;
using Kind = LaunchExpr::Step::Kind;

/// Sizes of loops are short expressions; longer ones would take the host too long.
constexpr size_t kMaxSteps = 128;

static LaunchExpr makeLeaf(Kind kind, support::ScalarType type, int64_t value) {
  LaunchExpr number;
  number.steps.push_back({kind, type, value});
  return number;
}

LaunchExpr makeConstant(int64_t value) { return makeLeaf(Kind::Constant, support::ScalarType::I64, value); }

LaunchExpr combine(Kind kind, LaunchExpr left, const LaunchExpr &right) {
  if (!left.isKnown() || !right.isKnown() || left.steps.size() + right.steps.size() >= kMaxSteps) return {};
  left.steps.insert(left.steps.end(), right.steps.begin(), right.steps.end());
  left.steps.push_back({kind});
  return left;
}

LaunchExpr limitDepth(LaunchExpr number) {
  size_t depth = 0, deepest = 0;
  for (const LaunchExpr::Step &step : number.steps) {
    depth += step.kind == Kind::Constant || step.kind == Kind::Argument ? 1 : size_t(-1);
    deepest = std::max(deepest, depth);
  }
  return deepest <= LaunchExpr::kMaxDepth ? std::move(number) : LaunchExpr{};
}

std::optional<int64_t> findConstant(const LaunchExpr &number) {
  bool isConstant =
      number.isKnown() && llvm::none_of(number.steps, [](const LaunchExpr::Step &step) { return step.kind == Kind::Argument; });
  return isConstant ? std::optional(number.evaluate(nullptr)) : std::nullopt;
}

LaunchExpr findExtent(Value tensor, int64_t axis) {
  auto type = cast<ir::TensorType>(tensor.getType());
  int64_t extent = type.getExtents()[size_t(axis)];
  if (extent != layout::kDynamic) return makeConstant(extent);
  auto argument = tensor.getDefiningOp<TensorArgumentOp>();
  if (!argument) return {};
  // Dynamic extents follow the address (QdTensorArgument).
  int64_t position = 1 + llvm::count(type.getExtents().take_front(size_t(axis)), layout::kDynamic);
  return makeLeaf(Kind::Argument, support::ScalarType::I64, int64_t(argument.getOffset()) + 8 * position);
}

static std::optional<Kind> findStep(BinaryKind kind) {
  switch (kind) {
  case BinaryKind::add: return Kind::Add;
  case BinaryKind::sub: return Kind::Sub;
  case BinaryKind::mul: return Kind::Mul;
  case BinaryKind::floor_div:
  case BinaryKind::raw_div: return Kind::Div;
  case BinaryKind::min: return Kind::Min;
  case BinaryKind::max: return Kind::Max;
  default: return std::nullopt;
  }
}

/// other + (value - other) * (1 or 0)
static LaunchExpr findChoice(SelectOp select) {
  auto condition = select.getCondition().getDefiningOp<BinaryOp>();
  if (!condition || condition.getBinaryKind() != BinaryKind::lt) return {};
  LaunchExpr distance = combine(Kind::Sub, findLaunchExpr(condition.getRhs()), findLaunchExpr(condition.getLhs()));
  LaunchExpr isLess = combine(Kind::Min, combine(Kind::Max, std::move(distance), makeConstant(0)), makeConstant(1));
  LaunchExpr value = findLaunchExpr(select.getTrueValue()), other = findLaunchExpr(select.getFalseValue());
  return combine(Kind::Add, other, combine(Kind::Mul, combine(Kind::Sub, std::move(value), other), isLess));
}

LaunchExpr findLaunchExpr(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || !isa<IntegerType>(value.getType())) return {};
  if (std::optional<int64_t> constant = findInteger(value)) return makeConstant(*constant);
  if (auto argument = dyn_cast<ArgumentOp>(op)) return makeLeaf(Kind::Argument, getScalarType(argument.getType()), argument.getOffset());
  if (auto extent = dyn_cast<ExtentOp>(op)) return findExtent(extent.getTensor(), extent.getAxis());
  if (auto cast = dyn_cast<CastOp>(op)) return findLaunchExpr(cast.getOperand());
  if (auto select = dyn_cast<SelectOp>(op)) return findChoice(select);
  auto binary = dyn_cast<BinaryOp>(op);
  std::optional<Kind> kind = binary ? findStep(binary.getBinaryKind()) : std::nullopt;
  return kind ? combine(*kind, findLaunchExpr(binary.getLhs()), findLaunchExpr(binary.getRhs())) : LaunchExpr{};
}

} // namespace qd::passes
