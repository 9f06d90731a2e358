// index_range.h: what the loops around an index say about it
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

/// The range of a constant, or of a loop's variable plus or minus constants. Holds for the exact number: where that does not fit the type,
/// the index is another one.
std::optional<IndexRange> findIndexRange(mlir::Value index);

} // namespace qd::passes
