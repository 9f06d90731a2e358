// values.h: what the emitter stores for a value, a place and a container of the language
#pragma once

#include "codegen/llvm/lane_kind.h"
#include "ir/dialect.h"

#include "llvm/ADT/SmallVector.h"

namespace llvm {
class AllocaInst;
class Value;
} // namespace llvm

namespace qd::codegen {

/// Address spaces of targets with grids; 0 is the generic one.
enum AddressSpace : unsigned { kGlobalMemory = 1, kSharedMemory = 3 };

/// One scalar of a value for all lanes: an LLVM scalar when uniform or linear (then the value in lane 0), a vector when varying.
struct Component {
  llvm::Value *value = nullptr;
  LaneKind kind = LaneKind::uniform();
};
using Components = llvm::SmallVector<Component, 4>;

/// Reorders data of a matrix's components into the order of its transpose.
template <typename List> List getTransposed(const List &from, mlir::VectorType type) {
  List result;
  int64_t rows = type.getDimSize(0), columns = type.getRank() == 2 ? type.getDimSize(1) : 1;
  for (int64_t column = 0; column < columns; ++column)
    for (int64_t row = 0; row < rows; ++row) result.push_back(from[size_t(row * columns + column)]);
  return result;
}

/// A container: its QdTensorArgument, and whether this task has a private copy of its data.
struct Tensor {
  ir::TensorType type;
  llvm::Value *descriptor = nullptr; ///< pointer to the QdTensorArgument
  llvm::Value *data = nullptr;
  int scope = -1;           ///< alias scope (ModuleEmitter::getAliasScope); -1: unknown
  bool isPrivate = false;   ///< no other thread accesses the data: atomics need not be atomic
  bool isShared = false;    ///< the data lie in the shared memory of a block
  int64_t alignment = 0;    ///< every element lies at a multiple of this many bytes, and has that size; 0: unknown
  int64_t rowAlignment = 0; ///< the data and all strides but the last are multiples of this many bytes; 0: unknown
};

/// Memory of a local: one slot per component, or one array when there are many components.
struct LocalStorage {
  llvm::SmallVector<llvm::Value *, 4> slots; ///< pointers
  llvm::SmallVector<LaneKind, 4> kinds;
  llvm::AllocaInst *array = nullptr;
};

/// A place. Locals: one component or all components of a storage. Memory: the address in lane 0 and how the other lanes' addresses follow.
struct Place {
  mlir::Type pointee;
  // Locals.
  const LocalStorage *local = nullptr;
  int component = -1;       ///< -1: all components, or the one that `chosen` selects
  Component chosen;         ///< index of the component at run time; unset if `chosen.value` is null
  bool isReference = false; ///< a local of a caller: inactive lanes may see it, so stores are always masked
  // Memory.
  llvm::Value *base = nullptr;          ///< scalar pointer; the address in lane 0 unless varying
  LaneKind lanes = LaneKind::uniform(); ///< linear: distance between lanes in bytes
  llvm::Value *offsets = nullptr;       ///< varying: byte offsets to add to the base, <W x i32> or <W x i64>
  int64_t componentStride = 0;
  int scope = -1;
  bool isPrivate = false;
  bool isVolatile = false; ///< loads are volatile; with one lane only
  bool isShared = false;
  int64_t alignment = 0; ///< alignment of the element, if this is a whole one; 0: that of a scalar
  int64_t multiple = 0;  ///< the address is a multiple of this many bytes in all lanes; 0: of a scalar's size
  /// The same lane addresses in row form, if the lanes are rows whose stride is known at launch only: lane i is at rows + (firstRow + i *
  /// rowStep) * rowStride + rowBytes. LLVM then sees the computation that rows share. Null: lanes are no rows.
  llvm::Value *rows = nullptr, *rowStride = nullptr;
  int64_t firstRow = 0, rowStep = 0, rowBytes = 0;
};

} // namespace qd::codegen
