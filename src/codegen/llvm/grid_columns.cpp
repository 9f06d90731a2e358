// grid_columns.cpp: neighboring columns of a few rows for each thread
//
// For loops over several axes whose bodies access containers only at constant offsets from their own index. A thread takes four columns of
// its rows: one access reads or writes all of them, and values that neighbors share are read once. If containers are not aligned, a
// thread's columns are a quarter of a row apart instead: neighboring threads then take neighboring columns, and their accesses still cover
// whole cache lines.
#include "codegen/llvm/grid.h"

#include "llvm/IR/MDBuilder.h"

using namespace mlir;

namespace qd::codegen {

/// Bytes of one access.
constexpr int64_t kBytesOfAccess = 16;
/// Larger bodies are not repeated for each column.
constexpr int64_t kColumnBody = 48;
/// Shorter rows would leave too many threads without a column.
constexpr int64_t kRowOfColumns = 1024;

/// Whether an index is the loop's index plus a constant.
static bool isShifted(Value index, BlockArgument of) {
  while (auto sum = index.getDefiningOp<ir::BinaryOp>()) {
    if (sum.getBinaryKind() != ir::BinaryKind::add && sum.getBinaryKind() != ir::BinaryKind::sub) return false;
    bool constantRight = sum.getRhs().getDefiningOp<ir::ConstantOp>();
    if (!constantRight && (sum.getBinaryKind() == ir::BinaryKind::sub || !sum.getLhs().getDefiningOp<ir::ConstantOp>())) return false;
    index = constantRight ? sum.getLhs() : sum.getRhs();
  }
  return index == of;
}

/// Whether a value in the loop's body is computed from an index.
static bool dependsOn(Value value, BlockArgument index) {
  if (value == index) return true;
  Operation *op = value.getDefiningOp();
  return op && op->getBlock() == index.getOwner() && llvm::any_of(op->getOperands(), [&](Value part) { return dependsOn(part, index); });
}

/// Size of a scalar if elements along the last axis are contiguous and rows may all be aligned; 0 otherwise.
static int64_t getContiguousSize(ModuleEmitter &module, ir::ElementOp element) {
  auto type = cast<ir::TensorType>(element.getTensor().getType());
  int64_t size = module.getByteSize(ir::getScalar(type.getElement()));
  bool isPlain = element.getTensor().getDefiningOp<ir::TensorArgumentOp>() && type.getRank() > 0 && ir::getTilings(type).empty();
  if (!isPlain || ir::getComponentCount(type.getElement()) != 1) return 0;
  auto mayBeAligned = [](int64_t bytes) { return bytes == layout::kDynamic || bytes % kBytesOfAccess == 0; };
  int64_t columns = type.getExtents().back();
  if (type.isPacked()) return type.getRank() == 1 || columns == layout::kDynamic || mayBeAligned(columns * size) ? size : 0;
  return type.getStrides().back() == size && llvm::all_of(type.getStrides().drop_back(), mayBeAligned) ? size : 0;
}

/// Number of columns per thread: as many as one access holds, if all accesses are at constant offsets from the index; 1 otherwise.
unsigned GridTask::countColumns() {
  unsigned last = loop.getRank() - 1;
  BlockArgument index = loop.getBody().getArgument(last);
  if (module.options.lanes || module.getSize(loop.getBody()) > kColumnBody || findStep(loop, last) != 1 || !findLower(loop, last)) return 1;
  if (findRounds(loop, last).value_or(kRowOfColumns) < kRowOfColumns) return 1;
  int64_t widest = 0;
  for (ir::ElementOp element : loop.getBody().getOps<ir::ElementOp>()) {
    if (llvm::none_of(element.getIndices(), [&](Value part) { return dependsOn(part, index); })) continue;
    int64_t size = getContiguousSize(module, element);
    bool isAround = isShifted(element.getIndices().back(), index) &&
                    llvm::none_of(element.getIndices().drop_back(), [&](Value part) { return dependsOn(part, index); });
    if (!size || !isAround) return 1;
    widest = std::max(widest, size);
  }
  return widest >= 4 ? unsigned(kBytesOfAccess / widest) : 1;
}

/// Collects the containers whose rows are accessed several columns at a time, and the address and stride bits that must be 0 for that.
void GridTask::findAlignedRows(llvm::Value *&misaligned) {
  llvm::IRBuilder<> &at = body->builder;
  for (ir::ElementOp element : loop.getBody().getOps<ir::ElementOp>()) {
    Value container = element.getTensor();
    if (!getContiguousSize(module, element) || alignedTensors.contains(container)) continue;
    Tensor tensor = body->getTensor(container);
    llvm::Value *bits = at.CreatePtrToInt(tensor.data, at.getInt64Ty());
    llvm::SmallVector<llvm::Value *, 4> strides = body->getStrides(tensor);
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
    first = at.CreateMul(first, number(columns), "", false, isSigned);
  else
    shift = at.CreateMul(at.CreateZExtOrTrunc(getGroups(unsigned(axes.size()) - 1), type), shift, "", false, isSigned);
  body->firstColumn = hasAligned ? first : nullptr;
  body->columns = columns;
  llvm::Value *place = at.CreateAdd(first, at.CreateAdd(axis.lower.value, shift), "", false, isSigned);
  body->setValue(loop.getBody().getArgument(loop.getRank() - 1), {{place, LaneKind::uniform()}});
}

/// Alias scopes of the iterations of one thread, column by column.
std::vector<ModuleEmitter::IterationScopes> GridTask::makeIterationScopes() {
  llvm::MDBuilder metadata(module.ctx);
  llvm::MDNode *domain = metadata.createAnonymousAliasScopeDomain();
  llvm::SmallVector<llvm::Metadata *> scopes;
  for (unsigned i = 0; i < columns * lanes; ++i) scopes.push_back(metadata.createAnonymousAliasScope(domain));
  std::vector<ModuleEmitter::IterationScopes> result;
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
  llvm::Value *first = hasAligned ? at.CreateMul(group, number(columns), "", /*HasNUW=*/true) : group;
  auto getPlace = [&](llvm::Value *column) { return at.CreateAdd(first, at.CreateMul(columnDistance, column)); };
  auto isBegun = [&](llvm::Value *place) { return at.CreateICmpUGE(place, number(idleColumns)); };
  auto isBeforeEnd = [&](llvm::Value *place) { return at.CreateICmpULT(place, extent); };
  llvm::Value *all = at.CreateAnd(isBegun(first), isBeforeEnd(getPlace(number(columns - 1))));
  auto emitAll = [&] {
    std::vector<ModuleEmitter::IterationScopes> scopes = makeIterationScopes();
    for (unsigned column = 0; column < columns; ++column) {
      module.iterations.assign(scopes.begin() + column * lanes, scopes.begin() + (column + 1) * lanes);
      setColumn(group, number(column));
      emitBody();
    }
    module.iterations.clear();
  };
  auto emitOne = [&](llvm::Value *column) {
    llvm::Value *place = getPlace(column);
    body->emitWhen(at.CreateAnd(isBegun(place), isBeforeEnd(place)), "column", [&] {
      setColumn(group, column);
      emitSomeRows();
    });
  };
  body->emitWhen(at.CreateAnd(all, allRows), "columns", emitAll, [&] { body->emitCountedLoop(number(columns), emitOne); });
  body->firstColumn = nullptr;
}

} // namespace qd::codegen
