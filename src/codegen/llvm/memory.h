// memory.h: locals and containers
//
// addresses.cpp: from indices to places; memory.cpp: accesses to containers; locals.cpp: accesses to locals.
#pragma once

#include "codegen/llvm/operators.h"

#include <deque>

namespace qd::codegen {

class Memory : EmitterPart {
public:
  Memory(LaneBuilder &in, Operators &operators) : EmitterPart(in), operators(operators) {}

  //--- Places ---
  LocalStorage *makeLocal(mlir::Type pointee, llvm::ArrayRef<LaneKind> kinds, llvm::StringRef name = "");
  /// `isRead`: the element is only read.
  MemoryPlace getElement(const Tensor &tensor, llvm::ArrayRef<Component> indices, mlir::TypeRange types, bool isRead = false);
  Place getComponent(const Place &place, llvm::ArrayRef<Component> indices, mlir::TypeRange types);
  llvm::Value *getExtent(const Tensor &tensor, int64_t axis, bool isWide = true);
  /// Bytes from element to element along each axis.
  llvm::SmallVector<llvm::Value *, 4> getStrides(const Tensor &tensor);

  //--- Accesses ---
  Components load(const Place &place, bool isVolatile = false);
  void store(const Place &place, const Components &value, bool masked);
  /// Stores the values of the active lanes side by side, in their order; `place` is that of the first one.
  void compress(const MemoryPlace &place, const Component &value, bool clobbers);
  /// Components of a packed value in memory that belongs to no container.
  Components loadPacked(mlir::Type type, llvm::Value *pointer, bool invariant);
  void storePacked(mlir::Type type, const Components &value, llvm::Value *pointer);
  llvm::Value *fromMemory(mlir::Type scalar, llvm::Value *value);
  llvm::Value *toMemory(mlir::Type scalar, llvm::Value *value);

  Columns columns; ///< that the thread accesses; set while they are emitted

private:
  // addresses.cpp
  llvm::Value *loadNumber(const Tensor &tensor, int64_t position, bool isWide);
  Component getTile(const Component &index, mlir::Type type, int64_t first, int64_t length, bool isRest);
  MemoryPlace locate(const Tensor &tensor, llvm::ArrayRef<Component> indices, mlir::TypeRange types);
  Component removeClamps(const Component &index);
  Component clampAtBorder(const Component &index, int64_t first, int64_t length);
  void addWay(MemoryPlace &place, const Tensor &tensor, llvm::ArrayRef<Component> indices, llvm::ArrayRef<Component> others,
              mlir::TypeRange types, std::function<MemoryPlace()> otherwise);

  // memory.cpp
  struct Access;
  Access chooseAccess(const MemoryPlace &place, bool isVolatile);
  bool hasShortGaps(int64_t group, int64_t width);
  Components loadMemory(const MemoryPlace &place, bool isVolatile);
  Components loadUnclamped(const MemoryPlace &place);
  Components loadOnce(const MemoryPlace &place, llvm::Value *pointer, const Access &access, bool isVolatile);
  Components loadLanes(const MemoryPlace &place, int64_t offset, const Access &access);
  Components loadWide(const MemoryPlace &place, llvm::Value *pointer, const Access &access);
  /// One access of a vector, under a mask if there is one. Other lanes get `others`, or zeros.
  llvm::Value *loadVector(const MemoryPlace &place, llvm::Type *type, llvm::Value *pointer, llvm::Align align, llvm::Value *mask,
                          llvm::Value *others = nullptr);
  void storeVector(const MemoryPlace &place, llvm::Value *value, llvm::Value *pointer, llvm::Align align, llvm::Value *mask);
  Components loadRows(const MemoryPlace &place, int64_t offset, const Access &access);
  llvm::Value *loadWindows(const MemoryPlace &place, int64_t offset, const Access &access);
  llvm::Value *loadRuns(const MemoryPlace &place, int64_t offset, const Access &access);
  Component gather(const MemoryPlace &place, int64_t offset, const Access &access);
  void storeMemory(const MemoryPlace &place, const Components &value);
  void storeLanes(const MemoryPlace &place, int64_t offset, llvm::ArrayRef<llvm::Value *> parts, llvm::Align align);
  void storeRows(const MemoryPlace &place, int64_t offset, llvm::ArrayRef<llvm::Value *> parts, llvm::Align align);
  llvm::SmallVector<llvm::Value *, 16> getRowMasks(unsigned group, unsigned width);
  llvm::SmallVector<llvm::Value *, 16> getRowParts(llvm::Value *rows, unsigned width, unsigned group);
  void storeWide(const MemoryPlace &place, llvm::ArrayRef<llvm::Value *> parts, llvm::Value *pointer, const Access &access);
  /// One vector of a wide access: the number of its first element, and its mask or null.
  struct WideVector {
    int64_t start;
    llvm::Value *mask;
  };
  llvm::SmallVector<WideVector, 8> listWideVectors(const Access &access, bool isLoad);
  llvm::Value *getPointers(const MemoryPlace &place, int64_t offset);
  llvm::Value *getLanePointer(const MemoryPlace &place, int64_t offset, unsigned lane);
  llvm::Value *joinScalars(llvm::ArrayRef<llvm::Value *> scalars);

  // locals.cpp
  Components loadLocal(const LocalPlace &place);
  void storeLocal(const LocalPlace &place, const Components &value, bool masked);
  llvm::Value *loadNear(const LocalStorage &local, llvm::Type *type, llvm::Align align, const Component &index);
  llvm::Value *getLocalPointers(const LocalStorage &local, const Component &index);

  Operators &operators;
  std::deque<LocalStorage> storages;
};

} // namespace qd::codegen
