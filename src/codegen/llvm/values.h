// values.h: what the emitter keeps for a value, a place and a container of the language
#pragma once

#include "codegen/llvm/lane_kind.h"
#include "ir/dialect.h"

#include "llvm/ADT/SmallVector.h"

namespace llvm {
class AllocaInst;
class Value;
} // namespace llvm

namespace qd::codegen {

/// Address spaces of targets with grids; 0 is any of them.
enum AddressSpace : unsigned { kGlobalMemory = 1, kSharedMemory = 3 };

/// One scalar of a value for all lanes: an LLVM scalar when uniform or linear (then the value in lane 0), a vector when varying.
struct Component {
  llvm::Value *value = nullptr;
  LaneKind kind = LaneKind::uniform();
};
using Components = llvm::SmallVector<Component, 4>;

/// What stands for the components of a matrix, for those of its transpose.
template <typename List> List getTransposed(const List &from, mlir::VectorType type) {
  List result;
  int64_t rows = type.getDimSize(0), columns = type.getRank() == 2 ? type.getDimSize(1) : 1;
  for (int64_t column = 0; column < columns; ++column)
    for (int64_t row = 0; row < rows; ++row) result.push_back(from[size_t(row * columns + column)]);
  return result;
}

/// A container: its QdTensorArgument, and whether this task keeps a private copy of its data.
struct Tensor {
  ir::TensorType type;
  llvm::Value *descriptor = nullptr; ///< pointer to the QdTensorArgument
  llvm::Value *data = nullptr;
  int scope = -1;           ///< alias scope (ModuleEmitter::getAliasScope); -1: unknown
  bool isPrivate = false;   ///< nobody else touches the data: atomics need not be atomic
  bool isShared = false;    ///< the data lie in the memory of a block of threads
  int64_t alignment = 0;    ///< bytes of a whole element, when every element lies at a multiple of them; 0: that is not known
  int64_t rowAlignment = 0; ///< bytes of which the data and all strides but the last are multiples; 0: that is not known
};

/// Where a local lives: one slot per component; with many components they are the elements of one array.
struct LocalStorage {
  llvm::SmallVector<llvm::Value *, 4> slots; ///< pointers
  llvm::SmallVector<LaneKind, 4> kinds;
  llvm::AllocaInst *array = nullptr;
};

/// A place. Locals: a component (or all) of a storage. Memory: an address in lane 0 and how it goes on in the other lanes.
struct Place {
  mlir::Type pointee;
  // Locals.
  const LocalStorage *local = nullptr;
  int component = -1;       ///< -1: all, or chosen by `chosen`
  Component chosen;         ///< index of the component at run time, when `chosen.value` is set
  bool isReference = false; ///< a local of a caller: lanes that are not active here may see it, so that stores are always masked
  // Memory.
  llvm::Value *base = nullptr;          ///< scalar pointer; the address in lane 0 unless varying
  LaneKind lanes = LaneKind::uniform(); ///< linear: bytes from lane to lane
  llvm::Value *offsets = nullptr;       ///< varying: byte offsets to add to the base, <W x i32> or <W x i64>
  int64_t componentStride = 0;
  int scope = -1;
  bool isPrivate = false;
  bool isVolatile = false; ///< for loads; with one lane only
  bool isShared = false;
  int64_t alignment = 0; ///< of the whole element that this is; 0: that of a scalar
  int64_t multiple = 0;  ///< bytes of which the address is a multiple in all lanes; 0: those of a scalar
  /// Lanes that are rows at a stride which only the launch knows, said again: lane i is at rows + (firstRow + i * rowStep) * rowStride +
  /// rowBytes, where LLVM sees what rows have in common. Null: lanes are something else.
  llvm::Value *rows = nullptr, *rowStride = nullptr;
  int64_t firstRow = 0, rowStep = 0, rowBytes = 0;
};

} // namespace qd::codegen
