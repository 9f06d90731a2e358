// launch_exprs.h: numbers of the code that the host can read from the argument block before a launch
#pragma once

#include "artifact/artifact.h"
#include "ir/dialect.h"

namespace qd::passes {

/// The number that a value is before the launch. No steps where the host cannot tell.
artifact::LaunchExpr findLaunchExpr(mlir::Value value);
/// The extent of a container.
artifact::LaunchExpr findExtent(mlir::Value tensor, int64_t axis);
artifact::LaunchExpr makeConstant(int64_t value);
/// Unknown where one of them is, and where it gets long.
artifact::LaunchExpr combine(artifact::LaunchExpr::Step::Kind kind, artifact::LaunchExpr left, const artifact::LaunchExpr &right);
/// More than the stack of the host holds counts as unknown.
artifact::LaunchExpr limitDepth(artifact::LaunchExpr number);

} // namespace qd::passes
