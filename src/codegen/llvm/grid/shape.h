// shape.h: how the iterations of a loop are divided among the threads of a grid
#pragma once

#include "codegen/llvm/tasks.h"

namespace qd::codegen {

/// Bytes of the access to several columns of a row, or at most to several components of an element.
inline constexpr int64_t kBytesOfAccess = 16;

/// Columns of a tile that a subgroup takes at a time: a sector of 4-byte elements.
inline constexpr unsigned kTileColumns = 8;

/// Chosen before anything is emitted.
struct GridShape {
  unsigned lanes = 1;                 ///< iterations that a thread takes at a time
  std::optional<unsigned> rowAxis;    ///< axis along which lanes are neighbors; none: each lane is one block's width after the previous one
  unsigned columns = 1;               ///< of the last axis per thread; more than 1 only with `rowAxis`
  std::optional<unsigned> serialAxis; ///< axis of which a thread takes several iterations one after the other; only with one lane
  unsigned rounds = 1;                ///< so many
  unsigned blockSize = 1;
  /// Groups of rows and columns of a block's tile; 0: a block takes steps along the last axis.
  unsigned tileRows = 0, tileColumns = 0;
  double iterations = 1; ///< a huge number if unknown
  bool isBrief = true;   ///< not more iterations than a large device runs at a time

  /// Steps that a thread takes at a time in strides of the grid; groups of rows and columns are one step.
  unsigned getPerThread() const { return rowAxis ? 1 : lanes; }
  /// Number of iterations along an axis that a thread takes at a time.
  unsigned getGroup(unsigned axis, unsigned rank) const {
    return axis == rowAxis ? lanes : axis == serialAxis ? rounds : axis + 1 == rank ? columns : 1;
  }
  /// Number of steps along an axis that a block takes at a time: their number is rounded up to a multiple of it.
  unsigned getTile(unsigned axis, unsigned rank) const {
    return !tileRows ? 1 : axis == rowAxis ? tileRows : axis + 1 == rank ? tileColumns : 1;
  }
  /// Kinds of the loop's indices between lanes.
  LaneKinds getIndexKinds(ir::ForOp loop) const;
};

GridShape chooseShape(ModuleEmitter &module, ir::ForOp loop, llvm::ArrayRef<Reduction> reductions);
/// Size of a scalar if elements along the last axis are contiguous and rows may all be aligned; 0 otherwise.
int64_t getContiguousSize(ModuleEmitter &module, ir::ElementOp element);

} // namespace qd::codegen
