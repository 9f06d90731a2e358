// launch_exprs.cpp: builds the launch expressions of a grid: numbers of iterations and bytes, computed from the argument block
//
// In:   the bounds of a loop, as IR values.
// Out:  postfix expressions that the host evaluates, or an unknown one.
#include "passes/launch_exprs.h"
#include "codegen/llvm/grid/task.h"

using namespace mlir;

namespace qd::codegen {

using artifact::LaunchExpr;
using Kind = LaunchExpr::Step::Kind;
using passes::combine, passes::findConstant, passes::findExtent, passes::findLaunchExpr, passes::limitDepth, passes::makeConstant;

static LaunchExpr countRounds(ir::ForOp loop, unsigned axis) {
  LaunchExpr length = combine(Kind::Sub, findLaunchExpr(loop.getUpper()[axis]), findLaunchExpr(loop.getLower()[axis]));
  if (!loop.getStep().empty()) {
    // Rounds up for steps of either sign: -floor(-length / step).
    LaunchExpr rounds = combine(Kind::Div, combine(Kind::Sub, makeConstant(0), length), findLaunchExpr(loop.getStep()[axis]));
    length = combine(Kind::Sub, makeConstant(0), rounds);
  }
  return combine(Kind::Max, makeConstant(0), length);
}

std::optional<int64_t> findRounds(ir::ForOp loop, unsigned axis) { return findConstant(limitDepth(countRounds(loop, axis))); }

std::optional<int64_t> findLower(ir::ForOp loop, unsigned axis) { return findConstant(findLaunchExpr(loop.getLower()[axis])); }

LaunchExpr countIterations(ir::ForOp loop, const GridShape &shape) {
  LaunchExpr product = makeConstant(1), all = product;
  for (unsigned axis = 0; axis < loop.getRank(); ++axis) {
    LaunchExpr rounds = countRounds(loop, axis);
    all = combine(Kind::Mul, all, rounds);
    unsigned group = shape.getGroup(axis, loop.getRank()), tile = shape.getTile(axis, loop.getRank());
    if (unsigned steps = group * tile; steps > 1)
      rounds = combine(Kind::Div, combine(Kind::Add, rounds, makeConstant(steps - 1)), makeConstant(steps));
    if (tile > 1) rounds = combine(Kind::Mul, rounds, makeConstant(tile));
    product = combine(Kind::Mul, product, rounds);
  }
  if (!mayHaveTooManyIterations(loop)) return limitDepth(std::move(product));
  // INT64_MAX if there are too many iterations: products saturate there.
  LaunchExpr maximum = makeConstant(INT64_MAX), tooMany = combine(Kind::Mul, combine(Kind::Div, all, maximum), maximum);
  return limitDepth(combine(Kind::Max, product, tooMany));
}

LaunchExpr countBytes(ArrayRef<Value> tensors, ModuleEmitter &module) {
  LaunchExpr sum;
  for (Value tensor : tensors) {
    auto type = cast<ir::TensorType>(tensor.getType());
    LaunchExpr bytes = makeConstant(ir::getComponentCount(type.getElement()) * module.getByteSize(ir::getScalar(type.getElement())));
    for (int64_t axis = 0; axis < type.getRank(); ++axis) bytes = combine(Kind::Mul, bytes, findExtent(tensor, axis));
    // Each copy starts at a multiple of 8 bytes.
    bytes = combine(Kind::Mul, combine(Kind::Div, combine(Kind::Add, bytes, makeConstant(7)), makeConstant(8)), makeConstant(8));
    sum = tensor == tensors.front() ? bytes : combine(Kind::Add, sum, bytes);
  }
  return limitDepth(std::move(sum));
}

} // namespace qd::codegen
