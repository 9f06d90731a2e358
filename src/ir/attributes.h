// attributes.h: attributes that ops may have without declaring them.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace qd::ir {

/// Of a qd.tensor_argument: an array that shares memory with another one, both of which are updated atomically.
inline constexpr llvm::StringLiteral kOverlaps = "qd.overlaps";

} // namespace qd::ir
