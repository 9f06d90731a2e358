// values.h: what the emitter stores for a value, a place and a container of the language
#pragma once

#include "codegen/llvm/lane_kind.h"
#include "ir/dialect.h"

#include "llvm/ADT/SmallVector.h"

#include <functional>
#include <memory>
#include <variant>

namespace llvm {
class AllocaInst;
class Value;
} // namespace llvm

namespace qd::codegen {

/// One scalar of a value for all lanes: an LLVM scalar when uniform or linear (then the value in lane 0), a vector when varying.
struct Component {
  llvm::Value *value = nullptr;
  LaneKind kind = LaneKind::uniform();
};
using Components = llvm::SmallVector<Component, 4>;

/// A container: its QdTensorArgument, and whether this task has a private copy of its data.
struct Tensor {
  ir::TensorType type;
  llvm::Value *descriptor = nullptr; ///< pointer to the QdTensorArgument
  llvm::Value *data = nullptr;
  int scope = -1;             ///< alias scope (ModuleEmitter::getAliasScope); -1: unknown
  bool isPrivate = false;     ///< no other thread accesses the data: atomics need not be atomic
  bool isShared = false;      ///< the data lie in the shared memory of a block
  bool isInterleaved = false; ///< iterations store to parts of elements and then read (InterleavedAccesses)
  int64_t alignment = 0;      ///< every element lies at a multiple of this many bytes, and consists of parts of that size; 0: unknown
  int64_t margin = 0;         ///< bytes before the data and after them that may be read
  int64_t rowAlignment = 0;   ///< the data and all strides but the last are multiples of this many bytes; 0: unknown
};

/// Memory of a local: one slot per component, or one array when there are many components.
struct LocalStorage {
  llvm::SmallVector<llvm::Value *, 4> slots; ///< pointers
  llvm::SmallVector<LaneKind, 4> kinds;
  llvm::AllocaInst *array = nullptr;
};

struct AllComponents {};

/// A place in a local.
struct LocalPlace {
  mlir::Type pointee;
  const LocalStorage *storage = nullptr;
  /// All components, one of them, or the one whose index is known at run time.
  std::variant<AllComponents, size_t, Component> selected = AllComponents{};
  bool isReference = false;   ///< a local of a caller: inactive lanes may see it, so stores are always masked
  bool isAccumulator = false; ///< one lane's part of a reduction: each lane has its own

  const size_t *findNumber() const { return std::get_if<size_t>(&selected); }
  const Component *findIndex() const { return std::get_if<Component>(&selected); }
};

/// Neighboring columns of a container that one thread accesses: indices may add constants to `first`, a multiple of `count`.
struct Columns {
  llvm::Value *first = nullptr;
  int64_t count = 1;
};

/// Lane i is at base + i * stride bytes; with a stride of 0 all lanes have one address.
struct LinearLanes {
  int64_t stride = 0;
};

/// Lane i is at base + offsets[i] bytes; the offsets are a <W x i32> or <W x i64>.
struct GatheredLanes {
  llvm::Value *offsets = nullptr;
  int64_t jump = 0; ///< not 0: the lanes are neighbors, except that between two of them may be a jump of at most so many bytes upward
};

/// Gathered lanes that are rows whose stride is known at launch only: lane i is also at rows + (firstRow + i * rowStep) * rowStride +
/// rowBytes. LLVM then sees the computation that rows share.
struct RowLanes : GatheredLanes {
  llvm::Value *rows = nullptr, *rowStride = nullptr;
  int64_t firstRow = 0, rowStep = 0, rowBytes = 0;
};

struct UnclampedPlace;

/// A place in memory: the address in lane 0, or that to which the lanes add their offsets, and where the lanes are.
struct MemoryPlace {
  mlir::Type pointee;
  llvm::Value *base = nullptr;
  std::variant<LinearLanes, GatheredLanes, RowLanes> lanes = LinearLanes{};
  int64_t componentStride = 0;
  int scope = -1; ///< as in Tensor; so are the following four
  bool isPrivate = false;
  bool isShared = false;
  bool isInterleaved = false;
  int64_t margin = 0;    ///< an active lane's place and so many bytes around it may be read
  int64_t alignment = 0; ///< 0 also if this is no whole element
  int64_t multiple = 0;  ///< the address is a multiple of this many bytes in all lanes; 0: of a scalar's size
  std::shared_ptr<const UnclampedPlace> unclamped = nullptr; ///< set if the place is only read, and clamps of its indices are known

  const RowLanes *findRows() const { return std::get_if<RowLanes>(&lanes); }
  /// The offsets of gathered lanes; null if lanes are linear.
  llvm::Value *findOffsets() const {
    if (const RowLanes *rows = findRows()) return rows->offsets;
    const auto *gathered = std::get_if<GatheredLanes>(&lanes);
    return gathered ? gathered->offsets : nullptr;
  }
  bool hasTwoRuns() const {
    const auto *gathered = std::get_if<GatheredLanes>(&lanes);
    return gathered && gathered->jump > 0;
  }
  /// Bytes from lane to lane, if lanes are linear.
  int64_t getLaneStride() const { return std::get<LinearLanes>(lanes).stride; }
  bool hasOneAddress() const { return !findOffsets() && getLaneStride() == 0; }
};

/// A way to reach a place by wide accesses, which most vectors can take.
struct UnclampedPlace {
  MemoryPlace place;
  llvm::Value *isSame = nullptr;          ///< whether it is the place itself, for all lanes; null: always
  llvm::Value *lanes = nullptr;           ///< in which lanes it is the place itself; null: in all
  std::function<MemoryPlace()> otherwise; ///< emits the address of the place itself, where it is needed
};

/// What values are loaded from and stored to.
using Place = std::variant<LocalPlace, MemoryPlace>;

} // namespace qd::codegen
