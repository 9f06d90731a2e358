// index_range.h: the range of an index, from the bounds of the loop that it belongs to
#pragma once

#include "ir/dialect.h"

#include <cstdint>
#include <optional>

namespace qd::passes {

/// `lower <= index < end`, or, with a `tensor`, `lower <= index <` the extent of its `axis` plus `end`.
struct IndexRange {
  int64_t lower = 0, end = 0;
  mlir::Value tensor;
  unsigned axis = 0;
};

/// The range of a constant, or of a loop's index plus or minus constants. It holds for the exact sum; an index that overflows its type is
/// outside of it.
std::optional<IndexRange> findIndexRange(mlir::Value index);

} // namespace qd::passes
