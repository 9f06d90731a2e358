// attributes.h: attributes that ops may have without declaring them.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace qd::ir {

/// On the operations and tasks of a `with qd.stream_parallel()` block: its number. Tasks of different blocks do not wait for each other.
inline constexpr llvm::StringLiteral kStreamBlock = "qd.stream_block";
/// Of a qd.tensor_argument: an array that shares memory with another one, both of which are updated atomically.
inline constexpr llvm::StringLiteral kOverlaps = "qd.overlaps";

/// What the launch for which a kernel is compiled hands over, of a qd.tensor_argument: the axes with artifact::kManyElements and more
/// (bits), and that an array shares memory with another input, or may share its own elements with each other.
inline constexpr llvm::StringLiteral kManyAxes = "qd.many_axes", kShares = "qd.shares";
/// What launches of a qd.kernel have to be like: offsets of arrays that share memory with no other input; triples of an argument's offset,
/// an axis, and whether it has artifact::kManyElements and more.
inline constexpr llvm::StringLiteral kUnaliased = "qd.unaliased", kExtents = "qd.extents";

/// Of a qd.kernel that is to be differentiated: "forward", "reverse", "replay" or "fused".
inline constexpr llvm::StringLiteral kDerivative = "qd.derivative";

/// Of a qd.tensor_argument in a kernel that is to be differentiated: offset and type of the container of its gradients or tangents.
inline constexpr llvm::StringLiteral kShadow = "qd.shadow";

/// Of the qd.if that ends a loop's body with its only break.
inline constexpr llvm::StringLiteral kLoopExit = "qd.loop_exit";

/// Of a qd.for that goes back through a loop: its number, how many states of the loop are kept at most, and whether these are all of them.
/// Of a qd.local that holds such states: the number.
inline constexpr llvm::StringLiteral kCheckpoints = "qd.checkpoints";

/// Of an operation whose value a derived kernel cannot have again: why.
inline constexpr llvm::StringLiteral kOverwritten = "qd.overwritten";

/// Of a qd.load whose element may be overwritten afterwards: the number of the check that finds out. Of a qd.store and a qd.assert that are
/// part of the check: that number. They have no effect without the load.
inline constexpr llvm::StringLiteral kGuarded = "qd.guarded", kGuards = "qd.guards";

/// Of a qd.load: when the kernel begins, memory holds what is read here.
inline constexpr llvm::StringLiteral kIsEntryValue = "qd.is_entry_value";
/// Of a qd.kernel: offsets of the containers that it reads as they were before the kernel that it is derived from.
inline constexpr llvm::StringLiteral kReadsEntryValues = "qd.reads_entry_values";

/// Of a qd.kernel that runs together with its gradient: offsets of the gradients that it writes without a look at what they were.
inline constexpr llvm::StringLiteral kReplaces = "qd.replaces";

/// Of a qd.assert: it is checked whether or not the kernel is compiled for debugging.
inline constexpr llvm::StringLiteral kAlways = "qd.always";

/// Of a qd.load: memory is read each time, whatever was read before.
inline constexpr llvm::StringLiteral kVolatile = "qd.volatile";

} // namespace qd::ir
