// host_numbers.cpp: sizes that the host reads from the argument block
#include "codegen/llvm/grid.h"

using namespace mlir;

namespace qd::codegen {

using artifact::HostNumber;
using Kind = HostNumber::Step::Kind;

/// Sizes of loops are short expressions; longer ones are not worth the host's time.
constexpr size_t kMostSteps = 64;

static HostNumber makeLeaf(Kind kind, support::ScalarType type, int64_t value) {
  HostNumber number;
  number.steps.push_back({kind, type, value});
  return number;
}

static HostNumber makeConstant(int64_t value) { return makeLeaf(Kind::Constant, support::ScalarType::I64, value); }

static HostNumber combine(Kind kind, HostNumber left, const HostNumber &right) {
  if (!left.isKnown() || !right.isKnown() || left.steps.size() + right.steps.size() >= kMostSteps) return {};
  left.steps.insert(left.steps.end(), right.steps.begin(), right.steps.end());
  left.steps.push_back({kind});
  return left;
}

/// More than the stack of the host holds counts as unknown.
static HostNumber limitDepth(HostNumber number) {
  size_t depth = 0, deepest = 0;
  for (const HostNumber::Step &step : number.steps) {
    depth += step.kind == Kind::Constant || step.kind == Kind::Argument ? 1 : size_t(-1);
    deepest = std::max(deepest, depth);
  }
  return deepest <= HostNumber::kDeepest ? std::move(number) : HostNumber{};
}

static HostNumber findExtent(Value tensor, int64_t axis) {
  auto type = cast<ir::TensorType>(tensor.getType());
  int64_t extent = type.getExtents()[size_t(axis)];
  if (extent != layout::kDynamic) return makeConstant(extent);
  auto argument = tensor.getDefiningOp<ir::TensorArgumentOp>();
  if (!argument) return {};
  // Behind the address, one after the other (QdTensorArgument).
  int64_t position = 1 + llvm::count(type.getExtents().take_front(size_t(axis)), layout::kDynamic);
  return makeLeaf(Kind::Argument, support::ScalarType::I64, int64_t(argument.getOffset()) + 8 * position);
}

static std::optional<Kind> findKind(ir::BinaryKind kind) {
  switch (kind) {
  case ir::BinaryKind::add: return Kind::Add;
  case ir::BinaryKind::sub: return Kind::Sub;
  case ir::BinaryKind::mul: return Kind::Mul;
  case ir::BinaryKind::floor_div:
  case ir::BinaryKind::raw_div: return Kind::Div;
  case ir::BinaryKind::min: return Kind::Min;
  case ir::BinaryKind::max: return Kind::Max;
  default: return std::nullopt;
  }
}

HostNumber findHostNumber(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || !isa<IntegerType>(value.getType())) return {};
  if (std::optional<int64_t> constant = ir::findInteger(value)) return makeConstant(*constant);
  if (auto argument = dyn_cast<ir::ArgumentOp>(op))
    return makeLeaf(Kind::Argument, ir::getScalarType(argument.getType()), argument.getOffset());
  if (auto extent = dyn_cast<ir::ExtentOp>(op)) return findExtent(extent.getTensor(), extent.getAxis());
  if (auto cast = dyn_cast<ir::CastOp>(op)) return findHostNumber(cast.getOperand());
  auto binary = dyn_cast<ir::BinaryOp>(op);
  std::optional<Kind> kind = binary ? findKind(binary.getBinaryKind()) : std::nullopt;
  return kind ? combine(*kind, findHostNumber(binary.getLhs()), findHostNumber(binary.getRhs())) : HostNumber{};
}

static HostNumber countRounds(ir::ForOp loop, unsigned axis) {
  HostNumber length = combine(Kind::Sub, findHostNumber(loop.getUpper()[axis]), findHostNumber(loop.getLower()[axis]));
  if (!loop.getStep().empty()) {
    // Up or down: -floor(-length / step).
    HostNumber rounds = combine(Kind::Div, combine(Kind::Sub, makeConstant(0), length), findHostNumber(loop.getStep()[axis]));
    length = combine(Kind::Sub, makeConstant(0), rounds);
  }
  return combine(Kind::Max, makeConstant(0), length);
}

std::optional<int64_t> findRounds(ir::ForOp loop, unsigned axis) {
  HostNumber rounds = limitDepth(countRounds(loop, axis));
  bool isConstant =
      rounds.isKnown() && llvm::none_of(rounds.steps, [](const HostNumber::Step &step) { return step.kind == Kind::Argument; });
  return isConstant ? std::optional(rounds.evaluate(nullptr)) : std::nullopt;
}

HostNumber countIterations(ir::ForOp loop, std::optional<unsigned> rowAxis, unsigned rows) {
  HostNumber product = makeConstant(1);
  for (unsigned axis = 0; axis < loop.getRank(); ++axis) {
    HostNumber rounds = countRounds(loop, axis);
    if (axis == rowAxis) rounds = combine(Kind::Div, combine(Kind::Add, rounds, makeConstant(rows - 1)), makeConstant(rows));
    product = combine(Kind::Mul, product, rounds);
  }
  return limitDepth(std::move(product));
}

HostNumber countBytes(ArrayRef<Value> tensors, ModuleEmitter &module) {
  HostNumber sum;
  for (Value tensor : tensors) {
    auto type = cast<ir::TensorType>(tensor.getType());
    HostNumber bytes = makeConstant(ir::getComponentCount(type.getElement()) * module.getByteSize(ir::getScalar(type.getElement())));
    for (int64_t axis = 0; axis < type.getRank(); ++axis) bytes = combine(Kind::Mul, bytes, findExtent(tensor, axis));
    // Each begins at a multiple of 8 bytes.
    bytes = combine(Kind::Mul, combine(Kind::Div, combine(Kind::Add, bytes, makeConstant(7)), makeConstant(8)), makeConstant(8));
    sum = tensor == tensors.front() ? bytes : combine(Kind::Add, sum, bytes);
  }
  return limitDepth(std::move(sum));
}

} // namespace qd::codegen
