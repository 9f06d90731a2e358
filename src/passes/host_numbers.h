// host_numbers.h: numbers of the code that the host can read from the argument block before a launch
#pragma once

#include "artifact/artifact.h"
#include "ir/dialect.h"

namespace qd::passes {

/// The number that a value is before the launch. No steps where the host cannot tell.
artifact::HostNumber findHostNumber(mlir::Value value);
/// The extent of a container.
artifact::HostNumber findExtent(mlir::Value tensor, int64_t axis);
artifact::HostNumber makeConstant(int64_t value);
/// Unknown where one of them is, and where it gets long.
artifact::HostNumber combine(artifact::HostNumber::Step::Kind kind, artifact::HostNumber left, const artifact::HostNumber &right);
/// More than the stack of the host holds counts as unknown.
artifact::HostNumber limitDepth(artifact::HostNumber number);

} // namespace qd::passes
