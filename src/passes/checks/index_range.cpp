// index_range.cpp: find the range of an index from constants and loop bounds
//
// In:   an index of an element or component, or a sum.
// Out:  its range, if it is a constant or a loop index plus or minus constants.
// Here: the bounds and overflow checks omit what the range proves.
#include "passes/checks/index_range.h"

#include "ir/memory.h"

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

/// `value` without the constants that are added to it, and their sum. Only for signed integers: a negative unsigned sum would wrap.
static std::pair<Value, int64_t> splitSum(Value value) {
  int64_t sum = 0;
  auto type = dyn_cast<IntegerType>(value.getType());
  if (!type || !type.isSigned() || type.getWidth() < 32) return {value, 0};
  while (std::optional<ConstantSum> split = splitConstant(value)) {
    if (split->constant != int32_t(split->constant)) break;
    sum += split->constant;
    value = split->rest;
  }
  return {value, sum};
}

std::optional<IndexRange> findIndexRange(Value index) {
  auto [base, shift] = splitSum(index);
  if (auto constant = findInteger(base)) return IndexRange{*constant + shift, *constant + shift + 1, {}};
  auto argument = dyn_cast<BlockArgument>(base);
  auto loop = argument ? dyn_cast<ForOp>(argument.getOwner()->getParentOp()) : ForOp();
  if (!loop || !loop.getStep().empty()) return std::nullopt;
  std::optional<int64_t> lower = findInteger(loop.getLower()[argument.getArgNumber()]);
  auto [end, endShift] = splitSum(loop.getUpper()[argument.getArgNumber()]);
  if (!lower) return std::nullopt;
  if (auto extent = end.getDefiningOp<ExtentOp>())
    return IndexRange{*lower + shift, endShift + shift, extent.getTensor(), unsigned(extent.getAxis())};
  if (auto constant = findInteger(end)) return IndexRange{*lower + shift, *constant + endShift + shift, {}};
  return std::nullopt;
}

} // namespace qd::passes
