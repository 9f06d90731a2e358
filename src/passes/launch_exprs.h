// launch_exprs.h: launch expressions, numbers that the host computes from the argument block before a launch
#pragma once

#include "artifact/artifact.h"
#include "ir/dialect.h"

namespace qd::passes {

/// The launch expression of a value; it has no steps if the host cannot compute the value.
artifact::LaunchExpr findLaunchExpr(mlir::Value value);
/// The number that a launch expression always gives; none if it depends on arguments or is unknown.
std::optional<int64_t> findConstant(const artifact::LaunchExpr &number);
/// The launch expression of a container's extent.
artifact::LaunchExpr findExtent(mlir::Value tensor, int64_t axis);
artifact::LaunchExpr makeConstant(int64_t value);
/// Unknown if an operand is unknown, or if the expression gets too long.
artifact::LaunchExpr combine(artifact::LaunchExpr::Step::Kind kind, artifact::LaunchExpr left, const artifact::LaunchExpr &right);
/// Unknown if the expression needs a deeper stack than the host's evaluator has.
artifact::LaunchExpr limitDepth(artifact::LaunchExpr number);

} // namespace qd::passes
