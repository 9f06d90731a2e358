// gates.h: attributes of the tasks that a launch with checkpoints may skip
#pragma once

#include "ir/dialect.h"

namespace qd::ir {

/// kGate, on a qd.if at the top level and then on its tasks: a number. They run if the variable with the attribute kPosition is not above
/// it. kPosition, on the kernel after split_tasks: the variable's offset in the scratch block.
inline constexpr llvm::StringLiteral kGate = "qd.gate", kPosition = "qd.position";

/// Offset of the position in the scratch block of a task's kernel.
inline uint32_t getPositionSlot(TaskOp task) {
  return uint32_t(task->getParentOfType<KernelOp>()->getAttrOfType<mlir::IntegerAttr>(kPosition).getInt());
}

} // namespace qd::ir
