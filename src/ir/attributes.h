// attributes.h: discardable attributes of operations
#pragma once

#include "llvm/ADT/StringRef.h"

namespace qd::ir {

/// On operations and tasks of a `with qd.stream_parallel()` block, and of a section of a parallel context: its number, an i64, with that of
/// the context in the upper half (0: none). Tasks of different blocks of one context do not wait for each other.
inline constexpr llvm::StringLiteral kStreamBlock = "qd.stream_block";
/// On a qd.tensor_argument: the array shares memory with another array, and both are updated atomically.
inline constexpr llvm::StringLiteral kOverlaps = "qd.overlaps";

/// On a qd.tensor_argument, facts about the launch that caused the compilation. kManyAxes: bit set of the axes with at least
/// artifact::kManyElements elements. kShares: the array shares memory with another input, or two of its elements may share memory.
inline constexpr llvm::StringLiteral kManyAxes = "qd.many_axes", kShares = "qd.shares";
/// On a qd.tensor_argument: the rows of the packed array had so few elements at the launch that caused the compilation, an i64. Others may
/// have more.
inline constexpr llvm::StringLiteral kRowLength = "qd.row_length";
/// On a qd.tensor_argument: so many bytes before its memory and after it may be read, an i64.
inline constexpr llvm::StringLiteral kMargin = "qd.margin";
/// On a qd.tensor_argument: it is memory of the launch with the extents of the container whose argument is at this offset, an i32.
inline constexpr llvm::StringLiteral kExtentsOf = "qd.extents_of";
/// On the module: strides of array arguments may need more than 32 bits.
inline constexpr llvm::StringLiteral kWideStrides = "qd.wide_strides";
/// On a qd.kernel, guards of its launches. kUnaliased: argument offsets of arrays that share memory with no other input. kExtents: triples
/// of an argument's offset, an axis, and whether the axis has at least artifact::kManyElements elements.
inline constexpr llvm::StringLiteral kUnaliased = "qd.unaliased", kExtents = "qd.extents";

/// On a qd.kernel that is to be differentiated: "forward", "reverse", "replay" or "fused".
inline constexpr llvm::StringLiteral kDerivative = "qd.derivative";

/// On a qd.tensor_argument of a kernel that is to be differentiated: the shadow's offset, its type, and whether the shadow is an unaliased
/// field.
inline constexpr llvm::StringLiteral kShadow = "qd.shadow";

/// On the qd.if that ends a loop's body and holds the loop's only break.
inline constexpr llvm::StringLiteral kLoopExit = "qd.loop_exit";

/// On a qd.for that runs a loop's iterations in reverse: the loop's number, the maximum number of checkpoints, and whether every iteration
/// has its own checkpoint. On a qd.local that stores such checkpoints: the loop's number.
inline constexpr llvm::StringLiteral kCheckpoints = "qd.checkpoints";

/// On an operation whose value a derived kernel cannot recompute: the reason, as text.
inline constexpr llvm::StringLiteral kOverwritten = "qd.overwritten";

/// kGuarded, on a qd.load whose element may be overwritten afterwards: the number of the check that detects it. kGuards, on the qd.store
/// and qd.assert operations of that check: the same number. The check is dead when the load is.
inline constexpr llvm::StringLiteral kGuarded = "qd.guarded", kGuards = "qd.guards";

/// On an operation of a kernel's body that gradient kernels repeat as it is, with its writes: it prepares what a loop reads.
inline constexpr llvm::StringLiteral kPrepares = "qd.prepares";

/// On a qd.load: it reads the entry value.
inline constexpr llvm::StringLiteral kIsEntryValue = "qd.is_entry_value";
/// On a derived qd.kernel: argument offsets of the containers whose values from before the original kernel it reads.
inline constexpr llvm::StringLiteral kReadsEntryValues = "qd.reads_entry_values";

/// On a derived qd.kernel: container and location of a load whose element it takes to be another one than those that are overwritten later.
inline constexpr llvm::StringLiteral kAssumesDistinct = "qd.assumes_distinct";

/// On a qd.kernel fused with its gradient: argument offsets of the gradients that it overwrites without reading them.
inline constexpr llvm::StringLiteral kReplaces = "qd.replaces";

/// On a parallel qd.for: each iteration adds a part of a sum to an element, so that private copies of the container would not pay.
inline constexpr llvm::StringLiteral kAddsParts = "qd.adds_parts";

/// On a qd.for inside a parallel one: its iterations may run in lanes, which reach neighbors. On the parallel one: such loops do its work.
inline constexpr llvm::StringLiteral kRows = "qd.rows";

/// On a row, beside kRows: it is a part of one, with others before or behind it.
inline constexpr llvm::StringLiteral kPartOfRow = "qd.part_of_row";

/// kLanes, on a qd.for: its iterations run in lanes inside of code with one lane. kCompacts, on a qd.store in it: its place is at a
/// counter, and the lanes that store take places side by side; or it advances a counter, by as many places.
inline constexpr llvm::StringLiteral kLanes = "qd.lanes", kCompacts = "qd.compacts";
/// On a qd.for: its stores at a counter may change what is behind that place, up to as many elements as the loop has iterations.
inline constexpr llvm::StringLiteral kClobbers = "qd.clobbers";

/// On a qd.assert: it is checked also without debug mode.
inline constexpr llvm::StringLiteral kAlways = "qd.always";

/// On a qd.element of a sparse field that is written: its indices are checked also without debug mode.
inline constexpr llvm::StringLiteral kChecked = "qd.checked";

/// On a qd.load of an element of a list: elements with different indices are different.
inline constexpr llvm::StringLiteral kDistinct = "qd.distinct";

/// On a parallel qd.for: how many of its blocks a multiprocessor should have room for, which limits the registers of a thread.
inline constexpr llvm::StringLiteral kResidentBlocks = "qd.resident_blocks";
/// On a parallel qd.for: the most registers of a thread, and the most blocks of its grid, as i32; the grid has no more blocks than run at a
/// time.
inline constexpr llvm::StringLiteral kMaxRegisters = "qd.max_registers", kGridSize = "qd.grid_size", kPersistent = "qd.persistent";

/// On a qd.block: the number of threads that a block has to have, an i32. Only up to qd-check-barriers.
inline constexpr llvm::StringLiteral kRequired = "qd.required";

/// On a parallel qd.for: the largest number of iterations that it can have, an i64.
inline constexpr llvm::StringLiteral kMostIterations = "qd.most_iterations";

/// On a qd.store of a loaded value: threads need not wait for the load before the next qd.fence with the same attribute.
inline constexpr llvm::StringLiteral kAsync = "qd.async";

/// On a qd.load: memory is read each time, also after an earlier read of the same place.
inline constexpr llvm::StringLiteral kVolatile = "qd.volatile";

} // namespace qd::ir
