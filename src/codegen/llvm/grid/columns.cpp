// columns.cpp: neighboring columns of a few rows for each thread
//
// Emits the iterations of a thread that takes several columns of its rows; shape.cpp chooses that. One access reads or writes all columns,
// and values that neighbors share are read once. If containers are not aligned, a thread's columns are a quarter of a row apart instead:
// neighboring threads then take neighboring columns, and their accesses still cover whole cache lines.
#include "codegen/llvm/grid/task.h"

#include "llvm/IR/MDBuilder.h"

using namespace mlir;

namespace qd::codegen {

/// Collects the containers whose rows are accessed several columns at a time, and the address and stride bits that must be 0 for that.
void GridTask::findAlignedRows(llvm::Value *&misaligned) {
  llvm::IRBuilder<> &at = body->builder;
  for (ir::ElementOp element : loop.getBody().getOps<ir::ElementOp>()) {
    Value container = element.getTensor();
    if (!getContiguousSize(module, element) || alignedTensors.contains(container)) continue;
    Tensor tensor = body->values.getTensor(container);
    llvm::Value *bits = at.CreatePtrToInt(tensor.data, at.getInt64Ty());
    llvm::SmallVector<llvm::Value *, 4> strides = body->memory.getStrides(tensor);
    for (llvm::Value *stride : llvm::ArrayRef(strides).drop_back()) bits = at.CreateOr(bits, stride);
    bits = at.CreateAnd(bits, at.getInt64(kBytesOfAccess - 1));
    misaligned = misaligned ? at.CreateOr(misaligned, bits) : bits;
    tensor.rowAlignment = kBytesOfAccess;
    alignedTensors[container] = tensor;
  }
}

/// Sets the index of the last axis for one of the thread's columns.
void GridTask::setColumn(llvm::Value *group, llvm::Value *column) {
  llvm::IRBuilder<> &at = body->builder;
  const Axis &axis = axes.back();
  llvm::Type *type = axis.lower.value->getType();
  auto number = [&](uint64_t value) { return llvm::ConstantInt::get(type, value); };
  bool isSigned = axis.type.isSignedInteger();
  llvm::Value *first = at.CreateZExtOrTrunc(group, type), *shift = at.CreateZExtOrTrunc(column, type);
  if (hasAligned)
    first = at.CreateMul(first, number(shape.columns), "", false, isSigned);
  else
    shift = at.CreateMul(at.CreateZExtOrTrunc(getGroups(unsigned(axes.size()) - 1), type), shift, "", false, isSigned);
  body->memory.columns = {hasAligned ? first : nullptr, shape.columns};
  llvm::Value *place = at.CreateAdd(first, at.CreateAdd(axis.lower.value, shift), "", false, isSigned);
  body->values.setValue(loop.getBody().getArgument(loop.getRank() - 1), {{place, LaneKind::uniform()}});
}

/// Alias scopes of the iterations of one thread, column by column.
std::vector<AliasScopes::IterationScopes> GridTask::makeIterationScopes() {
  llvm::MDBuilder metadata(module.ctx);
  llvm::MDNode *domain = metadata.createAnonymousAliasScopeDomain();
  llvm::SmallVector<llvm::Metadata *> scopes;
  for (unsigned i = 0; i < shape.columns * shape.lanes; ++i) scopes.push_back(metadata.createAnonymousAliasScope(domain));
  std::vector<AliasScopes::IterationScopes> result;
  for (size_t i = 0; i < scopes.size(); ++i) {
    llvm::SmallVector<llvm::Metadata *> others(scopes);
    others.erase(others.begin() + ptrdiff_t(i));
    result.push_back({llvm::MDNode::get(module.ctx, {scopes[i]}), llvm::MDNode::get(module.ctx, others)});
  }
  return result;
}

/// Emits the iterations of all columns of a thread: unrolled if it has all columns and all rows, a loop otherwise.
void GridTask::emitColumns(llvm::Value *group, llvm::Value *allRows, llvm::function_ref<void()> emitSomeRows) {
  llvm::IRBuilder<> &at = body->builder;
  llvm::Type *type = group->getType();
  auto number = [&](uint64_t value) { return llvm::ConstantInt::get(type, value); };
  llvm::Value *extent = at.CreateTrunc(axes.back().extent, type);
  llvm::Value *columnDistance = hasAligned ? number(1) : at.CreateTrunc(getGroups(unsigned(axes.size()) - 1), type);
  llvm::Value *first = hasAligned ? at.CreateMul(group, number(shape.columns), "", /*HasNUW=*/true) : group;
  auto getPlace = [&](llvm::Value *column) { return at.CreateAdd(first, at.CreateMul(columnDistance, column)); };
  auto isBegun = [&](llvm::Value *place) { return at.CreateICmpUGE(place, number(idleColumns)); };
  auto isBeforeEnd = [&](llvm::Value *place) { return at.CreateICmpULT(place, extent); };
  llvm::Value *all = at.CreateAnd(isBegun(first), isBeforeEnd(getPlace(number(shape.columns - 1))));
  auto emitAll = [&] {
    std::vector<AliasScopes::IterationScopes> scopes = makeIterationScopes();
    for (unsigned column = 0; column < shape.columns; ++column) {
      module.aliases.iterations.assign(scopes.begin() + column * shape.lanes, scopes.begin() + (column + 1) * shape.lanes);
      setColumn(group, number(column));
      emitBody();
    }
    module.aliases.iterations.clear();
  };
  auto emitOne = [&](llvm::Value *column) {
    llvm::Value *place = getPlace(column);
    body->emitWhen(at.CreateAnd(isBegun(place), isBeforeEnd(place)), "column", [&] {
      setColumn(group, column);
      emitSomeRows();
    });
  };
  body->emitWhen(at.CreateAnd(all, allRows), "columns", emitAll, [&] { body->emitCountedLoop(number(shape.columns), emitOne); });
  body->memory.columns = {};
}

} // namespace qd::codegen
