// short_rows.cpp: finds arrays whose rows are as short as structs
//
// In:   a parallel loop, and the arrays that had short rows at the launch that caused the compilation, such as positions of shape (n, 3) or
//       images of shape (height, width, 3).
// Out:  those of which neighboring lanes reach neighboring rows. ParallelTask::emit makes a version for rows of that length, in which the
//       distance of the lanes is a constant, so that they need no gathers; launches with other rows run the general version.
#include "codegen/llvm/cpu/task.h"
#include "ir/attributes.h"
#include "ir/memory.h"

using namespace mlir;

namespace qd::codegen {

void findShortRows(ir::ForOp loop, LoopSchedule &schedule) {
  mlir::Value own = loop.getBody().getArguments().back();
  loop.getBody().walk([&](ir::ElementOp element) {
    ir::TensorArgumentOp container = ir::findContainer(element);
    if (!container || !container->hasAttr(ir::kRowLength) || llvm::is_contained(schedule.shortRows, container)) return;
    mlir::Value row = element.getIndices().drop_back().back();
    if (ir::isShifted(row, own) && element.getIndices().back() != own) schedule.shortRows.push_back(container);
  });
}

llvm::Value *areAsShort(BodyEmitter &body, const LoopSchedule &schedule) {
  llvm::IRBuilder<> &builder = body.builder;
  llvm::Value *all = builder.getTrue();
  for (ir::TensorArgumentOp container : schedule.shortRows) {
    Tensor tensor = body.values.getTensor(container);
    const int64_t expected = container->getAttrOfType<IntegerAttr>(ir::kRowLength).getInt();
    llvm::Value *length = body.memory.getExtent(tensor, tensor.type.getRank() - 1);
    all = builder.CreateAnd(all, builder.CreateICmpEQ(length, builder.getInt64(uint64_t(expected))));
  }
  return all;
}

} // namespace qd::codegen
