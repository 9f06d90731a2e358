// functions.cpp: what the emitter knows of the functions of a kernel: sizes, work, recursion, and which are called rather than inlined
//
// Large functions with several calls get an LLVM function, so that their code is compiled once. Three kinds of functions are always
// inlined: those that draw random numbers or print, because they need the iteration; those that use the block's threads, because they need
// these; and those with places in memory or containers as arguments, because their addresses are known best at the call.
#include "codegen/llvm/functions.h"

#include <cmath>

using namespace mlir;

namespace qd::codegen {

/// Calls of a function share one LLVM function if inlining would emit more operations than this in total.
constexpr int64_t kInlineTotal = 2500;
/// A smaller function is always inlined: calls cost more than they save.
constexpr int64_t kOutlineSize = 48;
/// Instructions of a mathematical function that is inlined, beside the one operation that it is before.
constexpr int64_t kMathSize = 40;
/// Operations of an update by several lanes, which may meet at one element.
constexpr int64_t kUpdateSize = 64;

int64_t FunctionFacts::getSize(Region &region) {
  // A recursive use of a region that is being measured counts as 1.
  auto [known, isNew] = sizes.try_emplace(&region, 1);
  if (!isNew) return known->second;
  int64_t size = 0;
  for (Operation &op : region.getOps()) {
    size += getSize(&op);
    for (Region &inner : op.getRegions()) size += getSize(inner);
  }
  return sizes[&region] = size;
}

int64_t FunctionFacts::getSize(Operation *op) {
  if (ir::FuncOp callee = calls.lookup(op)) return getSize(callee.getBody());
  int64_t size = op->getNumResults() == 0;
  for (Type type : op->getResultTypes()) size += ir::isValue(type) ? ir::getComponentCount(type) : 1;
  return size;
}

int64_t FunctionFacts::getEmittedSize(Region &region) {
  int64_t count = 0;
  region.walk([&](Operation *op) { count += isa<ir::RandomOp>(op) || ir::isLongFunction(op); });
  return getSize(region) + kMathSize * count;
}

/// Upper bound of an axis' iterations; nothing if unknown.
static std::optional<double> getMaxRounds(ir::ForOp loop, unsigned axis) {
  std::optional<int64_t> lower = ir::findInteger(loop.getLower()[axis]), upper = ir::findInteger(loop.getUpper()[axis]);
  if (lower && upper) return std::abs(double(*upper) - double(*lower));
  unsigned bits = loop.getLower()[axis].getType().getIntOrFloatBitWidth();
  return bits <= 16 ? std::optional(std::exp2(bits)) : std::nullopt;
}

Polling FunctionFacts::getPolling(ir::ForOp loop, unsigned axis) {
  bool isInnermost = axis + 1 == loop.getRank();
  return choosePolling(getMaxRounds(loop, axis), isInnermost ? getWork(loop.getBody()) : getPolling(loop, axis + 1).workBeforePoll);
}

double FunctionFacts::getWork(Region &region) {
  // A recursive use of a region that is being measured counts as 1.
  auto [known, isNew] = works.try_emplace(&region, 1);
  if (!isNew) return known->second;
  double work = 0;
  for (Operation &op : region.getOps()) {
    ir::FuncOp callee = calls.lookup(&op);
    work += callee ? getWork(callee.getBody()) : double(getSize(&op));
    if (auto loop = dyn_cast<ir::ForOp>(op))
      work += getPolling(loop, 0).workBeforePoll;
    else
      for (Region &inner : op.getRegions()) work += getWork(inner);
  }
  return works[&region] = work;
}

bool FunctionFacts::isRecursive(ir::FuncOp function) {
  auto found = recursive.find(function);
  if (found != recursive.end()) return found->second;
  return recursive[function] = calls.contains(function.getBody(), [&](Operation *op) { return calls.lookup(op) == function; });
}

int64_t FunctionFacts::countCopies(ir::FuncOp function) {
  if (!hasLanes) return int64_t(calls.getCalls(function).size());
  auto [known, isNew] = copies.try_emplace(function, 1); // of a recursive function, which is never inlined
  if (!isNew || isRecursive(function)) return known->second;
  int64_t count = 0;
  for (ir::CallOp call : calls.getCalls(function)) {
    auto around = call->getParentOfType<ir::FuncOp>();
    count += around ? countCopies(around) : 1;
  }
  return copies[function] = count;
}

int64_t FunctionFacts::getInlinedSize(Region &region) {
  if (!hasLanes) return getSize(region);
  int64_t size = 0;
  for (Operation &op : region.getOps()) {
    ir::FuncOp callee = calls.lookup(&op);
    size += !callee ? getSize(&op) : isOutlined(callee) ? op.getNumOperands() : getInlinedSize(callee.getBody());
    if (isa<ir::AtomicOp, ir::CompareExchangeOp>(op)) size += kUpdateSize;
    for (Region &inner : op.getRegions()) size += getInlinedSize(inner);
  }
  return size;
}

bool FunctionFacts::isOutlined(ir::FuncOp function) {
  auto [entry, isNew] = outlined.try_emplace(function, false);
  if (!isNew) return entry->second;
  if (isRecursive(function)) return outlined[function] = true;
  int64_t size = getInlinedSize(function.getBody()), count = countCopies(function);
  bool result = size >= kOutlineSize && size * count > kInlineTotal && count > 1 &&
                llvm::none_of(function.getArgumentTypes(), llvm::IsaPred<ir::TensorType>) &&
                !calls.contains(function.getBody(), [](Operation *op) { return isa<ir::RandomOp, ir::PrintOp>(op) || ir::isOfBlock(op); });
  return outlined[function] = result;
}

} // namespace qd::codegen
